"""Progress reports toward a log: what this broker, and those behind it, have of the log and need of it.

Rules
- A report (`LogAck`) says how far the log is known and acknowledged here, the highest offset that is known
  of, and whether superseded events are needed: a durable subscription with `superseding=False` is owed them.
  It says so of the events up to `known`. While a link behind us has not spoken, or has not confirmed an event
  with a key, they may be needed there; so also of a log without events, since its broker goes by the last
  report when the link breaks.
- The broker of a log keeps a superseded entry while a link that may need it has not acknowledged it.
- A superseded event is marked (`SUPERSEDED`) when it is sent again, goes only over links behind which it may
  be needed, and is delivered only to subscriptions that want such events.
- A need that is new is reported soon, so that it is known upstream when the link breaks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidings.availability.records import Append
from tidings.protocol.inputs import Feature
from tidings.protocol.messages import Envelope
from tidings.protocol.reading import SUPERSEDED, ReaderNeeds
from tidings.protocol.recovery.logs import LinkProgress, LogReport, LogView
from tidings.protocol.recovery.messages import LogAck
from tidings.protocol.slots import Ports

if TYPE_CHECKING:
    from tidings.protocol.recovery.acknowledged import AcknowledgedRecovery


class ProgressReports:
    def __init__(self, ports: Ports, recovery: AcknowledgedRecovery) -> None:
        self._ports = ports
        self._recovery = recovery

    # -- ours ------------------------------------------------------------------------------------

    def make(self, view: LogView) -> LogReport:
        """The report on a log, without its name: how far it is known; up to where no event is needed here or
        behind us; the highest offset that is known of; are superseded events needed, or may they be since a
        link behind us has not confirmed all that it was sent?"""
        known, needs = view.known, self._readers_need(view)
        acked = known if needs.settled is None else min(known, needs.settled)
        highest, superseded = max(known, needs.highest), needs.superseded
        progress_of = view.progress_by_link
        for progress in progress_of.values():
            if progress.received_upto > highest:
                highest = progress.received_upto
        for link in self._recovery.peers():
            if link == view.upstream:
                continue
            if (behind := progress_of.get(link)) is None or not behind.has_reported:
                acked, superseded = 0, True
                continue
            if behind.acked < behind.due:
                acked = min(acked, behind.acked)
            superseded = superseded or (known > 0 and behind.may_need_superseded)
        if not (superseded or known):
            superseded = self._needs(view)
        return known, acked, highest, superseded

    def _readers_need(self, view: LogView) -> ReaderNeeds:
        """What subscriptions of this broker need of the log."""
        return self._ports.log_readers.needs_of(view.name)

    def acked(self, view: LogView) -> int:
        """No event up to here is needed any more, at this broker or behind it."""
        return self.make(view)[1]

    def is_news(self, view: LogView) -> bool:
        """Was more acknowledged here than upstream was told, or did the need change?"""
        reported = view.reported
        if view.upstream is None or reported is None:
            return False  # ours, or reported anyway
        return self.acked(view) > reported[1] or self._is_need_news(view)

    def _is_need_news(self, view: LogView) -> bool:
        if view.upstream is None or view.reported is None:
            return False
        return not self.make(view)[3] if view.reported[3] else self._needs(view)

    def _needs(self, view: LogView) -> bool:
        """Are superseded events of this log needed, here or behind us?"""
        for link, progress in view.progress_by_link.items():
            if progress.superseded and link != view.upstream:
                return True
        return self._readers_need(view).superseded

    # -- of neighbours -----------------------------------------------------------------------------

    def note(self, view: LogView, progress: LinkProgress, had: LogAck) -> bool:
        """A link reported on a log; True: it needs less than before."""
        is_new = not progress.has_reported
        is_confirmed = progress.have < progress.keyed <= had.known
        is_less = not had.superseded and (progress.superseded or is_confirmed)
        if had.known >= progress.have:  # else a later report overtook it
            progress.have, progress.superseded = had.known, had.superseded
        is_more = had.acked > progress.acked
        progress.acked, progress.has_reported = max(progress.acked, had.acked), True
        return is_new or is_more or is_less

    def is_unknown(self, view: LogView, progress: LinkProgress, had: LogAck) -> bool:
        """Does the broker of the log not know yet what a link reported on it?"""
        is_higher = self._recovery.rollback.note(view, progress, max(had.known, had.highest))
        return is_higher or self._is_need_news(view)

    def pins_superseded(self, offset: int) -> bool:
        """May another broker still ask for this entry of our log when a newer one has its key?"""
        progress_of = self._recovery.own().progress_by_link
        return any(
            link not in progress_of or progress_of[link].wants_superseded(offset)
            for link in self._recovery.peers()
        )

    def is_owed(self, link: str, record: Append, now: float) -> bool:
        """Is a superseded entry of our log to be sent over this link?"""
        takes = self._recovery.far_ends.takes(link, Feature.SUPERSEDED)
        return takes and self._recovery.own().link_progress(link).wants_superseded(record.offset)

    def takes(self, link: str, envelope: Envelope) -> bool:
        """May this event go over the link, as far as it is superseded?"""
        if SUPERSEDED not in envelope.headers:
            return True
        view, takes = self._recovery.views.get(envelope.origin), self._recovery.far_ends.takes
        is_needed = view is not None and view.link_progress(link).may_need_superseded
        return is_needed and takes(link, Feature.SUPERSEDED)
