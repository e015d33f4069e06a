"""A client of either version, as a process: it is started with the interpreter of its release.

python _client.py publish NAME ADDRESS     publish numbers until input ends; a line for each kept one
python _client.py listen NAME ADDRESS      a durable subscription; a line for each event
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

import tidings

PAUSE = 0.005  # seconds between two publishes of a line
AT_ONCE = 4  # publishes that wait for their acknowledgement


def say(*words: object) -> None:
    print(*words, flush=True)


async def publish(bus: tidings.Bus, stop: asyncio.Event) -> None:
    numbers = iter(range(1_000_000_000))

    async def line() -> None:
        while not stop.is_set():
            number = next(numbers)
            try:
                await bus.publish({"who": bus.name, "number": number}, mode="kept")
            except tidings.UnknownOutcomeError:
                say("unknown", number)
            else:
                say("kept", number)
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), PAUSE)

    say("ready")
    await asyncio.gather(*(line() for _ in range(AT_ONCE)))


async def listen(bus: tidings.Bus, stop: asyncio.Event) -> None:
    async def read() -> None:
        async with bus.subscribe("EXISTS number", name="all", durable=True) as news:
            say("ready")
            while True:
                event = await news.get()
                say("received", event.attributes["who"], event.attributes["number"])

    reading = asyncio.create_task(read())
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait((reading, stopping), return_when=asyncio.FIRST_COMPLETED)
    for task in (reading, stopping):
        task.cancel()
    ended = await asyncio.gather(reading, stopping, return_exceptions=True)
    if isinstance(ended[0], Exception):
        raise ended[0]


async def main(what: str, name: str, address: str) -> None:
    stop = asyncio.Event()

    async def wait() -> None:
        await asyncio.to_thread(sys.stdin.read)
        stop.set()

    waiting = asyncio.create_task(wait())
    async with tidings.connect(address, name=name, timeout=60) as bus:
        await {"publish": publish, "listen": listen}[what](bus, stop)
    await waiting


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
