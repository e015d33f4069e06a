"""Progress reports toward a log: what this broker, and those behind it, have of the log and need of it.

Rules
- A report (`LogAck`) says how far the log is known and acknowledged here, the highest offset that is known
  of, and whether superseded events are needed: a durable subscription with `superseding=False` is owed them.
- The broker of a log keeps a superseded entry while a link that needs such entries has not acknowledged it. A
  link that has not reported in this life of the broker may need them.
- A change of that need is reported soon, so that it is known upstream when events for the subscription come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidings.protocol.reading import ReaderNeeds
from tidings.protocol.recovery.logs import LinkProgress, LogReport, LogView
from tidings.protocol.recovery.messages import LogAck
from tidings.protocol.slots import Ports

if TYPE_CHECKING:
    from tidings.protocol.recovery.acknowledged import AcknowledgedRecovery


class ProgressReports:
    def __init__(self, ports: Ports, recovery: AcknowledgedRecovery) -> None:
        self._ports = ports
        self._recovery = recovery

    def make(self, view: LogView) -> LogReport:
        """The report on a log of another broker, without the log's name."""
        recovery = self._recovery
        return view.known, recovery.acked(view), recovery.rollback.highest(view), self._needs(view)

    def note(self, view: LogView, progress: LinkProgress, had: LogAck) -> bool:
        """A link reported on a log; True: the broker of that log does not know so yet."""
        progress.superseded = had.superseded
        is_higher = self._recovery.rollback.note(view, progress, max(had.known, had.highest))
        return is_higher or self.is_need_news(view)

    def is_news(self, view: LogView) -> bool:
        """Was more acknowledged here than upstream was told, or did the need change?"""
        reported = view.reported
        if view.upstream is None or reported is None:
            return False  # ours, or reported anyway
        is_more = reported[1] != view.known and self._recovery.acked(view) > reported[1]
        return is_more or self.is_need_news(view)

    def is_need_news(self, view: LogView) -> bool:
        is_known = view.reported is None or view.reported[3] == self._needs(view)
        return view.upstream is not None and not is_known

    def _needs(self, view: LogView) -> bool:
        """Are events of this log needed, here or behind us, also when a newer one has their key?"""
        links = [link for link in self._recovery.peers() if link != view.upstream]
        is_needed = any(view.link_progress(link).wants_superseded for link in links)
        return is_needed or self.readers_of(view).superseded

    def readers_of(self, view: LogView) -> ReaderNeeds:
        """What subscriptions of this broker need of the log."""
        return self._ports.log_readers.needs_of(view.name)

    def pins_superseded(self, offset: int, is_sent: bool) -> bool:
        """May another broker still ask for this entry of our log when a newer one has its key?"""
        progress_of = self._recovery.own().progress_by_link
        for link in self._recovery.peers():
            progress = progress_of.get(link)
            if progress is None:
                return True
            if progress.wants_superseded and (not is_sent or progress.wants(offset)):
                return True
        return False
