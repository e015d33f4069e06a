"""Debian's Chromium through Playwright, and the networks that the pages show.

Chromium ends with each file's tests, since Playwright's loop runs in the main thread, where no other test
could run its own beside it; the networks end with this folder's, so that they do not go on publishing.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.browser._stage import PATIENCE, Network, Stage, paced

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
ARTEFACTS = Path(__file__).resolve().parents[2] / "artefacts" / "console"
DESKTOP = {"width": 1360, "height": 860}
NARROW = {"width": 420, "height": 860}
STOCKS = ("IBM", "MSFT", "MOT", "ORCL", "DEC")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="package")
def stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    made.close()


@pytest.fixture(scope="package")
def market(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    """Four brokers with disks, subscriptions of several kinds, one slow consumer, and a busy publisher."""
    store = tmp_path_factory.mktemp("market")
    with Network(stage, 4, store=store, **{"trace.history_seconds": 120.0}) as network:
        network.subscribe(0, "StockName = 'IBM' AND change < -3", name="falls", durable=True)
        network.subscribe(1, "StockName LIKE 'M%' AND change >= 1", name="rises")
        network.subscribe(2, "volume BETWEEN 100 AND 5000", name="middling")
        network.subscribe(3, "topic = 'quotes/eu/#'", name="europe", durable=True)
        network.subscribe(3, "change > 2 OR volume > 9000", taken=False, name="idle", durable=True)
        rng = random.Random(4711)

        async def publish(count: int) -> None:
            quote = {
                "StockName": rng.choice(STOCKS),
                "change": round(rng.gauss(0, 3), 2),
                "volume": rng.randint(1, 10_000),
            }
            where = rng.choice(("eu", "eu", "us"))
            bus = network.buses[0 if count % 3 else 1]
            await bus.publish(quote, topic=f"quotes/{where}/{quote['StockName']}", lifetime=600)

        stage.beside(paced(publish, 25.0))
        yield network


class Watched:
    """A page that fails the test when anything goes wrong in it that nobody sees."""

    def __init__(self, page: Any, url: str) -> None:
        self.page, self.url = page, url
        self.wrong: list[str] = []
        self.asked: list[str] = []
        self.refused: tuple[
            str, ...
        ] = ()  # statuses of answers that the test provokes; the browser tells of them late
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("console", lambda stated: self.wrong.append(stated.text) if stated.type == "error" else None)
        page.on("request", lambda request: self.asked.append(request.url))

    def show(self, name: str) -> Any:
        self.page.goto(f"{self.url}/#/{name}")
        self.page.wait_for_selector(f'main[data-page="{name}"]')
        return self.page

    def picture(self, name: str, *, whole: bool = False) -> Path:
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        file = ARTEFACTS / f"{name}.png"
        self.page.evaluate("() => scrollTo(0, 0)")
        self.page.screenshot(path=file, animations="disabled", full_page=whole)
        return file

    def check(self) -> None:
        expected = [f"status of {status}" for status in self.refused]
        wrong = [text for text in self.wrong if not any(words in text for words in expected)]
        assert not wrong, wrong
        strange = [url for url in self.asked if not url.startswith((self.url, "data:"))]
        assert not strange, f"something was loaded from elsewhere: {strange}"


@pytest.fixture
def watched(browser: Any) -> Iterator[Any]:
    """Opens pages: `watched(url, theme="dark")`."""
    opened: list[tuple[Any, Watched]] = []

    def open(url: str, *, theme: str = "light", size: dict[str, int] | None = None, **more: Any) -> Watched:
        context = browser.new_context(viewport=size or DESKTOP, color_scheme=theme, **more)
        context.set_default_timeout(PATIENCE * 1000)
        page = Watched(context.new_page(), url)
        opened.append((context, page))
        return page

    yield open
    for context, _ in opened:
        context.close()
    for _, page in opened:
        page.check()
