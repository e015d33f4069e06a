"""A broker is killed and comes back: the console says so, and shows what was replayed."""

from __future__ import annotations

from typing import Any

import pytest
from tests.browser._stage import Network

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

REPLAYED = """() => [...document.querySelectorAll('tbody tr')].some(row =>
  parseFloat(row.children[3].textContent) > 0
  || parseFloat(row.children[4].textContent) > 0)"""


def test_a_broker_that_was_away_is_missed_and_brought_up_to_date(market: Network, watched: Any) -> None:
    """b3 is a leaf: while it is away, events that it wants wait in the logs of the others."""
    opened = watched(market.url)
    page = opened.show("overlay")
    page.wait_for_function("() => document.querySelectorAll('.overlay .node').length === 4")
    market.stage.run(market.cluster.kill(2))
    page.wait_for_selector(".feed li.broker-down:has-text('b3')")
    page.wait_for_selector(".overlay .node.gone[data-broker=b3]")
    opened.picture("broker-away-light")
    market.stage.run(market.cluster.restart(2))
    page.wait_for_selector(".feed li.broker-up:has-text('b3')")
    dark = watched(market.url, theme="dark")
    for theme, shown in (("light", opened), ("dark", dark)):
        page = shown.show("recovery")
        page.wait_for_function(REPLAYED)
        shown.picture(f"recovery-{theme}")
