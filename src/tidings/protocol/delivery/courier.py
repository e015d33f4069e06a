"""From the live way into queues, from queues to members, and what members say.

Rules
- A queue is bounded. When it is full, a durable subscription spills to the log (`Reader`), and
  a transient one follows its policy; whatever is lost is counted under the policy's name.
- An item goes to one member that has credit; members of a group take turns.
- What a member gives back, or had when it left, goes to the front of the queue, in order. After
  `max_deliveries` attempts it goes to dead letters instead.
- Policy `block`: the item waits outside the queue, and its publisher waits with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Protocol

from tidings.availability.progress import LogProgress
from tidings.history.schema import dead_row, drop_row
from tidings.language.evaluate import accepts
from tidings.model.event import Event, event_size
from tidings.model.filter import Filter
from tidings.model.subscription import Policy, Position
from tidings.protocol.delivery.arrival import Arrival
from tidings.protocol.delivery.bounds import Bounds
from tidings.protocol.delivery.dead import DeadLetters, item_of
from tidings.protocol.delivery.held import Held, Member, Phase
from tidings.protocol.delivery.item import Item
from tidings.protocol.delivery.ledger import Ledger
from tidings.protocol.delivery.moves import Moves
from tidings.protocol.delivery.oversized import Oversized
from tidings.protocol.delivery.owner import UNCOUNTED
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.effects import Record
from tidings.protocol.lines import EMPTY, NOTHING, own
from tidings.protocol.messages import Deliver, DeliverAll, Lost
from tidings.protocol.slots import Ports

OVERTAKEN = "overtaken by a move"  # a later stay of its publisher was told
FEW_BYTES = 64 << 10  # ahead of a member's acknowledgements when its principal has used up its memory
OVER_BUDGET = "over the work budget"
SLOW = "its queue was full and its policy is `disconnect`"


class Hooks(Protocol):
    """What the courier asks of the strategy that owns it."""

    def read(self, held: Held, now: float) -> None:
        """There is room: read on in the log."""

    def unblocked(self, arrival: Arrival, now: float) -> None:
        """No subscription blocks this publish any longer."""

    def close(self, held: Held, code: str, reason: str, now: float) -> None:
        """End the subscription and tell its members why."""

    def touched(self, held: Held, now: float) -> None:
        """Its progress changed, or the figures of what it lost."""

    def dead_letter_subscribers(self, held: Held) -> list[Held]:
        """Who hears the dead letters of this subscription."""


class Courier:
    def __init__(
        self, ports: Ports, settings: DeliverySettings, ledger: Ledger, dead: DeadLetters, hooks: Hooks
    ) -> None:
        self._ports = ports
        self._settings = settings
        self._ledger = ledger
        self._dead = dead
        self._hooks = hooks
        self.moves = Moves(ports, ledger)
        self.bounds = Bounds(ports, ledger, hooks, self)
        self.oversized = Oversized(ports, dead, self)
        self.sent = 0  # notifications, to all subscriptions
        self.lost = 0  # by a policy or a bound
        self._few_bytes = min(FEW_BYTES, ports.limits.delivery_bytes)
        self.over_budget = 0  # filters that were unknown for an event (`language/work.py`)
        self._keyed: dict[str, dict[Held, Item]] = {}  # what waits in queues, by key
        self._policies: dict[Policy, Callable[[Held, Item, Arrival | None, float], bool]] = {
            Policy.BLOCK: self._block,
            Policy.DROP_OLDEST: self._drop_oldest,
            Policy.DROP_NEWEST: self._drop_newest,
            Policy.DISCONNECT: self._disconnect,
        }

    @property
    def figures(self) -> dict[str, int]:
        return {
            "delivered": self.sent,
            "lost": self.lost,
            "filters over budget": self.over_budget,
            "given up over quota": self.bounds.over_quota,
        }

    # -- in ------------------------------------------------------------------------------

    def offer(
        self,
        held: Held,
        event: Event,
        position: Position | None,
        accepted: float,
        expires_at: float | None,
        ticket: Arrival | None,
        now: float,
    ) -> None:
        """A live event that the subscription accepts."""
        if position is not None:
            if held.durable:
                self._ledger.owe(position.offset, held.owner)
            if held.phase is Phase.REPLAYING or (held.durable and held.is_full):
                self._leave_in_log(held, position.offset, now)
                return
        item = Item(event, position, accepted, expires_at)
        item.after = self._ledger.end
        if ticket is not None:
            item.moved = ticket.moved
        self._take_in(held, item, ticket, now)

    def offer_all(
        self,
        helds: Iterable[Held],
        events: tuple[Event, ...],
        ticket: Callable[[int], Arrival | None],
        place: int,
        now: float,
    ) -> None:
        """Live events that no log holds and that all of these accept. Who has room gets them at once, in one
        message; to others each is offered by itself. `ticket` gives the publish in a place, the first being
        in this one."""
        count, send, live, after = len(events), self._ports.send, Phase.LIVE, self._ledger.end
        items = [Item(event, None, now, None, 1, False, after) for event in events]
        size = sum(map(event_size, events))
        for held in helds:
            members = held.members
            if (
                held.phase is live
                and len(members) == 1
                and (member := members[0]).credit >= count
                and not (held.queue or held.behind or held.blocked or held.movers or held.barred)
            ):
                tag = held.last_tag + 1
                held.last_tag += count
                unacked = held.unacked
                if not unacked:
                    unacked = held.unacked = {}
                member.credit -= count
                self._count_open(member, size)
                self.sent += count
                if count == 1:
                    unacked[tag] = (items[0], member)
                    send(member.address, Deliver(member.ref, tag, events[0]))
                else:
                    unacked.update(zip(range(tag, tag + count), zip(items, repeat(member)), strict=False))
                    send(member.address, DeliverAll(member.ref, tag, events))
                if held.lanes and held.is_behind:
                    self._hooks.read(held, now)
            else:
                for number, event in enumerate(events, place):
                    if held.phase is not Phase.ENDED:
                        self.offer(held, event, None, now, None, ticket(number), now)

    def offer_one(
        self, held: Held, event: Event, ticket: Callable[[int], Arrival | None], place: int, now: float
    ) -> None:
        """The same for one event and one subscription."""
        members = held.members
        if (
            held.phase is Phase.LIVE
            and len(members) == 1
            and (member := members[0]).credit > 0
            and not (held.queue or held.behind or held.blocked or held.movers or held.barred)
        ):
            tag = held.last_tag = held.last_tag + 1
            unacked = held.unacked
            if not unacked:
                unacked = held.unacked = {}
            unacked[tag] = (Item(event, None, now, None, 1, False, self._ledger.end), member)
            member.credit -= 1
            self._count_open(member, event_size(event))
            self.sent += 1
            self._ports.send(member.address, Deliver(member.ref, tag, event))
            if held.lanes and held.is_behind:
                self._hooks.read(held, now)
        elif held.phase is not Phase.ENDED:
            self.offer(held, event, None, now, None, ticket(place), now)

    def offer_read(self, held: Held, item: Item, now: float) -> None:
        """A live event of another broker's log."""
        self._take_in(held, item, None, now)

    def _take_in(self, held: Held, item: Item, ticket: Arrival | None, now: float) -> None:
        is_plain = item.moved is None and not held.movers and not held.barred
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
        self.bounds.keep(held, now)
        self.pump(held, now)

    def take(self, held: Held, item: Item, now: float) -> None:
        """An event that was read."""
        if self._may_pass(held, item, now):
            self.enqueue(held, item)

    def _may_pass(self, held: Held, item: Item, now: float) -> bool:
        """Not before what its publisher left at other brokers (see `moves.py`)."""
        if item.moved is None and not held.movers and not held.barred:
            return True
        if self.moves.is_overtaken(held, item):
            self._note(held, item)
            self.lose(held, item, OVERTAKEN, now)
            return False
        if self.moves.must_wait(held, item):
            self._note(held, item)
            self.moves.bar(held, item, now)
            self._hooks.touched(held, now)  # so that somebody looks again soon
            return False
        self.moves.passes(held, item)
        return True

    def release(self, held: Held, now: float) -> None:
        """See what of the barred may go now."""
        for item in self.moves.released(held, now):
            if self.moves.is_overtaken(held, item):  # while it waited
                self.lose(held, item, OVERTAKEN, now)
            else:
                self.moves.passes(held, item)
                self.enqueue(held, item)
        if not held.has_ended:
            self.pump(held, now)

    def _leave_in_log(self, held: Held, offset: int, now: float) -> None:
        """It will be read from the log in its turn."""
        if held.phase is Phase.LIVE:
            held.step("read on")
            held.at = held.seam = offset
        if held.durable:
            own(held, "later").append(offset)
            self.bounds.keep(held, now)

    def enqueue(self, held: Held, item: Item) -> None:
        """Put it at the end of the queue, or behind the replay that goes on."""
        if held.phase is Phase.REPLAYING and item.position is None:
            own(held, "behind").append(item)
        else:
            own(held, "queue").append(item)
        held.count_queued(event_size(item.event))
        self._note(held, item)

    def _note(self, held: Held, item: Item) -> None:
        if item.position is not None and item.letter is None:
            progress = self._progress(held, item.position)
            is_new = progress is None or progress.hand_out(item.position.offset)
            assert is_new, f"{held.id}: {item.position} was settled before"
        if item.event.key is not None:
            self._keyed.setdefault(item.event.key, {})[held] = item

    def _progress(self, held: Held, position: Position) -> LogProgress | None:
        """Its progress in the log of that position; None when that log is no more."""
        if position.log == self._ledger.log:
            return held.progress
        lane = held.lanes.get(position.log)
        return None if lane is None else lane.progress

    def _block(self, held: Held, item: Item, ticket: Arrival | None, now: float) -> bool:
        own(held, "blocked").append(item)
        self._note(held, item)
        if ticket is not None:
            item.ticket = ticket
            ticket.blocked += 1
        return False

    def _drop_oldest(self, held: Held, item: Item, ticket: Arrival | None, now: float) -> bool:
        oldest = (held.queue or held.behind).popleft()
        held.count_queued(-event_size(oldest.event))
        self.lose(held, oldest, Policy.DROP_OLDEST, now)
        return True

    def _drop_newest(self, held: Held, item: Item, ticket: Arrival | None, now: float) -> bool:
        self._note(held, item)
        self.lose(held, item, Policy.DROP_NEWEST, now)
        return False

    def _disconnect(self, held: Held, item: Item, ticket: Arrival | None, now: float) -> bool:
        self.count_lost(held, item.event, Policy.DISCONNECT, now)
        self._hooks.close(held, "slow", SLOW, now)
        return False

    # -- out -----------------------------------------------------------------------------

    def opened(self, held: Held, now: float) -> None:
        """A listener opened the subscription, or joined it."""
        if held.lost:
            self.tell_losses(held, now)
        self.oversized.retry(held)
        self.pump(held, now)

    def pump(self, held: Held, now: float) -> None:
        """Send what waits to members that have credit, then fill the room that it left."""
        while held.queue:
            member = _next_member(held)
            if member is None:
                break
            item = held.queue.popleft()
            held.count_queued(-event_size(item.event))
            self._unkey(held, item)
            if item.expired(now):
                self.lose(held, item, "expired", now)
            else:
                self._send(held, member, item)
            if held.blocked:
                self._unblock(held, now)
        if not held.queue:
            held.queue = EMPTY
            if held.queued_bytes and not held.behind:
                held.count_queued(-held.queued_bytes)
        if held.is_behind:
            self._hooks.read(held, now)

    def _send(self, held: Held, member: Member, item: Item) -> None:
        held.last_tag += 1  # so the last tag counts what was sent
        if held.unacked is NOTHING:
            held.unacked = {}
        held.unacked[held.last_tag] = (item, member)
        member.credit -= 1
        self._count_open(member, event_size(item.event))
        self.sent += 1
        self._ports.send(
            member.address,
            Deliver(member.ref, held.last_tag, item.event, item.position, item.attempt, item.again),
        )

    def _unblock(self, held: Held, now: float) -> None:
        while held.blocked and not held.is_full:
            item = held.blocked.popleft()
            is_behind = held.phase is Phase.REPLAYING and item.position is None
            own(held, "behind" if is_behind else "queue").append(item)
            held.count_queued(event_size(item.event))
            self._release_ticket(item, now)

    def _release_ticket(self, item: Item, now: float) -> None:
        ticket, item.ticket = item.ticket, None
        if ticket is not None:
            ticket.blocked -= 1
            if not ticket.blocked:
                self._hooks.unblocked(ticket, now)

    # -- what members say --------------------------------------------------------------------

    def _most_open(self, member: Member) -> int:
        return self._few_bytes if member.held.memory.is_full else self._ports.limits.delivery_bytes

    def _count_open(self, member: Member, size: int) -> None:
        """So many bytes more are on their way to a member. At the bound its credit is withheld until it has
        acknowledged some: so few large events wait in its connection as many small ones do."""
        member.open_bytes += size
        member.held.memory.used += size
        if member.open_bytes < self._few_bytes:
            return  # nearly always
        if member.open_bytes >= self._most_open(member) and member.credit > 0:
            member.withheld, member.credit = member.withheld + member.credit, 0

    def _count_done(self, member: Member, item: Item) -> None:
        size = event_size(item.event)
        member.open_bytes -= size
        member.held.memory.used -= size
        if member.withheld and member.open_bytes < self._most_open(member):
            member.withheld, member.credit = 0, member.credit + member.withheld

    def credit(self, member: Member, amount: int, now: float) -> None:
        if amount < 0:
            taken = min(member.withheld, -amount)
            member.withheld, amount = member.withheld - taken, amount + taken
        elif member.open_bytes >= self._most_open(member):
            member.withheld = min(member.withheld + amount, self._ports.limits.client.credit)
            return
        member.credit = min(member.credit + amount, self._ports.limits.client.credit)
        if amount > 0:
            self.pump(member.held, now)

    def acknowledge(self, member: Member, tags: Sequence[int], now: float) -> None:
        held = member.held
        unacked = held.unacked
        is_withheld = bool(member.withheld)
        if len(tags) > len(unacked):  # whatever a client says, it costs no more than it was sent
            tags = [tag for tag in unacked if tag in tags]
        for tag in tags:
            found = unacked.get(tag)
            if found is not None and found[1] is member:
                del unacked[tag]
                item = found[0]
                self._count_done(member, item)
                if item.position is not None or item.letter is not None:
                    self.settle(held, item, now)
        if not unacked:
            held.unacked = NOTHING
        if is_withheld and not member.withheld:
            self.pump(held, now)

    def has_some(self, member: Member) -> bool:
        """Has it something that it did not acknowledge?"""
        return any(holder is member for _, holder in member.held.unacked.values())

    def _with(self, member: Member) -> tuple[int, ...]:
        return tuple(tag for tag, (_, holder) in member.held.unacked.items() if holder is member)

    def give_back(self, member: Member, tags: tuple[int, ...], *, counted: bool, now: float) -> None:
        held = member.held
        for tag in sorted(tags, reverse=True):
            item, holder = held.unacked.get(tag, (None, None))
            if item is None or holder is not member:
                continue
            del held.unacked[tag]
            self._count_done(member, item)
            if counted and item.attempt >= held.options.max_deliveries:
                self.bury(held, item, now)
                continue
            item = item.again_for_one()
            item.attempt += counted
            self._put_back(held, item, now)
        self.pump(held, now)

    def take_back(self, member: Member, now: float) -> None:
        """The member is gone: others, or itself when it comes back, get what it had."""
        self.give_back(member, self._with(member), counted=False, now=now)

    def _put_back(self, held: Held, item: Item, now: float) -> None:
        key = item.event.key
        if key is not None and held in self._keyed.get(key, {}):
            self.lose(held, item, "superseded", now)
            return
        own(held, "queue").appendleft(item)
        held.count_queued(event_size(item.event))
        if key is not None:
            self._keyed.setdefault(key, {})[held] = item

    def take_off(self, member: Member, tag: int) -> Item | None:
        """The item that a member was sent under this tag; it has it no longer."""
        item, holder = member.held.unacked.get(tag, (None, None))
        if item is None or holder is not member:
            return None
        del member.held.unacked[tag]
        self._count_done(member, item)
        return item

    def bury(self, held: Held, item: Item, now: float, reason: str = "") -> None:
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

    def settle(self, held: Held, item: Item, now: float) -> None:
        """The subscription is done with it."""
        if item.letter is not None:
            self._settle_letter(held, item.letter)
        elif item.position is not None:
            progress = self._progress(held, item.position)
            if progress is not None:
                progress.settle(item.position.offset)
            if held.durable and item.position.log == self._ledger.log:
                self._ledger.release(item.position.offset, held.owner)
            self._hooks.touched(held, now)

    def touched(self, held: Held, now: float) -> None:
        """Its progress changed without a settlement."""
        self._hooks.touched(held, now)

    def _settle_letter(self, held: Held, number: int) -> None:
        records = self._dead.remove(held.dead_letters_of or held.id, number)
        if records and self._ports.disk.stable and self._ports.disk.failed is None:
            self._ports.disk.persist(records)

    def lose(self, held: Held, item: Item, reason: str, now: float) -> None:
        """It will not be told, by a policy or a bound that has a name."""
        self._unkey(held, item)
        self.count_lost(held, item.event, reason, now)
        self.settle(held, item, now)
        self._release_ticket(item, now)

    def count_lost(self, held: Held, event: Event, reason: str, now: float) -> None:
        """It was lost, by the policy or bound of that name, before it waited here or after."""
        held.count_lost(str(reason))
        self.lost += 1
        if self._ports.recording:
            self._ports.emit(Record(drop_row(now, self._ports.name, held.id, event, str(reason))))
        self.tell_losses(held, now)

    def count_over_budget(self, held: Held, now: float) -> None:
        """Its filter was over its work budget for an event, which it therefore does not get."""
        held.count_lost(OVER_BUDGET)
        self.over_budget += 1
        self.tell_losses(held, now)

    def count_gone(self, held: Held, now: float) -> None:
        """It was owed, and ended for everybody before it could be read from the log."""
        held.count_lost("superseded or expired")
        self.tell_losses(held, now)

    def tell_losses(self, held: Held, now: float) -> None:
        """Tell the members what was lost: at once, but not oftener than progress is flushed."""
        if not held.members:
            return  # a listener is told when it opens the subscription
        if held.lost_told_at is not None and now < held.lost_told_at + self._settings.flush_seconds:
            held.has_losses = True
            self._hooks.touched(held, now)
            return
        held.lost_told_at = now
        held.has_losses = False
        for member in held.members:
            self._ports.send(member.address, Lost(member.ref, dict(held.lost)))

    def forget(self, held: Held, item: Item, now: float) -> None:
        """The subscription had it already; it is no longer in the queue."""
        self._unkey(held, item)
        self.settle(held, item, now)
        self._unblock(held, now)

    def spared(self, held: Held, filter: Filter) -> list[Item]:
        """What waits and is in no log, as far as the new filter of the subscription accepts it."""
        waiting = (*held.queue, *held.behind, *held.blocked, *held.barred)
        return [item for item in waiting if item.position is None and accepts(filter, item.event)]

    def supersede(self, key: str, now: float) -> None:
        """A newer event of this key is told: the older ones that wait are obsolete."""
        for held, item in self._keyed.pop(key, {}).items():
            for line in (held.queue, held.behind, held.blocked, held.barred):
                if item in line:
                    line.remove(item)
            self.lose(held, item, "superseded", now)
            self._unblock(held, now)

    def _unkey(self, held: Held, item: Item) -> None:
        key = item.event.key
        if key is None:
            return
        waiting = self._keyed.get(key)
        if waiting is not None and waiting.get(held) is item:
            del waiting[held]
            if not waiting:
                del self._keyed[key]

    # -- the end -----------------------------------------------------------------------------

    def clear(self, held: Held, now: float) -> None:
        """The subscription ends: nothing waits for it any more."""
        for item in (*held.queue, *held.behind, *held.blocked, *held.barred):
            self._unkey(held, item)
            self._release_ticket(item, now)
        if held.durable:
            unread = set(held.unread)  # of these the ledger knows by `later`, if at all
            for offset in (*(offset for offset in held.progress.owed if offset not in unread), *held.later):
                self._ledger.release(offset, held.owner)
        held.belongs_to(UNCOUNTED)
        held.queued_bytes = 0
        for line in ("queue", "behind", "blocked", "barred", "later", "unread"):
            if getattr(held, line):
                setattr(held, line, EMPTY)
        held.progress.owed.clear()
        for lane in held.lanes.values():
            lane.progress.owed.clear()
            lane.unread.clear()
            lane.later.clear()
        held.unacked = NOTHING


def _next_member(held: Held) -> Member | None:
    """The next member that has credit; who was served, or had none, goes to the end of the line."""
    members = held.members
    for place, member in enumerate(members):
        if member.credit > 0:
            if len(members) > 1:
                held.members = members[place + 1 :] + members[: place + 1]
            return member
    return None
