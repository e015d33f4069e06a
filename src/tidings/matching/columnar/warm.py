"""Loading every kernel ahead of need.

The first process on a machine compiles the kernels and leaves them on disk, which takes some tens of
seconds; later ones load them in about one. Whoever must not wait for that in the middle of things (a
broker past its first hundreds of subscriptions) calls `warm` beforehand, in a thread of its own.
"""

from __future__ import annotations

from tidings.matching.columnar.jit import has_numba
from tidings.model.constraint import Constraint, Equals, Like, OneOf, Range
from tidings.model.event import Event
from tidings.model.expression import Arithmetic, Attribute, Compare, Literal
from tidings.model.filter import Conjunction, Filter

BOXES = 300  # rectangles, so that their own kernels are used


def warm() -> bool:
    """Use every kernel once, on a matcher that is thrown away; False without Numba."""
    if not has_numba():
        return False
    from tidings.matching.columnar.matcher import ColumnarMatcher

    events = [Event("s", str(n), {"x": float(n), "y": 1.0, "t": f"w{n % 7}", "n": n}) for n in range(40)]
    for population in (_boxes(), _others()):
        matcher = ColumnarMatcher()
        matcher.load(population, sample=events)
        matcher.match(events[0])
        matcher.match_batch(events)
        for filter in population[:5]:
            matcher.add(filter)
        matcher.match(events[1])
        matcher.begin_merge()
        matcher.maintain(1 << 20)
        matcher.match_batch(events)
    return True


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


__all__ = ["warm"]
