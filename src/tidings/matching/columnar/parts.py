"""Constraints as parts: a slot, two bounds, and perhaps a set of points.

A number is a pair (double, rest): the nearest double, and twice what the exact value is off
from it (so integers of 64 bits compare exactly with doubles). An open bound is the pair one
step of the rest further in. A text is its position, and an id for an extra (see `strings`).

A constraint becomes alternatives (any of them), each a list of parts (all of them). Conditions that no
part can express are left to `accepts`, tested on candidates only; the parts are then weaker.

Packing: an event as a row of doubles, one for each slot; NaN for an empty slot.

This is the path of every single event, so it goes straight through the event's attributes
and looks up each name once. Integers beyond 2**53 and texts that are extras need a rest
beside their double: the slow way, taken only when the fast one says so.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import floor, inf
from typing import Any, NamedTuple, TypeAlias

from tidings.matching.columnar.layout import EXACT_DOUBLES, MOST_BETWEEN
from tidings.matching.columnar.programs import MARK, Derived, Program, result_of
from tidings.matching.columnar.slots import (
    ABSENT,
    BOOL,
    ID_MAX,
    ID_MIN,
    MEMBER,
    NUMBER,
    PRESENT,
    STRANGER,
    STRING,
    TIME,
    Slots,
    Strings,
    successor,
)
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
from tidings.model.event import LINEAGE, RESERVED, Event
from tidings.model.pattern import like_prefix
from tidings.model.topic import is_pattern
from tidings.model.value import INT_MAX, INT_MIN, Kind, kind_of

# -- parts -------------------------------------------------------------------------------------

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
MOST_POINTS = 0x7FFF  # a larger set is left to `accepts`
KINDS = {Kind.BOOL: BOOL, Kind.NUMBER: NUMBER, Kind.STRING: STRING, Kind.TIME: TIME}

Exact: TypeAlias = tuple[float, int]


# A part: slot, lo, hi, lo's rest, hi's rest, points, and True when the points are those left out.
# The parts of a constraint: alternatives; False when `accepts` must be asked as
# well; False when it must be asked until the next frozen table (order among extras).
# Plain tuples, for the sake of loading a million filters.
Part: TypeAlias = tuple[int, float, float, int, int, tuple[Exact, ...], bool]
Said: TypeAlias = tuple[list[list[Part]], bool, bool]

_NUMBERS = frozenset((int, float, Decimal))
NEVER: Said = ([], True, True)
WEAKER: Said = ([[]], False, True)


def exact_number(value: float | Decimal) -> Exact:
    """A number (or bool) as the pair that compares exactly."""
    if type(value) is float:
        return value + 0.0, 0  # -0.0 is 0.0
    if type(value) is int and INT_MIN <= value <= INT_MAX:
        nearest = float(value)
        rest = value - int(nearest)
        return nearest, 2 * rest
    return _exact_wide(value) if type(value) is not bool else (float(value), 0)


def _exact_wide(value: float | Decimal) -> Exact:
    """A decimal or a wide integer. Bounds are 64-bit integers and doubles: between two of these the rest
    is odd."""
    try:
        nearest = float(value) + 0.0
    except OverflowError:
        nearest = inf if value > 0 else -inf
    if nearest == value:
        return nearest, 0
    if abs(nearest) < EXACT_DOUBLES or not INT_MIN <= value <= INT_MAX:
        return nearest, 1 if value > nearest else -1
    whole = floor(value)
    return nearest, 2 * (whole - int(nearest)) + (whole != value)


def exact_time(value: datetime) -> Exact:
    return exact_number((value - EPOCH) // MICROSECOND)


def _all(slot: int) -> Part:
    """Any value in the slot."""
    return (slot, -inf, inf, 0, 0, (), False)


def _asked(stated: Said) -> Said:
    return stated[0], False, stated[2]


class ConstraintParts:
    """Turns constraints into parts, making slots and extras as it goes."""

    def __init__(self, slots: Slots, strings: dict[int, Strings], derived: Derived | None = None) -> None:
        self.slots = slots
        self.derived = Derived(slots) if derived is None else derived
        self.strings = strings
        self._known: dict[tuple[str, str], int] = {}
        self._numbers: dict[str, int] = {}  # slots of numbers, by attribute alone
        self._makers: dict[type, Callable[[Any], Said]] = {
            Equals: self._equals, OneOf: self._one_of, NotOneOf: self._not_one_of, Range: self._range,
            Prefix: self._prefix, Like: self._like, Regexp: self._regexp, Exists: self._exists,
            Missing: self._missing, TopicIs: self._topic, IsA: self._is_a,
        }  # fmt: skip

    def of(self, constraint: Constraint) -> Said:
        return self._makers[type(constraint)](constraint)

    def of_filter(self, constraint: Constraint) -> Said:
        """The same of a constraint as filters have it: a name like that of a derived one has no slot."""
        return WEAKER if constraint.attribute.startswith(MARK) else self.of(constraint)

    def _slot(self, attribute: str, kind: str) -> int:
        number = self._known.get((attribute, kind))
        if number is None:
            number = self.slots.number(attribute, kind)
            if number < 0:
                return number
            if kind == STRING and number not in self.strings:
                self.strings[number] = Strings(ordered=False)
            self._known[attribute, kind] = number
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
        if type(value) is str:
            slot = self._slot(c.attribute, STRING)
            if slot < 0:
                return WEAKER
            position, rest = self.strings[slot].add(value)
            return ([[(slot, position, position, rest, rest, (), False)]], True, True)
        kind = kind_of(value)
        if kind is None:
            return WEAKER if value is None else NEVER
        slot = self._slot(c.attribute, KINDS[kind])
        if slot < 0:
            return WEAKER
        position, rest = self._point(slot, value)
        return ([[(slot, position, position, rest, rest, (), False)]], True, True)

    def _one_of(self, c: OneOf) -> Said:
        if all(type(value) is str for value in c.values) and 1 < len(c.values) <= MOST_POINTS:
            slot = self._slot(c.attribute, STRING)
            if slot < 0:
                return WEAKER
            add = self.strings[slot].add
            points = sorted({add(value) for value in c.values})
            (lo, lo_rest), (hi, hi_rest) = points[0], points[-1]
            return (
                [[(slot, lo, hi, lo_rest, hi_rest, tuple(points) if len(points) > 1 else (), False)]],
                True,
                True,
            )
        groups: dict[Kind, list[Any]] = {}
        for value in c.values:
            kind = kind_of(value)
            if kind is not None:
                groups.setdefault(kind, []).append(value)
        alternatives: list[list[Part]] = []
        for kind, values in groups.items():
            slot = self._slot(c.attribute, KINDS[kind])
            if slot < 0 or len(values) > MOST_POINTS:
                return WEAKER
            points = sorted({self._point(slot, v) for v in values})
            (lo, lo_rest), (hi, hi_rest) = points[0], points[-1]
            many = tuple(points) if len(points) > 1 else ()
            alternatives.append([(slot, lo, hi, lo_rest, hi_rest, many, False)])
        return alternatives, True, True

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
        return ([[(slot, -inf, inf, 0, 0, points, True)]], True, True)

    def _range(self, c: Range) -> Said:
        low, high = c.low, c.high
        if (low is None or type(low) in _NUMBERS) and (high is None or type(high) in _NUMBERS):
            slot = self._numbers.get(c.attribute, -1)
            if slot < 0:
                slot = self._numbers[c.attribute] = self._slot(c.attribute, NUMBER)
            if slot >= 0 and low == low and high == high and (low is not None or high is not None):
                lo, lo_rest = (-inf, 0) if low is None else exact_number(low)
                hi, hi_rest = (inf, 0) if high is None else exact_number(high)
                part = (slot, lo, hi, lo_rest + c.low_open, hi_rest - c.high_open, (), False)
                return ([[part]], True, True)
        return self._other_range(c)

    def _other_range(self, c: Range) -> Said:
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
        return ([[(slot, lo, hi, lo_rest + c.low_open, hi_rest - c.high_open, (), False)]], True, True)

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
            elif high_open:
                hi, hi_rest = hi - 1, ID_MAX  # all of the gap below, extras included
        return ([[(slot, lo, hi, lo_rest, hi_rest, (), False)]], True, settled)

    def _prefixed(self, attribute: str, prefix: str) -> Said:
        slot = self._slot(attribute, STRING)
        if slot < 0:
            return WEAKER
        if not prefix:
            return ([[_all(slot)]], True, True)
        return self._texts(slot, prefix, successor(prefix), False, True)

    def _prefix(self, c: Prefix) -> Said:
        return self._prefixed(c.attribute, c.prefix)

    def _like(self, c: Like) -> Said:
        return _asked(self._prefixed(c.attribute, "" if c.negated else like_prefix(c.pattern)))

    def _regexp(self, c: Regexp) -> Said:
        return _asked(self._prefixed(c.attribute, ""))

    def _topic(self, c: TopicIs) -> Said:
        head = c.pattern.removesuffix("/#")
        if c.negated or c.pattern == "#" or not head:
            stated = self._prefixed(c.attribute, "")
            return stated if c.pattern == "#" and not c.negated else _asked(stated)
        if not is_pattern(c.pattern):
            return self._equals(Equals(c.attribute, c.pattern))
        if is_pattern(head):
            start = head.partition("+")[0].removesuffix("/")
            return _asked(self._prefixed(c.attribute, start))
        itself, below = self._equals(Equals(c.attribute, head)), self._prefixed(c.attribute, head + "/")
        if not itself[1] or not below[1]:
            return WEAKER
        return itself[0] + below[0], True, below[2]

    def _exists(self, c: Exists) -> Said:
        return self._presence(c.attribute, PRESENT)

    def _missing(self, c: Missing) -> Said:
        return self._presence(c.attribute, ABSENT)

    def _presence(self, attribute: str, kind: str) -> Said:
        slot = self.slots.number(attribute, kind)
        return WEAKER if slot < 0 else ([[_all(slot)]], True, True)

    def _is_a(self, c: IsA) -> Said:
        if c.attribute != LINEAGE:
            return WEAKER
        if not c.negated:
            return self._presence(LINEAGE, MEMBER + c.name)
        stranger, typed = self._presence(LINEAGE, STRANGER + c.name), self._presence(LINEAGE, PRESENT)
        if not stranger[1] or not typed[1]:
            return WEAKER
        return [stranger[0][0] + typed[0][0]], True, True


# -- pack --------------------------------------------------------------------------------------

NO_TEXTS = Strings(ordered=False)


class AttributePlan(NamedTuple):
    """Slots of one attribute's values, by kind; the last place of a row takes values without a slot."""

    number: int
    text: int
    known: dict[str, float]
    strings: Strings
    flag: int
    time: int
    present: int


Node: TypeAlias = tuple[dict[str, AttributePlan], dict[str, Any]]  # by name: plans, and the nodes below


class Packer:
    """Knows the slots of every attribute. Made anew when slots or dictionaries change."""

    def __init__(
        self,
        slots: Slots,
        strings: dict[int, Strings],
        programs: Sequence[Program] = (),
        *,
        machine: bool = False,
    ) -> None:
        self.trash = len(slots)
        self.blank = array("d", [*slots.blank().tolist(), 0.0])
        self.plans: dict[str, AttributePlan] = {}  # of attributes; derived ones are no names of an event
        self.children: dict[str, Node] = {}  # by what is before each dot of a name
        for attribute in dict.fromkeys(slot.attribute for slot in slots.all if slot.kind):
            if attribute != LINEAGE and not attribute.startswith(MARK):
                self.plans[attribute] = self._plan(slots, strings, attribute)
                for dot in (position for position, ch in enumerate(attribute) if ch == "."):
                    self._node(attribute[:dot])[0][attribute[dot + 1 :]] = self.plans[attribute]
        named = {slot.attribute for slot in slots.all}
        self.programs = [(p, self._plan(slots, strings, p.name)) for p in programs if p.name in named]
        # with a machine in the walk, only what it cannot compute is computed here
        self.computed = [(p, plan) for p, plan in self.programs if not (machine and p.steps is not None)]
        self.topic = self.plans.get("topic")
        self.reserved = tuple(name for name in RESERVED if name in self.plans and name != "topic")
        self.members = {
            kind[len(MEMBER) :]: number
            for number, (attribute, kind) in enumerate(slots.all)
            if attribute == LINEAGE and kind.startswith(MEMBER)
        }
        self.typed = slots.find(LINEAGE, PRESENT)
        self.numbers = frozenset(n for n, (_, kind) in enumerate(slots.all) if kind == NUMBER)
        self.own = bool(self.topic or self.reserved or self.members or self.typed >= 0)

    def _node(self, prefix: str) -> Node:
        """The node of names nested under a prefix; an event may nest them at any of its dots."""
        node = self.children.get(prefix)
        if node is None:
            node = self.children[prefix] = ({}, {})
            for dot in (position for position, ch in enumerate(prefix) if ch == "."):
                self._node(prefix[:dot])[1][prefix[dot + 1 :]] = node
        return node

    def _plan(self, slots: Slots, strings: dict[int, Strings], attribute: str) -> AttributePlan:
        present = slots.find(attribute, PRESENT)
        other = present if present >= 0 else self.trash

        def place(kind: str) -> int:
            number = slots.find(attribute, kind)
            return number if number >= 0 else other

        text = slots.find(attribute, STRING)
        string_table = strings.get(text, NO_TEXTS)
        return AttributePlan(
            place(NUMBER), place(STRING), string_table.known, string_table, place(BOOL), place(TIME), other
        )

    def pack(self, event: Event, row: array[float]) -> bool:
        """Write the event's row; False when a value may need a rest (use `pack_all`)."""
        if event.rich:
            return False
        row[:] = self.blank
        plans = self.plans
        fine = True
        for name, value in event.body.items():
            plan = plans.get(name)
            kind = type(value)
            if plan is None:
                if kind is dict and name in self.children:
                    fine = self._nested(self.children[name], value, row) and fine
            elif kind is float or kind is int:
                row[plan[0]] = value
            elif kind is str:
                position = plan[2].get(value)
                if position is None:
                    position, rest = plan[3].find(value)
                    fine = fine and not rest
                row[plan[1]] = position
            else:
                fine = self._other(plan, name, value, row) and fine
        if self.own:
            fine = self._own(event, row) and fine
        return self._compute(event, row, self.computed) and fine if self.computed else fine

    def pack_all(self, event: Event, row: array[float]) -> dict[int, int]:
        """Write the event's row with everything that the machine would compute; the rests, by slot."""
        row[:] = self.blank
        rests: dict[int, int] = {}
        view, plans = event.view, self.plans
        for name, value in view.items():
            plan = plans.get(name)
            if plan is not None:
                _place(plan, value, row, rests)
        for program, plan in self.programs:
            value = program.run(view)
            if value is not None:
                _place(plan, value, row, rests)
        if event.type:
            self._lineage(event, row)
        return rests

    def _compute(
        self, event: Event, row: array[float], programs: list[tuple[Program, AttributePlan]]
    ) -> bool:
        """The derived attributes."""
        fine = True
        stored = event.body.get
        value: Any
        for program, plan in programs:
            known = program.remembered
            value = known
            if known is not None and type(text := stored(program.inputs[0])) is str:
                value = known.get(text, known)
            if value is not known:
                pass  # a function of one text, remembered
            elif not program.direct:
                value = program.run(event.view)
            else:
                for name in program.inputs:
                    value = stored(name)
                    if value is None or value != value:
                        value = None
                        break
                else:
                    value = result_of(program, event.body)
            kind = type(value)
            if kind is float or kind is int:
                row[plan[0]] = value
            elif kind is bool:
                row[plan.flag] = value
            elif value is not None:
                fine = self._value(plan, value, row, "") and fine
        return fine

    def _other(self, plan: AttributePlan, name: str, value: Any, row: array[float]) -> bool:
        """Booleans, times, nested attributes, NULL."""
        if type(value) is bool:
            row[plan.flag] = value
        elif type(value) is datetime:
            row[plan.time], rest = exact_time(value)
            return not rest
        elif type(value) is dict and name in self.children:
            return self._nested(self.children[name], value, row)
        return True

    def _value(self, plan: AttributePlan, value: Any, row: array[float], name: str) -> bool:
        kind = type(value)
        if kind is float or kind is int:
            row[plan.number] = value
        elif kind is str:
            row[plan.text], rest = plan.strings.find(value)
            return not rest
        elif kind is Decimal:
            row[plan.number], rest = exact_number(value)
            return not rest
        else:
            return self._other(plan, name, value, row)
        return True

    def _nested(self, node: Node, values: Mapping[str, Any], row: array[float]) -> bool:
        fine = True
        plans, below = node
        for name, value in values.items():
            kind = type(value)
            if kind is dict:
                under = below.get(name)
                if under is not None:
                    fine = self._nested(under, value, row) and fine
                continue
            plan = plans.get(name)
            if plan is None:
                continue
            if kind is float or kind is int:
                row[plan[0]] = value
            elif kind is str:
                position = plan[2].get(value)
                if position is None:
                    position, rest = plan[3].find(value)
                    fine = fine and not rest
                row[plan[1]] = position
            else:
                fine = self._value(plan, value, row, "") and fine
        return fine

    def _own(self, event: Event, row: array[float]) -> bool:
        """Members of the event itself: id, source, topic, type, time, lineage."""
        fine = True
        plan, topic = self.topic, event.topic
        if plan is not None and topic is not None:
            position = plan[2].get(topic)
            if position is None:
                position, rest = plan[3].find(topic)
                fine = not rest
            row[plan[1]] = position
        for name in self.reserved:
            value = event.type[:1] if name == "type" else getattr(event, name)
            if type(value) is tuple:
                value = value[0] if value else None
            if value is not None:
                fine = self._value(self.plans[name], value, row, name) and fine
        if event.type:
            self._lineage(event, row)
        return fine

    def _lineage(self, event: Event, row: array[float]) -> None:
        if self.typed >= 0:
            row[self.typed] = 0.0
        trash, find = self.trash, self.members.get
        for ancestor in event.type:
            row[find(ancestor, trash)] = 0.0

    def has_many_between(self, rests: Mapping[int, int]) -> bool:
        """Do more numbers lie between two neighbouring doubles than the compiled walk takes?"""
        between = sum(rest & 1 and slot in self.numbers for slot, rest in rests.items())
        return between > MOST_BETWEEN


def _place(plan: AttributePlan, value: Any, row: array[float], rests: dict[int, int]) -> None:
    """Write one value of a view, and the rest that it needs."""
    kind = type(value)
    if kind is str:
        position, (row[position], rest) = plan.text, plan.strings.find(value)
    elif kind in _NUMBERS:
        position, (row[position], rest) = plan.number, exact_number(value)
    elif kind is datetime:
        position, (row[position], rest) = plan.time, exact_time(value)
    else:
        row[plan.flag if kind is bool else plan.present] = value is True
        return
    if rest and position != plan.present:
        rests[position] = rest
