"""The log of a group: one order of events, each on stable storage at a majority before it is told.

Rules
- The coordinator of the view gives places. Every member keeps what it is sent in a table of its own (the
  tail), says so, and moves it into its log when it is committed: a majority of the voters has it. So the log
  of a member holds committed events only, and none is ever taken back.
- A new view is a new epoch. Its coordinator asks a majority for their logs, takes the one of the latest epoch
  and of those the longest (every committed event is in it), gets from its owner what it lacks, and hands the
  tail to all. No new event is committed until a majority keeps it. Messages of another epoch are ignored.
- A member that was away, or has an empty disk, copies what was committed before it takes the tail.
- Logs and tails pass from member to member in pages that the receiver asks for (`group_copy.py`), live
  entries and proposals within a window (`window.py`): no message is larger than a batch.
- A log counts as that of an epoch when all of its tail is here. A part of a tail does not count: else a
  shorter log of a later epoch would win over a longer one that holds what was committed.
- A member sends its proposals again to each new coordinator, in order, until they are committed; an event
  published again at another member is recognised by the publisher's number. So no event is delivered twice.
- No event is forgotten while a durable subscription at any member needs it (each says one number, not which),
  nor for `keep_seconds`, so that subscribers of a failed distributor find what they missed at another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import msgspec

from tidings.availability.records import Delete, Put, Record
from tidings.protocol.batches import PageBuilder
from tidings.protocol.inputs import Input, LinkUp, Started, ViewChanged
from tidings.protocol.messages import Message
from tidings.protocol.proposals import PlacedEvent, Proposal
from tidings.protocol.recovery.group_acks import MemberAcks
from tidings.protocol.recovery.group_capacity import TELLINGS, GroupCapacity
from tidings.protocol.recovery.group_copy import StateTransfer, TransferPieces
from tidings.protocol.recovery.group_messages import (
    MESSAGES,
    AdoptLog,
    AdoptLogPages,
    LogCopyPage,
    LogCopyRequest,
    LogState,
    LogStateRequest,
    ProposalsSettled,
    Propose,
    Replicate,
    Replicated,
    TailReply,
    TailRequest,
)
from tidings.protocol.recovery.group_proposals import Proposals, Tail
from tidings.protocol.recovery.group_retention import Retention
from tidings.protocol.recovery.window import SendWindow
from tidings.protocol.roles import GroupCommit, GroupEntries, Quorum
from tidings.protocol.slots import Ports, Recovery

TABLE = "recovery.tail"  # rows: by offset what is not committed; `epoch`
EPOCH = "epoch"
FIRST = 1  # epoch: its members founded the group, and no event was committed before it


class GroupLogSettings(msgspec.Struct, frozen=True, kw_only=True):
    again_seconds: float = 0.5  # until an unanswered message is sent again
    keep_seconds: float = 60.0  # an event is kept so long, for those who fail over
    orphan_seconds: float = 3600.0  # what a member that is away needed is kept so long


class GroupLog(Recovery, GroupCommit):
    name = "group log"
    needs = (GroupEntries, Quorum)
    messages: ClassVar[tuple[type[Message], ...]] = MESSAGES

    def __init__(self, settings: GroupLogSettings | None = None) -> None:
        self._settings = settings or GroupLogSettings()
        self.committed = 0
        self.log_epoch = 0
        self._tail: dict[int, PlacedEvent] = {}  # behind `committed`, without a hole
        self._accepted: dict[int, float] = {}  # by offset of the tail: when, by our clock
        self._stored = 0  # all of this epoch up to here is on our disk
        self._is_active = False  # the log of this epoch is ours too
        self._is_kept = False  # and our disk says so
        self._again_at: float | None = None
        self._members: tuple[str, ...] = ()
        self.epoch = 0
        self._known_committed = 0  # that the group has committed, as far as we heard
        self._wanted: AdoptLog | AdoptLogPages | None = None  # the tail, until what lies before it is here
        # of the coordinator
        self._states: dict[str, LogState] = {}
        self._windows: dict[str, SendWindow] = {}  # by member that has taken the tail: what it was sent
        self._untold = 0  # times that the members are told again how far the log is committed
        self._next_of: dict[str, int] = {}  # by member: the number of its next proposal
        self._placed = Tail()

    def bind(self, ports: Ports) -> None:
        super().bind(ports)
        self._proposals = Proposals(ports, self)
        self._copying = StateTransfer(ports, self)
        self._pieces = TransferPieces(ports)  # of a tail that comes in parts
        self._acks = MemberAcks(ports)
        self._room = GroupCapacity(ports, self._proposals)
        self._retention = Retention(ports, self._settings)

    # -- what is on the disk ---------------------------------------------------------------------

    def on_input(self, input: Input, now: float) -> None:
        if isinstance(input, Started):
            self._load(input, now)
        elif isinstance(input, ViewChanged):
            self._view_changed(input, now)
        elif isinstance(input, LinkUp) and input.peer == self._coordinator:
            self._proposals.restart()
            self._proposals.pump(now)
        elif isinstance(input, LinkUp) and input.peer in self._windows:
            self._windows[input.peer].restart(self._windows[input.peer].acked)
            self._pump(input.peer)

    def _load(self, started: Started, now: float) -> None:
        self.committed = started.state.next_offset - 1
        for key, value in started.state.tables.get(TABLE, {}).items():
            if key == EPOCH:
                self.log_epoch = msgspec.msgpack.decode(value, type=int)
            elif int(key) > self.committed:
                self._tail[int(key)] = msgspec.msgpack.decode(value, type=PlacedEvent)
        self._tail = {offset: self._tail[offset] for offset in sorted(self._tail)}
        self._accepted = dict.fromkeys(self._tail, now)
        self._retention.load(started.state.first_offset, now)

    @property
    def _last(self) -> int:
        return self.committed + len(self._tail)

    def _keep(self, entries: Sequence[PlacedEvent], drop: Sequence[int], then: Any) -> None:
        records: list[Record] = [Delete(TABLE, str(offset)) for offset in drop]
        records += [Put(TABLE, str(placed.offset), msgspec.msgpack.encode(placed)) for placed in entries]
        records.append(Put(TABLE, EPOCH, msgspec.msgpack.encode(self.epoch)))
        self.ports.disk.persist(records, then, None, lambda reason: self._no_room())

    def _forget_epoch(self) -> None:
        """Our disk was put back to an older copy: its log proves as little as an empty one."""
        self.log_epoch = 0
        self.ports.disk.persist([Put(TABLE, EPOCH, msgspec.msgpack.encode(0))])

    # -- room ------------------------------------------------------------------------------------

    def _no_room(self) -> None:
        if self._leads:
            self._look_at_room()
        elif self._is_active:
            self._say_stored()

    def _look_at_room(self) -> None:
        if self._room.review(self._acks.voters()):
            self._announce_committed()

    # -- views -----------------------------------------------------------------------------------

    @property
    def _coordinator(self) -> str | None:
        return self.ports.quorum.coordinator

    @property
    def _leads(self) -> bool:
        return self._coordinator == self.ports.name

    def _view_changed(self, change: ViewChanged, now: float) -> None:
        number = change.number if change.is_member else 0
        self._members = tuple(member for member in change.members if number and member != self.ports.name)
        if number == self.epoch:
            return  # it only began or ceased to serve
        self.epoch = number
        if change.went_back:
            self._forget_epoch()
        self._retention.begin(now)
        self._is_active = self._is_kept = False
        self._copying.stop()
        self._wanted = None
        self._pieces.clear()
        self._states, self._next_of, self._windows = {}, {}, {}
        self._acks.clear()
        self._proposals.number_anew()
        self._room.clear()
        if number == FIRST and not self.log_epoch:
            self.log_epoch = FIRST
            self._keep((), (), None)
        if number and self._leads:
            self._request(now)
        self._again_at = now + self._settings.again_seconds

    # -- a new coordinator -------------------------------------------------------------------------

    def _request(self, now: float) -> None:
        self._states[self.ports.name] = self._state(LogStateRequest(self.epoch), now)
        for member in self._members:
            self.ports.send(member, LogStateRequest(self.epoch, True, self._acks.proved(member)))
        self._try_take(now)

    def _on_state(self, sender: str, message: LogState, now: float) -> None:
        if message.epoch == self.epoch and self._leads and not self._is_active:
            self._states[sender] = message
            self._retention.said(sender, message.needs, now)
            self._try_take(now)

    def _try_take(self, now: float) -> None:
        """Take the best log, as soon as a majority has shown theirs."""
        if self._copying.is_on or self._is_active or not self._have_enough():
            return
        best, state = max(sorted(self._states.items()), key=lambda item: (item[1].log_epoch, item[1].end))
        if state.committed > self.committed:
            self._copying.begin(best)
            return
        committed = max(each.committed for each in self._states.values())
        assert committed <= max(self.committed, state.end), "the best log holds all that was committed"
        tail = self._pieces.tail(best, state.tail, self.committed, state.end, self.epoch)
        if tail is not None:
            self._take_tail(tail, now)
            self._adopt_everywhere(now)

    def _have_enough(self) -> bool:
        """Is every committed entry in one of the logs that were shown? An entry is on a majority of disks,
        and a disk that replaces one of them is empty: it counts as a member, and proves no commit."""
        voters = self._acks.voters()
        shown = [state for name, state in self._states.items() if voters.get(name) is not None]
        written = sum(state.log_epoch > 0 for state in shown)
        count = len(voters)
        return len(shown) == count or (2 * len(shown) > count and 2 * written >= count)

    def _adopt_everywhere(self, now: float) -> None:
        self._next_of, self._windows = {}, {}
        self._placed = Tail(placed.proposal for placed in self._tail.values())
        for member in self._members:
            self.ports.send(member, self._adoption())
        self._proposals.pump(now)

    def _adoption(self) -> AdoptLog | AdoptLogPages:
        page = self._page(self._tail.values())
        if len(page.items) == len(self._tail):
            return AdoptLog(self.epoch, self.committed, tuple(page.items))
        return AdoptLogPages(self.epoch, self.committed, self._last)

    def _page(self, entries: Iterable[PlacedEvent]) -> PageBuilder[PlacedEvent]:
        """As many of these as one message holds."""
        page = PageBuilder[PlacedEvent](self.ports.limits)
        for placed in entries:
            if page.is_full or not page.add(placed):
                break
        return page

    def _on_tail_ask(self, sender: str, message: TailRequest, now: float) -> None:
        if self._leads and message.after < self.committed:
            self.ports.send(sender, self._adoption())  # it was committed meanwhile, and is in our log
            return
        wanted = (placed for offset, placed in self._tail.items() if offset > message.after)
        page = self._page(self._aged(placed, now) for placed in wanted)
        self.ports.send(sender, TailReply(self.epoch, message.after, tuple(page.items)))

    def _on_tail_part(self, sender: str, message: TailReply, now: float) -> None:
        if self._pieces.add(sender, message.entries):
            self._go_on(now)

    def _go_on(self, now: float) -> None:
        """With a log that is on its way here."""
        if self._copying.is_on:
            self._copying.ask_again()
        elif self._leads and not self._is_active:
            self._try_take(now)
        elif self._wanted is not None:
            self._on_adopt(self._wanted, now)

    def _take_tail(self, tail: tuple[PlacedEvent, ...], now: float) -> None:
        """From now on this is our log behind what is committed."""
        dropped = [offset for offset in self._tail if offset > (tail[-1].offset if tail else self.committed)]
        self._tail = {placed.offset: placed for placed in tail}
        self._accepted = {placed.offset: now - placed.proposal.age for placed in tail}
        self._is_active, self.log_epoch = True, self.epoch
        self._stored = self.committed
        epoch, last = self.epoch, self._last
        self._keep(tail, dropped, lambda at: self._is_stored(epoch, last, at))

    # -- members -----------------------------------------------------------------------------------

    def on_message(self, sender: str, message: Message, now: float) -> None:
        if self._again_at is not None and self._again_at > now + self._settings.again_seconds:
            self._again_at = now  # our clock was set back
        if message.epoch != self.epoch:  # type: ignore[attr-defined]
            return  # of an earlier coordinator, of a view not yet known, or to an earlier life
        if isinstance(message, LogCopyPage):
            self._copying.on_copy(sender, message, now)
        elif isinstance(message, LogCopyRequest):
            self._copying.on_ask(sender, message)
        elif isinstance(message, LogStateRequest) and sender == self._coordinator:
            if message.stored > self._last:
                self._forget_epoch()
            self.ports.send(sender, self._state(message, now))
        elif isinstance(message, LogState):
            self._on_state(sender, message, now)
        elif isinstance(message, AdoptLog | AdoptLogPages) and sender == self._coordinator:
            self._on_adopt(message, now)
        elif isinstance(message, TailRequest) and (self._is_active or sender == self._coordinator):
            self._on_tail_ask(sender, message, now)
        elif isinstance(message, TailReply):
            self._on_tail_part(sender, message, now)
        elif isinstance(message, Replicate) and sender == self._coordinator:
            self._on_replicate(sender, message, now)
        elif isinstance(message, ProposalsSettled) and sender == self._coordinator:
            self._settle(message, now)
        elif isinstance(message, Replicated) and self._leads:
            self._on_stored(sender, message, now)
        elif isinstance(message, Propose) and self._leads and self._is_active:
            self._on_propose(sender, message, now)

    def _aged(self, placed: PlacedEvent, now: float) -> PlacedEvent:
        age = max(0.0, now - self._accepted.get(placed.offset, now))
        return PlacedEvent(placed.offset, msgspec.structs.replace(placed.proposal, age=age))

    def _state(self, request: LogStateRequest, now: float) -> LogState:
        aged = (self._aged(placed, now) for placed in self._tail.values())
        tail = self._page(aged).items if request.pages else list(aged)
        last = self._last if request.pages else -1
        needs = self._retention.needs()
        return LogState(self.epoch, self.log_epoch, self.committed, tuple(tail), needs, last)

    def _on_adopt(self, message: AdoptLog | AdoptLogPages, now: float) -> None:
        self._known_committed = max(self._known_committed, message.committed)
        if self._is_active and message.committed <= self._last:
            self._commit(max(self.committed, message.committed), now)
            self._say_stored()
            return
        self._is_active = False  # we missed so much that the coordinator holds it in its log alone
        self._wanted = message
        assert self._coordinator is not None
        if message.committed > self.committed:
            self._copying.begin(self._coordinator)
            return
        if isinstance(message, AdoptLog):
            tail: tuple[PlacedEvent, ...] | None = tuple(p for p in message.tail if p.offset > self.committed)
        else:
            end = max(message.last, self.committed)
            tail = self._pieces.tail(self._coordinator, (), self.committed, end, self.epoch)
        if tail is not None:
            self._wanted = None
            self._take_tail(tail, now)
            self._proposals.pump(now)

    def _on_replicate(self, sender: str, message: Replicate, now: float) -> None:
        self._known_committed = max(self._known_committed, message.committed)
        self._room.receive(message.full)
        if not self._is_active:
            return  # the tail of this epoch did not come yet; it is sent again
        if message.after > self._last:
            self._say_stored(lacks=True)
            return
        new = [placed for placed in message.entries if placed.offset > self._last]
        for placed in new:
            self._tail[placed.offset] = placed
            self._accepted[placed.offset] = now - placed.proposal.age
        if new:
            epoch, last = self.epoch, self._last
            self._keep(new, (), lambda at: self._is_stored(epoch, last, at))
        elif message.entries:
            self._say_stored()  # it was sent again: what we said of it was lost
        self._retention.set_floor(message.floor)
        self._commit(min(message.committed, self._last), now)

    def _is_stored(self, epoch: int, upto: int, now: float) -> None:
        if epoch != self.epoch:
            return
        self._stored, self._is_kept = max(self._stored, upto), True
        if self._leads:
            self._acks.add(self.ports.name, self._stored)
            self._count(now)
        else:
            self._say_stored()

    def _say_stored(self, *, lacks: bool = False) -> None:
        if self._coordinator is not None:
            upto = self._last if lacks else self._stored
            stored = Replicated(self.epoch, upto, self._retention.needs(), lacks, self._room.own)
            self.ports.send(self._coordinator, stored)

    # -- the coordinator ---------------------------------------------------------------------------

    def _on_propose(self, sender: str, message: Propose, now: float) -> None:
        due = max(self._next_of.get(sender, 1), message.done + 1)
        if message.first > due:
            return  # an earlier one was lost: all are proposed again
        new = message.proposals[due - message.first :]
        if new:
            self._next_of[sender] = message.first + len(message.proposals)
            self._append_proposals(new)
        # Those of the old ones were proposed again because the first answer was lost with its link.
        if (settled := self._settled(message.proposals)) is not None:
            self.ports.send(sender, settled)

    def _knows(self, proposal: Proposal) -> bool | None:
        return self.ports.group_entries.knows(proposal)

    def _settled(self, proposals: Sequence[Proposal]) -> ProposalsSettled | None:
        """The answer for those that have no place in the tail; None: all have one."""
        absent = [proposal for proposal in proposals if proposal not in self._placed]
        known = tuple(each.identity for each in absent if self._knows(each))
        passed = tuple(each.identity for each in absent if each.identity not in known)
        return ProposalsSettled(self.epoch, known, passed) if absent else None

    def _append_proposals(self, proposals: Sequence[Proposal]) -> None:
        """Give places to those that were not committed before, and send them on."""
        before = self._last
        for proposal in proposals:
            if proposal in self._placed or self._knows(proposal) is not False:
                continue
            if proposal.sequence < self._placed.last_number(proposal):
                continue  # its publisher went on without it
            offset = self._last + 1
            self._placed.add(proposal)
            self._tail[offset] = PlacedEvent(offset, proposal)
        new = [self._tail[offset] for offset in range(before + 1, self._last + 1)]
        if new:
            for member in self._windows:
                self._pump(member)
            epoch, last = self.epoch, self._last
            self._keep(new, (), lambda at: self._is_stored(epoch, last, at))

    def _pump(self, member: str) -> None:
        """Send a member what comes next, as far as its window has room."""
        window = self._windows[member]
        while self._is_active and window.has_room and self.committed <= window.sent < self._last:
            page = self._page(self._tail[offset] for offset in range(window.sent + 1, self._last + 1))
            entries = tuple(page.items)
            self._replicate(member, window, entries)
            window.send(entries[-1].offset, page.size)

    def _on_stored(self, sender: str, message: Replicated, now: float) -> None:
        self._retention.said(sender, message.needs, now)
        self._room.report(sender, message)
        if not message.lacks:  # else it says what it holds, which is not what is on its disk
            self._acks.add(sender, message.upto)
        window = self._windows.get(sender)
        if window is None:
            window = self._windows[sender] = SendWindow(self.ports.limits, message.upto)
            self._replicate(sender, window)  # it was not told of what was committed before
        if message.lacks:
            window.restart(message.upto)
        else:
            window.acknowledge(message.upto)
        self._send_on(sender, window)
        self._count(now)

    def _send_on(self, member: str, window: SendWindow) -> None:
        """Send a member its missing entries: from the tail, or from the log when they are committed."""
        if window.sent < self.committed and not window.is_waiting:
            self.ports.send(member, self._adoption())
        else:
            self._pump(member)

    def _count(self, now: float) -> None:
        """Commit the entries that a majority of the voters has."""
        if self._is_active and (upto := self._acks.majority()) > self.committed:
            self._commit(min(upto, self._last), now)
            self._announce_committed()
        self._acks.prove(self.committed)
        self._look_at_room()

    def _announce_committed(self) -> None:
        self._untold = TELLINGS
        for member, window in self._windows.items():
            self._replicate(member, window)

    def _replicate(self, member: str, window: SendWindow, entries: tuple[PlacedEvent, ...] = ()) -> None:
        log = (self.committed, self.floor, self._room.reason)
        self.ports.send(member, Replicate(self.epoch, window.sent, entries, *log))

    # -- committing --------------------------------------------------------------------------------

    def _commit(self, upto: int, now: float) -> None:
        while self.committed < upto:
            offset = self.committed + 1
            placed, accepted = self._tail.pop(offset), self._accepted.pop(offset, now)
            self.committed = offset
            self._placed.committed(placed.proposal)
            self._proposals.done(placed.proposal.identity)
            self._enter(placed, accepted, [Delete(TABLE, str(offset))], now)
        self._proposals.pump(now)

    def _enter(self, placed: PlacedEvent, accepted: float, records: list[Record], now: float) -> None:
        self._retention.entered(placed.offset, now)
        self.ports.group_entries.enter(placed.offset, placed.proposal, accepted, records, now)

    # -- proposing ---------------------------------------------------------------------------------

    def propose(self, proposals: Sequence[Any], now: float) -> None:
        self._proposals.add(proposals)
        if self._again_at is None or self._again_at > now + self._settings.again_seconds:
            self._again_at = now + self._settings.again_seconds
        self._proposals.pump(now)

    @property
    def takes_proposals(self) -> bool:
        """Is there a coordinator whose log of this epoch is here?"""
        return self._is_active and self._coordinator is not None

    def send_proposals(self, message: Propose, now: float) -> None:
        assert self._coordinator is not None
        if not self._leads:
            self.ports.send(self._coordinator, message)
            return
        self._append_proposals(message.proposals)
        if (settled := self._settled(message.proposals)) is not None:
            self._settle(settled, now)

    def _settle(self, settled: ProposalsSettled, now: float) -> None:
        """These of ours wait for no place."""
        for identity in (*settled.identities, *settled.passed):
            self._proposals.settle(identity, identity not in settled.passed)
        self._proposals.pump(now)

    def copied(self, message: LogCopyPage, now: float) -> None:
        """A page of another member's log: committed, so it goes into ours."""
        self._known_committed = max(self._known_committed, message.end)
        for placed in message.entries:
            self._tail.pop(placed.offset, None)
            self._enter(placed, now - placed.proposal.age, [Delete(TABLE, str(placed.offset))], now)
        for offset in [offset for offset in self._tail if offset <= message.upto]:
            del self._tail[offset]
        self.committed = message.upto
        self.ports.own_log.skip_to(message.upto)

    def all_copied(self, now: float) -> None:
        if self._leads:
            mine = self._states[self.ports.name]
            self._states[self.ports.name] = msgspec.structs.replace(
                mine, committed=self.committed, tail=tuple(p for p in mine.tail if p.offset > self.committed)
            )
        self._go_on(now)

    @property
    def full(self) -> str | None:
        return self._room.reason or None

    @property
    def has_caught_up(self) -> bool:
        """Whether this member's disk holds all that the group has committed, as far as is known here."""
        is_here = self.committed >= self._known_committed and not self.ports.group_entries.entering()
        return self._is_active and self._is_kept and is_here

    # -- what is kept ------------------------------------------------------------------------------

    @property
    def floor(self) -> int:
        return self._retention.floor

    def is_pinned(self, offset: int) -> bool:
        return offset >= self.floor

    # -- time --------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        return self._again_at

    def on_timer(self, now: float) -> None:
        self._again_at = None
        if not self.epoch or not self._members:
            return
        self._proposals.tick()
        self._proposals.pump(now)
        self._pieces.tick()
        (self._push_on if self._leads else self._go_on)(now)
        if self._room.tick():
            self._no_room()
        self._again_at = now + self._settings.again_seconds

    def _push_on(self, now: float) -> None:
        if not self._is_active:
            self._go_on(now)
            for member in self._members:
                if member not in self._states:
                    self.ports.send(member, LogStateRequest(self.epoch, True, self._acks.proved(member)))
            return
        before = self.floor
        self._retention.raise_floor(self._members, self._acks.voters(), self.committed, now)
        for member in self._members:
            window = self._windows.get(member)
            if window is None:
                self.ports.send(member, self._adoption())
            elif window.tick() or window.sent < self._last:
                self._send_on(member, window)
            elif self.floor != before or self._untold:
                self._replicate(member, window)
        self._untold = max(0, self._untold - 1)

    def figures(self) -> dict[str, Any]:
        return {
            "group committed": self.committed,
            "group tail": len(self._tail),
            "group proposals waiting": self._proposals.waiting,
            "group epoch": self.epoch,
            "group caught up": int(self.has_caught_up),
            "group full": int(self.full is not None),
        }

    def check(self) -> None:
        assert list(self._tail) == list(range(self.committed + 1, self._last + 1)), "the tail has no hole"
