"""The outcome of a check: one verdict for each property."""

from __future__ import annotations

from typing import Any

import msgspec

from tidings.history.relations import Violation


class PropertyVerdict(msgspec.Struct, frozen=True):
    """`holds` is None when the property was not judged; `reason` says why. One that holds with a reason
    holds for want of anything to judge: it is shown as not judged (`is_shown` is False)."""

    name: str
    holds: bool | None
    violations: int = 0
    counterexample: Violation | None = None  # the first in time
    reason: str | None = None

    @property
    def is_shown(self) -> bool:
        """Was there anything to judge?"""
        return self.holds is not None and self.reason is None

    @property
    def story(self) -> str | None:
        return None if self.counterexample is None else self.counterexample.story

    def to_json(self) -> dict[str, Any]:
        return {
            "holds": self.holds,
            "counterexample": None if self.counterexample is None else _counterexample(self.counterexample),
            "violations": self.violations,
            "reason": self.reason,
        }


class CheckReport(msgspec.Struct, frozen=True):
    contract: str
    verdicts: dict[str, PropertyVerdict]
    promised: frozenset[str] = frozenset()

    @property
    def holds(self) -> bool:
        """No property was found broken."""
        return all(verdict.holds is not False for verdict in self.verdicts.values())

    @property
    def broken(self) -> list[str]:
        return [name for name, verdict in self.verdicts.items() if verdict.holds is False]

    @property
    def open(self) -> list[str]:
        """Properties that the contract promises and that this history could not show."""
        return [name for name in self.verdicts if name in self.promised and not self.verdicts[name].is_shown]

    @property
    def story(self) -> str | None:
        """The counterexample that comes first in time."""
        found = [each.counterexample for each in self.verdicts.values() if each.counterexample is not None]
        return min(found, key=lambda each: each.time).story if found else None

    def __getitem__(self, name: str) -> PropertyVerdict:
        return self.verdicts[name]

    def to_json(self) -> dict[str, Any]:
        """The stable form of `tidings check --json`."""
        return {
            "properties": {name: verdict.to_json() for name, verdict in self.verdicts.items()},
            "contract": self.contract,
        }


def _counterexample(found: Violation) -> dict[str, Any]:
    positions = {
        name: value
        for name in ("run", "time", "process", "subscription", "source", "event")
        if (value := getattr(found, name)) != ""
    }
    return {"story": found.story, **positions, **found.facts}
