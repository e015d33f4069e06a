"""Verdicts on seeds that were not in view while studies and rules were written, beside those that were.

A claim of the one run is found in the other by its id, its words and its place. Nothing is judged anew: both
verdicts come from the same rule. A claim whose rule was set after held-back seeds were looked at is not in
their record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tidings_lab.studies._claims import ClaimKind, PaperClaim
from tidings_lab.studies.study import StudyTable

if TYPE_CHECKING:
    from tidings_lab.studies._report import StudyRecord

HEADING = "On seeds that were not in view"
SUMMARY = ("study", "seeds from", "measured at", "claims of the papers: same verdict", "another",
           "our own: same verdict", "another")  # fmt: skip
REWORDED = ("study", "id", "claim", "rule", "rule that the held-back seeds were judged by")
CHANGES = ("id", "claim", "kind", "ours", "verdict", "ours, held-back seeds", "verdict there", "intervals")

Key = tuple[str, str, str]


def key_of(claim: PaperClaim) -> Key:
    return claim.id, claim.claim, claim.where


class Confirmation(NamedTuple):
    """A claim on both kinds of seeds."""

    claim: PaperClaim
    there: PaperClaim  # on seeds that were held back

    @property
    def same(self) -> bool:
        return self.claim.verdict is self.there.verdict

    @property
    def intervals(self) -> str:
        """Whether the two figures differ by more than their intervals."""
        here, there = self.claim.interval, self.there.interval
        if here is None or there is None:
            return "-"
        return "overlap" if here[0] <= there[1] and there[0] <= here[1] else "apart"


def confirmations(kept: StudyRecord, fresh: Sequence[StudyRecord]) -> list[Confirmation]:
    """Claims of a study that were judged on other seeds too."""
    others = {
        key_of(claim): claim
        for each in fresh
        if (each.study, each.quick) == (kept.study, kept.quick) and each.seed != kept.seed
        for claim in each.claims
    }
    return [Confirmation(c, others[key_of(c)]) for c in kept.claims if key_of(c) in others]


def verdict_there(kept: StudyRecord, claim: PaperClaim, fresh: Sequence[StudyRecord]) -> str:
    """The verdict of a claim on held-back seeds; `-` where it was not measured on any."""
    found = (c.there.verdict for c in confirmations(kept, fresh) if c.claim is claim)
    return str(next(found, "-"))


def confirming_tables(found: Sequence[StudyRecord], fresh: Sequence[StudyRecord]) -> list[StudyTable]:
    """How many verdicts stay, study by study, and each that changes."""
    rows: list[tuple[Any, ...]] = []
    changed: list[Confirmation] = []
    for kept in found:
        pairs = confirmations(kept, fresh)
        if not pairs:
            continue
        [other] = [each for each in fresh if each.study == kept.study]
        counts = [
            sum(pair.same is same for pair in pairs if (pair.claim.kind is ClaimKind.OWN) is own)
            for own in (False, True)
            for same in (True, False)
        ]
        rows.append((kept.study, str(other.seed), other.commit or "-", *counts))
        changed += [pair for pair in pairs if not pair.same]
    if not rows:
        return []
    sums = [sum(row[column] for row in rows) for column in range(3, 7)]
    rows.append(("sum of these studies", "", "", *sums))
    changes = [
        (pair.claim.id, pair.claim.claim, str(pair.claim.kind), pair.claim.ours, str(pair.claim.verdict),
         pair.there.ours, str(pair.there.verdict), pair.intervals)
        for pair in changed
    ]  # fmt: skip
    tables = [StudyTable(HEADING, SUMMARY, rows), StudyTable("Verdicts that change", CHANGES, changes)]
    rules = [
        (kept.study, pair.claim.id, pair.claim.claim, pair.claim.tolerance, pair.there.tolerance)
        for kept in found
        for pair in confirmations(kept, fresh)
        if str(pair.claim.tolerance) != str(pair.there.tolerance)
    ]
    if rules:
        tables.append(StudyTable("Rules that differ from those of the held-back record", REWORDED, rules))
    return tables
