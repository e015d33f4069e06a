"""Many real brokers in one process, linked as a tree with the broker of a console, and events among them.

    python -m tests.browser._many '{"join": "127.0.0.1:7117", "brokers": 99, "rate": 1000}'

Each is a whole broker with its own socket, links, log and trace; only the process is shared, since a hundred
Python processes would not fit on a small machine. Prints a line of JSON when all are linked, then one a
second with the events published so far; ends with its standard input.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from contextlib import AsyncExitStack
from typing import Any

import tidings
from tidings.runtime.process import run
from tidings.runtime.service import Service
from tidings.runtime.settings import BrokerSettings, LogSettings, SecuritySettings, TraceSettings

CHILDREN = 3  # of each broker in the tree
LISTENED = 10  # every so many brokers have a subscriber; more means more hops, which one process has to carry
PUBLISHERS = 20
PIECE = 0.02  # seconds between two handfuls of events


async def main(fields: dict[str, Any]) -> None:
    count, rate = int(fields["brokers"]), float(fields["rate"])
    async with AsyncExitStack() as stack:
        addresses = [f"tidings://{fields['join']}"]
        for number in range(count):
            parent = addresses[number // CHILDREN]
            settings = BrokerSettings(
                name=f"n{number + 2}",
                listen="127.0.0.1:0",
                join=(parent,),
                security=SecuritySettings(anonymous=True),
                trace=TraceSettings(events=1_000),
                log=LogSettings(level="error"),
            )
            service = await stack.enter_async_context(Service(settings))
            addresses.append(service.server.address)
        buses = [
            await stack.enter_async_context(tidings.connect(address, name=f"client{number}"))
            for number, address in enumerate(addresses)
            if number % LISTENED == 0
        ]
        taking: list[asyncio.Task[None]] = []
        for number, bus in enumerate(buses):
            low = (number * 37) % 90
            taking.append(asyncio.create_task(taken(await bus.subscribe(f"x BETWEEN {low} AND {low + 9}"))))
        print(json.dumps({"brokers": len(addresses), "subscriptions": len(buses)}), flush=True)
        publishing = asyncio.create_task(publish(buses[:PUBLISHERS], rate))
        await asyncio.to_thread(sys.stdin.read)
        publishing.cancel()
        for task in taking:
            task.cancel()


async def taken(listener: Any) -> None:
    async for _ in listener:
        continue


async def publish(buses: list[tidings.Bus], rate: float) -> None:
    rng = random.Random(7)
    loop = asyncio.get_running_loop()
    began, done, delivered = loop.time(), 0, 0.0
    tick = asyncio.Event()
    while True:
        owed = int((loop.time() - began) * rate) - done
        for _ in range(min(owed, 200)):
            bus = buses[done % len(buses)]
            bus.publish_soon({"x": rng.randint(0, 99), "n": done}, topic=f"many/{done % 10}")
            done += 1
        if loop.time() - delivered > 1:
            delivered = loop.time()
            print(json.dumps({"published": done, "seconds": round(delivered - began, 2)}), flush=True)
        loop.call_later(PIECE, tick.set)
        await tick.wait()
        tick.clear()


if __name__ == "__main__":
    run(main(json.loads(sys.argv[1])))
