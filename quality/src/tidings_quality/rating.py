"""The Rating Service's judgement: how far each source is believed, learned from disagreement.

Rules
- When copies are compared, each source is observed: the quality that it declared for a value, and how far the
  other copies bear it out. Each copy counts by its trust and quality.
- Declaring more than is borne out is overstating. The trust of a source is 1 - sum of what it
  overstated / (patience + number of observations): it begins at 1, and a source that goes
  on overstating by the same amount loses with every observation, towards 1 - that amount. Understating
  neither costs nor earns trust.
- Ranks go by trust, equal ones by name.
- A report has an id; one that was seen is not counted again.

The thesis names the service and leaves its design to others (Virgillito 2003, section 5.2.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from tidings.errors import InputError
from tidings.model.decoding import UNREADABLE
from tidings_quality.broker import ObjectCopy, Trust
from tidings_quality.spark.measures import ACCURACY, similarity

PATIENCE = 10.0  # observations that a newcomer has credit for; more make trust slower to move


class Observation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Declared quality of a value, and how far others bear it out; both from 0 to 1."""

    source: str
    declared: float
    borne_out: float


class RatingReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    observations: tuple[Observation, ...]


class SourceRating(msgspec.Struct, frozen=True):
    """Trust and rank of a source."""

    source: str
    trust: float
    rank: int
    observations: int
    overstated: float  # by how much, on average


class Ratings:
    """Trust for each source; kept in a file of reports when there is one."""

    def __init__(self, file: Path | None = None, *, patience: float = PATIENCE) -> None:
        if patience <= 0:
            raise InputError(f"a patience of {patience:g}", hint="more than 0 observations")
        self._patience = patience
        self._overstated: dict[str, float] = {}
        self._count: dict[str, int] = {}
        self._seen: set[str] = set()
        self._file = file
        if file is not None and file.exists():
            self._load(file)

    def _load(self, file: Path) -> None:
        whole = file.read_bytes()
        kept, newline, torn = whole.rpartition(b"\n")
        for number, line in enumerate(kept.splitlines(), 1):
            try:
                self._count_in(msgspec.json.decode(line, type=RatingReport))
            except UNREADABLE as error:
                raise InputError(f"{file}:{number} is no report: {error}") from None
        if torn:  # a report that a crash cut off was not acknowledged
            file.write_bytes(kept + newline)

    def report(self, report: RatingReport) -> bool:
        """Take a report in; False when it was known."""
        for each in report.observations:
            if not (0 <= each.declared <= 1 and 0 <= each.borne_out <= 1):
                raise InputError(f"an observation of {each.source} is outside 0 to 1")
        if report.id in self._seen:
            return False
        if self._file is not None:
            with self._file.open("ab") as out:
                out.write(msgspec.json.encode(report) + b"\n")
                out.flush()
        self._count_in(report)
        return True

    def _count_in(self, report: RatingReport) -> None:
        self._seen.add(report.id)
        for each in report.observations:
            over = max(0.0, each.declared - each.borne_out)
            self._overstated[each.source] = self._overstated.get(each.source, 0.0) + over
            self._count[each.source] = self._count.get(each.source, 0) + 1

    @property
    def reports(self) -> int:
        return len(self._seen)

    def trust(self, source: str) -> float:
        return 1.0 - self._overstated.get(source, 0.0) / (self._patience + self._count.get(source, 0))

    def table(self) -> dict[str, float]:
        return {source: self.trust(source) for source in self._count}

    def standings(self) -> list[SourceRating]:
        order = sorted(self._count, key=lambda source: (-self.trust(source), source))
        return [
            SourceRating(s, self.trust(s), rank, self._count[s], self._overstated[s] / self._count[s])
            for rank, s in enumerate(order, 1)
        ]


def observe(copies: Sequence[ObjectCopy], trust: Trust) -> list[Observation]:
    """Observations of sources by the copies of one object: one for each value that declares its accuracy."""
    found: list[Observation] = []
    for copy in copies:
        others = [other for other in copies if other.source != copy.source]
        for property, value in copy.values.items():
            declared = copy.quality.get(f"{property}.{ACCURACY}")
            borne_out = None if value is None else _borne_out(value, property, others, trust)
            if declared is not None and borne_out is not None:
                found.append(Observation(copy.source, declared, borne_out))
    return found


def _borne_out(value: str, property: str, others: Iterable[ObjectCopy], trust: Trust) -> float | None:
    """The likeness to what others hold, each weighed by its trust and declared accuracy; None: no
    other copy."""
    weights, agreed = 0.0, 0.0
    for other in others:
        theirs = other.values.get(property)
        declared = other.quality.get(f"{property}.{ACCURACY}")
        if theirs is None or declared is None:
            continue
        weight = trust.get(other.source, 1.0) * declared
        weights += weight
        agreed += weight * similarity(value, theirs)
    return min(1.0, agreed / weights) if weights > 0 else None
