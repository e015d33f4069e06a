"""Constraints as parts: a slot, two bounds, and perhaps a set of points.

A number is a pair (double, rest): the nearest double, and twice what the exact value is off
from it (so integers of 64 bits compare exactly with doubles). An open bound is the pair one
step of the rest further in. A text is its position, and an id for an extra (see `strings`).

A constraint becomes alternatives (any of them), each a list of parts (all of them). What no
part can say is left to `accepts`, tested on candidates only; its parts then say something weaker.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any, NamedTuple, TypeAlias

from tidings.matching.columnar.slots import (
    ABSENT,
    BOOL,
    MEMBER,
    NUMBER,
    PRESENT,
    STRANGER,
    STRING,
    TIME,
    Slots,
)
from tidings.matching.columnar.strings import ID_MAX, ID_MIN, Strings, successor
from tidings.model.constraint import (
    Constraint,
    Equals,
    Exists,
    IsA,
    Like,
    Missing,
    NotOneOf,
    OneOf,
    Prefix,
    Range,
    Regexp,
    TopicIs,
)
from tidings.model.event import LINEAGE
from tidings.model.pattern import like_prefix
from tidings.model.topic import is_pattern
from tidings.model.value import Kind, kind_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
MOST_POINTS = 0x7FFF  # a larger set is left to `accepts`
KINDS = {Kind.BOOL: BOOL, Kind.NUMBER: NUMBER, Kind.STRING: STRING, Kind.TIME: TIME}

Exact: TypeAlias = tuple[float, int]


class Part(NamedTuple):
    """lo <= value <= hi in one slot, and in (or, `outside`, not in) the points."""

    slot: int
    lo: float = -inf
    hi: float = inf
    lo_rest: int = 0
    hi_rest: int = 0
    points: tuple[Exact, ...] = ()
    outside: bool = False


class Said(NamedTuple):
    """What the parts say of a constraint: all of it, all but order among extras, or less."""

    alternatives: list[list[Part]]
    exact: bool = True  # False: `accepts` must be asked as well
    settled: bool = True  # False: `accepts` must be asked until the next frozen table


NEVER = Said([])
WEAKER = Said([[]], exact=False)


def exact_number(value: float) -> Exact:
    """A number (or bool) as the pair that compares exactly."""
    nearest = float(value)
    if type(value) is int:
        rest = value - int(nearest)
        return nearest, 2 * rest
    return nearest + 0.0, 0  # -0.0 is 0.0


def exact_time(value: datetime) -> Exact:
    return exact_number((value - EPOCH) // MICROSECOND)


class Parts:
    """Turns constraints into parts, making slots and extras as it goes."""

    def __init__(self, slots: Slots, strings: dict[int, Strings]) -> None:
        self.slots = slots
        self.strings = strings
        self._makers: dict[type, Callable[[Any], Said]] = {
            Equals: self._equals, OneOf: self._one_of, NotOneOf: self._not_one_of, Range: self._range,
            Prefix: self._prefix, Like: self._like, Regexp: self._regexp, Exists: self._exists,
            Missing: self._missing, TopicIs: self._topic, IsA: self._is_a,
        }  # fmt: skip

    def of(self, constraint: Constraint) -> Said:
        return self._makers[type(constraint)](constraint)

    def _slot(self, attribute: str, kind: str) -> int:
        number = self.slots.number(attribute, kind)
        if kind == STRING and number >= 0 and number not in self.strings:
            self.strings[number] = Strings(ordered=False)
        return number

    def _point(self, slot: int, value: Any) -> Exact:
        kind = type(value)
        if kind is str:
            return self.strings[slot].add(value)
        if kind is datetime:
            return exact_time(value)
        return exact_number(value)

    def _equals(self, c: Equals) -> Said:
        value = c.value
        kind = kind_of(value)
        if kind is None:
            return WEAKER if value is None else NEVER
        slot = self._slot(c.attribute, KINDS[kind])
        if slot < 0:
            return WEAKER
        place, rest = self._point(slot, value)
        return Said([[Part(slot, place, place, rest, rest)]])

    def _one_of(self, c: OneOf) -> Said:
        groups: dict[Kind, list[Any]] = {}
        for value in c.values:
            kind = kind_of(value)
            if kind is not None:
                groups.setdefault(kind, []).append(value)
        alternatives = []
        for kind, values in groups.items():
            slot = self._slot(c.attribute, KINDS[kind])
            if slot < 0 or len(values) > MOST_POINTS:
                return WEAKER
            points = sorted({self._point(slot, v) for v in values})
            (lo, lo_rest), (hi, hi_rest) = points[0], points[-1]
            many = tuple(points) if len(points) > 1 else ()
            alternatives.append([Part(slot, lo, hi, lo_rest, hi_rest, many)])
        return Said(alternatives)

    def _not_one_of(self, c: NotOneOf) -> Said:
        kinds = {kind_of(v) for v in c.values}
        if None in kinds or len(kinds) > 1:
            return NEVER
        if not kinds or len(c.values) > MOST_POINTS:
            return WEAKER
        slot = self._slot(c.attribute, KINDS[kinds.pop()])  # type: ignore[index]
        if slot < 0:
            return WEAKER
        points = tuple(sorted({self._point(slot, v) for v in c.values}))
        return Said([[Part(slot, points=points, outside=True)]])

    def _range(self, c: Range) -> Said:
        kinds = {kind_of(v) for v in (c.low, c.high) if v is not None}
        if len(kinds) != 1 or None in kinds:
            return WEAKER
        kind = kinds.pop()
        slot = self._slot(c.attribute, KINDS[kind])  # type: ignore[index]
        if slot < 0:
            return WEAKER
        if kind is Kind.STRING:
            return self._texts(slot, c.low, c.high, c.low_open, c.high_open)
        lo, lo_rest = (-inf, 0) if c.low is None else self._point(slot, c.low)
        hi, hi_rest = (inf, 0) if c.high is None else self._point(slot, c.high)
        return Said([[Part(slot, lo, hi, lo_rest + c.low_open, hi_rest - c.high_open)]])

    def _texts(self, slot: int, low: str | None, high: str | None, low_open: bool, high_open: bool) -> Said:
        """A range of texts. A bound that is an extra takes its whole gap in, and keeps its id."""
        strings = self.strings[slot]
        strings.ordered = True
        lo, lo_rest, hi, hi_rest, settled = -inf, 0, inf, 0, True
        if low is not None:
            lo, number = strings.add(low)
            if number:
                lo_rest, settled = ID_MIN + 2 * number + low_open, False
            else:
                lo += low_open
        if high is not None:
            hi, number = strings.add(high)
            if number:
                hi_rest, settled = ID_MAX - 2 * number - high_open, False
            else:
                hi -= high_open
        return Said([[Part(slot, lo, hi, lo_rest, hi_rest)]], settled=settled)

    def _prefixed(self, attribute: str, prefix: str) -> Said:
        slot = self._slot(attribute, STRING)
        if slot < 0:
            return WEAKER
        if not prefix:
            return Said([[Part(slot)]])
        return self._texts(slot, prefix, successor(prefix), False, True)

    def _prefix(self, c: Prefix) -> Said:
        return self._prefixed(c.attribute, c.prefix)

    def _like(self, c: Like) -> Said:
        return self._prefixed(c.attribute, "" if c.negated else like_prefix(c.pattern))._replace(exact=False)

    def _regexp(self, c: Regexp) -> Said:
        return self._prefixed(c.attribute, "")._replace(exact=False)

    def _topic(self, c: TopicIs) -> Said:
        head = c.pattern.removesuffix("/#")
        if c.negated or c.pattern == "#" or not head:
            return self._prefixed(c.attribute, "")._replace(exact=c.pattern == "#" and not c.negated)
        if not is_pattern(c.pattern):
            return self._equals(Equals(c.attribute, c.pattern))
        if is_pattern(head):
            start = head.partition("+")[0].removesuffix("/")
            return self._prefixed(c.attribute, start)._replace(exact=False)
        itself, below = self._equals(Equals(c.attribute, head)), self._prefixed(c.attribute, head + "/")
        if not itself.exact or not below.exact:
            return WEAKER
        return Said(itself.alternatives + below.alternatives, settled=below.settled)

    def _exists(self, c: Exists) -> Said:
        return self._presence(c.attribute, PRESENT)

    def _missing(self, c: Missing) -> Said:
        return self._presence(c.attribute, ABSENT)

    def _presence(self, attribute: str, kind: str) -> Said:
        slot = self.slots.number(attribute, kind)
        return WEAKER if slot < 0 else Said([[Part(slot)]])

    def _is_a(self, c: IsA) -> Said:
        if c.attribute != LINEAGE:
            return WEAKER
        if not c.negated:
            return self._presence(LINEAGE, MEMBER + c.name)
        stranger, typed = self._presence(LINEAGE, STRANGER + c.name), self._presence(LINEAGE, PRESENT)
        if not stranger.exact or not typed.exact:
            return WEAKER
        return Said([stranger.alternatives[0] + typed.alternatives[0]])
