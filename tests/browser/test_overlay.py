"""The overlay as it is, on real brokers, and as it rearranges itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.browser._stage import Network, Stage

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

LINKS = "() => window.tidingsGraph && [...window.tidingsGraph.links.keys()].sort()"


def test_every_broker_and_every_link_is_drawn(market: Network, watched: Any) -> None:
    page = watched(market.url).show("overlay")
    page.wait_for_function("() => document.querySelectorAll('.overlay .node').length === 4")
    names = page.eval_on_selector_all(".overlay .node", "nodes => nodes.map(n => n.dataset.broker)")
    assert sorted(names) == ["b1", "b2", "b3", "b4"]
    assert page.evaluate(LINKS) == ["b1 b2", "b1 b3", "b2 b4"]
    page.wait_for_function(
        "() => parseFloat(document.querySelector('[data-tile=published] .value')?.textContent) > 5"
    )


def test_brokers_can_be_walked_through_by_keyboard(market: Network, watched: Any) -> None:
    page = watched(market.url).show("overlay")
    page.wait_for_function("() => document.querySelectorAll('.overlay .node').length === 4")
    page.locator(".overlay .node[tabindex='0']").focus()
    first = page.evaluate("() => document.activeElement.dataset.broker")
    seen = {first}
    for key in ("ArrowLeft", "ArrowLeft", "ArrowLeft", "ArrowRight", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
        seen.add(page.evaluate("() => document.activeElement.dataset.broker"))
    assert len(seen) == 4  # they stand in a line
    label = page.evaluate("() => document.activeElement.getAttribute('aria-label')")
    assert "subscription" in label
    assert "event" in label
    chosen = page.evaluate("() => document.activeElement.dataset.broker")
    page.keyboard.press("Enter")
    page.wait_for_function(
        "name => [...document.querySelectorAll('.card h2')].some(h => h.textContent.startsWith(name))",
        arg=chosen,
    )


@pytest.fixture(scope="module")
def rearranging(stage: Stage) -> Iterator[Network]:
    """Brokers that swap links by what is wanted where: the tree of the cluster at first."""
    with Network(stage, 6, system="socbr") as network:
        yield network


def test_a_swap_is_seen_as_it_happens(rearranging: Network, watched: Any) -> None:
    """b4 and b6, far from one another in the tree, come to want the same at the same moment, and become
    neighbours: whether b4 has heard of b6 when it looks or not."""
    opened = watched(rearranging.url)
    page = opened.show("overlay")
    page.wait_for_function("() => document.querySelectorAll('.overlay .node').length === 6")
    before = page.evaluate(LINKS)
    assert "b4 b6" not in before
    rearranging.subscribe(5, "x <= 0.5")
    rearranging.subscribe(3, "x <= 0.4")
    has_changed = "before => " + LINKS[6:] + ".join() !== before"
    page.wait_for_function(has_changed, arg=",".join(before))
    page.wait_for_selector(".feed li.swap")
    page.wait_for_selector(".feed li.link-up")
    opened.picture("overlay-swap-light")
    page.wait_for_function("() => " + LINKS[6:] + ".length === 5")
