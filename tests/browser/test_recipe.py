"""The FastAPI recipe in a browser: `EventSource` gets the events that the filter accepts."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

pytestmark = pytest.mark.browser
RECIPES = Path(__file__).parents[2] / "examples" / "recipes"
PATIENCE = 120.0
OPEN = """() => new Promise(ready => {
    window.got = [];
    const where = encodeURIComponent("total > 100");
    const source = new EventSource(`/orders/events?where=${where}`);
    source.onopen = () => ready();
    source.onmessage = message => window.got.push(message.data);
})"""


def test_events_reach_a_browser_by_filter(browser: Any) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    path = ":".join([str(RECIPES), *(entry for entry in sys.path if entry)])
    words = ["-m", "uvicorn", "fastapi_app:app", "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen(
        [sys.executable, *words], env={"PYTHONPATH": path, "PATH": ""}, stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        while True:
            assert server.poll() is None, "uvicorn ended"
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
        url = f"http://127.0.0.1:{port}"
        page = browser.new_page()
        page.goto(f"{url}/openapi.json")
        page.evaluate(OPEN)
        for number, total in ((1, 5.0), (2, 500.0), (3, 5000.0)):
            httpx.post(f"{url}/orders", json={"number": number, "total": total}, timeout=PATIENCE)
        page.wait_for_function("window.got.length === 2", timeout=PATIENCE * 1000)
        got = [json.loads(each) for each in page.evaluate("window.got")]
        assert [order["number"] for order in got] == [2, 3]
        page.close()
    finally:
        server.terminate()
        server.wait(PATIENCE)
