"""Rollback: a lone broker whose disk was put back to an older copy finds out from its neighbours.

Such a disk keeps the name of its log and lacks its last entries. Given again, their offsets would name other
events, and neighbours, subscriptions and clients that know the first ones would pass over the second. Rules
- Each `AckProgress` says the highest offset of a log that the sender has heard of: itself, by a durable
  subscription (which remembers over restarts), or from a broker behind it.
- A broker that hears of a higher offset of its own log than it has gives no offset up to it any more
  (`LogOwner.skip_to`, which counts and warns). The events that had them are lost with the disk.
- After a start on a disk that holds a log, events are told and acknowledged when each neighbour has spoken,
  or after `first_word_seconds`.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from tidings.availability.records import Loaded
from tidings.protocol.recovery.logs import LinkProgress, LogView
from tidings.protocol.slots import Ports

if TYPE_CHECKING:
    from tidings.protocol.recovery.acknowledged import AcknowledgedRecovery


class Rollback:
    def __init__(self, ports: Ports, recovery: AcknowledgedRecovery) -> None:
        self._ports = ports
        self._recovery = recovery
        self._first_word_until = -inf  # publishes wait until then for neighbours that have not spoken

    def load(self, state: Loaded, now: float) -> None:
        if state.next_offset > 1:
            self._first_word_until = now + self._recovery.settings.first_word_seconds

    def is_unsure(self, now: float) -> bool:
        """May a neighbour that has not spoken know more of our log than we do?"""
        if now >= self._first_word_until:
            return False
        progress_of = self._recovery.own().progress_by_link
        return any(
            link not in progress_of or not progress_of[link].has_reported for link in self._recovery.peers()
        )

    def note(self, view: LogView, progress: LinkProgress, upto: int) -> bool:
        """A neighbour has heard of this offset; True: the broker of that log does not know so yet."""
        progress.received_upto = max(progress.received_upto, upto)
        if view.upstream is None and upto > view.known:
            self._ports.own_log.skip_to(upto)
            view.advance(upto)
        return view.reported is not None and upto > view.reported[2]
