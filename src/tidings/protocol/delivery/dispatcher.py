"""Dispatch of live events to queues and from queues to members, with acknowledgements and redelivery.

Rules
- A queue is bounded. When it is full, a durable subscription spills to the log (`StoreReader`), and
  a transient one follows its policy; each lost event is counted under the policy's name.
- An item goes to one member that has credit; members of a group take turns.
- Events that a member returns, or has unacknowledged when it leaves, go to the front of the queue, in order.
  After `max_deliveries` attempts it goes to dead letters instead.
- Policy `block`: the item waits outside the queue, and its publisher waits with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import repeat

from tidings.history.schema import dead_row
from tidings.language.evaluate import accepts
from tidings.model.event import Event, event_size
from tidings.model.filter import Filter
from tidings.model.subscription import Policy
from tidings.protocol.delivery.bounds import SubscriptionBounds
from tidings.protocol.delivery.credit import CreditWindow
from tidings.protocol.delivery.cursor import LIVE, REPLAYING
from tidings.protocol.delivery.dead_letters import DeadLetters, item_of
from tidings.protocol.delivery.hooks import Hooks
from tidings.protocol.delivery.item import Item
from tidings.protocol.delivery.log_index import LogIndex
from tidings.protocol.delivery.loss_report import LossReport
from tidings.protocol.delivery.oversized import OversizedEvents
from tidings.protocol.delivery.owner import UNCOUNTED
from tidings.protocol.delivery.pending import PendingPublish
from tidings.protocol.delivery.publisher_migration import PublisherMigration
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.delivery.subscription_state import Member, SubscriptionState
from tidings.protocol.effects import Record, Send
from tidings.protocol.lazy_queues import EMPTY, NOTHING, own
from tidings.protocol.messages import Deliver, DeliverAll
from tidings.protocol.slots import Ports

OVERTAKEN = "overtaken by a move"  # a later stay of its publisher was told
SLOW = "its queue was full and its policy is `disconnect`"
Ticket = PendingPublish | None  # publish that waits for room; None: it waits for no answer


class Dispatcher:
    def __init__(
        self, ports: Ports, settings: DeliverySettings, ledger: LogIndex, dead: DeadLetters, hooks: Hooks
    ) -> None:
        self._ports = ports
        self._ledger = ledger
        self._dead = dead
        self._hooks = hooks
        self.moves = PublisherMigration(ports, ledger)
        self.losses = LossReport(ports, settings, hooks)
        self.bounds = SubscriptionBounds(ports, ledger, hooks, self, self.losses)
        self.oversized = OversizedEvents(ports, dead, self)
        self.sent = 0  # notifications, to all subscriptions
        self._credit = CreditWindow(ports.limits)
        self.granted: dict[SubscriptionState, None] = {}  # subscriptions of members that may be sent more
        self._few_bytes = self._credit.few_bytes
        self._backlog = ports.backlog
        self._last_events: tuple[Event, ...] = ()  # that were sent together from a queue
        self._keyed: dict[str, dict[SubscriptionState, Item]] = {}  # what waits in queues, by key
        self._policies: dict[Policy, Callable[[SubscriptionState, Item, Ticket, float], bool]] = {
            Policy.BLOCK: self._block,
            Policy.DROP_OLDEST: self._drop_oldest,
            Policy.DROP_NEWEST: self._drop_newest,
            Policy.DISCONNECT: self._disconnect,
        }

    @property
    def figures(self) -> dict[str, int]:
        return {
            "delivered": self.sent,
            "lost": self.losses.lost,
            "filters over budget": self.losses.over_budget,
            "given up over quota": self.bounds.over_quota,
        }

    # -- in ------------------------------------------------------------------------------

    def dispatch(
        self, helds: Sequence[SubscriptionState], batch: Sequence[PendingPublish], now: float
    ) -> None:
        """Deliver events that follow one another, and that all of these subscriptions accept. A subscription
        that is live, with one member and an empty queue gets as many as it has credit for at once, in one
        message; the rest joins its queue together. Any other subscription is offered them one by one."""
        after, count, size = self._ledger.end, len(batch), 0
        is_plain, is_kept = True, False
        for pending in batch:
            size += pending.size
            is_kept = is_kept or pending.position is not None
            if pending.expires_at is not None or pending.moved is not None or pending.event.key is not None:
                is_plain = False
        items = [Item(p.event, p.size, p.position, p.accepted, p.expires_at, 1, False, after) for p in batch]
        events: tuple[Event, ...] = ()  # one object for all subscriptions: it is encoded once
        for held in helds:
            place = 0  # of the first event that is not seen to
            if (
                is_plain
                and held.own.state is LIVE
                and not (held.blocked or held.moving or held.has_ended)
                and (is_kept or not held.durable)
            ):
                members = held.members
                if len(members) == 1 and not held.queue and (member := members[0]).credit > 0:
                    place = count if member.credit >= count else member.credit
                    if is_kept:
                        self._send_kept(held, member, items[:place])
                    elif place < count:
                        some = items[:place]
                        self._send_first(held, member, some, sum([item.size for item in some]))
                    else:
                        events = self._send_first(held, member, items, size, events)
                    if held.durable:
                        self._hooks.delivered(held, now)
                    if held.others and held.is_behind:
                        self._hooks.read(held, now)
                if place < count and not is_kept:
                    place = self._wait(held, items, place, count, size)
            while place < count:
                self._offer(held, batch[place], after, now)
                place += 1

    def _send_first(
        self,
        held: SubscriptionState,
        member: Member,
        items: list[Item],
        size: int,
        events: tuple[Event, ...] = (),
    ) -> tuple[Event, ...]:
        """Send a member events for the first time that no log holds, in one message. `events`: theirs, if
        another member was sent them before; the same object is encoded once."""
        count, tag = len(items), held.last_tag + 1
        if not held.unacked:
            held.unacked = {}
        if count == 1:
            held.unacked[tag] = (items[0], member)
            self._ports.emit(Send(member.address, Deliver(member.ref, tag, items[0].event)))
        else:
            held.unacked.update(zip(range(tag, tag + count), zip(items, repeat(member)), strict=False))
            events = events or tuple([item.event for item in items])
            if events == self._last_events:
                events = self._last_events
            self._last_events = events
            self._ports.send(member.address, DeliverAll(member.ref, tag, events))
        held.last_tag += count  # so the last tag counts what was sent
        self.sent += count
        member.credit -= count
        member.open_bytes += size
        held.memory.used += size
        if member.open_bytes >= self._few_bytes:
            self._credit.withhold(member)
        return events

    def _send_kept(self, held: SubscriptionState, member: Member, items: list[Item]) -> None:
        """Send events to a member at once of which the log holds at least one."""
        for item in items:
            if item.position is not None:
                if held.durable:
                    self._ledger.owe(item.position.offset, held.owner, held.options.superseding)
                self._note(held, item)
            self._send(held, member, item)

    def _wait(self, held: SubscriptionState, items: list[Item], begin: int, count: int, size: int) -> int:
        """Add events that no log holds, from this place on, to the queue of a live subscription whose members
        have no credit; the place up to which there was room and no more to do than that."""
        queue, memory = held.queue, held.memory
        if not queue:
            for member in held.members:
                if member.credit > 0:
                    return begin
        room = held.options.queue - len(queue) if queue else held.options.queue
        end = begin + room if room < count - begin else count
        if begin or end < count:
            items = items[begin:end]
            size = sum([item.size for item in items])
        if room <= 0 or memory.used + size >= memory.most:
            return begin
        if queue:
            queue.extend(items)
        else:
            held.queue = deque(items)
        held.queued_bytes += size
        memory.used += size
        if held.members:
            self._backlog.waited += end - begin
        return end

    def _offer(self, held: SubscriptionState, pending: PendingPublish, after: int, now: float) -> None:
        """A live event that the subscription accepts and that may have to wait."""
        position = pending.position
        if held.has_ended or (position is None and held.durable and held.number > pending.number):
            return  # in the second case the log holds no event for it: it began after the event was accepted
        if held.durable:
            self._hooks.delivered(held, now)
        if position is not None:
            if held.durable:
                self._ledger.owe(position.offset, held.owner, held.options.superseding)
            if held.own.state is REPLAYING or (held.durable and held.is_full):
                self._leave_in_log(held, position.offset, now)
                return
        item = Item(pending.event, pending.size, position, pending.accepted, pending.expires_at)
        item.after, item.moved = after, pending.moved
        self.take_in(held, item, pending, now)

    def offer(self, held: SubscriptionState, event: Event, now: float) -> None:
        """A live event of no log, for one subscription alone."""
        item = Item(event, event_size(event), None, now, None, after=self._ledger.end)
        self.take_in(held, item, None, now)

    def take_in(self, held: SubscriptionState, item: Item, ticket: Ticket, now: float) -> None:
        """A live event: send it, or add it to the queue by the subscription's policy."""
        is_plain = item.moved is None and held.moving is None
        if not is_plain and not self._may_pass(held, item, now):
            return
        member = held.ready_member()
        if member is not None and item.event.key is None and not item.expired(now):
            self._note(held, item)
            self._send(held, member, item)
            if held.is_behind:
                self._hooks.read(held, now)
            return
        if held.is_full and not self._policies[held.options.policy](held, item, ticket, now):
            return
        self.enqueue(held, item)
        if held.members:
            self._backlog.waited += 1
        self.bounds.keep(held, now)
        self.pump(held, now)

    def take(self, held: SubscriptionState, item: Item, now: float) -> None:
        """An event that was read."""
        if self._may_pass(held, item, now):
            self.enqueue(held, item)

    def _may_pass(self, held: SubscriptionState, item: Item, now: float) -> bool:
        """Not before what its publisher left at other brokers (see `publisher_migration.py`)."""
        if item.moved is None and held.moving is None:
            return True
        if self.moves.is_overtaken(held, item):
            self._note(held, item)
            self.lose(held, item, OVERTAKEN, now)
            return False
        if self.moves.must_wait(held, item):
            self._note(held, item)
            self.moves.bar(held, item, now)
            self._hooks.touched(held, now)  # the timer then looks again soon
            return False
        self.moves.passes(held, item)
        return True

    def release(self, held: SubscriptionState, now: float) -> None:
        """See what of the barred may go now."""
        for item in self.moves.released(held, now):
            if self.moves.is_overtaken(held, item):  # while it waited
                self.lose(held, item, OVERTAKEN, now)
            else:
                self.moves.passes(held, item)
                self.enqueue(held, item)
        if not held.has_ended:
            self.pump(held, now)

    def _leave_in_log(self, held: SubscriptionState, offset: int, now: float) -> None:
        """The event will be read from the log in its turn."""
        held.own.spill(offset)
        if held.members:
            self._backlog.waited += 1
        if held.durable:
            held.own.owe_later(offset)
            self.bounds.keep(held, now)

    def enqueue(self, held: SubscriptionState, item: Item) -> None:
        """Put it at the end of the queue, or behind the replay that goes on."""
        self._line_up(held, item)
        self._note(held, item)

    def _line_up(self, held: SubscriptionState, item: Item) -> None:
        is_behind = item.position is None and held.own.state is REPLAYING
        own(held.own if is_behind else held, "pending" if is_behind else "queue").append(item)
        held.count_queued(item.size)

    def _note(self, held: SubscriptionState, item: Item) -> None:
        if item.position is not None and item.letter is None:
            cursor = held.cursor_in(item.position.log)
            is_new = cursor is None or cursor.progress.hand_out(item.position.offset)
            assert is_new, f"{held.id}: {item.position} was settled before"
        if item.event.key is not None and held.options.superseding:
            self._keyed.setdefault(item.event.key, {})[held] = item

    def _block(self, held: SubscriptionState, item: Item, ticket: Ticket, now: float) -> bool:
        own(held, "blocked").append(item)
        self._note(held, item)
        if ticket is not None:
            item.ticket = ticket
            ticket.blocked += 1
        return False

    def _drop_oldest(self, held: SubscriptionState, item: Item, ticket: Ticket, now: float) -> bool:
        oldest = (held.queue or held.own.pending).popleft()
        held.count_queued(-oldest.size)
        self.lose(held, oldest, Policy.DROP_OLDEST, now)
        return True

    def _drop_newest(self, held: SubscriptionState, item: Item, ticket: Ticket, now: float) -> bool:
        self._note(held, item)
        self.lose(held, item, Policy.DROP_NEWEST, now)
        return False

    def _disconnect(self, held: SubscriptionState, item: Item, ticket: Ticket, now: float) -> bool:
        self.losses.count_lost(held, item.event, Policy.DISCONNECT, now)
        self._hooks.close(held, "slow", SLOW, now)
        return False

    # -- out -----------------------------------------------------------------------------

    def opened(self, held: SubscriptionState, now: float) -> None:
        """A listener opened the subscription, or joined it."""
        if held.lost:
            self.losses.tell(held, now)
        self.oversized.retry(held)
        self.pump(held, now)

    def pump(self, held: SubscriptionState, now: float) -> None:
        """Send what waits to members that have credit, then fill the room that it left."""
        while held.queue:
            members = held.members
            member = members[0] if members and not members[1:] else _next_member(held)
            if member is None or member.credit <= 0:
                break
            self._send_waiting(held, member, now)
            if held.blocked:
                self._unblock(held, now)
        if not held.queue:
            held.queue = EMPTY
            if held.queued_bytes and not held.own.pending:
                held.count_queued(-held.queued_bytes)
        if (held.others or held.own.state is REPLAYING) and held.is_behind:
            self._hooks.read(held, now)
        elif held.options.until_live and held.members and not (held.queue or held.unacked):
            self._hooks.close(held, "closed", "all that was available is delivered", now)

    def _send_waiting(self, held: SubscriptionState, member: Member, now: float) -> None:
        """Send waiting events to a member: to the only one as many as it has credit for, else one. First
        sendings of events without a log share a message."""
        queue, most, size = held.queue, member.credit if len(held.members) == 1 else 1, 0
        room = 1 << 62  # in bytes
        if member.open_bytes + held.queued_bytes >= self._few_bytes:
            room = self._credit.room(member)
        items: list[Item] = []  # that share a message
        shared = 0  # bytes of those
        if len(queue) <= most and held.queued_bytes < room:  # all of it, unless an item is of another kind
            for item in queue:
                is_first = item.attempt == 1 and not item.again and item.position is None
                if not is_first or item.expires_at is not None or item.event.key is not None:
                    size = 0
                    break
                size += item.size
            else:
                items, shared, held.queue = list(queue), size, EMPTY
        while held.queue and most > 0 and room > 0 and member.credit > 0:
            most -= 1
            item = queue.popleft()
            size += item.size
            if item.event.key is not None:
                self._unkey(held, item)
            if item.expires_at is not None and item.expires_at <= now:
                self.lose(held, item, "expired", now)
                continue
            room -= item.size
            if item.position is None and not item.again and item.attempt == 1:
                items.append(item)
                shared += item.size
                continue
            if items:
                self._send_first(held, member, items, shared)
                items, shared = [], 0
            self._send(held, member, item)
        if items:
            self._send_first(held, member, items, shared)
        size = size if size < held.queued_bytes else held.queued_bytes
        held.queued_bytes -= size
        held.memory.used -= size

    def _send(self, held: SubscriptionState, member: Member, item: Item) -> None:
        held.last_tag += 1
        if held.unacked is NOTHING:
            held.unacked = {}
        held.unacked[held.last_tag] = (item, member)
        self.sent += 1
        member.credit -= 1
        member.open_bytes += item.size
        held.memory.used += item.size
        if member.open_bytes >= self._few_bytes:
            self._credit.withhold(member)
        deliver = Deliver(member.ref, held.last_tag, item.event, item.position, item.attempt, item.again)
        self._ports.emit(Send(member.address, deliver))

    def _unblock(self, held: SubscriptionState, now: float) -> None:
        while held.blocked and not held.is_full:
            item = held.blocked.popleft()
            self._line_up(held, item)
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
            self.granted[member.held] = None

    def pump_granted(self, now: float) -> None:
        """Send what waits to the members that may be sent more."""
        helds, self.granted = self.granted, {}
        for held in helds:
            if not held.has_ended:
                self.pump(held, now)

    def acknowledge(self, member: Member, tags: Sequence[int], now: float) -> None:
        """Settle what a member has handled; `pump_granted` follows."""
        held, unacked = member.held, member.held.unacked
        if len(tags) > 1 and len(tags) > len(unacked):  # an ack costs no more than was sent
            tags = [tag for tag in unacked if tag in tags]
        size = 0
        for tag in tags:
            if tag in unacked and unacked[tag][1] is member:
                item = unacked[tag][0]
                del unacked[tag]
                size += item.size
                if item.position is not None or item.letter is not None:
                    self.settle(held, item, now)
        member.open_bytes -= size
        held.memory.used -= size
        if not unacked:
            held.unacked = NOTHING
        if member.withheld and self._credit.restore(member):
            self.granted[held] = None

    def _taken_back(self, member: Member, item: Item) -> None:
        """An event is with a member no longer."""
        member.open_bytes -= item.size
        member.held.memory.used -= item.size
        if member.withheld:
            self._credit.restore(member)

    def has_some(self, member: Member) -> bool:
        """Has the member an unacknowledged delivery?"""
        return any(holder is member for _, holder in member.held.unacked.values())

    def give_back(self, member: Member, tags: tuple[int, ...], *, counted: bool, now: float) -> None:
        held = member.held
        for tag in sorted(tags, reverse=True):
            item, holder = held.unacked.get(tag, (None, None))
            if item is None or holder is not member:
                continue
            del held.unacked[tag]
            self._taken_back(member, item)
            if counted and item.attempt >= held.options.max_deliveries:
                self.bury(held, item, now)
                continue
            item = item.again_for_one()
            item.attempt += counted
            self._put_back(held, item, now)
        self.pump(held, now)

    def take_back(self, member: Member, now: float) -> None:
        """The member is gone: others, or itself when it comes back, get what it had."""
        tags = tuple(tag for tag, (_, holder) in member.held.unacked.items() if holder is member)
        self.give_back(member, tags, counted=False, now=now)

    def _put_back(self, held: SubscriptionState, item: Item, now: float) -> None:
        key = item.event.key if held.options.superseding else None
        if key is not None and held in self._keyed.get(key, {}):
            self.lose(held, item, "superseded", now)
            return
        own(held, "queue").appendleft(item)
        held.count_queued(item.size)
        if key is not None:
            self._keyed.setdefault(key, {})[held] = item

    def take_off(self, member: Member, tag: int) -> Item | None:
        """The item that a member was sent under this tag; it has it no longer."""
        item, holder = member.held.unacked.get(tag, (None, None))
        if item is None or holder is not member:
            return None
        del member.held.unacked[tag]
        self._taken_back(member, item)
        return item

    def bury(self, held: SubscriptionState, item: Item, now: float, reason: str = "") -> None:
        if item.letter is not None:
            return  # given back too often by who hears dead letters: it stays in its box
        letter, records = self._dead.add(held.id, item, now, is_large=bool(reason))
        if self._ports.recording:
            reason = reason or f"given back {item.attempt} times"
            self._ports.emit(Record(dead_row(now, self._ports.name, held.id, item.event, reason)))
        if self._ports.disk.stable and self._ports.disk.failed is None:
            self._ports.disk.persist(records)
        self.settle(held, item, now)
        for listener in self._hooks.dead_letter_subscribers(held):
            self.enqueue(listener, item_of(letter))
            self.pump(listener, now)

    # -- settling ----------------------------------------------------------------------------

    def settle(self, held: SubscriptionState, item: Item, now: float) -> None:
        """The subscription is done with it."""
        if item.letter is not None:
            self._settle_letter(held, item.letter)
        elif item.position is not None:
            cursor = held.cursor_in(item.position.log)
            if cursor is not None:
                cursor.progress.settle(item.position.offset)
                if held.durable:
                    cursor.source.release(held, item.position.offset, now)
            self._hooks.touched(held, now)

    def touched(self, held: SubscriptionState, now: float) -> None:
        """The subscription's progress changed without a settlement."""
        self._hooks.touched(held, now)

    def _settle_letter(self, held: SubscriptionState, number: int) -> None:
        records = self._dead.remove(held.dead_letters_of or held.id, number)
        if records and self._ports.disk.stable and self._ports.disk.failed is None:
            self._ports.disk.persist(records)

    def lose(self, held: SubscriptionState, item: Item, reason: str, now: float) -> None:
        """Drop an event, by a policy or a bound that has a name."""
        self._unkey(held, item)
        self.losses.count_lost(held, item.event, reason, now)
        self.settle(held, item, now)
        self._release_ticket(item, now)

    def forget(self, held: SubscriptionState, item: Item, now: float) -> None:
        """The subscription had it already; it is no longer in the queue."""
        self._unkey(held, item)
        self.settle(held, item, now)
        self._unblock(held, now)

    def spared(self, held: SubscriptionState, filter: Filter) -> list[Item]:
        """Waiting events that are in no log and that the subscription's new filter accepts."""
        waiting = (*held.queue, *held.own.pending, *held.blocked, *held.barred)
        return [item for item in waiting if item.position is None and accepts(filter, item.event)]

    def supersede(self, key: str, now: float) -> None:
        """A newer event of this key is told: the older ones that wait are obsolete."""
        for held, item in self._keyed.pop(key, {}).items():
            for line in (held.queue, held.own.pending, held.blocked, held.barred):
                if item in line:
                    line.remove(item)
            self.lose(held, item, "superseded", now)
            self._unblock(held, now)

    def _unkey(self, held: SubscriptionState, item: Item) -> None:
        key = item.event.key or ""
        waiting = self._keyed.get(key)
        if waiting is not None and waiting.get(held) is item:
            del waiting[held]
            if not waiting:
                del self._keyed[key]

    # -- the end -----------------------------------------------------------------------------

    def clear(self, held: SubscriptionState, now: float) -> None:
        """The subscription ends: drop the events that wait for it."""
        for item in (*held.queue, *held.own.pending, *held.blocked, *held.barred):
            self._unkey(held, item)
            self._release_ticket(item, now)
        for cursor in held.cursors:
            handed_out = cursor.clear()
            for offset in handed_out if held.durable else ():  # no log keeps an entry for a transient one
                cursor.source.release(held, offset, now)
        held.belongs_to(UNCOUNTED)
        held.queued_bytes = 0
        held.queue = EMPTY
        if held.blocked:
            held.blocked = EMPTY
        held.barred.clear()
        held.unacked = NOTHING


def _next_member(held: SubscriptionState) -> Member | None:
    """The next member that has credit; who was served, or had none, goes to the end of the line."""
    members = held.members
    for place, member in enumerate(members):
        if member.credit > 0:
            if len(members) > 1:
                held.members = members[place + 1 :] + members[: place + 1]
            return member
    return None
