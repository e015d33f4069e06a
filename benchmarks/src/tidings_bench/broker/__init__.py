"""`tidings bench broker`: one broker process of ours beside mosquitto, NATS, Redis and amqtt.

Every broker runs as a process on loopback and is driven by a load generator in C, so that what is measured is
the broker; two cores are shared by the two. A run with an event lost, repeated or out of order does not
count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tidings.errors import MissingDependencyError
from tidings_bench.broker.rows import OURS, Row, chosen_works, left_out

WORKS = (
    "content", "topic", "latency", "openloop", "overload", "durable", "slow", "idle", "subscriptions",
    "network",
)  # fmt: skip


def run(*, quick: bool = False, only: str | None = None, rounds: int = 1) -> Iterator[Row]:
    """Rows of every work, or of those that `only` names, with commas between them."""
    from tidings_bench.broker import scale, works
    from tidings_bench.broker.generators import OWN, compiled
    from tidings_bench.broker.openloop import openloop, overload
    from tidings_bench.broker.slow import slow

    chosen = chosen_works(only, WORKS)
    works.ROUNDS.set(rounds)
    try:
        compiled(OWN)
    except MissingDependencyError as error:
        yield left_out("all works", 0, OURS, str(error))
        return
    size, amount = (works.QUICK, scale.QUICK) if quick else (works.FULL, scale.FULL)
    highest: dict[str, float] = {}
    todo: dict[str, Callable[[], Iterator[Row]]] = {
        "content": lambda: works.content(size),
        "topic": lambda: works.topic(size, highest),
        "latency": lambda: works.latency(size, highest),
        "openloop": lambda: openloop(size),
        "overload": lambda: overload(size),
        "durable": lambda: works.durable(size),
        "slow": lambda: slow(2 * size.seconds),
        "idle": lambda: scale.idle(amount),
        "subscriptions": lambda: scale.subscriptions(amount),
        "network": lambda: scale.network(amount),
    }
    for name in chosen:
        yield from todo[name]()
