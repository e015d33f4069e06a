"""Loading every kernel ahead of need.

The first process on a machine compiles the kernels and leaves them on disk, which takes some tens of
seconds; later ones load them in about one. A caller that must not wait for that at run time (a
broker past its first hundreds of subscriptions) takes `BACKGROUND`: then a thread compiles them at the
first request, and the plain index serves until they are ready. Other callers have no thread, so a simulation
replays; and a broker that stays small never imports Numba.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Iterator

from tidings.matching.columnar.jit import has_numba, has_numpy
from tidings.model.constraint import Constraint, Equals, Like, OneOf, Range
from tidings.model.event import Event
from tidings.model.expression import Arithmetic, Attribute, Compare, Literal
from tidings.model.filter import Conjunction, Filter

BOXES = 300  # rectangles, so that their own kernels are used


def warm() -> bool:
    """Use every kernel once, on a matcher that is thrown away; False without Numba."""
    return sum(1 for _ in warming()) > 0


def warming() -> Iterator[None]:
    """The same in steps of some seconds at most, so that it can be left in the middle."""
    if not has_numba():
        return
    from tidings.matching.columnar.matcher import ColumnarMatcher

    yield
    events = [Event("s", str(n), {"x": float(n), "y": 1.0, "t": f"w{n % 7}", "n": n}) for n in range(40)]
    for population in (_boxes(), _others()):
        matcher = ColumnarMatcher()
        yield
        matcher.load(population, sample=events)
        yield
        matcher.match(events[0])
        yield
        matcher.match_batch(events)
        yield
        for filter in population[:5]:
            matcher.add(filter)
        matcher.match(events[1])
        matcher.begin_merge()
        matcher.maintain(1 << 20)
        yield
        matcher.match_batch(events)
        yield


class Kernels:
    """Kernels that are compiled at their first use, while the caller waits."""

    @property
    def ready(self) -> bool:
        return has_numpy()

    def want(self) -> None:
        """They will be needed soon."""


class InBackground(Kernels):
    """Compiled by a thread at the first request: no caller waits for them."""

    def __init__(self, steps: Callable[[], Iterator[None]] = warming) -> None:
        self._steps = steps
        self._thread: threading.Thread | None = None
        self._is_done = threading.Event()
        self._is_leaving = False

    @property
    def ready(self) -> bool:
        return self._is_done.is_set() and has_numpy()

    def want(self) -> None:
        if self._thread is None:
            # a daemon, so that it delays nobody's end by more than a step
            self._thread = threading.Thread(target=self._run, name="tidings kernels", daemon=True)
            atexit.register(self.leave)
            self._thread.start()

    def _run(self) -> None:
        try:
            for _ in self._steps():
                if self._is_leaving:
                    return
        finally:
            self._is_done.set()  # the same error appears again at a visible place

    def leave(self) -> None:
        """The process ends: a compiler must not be cut off in the middle."""
        self._is_leaving = True
        if self._thread is not None:
            self._thread.join()

    def wait(self, timeout: float) -> bool:
        """Wait until they are ready; False when that took too long."""
        return self._is_done.wait(timeout)


HERE = Kernels()
BACKGROUND = InBackground()  # one for the process, as compiled kernels are


def _filter(*constraints: Constraint) -> Filter:
    return Filter("", (Conjunction(constraints),))


def _boxes() -> list[Filter]:
    return [_filter(Range("x", n % 17, n % 17 + 3), Range("y", 0, n % 5)) for n in range(BOXES)]


def _others() -> list[Filter]:
    worth = Compare(">", Arithmetic("*", Attribute("n"), Attribute("x")), Literal(5))
    some = [
        _filter(Equals("t", "w1"), Like("t", "%1%")),
        _filter(OneOf("t", ("w1", "w2")), Range("n", 1, 3)),
        Filter("", (Conjunction((Range("y", 0, 2),), (worth,)),)),
    ]
    many = [_filter(Equals("t", f"w{n}"), Range("n", n, n + 2)) for n in range(60)]
    return some + many


__all__ = ["BACKGROUND", "HERE", "InBackground", "Kernels", "warm"]
