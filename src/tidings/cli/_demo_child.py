"""The child process of the demonstration: publishes and consumes until its parent ends it.

It prints acknowledged and received events, line by line, at once: what a reader has seen
happened before the end. It receives one event for every two that it publishes, so that some wait
when the end comes.
"""

from __future__ import annotations

import asyncio
import sys

import tidings
from tidings.cli.output import guarded

MOST = 10_000  # a bound, in case the parent never ends it


async def main(store: str) -> None:
    async with (
        tidings.connect(path=store, name="desk") as bus,
        bus.subscribe("n > 0", name="alerts", durable=True) as listener,
    ):
        for n in range(1, MOST + 1):
            receipt = await bus.publish({"n": n}, id=f"n{n}")
            print("acknowledged", receipt.id, flush=True)
            if n % 2:
                event = await listener.get()
                position = listener.position
                assert position is not None
                print("heard", event.id, position.log, position.offset, flush=True)


if __name__ == "__main__":
    sys.exit(guarded(lambda: asyncio.run(main(sys.argv[1]))))
