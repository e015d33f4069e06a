"""Pages say no more than brokers know, at any width: paces, heat, answers, examples, axes, menus, tables."""

from __future__ import annotations

from typing import Any

import pytest
from tests.browser._stage import Network
from tests.browser.conftest import NARROW
from tests.browser.test_pages import SHOWN, WIDER

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

ROW = "name => [...document.querySelectorAll('tbody tr')].find(row => row.textContent.includes(name))"
CUT = """() => [...document.querySelectorAll('select')].filter(select => {
  const style = getComputedStyle(select), pen = document.createElement('canvas').getContext('2d');
  pen.font = style.font;
  const room = select.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) - 20;
  return [...select.options].some(option => pen.measureText(option.textContent).width > room);
}).length"""
SIDEWAYS = (
    "() => [...document.querySelectorAll('.tablebox')].filter(b => b.scrollWidth > b.clientWidth + 1).length"
)
UNLABELLED = "() => [...document.querySelectorAll('tbody td')].filter(cell => !cell.dataset.label).length"


def test_a_consumer_that_takes_four_a_second_is_slow_and_its_pace_is_shown(
    market: Network, watched: Any
) -> None:
    """Its credit is 0 at nearly every look, which says nothing of how fast it is."""
    market.subscribe(1, "EXISTS volume", name="stroller", a_second=4.0, durable=True)
    page = watched(market.url).show("consumers")
    slow = "name => { const row = (" + ROW + ")(name); return row && row.querySelector('.chip').textContent }"
    page.wait_for_function("name => (" + slow + ")(name) === 'slow consumer'", arg="stroller")
    page.wait_for_function(
        "name => parseFloat(("
        + ROW
        + ")(name)?.querySelector('[data-label=\"Delivered / s\"]').textContent) > 0.5",
        arg="stroller",
    )
    assert "takes nothing" not in page.text_content("main")


def test_heat_is_on_an_absolute_scale(market: Network, watched: Any) -> None:
    """At 25 events a second no broker is hot, however quiet the others are."""
    page = watched(market.url).show("overlay")
    page.wait_for_function(
        "() => document.querySelectorAll('.overlay .node .heat-1').length"
        " && document.querySelectorAll('.overlay .node').length === 4"
    )
    assert page.locator(".overlay .node .heat-3, .overlay .node .heat-4").count() == 0
    steps = page.evaluate(
        "async () => { const { heat } = await import('/js/graph.js'); return [0, 9, 30, 500, 5000, "
        "2e5].map(heat) }"
    )
    assert steps == [0, 0, 0.25, 0.5, 0.75, 1]
    labels = page.eval_on_selector_all(".scale li", "all => all.map(e => e.textContent)")
    assert labels == ["< 10", "10+", "100+", "1k+", "10k+", "/ s"]


def test_marks_of_an_axis_are_round_numbers(market: Network, watched: Any) -> None:
    page = watched(market.url).show("rates")
    marks = page.evaluate(
        "async () => { const { marksFor } = await import('/js/plot.js');"
        " return [marksFor(250), marksFor(69), marksFor(1.02), marksFor(1.02, true), marksFor(3e6)] }"
    )
    assert marks == [
        [0, 100, 200, 300], [0, 20, 40, 60, 80], [0, 0.5, 1, 1.5], [0, 1, 2], [0, 1e6, 2e6, 3e6]
    ]  # fmt: skip


def test_an_answer_does_not_stand_beside_another_filter_or_event(market: Network, watched: Any) -> None:
    page = watched(market.url).show("try")
    ask = page.get_by_role("button", name="Does the filter accept it?")
    ask.click()
    page.wait_for_selector("[data-accepted]:has-text('The filter accepts this event.')")
    page.get_by_label("Filter", exact=True).fill("change < AND")
    page.wait_for_selector("#filter-says.bad")
    assert page.text_content("[data-accepted]") == ""
    assert ask.is_disabled()
    page.get_by_label("Filter", exact=True).fill("change < -3")
    page.wait_for_selector("#filter-says:has-text('Normal form')")
    ask.click()
    page.wait_for_selector("[data-accepted]:has-text('The filter accepts this event.')")
    page.get_by_label("Topic").fill("elsewhere")
    assert page.text_content("[data-accepted]") == ""


def test_an_example_does_not_look_like_what_was_entered(market: Network, watched: Any) -> None:
    opened = watched(market.url)
    for name in ("store", "try"):
        page = opened.show(name)
        page.wait_for_function(SHOWN[name])
        for example in page.eval_on_selector_all("input[placeholder]", "all => all.map(e => e.placeholder)"):
            assert example.startswith("e.g. ") or example == "any"
        style = page.eval_on_selector(
            "input[placeholder]",
            "e => [getComputedStyle(e, '::placeholder').fontStyle, getComputedStyle(e).fontStyle]",
        )
        assert style == ["italic", "normal"]


def test_no_choice_is_cut_at_any_width(market: Network, watched: Any) -> None:
    page = watched(market.url).show("try")
    for width in (1360, 1120, 900, 420, 360):
        page.set_viewport_size({"width": width, "height": 860})
        assert page.evaluate(CUT) == 0, width
        assert not page.evaluate(WIDER), width


def test_a_phone_has_a_menu_and_tables_without_scrolling_sideways(market: Network, watched: Any) -> None:
    opened = watched(market.url, size=NARROW)
    page = opened.show("overlay")
    menu = page.get_by_role("button", name="Overlay", exact=True)
    assert page.locator(".nav a:visible").count() == 0
    menu.click()
    assert page.locator(".nav a:visible").count() == 16
    boxes = [link.bounding_box() for link in page.locator(".nav a").all()]
    assert all(box and box["x"] >= 0 and box["x"] + box["width"] <= NARROW["width"] for box in boxes)
    assert all(box and box["height"] >= 40 for box in boxes)
    opened.picture("phone-menu-light")
    page.keyboard.press("Escape")
    assert page.locator(".nav a:visible").count() == 0
    menu.click()
    page.get_by_role("link", name="Subscriptions").click()
    page.wait_for_selector('main[data-page="subscriptions"]')
    assert page.locator(".nav a:visible").count() == 0
    for name in ("subscriptions", "consumers", "store", "recovery"):
        page = opened.show(name)
        page.wait_for_function(SHOWN[name])
        assert page.evaluate(SIDEWAYS) == 0, name
        assert page.evaluate(UNLABELLED) == 0, name
        opened.picture(f"phone-{name}-light")
    page.get_by_role("button", name="Broker").click()  # a column can still be ordered by
    page.wait_for_selector("th[aria-sort=descending]:has-text('Broker')")


def test_properties_have_names_and_the_checkers_own_sentence(market: Network, watched: Any) -> None:
    page = watched(market.url).show("verdict")
    page.wait_for_function(SHOWN["verdict"])
    titles = page.eval_on_selector_all(".verdict h2", "all => all.map(e => e.textContent)")
    assert "Unsubscribe after subscribe" in titles
    assert not [title for title in titles if title.lower().startswith("lp")]
    card = page.locator("[data-property=lp1]")
    assert "Every unsubscription has an earlier subscription" in card.text_content()
