"""Subscriptions: which are held, under which name, and who listens to them.

Rules
- Identity is (subscriber, name). Subscribing again under a name resumes: with the same filter
  where it stood, with another one so that only the difference is told. Whether it replays is decided when it
  takes a filter, and holds as long as the filter.
- A group is one subscription with many members, under the group's name and no subscriber's. It becomes
  durable when a member asks for that, with all that waits for it; members that do not ask for it join all the
  same, and end it not.
- A durable subscription stays when its members leave.
- A transient one ends when its last member leaves. The deliveries of a named one are remembered for a bounded
  time; those of an unnamed one after a broken link for a short while.
- One name has one listener. A new link of the same client takes over from its old one, and so does another
  client of the same name with the same filter: a restarted process, before the broker noticed the end of its
  predecessor. With another filter it is refused while the first one listens, unless it says that it takes
  over: two clients share a name by mistake. A second listener on one link is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from tidings.availability.delivered_ranges import DeliveredRanges
from tidings.availability.progress import LogProgress
from tidings.availability.records import Loaded, Record
from tidings.language.evaluate import accepts
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.subscription import GROUPS, DeliveryOptions, Subscription, SubscriptionId, unscoped
from tidings.protocol.delivery import rows
from tidings.protocol.delivery.cursor import ANY_OFFSET
from tidings.protocol.delivery.dead_letters import DeadLetters, item_of
from tidings.protocol.delivery.delivery_memory import DeliveryMemory
from tidings.protocol.delivery.dispatcher import Dispatcher
from tidings.protocol.delivery.group_returns import GroupReturns
from tidings.protocol.delivery.log_index import LogIndex
from tidings.protocol.delivery.loss_report import CountsLeft
from tidings.protocol.delivery.owner import OwnerMemory
from tidings.protocol.delivery.recount import Recount
from tidings.protocol.delivery.replay import LogReplay
from tidings.protocol.delivery.rows import ProgressRow, SubscriptionRow
from tidings.protocol.delivery.sessions import Session, identity
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.delivery.sources import FILTER_CHANGED
from tidings.protocol.delivery.subscription_state import (
    DurableState,
    LossCounts,
    Member,
    SubscriptionState,
)
from tidings.protocol.messages import Closed, Hello, Subscribe
from tidings.protocol.slots import Ports

NEWER_LINK = "a newer link took over"
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
        index: LogIndex,
        dispatcher: Dispatcher,
        replay: LogReplay,
        dead: DeadLetters,
    ) -> None:
        self._ports = ports
        self._settings = settings
        self._index = index
        self._dispatcher = dispatcher
        self._replay = replay
        self._dead = dead
        self.returns = GroupReturns(settings, ports.limits, dispatcher)
        self.memory = DeliveryMemory(ports)
        self.states: dict[SubscriptionId, SubscriptionState] = {}
        self._options: dict[DeliveryOptions, DeliveryOptions] = {}
        self.sessions: dict[str, Session] = {}
        self.durables: dict[SubscriptionId, SubscriptionState] = {}
        self.counts_left = CountsLeft(ports.limits.remembered_losses)
        self.remote_ends_at: float | None = None  # when the first guest may have to end
        self._memory_of: dict[str, OwnerMemory] = {}  # by principal
        self._dead_listeners: dict[SubscriptionId, list[SubscriptionState]] = {}
        self.recount = Recount(ports, settings, index, replay.own_log, dispatcher.bounds, self._accepting)
        index.on_pinned = dispatcher.bounds.count_unread = self.recount.look

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

    def dead_letter_subscribers(self, state: SubscriptionState) -> list[SubscriptionState]:
        return list(self._dead_listeners.get(state.id, ()))

    # -- subscribing -------------------------------------------------------------------------

    def subscribe(
        self, session: Session, message: Subscribe, number: int, now: float
    ) -> tuple[Member, bool, list[Record]] | Refusal:
        """The new member, whether it resumes a subscription, and the records to persist before it is told."""
        id = identity(session, message)
        state = self.states.get(id)
        records: list[Record] = []
        is_resumed = state is not None
        if state is None:
            if message.options.durable:
                delivered, records = self.memory.take(id)
            else:
                delivered = self.memory.look(id)
            is_resumed = delivered is not None
            state = self._create(id, session, message, delivered, number, now)
        else:
            refusal = self._rejoin(state, session, message, now)
            if refusal is not None:
                return refusal
        state.belongs_to(session.memory)
        member = Member(session.address, message.ref, message.credit, state)
        member.ends = message.options.durable
        session.members[message.ref] = member
        state.joining = (*state.joining, member)
        if state.durable:
            self.returns.joins(session, member)
            state.stored.attended = now
            # both: progress under an earlier filter does not count for this one
            records += [self._row(state), self.progress(state)]
        return member, is_resumed, records

    def warning(self, state: SubscriptionState, message: Subscribe) -> str:
        """What is probably wrong with a subscription that an application opened."""
        target = state.dead_letters_of
        if target is not None and target not in self.states and not self._dead.letters(target):
            return (
                f"no subscription {unscoped(target.name)!r} of yours is known here, and no dead letter of one"
            )
        known = {self._index.log, *state.others}
        if message.call > 0 and (unknown := sorted(message.after.keys() - known)):
            return f"since= names a log that is not known here, and has no effect on others: {unknown[0]}"
        return ""

    def _create(
        self,
        id: SubscriptionId,
        session: Session,
        message: Subscribe,
        delivered: DeliveredRanges | None,
        number: int,
        now: float,
    ) -> SubscriptionState:
        subscription = self._subscription(id, message)
        cursor = self._replay.own_cursor()
        state = SubscriptionState(subscription, cursor, named=message.named, number=number, since=now)
        self.states[id] = state
        if message.options.dead_letters_of is not None:
            self._listen_to_dead(state, session, message.options.dead_letters_of)
            return state
        self._dead.resumed(id)
        self.counts_left.take(session, state)
        if delivered is not None:
            state.delivered = delivered
        if message.options.replay:
            cursor.next = self._index.first_offset
        self._skip_handled(state, message)
        if state.durable:
            self.durables[id] = state
            home = session.homes.pop(message.ref, cursor.log)
            state.stored = DurableState(self._ports.kept.owner_of(id))
            if home != cursor.log:
                state.stored.home, state.stored.is_remote = home, True
        if state.stored.is_remote or self._settings.shared_log:
            self._resume_from(state, message.after)
        if not message.options.until_live:
            self._want(state, subscription, now)
        self._replay.open(state, now)
        if state.stored.is_remote:
            self._replay.resume_from(state, message.after)
        return state

    def _resume_from(self, state: SubscriptionState, after: Mapping[str, int]) -> None:
        """The token proves that the subscription existed, at another broker: it has a right to all that
        came after it. Our log holds that, since the other broker has not acknowledged it. (At home an
        unknown subscription was ended, and its token proves only what it was told.)"""
        cursor = state.own
        if cursor.log in after:
            cursor.start = min(self._index.end, after[cursor.log] + 1)
            cursor.next = min(cursor.next, cursor.start)

    def _subscription(
        self, id: SubscriptionId, message: Subscribe, replay: bool | None = None
    ) -> Subscription:
        """Requested options, perhaps with another `replay`; equal options are kept once, since most
        subscriptions have the same."""
        options = message.options
        if replay is not None and replay is not options.replay:
            options = msgspec.structs.replace(options, replay=replay)
        options = self._options.get(options, options)
        if len(self._options) < MOST_OPTIONS:
            self._options[options] = options
        return Subscription(id, message.filter, options)

    def _want(self, state: SubscriptionState, subscription: Subscription, now: float) -> None:
        state.handle = self._ports.interest.add(
            subscription.filter, state, self._ports.kept.owner_of(state.id)
        )
        self._ports.events.interested(subscription, now)

    def _unwant(self, state: SubscriptionState, now: float) -> None:
        if state.handle is not None:
            self._unmatch(state)
            self._ports.events.uninterested(state.subscription, now)

    def _unmatch(self, state: SubscriptionState) -> None:
        """No event is matched for it from now on."""
        if state.handle is not None:
            self._ports.interest.remove(state.handle, state.filter)

    def _listen_to_dead(self, state: SubscriptionState, session: Session, name: str) -> None:
        own = SubscriptionId(session.client, unscoped(name))
        group = SubscriptionId(GROUPS, name)
        is_group = group in self.states or (own not in self.states and bool(self._dead.letters(group)))
        target = state.dead_letters_of = group if is_group and own not in self.states else own
        self._dead_listeners.setdefault(target, []).append(state)
        for dead_letter in self._dead.letters(target):
            if accepts(state.filter, dead_letter.event):
                self._dispatcher.enqueue(state, item_of(dead_letter))

    def _skip_handled(self, state: SubscriptionState, message: Subscribe) -> None:
        """The client's token: what it handled counts as told."""
        ends = {log: handled + 1 for log, handled in message.after.items()}
        if self._index.log in ends:
            ends[self._index.log] = min(ends[self._index.log], self._index.end)
        if ends:
            if state.delivered is None:
                state.delivered = DeliveredRanges()
            state.delivered.add_all(message.filter, ((log, 0, end) for log, end in ends.items()))

    def _rejoin(
        self, state: SubscriptionState, session: Session, message: Subscribe, now: float
    ) -> Refusal | None:
        is_group = message.options.group is not None
        is_same = state.filter.digest == message.filter.digest
        if is_group and is_same and state.durable is not message.options.durable:
            return None if state.durable else self._make_durable(state, message)
        if state.durable is not message.options.durable:
            return Refusal("refused", _other_kind(state))
        if not is_same and len(state.own.rights) >= MAX_RIGHTS:
            return Refusal(
                "limit",
                f"{state.id.own} changed its filter {MAX_RIGHTS} times; receive what it is owed first",
            )
        if is_group and state.has_members:
            if is_same:
                return None
            return Refusal(
                "refused", f"the members of group {unscoped(state.id.name)!r} listen with another filter"
            )
        listeners = [*state.members, *state.joining]
        if any(member.address == session.address for member in listeners):
            return Refusal("refused", f"subscription {state.id.own} has a listener; a group can have many")
        others = [member for member in listeners if self._is_of_another(member, session)]
        if others and not is_same and not message.options.takes_over:
            return Refusal("refused", f"with another filter {_two_clients(state.id)}")
        self._take_over(state, listeners, others, now)
        if not is_same:
            self._change_filter(state, message, now)
        replay = message.options.replay if not is_same else state.options.replay
        state.subscription = self._subscription(state.id, message, replay=replay)
        self._acknowledge_handled(state, message, now)
        return None

    def _make_durable(self, state: SubscriptionState, message: Subscribe) -> Refusal | None:
        """A group of transient members gets a durable one: it is owed what waits and a log holds, and all
        that comes."""
        if state.is_behind:
            return Refusal(
                "refused", f"group {unscoped(state.id.name)!r} replays; subscribe again when it has"
            )
        state.subscription = self._subscription(state.id, message)
        self.durables[state.id] = state
        state.stored = DurableState(self._ports.kept.owner_of(state.id))
        for offset in state.own.progress.owed:
            self._index.owe(offset, state.owner, state.options.superseding)
        return None

    def _is_of_another(self, member: Member, session: Session) -> bool:
        """Does a listener belong to another process than this link?"""
        known = self.sessions.get(member.address)
        return known is not None and known.incarnation != session.incarnation

    def _take_over(
        self, state: SubscriptionState, listeners: list[Member], others: list[Member], now: float
    ) -> None:
        for member in listeners:
            why = f": {_two_clients(state.id)}" if member in others else ""
            self._ports.send(member.address, Closed(member.ref, "closed", f"{NEWER_LINK}{why}"))
            self._remove(member)
            self._dispatcher.take_back(member, now)

    def _acknowledge_handled(self, state: SubscriptionState, message: Subscribe, now: float) -> None:
        """The client's token is ahead of what we know: settle what it handled. One member's token does not
        show what the others of its group handled."""
        if message.options.group is not None and state.durable:
            return
        after = message.after
        for line in (state.queue, state.barred):
            for item in [item for item in line if item.position is not None]:
                assert item.position is not None
                if item.position.offset <= after.get(item.position.log, 0):
                    line.remove(item)
                    self._dispatcher.forget(state, item, now)
        self._skip_handled(state, message)

    def _change_filter(self, state: SubscriptionState, message: Subscribe, now: float) -> None:
        """Only what was not told yet will be told."""
        state.remember().prune(self._index.log, self._index.first_offset)
        rights = self._replay.rights(state)
        spared = state.spared(message.filter)
        self._count_unwanted(state, message.filter, now)
        earlier = state.subscription
        self._unmatch(state)
        state.subscription = subscription = self._subscription(state.id, message)
        state.since = now
        self._replay.restart(state, rights, now)
        self._want(state, subscription, now)
        # last: a link that breaks between the two leaves its far end with both filters, not with neither
        self._ports.events.uninterested(earlier, now)
        self._replay.reopen(state, rights)
        for item in spared:
            self._dispatcher.enqueue(state, item)

    def _count_unwanted(self, state: SubscriptionState, filter: Filter, now: float) -> None:
        """Count the events that wait for a durable subscription and that its new filter does not accept.
        Events of our own log are counted when they are read again; unread ones of other logs are not known
        here."""
        if not state.durable:
            return
        own = self._index.log
        for item in (*state.queue, *state.own.pending, *state.blocked, *state.barred):
            is_read_again = item.position is not None and item.position.log == own
            if not is_read_again and not accepts(filter, item.event):
                self._dispatcher.losses.count_lost(state, item.event, FILTER_CHANGED, now)

    # -- leaving -----------------------------------------------------------------------------

    def _remove(self, member: Member) -> None:
        state = member.subscription
        state.leave_out(member)
        session = self.sessions.get(member.address)
        if session is not None:
            session.members.pop(member.ref, None)

    def leave(self, member: Member, *, end: bool, lingers: bool, now: float) -> list[Record]:
        """A member goes; the subscription with it, unless it is durable or has others."""
        state = member.subscription
        self._remove(member)
        self.returns.left(member, is_lost=lingers, now=now)
        if state.has_members or (state.durable and not (end and member.ends)):
            if state.stored.is_remote and not state.has_members:
                self._remote_left(state, now)
            self._dispatcher.take_back(member, now)
            return [self.progress(state)] if state.durable else []
        return self.end(state, now, lingers=lingers)

    def _remote_left(self, state: SubscriptionState, now: float) -> None:
        state.stored.left_at = now
        ends_at = now + self._settings.remote_subscription_seconds
        self.remote_ends_at = ends_at if self.remote_ends_at is None else min(self.remote_ends_at, ends_at)

    def collect(self, now: float) -> list[Record]:
        """One step of forgetting what ended subscriptions left behind; the records to persist."""
        self.returns.on_timer(now)
        return [*self.memory.expire(now), *self._dead.expire(now), *self.end_remote(now)]

    def end_remote(self, now: float) -> list[Record]:
        """Guests whose listener did not come back end here; their home keeps all that they are owed. The
        records to persist."""
        if self.remote_ends_at is None or self.remote_ends_at > now:
            return []
        self.remote_ends_at = None
        records: list[Record] = []
        for state in list(self.durables.values()):
            left_at = state.stored.left_at
            if left_at is None:
                continue
            if state.has_members:
                state.stored.left_at = None
            elif left_at + self._settings.remote_subscription_seconds <= now:
                records += self.end(state, now)
            else:
                self._remote_left(state, left_at)
        return records

    def end(self, state: SubscriptionState, now: float, *, lingers: bool = False) -> list[Record]:
        """End a subscription, and remember its deliveries. The records to persist."""
        delivered = state.remember()
        delivered.prune(self._index.log, self._index.first_offset)
        self._unwant(state, now)
        self._replay.stop(state)
        self._dispatcher.clear(state, now)
        state.has_ended = True
        del self.states[state.id]
        self.durables.pop(state.id, None)
        if state.dead_letters_of is not None:
            self._dead_listeners[state.dead_letters_of].remove(state)
            if not self._dead_listeners[state.dead_letters_of]:
                del self._dead_listeners[state.dead_letters_of]
            return []
        self._dead.ended(state.id, now)
        records: list[Record] = []
        if state.durable:
            records = [rows.delete_for(rows.SUBSCRIPTION, state.id), rows.delete_for(rows.PROGRESS, state.id)]
        if (state.named or lingers) and delivered.spans:
            seconds = self._settings.memory_seconds if state.named else self._settings.linger_seconds
            records += self.memory.keep(state.id, delivered, now + seconds)
        return records

    def end_away(self, id: SubscriptionId, ended: float, now: float) -> list[Record]:
        """End a subscription that was ended at another broker, where it was a guest; the records to persist.
        A client that subscribed here since then has another one."""
        state = self.states.get(id)
        if state is None or not state.durable or state.stored.is_remote or state.stored.attended > ended:
            return []
        self.close(state, "closed", "it was ended at another broker", now)
        return self.end(state, now)

    def close(self, state: SubscriptionState, code: str, reason: str, now: float) -> list[Record]:
        """Send its members away; a transient one ends. The records to persist."""
        for member in [*state.members, *state.joining]:
            self._ports.send(member.address, Closed(member.ref, code, reason))
            self._remove(member)
            self.returns.left(member, is_lost=False, now=now)
            self._dispatcher.take_back(member, now)
        return [self.progress(state)] if state.durable else self.end(state, now)

    # -- what is on the disk -------------------------------------------------------------------

    def _row(self, state: SubscriptionState) -> Record:
        own, stored = state.own, state.stored
        assert own.start is not None
        row = SubscriptionRow(
            state.subscription,
            state.since,
            own.start,
            own.first,
            (state.delivered or DeliveredRanges()).encode(),
            list(own.rights),
            is_remote=stored.is_remote,
            home=stored.home,
            attended=stored.attended,
        )
        return rows.put_for(rows.SUBSCRIPTION, state.id, row)

    def progress(self, state: SubscriptionState) -> Record:
        state.own.floor()
        cursors = {log: rows.cursor_row(cursor) for log, cursor in state.others.items()}
        movers, outlived = dict(state.movers), sorted(state.stored.outlived)
        row = ProgressRow(
            state.id,
            state.own.progress,
            cursors=cursors,
            movers=movers,
            outlived=outlived,
            lost=dict(state.lost),
            recounted=state.own.recounted,
            sent=state.sent_below(),
            members=self.returns.known(state),
        )
        return rows.put_for(rows.PROGRESS, state.id, row)

    def keep_letters(self) -> None:
        """Persist new dead letters, with the progress of their subscriptions."""
        if self._dead.buried:
            records, ids = self._dead.take_unkept()
            progress = [self.progress(self.durables[id]) for id in ids if id in self.durables]
            self._ports.disk.keep([*records, *progress])

    def load(self, state: Loaded, now: float) -> None:
        self.memory.load(state)
        known = {row.subscription: row for row in rows.decoded(state.tables, rows.PROGRESS, ProgressRow)}
        for row in rows.decoded(state.tables, rows.SUBSCRIPTION, SubscriptionRow):
            cursor = self._replay.own_cursor()
            subscription_state = SubscriptionState(
                row.subscription, cursor, named=True, number=0, since=row.since
            )
            self.states[subscription_state.id] = self.durables[subscription_state.id] = subscription_state
            subscription_state.delivered = rows.read_delivered(row.delivered)
            owner = self._ports.kept.owner_of(subscription_state.id)
            subscription_state.stored = DurableState(
                owner, row.home, row.is_remote, row.attended, is_from_disk=True, is_kept=True
            )
            if row.is_remote:
                self._remote_left(subscription_state, now)
            cursor.start, cursor.first, cursor.keep_from = row.start, row.delivered_from, row.start
            progress = known.get(subscription_state.id)
            sent = None if progress is None else progress.sent
            cursor.rights = row.rights
            cursor.again_below = self._index.end if sent is None else sent.get(cursor.log, 0)
            cursor.resume(LogProgress(received=row.delivered_from) if progress is None else progress.progress)
            if progress is not None and progress.recounted:
                cursor.recounted = progress.recounted
            self._owe_again(subscription_state)
            self._want(subscription_state, row.subscription, now)
            self._replay.begin(subscription_state, now)
            if progress is not None:
                self._load_progress(subscription_state, progress)
        self._dead.end_others(self.states, now)

    def _load_progress(self, state: SubscriptionState, row: ProgressRow) -> None:
        state.stored.outlived = frozenset(row.outlived)
        self.returns.load(state, row.members)
        if row.lost:
            state.losses = LossCounts(dict(row.lost))
        if row.movers:
            state.own_moving().movers.update(row.movers)
        for log, cursor_row in row.cursors.items():
            cursor = self._replay.other_cursor(state, log, 1, start=cursor_row.start)
            cursor.resume(cursor_row.progress)
            cursor.first = cursor_row.delivered_from
            cursor.again_below = ANY_OFFSET if row.sent is None else row.sent.get(log, 0)
            cursor.keep_from = (
                cursor.next if cursor_row.hold is None else min(cursor.next, cursor_row.hold + 1)
            )
            cursor.rights = cursor_row.ranges()
            if cursor.rights and cursor.start is None:  # a row of an earlier version
                cursor.start = max(right.stop for right in cursor.rights)

    def _owe_again(self, state: SubscriptionState) -> None:
        """Apply the bounds also to unsettled deliveries from before a restart."""
        if state.has_bounds:
            for offset in state.own.unread:
                if offset in self._index.entries:
                    state.own.owe_later(offset)
                    state.own.source.owe(state, offset)

    def check(self) -> None:
        for state in self.states.values():
            state.check()
        assert self.durables == {id: state for id, state in self.states.items() if state.durable}
        for id, state in self.states.items():
            assert state.id == id
            assert state.handle is None or self._ports.interest.entry(state.handle) is state
        for session in self.sessions.values():
            for ref, member in session.members.items():
                assert member.ref == ref
                assert member in (*member.subscription.members, *member.subscription.joining)


def _other_kind(state: SubscriptionState) -> str:
    """The refusal of a durable subscription where another is transient, or the other way round."""
    id = state.id
    kind = "durable" if state.durable else "not durable"
    if id.subscriber == GROUPS:
        named, command = f"group {unscoped(id.name)!r}", f"group '{id.shown.removeprefix(GROUPS + '/')}'"
    else:
        named, command = f"subscription {id.own}", f"subscription '{id.shown}'"
    return (
        f"{named} is {kind}; subscribe likewise (durable={state.durable}), choose another name, or end it "
        f"first: unsubscribe() in its client, or `tidings admin end {command}`"
    )


def _two_clients(id: SubscriptionId) -> str:
    """Two clients of one name want the same subscription."""
    return (
        f"another client called {unscoped(id.subscriber)!r} listens to {unscoped(id.name)!r}; give each "
        "client a name of its own (connect(name=...), --name), subscribe as a group or with takes_over=True"
    )
