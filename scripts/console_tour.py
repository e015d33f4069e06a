"""Record a tour of the console: real brokers at work, a real browser, clicked through as a person would.

    python scripts/console_tour.py

Writes docs/images/console/tour.webp: what the browser painted, when it painted it. Takes about a minute;
needs Chromium.
"""

from __future__ import annotations

import base64
import io
import random
import shutil
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.browser._stage import Network, Stage, paced  # noqa: E402

KEPT = ROOT / "docs" / "images" / "console" / "tour.webp"
SIZE: Any = {"width": 1360, "height": 860}
SHOWN = (816, 516)
EVERY = 0.2  # seconds between frames that are kept
STOCKS = ("IBM", "MSFT", "MOT", "ORCL")


def market(network: Network) -> None:
    """Subscriptions of several kinds, one slow consumer, and a busy publisher."""
    network.subscribe(0, "StockName = 'IBM' AND change < -3", name="falls", durable=True)
    network.subscribe(2, "StockName LIKE 'M%' AND change >= 1", name="rises")
    network.subscribe(3, "volume BETWEEN 100 AND 5000", name="middling")
    network.subscribe(4, "topic = 'quotes/eu/#'", name="europe", durable=True)
    network.subscribe(4, "change > 2", taken=False, name="idle", durable=True)
    rng = random.Random(11)

    async def publish(count: int) -> None:
        name = rng.choice(STOCKS)
        quote = {"StockName": name, "change": round(rng.gauss(0, 3), 2), "volume": rng.randint(1, 10_000)}
        topic = f"quotes/{rng.choice(('eu', 'us'))}/{name}"
        await network.buses[0 if count % 3 else 1].publish(quote, topic=topic, lifetime=600)

    network.stage.beside(paced(publish, 20.0))


class Recording:
    """A picture of the page, and its time."""

    def __init__(self, page: Any) -> None:
        self.frames: list[tuple[float, Image.Image]] = []
        self._session = page.context.new_cdp_session(page)
        self._session.on("Page.screencastFrame", self._take)
        self._session.send("Page.startScreencast", {"format": "png", "everyNthFrame": 3})

    def _take(self, delivered: dict[str, Any]) -> None:
        now = time.monotonic()
        if not self.frames or now - self.frames[-1][0] >= EVERY:
            with Image.open(io.BytesIO(base64.b64decode(delivered["data"]))) as picture:
                shown = picture.convert("RGB").resize(SHOWN, Image.Resampling.LANCZOS)
            self.frames.append((now, shown))
        self._session.send("Page.screencastFrameAck", {"sessionId": delivered["sessionId"]})

    def save(self, to: Path) -> None:
        self._session.remove_listener(
            "Page.screencastFrame", self._take
        )  # none may come after the browser has gone
        self._session.send("Page.stopScreencast")
        times = [at for at, _ in self.frames] + [self.frames[-1][0] + 2.0]
        first, *rest = (picture for _, picture in self.frames)
        lasts = [round(1000 * (after - at)) for at, after in pairwise(times)]
        first.save(
            to,
            save_all=True,
            append_images=rest,
            duration=lasts,
            loop=0,
            quality=45,
            method=4,
            minimize_size=True,
        )


def walk(page: Any) -> None:
    """The way of the tour; a pause at each page, for the viewer."""

    def go(name: str, seconds: float = 2.0) -> None:
        page.locator(f"nav a[href='#/{name}']").first.click()
        page.wait_for_selector(f'main[data-page="{name}"]')
        page.wait_for_timeout(1000 * seconds)

    page.wait_for_timeout(4000)
    for name in ("rates", "subscriptions", "consumers", "store", "recovery", "verdict"):
        go(name, 2.5)
    go("try", 1.0)
    area = page.get_by_label("Filter", exact=True)
    area.fill("")
    area.press_sequentially("Stock", delay=120)
    page.wait_for_selector(".editor [role=option]:has-text('StockName')")
    area.press("Enter")
    area.press_sequentially("= 'IBM' AN change > 5", delay=60)
    page.wait_for_selector(".editor .wrong")
    page.wait_for_timeout(1500)
    area.fill("StockName = 'IBM' AND change > 5")
    page.wait_for_selector("#filter-says:has-text('Normal form')")
    page.get_by_label("Attributes, as JSON").fill('{"StockName": "IBM", "change": 9, "volume": 1200}')
    page.get_by_label("Topic").fill("quotes/eu/IBM")
    page.get_by_role("button", name="Publish and watch").click()
    page.wait_for_selector(".hops li.delivered:has-text('europe')")
    page.wait_for_timeout(3000)
    page.get_by_label("Subscription", exact=True).fill("desk3/rises")
    page.get_by_role("button", name="Why?").click()
    page.wait_for_selector("[data-verdict]")
    page.wait_for_timeout(3000)
    go("overlay", 2.0)
    page.get_by_role("button", name="Use dark colours").click()
    page.wait_for_timeout(3000)


def main() -> int:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        print("Chromium is not installed: apt-get install chromium", file=sys.stderr)
        return 3
    stage = Stage()
    with tempfile.TemporaryDirectory() as store, sync_playwright() as started:
        stated = {"trace.history_seconds": 120.0}
        with Network(stage, 5, store=Path(store), **stated) as network:
            market(network)
            chromium = started.chromium.launch(executable_path=program, args=["--no-sandbox"])
            page = chromium.new_context(viewport=SIZE, color_scheme="light").new_page()
            page.goto(f"{network.url}/#/overlay")
            page.wait_for_function("() => document.querySelectorAll('.overlay .node').length === 5")
            recording = Recording(page)
            walk(page)
            recording.save(KEPT)
            chromium.close()
    stage.close()
    print(f"{KEPT.name}: {len(recording.frames)} frames, {KEPT.stat().st_size // 1024} KB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
