"""Checks as arrays, so that the compiled walk answers them from the bytes of a text.

LIKE, topics with `+`, prefixes and order of text are tested on UTF-8, which sorts as code points
do. In a pattern the byte 0xFF stands for `%` and 0xFE for `_`: UTF-8 has neither. What is not of
these (REGEXP, residuals, dialect cesql) is a question for Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tidings.language.work import BUDGET
from tidings.matching.columnar.strings import encoded
from tidings.model.constraint import Constraint, Like, Prefix, Range, TopicIs
from tidings.model.filter import CESQL
from tidings.model.pattern import like_parts

if TYPE_CHECKING:
    from tidings.matching.columnar.asking import Check

ASK_PYTHON, LIKE, TOPIC, BEGINS, ORDER, WORK = range(6)
ANY_TEXT, ANY_CHARACTER = 0xFF, 0xFE
NEGATED, LOW_OPEN, HIGH_OPEN, HAS_LOW, HAS_HIGH = 1, 2, 4, 8, 16
# columns of an item
KIND, ATTRIBUTE, FLAGS, ONE_AT, ONE_SIZE, TWO_AT, TWO_SIZE = range(7)
WIDTH = 7


class Questions:
    """The items of every check: those of check c are items[starts[c]:starts[c + 1]]."""

    def __init__(self) -> None:
        self.starts = np.zeros(17, np.int32)
        self.items = np.zeros((16, WIDTH), np.int32)
        self.text = np.zeros(256, np.uint8)
        self.attributes: list[str] = []
        self.version = 0  # grows when an array moves or an attribute is new
        self._checks = self._items = self._bytes = 0

    def append(self, check: Check) -> None:
        """The next check, in the order of their numbers."""
        items = self._work(check)
        items += [self._item(constraint) for constraint in check.constraints]
        items += [(ASK_PYTHON, 0, 0, 0, 0, 0, 0)] * bool(check.residuals)
        self._checks += 1
        if self._checks >= len(self.starts):
            self.starts = self._larger(self.starts)
        while self._items + len(items) > len(self.items):
            self.items = self._larger(self.items)
        if items:
            self.items[self._items : self._items + len(items)] = items
        self._items += len(items)
        self.starts[self._checks] = self._items

    def _work(self, check: Check) -> list[tuple[int, ...]]:
        """Texts up to which the filter is within its budget, whatever the other texts are; beyond, Python counts."""
        total = sum(weight for _, weight in check.work)
        if check.dialect == CESQL and check.work:
            return [(ASK_PYTHON, 0, 0, 0, 0, 0, 0)]  # names are read without regard to case
        return [(WORK, self._place(name), 0, 0, BUDGET // total, 0, 0) for name, _ in check.work]

    def _place(self, attribute: str) -> int:
        if attribute not in self.attributes:
            self.attributes.append(attribute)
            self.version += 1
        return self.attributes.index(attribute)

    def _larger(self, some: NDArray[Any]) -> NDArray[Any]:
        fresh = np.zeros((2 * len(some), *some.shape[1:]), some.dtype)
        fresh[: len(some)] = some
        self.version += 1
        return fresh

    def _item(self, constraint: Constraint) -> tuple[int, ...]:
        match constraint:
            case Like():
                return self._made(LIKE, constraint, constraint.negated, like_bytes(constraint.pattern))
            case TopicIs():
                return self._made(TOPIC, constraint, constraint.negated, encoded(constraint.pattern))
            case Prefix():
                return self._made(BEGINS, constraint, 0, encoded(constraint.prefix))
            case Range() if isinstance(constraint.low, str) or isinstance(constraint.high, str):
                return self._order(constraint)
        return (ASK_PYTHON, 0, 0, 0, 0, 0, 0)

    def _order(self, c: Range) -> tuple[int, ...]:
        flags = LOW_OPEN * c.low_open | HIGH_OPEN * c.high_open
        flags |= HAS_LOW * (c.low is not None) | HAS_HIGH * (c.high is not None)
        return self._made(ORDER, c, flags, encoded(c.low or ""), encoded(c.high or ""))

    def _made(self, kind: int, c: Constraint, flags: int, one: bytes, two: bytes = b"") -> tuple[int, ...]:
        place = self._place(c.attribute)
        return (kind, place, int(flags), self._put(one), len(one), self._put(two), len(two))

    def _put(self, text: bytes) -> int:
        at = self._bytes
        while at + len(text) > len(self.text):
            self.text = self._larger(self.text)
        self.text[at : at + len(text)] = np.frombuffer(text, np.uint8)
        self._bytes += len(text)
        return at


def like_bytes(pattern: str) -> bytes:
    """A LIKE pattern for the kernel."""
    one = bytes((ANY_CHARACTER,))
    segments = (b"".join(one if ch is None else encoded(ch) for ch in part) for part in like_parts(pattern))
    return bytes((ANY_TEXT,)).join(segments)
