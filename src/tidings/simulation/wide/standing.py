"""Filters that a durable subscription took one after the other: what it is owed and must not receive.

Rules
- A *stage* is one filter of a subscription: from when its client asks for it until the client is answered
  about the next one. While an answer is under way both may hold.
- *Owed*: an acknowledged event that every filter accepts which may have held when a broker accepted the
  event, and every later one. A filter holds at every broker once it is *settled*; before that a broker may
  still match with an earlier one, back to the last that was settled.
- *Owed* as well: an event without a key that lives forever and that is accepted by a filter with replay, and
  by every later one. A filter without replay gives up the available events that it accepts, unless they are
  owed already. A subscription that was lost with its home's disk begins anew with the filter of its return,
  with or without replay: nothing is owed already then.
- *Allowed*: an event that the present filter accepts and to which it, or one before it, had a right; each
  filter since then accepts the event too. A right is to what is published while a filter holds, and with
  replay to what is available. Amid faults a broker may not know yet what another one accepted, and takes it
  for new.
- *Forbidden*: every other event.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidings.language.evaluate import accepts
from tidings.model.event import FOREVER, Event
from tidings.model.filter import Filter

KNOWN_SECONDS = 3.0  # until every broker knows the end of every log, without faults


class FilterStage(msgspec.Struct):
    """One filter of a subscription."""

    filter: Filter
    replay: bool
    asked: float  # when its client asked for it
    answered: float | None = None  # when its client was told that it holds
    is_settled: bool = False  # every broker knows it
    is_quiet: bool = False  # it was asked for when every broker knew the end of every log


class OwedSubscription(msgspec.Struct):
    """A durable subscription to which everything that its filters accept is owed."""

    stages: list[FilterStage]
    home: str  # the broker where it was opened
    superseding: bool = True  # False: it is owed every event of a key
    is_standing: bool = True  # False from the loss of its only copy until the faults are over
    doubtful: set[tuple[str, str]] = set()  # committed, but only the broker at home knows it
    is_lost: bool = False  # its home's disk was replaced, and does not hold it again
    first_stage: int = 0  # with which it began, or began anew after that ...
    began_with_replay: bool = True  # ... as its home has it

    def owes(self, event: Event, published: float) -> bool:
        """Is an acknowledged event owed that was published then?"""
        if all(accepts(stage.filter, event) for stage in self.stages[self._first(published) :]):
            return True
        return self.is_available(event)

    def _first(self, published: float) -> int:
        """The first stage by which a broker may have matched an event that was published then."""
        first = len(self.stages) - 1
        while first > 0:
            answered = self.stages[first].answered
            if answered is not None and answered < published and self.stages[first].is_settled:
                break
            first -= 1
        return first

    def is_available(self, event: Event) -> bool:
        """Does the event live forever, and is it owed because a filter asked for what is available?"""
        is_owed = False
        if event.lifetime != FOREVER or event.key is not None:
            return False
        for number, stage in enumerate(self.stages[self.first_stage :]):
            if not accepts(stage.filter, event):
                is_owed = False
            elif not (stage.replay if number else self.began_with_replay):
                if not is_owed:
                    return False  # it was given up
            elif stage.answered is not None:
                is_owed = True
        return is_owed

    def begins_anew(self, filter: Filter, replay: bool) -> None:
        """Its home holds it again, after it was lost."""
        last = len(self.stages) - 1
        same = (n for n in range(last, -1, -1) if self.stages[n].filter.digest == filter.digest)
        self.is_lost, self.first_stage, self.began_with_replay = False, next(same, last), replay

    def forgoes(self, event: Event) -> bool:
        """Does the present filter give up an event that was owed?"""
        return not accepts(self.stages[-1].filter, event)

    def forbids(self, event: Event, number: int, published: float, acknowledged: float | None) -> str:
        """Why an event must not come to a listener of this stage; empty: it may."""
        stages = self.stages[: number + 1]
        if not accepts(stages[-1].filter, event):
            return "which its filter does not accept"
        for first in range(number, -1, -1):
            stage = stages[first]
            if not accepts(stage.filter, event):
                if stage.answered is None:
                    continue  # perhaps it never held
                break
            if (stage.replay and event.lifetime > 0) or self._overlaps(first, published, acknowledged):
                return ""
        return "to which none of its filters had a right"

    def _overlaps(self, number: int, published: float, acknowledged: float | None) -> bool:
        """May the event have been new to the subscription's broker while this stage held?"""
        stage = self.stages[number]
        if stage.is_quiet and acknowledged is not None and acknowledged < stage.asked - KNOWN_SECONDS:
            return False
        following: Sequence[FilterStage] = self.stages[number + 1 : number + 2]
        answered = following[0].answered if following else None
        return answered is None or published <= answered
