"""Dispatch of live events to queues and from queues to members, with acknowledgements and redelivery.

Rules
- A queue is bounded. When it is full, a durable subscription spills to the log (`StoreReader`), and
  a transient one follows its policy; each lost event is counted under the policy's name.
- An item goes to one member that has credit; members of a group take turns.
- Events that a member returns, or has unacknowledged when it leaves, go to the front of the queue, in the
  order in which they were sent first. After `max_deliveries` attempts they go to dead letters instead.
- Policy `block`: the item waits outside the queue, and its publisher waits with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tidings.errors import TidingsError
from tidings.history.schema import dead_row
from tidings.model.event import Event, event_size
from tidings.model.subscription import Policy, Position
from tidings.protocol.delivery.bounds import ON_AGE, SubscriptionBounds
from tidings.protocol.delivery.credit import CreditWindow
from tidings.protocol.delivery.cursor import LIVE, REPLAYING
from tidings.protocol.delivery.dead_letters import DeadLetters, item_of
from tidings.protocol.delivery.item import Item
from tidings.protocol.delivery.keyed_items import KeyedItems
from tidings.protocol.delivery.log_index import LogIndex
from tidings.protocol.delivery.loss_report import LossReport
from tidings.protocol.delivery.oversized import OversizedEvents
from tidings.protocol.delivery.owner import UNCOUNTED
from tidings.protocol.delivery.pending import PendingPublish
from tidings.protocol.delivery.publisher_migration import PublisherMigration
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.delivery.subscription_state import Member, SubscriptionState
from tidings.protocol.delivery.unacked import NONE_UNACKED, ItemRun, SentRun, Unacked, bytes_of
from tidings.protocol.effects import Record, Send
from tidings.protocol.lazy_queues import EMPTY, UniformQueue, own
from tidings.protocol.messages import Deliver, DeliverAll, Message
from tidings.protocol.slots import Ports

if TYPE_CHECKING:
    from tidings.protocol.delivery.exactly_once import ExactlyOnce

OVERTAKEN = "overtaken by a move"  # a later stay of its publisher was told
FAILED = "the broker failed to deliver an event to it"
SLOW = "its queue was full and its policy is `disconnect`"
Ticket = PendingPublish | None  # publish that waits for room; None: it waits for no answer


class Dispatcher:
    def __init__(
        self, ports: Ports, settings: DeliverySettings, index: LogIndex, dead: DeadLetters, hooks: ExactlyOnce
    ) -> None:
        self._ports, self._index, self._dead, self._hooks = ports, index, dead, hooks
        self.moves = PublisherMigration(ports, index)
        self.losses = LossReport(ports, settings, hooks)
        self.bounds = SubscriptionBounds(ports, index, hooks, self, self.losses)
        self.oversized = OversizedEvents(ports, dead, self)
        self.sent = 0  # notifications, to all subscriptions
        self._credit = CreditWindow(ports.limits)
        self.granted: dict[SubscriptionState, None] = {}  # subscriptions of members that may be sent more
        self._few_bytes, self._backlog = self._credit.few_bytes, ports.backlog
        self._most_together, self._most_bytes = ports.limits.batch_count, ports.limits.batch_bytes
        self._last_events: tuple[Event, ...] = ()  # that were sent together from a queue
        self._keyed = KeyedItems(index)
        self._policies: dict[Policy, Callable[[SubscriptionState, Item, Ticket, float], bool]] = {
            Policy.BLOCK: self._block, Policy.DROP_OLDEST: self._drop_oldest,
            Policy.DROP_NEWEST: self._drop_newest, Policy.DISCONNECT: self._disconnect,
        }  # fmt: skip

    @property
    def figures(self) -> dict[str, int]:
        return {"delivered": self.sent, **self.losses.figures, "given up over quota": self.bounds.over_quota}

    # -- in ------------------------------------------------------------------------------

    def dispatch(
        self, states: Sequence[SubscriptionState], batch: Sequence[PendingPublish], now: float
    ) -> None:
        """Deliver events that follow one another, and that all of these subscriptions accept. A subscription
        that is live, with one member and an empty queue gets as many as it has credit for at once, in one
        message; the rest joins its queue together. Any other subscription is offered them one by one. One at
        which the broker fails is closed, and the error is raised when the others have the events."""
        after, count, size, is_plain, is_kept = self._index.end, len(batch), 0, True, False
        for pending in batch:
            pending.after = after
            size += pending.size
            if pending.position is not None:
                is_kept = True
            if pending.expires_at is not None or pending.moved is not None or pending.event.key is not None:
                is_plain = False
        items: Sequence[Item] = ItemRun(batch) if count > 1 else batch  # shared by all subscriptions
        events: tuple[Event, ...] = ()  # one object for all subscriptions: it is encoded once
        failed: Exception | None = None
        for state in states:
            position = 0  # of the first event that is not seen to
            try:
                if (
                    is_plain
                    and state.own.state is LIVE
                    and not (state.blocked or state.moving or state.has_ended)
                    and (is_kept or not state.durable)
                ):
                    members = state.members
                    if len(members) == 1 and not state.queue and (member := members[0]).credit > 0:
                        position = count if member.credit >= count else member.credit
                        if is_kept:
                            self._send_kept(state, member, items[:position])
                        elif position < count:
                            self._send(state, member, items[:position], bytes_of(items, 0, position), True)
                        else:
                            events = self._send(state, member, items, size, True, events)
                        if state.durable:
                            self._hooks.delivered(state, now)
                        if state.others and state.is_behind:
                            self._hooks.read(state, now)
                    if position < count and not is_kept:
                        position = self._wait(state, items, position, count, size)
                while position < count:
                    self._offer(state, batch[position], after, now)
                    position += 1
            except Exception as error:  # a defect of ours at one of them: the others are served
                failed = failed or error
                self._hooks.close(state, TidingsError.code, FAILED, now)
        if failed is not None:
            raise failed

    def _send(
        self, state: SubscriptionState, member: Member, items: Sequence[Item], size: int, is_plain: bool,
        events: tuple[Event, ...] = (), log: str = "",
    ) -> tuple[Event, ...]:  # fmt: skip
        """Send a member events in one message; several are sent for the first time. `is_plain`: none is a
        dead letter, and no log holds one. `log`: of several events, the log that holds all of them. `events`:
        theirs, if another member was sent them before; the same object is encoded once."""
        count, tag = len(items) if items[1:] else 1, state.last_tag + 1
        unacked = state.unacked
        if not unacked:
            unacked = state.unacked = Unacked()
        unacked += (SentRun(tag, tag + count, tag, items, member, size, size, is_plain),)
        unacked.deliveries += count
        if count == 1:
            one = items[0]
            message: Message = Deliver(member.ref, tag, one.event, one.position, one.attempt, one.again)
        else:
            events = events or tuple([item.event for item in items])
            if events == self._last_events:
                events = self._last_events
            self._last_events = events
            offsets = [item.position.offset for item in items if item.position is not None] if log else ()
            message = DeliverAll(member.ref, tag, events, log, tuple(offsets))
        if count == 1 or (count <= self._most_together and size <= self._most_bytes):  # it is sent whole
            self._ports.emit(Send(member.address, message))
        else:
            self._ports.send(member.address, message)
        state.last_tag = tag + count - 1  # so the last tag counts what was sent
        self.sent += count
        member.credit -= count
        open_bytes = member.open_bytes = member.open_bytes + size
        state.memory.used += size
        if open_bytes >= self._few_bytes:
            self._credit.withhold(member)
        return events

    def send_live(self, state: SubscriptionState, items: list[Item], now: float) -> int:
        """Send a subscription live events of one log, as many as can go at once; how many that is."""
        member = state.ready_member()
        if member is None or state.moving is not None:
            return 0
        count = min(member.credit, len(items))
        self._send_kept(state, member, items[:count] if count < len(items) else items)
        if state.is_behind:
            self._hooks.read(state, now)
        return count

    def _send_kept(self, state: SubscriptionState, member: Member, items: Sequence[Item]) -> None:
        """Send a member events at once of which a log holds some: neighbours of one log in one message."""
        begin, count = 0, len(items)
        while begin < count:
            log, end = items[begin].log, begin + 1
            while end < count and items[end].log == log:
                end += 1
            run, begin = items if end - begin == count else items[begin:end], end
            offsets = [item.position.offset for item in run if item.position is not None]
            cursor = state.cursor_in(log) if log else None
            is_new = cursor is None or cursor.progress.hand_out_all(offsets)
            assert is_new, f"{state.id}: {log} {offsets} were settled before"
            for offset in offsets if state.durable and log == self._index.log else ():
                self._index.owe(offset, state.owner, state.options.superseding)
            self._send(state, member, run, sum([item.size for item in run]), not log, (), log)

    def _wait(
        self, state: SubscriptionState, items: Sequence[Item], begin: int, count: int, size: int
    ) -> int:
        """Add events that no log holds, from this place on, to the queue of a live subscription whose members
        have no credit; the place up to which there was room and no more to do than that."""
        queue, memory, room = state.queue, state.memory, state.options.queue
        if queue:
            room -= len(queue)
        else:
            for member in state.members:
                if member.credit > 0:
                    return begin
        if room <= 0:  # below 0 when a batch was given back
            return begin
        end = min(begin + room, count) if begin or count > room else count
        if end - begin < count:
            items, size = items[begin:end], bytes_of(items, begin, end)
        if memory.used + size >= memory.most:
            return begin
        if queue:
            queue.extend(items)
        else:
            state.queue = UniformQueue(items)
        state.queued_bytes += size
        memory.used += size
        if state.members:
            self._backlog.waited += end - begin
        return end

    def _offer(self, state: SubscriptionState, pending: PendingPublish, after: int, now: float) -> None:
        """A live event that the subscription accepts and that may have to wait."""
        position = pending.position
        if state.has_ended or (position is None and state.durable and state.number > pending.number):
            return  # in the second case the log holds no event for it: it began after the event was accepted
        if state.durable:
            self._hooks.delivered(state, now)
        if position is not None:
            if state.durable:
                self._index.owe(position.offset, state.owner, state.options.superseding)
            if state.own.state is REPLAYING or (state.durable and state.is_full):
                self._leave_in_log(state, position.offset, now)
                return
        item = Item(pending.event, pending.size, position, pending.accepted, pending.expires_at)
        item.after, item.moved = after, pending.moved
        self.take_in(state, item, pending, now)

    def offer(self, state: SubscriptionState, event: Event, now: float) -> None:
        """A live event of no log, for one subscription alone."""
        self.take_in(state, Item(event, event_size(event), None, now, None, after=self._index.end), None, now)

    def take_in(self, state: SubscriptionState, item: Item, ticket: Ticket, now: float) -> None:
        """A live event: send it, or add it to the queue by the subscription's policy."""
        is_plain = item.moved is None and state.moving is None
        if not is_plain and not self._may_pass(state, item, now):
            return
        member = state.ready_member()
        if member is not None and item.event.key is None and not item.expired(now):
            self._note(state, item)
            self._send(state, member, (item,), item.size, item.position is None)
            if state.is_behind:
                self._hooks.read(state, now)
            return
        if state.is_full and not self._policies[state.options.policy](state, item, ticket, now):
            return
        self.enqueue(state, item)
        if state.members:
            self._backlog.waited += 1
        self.bounds.keep(state, now)
        self.pump(state, now)

    def take(self, state: SubscriptionState, item: Item, now: float) -> None:
        """An event that was read."""
        keep = state.options.keep_seconds
        if keep is not None and state.durable and item.accepted + keep <= now:
            self._note(state, item)
            self.lose(state, item, ON_AGE, now)
        elif self._may_pass(state, item, now):
            self.enqueue(state, item)

    def _may_pass(self, state: SubscriptionState, item: Item, now: float) -> bool:
        """Not before what its publisher left at other brokers (see `publisher_migration.py`)."""
        if item.moved is None and state.moving is None:
            return True
        if self.moves.is_overtaken(state, item):
            self._note(state, item)
            self.lose(state, item, OVERTAKEN, now)
            return False
        if self.moves.must_wait(state, item):
            self._note(state, item)
            self.moves.bar(state, item, now)
            self._hooks.touched(state, now)  # the timer then looks again soon
            return False
        self.moves.passes(state, item)
        return True

    def release(self, state: SubscriptionState, now: float) -> None:
        """See what of the barred may go now."""
        for item in self.moves.released(state, now):
            if self.moves.is_overtaken(state, item):  # while it waited
                self.lose(state, item, OVERTAKEN, now)
            else:
                self.moves.passes(state, item)
                self.enqueue(state, item)
        if not state.has_ended:
            self.pump(state, now)

    def _leave_in_log(self, state: SubscriptionState, offset: int, now: float) -> None:
        """The event will be read from the log in its turn."""
        state.own.spill(offset)
        if state.members:
            self._backlog.waited += 1
        if state.durable:
            state.own.owe_later(offset)
            self.bounds.keep(state, now)

    def enqueue(self, state: SubscriptionState, item: Item) -> None:
        """Put it at the end of the queue, or behind the replay that goes on."""
        self._line_up(state, item)
        self._note(state, item)

    def _line_up(self, state: SubscriptionState, item: Item) -> None:
        is_behind = item.position is None and state.own.state is REPLAYING
        own(state.own if is_behind else state, "pending" if is_behind else "queue").append(item)
        state.count_queued(item.size)

    def _note(self, state: SubscriptionState, item: Item) -> None:
        if item.position is not None and item.dead_letter is None:
            cursor = state.cursor_in(item.position.log)
            is_new = cursor is None or cursor.progress.hand_out(item.position.offset)
            assert is_new, f"{state.id}: {item.position} was settled before"
            if state.stored.owner and not state.stored.is_ranked and item.position.log == self._index.log:
                self.bounds.rank(state, item.accepted)
        if item.event.key is not None:
            self._keyed.add(state, item)

    def _block(self, state: SubscriptionState, item: Item, ticket: Ticket, now: float) -> bool:
        own(state, "blocked").append(item)
        self._note(state, item)
        if ticket is not None:
            item.ticket = ticket
            ticket.blocked += 1
        return False

    def _drop_oldest(self, state: SubscriptionState, item: Item, ticket: Ticket, now: float) -> bool:
        oldest = (state.queue or state.own.pending).popleft()
        state.count_queued(-oldest.size)
        self.lose(state, oldest, Policy.DROP_OLDEST, now)
        return True

    def _drop_newest(self, state: SubscriptionState, item: Item, ticket: Ticket, now: float) -> bool:
        self._note(state, item)
        self.lose(state, item, Policy.DROP_NEWEST, now)
        return False

    def _disconnect(self, state: SubscriptionState, item: Item, ticket: Ticket, now: float) -> bool:
        self.losses.count_lost(state, item.event, Policy.DISCONNECT, now)
        self._hooks.close(state, "slow", SLOW, now)
        return False

    # -- out -----------------------------------------------------------------------------

    def opened(self, state: SubscriptionState, now: float) -> None:
        """A listener opened the subscription, or joined it."""
        if state.lost:
            self.losses.notify(state, now)
        self.oversized.retry(state)
        self.pump(state, now)

    def pump(self, state: SubscriptionState, now: float) -> None:
        """Send what waits to members that have credit, then fill the room that it left."""
        while state.queue:
            members = state.members
            member = members[0] if members and not members[1:] else state.next_member()
            if member is None or member.credit <= 0:
                break
            self._send_waiting(state, member, now)
            if state.blocked:
                self._unblock(state, now)
        if not state.queue:
            state.queue = EMPTY
            if state.queued_bytes and not state.own.pending:
                state.count_queued(-state.queued_bytes)
        if (state.others or state.own.state is REPLAYING) and state.is_behind:
            self._hooks.read(state, now)
        elif (
            state.options.until_live and state.members and not (state.queue or state.unacked or state.barred)
        ):
            self._hooks.close(state, "closed", "all that was available is delivered", now)

    def _send_waiting(self, state: SubscriptionState, member: Member, now: float) -> None:
        """Send waiting events to a member: to the only one as many as it has credit for, else one. First
        sendings of events that one log holds, or none, share a message."""
        queue, most, size, room = state.queue, member.credit if len(state.members) == 1 else 1, 0, 1 << 62
        if member.open_bytes + state.queued_bytes >= self._few_bytes:
            room = self._credit.room(member)
        items: list[Item] = []  # that share a message
        shared, is_plain, log = 0, True, ""  # bytes of those; is none a dead letter or in a log; their log
        if type(queue) is UniformQueue and len(queue) <= most and state.queued_bytes < room:
            items, state.queue = list(queue), EMPTY
            size = shared = sum([item.size for item in items]) if items[1:] else items[0].size
        while state.queue and most > 0 and room > 0 and member.credit > 0:
            most -= 1
            item = queue.popleft()
            size += item.size
            if item.event.key is not None:
                self._keyed.discard(state, item)
            if item.expires_at is not None and item.expires_at <= now:
                self.lose(state, item, "expired", now)
                continue
            room -= item.size
            is_alone = item.again or item.attempt > 1 or (item.position and item.dead_letter is not None)
            if items and (is_alone or (item.position.log if item.position else "") != log):
                self._send(state, member, items, shared, is_plain, (), log)
                items, shared, is_plain = [], 0, True
            log = item.position.log if item.position else ""
            items += (item,)
            shared += item.size
            is_plain = is_plain and not log and item.dead_letter is None
            if is_alone:
                self._send(state, member, items, shared, is_plain)
                items, shared, is_plain = [], 0, True
        if items:
            self._send(state, member, items, shared, is_plain, (), log)
        size = size if size < state.queued_bytes else state.queued_bytes
        state.queued_bytes -= size
        state.memory.used -= size

    def send_to(self, member: Member, item: Item) -> None:
        """Send a member an event that it has in hand, without regard to its credit."""
        self._keyed.discard(member.subscription, item)
        self._send(member.subscription, member, (item,), item.size, item.position is None)

    def _unblock(self, state: SubscriptionState, now: float) -> None:
        while state.blocked and not state.is_full:
            item = state.blocked.popleft()
            self._line_up(state, item)
            self._release_ticket(item, now)

    def _release_ticket(self, item: Item, now: float) -> None:
        ticket, item.ticket = item.ticket, None
        if ticket is not None:
            ticket.blocked -= 1
            if not ticket.blocked:
                self._hooks.unblocked(ticket)

    # -- what members say --------------------------------------------------------------------

    def credit(self, member: Member, amount: int) -> None:
        """Add to a member's credit; `pump_granted` follows."""
        if self._credit.grant(member, amount):
            self.granted[member.subscription] = None

    def pump_granted(self, now: float) -> None:
        """Send what waits to the members that may be sent more."""
        states, self.granted = self.granted, {}
        for state in states:
            if not state.has_ended:
                self.pump(state, now)

    def acknowledge(self, member: Member, tags: Sequence[int], now: float) -> None:
        """Settle what a member has handled; `pump_granted` follows."""
        state, size = member.subscription, 0
        for run in state.unacked.take(member, tags):
            size += run.size
            if not run.is_plain and run.stop - run.first > 1:
                self._settle_run(state, run.own_items, now)
            elif not run.is_plain:
                self.settle(state, run.items[run.first - run.base], now)
        state.unacked = state.unacked or NONE_UNACKED
        member.open_bytes -= size
        state.memory.used -= size
        is_last = state.options.until_live and not state.unacked
        if is_last or (member.withheld and self._credit.restore(member)):
            self.granted[state] = None

    def give_back(
        self, member: Member, tags: Sequence[int], *, counted: bool, now: float, reason: str = ""
    ) -> None:
        state, returned = member.subscription, list[Item]()
        for tag in sorted(tags):
            if (item := self.take_off(member, tag)) is None:
                continue
            if reason or (counted and item.attempt >= state.options.max_deliveries):
                self.bury(state, item, now, reason)
                continue
            item = item.again_for_one(tag)
            item.attempt += counted
            returned += (item,)
        state.put_back(self._without_obsolete(state, returned, now))
        self.pump(state, now)

    def take_back(self, member: Member, now: float) -> None:
        """The member is gone: others, or itself when it comes back, get what it had."""
        self.give_back(member, member.subscription.unacked.tags_of(member), counted=False, now=now)

    def _without_obsolete(self, state: SubscriptionState, returned: list[Item], now: float) -> list[Item]:
        """The returned events that are not superseded; those that are, and older ones that wait, are lost."""
        if [item for item in returned if item.event.key is not None]:
            returned, obsolete = self._keyed.sort_out(state, returned)
            for item in obsolete:
                self._supersede(state, item, now)
        for item in returned:
            if item.log == self._index.log:
                self.bounds.rank(state, item.accepted)
        return returned

    def take_off(self, member: Member, tag: int) -> Item | None:
        """The item that a member was sent under this tag; it has it no longer."""
        state = member.subscription
        runs = state.unacked.take(member, (tag,))
        if not runs:
            return None
        if not state.unacked:
            state.unacked = NONE_UNACKED
        member.open_bytes -= runs[0].size
        state.memory.used -= runs[0].size
        if member.withheld:
            self._credit.restore(member)
        return runs[0].own_items[0]

    def bury(
        self, state: SubscriptionState, item: Item, now: float, reason: str = "", *, is_large: bool = False
    ) -> None:
        if item.dead_letter is not None:
            return  # given back too often by who hears dead letters: it stays in its box
        reason = reason or f"given back {item.attempt} times"
        dead_letter, records = self._dead.add(state.id, item, now, reason, is_large=is_large)
        if state.durable:
            state.stored.has_new_letter = True
        if self._ports.recording:
            self._ports.emit(Record(dead_row(now, self._ports.name, state.id, item.event, reason)))
        self._dead.keep_later(state.id, records)
        self.settle(state, item, now)
        for listener in self._hooks.dead_letter_subscribers(state):
            self.enqueue(listener, item_of(dead_letter))
            self.pump(listener, now)

    # -- settling ----------------------------------------------------------------------------

    def _settle_run(self, state: SubscriptionState, items: Sequence[Item], now: float) -> None:
        """The subscription is done with events that it was sent in one message."""
        if not (log := items[0].log):
            for item in items:
                self.settle(state, item, now)
            return
        offsets = [item.position.offset for item in items if item.position is not None]
        if cursor := state.cursor_in(log):
            cursor.progress.settle_all(offsets)
            for offset in offsets if state.durable else ():
                cursor.source.release(state, offset, now)
        self._hooks.touched(state, now)

    def settle(self, state: SubscriptionState, item: Item, now: float) -> None:
        """The subscription is done with it."""
        if item.dead_letter is not None:
            self._ports.disk.keep(self._dead.remove(state.dead_letters_of or state.id, item.dead_letter))
        elif item.position is not None:
            if (cursor := state.cursor_in(item.position.log)) is not None:
                cursor.progress.settle(item.position.offset)
                if state.durable:
                    cursor.source.release(state, item.position.offset, now)
            self._hooks.touched(state, now)

    def lose(self, state: SubscriptionState, item: Item, reason: str, now: float) -> None:
        """Drop an event, by a policy or a bound that has a name."""
        self._keyed.discard(state, item)
        self.losses.count_lost(state, item.event, reason, now)
        self.settle(state, item, now)
        self._release_ticket(item, now)

    def forget(self, state: SubscriptionState, item: Item, now: float) -> None:
        """The subscription had it already; it is no longer in the queue."""
        self._keyed.discard(state, item)
        self.settle(state, item, now)
        self._unblock(state, now)

    def supersede(self, key: str, by: Position | None, now: float) -> None:
        """An event of this key is told: the older ones that wait are obsolete."""
        for state, item in self._keyed.waiting(key):
            if not item.is_behind(by):  # else it was read in the log before `by` arrived
                self._supersede(state, item, now)

    def _supersede(self, state: SubscriptionState, item: Item, now: float) -> None:
        """Drop an event, which may wait, since a newer one has its key."""
        for line in (state.queue, state.own.pending, state.blocked, state.barred):
            if item in line:
                line.remove(item)
                if line is state.queue or line is state.own.pending:
                    state.count_queued(-item.size)
        self.lose(state, item, "superseded", now)
        self._unblock(state, now)

    # -- the end -----------------------------------------------------------------------------

    def clear(self, state: SubscriptionState, now: float) -> None:
        """The subscription ends: drop the events that wait for it."""
        for item in (*state.queue, *state.own.pending, *state.blocked, *state.barred):
            self._keyed.discard(state, item)
            self._release_ticket(item, now)
        for cursor in state.cursors:
            handed_out = cursor.clear()
            for offset in handed_out if state.durable else ():  # no log keeps an entry for a transient one
                cursor.source.release(state, offset, now)
        state.belongs_to(UNCOUNTED)
        state.queued_bytes = 0
        state.queue = EMPTY
        if state.blocked:
            state.blocked = EMPTY
        state.barred.clear()
        state.unacked = NONE_UNACKED
