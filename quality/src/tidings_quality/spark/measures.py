"""Definitions of the quality dimensions, in plain Python: they are the oracle of the columns.

Every measure is a number from 0 to 1, or None: not measured.

- accuracy: how close a value is to what it should be: 1 - distance / length of the longer, with the
  distance of Levenshtein over code points; against the reference's value for this very object, or
  against the closest value of a domain. A value that is missing has accuracy 0; one that is
  rightly absent, or has no reference to be compared with, is not measured.
- completeness: the share of a property's parts that are there. A part is missing when it is NULL or one
  of the words that stand for missing; a property that does not apply is complete.
- currency: 1 - age / volatility, at least 0, where volatility is the time after which a value
  is worthless. Without a time of update it is not measured.
- consistency: the mean over the rules that apply. A rule gives 1 or 0; a functional
  dependency gives the share of its group that agrees with this object.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal

ACCURACY, COMPLETENESS, CURRENCY, CONSISTENCY = "accuracy", "completeness", "currency", "consistency"
DIMENSIONS = (ACCURACY, COMPLETENESS, CURRENCY, CONSISTENCY)


def distance(one: str, other: str) -> int:
    """Insertions, deletions and replacements that make one text of the other."""
    before = list(range(len(other) + 1))
    for row, here in enumerate(one, 1):
        now = [row]
        for column, there in enumerate(other, 1):
            now.append(min(before[column] + 1, now[-1] + 1, before[column - 1] + (here != there)))
        before = now
    return before[-1]


def similarity(one: str, other: str) -> float:
    """1 for equal texts, 0 for those without a common part."""
    longer = max(len(one), len(other))
    return 1.0 - distance(one, other) / longer if longer else 1.0


def accuracy(value: str | None, candidates: Sequence[str] | None, *, applies: bool = True) -> float | None:
    """Against the closest candidate: the reference's one value, or a domain's many."""
    if not applies or not candidates:
        return None
    return 0.0 if value is None else max(similarity(value, each) for each in candidates)


def completeness(parts: Sequence[str | None], *, applies: bool = True) -> float:
    """The share of the parts that are there; None is a missing one."""
    return sum(part is not None for part in parts) / len(parts) if applies else 1.0


def currency(age_micros: int | None, volatility_micros: int) -> float | None:
    if age_micros is None:
        return None
    return min(1.0, max(0.0, 1.0 - age_micros / volatility_micros))


def consistency(verdicts: Iterable[float | None]) -> float:
    """The mean of the verdicts; None is a rule that does not apply. Without a broken rule the object is
    consistent."""
    given = [verdict for verdict in verdicts if verdict is not None]
    return sum(given) / len(given) if given else 1.0


def agreements(pairs: Sequence[tuple[str, str] | None]) -> list[float | None]:
    """For each (determining, determined): the share of those determined alike that say the same."""
    groups: Counter[str] = Counter(pair[0] for pair in pairs if pair is not None)
    same = Counter(pair for pair in pairs if pair is not None)
    return [None if pair is None else same[pair] / groups[pair[0]] for pair in pairs]


def rounded(value: float | None, digits: int) -> float | None:
    """To so many digits, halves away from zero: what is kept, compared and told."""
    if value is None:
        return None
    return float(Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))
