"""Parts of a simulated world: machines at their places, and links between them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Protocol

from tidings.extensions import failed, package_of_module
from tidings.store.store import Store

NEVER = float("inf")
MOST_WAKES = 10_000  # of one machine at one moment


class SimulatedMachine(Protocol):
    """What is driven: a node or a client."""

    def handle(self, input: Any, now: float) -> list[Any]: ...
    def next_deadline(self) -> float | None: ...
    def check(self) -> None: ...


class MachineClock:
    """Clock of one machine. A driver reads the wall clock once, when a life begins, and counts from there; so
    a wall clock that is set shows at the next start of the machine, and its rate at once."""

    __slots__ = ("_behind", "_offset", "_rate")

    def __init__(self) -> None:
        self._offset = 0.0
        self._rate = 1.0
        self._behind = 0.0  # by how much the wall clock was set since the life began

    def local(self, now: float) -> float:
        return now * self._rate + self._offset

    def true(self, local: float) -> float:
        return (local - self._offset) / self._rate

    def jump(self, seconds: float) -> None:
        """Set the time that the running machine sees: a driver without a monotonic clock."""
        self._offset += seconds

    def set_wall(self, seconds: float) -> None:
        self._behind += seconds

    def restart(self) -> None:
        self._offset += self._behind
        self._behind = 0.0

    def not_before(self, local: float, now: float) -> None:
        """A life with a wall clock behind the latest time on its disk goes on from there, as with every
        driver."""
        ahead = max(0.0, local - self.local(now))
        self._offset += ahead
        self._behind -= ahead  # the wall clock is where it was

    def run_at(self, rate: float, now: float) -> None:
        """Go on from here at another rate."""
        self._offset += now * (self._rate - rate)
        self._rate = rate


class Host:
    """A machine in its place: it may be up, down, or standing still."""

    __slots__ = (
        "build",
        "busy_until",
        "clock",
        "disk",
        "epoch",
        "full",
        "is_broker",
        "machine",
        "name",
        "queued",
        "routes",
        "stopped",
        "sync_fails",
        "unsynced",
        "up",
        "wakes",
        "waking",
        "woken_at",
    )  # fmt: skip

    def __init__(
        self, name: str, build: Callable[[], SimulatedMachine], is_broker: bool, disk: Store | None
    ) -> None:
        self.name = name
        self.build = build
        self.machine = build()
        self.is_broker = is_broker
        self.disk = disk
        self.epoch = 0  # grows at every crash; what was meant for an earlier life is dropped
        self.up = True
        self.stopped = 0  # how many incidents hold it still
        self.queued: list[Any] = []
        self.clock = MachineClock()
        self.full = 0  # how many incidents leave no room on its disk
        self.unsynced: deque[Any] = deque()  # what is handed to the disk and due, in order
        self.sync_fails = False  # the next sync is the disk's last in this life
        self.waking = NEVER  # the earliest wake-up that is scheduled
        self.woken_at = -NEVER
        self.wakes = 0  # how often its timer fired at that moment
        self.busy_until = 0.0
        self.routes: dict[
            str, tuple[Host, SimulatedLink, bool]
        ] = {}  # by name: who, over what, between brokers?

    def woke(self, now: float) -> None:
        """Its timer fires. One that fires without end at one moment is an error: the run would not end."""
        self.waking = NEVER
        if now > self.woken_at:
            self.woken_at, self.wakes = now, 0
        self.wakes += 1
        if self.wakes > MOST_WAKES:
            raise _stuck(self, now)


def _stuck(host: Host, now: float) -> Exception:
    """The error of a machine whose timer fires again and again, with the strategies that ask for it."""
    said = f"the timer of {host.name} fired {host.wakes - 1:,} times at {now:g} s, and no time passes"
    due, package = [], None
    for strategy in getattr(host.machine, "slots", {}).values():
        deadline = strategy.next_deadline()
        if deadline is not None and deadline <= host.clock.local(now):
            kind = type(strategy)
            due.append(f"{kind.__qualname__} of {kind.__module__} ({deadline:g})")
            package = package or package_of_module(kind.__module__)
    said += f": next_deadline() is not after now in {', '.join(due)}; on_timer has to move it" if due else ""
    return AssertionError(said) if package is None else failed(package, said)


class SimulatedLink:
    """Both directions between two machines."""

    __slots__ = ("cut", "free_at", "last_arrival", "seconds", "session", "slowed", "up", "wanted")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.up = False
        self.wanted = True  # part of the overlay
        self.session = 0  # grows when the link goes down: what was in flight is lost
        self.cut: Counter[tuple[str, str]] = Counter()  # directions that incidents block
        self.slowed: list[float] = []  # by how much each incident that acts slows it; the greatest counts
        self.last_arrival: dict[str, float] = {}  # by receiver: first in, first out
        self.free_at: dict[str, float] = {}  # by receiver: when the last byte is out

    @property
    def slower(self) -> float:
        """By how much the latency is longer now. Incidents that overlap do not multiply: what was sent then
        would be on its way, and with it all that is sent behind it, long after the last fault is over."""
        return max(self.slowed, default=1.0)


def pair(a: str, b: str) -> tuple[str, str]:
    return (a, b) if a < b else (b, a)
