"""Asking Python what compiled parts cannot say: patterns, and residual expressions.

Only candidates get here: every part of their row holds already. Each different question is
compiled once, and asked once an event, however many rows wait for its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from tidings.language.evaluate import residual_test
from tidings.language.work import BUDGET, Work, cesql_cost, cost
from tidings.matching.columnar.questions import Questions
from tidings.model.constraint import Constraint
from tidings.model.event import RESERVED, Event
from tidings.model.expression import Expression
from tidings.model.filter import CESQL, TIDINGS

MOST_REMEMBERED = 4096  # answers of one pattern ...
LONGEST_REMEMBERED = 256  # ... for texts of so many characters at most
FIRST = np.ones(1, bool)
_encode = msgspec.msgpack.Encoder().encode


class Check(NamedTuple):
    """What parts cannot say: asked of Python, on candidates only."""

    constraints: tuple[Constraint, ...]
    residuals: tuple[Expression, ...] = ()
    dialect: str = TIDINGS
    work: Work = ()  # of the whole filter: over budget, the row is not accepted


class Checks:
    """Checks by number, each kept once, as arrays for the walk and as functions when first asked.

    Told apart by their encoding, not by equality: in Python 2 equals 2.0, and 1 equals True.
    """

    def __init__(self, known: Iterable[Check] = ()) -> None:
        self.all: list[Check] = []
        self.questions = Questions()
        self._numbers: dict[bytes, int] = {}
        self._tests: dict[int, Callable[[Event], bool]] = {}
        for check in known:
            self.number(check)

    def number(self, check: Check | None) -> int:
        """The check's number; -1 for none."""
        if check is None:
            return -1
        key = _encode(check)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self.all)
            self.all.append(check)
            self.questions.append(check)
        return found

    def passes(self, number: int, event: Event) -> bool:
        test = self._tests.get(number)
        if test is None:
            test = self._tests[number] = compiled_check(self.all[number])
        return test(event)


def compiled_check(check: Check) -> Callable[[Event], bool]:
    """Do the constraints and the residuals of the check hold for an event?"""
    test = _tested(check)
    return _within_budget(test, check) if check.work else test


def _within_budget(test: Callable[[Event], bool], check: Check) -> Callable[[Event], bool]:
    work, costs = check.work, cesql_cost if check.dialect == CESQL else cost
    return lambda event: costs(work, event.view) <= BUDGET and test(event)


def _tested(check: Check) -> Callable[[Event], bool]:
    if len(check.constraints) == 1 and not check.residuals:
        return _remembered(check.constraints[0])
    constraints = [(c.attribute, c.accepts) for c in check.constraints]
    residuals = [residual_test(residual, check.dialect) for residual in check.residuals]

    def test(event: Event) -> bool:
        value_of = event.view.get
        return all(accepts(value_of(name)) for name, accepts in constraints) and all(
            holds(event) for holds in residuals
        )

    return test


def _remembered(constraint: Constraint) -> Callable[[Event], bool]:
    """The test of a lone constraint: a pattern costs more than remembering its answer for a value."""
    answers: dict[Any, bool] = {}
    attribute, accepts = constraint.attribute, constraint.accepts

    def test(event: Event) -> bool:
        value = event.view.get(attribute)
        if type(value) is not str or len(value) > LONGEST_REMEMBERED:
            return accepts(value)
        answer = answers.get(value)
        if answer is None:
            if len(answers) >= MOST_REMEMBERED:
                answers.clear()
            answer = answers[value] = accepts(value)
        return answer

    return test


def merged(found: NDArray[np.int32], more: list[int]) -> NDArray[np.int32]:
    """Sorted handles and some others, sorted, each once."""
    both = np.concatenate((found, np.array(more, np.int32)))
    both.sort()
    again = both[1:] == both[:-1]
    return both[np.concatenate((FIRST, ~again))] if again.any() else both


def accepted(asked: Iterable[tuple[int, int, int]], checks: dict[int, Checks], event: Event) -> list[int]:
    """Of (handle, number of its check, tier), the handles whose check passes."""
    answers: dict[tuple[int, int], bool] = {}
    found: list[int] = []
    for handle, number, tier in asked:
        key = (tier, number)
        answer = answers.get(key)
        if answer is None:
            answer = answers[key] = checks[tier].passes(number, event)
        if answer:
            found.append(handle)
    return found


def text_of(event: Event, attribute: str) -> str | None:
    """An attribute when it is a text. The view is made only when nothing simpler finds it."""
    first, dot, below = attribute.partition(".")
    if not dot and attribute not in RESERVED:
        value = event.attributes.get(attribute)
    elif attribute == "topic":
        value = event.topic
    else:
        held = event.attributes.get(first)
        value = held.get(below) if type(held) is dict else None
        if type(value) is not str:  # nested at another of its dots, or beside something nested deeper
            value = event.view.get(attribute)
    return value if type(value) is str else None
