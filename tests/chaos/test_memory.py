"""Publishers that do not wait, and subscribers that do not read: the broker's memory stays within a bound."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from tests.chaos._process import BrokerProcess

import tidings

MIB = 1 << 20
PAYLOAD = 32_768
MOST_MIB = 350  # of the whole process: Python, RocksDB's buffers, and what may wait for anybody


def resident_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024


async def play(process: BrokerProcess, megabytes: int) -> float:
    """The highest memory that was seen."""
    peak = 0.0
    async with (
        tidings.connect(process.address, name="p") as publisher,
        tidings.connect(process.address, name="s") as sleeper,
        tidings.connect(process.address, name="t") as other,
    ):
        durable = await sleeper.subscribe("x > 0", name="d", durable=True, queue=1000)
        fleeting = await other.subscribe("x > 0", queue=1000, policy="drop oldest")
        payload, count = os.urandom(PAYLOAD), megabytes * MIB // PAYLOAD
        waiting: set[asyncio.Task[object]] = set()
        for x in range(1, count + 1):
            waiting.add(asyncio.create_task(publisher.publish({"x": x}, payload=payload)))
            if len(waiting) >= 2000:
                _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if x % 200 == 0:
                peak = max(peak, resident_mib(process.process.pid))
        await asyncio.gather(*waiting)
        peak = max(peak, resident_mib(process.process.pid))
        received = [(await durable.get(timeout=60))["x"] for _ in range(count)]
        assert received == list(range(1, count + 1)), "it spilled to the log, and lost nothing"
        await fleeting.close()
    return peak


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_memory_is_bounded_while_nobody_reads(tmp_path: Path) -> None:
    process = BrokerProcess(tmp_path)
    try:
        megabytes = int(os.environ.get("TIDINGS_MEMORY_MEGABYTES", "1000"))
        peak = asyncio.run(play(process, megabytes))
        print(f"{megabytes} MiB published, at most {peak:.0f} MiB resident")
        assert peak < MOST_MIB
    finally:
        process.kill()
