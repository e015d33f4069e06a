"""Filters as rows: one row for each conjunction (and each alternative in it).

A row is a run of 32-byte records, one a part, and an owner: the filter's handle. `FilterRows` is
the growing form, used by the delta and by loading; `FrozenRows` is what a table keeps.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from math import inf, nextafter
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidings.language.evaluate import evaluate
from tidings.language.lists import names_in
from tidings.language.work import Work, has_work, names_of, work_of
from tidings.matching.columnar.layout import EXACT_DOUBLES, PART
from tidings.matching.columnar.parts import ConstraintParts, Part
from tidings.matching.columnar.programs import Check, Checks
from tidings.matching.columnar.slots import STRING
from tidings.model.constraint import Constraint, Range
from tidings.model.expression import Attribute, Call, Compare, Expression, Literal
from tidings.model.filter import TIDINGS, Conjunction, Filter

OUTSIDE = 0x8000  # in `count`: the points are those left out
MOST_ALTERNATIVES = 8  # rows that one conjunction may become; the rest is left to `accepts`
_pack = Struct("<ddiiiHH").pack


def _add_plainly(constraint: Constraint, parts: ConstraintParts, plain: list[Part]) -> bool:
    """Add the parts of a constraint on a derived attribute, if they say all of it."""
    alternatives, exact, settled = parts.of(constraint)
    if len(alternatives) != 1 or not exact or not settled:
        return False
    plain += alternatives[0]
    return True


def _near(residual: Expression) -> Range | None:
    """The range of doubles that a comparison of an attribute with an exact decimal demands: candidates."""
    if not isinstance(residual, Compare) or residual.op not in _MIRRORED:
        return None
    one, other, op = residual.left, residual.right, residual.op
    if isinstance(other, Attribute):
        one, other, op = other, one, _MIRRORED[op]
    if not isinstance(one, Attribute) or not isinstance(other, Call) or any(names_in(other)):
        return None
    number = evaluate(other, {})
    if type(number) is not Decimal or not number.is_finite() or abs(number) >= EXACT_DOUBLES:
        return None
    low, high = (None if op[0] == "<" else float(number)), (None if op[0] == ">" else float(number))
    if low is not None and low > number:
        low = nextafter(low, -inf)
    if high is not None and high < number:
        high = nextafter(high, inf)
    return Range(one.name, low, high)


_MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


class FilterRow(NamedTuple):
    parts: list[Part]
    check: Check | None  # asked until the next frozen table
    lasting: Check | None  # asked for ever


def rows_of(filter: Filter, parts: ConstraintParts) -> list[FilterRow]:
    """The rows of a filter; none when it can never be true."""
    rows: list[FilterRow] = []
    work = work_of(filter)
    # The walk knows the length of a text by its slot; without one Python has to be asked.
    is_known = min((parts.slots.number(name, STRING) for name in names_of(work)), default=0) >= 0
    for conjunction in filter.conjunctions:
        if has_work(conjunction):
            rows.extend(_rows(conjunction, filter.dialect, parts, work, always_asks=not is_known))
        else:
            rows.extend(_rows(conjunction, filter.dialect, parts, (), always_asks=False))
    return rows


def _rows(
    conjunction: Conjunction, dialect: str, parts: ConstraintParts, work: Work, *, always_asks: bool
) -> list[FilterRow]:
    plain: list[Part] = []
    choices: list[list[list[Part]]] = []
    requested: list[Constraint] = []
    for_ever: list[Constraint] = []
    for constraint in conjunction.constraints:
        alternatives, exact, settled = parts.of_filter(constraint)
        if len(alternatives) == 1:
            plain += alternatives[0]
            if exact and settled:
                continue
        elif not alternatives:
            return []
        elif len(choices) < 2 and len(alternatives) <= MOST_ALTERNATIVES // 2:
            choices.append(alternatives)
        else:
            exact = False
        if not exact:
            for_ever.append(constraint)
        if not (exact and settled):
            requested.append(constraint)
    residuals: list[Expression] = [Literal(True)] if always_asks else []
    for residual in conjunction.residuals:
        derived = parts.derived.constraint(residual, dialect)
        if derived is None or not _add_plainly(derived, parts, plain):
            residuals.append(residual)
            near = _near(residual) if dialect == TIDINGS else None
            if near is not None:
                plain += parts.of_filter(near)[0][0]
    check = lasting = None
    if requested or residuals or work:
        check = Check(tuple(requested), tuple(residuals), dialect, work)
    if for_ever or residuals or work:
        lasting = Check(tuple(for_ever), tuple(residuals), dialect, work)
    if not choices:
        return [FilterRow(plain, check, lasting)]
    return [
        FilterRow(plain + [p for some in pick for p in some], check, lasting) for pick in product(*choices)
    ]


class FilterRows:
    """Growing rows, in arrays with spare room, so that the garbage collector has no work with them."""

    def __init__(self, room: int = 256) -> None:
        self.starts = np.zeros(room + 1, np.int32)
        self.owners = np.zeros(room, np.int32)
        self.checks = np.zeros(room, np.int32)  # asked until the next frozen table
        self.lasting = np.zeros(room, np.int32)
        self.parts = np.zeros(4 * room, PART)
        self.points = np.zeros(4 * room)
        self.rests = np.zeros(4 * room, np.int32)
        self.table = Checks()
        self.version = 0  # grows when an array moves
        self._count = self._parts = self._points = 0
        self._views()

    def __len__(self) -> int:
        return self._count

    @property
    def used(self) -> tuple[int, int]:
        """Number of parts and points."""
        return self._parts, self._points

    def _views(self) -> None:
        # writing through a memoryview costs half of writing to an array
        self._part_bytes = memoryview(self.parts.view(np.uint8))  # type: ignore[arg-type]
        self._point_bytes = memoryview(self.points)  # type: ignore[arg-type]
        self._rest_bytes = memoryview(self.rests)  # type: ignore[arg-type]
        self._numbers = tuple(
            memoryview(a)  # type: ignore[arg-type]
            for a in (self.starts, self.owners, self.checks, self.lasting)
        )

    def _grow(self, name: str, least: int) -> None:
        old = getattr(self, name)
        fresh = np.zeros(max(2 * len(old), least), old.dtype)
        fresh[: len(old)] = old
        setattr(self, name, fresh)
        self.version += 1
        self._views()

    def append(self, row: FilterRow, owner: int, *, settled: bool = False) -> int:
        """The number of the new row; `settled` leaves out what the next frozen table settles."""
        data = b""
        for slot, lo, hi, lo_rest, hi_rest, some, outside in row.parts:
            if some:
                count = len(some) | (OUTSIDE if outside else 0)
                data += _pack(lo, hi, lo_rest, hi_rest, self._add_points(some), slot, count)
            else:
                data += _pack(lo, hi, lo_rest, hi_rest, -1, slot, 0)
        number, at = self._count, self._parts << 5
        self._parts += len(data) >> 5
        if self._parts > len(self.parts):
            self._grow("parts", self._parts)
        if number + 1 >= len(self.owners):
            for name in ("starts", "owners", "checks", "lasting"):
                self._grow(name, number + 2)
        self._part_bytes[at : at + len(data)] = data
        starts, owners, checks, lasting = self._numbers
        starts[number + 1] = self._parts
        owners[number] = owner
        lasting[number] = self.table.number(row.lasting)
        checks[number] = -1 if settled else self.table.number(row.check)
        self._count += 1
        return number

    def _add_points(self, some: tuple[tuple[float, int], ...]) -> int:
        at = self._points
        self._points = at + len(some)
        if self._points > len(self.points):
            self._grow("points", self._points)
            self._grow("rests", self._points)
        for position, (value, rest) in enumerate(some, at):
            self._point_bytes[position] = value  # type: ignore[call-overload]
            self._rest_bytes[position] = rest
        return at

    @property
    def nbytes(self) -> int:
        return sum(
            a.nbytes for a in (self.starts, self.owners, self.checks, self.lasting, self.parts, self.points)
        )


@dataclass
class FrozenRows:
    """Rows as arrays, sorted by owner."""

    starts: NDArray[np.int32]
    parts: NDArray[Any]  # of PART
    points: NDArray[np.float64]
    rests: NDArray[np.int32]
    owners: NDArray[np.int32]
    checks: NDArray[np.int32]  # empty when no row has one
    lasting: NDArray[np.int32]  # those that stay when the texts get new ranks
    points_used: int = 0

    def __len__(self) -> int:
        return len(self.owners)

    @property
    def nbytes(self) -> int:
        some = [self.starts, self.parts, self.points, self.rests, self.owners, self.checks]
        if self.lasting is not self.checks:
            some.append(self.lasting)
        return sum(array.nbytes for array in some)
