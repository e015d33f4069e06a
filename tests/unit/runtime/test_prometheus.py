"""Metrics, alert rules and the dashboard, judged by promtool and a Prometheus server of the system."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import tidings
from tidings.runtime.service import Service
from tidings.runtime.settings import read_settings

MONITORING = Path(__file__).parents[3] / "deploy" / "monitoring"
METRIC = re.compile(r"\b(?:tidings|process)_[a-z_]+\b|\bup\b")
VARIABLES = {"$__rate_interval": "1m", "$broker": ".*"}
needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None,
    reason="prometheus and promtool are not installed (apt install prometheus)",
)


def dashboard_queries() -> list[str]:
    dashboard = json.loads((MONITORING / "dashboard.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    for name, value in VARIABLES.items():
        queries = [query.replace(name, value) for query in queries]
    return queries


def alert_queries() -> list[str]:
    text = (MONITORING / "alerts.yml").read_text()
    return [line.partition("expr: ")[2] for line in text.splitlines() if line.lstrip().startswith("expr: ")]


def checked(*command: str, text: str = "") -> str:
    done = subprocess.run(
        ["promtool", "check", *command], input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[str]:
    """A server that scrapes the broker; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shutil.copy(MONITORING / "alerts.yml", folder)
    config = (MONITORING / "prometheus.yml").read_text()
    config = config.replace("127.0.0.1:9117", target).replace("15s", "1s")
    (folder / "prometheus.yml").write_text(config)
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                "prometheus", f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'tsdb'}",
                f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn",
            ],
            stdout=log, stderr=log,
        )  # fmt: skip
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()


async def asked(address: str, path: str, **query: str) -> Any:
    def get() -> Any:
        with urllib.request.urlopen(f"{address}{path}?{urllib.parse.urlencode(query)}", timeout=30) as answer:
            return json.load(answer)

    return (await asyncio.to_thread(get))["data"]


async def scraped(address: str) -> None:
    """Wait until the server has two samples of the broker."""
    while True:
        try:
            found = await asked(address, "/api/v1/query", query="count_over_time(tidings_ready[1m])")
        except OSError:
            found = {"result": []}
        if found["result"] and float(found["result"][0]["value"][1]) >= 2:
            return
        await asyncio.sleep(0)


async def story(folder: Path) -> None:
    fields = {
        "name": "b1", "listen": "127.0.0.1:0", "security.anonymous": True, "store": str(folder / "store"),
        "http": "127.0.0.1:0",
    }  # fmt: skip
    async with Service(read_settings(fields=fields)) as service:
        assert service.http is not None
        target = service.http.address.removeprefix("http://")
        async with tidings.connect(service.server.address, name="ann") as bus:
            async with bus.subscribe("n > 0", name="old", durable=True):
                pass
            for n in range(3):
                await bus.publish({"n": n + 1})
            page, pin = "", 'tidings_log_pin_offset{broker="b1",kind="subscription",name="ann/old"} 1.0'
            while pin not in page:  # the broker looks at its log once a second
                page = await asyncio.to_thread(
                    lambda: urllib.request.urlopen(f"http://{target}/metrics").read().decode()
                )
            checked("metrics", text=page)
            assert 'tidings_log_oldest_offset{broker="b1"} 1.0' in page
            with prometheus(folder, target) as server:
                await scraped(server)
                (active,) = (await asked(server, "/api/v1/targets"))["activeTargets"]
                assert active["health"] == "up", active["lastError"]
                known = set(await asked(server, "/api/v1/label/__name__/values"))
                lacking = {"tidings_group_caught_up"}  # of groups alone
                for query in (*dashboard_queries(), *alert_queries()):
                    await asked(server, "/api/v1/query", query=query)  # an error is a status that raises
                    assert set(METRIC.findall(query)) <= known | lacking, query
                rules = await asked(server, "/api/v1/rules")
                assert all(rule["health"] in ("ok", "unknown") for rule in rules["groups"][0]["rules"])
                ready = await asked(server, "/api/v1/query", query='tidings_ready{broker="b1"}')
                assert ready["result"][0]["value"][1] == "1"


@needs_prometheus
def test_a_prometheus_server_scrapes_a_broker_and_runs_every_query(tmp_path: Path) -> None:
    async def run() -> None:
        async with asyncio.timeout(120):
            await story(tmp_path)

    asyncio.run(run())


@needs_prometheus
def test_promtool_takes_the_rules() -> None:
    assert "12 rules found" in checked("config", str(MONITORING / "prometheus.yml"))


def test_every_alert_says_what_to_do_and_panels_have_queries() -> None:
    text = (MONITORING / "alerts.yml").read_text()
    assert text.count("- alert:") == text.count("summary:") == text.count("action:") == len(alert_queries())
    assert len(dashboard_queries()) >= 20
