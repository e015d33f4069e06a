"""A program that forks: what the child does with its copy of the bus takes nothing from the parent.

Found by an attack from outside: the child's event had the identity of the parent's next one, which was
acknowledged and lost.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

import tidings
from tidings.runtime.cluster import Cluster

BLOCKING = """
import os, sys, warnings
import tidings
warnings.simplefilter("ignore")
bus = tidings.open(sys.argv[1], name="parent")
bus.publish({"n": 0})
child = os.fork()
if child == 0:
    for act in (lambda: bus.publish({"n": 100}), lambda: bus.subscribe("n > 0"), bus.flush):
        try:
            act()
        except tidings.ClosedError as error:
            print("child", str(error)[:55], flush=True)
    bus.close()
    print("child", bus.state, flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
for n in range(1, 5):
    bus.publish({"n": n})
bus.close()
print("parent done")
"""
AWAITING = """
import asyncio, os, sys, warnings
import tidings
warnings.simplefilter("ignore")
async def main():
    async with tidings.connect(sys.argv[1], name="parent") as bus:
        await bus.publish({"n": 0})
        child = os.fork()
        if child == 0:
            try:
                await bus.publish({"n": 100})
            except tidings.ClosedError as error:
                print("child", str(error)[:55], flush=True)
            await bus.close()
            print("child", bus.state, flush=True)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        for n in range(1, 5):
            await bus.publish({"n": n})
    print("parent done")
asyncio.run(main())
"""
REFUSED = "the bus belongs to the process that this one was forked"[:55]
END = ["child closed", "parent done"]


@pytest.mark.parametrize(("program", "calls"), [(BLOCKING, 3), (AWAITING, 1)], ids=["blocking", "awaiting"])
def test_a_forked_child_is_refused_and_the_parent_loses_nothing(program: str, calls: int) -> None:
    async def scene() -> None:
        async with (
            Cluster(1) as cluster,
            tidings.connect(cluster.members[0].address, name="reader") as bus,
            bus.subscribe("n >= 0") as news,
        ):
            command = [sys.executable, "-c", program, cluster.members[0].address]
            done = await asyncio.to_thread(
                subprocess.run, command, capture_output=True, text=True, timeout=60, check=False
            )
            assert done.stdout.splitlines() == [f"child {REFUSED}"] * calls + END, done.stderr
            assert [(await news.get(timeout=60))["n"] for _ in range(5)] == [0, 1, 2, 3, 4]

    asyncio.run(scene())
