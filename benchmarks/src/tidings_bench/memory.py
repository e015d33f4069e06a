"""Memory of a subscription in a whole broker: bytes of the process, not of one table in it.

Each broker lives in a process of its own and takes the texts of W2. A thousand subscriptions come first
and are not counted (with them come the kernels and the tables of fixed size); then the rest come, all
upkeep is done, and the growth of the resident memory is divided by their number.

- *embedded broker*: the node of `tidings.connect()`, without handles.
- *broker of a network*: the node of `tidings broker`: routing and recovery beside delivery.
- *embedded broker and handles*: subscribed one by one through `bus.subscribe`, so that the client's
  state and the application's handle of each subscription are in the same process, and in the figure.
"""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from tidings.errors import InputError, TidingsError

BEFORE = 1_000  # subscriptions that come first and are not counted
BROKERS = ("embedded broker", "broker of a network", "embedded broker and handles")
SYSTEMS = {"embedded broker": "intermediary", "broker of a network": "tidings"}
STATM = Path("/proc/self/statm")
PAGE = 4096
WORK = "W2"


def memory(size: int) -> Iterator[tuple[str, float]]:
    """Each broker, and the bytes that a subscription takes of it."""
    if not STATM.exists():
        raise InputError("resident memory is read from /proc, which this system lacks")
    for broker in BROKERS:
        yield broker, measured_apart(broker, size)


def measured_apart(broker: str, size: int) -> float:
    command = [sys.executable, "-m", "tidings_bench.memory", broker, str(size)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - ourselves
    if done.returncode:
        raise TidingsError(f"the {broker} with {size} subscriptions failed: {done.stderr.strip()[-400:]}")
    return float(done.stdout)


def measure(broker: str, size: int) -> float:
    """In this process: bytes a subscription."""
    if size <= 2 * BEFORE:
        raise InputError(f"{size} subscriptions are too few to tell their memory from the rest")
    from tidings_bench.workloads import texts, workload

    some = texts(workload(WORK), size)
    grown = _of_a_node(SYSTEMS[broker], some) if broker in SYSTEMS else asyncio.run(_of_a_bus(some))
    return grown / (size - BEFORE)


def resident() -> int:
    gc.collect()
    return int(STATM.read_text().split()[1]) * PAGE


def _of_a_node(system: str, texts: Iterator[str]) -> int:
    from tidings.language.text import read_filter
    from tidings.model.subscription import DeliveryOptions, Policy
    from tidings.protocol import effects, inputs, messages
    from tidings.store.memory import MemoryStore
    from tidings.systems import Site, find_system

    node = find_system(system).build(Site(name="b0", brokers=("b0",), stable=False), Random(1))
    options = DeliveryOptions(policy=Policy.DROP_NEWEST)

    def hand(input: Any) -> None:
        for effect in node.handle(input, 1000.0):
            if isinstance(effect, effects.Persist):
                hand(inputs.Persisted(effect.token))

    def subscribe(some: Iterable[str], first: int) -> None:
        for number, text in enumerate(some, first):
            hand(
                inputs.Received(
                    "c",
                    messages.Subscribe(number, number, f"~{number:016x}", read_filter(text), options, False),
                )
            )
        upkeep(node)

    hand(inputs.Started(MemoryStore().load()))
    hand(inputs.LinkUp("c"))
    hand(inputs.Received("c", messages.Hello("c", "one")))
    subscribe(islice(texts, BEFORE), 1)
    before = resident()
    subscribe(texts, BEFORE + 1)
    return resident() - before


def upkeep(node: Any) -> None:
    """Run all upkeep of the broker's timer at once."""
    for strategy in node.slots.values():
        for matcher in strategy.matchers():
            while matcher.maintain(1_000):
                pass


async def _of_a_bus(texts: Iterator[str]) -> int:
    import tidings
    from tidings.runtime.broker import EmbeddedBroker

    bus = await tidings.connect()  # left open: to end a million subscriptions is no part of the figure
    broker = bus._broker
    assert isinstance(broker, EmbeddedBroker)
    handles = [await bus.subscribe(text) for text in islice(texts, BEFORE)]
    await asyncio.to_thread(_wait_for_kernels)
    upkeep(broker._node)
    before = resident()
    handles += [await bus.subscribe(text) for text in texts]
    upkeep(broker._node)
    grown = resident() - before
    assert len(handles) == len(bus._listeners)
    return grown


def _wait_for_kernels() -> None:
    from tidings.matching.columnar.jit import has_numba
    from tidings.matching.columnar.warm import BACKGROUND

    if has_numba():
        BACKGROUND.wait(600.0)


if __name__ == "__main__":
    sys.stdout.write(str(measure(sys.argv[1], int(sys.argv[2]))))
