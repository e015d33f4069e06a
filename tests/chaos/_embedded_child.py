"""A process that publishes to an embedded broker and listens to it, until it is killed.

Usage: _embedded_child.py STORE FIRST COUNT
Each try to publish (`tried N`), each acknowledgement (`acked N`) and each event heard (`heard N`) is a
line on standard output, written at once. With COUNT 0 it only listens, until nothing more comes.
"""

from __future__ import annotations

import asyncio
import os
import sys

import tidings

IN_FLIGHT = 8


def note(what: str, number: object) -> None:
    os.write(1, f"{what} {number}\n".encode())


async def main(store: str, first: int, count: int) -> None:
    async with (
        tidings.connect(path=store, name="child") as bus,
        bus.subscribe("n >= 0", name="jobs", durable=True, queue=16) as jobs,
    ):
        numbers = iter(range(first, first + count))

        async def publish() -> None:
            for number in numbers:
                note("tried", number)
                await bus.publish({"n": number}, id=f"job-{number}")
                note("acked", number)

        publishers = [asyncio.create_task(publish()) for _ in range(IN_FLIGHT if count else 0)]
        while True:
            try:
                event = await jobs.get(timeout=None if count else 2)
            except TimeoutError:
                break
            note("heard", event["n"])
        await asyncio.gather(*publishers)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
