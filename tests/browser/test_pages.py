"""Every page on real brokers, light and dark, wide and narrow; the pictures are kept as artefacts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.browser._stage import Network, Stage
from tests.browser.conftest import NARROW

from tidings.cli import main

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

# What each page has to show before it counts as shown.
SHOWN = {
    "overlay": "() => document.querySelectorAll('.overlay .node').length === 4",
    "rates": "() => parseFloat(document.querySelector('[data-tile=delivered] .value')?.textContent) > 5",
    "subscriptions": "() => document.querySelectorAll('tbody tr').length >= 5"
    " && [...document.querySelectorAll('tbody td:nth-child(4)')].some(cell => "
    "parseFloat(cell.textContent) > 0)",
    "consumers": "() => [...document.querySelectorAll('.chip')]"
    ".some(c => ['no credit', 'slow consumer'].includes(c.textContent))",
    "store": "() => document.querySelectorAll('tbody tr').length > 8",
    "recovery": "() => [...document.querySelectorAll('tbody tr')]"
    ".some(r => r.children[2].textContent !== '0')",
    "verdict": "() => document.querySelectorAll('.verdict.holds').length >= 6",
    "try": "() => document.querySelector('#subscriptions')?.children.length >= 5",
}
UNNAMED = """() => [...document.querySelectorAll(
  'button, a, input, select, textarea, [role=button], [role=img]')]
  .filter(e => e.offsetParent !== null || e instanceof SVGElement)
  .filter(e => !(e.getAttribute('aria-label') || (e.labels && e.labels.length) || e.textContent.trim()
     || e.getAttribute('alt'))).map(e => e.outerHTML.slice(0, 120))"""
WIDER = "() => document.documentElement.scrollWidth > document.documentElement.clientWidth + 1"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_shows_what_brokers_say(market: Network, watched: Any, theme: str) -> None:
    opened = watched(market.url, theme=theme)
    for name, is_shown in SHOWN.items():
        page = opened.show(name)
        page.wait_for_function(is_shown)
        assert page.evaluate(UNNAMED) == [], name
        assert not page.evaluate(WIDER), f"{name} is wider than the window"
        if name != "try":  # its picture is taken with an event on its way
            opened.picture(f"{name}-{theme}")


def test_the_verdict_holds_over_what_was_recorded(market: Network, watched: Any) -> None:
    page = watched(market.url).show("verdict")
    page.wait_for_function(SHOWN["verdict"])
    assert page.locator(".verdict.broken").count() == 0, page.locator(".verdict.broken").all_text_contents()
    assert "of 4 brokers" in page.text_content("[role=status].note")
    judged = page.eval_on_selector_all(".verdict.holds", "cards => cards.map(c => c.dataset.property)")
    assert {"legality", "validity", "completeness", "minimality", "fifo"} <= set(judged)


def test_narrow_windows_show_every_page_too(market: Network, watched: Any) -> None:
    opened = watched(market.url, size=NARROW)
    for name, is_shown in SHOWN.items():
        page = opened.show(name)
        page.wait_for_function(is_shown)
        assert not page.evaluate(WIDER), f"{name} is wider than the window"
    opened.show("overlay").wait_for_function(SHOWN["overlay"])
    opened.picture("narrow-light")


def test_pages_are_reached_and_colours_turned_by_keyboard(market: Network, watched: Any) -> None:
    page = watched(market.url).show("overlay")
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.textContent") == "Skip to the page"
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector('main[data-page="rates"]')
    page.get_by_role("button", name="Use dark colours").press("Enter")
    assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"
    page.reload()
    page.wait_for_selector('main[data-page="rates"]')
    assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"


def test_a_page_loads_few_files_and_few_bytes(market: Network, watched: Any) -> None:
    """From nothing to the first picture of the overlay; how long that takes is the machine's own affair."""
    page = watched(market.url).show("overlay")
    page.wait_for_function(SHOWN["overlay"])
    sizes = page.evaluate("() => performance.getEntriesByType('resource').map(each => each.encodedBodySize)")
    assert len(sizes) <= 30
    assert sum(sizes) <= 150_000


@pytest.fixture(scope="module")
def reporting(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Network, Path]]:
    """One broker whose console reads what others leave in a folder."""
    folder = tmp_path_factory.mktemp("reports")
    for name in ("studies", "quality"):
        (folder / name).mkdir()
    first = {
        "console.studies": str(folder / "studies"),
        "console.quality": [str(folder / "quality")],
        "console.flows": [str(folder / "flow.jsonl")],
    }
    with Network(stage, 1, first=first) as network:
        yield network, folder


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pages_without_data_say_how_to_get_some(
    reporting: tuple[Network, Path], watched: Any, theme: str
) -> None:
    network, _ = reporting
    opened = watched(network.url, theme=theme)
    for name, says in {
        "subscriptions": "Nobody has subscribed yet",
        "consumers": "Everybody keeps up",
        "store": "No event is available here",
        "verdict": "No broker records its history",
        "streams": "No flow has reported a batch",
    }.items():
        opened.show(name).wait_for_selector(f".nothing:has-text('{says}')")
    opened.picture(f"empty-{theme}")


def test_a_study_is_shown_with_its_claims_and_plots(
    reporting: tuple[Network, Path], watched: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """A real one, in its quick form; and a file that is broken hides nothing."""
    network, folder = reporting
    studies = folder / "studies"
    main(["study", "run", "policies", "--quick", "--json", "--plots", str(studies)])
    (studies / "policies.json").write_text(capsys.readouterr().out)
    for theme in ("light", "dark"):
        opened = watched(network.url, theme=theme)
        page = opened.show("studies")
        page.wait_for_selector("[data-study=policies] >> text=reproduced")
        page.wait_for_function(
            "() => [...document.querySelectorAll('.pictures img')].every(each => each.naturalWidth > 100)"
        )
        opened.picture(f"studies-{theme}", whole=True)
    (studies / "half.json").write_text('{"study": ')
    page.reload()
    page.wait_for_selector(".note.warn:has-text('half.json')")
    page.wait_for_selector("[data-study=policies]")


def test_quality_is_shown_by_property_and_dimension(reporting: tuple[Network, Path], watched: Any) -> None:
    """In the form of what `tidings quality evaluate --json` prints."""
    network, folder = reporting
    for organisation, base in (("INPS", 0.95), ("INAIL", 0.72), ("CoC", 0.41)):
        qualities = [
            {"property": property, "dimension": dimension, "mean": round(min(1.0, base + 0.03 * n), 3),
             "lowest": 0.1, "objects": 1200}
            for property in ("FiscalCode", "Name", "Address")
            for n, dimension in enumerate(("completeness", "accuracy", "consistency", "currency"))
        ]  # fmt: skip
        change = {"change": f"{organisation}/Holder/17/name/accuracy", "value": 0.4, "before": 0.9}
        lines = [change, {"organisation": organisation, "qualities": qualities}]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / "quality" / f"{organisation}.jsonl").write_text(text)
    for theme in ("light", "dark"):
        opened = watched(network.url, theme=theme)
        page = opened.show("quality")
        page.wait_for_selector("[data-organisation=INPS] >> text=0.950")
        assert page.locator("[data-organisation]").count() == 3
        assert page.evaluate(UNNAMED) == []
        opened.picture(f"quality-{theme}")
