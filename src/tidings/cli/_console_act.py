"""The act of the demonstration with the console: what a person would see in the browser, asked by HTTP.

The figures of the page are compared with the published events; `stay` keeps the network and its page open.
"""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import tidings
from tidings.cli.stage import Stage
from tidings.runtime.cluster import Cluster

EVENTS = 120
PATIENCE = 60.0  # seconds to wait for a page that shows everything, on a loaded machine
HISTORY_SECONDS = 180.0
PROGRAM = "tidings.console.listeners"
STOCKS = ("IBM", "MSFT", "MOT", "ORCL", "DEC")


def _cluster(count: int, listen: str) -> Cluster:
    fields = {"trace.history_seconds": HISTORY_SECONDS, "console.refresh_seconds": 0.5}
    return Cluster(count, log="error", program=PROGRAM, first={"console.listen": listen}, fields=fields)


async def console(stage: Stage, folder: Path) -> None:
    del folder
    try:
        import httpx
        import starlette  # noqa: F401
    except ImportError:
        return  # the web stack is not installed, as Spark may not be
    stage.act(
        "A page that shows all of it",
        "Three brokers, one of them with the web console: tidings cluster up 3 --console",
        gain="See it all in a browser: brokers, rates, slow consumers, losses",
    )
    async with _cluster(3, "127.0.0.1:0") as cluster:
        url = cluster.members[0].gateways["console"]
        near, far = cluster.members[1].address, cluster.members[2].address
        async with (
            tidings.connect(near, name="desk") as session,
            tidings.connect(far, name="market") as market,
            session.subscribe("change < 0", name="falls") as listener,
            httpx.AsyncClient(base_url=url, trust_env=False, timeout=PATIENCE) as client,
        ):
            for n in range(1, EVENTS + 1):
                await market.publish({"change": n if n % 3 == 0 else -n}, lifetime=600)
            received = [await listener.get(timeout=PATIENCE) for _ in range(EVENTS - EVENTS // 3)]
            tick = await _shown(client)
            verdict = (await client.get("/api/verdict")).json()
    levels = tick["total"]["levels"]
    holding = [name for name, one in verdict["properties"].items() if one["holds"]]
    broken = [name for name, one in verdict["properties"].items() if one["holds"] is False]
    stage.say(
        f"the page: {tick['total']['brokers']} brokers, {levels['published']} events, "
        f"{len(holding)} properties"
    )
    stage.claim(
        f"the console shows 3 brokers, {EVENTS} events and {len(received)} notifications: what was "
        "published and received",
        tick["total"]["brokers"] == 3
        and (levels["published"], levels["delivered"]) == (EVENTS, len(received)),
        short="a console that shows what happened",
    )
    stage.claim(
        f"{len(holding)} properties hold over what the brokers saw in the last minutes",
        bool(holding) and not broken,
    )


async def _shown(client: Any) -> dict[str, Any]:
    """The first picture of the network in which every event is."""
    async with asyncio.timeout(PATIENCE), client.stream("GET", "/api/live") as stream:
        async for line in stream.aiter_lines():
            tick = json.loads(line.removeprefix("data: ")) if line.startswith('data: {"time"') else None
            if tick and tick["total"]["levels"]["published"] >= EVENTS and tick["total"]["brokers"] == 3:
                shown: dict[str, Any] = tick
                return shown
    raise AssertionError("the stream of the console has ended")


async def stay(stage: Stage, listen: str) -> None:
    """Five brokers at work and their console, until Ctrl-C."""
    async with _cluster(5, listen) as cluster:
        stage.say(
            f"\nFive brokers at work: open {cluster.members[0].gateways['console']}   (Ctrl-C ends them)"
        )
        buses = [
            await tidings.connect(member.address, name=f"desk{number}").open()
            for number, member in enumerate(cluster.members, 1)
        ]
        filters = ("change < -3", "StockName = 'IBM'", "volume BETWEEN 100 AND 5000", "topic = 'quotes/eu/#'")
        taking = [
            asyncio.create_task(_taken(await bus.subscribe(filters[number % 4], name="wanted")))
            for number, bus in enumerate(buses)
        ]
        rng = random.Random()  # noqa: S311 - quotes of a demonstration
        while not any(task.done() for task in taking):
            stock = rng.choice(STOCKS)
            quote = {
                "StockName": stock,
                "change": round(rng.gauss(0, 3), 2),
                "volume": rng.randint(1, 10_000),
            }
            where = rng.choice(("eu", "us"))
            await rng.choice(buses[:3]).publish(quote, topic=f"quotes/{where}/{stock}", lifetime=600)
            await asyncio.sleep(rng.expovariate(40.0))


async def _taken(listener: Any) -> None:
    async for _ in listener:
        continue
