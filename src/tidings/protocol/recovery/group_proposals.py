"""Proposals of one member of a group: events of its clients that are not committed yet, in the order of
publishing.

Rules
- Each proposal has a number, counted from 1 in each epoch. The coordinator gives places in the order of the
  numbers and drops a message behind a gap, so that a lost one never changes the order.
- An event that is committed is not proposed again, even when no message with its number arrived (its
  publisher went to another member). Each message therefore says up to which number everything is committed
  (`Propose.done`): the coordinator never waits for those.
- The order of a publisher holds across members. A publisher that went to another member and was refused there
  goes on with later events; its earlier one may still be proposed by the first member. A proposal behind a
  later event of the same publisher gets no place, and its member is told so (`ProposalsSettled.passed`).
- Messages are sent within a window (`window.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tidings.protocol.batches import PageBuilder
from tidings.protocol.proposals import Proposal
from tidings.protocol.recovery.group_messages import Propose
from tidings.protocol.recovery.window import SendWindow
from tidings.protocol.slots import Ports

if TYPE_CHECKING:
    from tidings.protocol.recovery.group_log import GroupLog


class Tail:
    """Events that have a place and are not committed, for the coordinator that gives places."""

    def __init__(self, proposals: Iterable[Proposal] = ()) -> None:
        self._identities: set[tuple[str, str]] = set()
        self._highest: dict[tuple[str, str], int] = {}  # by source and incarnation: the last number
        for proposal in proposals:
            self.add(proposal)

    def __contains__(self, proposal: Proposal) -> bool:
        return proposal.identity in self._identities

    def add(self, proposal: Proposal) -> None:
        self._identities.add(proposal.identity)
        self._highest[proposal.event.source, proposal.incarnation] = proposal.sequence

    def committed(self, proposal: Proposal) -> None:
        self._identities.discard(proposal.identity)
        publisher = (proposal.event.source, proposal.incarnation)
        if self._highest.get(publisher) == proposal.sequence:
            del self._highest[publisher]

    def last_number(self, proposal: Proposal) -> int:
        """The highest number of its publisher here; 0: there is none."""
        return self._highest.get((proposal.event.source, proposal.incarnation), 0)


class Proposals:
    """Proposals of this member."""

    def __init__(self, ports: Ports, log: GroupLog) -> None:
        self._ports = ports
        self._log = log
        self._numbers: dict[tuple[str, str], int] = {}  # by identity, of those that are not committed
        self._line: dict[int, Proposal] = {}  # by number, from the first that is not committed on
        self._last = 0
        self._window = SendWindow(ports.limits)

    @property
    def waiting(self) -> int:
        return len(self._numbers)

    def add(self, proposals: Sequence[Proposal]) -> None:
        for proposal in proposals:
            self._last += 1
            self._numbers[proposal.identity] = self._last
            self._line[self._last] = proposal

    def wait_for_room(self, reason: str) -> None:
        """Publishers do not wait for room on the disks of the group; their proposals do."""
        for identity in list(self._numbers):
            self._settle(identity, full=reason)

    def settle(self, identity: tuple[str, str], is_kept: bool) -> None:
        """The proposal was committed before, or never will be."""
        self.done(identity)
        self._settle(identity, is_kept=is_kept)

    def _settle(self, identity: tuple[str, str], *, is_kept: bool = True, full: str = "") -> None:
        self._ports.group_entries.settle(identity, is_kept=is_kept, full=full)

    def done(self, identity: tuple[str, str]) -> None:
        """The proposal is committed, or never will be."""
        self._numbers.pop(identity, None)

    def number_anew(self) -> None:
        """An epoch begins: its coordinator knows of none."""
        waiting = [self._line[number] for number in self._numbers.values()]
        self._numbers, self._line, self._last = {}, {}, 0
        self._window = SendWindow(self._ports.limits)
        self.add(waiting)

    def restart(self) -> None:
        """The link to the coordinator was interrupted: messages on their way are lost."""
        self._window.restart(self._window.acked)

    def tick(self) -> None:
        self._window.tick()

    def pump(self, now: float) -> None:
        """Propose the next ones, in order, as far as the window has room."""
        window, line = self._window, self._line
        while line and self._is_done(first := next(iter(line))):
            del line[first]
            window.acknowledge(first)
        while window.has_room and self._log.takes_proposals:
            page = PageBuilder[Proposal](self._ports.limits)
            for number in range(window.sent + 1, self._last + 1):
                if page.is_full or not page.add(line[number]):
                    break
            if not page.items:
                return
            message = Propose(self._log.epoch, window.sent + 1, tuple(page.items), window.acked)
            window.send(window.sent + len(page.items), page.size)
            self._log.send_proposals(message, now)

    def _is_done(self, number: int) -> bool:
        return self._numbers.get(self._line[number].identity) != number
