"""The two ends of a round trip, each a process of its own: the publisher, and the subscriber that receives
its events.

    python -m tidings_bench.round_trip mouth ADDRESS RATE SECONDS
    python -m tidings_bench.round_trip ear ADDRESS durable|transient [PATIENCE]

Rules
- Both say what they have to say as one line of JSON. The mouth: how many it published and in how many
  seconds. The ear: `{}` when it listens; then, for each line that names a count, the delays of as many events
  as came within `PATIENCE` seconds, in order. So the bench ends, however slow a part is.
- Each event says when it was sent, by the clock that both ends share.
- The mouth has at most `UNDER_WAY` events without an answer: a broker that cannot keep up is seen in the
  rate, not in a queue of the mouth's own.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from typing import Any

PATIENCE = 20.0  # seconds that the ear waits for the rest
STEP = 0.01  # seconds between two handfuls of the mouth
UNDER_WAY = 5_000
GO, BACK = "go", "back"
DURABLE, TRANSIENT = "durable", "transient"


async def publish(address: str, rate: float, seconds: float) -> dict[str, float]:
    """At a steady rate."""
    import tidings

    sent = 0
    waiting: set[asyncio.Task[Any]] = set()
    async with tidings.connect(address, name="mouth") as bus:
        began = time.perf_counter()
        while (now := time.perf_counter() - began) < seconds:
            while sent < now * rate and len(waiting) < UNDER_WAY:
                task = asyncio.ensure_future(bus.publish({"sent": time.time()}, topic=GO))
                waiting.add(task)
                task.add_done_callback(waiting.discard)
                sent += 1
            await asyncio.sleep(STEP)
        if waiting:
            await asyncio.gather(*waiting)
        return {"sent": sent, "seconds": time.perf_counter() - began}


async def measure(address: str, kind: str, patience: str | float = PATIENCE) -> None:
    """Until standard input ends."""
    import tidings

    loop = asyncio.get_running_loop()
    took: list[float] = []
    async with (
        tidings.connect(address, name="ear") as bus,
        bus.subscribe(f"topic = '{BACK}'", queue=1_000_000, durable=kind == DURABLE, name=kind) as listener,
    ):
        print("{}", flush=True)

        async def listen() -> None:
            async for event in listener:
                took.append(time.time() - float(event["sent"]))  # noqa: PERF401

        subscription = asyncio.create_task(listen())
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            count, until = int(line), time.monotonic() + float(patience)
            while len(took) < count and time.monotonic() < until and not subscription.done():
                await asyncio.sleep(STEP)
            print(json.dumps(took[:count]), flush=True)
            took.clear()
        subscription.cancel()
        await listener.unsubscribe()  # a durable one would be served for as long as the bench goes on


class End:
    """One of the two processes, as the bench holds it."""

    def __init__(self, *words: object) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", __name__, *map(str, words)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def answer(self, word: object = None) -> Any:
        """Send it a line, then read its next answer."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        if word is not None:
            process.stdin.write(f"{word}\n")
            process.stdin.flush()
        return json.loads(process.stdout.readline())

    def __enter__(self) -> End:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def main(end: str, address: str, *more: str) -> None:
    if end == "ear":
        asyncio.run(measure(address, *more))
    else:
        rate, seconds = map(float, more)
        print(json.dumps(asyncio.run(publish(address, rate, seconds))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
