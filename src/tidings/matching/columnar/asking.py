"""Asking Python what compiled parts cannot say: patterns, and residual expressions.

Only candidates get here: every part of their row holds already. Each different question is
asked once an event, however many rows wait for its answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidings.matching.columnar.rows import Check
from tidings.model.event import Event
from tidings.model.filter import TIDINGS, Conjunction, Filter


def passes(check: Check, event: Event) -> bool:
    """Do the constraints and the residuals of a check hold?"""
    view = event.view
    if not all(c.accepts(view.get(c.attribute)) for c in check.constraints):
        return False
    return not check.residuals or _residuals_hold(check, event)


def _residuals_hold(check: Check, event: Event) -> bool:
    if check.dialect == TIDINGS:
        from tidings.language import evaluate

        return all(evaluate(residual, event.view) is True for residual in check.residuals)
    from tidings.language import accepts

    whole = Filter("", (Conjunction((), check.residuals),), check.dialect)
    return bool(accepts(whole, event))


def accepted(asked: Iterable[tuple[int, int, int]], checks: dict[int, list[Check]], event: Event) -> list[int]:
    """Of (handle, number of its check, tier), the handles whose check passes."""
    answers: dict[tuple[int, int], bool] = {}
    found: list[int] = []
    for handle, number, tier in asked:
        key = (tier, number)
        answer = answers.get(key)
        if answer is None:
            answer = answers[key] = passes(checks[tier][number], event)
        if answer:
            found.append(handle)
    return found


__all__ = ["Any", "accepted", "passes"]
