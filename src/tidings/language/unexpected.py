"""Evaluations that raised an error which is no part of the language: a defect of ours, kept to one filter.

Rules
- A filter whose evaluation raises is unknown for that event, in every engine. The match goes on: no other
  filter, link or publish notices.
- Every such failure is counted. The first ones of a process are kept with what the filter saw, until the
  node that matched takes them (`take`) to find and tell the owner. `MOST_REPORTED` bounds how many, since
  finding the owner looks at every subscription.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

MOST_REPORTED = 64  # different failing expressions of one process whose owners are looked for


class Unexpected(msgspec.Struct, frozen=True):
    """A failure: the part of a filter, the values that it saw, and the error."""

    part: Any
    view: Mapping[str, Any]
    error: str


class UnexpectedFailures:
    """The failures of this process."""

    def __init__(self) -> None:
        self.count = 0
        self.news: list[Unexpected] = []  # of which no node has told yet
        self._known: dict[int, Any] = {}  # parts that failed before, by identity; kept, so that ids stay

    def note(self, part: Any, view: Mapping[str, Any], error: Exception) -> None:
        """The evaluation of this part raised."""
        self.count += 1
        if id(part) not in self._known and len(self._known) < MOST_REPORTED:
            self._known[id(part)] = part
            self.news.append(Unexpected(part, view, f"{type(error).__name__}: {error}"[:200]))

    def take(self) -> list[Unexpected]:
        """The failures since the last call."""
        news, self.news = self.news, []
        return news


FAILURES = UnexpectedFailures()
