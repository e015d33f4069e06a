"""Packing: an event as a row of doubles, one for each slot; NaN where it holds nothing.

This is the path of every single event, so it goes straight through the event's attributes
and looks nothing up twice. Integers beyond 2**53 and texts that are extras need a rest
beside their double: the slow way, taken only when the fast one says so.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from tidings.matching.columnar.derived import Program, result_of
from tidings.matching.columnar.parts import exact_number, exact_time
from tidings.matching.columnar.slots import BOOL, MEMBER, NUMBER, PRESENT, STRING, TIME, Slots
from tidings.matching.columnar.strings import Strings
from tidings.model.event import LINEAGE, RESERVED, Event

NO_TEXTS = Strings(ordered=False)


class Plan(NamedTuple):
    """Where the values of one attribute go, by kind; the last place of a row takes what nobody asks for."""

    number: int
    text: int
    known: dict[str, float]
    strings: Strings
    flag: int
    time: int
    present: int


Node: TypeAlias = tuple[dict[str, Plan], dict[str, Any]]  # by name: plans, and the nodes below


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
        self.plans: dict[str, Plan] = {}
        self.children: dict[str, Node] = {}  # by what is before each dot of a name
        for attribute in dict.fromkeys(slot.attribute for slot in slots.all):
            if attribute and attribute != LINEAGE:
                self.plans[attribute] = self._plan(slots, strings, attribute)
                for dot in (place for place, ch in enumerate(attribute) if ch == "."):
                    self._node(attribute[:dot])[0][attribute[dot + 1 :]] = self.plans[attribute]
        self.programs = [(p, self.plans[p.name]) for p in programs if p.name in self.plans]
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
        self.own = bool(self.topic or self.reserved or self.members or self.typed >= 0)

    def _node(self, prefix: str) -> Node:
        """What is nested under a prefix; whoever nests it may do so at any of its dots."""
        node = self.children.get(prefix)
        if node is None:
            node = self.children[prefix] = ({}, {})
            for dot in (place for place, ch in enumerate(prefix) if ch == "."):
                self._node(prefix[:dot])[1][prefix[dot + 1 :]] = node
        return node

    def _plan(self, slots: Slots, strings: dict[int, Strings], attribute: str) -> Plan:
        present = slots.find(attribute, PRESENT)
        other = present if present >= 0 else self.trash

        def place(kind: str) -> int:
            number = slots.find(attribute, kind)
            return number if number >= 0 else other

        text = slots.find(attribute, STRING)
        held = strings.get(text, NO_TEXTS)
        return Plan(place(NUMBER), place(STRING), held.known, held, place(BOOL), place(TIME), other)

    def pack(self, event: Event, row: array[float]) -> bool:
        """Write the event's row; False when something needs a rest (use `pack_exactly`)."""
        row[:] = self.blank
        plans = self.plans
        fine = True
        for name, value in event.attributes.items():
            plan = plans.get(name)
            kind = type(value)
            if plan is None:
                if kind is dict and name in self.children:
                    fine = self._nested(self.children[name], value, row) and fine
            elif kind is float or kind is int:
                row[plan[0]] = value
            elif kind is str:
                place = plan[2].get(value)
                if place is None:
                    place, rest = plan[3].find(value)
                    fine = fine and not rest
                row[plan[1]] = place
            else:
                fine = self._other(plan, name, value, row) and fine
        if self.own:
            fine = self._own(event, row) and fine
        return self._compute(event, row, self.computed) and fine if self.computed else fine

    def pack_all(self, event: Event, row: array[float]) -> None:
        """Write the event's row with everything that the machine would compute."""
        self.pack(event, row)
        self._compute(event, row, self.programs)

    def _compute(self, event: Event, row: array[float], programs: list[tuple[Program, Plan]]) -> bool:
        """The derived attributes."""
        fine = True
        held = event.attributes.get
        value: Any
        for program, plan in programs:
            known = program.remembered
            value = known
            if known is not None and type(text := held(program.inputs[0])) is str:
                value = known.get(text, known)
            if value is not known:
                pass  # a function of one text, remembered
            elif not program.direct:
                value = program.run(event.view)
            else:
                for name in program.inputs:
                    value = held(name)
                    if value is None or value != value:
                        value = None
                        break
                else:
                    value = result_of(program, event.attributes)
            kind = type(value)
            if kind is float or kind is int:
                row[plan[0]] = value
            elif kind is bool:
                row[plan.flag] = value
            elif value is not None:
                fine = self._value(plan, value, row, "") and fine
        return fine

    def _other(self, plan: Plan, name: str, value: Any, row: array[float]) -> bool:
        """Booleans, times, nested attributes, NULL."""
        if type(value) is bool:
            row[plan.flag] = value
        elif type(value) is datetime:
            row[plan.time], rest = exact_time(value)
            return not rest
        elif type(value) is dict and name in self.children:
            return self._nested(self.children[name], value, row)
        return True

    def _value(self, plan: Plan, value: Any, row: array[float], name: str) -> bool:
        kind = type(value)
        if kind is float or kind is int:
            row[plan.number] = value
        elif kind is str:
            row[plan.text], rest = plan.strings.find(value)
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
                place = plan[2].get(value)
                if place is None:
                    place, rest = plan[3].find(value)
                    fine = fine and not rest
                row[plan[1]] = place
            else:
                fine = self._value(plan, value, row, "") and fine
        return fine

    def _own(self, event: Event, row: array[float]) -> bool:
        """What belongs to the event itself: id, source, topic, type, time, lineage."""
        fine = True
        plan, topic = self.topic, event.topic
        if plan is not None and topic is not None:
            place = plan[2].get(topic)
            if place is None:
                place, rest = plan[3].find(topic)
                fine = not rest
            row[plan[1]] = place
        for name in self.reserved:
            value = event.type[:1] if name == "type" else getattr(event, name)
            if type(value) is tuple:
                value = value[0] if value else None
            if value is not None:
                fine = self._value(self.plans[name], value, row, name) and fine
        if event.type:
            if self.typed >= 0:
                row[self.typed] = 0.0
            trash, find = self.trash, self.members.get
            for ancestor in event.type:
                row[find(ancestor, trash)] = 0.0
        return fine

    def rests(self, event: Event) -> dict[int, int]:
        """The rests that the event's row needs, by slot."""
        found: dict[int, int] = {}
        for name, value in self._seen(event):
            plan = self.plans.get(name)
            if plan is None:
                continue
            kind, rest = type(value), 0
            if kind is int:
                rest, place = exact_number(value)[1], plan.number
            elif kind is str:
                rest, place = plan.strings.find(value)[1], plan.text
            elif kind is datetime:
                rest, place = exact_time(value)[1], plan.time
            if rest and place != plan.present:
                found[place] = rest
        return found

    def _seen(self, event: Event) -> Iterator[tuple[str, Any]]:
        yield from event.view.items()
        for program, _ in self.programs:
            value = program.run(event.view)
            if value is not None:
                yield program.name, value
