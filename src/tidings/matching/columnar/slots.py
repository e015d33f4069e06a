"""Slots: one attribute and one kind of value.

Values of different kinds never compare, so each kind of an attribute has a slot of its own,
and within a slot all values are numbers in one order. Two more kinds of slot make presence
and absence ordinary conditions: `PRESENT` holds 0 when the attribute has any value, `ABSENT`
holds 0 when it has none. A type's ancestor is a slot too (`MEMBER`, and `STRANGER` for
`IS NOT A`). A slot that holds nothing is NaN, which fails every comparison.

Slots are numbered as they come and never renumbered. Slot 255 stays empty: in the compact
entries of the grid it stands for "no condition".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NUMBER, STRING, TIME, BOOL = "n", "s", "t", "b"
PRESENT, ABSENT = "+", "-"
MEMBER, STRANGER = "i:", "-i:"
DERIVED = "d"  # the value of a residual's expression, computed once an event

MAX_SLOTS = 4096
NO_CONDITION = 255  # the slot that compact entries name for "nothing to test"


class Slot(NamedTuple):
    attribute: str
    kind: str


class Slots:
    """The register of slots of one matcher."""

    def __init__(self) -> None:
        self.all: list[Slot] = []
        self._numbers: dict[tuple[str, str], int] = {}
        self.version = 0  # grows with each new slot
        self._text = np.zeros(0, np.uint8)

    def __len__(self) -> int:
        return len(self.all)

    def find(self, attribute: str, kind: str) -> int:
        """The slot's number, or -1 when there is none."""
        return self._numbers.get((attribute, kind), -1)

    def number(self, attribute: str, kind: str) -> int:
        """The slot's number, made when new; -1 when there are too many slots."""
        number = self._numbers.get((attribute, kind))
        return self._make(Slot(attribute, kind)) if number is None else number

    def _make(self, slot: Slot) -> int:
        if len(self.all) + 4 > MAX_SLOTS:
            return -1
        if len(self.all) == NO_CONDITION:
            self.all.append(Slot("", ""))
        number = self._numbers[slot] = len(self.all)
        self.all.append(slot)
        self.version += 1
        if slot.kind == ABSENT:
            self.number(slot.attribute, PRESENT)  # so that a value of any kind can be told of
        elif slot.kind.startswith(STRANGER):
            self.number(slot.attribute, MEMBER + slot.kind[len(STRANGER) :])
        return number

    def take(self, slots: list[Slot]) -> None:
        """Begin with the slots of a saved table."""
        for slot in slots:
            if slot.kind:
                self._numbers[slot] = len(self.all)
            self.all.append(slot)
        self.version += 1

    def links(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """For each slot, the PRESENT and the ABSENT slot that a value in it sets and clears (-1: none)."""
        present = np.full(len(self.all), -1, np.int32)
        absent = np.full(len(self.all), -1, np.int32)
        for number, (attribute, kind) in enumerate(self.all):
            if kind.startswith(MEMBER):
                absent[number] = self.find(attribute, STRANGER + kind[len(MEMBER) :])
            elif kind in (NUMBER, STRING, TIME, BOOL, PRESENT):
                present[number] = self.find(attribute, PRESENT)
                absent[number] = self.find(attribute, ABSENT)
        return present, absent

    def blank(self) -> NDArray[np.float64]:
        """The row of an event without attributes: everything is absent."""
        row = np.full(len(self.all), np.nan)
        for number, (_, kind) in enumerate(self.all):
            if kind == ABSENT or kind.startswith(STRANGER):
                row[number] = 0.0
        return row

    def is_string(self) -> NDArray[np.uint8]:
        return np.array([kind == STRING for _, kind in self.all], np.uint8)

    @property
    def text(self) -> NDArray[np.uint8]:
        """`is_string`, made once for each new slot."""
        if len(self._text) != len(self.all):
            self._text = self.is_string()
        return self._text
