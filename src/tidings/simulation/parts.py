"""What a simulated world is made of: machines in their places, and links between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

from tidings.store.store import Store

NEVER = float("inf")


class Machine(Protocol):
    """What is driven: a node or a client."""

    def handle(self, input: Any, now: float) -> list[Any]: ...
    def next_deadline(self) -> float | None: ...
    def check(self) -> None: ...


class Place:
    """A machine in its place: it may be up, down, or standing still."""

    __slots__ = (
        "build", "busy_until", "disk", "epoch", "held", "is_broker", "machine", "name", "routes", "skew",
        "stopped", "up", "waking",
    )  # fmt: skip

    def __init__(self, name: str, build: Callable[[], Machine], is_broker: bool, disk: Store | None) -> None:
        self.name = name
        self.build = build
        self.machine = build()
        self.is_broker = is_broker
        self.disk = disk
        self.epoch = 0  # grows at every crash; what was meant for an earlier life is dropped
        self.up = True
        self.stopped = 0  # how many incidents hold it still
        self.held: list[Any] = []
        self.skew = 0.0
        self.waking = NEVER  # the earliest wake-up that is scheduled
        self.busy_until = 0.0
        self.routes: dict[str, tuple[Place, Link, bool]] = {}  # by name: who, over what, between brokers?


class Link:
    """Both directions between two machines."""

    __slots__ = ("cut", "free_at", "last_arrival", "seconds", "session", "slower", "up", "wanted")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.up = False
        self.wanted = True  # part of the overlay
        self.session = 0  # grows when the link goes down: what was in flight is lost
        self.cut: Counter[tuple[str, str]] = Counter()  # directions that incidents block
        self.slower = 1.0
        self.last_arrival: dict[str, float] = {}  # by receiver: first in, first out
        self.free_at: dict[str, float] = {}  # by receiver: when the last byte is out


def pair(a: str, b: str) -> tuple[str, str]:
    return (a, b) if a < b else (b, a)
