"""Subscriptions: which are held, under which name, and who listens to them.

Rules
- Identity is (subscriber, name). Subscribing again under a name resumes: with the same filter
  where it stood, with another one so that only the difference is told.
- A group is one subscription with many members, under the group's name and no subscriber's. It becomes
  durable when a member asks for that, with all that waits for it; members that do not ask for it join all the
  same, and end it not.
- A durable subscription stays when its members leave.
- A transient one ends when its last member leaves. The deliveries of a named one are remembered for a bounded
  time; those of an unnamed one after a broken link for a short while.
- One name has one listener. A new link of the same client takes over from its old one; a second
  listener on one link is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tidings.availability.delivered_ranges import DeliveredRanges
from tidings.availability.progress import LogProgress
from tidings.availability.records import Loaded, Record
from tidings.language.evaluate import accepts
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.subscription import GROUPS, DeliveryOptions, Subscription, SubscriptionId, unscoped
from tidings.protocol.delivery import rows
from tidings.protocol.delivery.cursor import ANY_OFFSET, EarlierRange
from tidings.protocol.delivery.dead_letters import DeadLetters, item_of
from tidings.protocol.delivery.delivery_memory import DeliveryMemory
from tidings.protocol.delivery.dispatcher import Dispatcher
from tidings.protocol.delivery.log_index import LogIndex
from tidings.protocol.delivery.owner import OwnerMemory
from tidings.protocol.delivery.recount import Recount
from tidings.protocol.delivery.replay import LogReplay
from tidings.protocol.delivery.rows import ProgressRow, SubscriptionRow
from tidings.protocol.delivery.sessions import Session, identity
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.delivery.sources import FILTER_CHANGED
from tidings.protocol.delivery.subscription_state import DurableState, Member, SubscriptionState
from tidings.protocol.messages import Closed, Hello, Subscribe
from tidings.protocol.slots import Ports

NEVER = float("inf")
FEW_OWNERS = 64  # principals beyond those that are here whose memory is looked for, when they hold none
MOST_OPTIONS = 1024  # different ones that are kept once
MAX_RIGHTS = 32  # filters that a durable subscription left before it heard what it was owed under them


class Refusal(NamedTuple):
    code: str
    reason: str


class Registry:
    def __init__(
        self,
        ports: Ports,
        settings: DeliverySettings,
        ledger: LogIndex,
        dispatcher: Dispatcher,
        replay: LogReplay,
        dead: DeadLetters,
    ) -> None:
        self._ports = ports
        self._settings = settings
        self._ledger = ledger
        self._dispatcher = dispatcher
        self._replay = replay
        self._dead = dead
        self.memory = DeliveryMemory(ports)
        self.helds: dict[SubscriptionId, SubscriptionState] = {}
        self._options: dict[DeliveryOptions, DeliveryOptions] = {}
        self.sessions: dict[str, Session] = {}
        self.durables: dict[SubscriptionId, SubscriptionState] = {}
        self.guests_at: float | None = None  # when the first guest may have to end
        self._memory_of: dict[str, OwnerMemory] = {}  # by principal
        self._dead_listeners: dict[SubscriptionId, list[SubscriptionState]] = {}
        self.recount = Recount(ports, settings, ledger, replay.own_log, dispatcher.bounds, self._accepting)
        ledger.on_pinned = self.recount.look

    def begin(self, address: str, hello: Hello) -> None:
        """A client gave its name, and its broker's gate the principal."""
        session = self.sessions[address] = Session(address, hello.client, hello.incarnation)
        if hello.owner:
            memory = session.memory = self._memory_of.setdefault(hello.owner, OwnerMemory(hello.memory))
            memory.most = hello.memory
            if len(self._memory_of) > 2 * len(self.sessions) + FEW_OWNERS:
                self._memory_of = {name: each for name, each in self._memory_of.items() if each.used}
                self._memory_of[hello.owner] = memory

    def _accepting(self, event: Event) -> list[SubscriptionState]:
        return list(self._ports.interest.match(event).subscriptions)

    @property
    def has_durables(self) -> bool:
        return bool(self.durables)

    def dead_letter_subscribers(self, held: SubscriptionState) -> list[SubscriptionState]:
        return list(self._dead_listeners.get(held.id, ()))

    # -- subscribing -------------------------------------------------------------------------

    def subscribe(
        self, session: Session, message: Subscribe, number: int, now: float
    ) -> tuple[Member, bool, list[Record]] | Refusal:
        """The new member, whether it resumes a subscription, and the records to persist before it is told."""
        id = identity(session, message)
        held = self.helds.get(id)
        records: list[Record] = []
        is_resumed = held is not None
        if held is None:
            if message.options.durable:
                told, records = self.memory.take(id)
            else:
                told = self.memory.look(id)
            is_resumed = told is not None
            held = self._create(id, session, message, told, number, now)
        else:
            refusal = self._rejoin(held, session, message, now)
            if refusal is not None:
                return refusal
        held.belongs_to(session.memory)
        member = Member(session.address, message.ref, message.credit, held)
        member.ends = message.options.durable
        session.members[message.ref] = member
        held.joining = (*held.joining, member)
        if held.durable:
            held.stored.attended = now
            # both: progress under an earlier filter does not count for this one
            records += [self._row(held), self.progress(held)]
        return member, is_resumed, records

    def _create(
        self,
        id: SubscriptionId,
        session: Session,
        message: Subscribe,
        told: DeliveredRanges | None,
        number: int,
        now: float,
    ) -> SubscriptionState:
        subscription = self._subscription(id, message)
        cursor = self._replay.own_cursor()
        held = SubscriptionState(subscription, cursor, named=message.named, number=number, since=now)
        self.helds[id] = held
        if message.options.dead_letters_of is not None:
            self._listen_to_dead(held, session, message.options.dead_letters_of)
            return held
        self._dead.resumed(id)
        if told is not None:
            held.told = told
        if message.options.replay:
            cursor.next = self._ledger.first_offset
        self._skip_handled(held, message)
        if held.durable:
            self.durables[id] = held
            home = session.homes.pop(message.ref, cursor.log)
            held.stored = DurableState(self._ports.kept.owner_of(id))
            if home != cursor.log:
                held.stored.home, held.stored.is_guest = home, True
        if held.stored.is_guest or self._settings.shared_log:
            self._resume_from(held, message.after)
        if not message.options.until_live:
            self._want(held, subscription, now)
        self._replay.open(held, now)
        if held.stored.is_guest:
            self._replay.resume_from(held, message.after)
        return held

    def _resume_from(self, held: SubscriptionState, after: Mapping[str, int]) -> None:
        """The token proves that the subscription existed, at another broker: it has a right to all that
        came after it. Our log holds that, since the other broker has not acknowledged it. (At home an
        unknown subscription was ended, and its token proves only what it was told.)"""
        cursor = held.own
        if cursor.log in after:
            cursor.start = min(self._ledger.end, after[cursor.log] + 1)
            cursor.next = min(cursor.next, cursor.start)

    def _subscription(self, id: SubscriptionId, message: Subscribe) -> Subscription:
        """Requested options; equal options are kept once, since most subscriptions have the same."""
        options = self._options.get(message.options, message.options)
        if len(self._options) < MOST_OPTIONS:
            self._options[options] = options
        return Subscription(id, message.filter, options)

    def _want(self, held: SubscriptionState, subscription: Subscription, now: float) -> None:
        held.handle = self._ports.interest.add(subscription.filter, held)
        self._ports.events.interested(subscription, now)

    def _unwant(self, held: SubscriptionState, now: float) -> None:
        if held.handle is not None:
            self._ports.interest.remove(held.handle, held.filter)
            self._ports.events.uninterested(held.subscription, now)

    def _listen_to_dead(self, held: SubscriptionState, session: Session, name: str) -> None:
        own = SubscriptionId(session.client, unscoped(name))
        group = SubscriptionId(GROUPS, name)
        is_group = group in self.helds or (own not in self.helds and bool(self._dead.letters(group)))
        target = held.dead_letters_of = group if is_group and own not in self.helds else own
        self._dead_listeners.setdefault(target, []).append(held)
        for letter in self._dead.letters(target):
            if accepts(held.filter, letter.event):
                self._dispatcher.enqueue(held, item_of(letter))

    def _skip_handled(self, held: SubscriptionState, message: Subscribe) -> None:
        """The client's token: what it handled counts as told."""
        for log, handled in message.after.items():
            end = min(handled + 1, self._ledger.end) if log == self._ledger.log else handled + 1
            if held.told is None:
                held.told = DeliveredRanges()
            held.told.add(message.filter, log, 0, end)

    def _rejoin(
        self, held: SubscriptionState, session: Session, message: Subscribe, now: float
    ) -> Refusal | None:
        is_group = message.options.group is not None
        is_same = held.filter.digest == message.filter.digest
        if is_group and is_same and held.durable is not message.options.durable:
            return None if held.durable else self._make_durable(held, message)
        if held.durable is not message.options.durable:
            kind = "durable" if held.durable else "not durable"
            return Refusal(
                "refused", f"subscription {held.id.own} is {kind}; subscribe likewise or end it first"
            )
        if not is_same and len(held.own.rights) >= MAX_RIGHTS:
            return Refusal(
                "limit", f"{held.id.own} changed its filter {MAX_RIGHTS} times; hear what it is owed first"
            )
        if is_group and held.has_members:
            if is_same:
                return None
            return Refusal(
                "refused", f"the members of group {unscoped(held.id.name)!r} listen with another filter"
            )
        listeners = [*held.members, *held.joining]
        if any(member.address == session.address for member in listeners):
            return Refusal("refused", f"subscription {held.id.own} has a listener; a group can have many")
        self._take_over(held, listeners, now)
        if not is_same:
            self._change_filter(held, message, now)
        held.subscription = self._subscription(held.id, message)
        self._acknowledge_handled(held, message, now)
        return None

    def _make_durable(self, held: SubscriptionState, message: Subscribe) -> Refusal | None:
        """A group of transient members gets a durable one: it is owed what waits and a log holds, and all
        that comes."""
        if held.is_behind:
            return Refusal(
                "refused", f"group {unscoped(held.id.name)!r} replays; subscribe again when it has"
            )
        held.subscription = self._subscription(held.id, message)
        self.durables[held.id] = held
        held.stored = DurableState(self._ports.kept.owner_of(held.id))
        for offset in held.own.progress.owed:
            self._ledger.owe(offset, held.owner, held.options.superseding)
        return None

    def _take_over(self, held: SubscriptionState, listeners: list[Member], now: float) -> None:
        for member in listeners:
            self._ports.send(member.address, Closed(member.ref, "closed", "a newer link took over"))
            self._remove(member)
            self._dispatcher.take_back(member, now)

    def _acknowledge_handled(self, held: SubscriptionState, message: Subscribe, now: float) -> None:
        """The client's token is ahead of what we know: settle what it handled. One member's token does not
        show what the others of its group handled."""
        if message.options.group is not None and held.durable:
            return
        after = message.after
        for line in (held.queue, held.barred):
            for item in [item for item in line if item.position is not None]:
                assert item.position is not None
                if item.position.offset <= after.get(item.position.log, 0):
                    line.remove(item)
                    self._dispatcher.forget(held, item, now)
        self._skip_handled(held, message)

    def _change_filter(self, held: SubscriptionState, message: Subscribe, now: float) -> None:
        """Only what was not told yet will be told."""
        held.remember().prune(self._ledger.log, self._ledger.first_offset)
        rights = self._replay.rights(held)
        spared = self._dispatcher.spared(held, message.filter)
        self._count_unwanted(held, message.filter, now)
        self._unwant(held, now)
        held.subscription = subscription = self._subscription(held.id, message)
        held.since = now if message.options.replay else NEVER
        self._replay.restart(held, rights, now)
        self._want(held, subscription, now)
        self._replay.reopen(held, rights)
        for item in spared:
            self._dispatcher.enqueue(held, item)

    def _count_unwanted(self, held: SubscriptionState, filter: Filter, now: float) -> None:
        """Count the events that wait for a durable subscription and that its new filter does not accept.
        Events of our own log are counted when they are read again; unread ones of other logs are not known
        here."""
        if not held.durable:
            return
        own = self._ledger.log
        for item in (*held.queue, *held.own.pending, *held.blocked, *held.barred):
            is_read_again = item.position is not None and item.position.log == own
            if not is_read_again and not accepts(filter, item.event):
                self._dispatcher.losses.count_lost(held, item.event, FILTER_CHANGED, now)

    # -- leaving -----------------------------------------------------------------------------

    def _remove(self, member: Member) -> None:
        held = member.held
        held.leave_out(member)
        session = self.sessions.get(member.address)
        if session is not None:
            session.members.pop(member.ref, None)

    def leave(self, member: Member, *, end: bool, lingers: bool, now: float) -> list[Record]:
        """A member goes; the subscription with it, unless it is durable or has others."""
        held = member.held
        self._remove(member)
        if held.has_members or (held.durable and not (end and member.ends)):
            if held.stored.is_guest and not held.has_members:
                self._guest_left(held, now)
            self._dispatcher.take_back(member, now)
            return [self.progress(held)] if held.durable else []
        return self.end(held, now, lingers=lingers)

    def _guest_left(self, held: SubscriptionState, now: float) -> None:
        held.stored.left_at = now
        ends_at = now + self._settings.guest_seconds
        self.guests_at = ends_at if self.guests_at is None else min(self.guests_at, ends_at)

    def collect(self, now: float) -> list[Record]:
        """One step of forgetting what ended subscriptions left behind; the records to persist."""
        return [*self.memory.expire(now), *self._dead.expire(now), *self.end_guests(now)]

    def end_guests(self, now: float) -> list[Record]:
        """Guests whose listener did not come back end here; their home keeps all that they are owed. The
        records to persist."""
        if self.guests_at is None or self.guests_at > now:
            return []
        self.guests_at = None
        records: list[Record] = []
        for held in list(self.durables.values()):
            left_at = held.stored.left_at
            if left_at is None:
                continue
            if held.has_members:
                held.stored.left_at = None
            elif left_at + self._settings.guest_seconds <= now:
                records += self.end(held, now)
            else:
                self._guest_left(held, left_at)
        return records

    def end(self, held: SubscriptionState, now: float, *, lingers: bool = False) -> list[Record]:
        """End a subscription, and remember its deliveries. The records to persist."""
        told = held.remember()
        told.prune(self._ledger.log, self._ledger.first_offset)
        self._unwant(held, now)
        self._replay.stop(held)
        self._dispatcher.clear(held, now)
        held.has_ended = True
        del self.helds[held.id]
        self.durables.pop(held.id, None)
        if held.dead_letters_of is not None:
            self._dead_listeners[held.dead_letters_of].remove(held)
            if not self._dead_listeners[held.dead_letters_of]:
                del self._dead_listeners[held.dead_letters_of]
            return []
        self._dead.ended(held.id, now)
        records: list[Record] = []
        if held.durable:
            records = [rows.delete_for(rows.SUBSCRIPTION, held.id), rows.delete_for(rows.PROGRESS, held.id)]
        if (held.named or lingers) and told.spans:
            seconds = self._settings.memory_seconds if held.named else self._settings.linger_seconds
            records += self.memory.keep(held.id, told, now + seconds)
        return records

    def end_away(self, id: SubscriptionId, ended: float, now: float) -> list[Record]:
        """End a subscription that was ended at another broker, where it was a guest; the records to persist.
        A client that subscribed here since then has another one."""
        held = self.helds.get(id)
        if held is None or not held.durable or held.stored.is_guest or held.stored.attended > ended:
            return []
        self.close(held, "closed", "it was ended at another broker", now)
        return self.end(held, now)

    def close(self, held: SubscriptionState, code: str, reason: str, now: float) -> list[Record]:
        """Send its members away; a transient one ends. The records to persist."""
        for member in [*held.members, *held.joining]:
            self._ports.send(member.address, Closed(member.ref, code, reason))
            self._remove(member)
            self._dispatcher.take_back(member, now)
        return [self.progress(held)] if held.durable else self.end(held, now)

    # -- what is on the disk -------------------------------------------------------------------

    def _row(self, held: SubscriptionState) -> Record:
        own, stored = held.own, held.stored
        assert own.start is not None
        row = SubscriptionRow(
            held.subscription,
            held.since,
            own.start,
            own.first,
            (held.told or DeliveredRanges()).encode(),
            list(own.rights),
            is_guest=stored.is_guest,
            home=stored.home,
            attended=stored.attended,
        )
        return rows.put_for(rows.SUBSCRIPTION, held.id, row)

    def progress(self, held: SubscriptionState) -> Record:
        held.own.floor()
        lanes = {log: rows.lane_row(cursor) for log, cursor in held.others.items()}
        movers, outlived = dict(held.movers), sorted(held.stored.outlived)
        row = ProgressRow(held.id, held.own.progress, lanes=lanes, movers=movers, outlived=outlived)
        return rows.put_for(rows.PROGRESS, held.id, row)

    def load(self, state: Loaded, now: float) -> None:
        self.memory.load(state)
        known = {row.subscription: row for row in rows.decoded(state.tables, rows.PROGRESS, ProgressRow)}
        for row in rows.decoded(state.tables, rows.SUBSCRIPTION, SubscriptionRow):
            cursor = self._replay.own_cursor()
            held = SubscriptionState(row.subscription, cursor, named=True, number=0, since=row.since)
            self.helds[held.id] = self.durables[held.id] = held
            held.told = rows.read_told(row.told)
            owner = self._ports.kept.owner_of(held.id)
            held.stored = DurableState(
                owner, row.home, row.is_guest, row.attended, is_from_disk=True, is_kept=True
            )
            if row.is_guest:
                self._guest_left(held, now)
            cursor.start, cursor.first, cursor.keep_from = row.start, row.told_from, row.start
            cursor.rights, cursor.again_below = row.rights, self._ledger.end
            progress = known.get(held.id)
            cursor.resume(LogProgress(heard=row.told_from) if progress is None else progress.progress)
            self._owe_again(held)
            self._want(held, row.subscription, now)
            self._replay.begin(held, now)
            if progress is not None:
                self._load_progress(held, progress)
        self._dead.end_others(self.helds, now)

    def _load_progress(self, held: SubscriptionState, row: ProgressRow) -> None:
        held.stored.outlived = frozenset(row.outlived)
        if row.movers:
            held.own_moving().movers.update(row.movers)
        for log, lane in row.lanes.items():
            cursor = self._replay.other_cursor(held, log, 1, start=lane.start)
            cursor.resume(lane.progress)
            cursor.first, cursor.again_below = lane.told_from, ANY_OFFSET
            cursor.keep_from = cursor.next if lane.hold is None else min(cursor.next, lane.hold + 1)
            cursor.rights = [
                EarlierRange((span.filter,), NEVER, span.start, span.stop) for span in lane.rights
            ]

    def _owe_again(self, held: SubscriptionState) -> None:
        """Apply the bounds also to unsettled deliveries from before a restart."""
        if held.has_bounds:
            for offset in held.own.unread:
                if offset in self._ledger.entries:
                    held.own.owe_later(offset)
                    held.own.source.owe(held, offset)

    def check(self) -> None:
        for held in self.helds.values():
            held.check()
        assert self.durables == {id: held for id, held in self.helds.items() if held.durable}
        for id, held in self.helds.items():
            assert held.id == id
            assert held.handle is None or self._ports.interest.entry(held.handle) is held
        for session in self.sessions.values():
            for ref, member in session.members.items():
                assert member.ref == ref
                assert member in (*member.held.members, *member.held.joining)
