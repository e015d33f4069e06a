"""State transfer in a group: a member that lacks committed events copies them from another one, page by page.

Rules
- The receiver asks for each page, and says behind which offset it goes on. A page says how far it goes
  (`upto`) and how far the sender's log is committed (`end`). A page that ends at its bytes or at its count is
  no end: the log is here when `upto` reaches `end`.
- With the last page come the identities of what was published before, in pages too (`more`).
- The receiver asks again for a page that is lost on the way.
- A copy is of one epoch. A source that began another life has another epoch, and its log may end before the
  place that is asked for: the receiver goes on with a source of the next view.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidings.protocol.proposals import CopyRequest, LogCopy, PlacedEvent
from tidings.protocol.recovery.group_messages import LogCopyPage, LogCopyRequest, TailRequest
from tidings.protocol.slots import Ports

if TYPE_CHECKING:
    from tidings.protocol.recovery.group_log import GroupLog


class StateTransfer:
    """Both ends of a copy, at one member."""

    def __init__(self, ports: Ports, log: GroupLog) -> None:
        self._ports = ports
        self._log = log
        self._source: str | None = None  # that we copy from
        self._rows_after: str | None = None  # not None: the log is here, and identities are not
        self._has_moved = False  # did a page come since the last look?

    @property
    def is_on(self) -> bool:
        return self._source is not None

    def stop(self) -> None:
        self._source = self._rows_after = None

    def begin(self, source: str) -> None:
        if self._source is None:
            self._source, self._rows_after = source, None
            self.ask()

    def ask(self) -> None:
        """For the next page."""
        if self._source is not None:
            log = self._log
            ask = LogCopyRequest(log.epoch, log.committed, pages=True, rows_after=self._rows_after)
            self._ports.send(self._source, ask)

    def ask_again(self) -> None:
        """Time passed: ask again when no page came meanwhile."""
        if not self._has_moved:
            self.ask()
        self._has_moved = False

    # -- the sender ------------------------------------------------------------------------------

    def on_ask(self, sender: str, message: LogCopyRequest) -> None:
        def send(copy: LogCopy) -> None:
            self._ports.send(sender, LogCopyPage(message.epoch, message.after, *copy))

        request = CopyRequest(message.after, self._log.committed, message.rows_after, message.pages)
        self._ports.group_entries.copy(request, send)

    # -- the receiver ----------------------------------------------------------------------------

    def on_copy(self, sender: str, message: LogCopyPage, now: float) -> None:
        log = self._log
        if sender != self._source or message.after != log.committed:
            return
        self._has_moved = True
        if self._rows_after is None:
            log.copied(message, now)
            if message.upto < message.end:
                self.ask()
                return
        self._ports.group_entries.adopt_identities(message.identities)
        if message.more:
            self._rows_after = message.more
            self.ask()
            return
        self.stop()
        log.all_copied(now)


class TransferPieces:
    """The tail of another member that comes in parts. At one offset the tails of two members may differ, so
    parts of one are never joined with parts of another."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._source = ""  # the member that sends the tail
        self._entries: dict[int, PlacedEvent] = {}
        self._is_asked = False  # is a part on its way, as it seems?

    def clear(self) -> None:
        self._source, self._entries, self._is_asked = "", {}, False

    def add(self, source: str, entries: Sequence[PlacedEvent]) -> bool:
        """A part came; is anything in it new?"""
        if source != self._source or not any(placed.offset not in self._entries for placed in entries):
            return False
        self._entries.update((placed.offset, placed) for placed in entries)
        self._is_asked = False
        return True

    def tick(self) -> None:
        """A moment passed: what was asked for may be lost."""
        self._is_asked = False

    def tail(
        self, source: str, given: Sequence[PlacedEvent], committed: int, end: int, epoch: int
    ) -> tuple[PlacedEvent, ...] | None:
        """The tail of `source` behind what is committed here; None: the next part of it is asked for."""
        if source != self._source:
            self.clear()
            self._source = source
        self._entries.update((placed.offset, placed) for placed in given)
        after = committed
        while after + 1 in self._entries:
            after += 1
        if after < end:
            if not self._is_asked:
                self._is_asked = True
                self._ports.send(source, TailRequest(epoch, after))
            return None
        tail = tuple(self._entries[offset] for offset in range(committed + 1, end + 1))
        self.clear()
        return tail
