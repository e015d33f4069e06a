"""Hands on: a filter with words and squiggles, an event that is published, its way, and why not."""

from __future__ import annotations

from typing import Any

import pytest
from tests.browser._stage import Network

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

MARKUP = '<img src=x onerror="document.title=1"><b>bold</b>'


@pytest.fixture
def panel(market: Network, watched: Any) -> Any:
    page = watched(market.url).show("try")
    page.wait_for_function("() => document.querySelector('#subscriptions')?.children.length >= 5")
    return page


def write(page: Any, text: str) -> None:
    page.get_by_label("Filter", exact=True).fill(text)


def test_a_mistake_is_underlined_where_it_is(panel: Any) -> None:
    write(panel, "change < AND volume > 3")
    panel.wait_for_selector(".editor .wrong")
    assert panel.text_content(".editor .wrong") == "AND"
    assert "column 10" in panel.text_content("#filter-says")
    assert panel.get_attribute(".editor textarea", "aria-invalid") == "true"
    write(panel, "change < 3 AND volume > 3")
    panel.wait_for_selector("#filter-says:has-text('Normal form')")
    assert panel.query_selector(".editor .wrong") is None


def test_words_are_offered_and_taken_by_keyboard(panel: Any) -> None:
    write(panel, "")
    area = panel.get_by_label("Filter", exact=True)
    area.press_sequentially("Stock")
    panel.wait_for_selector(".editor [role=option]:has-text('StockName')")
    area.press("Enter")
    assert area.input_value() == "StockName "
    area.press_sequentially("lik")
    panel.wait_for_selector(".editor [role=option]:has-text('LIKE')")
    area.press("Tab")
    area.press_sequentially("'M%'")
    assert area.input_value() == "StockName LIKE 'M%'"
    panel.wait_for_selector("#filter-says:has-text('Normal form')")
    area.press("Control+Space")
    panel.wait_for_selector(".editor [role=option]")
    area.press("Escape")
    assert panel.is_hidden(".editor [role=listbox]")


def test_an_explanation_names_what_fails(panel: Any) -> None:
    write(panel, "StockName = 'IBM' AND change < -3")
    panel.get_by_label("Attributes, as JSON").fill('{"StockName": "IBM", "change": 2}')
    panel.get_by_role("button", name="Does the filter accept it?").click()
    panel.wait_for_selector("text=The filter does not accept this event.")
    failing = panel.locator(".ways .row", has_text="fails")
    assert failing.count() == 1
    assert "change < -3" in failing.text_content()


def test_attributes_that_are_no_object_are_told(panel: Any) -> None:
    panel.get_by_label("Attributes, as JSON").fill("[1, 2")
    panel.get_by_role("button", name="Publish and watch").click()
    panel.wait_for_selector("#attributes-say:has-text('no JSON object')")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_an_event_is_watched_from_broker_to_broker(market: Network, watched: Any, theme: str) -> None:
    """Published at b1, wanted by `middling` at b3 and by `europe` and `idle` at b4, behind b2."""
    opened = watched(market.url, theme=theme)
    panel = opened.show("try")
    panel.get_by_label("Attributes, as JSON").fill('{"StockName": "IBM", "change": 9, "volume": 1200}')
    panel.get_by_label("Topic").fill("quotes/eu/IBM")
    panel.get_by_role("button", name="Publish and watch").click()
    panel.wait_for_selector(".hops li.delivered:has-text('desk3/middling')")
    panel.wait_for_selector(".hops li.delivered:has-text('desk4/europe')")
    steps = panel.eval_on_selector_all(".hops li", "items => items.map(i => i.lastChild.textContent)")
    assert any(step.startswith("b1 published by") for step in steps)
    assert any(step.startswith("b1 sent to b2") for step in steps)
    assert any(step.startswith("b2 sent to b4") for step in steps)
    panel.get_by_label("Subscription", exact=True).fill("desk2/rises")
    panel.get_by_role("button", name="Why?").click()
    panel.wait_for_selector("[data-verdict]:has-text('its filter does not accept the event')")
    opened.picture(f"try-{theme}", whole=True)


def test_an_event_that_just_came_is_followed(panel: Any) -> None:
    panel.get_by_role("button", name="Follow event").first.click()
    panel.wait_for_selector(".hops li:has-text('published by')")


def test_markup_in_events_and_filters_is_shown_as_text(market: Network, watched: Any) -> None:
    market.subscribe(0, f"note = '{MARKUP}'", name=f"x{MARKUP}")
    receipt = market.publish(0, {"note": MARKUP}, topic="notes", lifetime=600)
    opened = watched(market.url)
    page = opened.show("subscriptions")
    page.get_by_label("Search subscriptions").fill("onerror")
    page.wait_for_selector("td.filter:has-text('onerror')")
    assert MARKUP in page.text_content("td.filter")
    page = opened.show("store")
    page.get_by_label("Only events that this filter accepts").fill("EXISTS note")
    page.wait_for_selector("td.filter:has-text('onerror')")
    page.goto(f"{market.url}/#/try?trace={receipt.id}&source={receipt.source}")
    page.wait_for_selector(".hops li.delivered:has-text('onerror')")
    assert page.query_selector("main img") is None
    assert page.query_selector("main b") is None
    assert "Tidings" in page.title()
