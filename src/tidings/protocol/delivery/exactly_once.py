"""Delivery exactly once above the client's interface: the intermediary of Baldoni et al. 2002, and
the access broker of a network.

It puts the parts of this package together, hands each message of a client to the part it is for, and does on
its timer what can wait: persisting progress, forgetting what is over, the matcher's upkeep.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from tidings.availability.records import Append, Forget, Loaded, Record, clock_row
from tidings.matching.matcher import Matcher
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.subscription import Advertisement, Position, Subscription, SubscriptionId
from tidings.protocol.delivery import rows
from tidings.protocol.delivery.administration import ADMINISTERED, Administration
from tidings.protocol.delivery.dead_letters import DeadLetters
from tidings.protocol.delivery.describing import Sees, Sweep, busiest, described
from tidings.protocol.delivery.dispatcher import Dispatcher
from tidings.protocol.delivery.fences import answer_fence
from tidings.protocol.delivery.flow import PublishFlow
from tidings.protocol.delivery.jobs import Jobs
from tidings.protocol.delivery.log_index import LogIndex
from tidings.protocol.delivery.migration_header import HEADER
from tidings.protocol.delivery.pending import ONE, PendingPublish, stretches
from tidings.protocol.delivery.publisher_migration import PublisherStays
from tidings.protocol.delivery.refusals import disk_refusal, unsure
from tidings.protocol.delivery.registry import Refusal, Registry
from tidings.protocol.delivery.remote_unsubscribe import MESSAGES as FAREWELLS
from tidings.protocol.delivery.remote_unsubscribe import RemoteUnsubscribes
from tidings.protocol.delivery.replay import LogReplay, needs_of
from tidings.protocol.delivery.sessions import Session, identity, refusal
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.delivery.sources import OwnLog
from tidings.protocol.delivery.subscription_state import Member, SubscriptionState
from tidings.protocol.delivery.tokens_ahead import TokensAhead
from tidings.protocol.inputs import Input, LinkDown, LinkUp, PersistFailed, Started
from tidings.protocol.interest import Match
from tidings.protocol.messages import (
    CLIENT_MESSAGES,
    Ack,
    AckAll,
    AckCredit,
    Advertise,
    Advertised,
    ClientJoined,
    Credit,
    Envelope,
    Fence,
    Hello,
    Home,
    MemberHoldings,
    Message,
    Nack,
    Publish,
    Refused,
    Subscribe,
    Subscribed,
    Unadvertise,
    Unsubscribe,
    Unsubscribed,
    Welcome,
)  # fmt: skip
from tidings.protocol.naming import log_name
from tidings.protocol.publisher_positions import within_bounds
from tidings.protocol.reading import SUPERSEDED, LogScan, ReaderNeeds
from tidings.protocol.slots import Delivery, Ports

NO_HELLO = "say hello first"
SETTLING = frozenset({Ack, AckAll, AckCredit, Credit})


class ExactlyOnce(Delivery):
    name = "exactly once"
    messages = (*CLIENT_MESSAGES, *FAREWELLS)
    headers = frozenset({HEADER})

    def __init__(self, matcher: Matcher, settings: DeliverySettings | None = None) -> None:
        self.matcher = matcher
        self._settings = settings or DeliverySettings()
        self._flush_at: float | None = None
        self._touched: dict[SubscriptionState, None] = {}
        self._maintain_at: float | None = None
        self._identities_at: float | None = None
        self._has_readers = False  # were there durable subscriptions when the last progress was told?
        self._sweep = Sweep()
        self._age_at: float | None = None  # when the oldest that waits is too old

    def matchers(self) -> tuple[Matcher, ...]:
        return (self.ports.interest.matcher, self._holding.matcher)

    def bind(self, ports: Ports) -> None:
        super().bind(ports)
        settings = self._settings
        self._index = LogIndex(ports.name, settings.collect_budget, self._is_pinned, ports)
        self._dead = DeadLetters(ports, settings)
        self._dispatcher = Dispatcher(ports, settings, self._index, self._dead, self)
        self._publisher_stays = PublisherStays(self._index)
        self._own_log = OwnLog(ports, self._index, self._publisher_stays, self._dispatcher.losses)
        self._index.keeping_superseded.append(self._own_log.keeps_superseded)
        self._replay = LogReplay(ports, settings, self._index, self._dispatcher, self._own_log, self)
        self._registry = Registry(ports, settings, self._index, self._dispatcher, self._replay, self._dead)
        self._ahead = TokensAhead(self._index, ports.limits.client.ahead, self.skip_to)
        self._remote_ends = RemoteUnsubscribes(
            ports, self._index, settings.memory_seconds, self._registry.end_away
        )
        self._jobs = Jobs(
            ports, settings, self._index, self._publisher_stays, lambda *batch: self._flow.publish_all(*batch)
        )
        self._holding = self._jobs.holding
        self._administration = Administration(
            ports, self._registry, self._dispatcher, self._index, self._dead, self._jobs
        )
        parts = (self._index, self._publisher_stays, self._registry, self._dispatcher, self._holding)
        self._flow = PublishFlow(ports, settings.remembered, *parts)
        self._handlers: dict[type[Message], Callable[[Session, Any, float], None]] = {
            Publish: self._flow.publish_one,
            Subscribe: self._on_subscribe, Unsubscribe: self._on_unsubscribe, Credit: self._on_credit,
            Ack: self._on_ack, AckAll: self._on_ack, AckCredit: self._on_ack_credit, Nack: self._on_nack,
            Advertise: self._on_advertise, Unadvertise: self._on_unadvertise, Fence: self._on_fence,
            ClientJoined: self._on_came, Home: Session.note_home, **self._jobs.handlers,
            MemberHoldings: self._registry.returns.note,
        }  # fmt: skip

    def _is_pinned(self, offset: int) -> bool:
        here = self._own_log.is_pinned(offset) or self._holding.is_pinned(offset)
        return here or self.ports.log_guard.is_pinned(offset)

    def _name_log(self, state: Loaded, now: float) -> None:
        """The log keeps its name as long as its disk lives."""
        if not self._settings.names_log:
            return
        for row in rows.decoded(state.tables, rows.LOG, rows.LogRow):
            self._index.log = row.name
            return
        self._index.log = log_name(self.ports.name, now, self.ports.rng)
        self._persist([rows.put(rows.LOG, "name", rows.LogRow(self._index.log))], now)

    def on_input(self, input: Input, now: float) -> None:
        if isinstance(input, Started):
            self._name_log(input.state, now)
            self._index.load(input.state)
            self._ahead.load(now)
            self._dead.load(input.state)
            self._publisher_stays.load(input.state)
            self._flow.load(input.state)
            self._jobs.load(input.state)
            self._registry.load(input.state, now)
            self._remote_ends.load(input.state, now)
            self._age_at = now
            self._forget_identities_later(now)
        elif isinstance(input, LinkDown):
            self._end_session(input.peer, now)
        elif isinstance(input, LinkUp):
            self._remote_ends.link_up(now)
        elif isinstance(input, ADMINISTERED):
            self._persist(self._administration.handle(input, now), now)

    def on_message(self, sender: str, message: Message, now: float) -> None:
        kind, sessions = type(message), self._registry.sessions
        if sender in sessions and kind in self._handlers:
            self._handlers[kind](sessions[sender], message, now)
            if self._dispatcher.granted:
                self._dispatcher.pump_granted(now)
            if self._flow.has_new_identities:
                self._forget_identities_later(now)
        elif type(message) is Hello:
            self._greet(sender, message, now)
        elif kind in FAREWELLS:
            self._remote_ends.on_message(sender, message, now)
        elif isinstance(message, Publish | Subscribe | Unsubscribe):
            self.ports.send(sender, Refused(message.call, "refused", NO_HELLO))

    def on_messages(self, sender: str, messages: Sequence[Message], now: float) -> None:
        dispatcher, position, count = self._dispatcher, 0, len(messages)
        is_uniform = len({*map(type, messages)}) == 1
        while position < count:
            kind, begin, position = type(messages[position]), position, position + 1
            session = self._registry.sessions.get(sender)
            if session is not None and kind in SETTLING:  # what waits is sent once for all that came together
                self._handlers[kind](session, messages[begin], now)
                continue
            if dispatcher.granted:
                dispatcher.pump_granted(now)
            if session is None or kind is not Publish:
                self.on_message(sender, messages[begin], now)
                continue
            most = min(begin + self.ports.limits.publishes_together, count)
            while position < most and (is_uniform or type(messages[position]) is Publish):
                position = most if is_uniform else position + 1
            self._publish(((session, messages[begin:position]),), now)  # type: ignore[arg-type]
        if dispatcher.granted:
            dispatcher.pump_granted(now)

    def on_publishes(self, batches: Sequence[tuple[str, Sequence[Message]]], now: float) -> None:
        sessions, known = self._registry.sessions, list[Any]()
        for sender, messages in batches:
            if sender in sessions:
                known.append((sessions[sender], messages))
            else:
                self.on_messages(sender, messages, now)
        self._publish(known, now)

    def _publish(self, parts: Sequence[tuple[Session, Sequence[Publish]]], now: float) -> None:
        self._flow.publish(parts, now)
        if self._flow.has_new_identities:
            self._forget_identities_later(now)

    def _greet(self, sender: str, message: Hello, now: float) -> None:
        self._end_session(sender, now)
        self._registry.begin(sender, message)
        self.ports.send(sender, self._welcome())

    def _welcome(self) -> Welcome:
        return Welcome(self.ports.name, self._index.log, event_bytes=self.ports.event_bytes)

    def _end_session(self, address: str, now: float) -> None:
        if (session := self._registry.sessions.pop(address, None)) is None:
            return
        records: list[Record] = []
        for advertisement in session.advertisements.values():
            self.ports.events.unadvertised(advertisement, now)
        self._registry.counts_left.keep(session)
        for member in list(session.members.values()):
            records += self._registry.leave(member, end=False, lingers=True, now=now)
        self._persist(records, now)

    def unsendable(self, to: str, message: Message, now: float) -> None:
        if (session := self._registry.sessions.get(to)) is not None:
            self._dispatcher.oversized.undeliverable(session.members, message, now)
            self._registry.keep_letters()

    def undeliverable(self, to: str, envelope: Envelope, now: float) -> None:
        self._dispatcher.oversized.bury_for(to, envelope, now)

    def _forget_identities_later(self, now: float) -> None:
        self._flow.has_new_identities = False
        soon = now + self._settings.flush_seconds
        self._identities_at = self._flow.identities.collect_at(self._identities_at, now, soon)

    def deliver(self, envelopes: Sequence[Envelope], matches: Sequence[Match], now: float) -> None:
        is_kept = self.ports.logs.has_log(envelopes[0].origin)
        deliver_stretch = self._deliver_from_elsewhere if is_kept else self._flow.deliver
        for envelope in envelopes if self.ports.interest.has_work else ():
            self._dispatcher.losses.count_all_over_budget(envelope.event, now)
        for begin, end in stretches(envelopes, matches, self.ports.limits) if envelopes[1:] else ONE:
            if (key := (first := envelopes[begin]).event.key) is not None:
                by = Position(first.origin, first.offset) if is_kept and first.offset is not None else None
                self._dispatcher.supersede(key, by, now)
            if states := matches[begin].subscriptions:
                deliver_stretch(envelopes[begin:end], states, now)

    def deliver_to(self, id: SubscriptionId, envelope: Envelope, now: float) -> None:
        state = self._registry.states.get(id)
        if state is not None and not state.has_ended:
            self._dispatcher.offer(state, envelope.event, now)

    def _deliver_from_elsewhere(
        self, envelopes: Sequence[Envelope], states: Sequence[SubscriptionState], now: float
    ) -> None:
        if SUPERSEDED in envelopes[0].headers:  # it is alone: it has a key
            states = [state for state in states if not state.options.superseding]
        self._replay.offer(states, envelopes, now)
        for state in states:
            self._age_later(state, now)
        if self._registry.durables:
            self._flush_later(now)

    # -- the logs of other brokers (port) ----------------------------------------------------------

    @property
    def position(self) -> tuple[str, int]:
        return self._index.log, self._index.end - 1

    def log_holds(self) -> Mapping[str, Filter]:
        return self._holding.filters

    def scan(self, scan: LogScan, now: float) -> None:
        self._jobs.scanning.scan(scan, now)

    def unpinned(self) -> None:
        self._index.unpin()

    def needs_of(self, log: str) -> ReaderNeeds:
        return needs_of(log, self._registry.durables.values())

    def skip_to(self, upto: int) -> None:
        self._flow.skip_to(upto)

    def log_found(self, log: str, now: float) -> None:
        for state in list(self._registry.states.values()):
            self._replay.found(state, log, now)
            self._age_later(state, now)
            self._replay.read_on(state, now)

    def log_gone(self, log: str, *, is_replaced: bool) -> None:
        for state in self._registry.states.values():
            self._replay.drop(state, log, is_replaced)

    # -- subscribing ---------------------------------------------------------------------------

    def _on_subscribe(self, session: Session, message: Subscribe, now: float) -> None:
        refused, state = refusal(session, message, self._settings), None
        if refused is None and message.options.durable:
            state = self._registry.states.get(identity(session, message))
            refused = disk_refusal(self.ports.disk, state)
        if refused is None and message.after and self._settings.names_log:
            refused = self._ahead.heed(session, message, state)
        if refused is not None:
            self.ports.send(session.address, Refused(message.call, *refused))
            return
        self._flow.number += 1
        answer = self._registry.subscribe(session, message, self._flow.number, now)
        if isinstance(answer, Refusal):
            self.ports.send(session.address, Refused(message.call, *answer))
            return
        member, is_resumed, records = answer
        self._maintain_at = now
        opened = partial(self._opened, member, message, is_resumed)
        not_opened = partial(self._not_opened, session, message.call, member)

        def stalled(reason: str) -> None:  # one that is on the disk goes on; what is new about it can wait
            if member.subscription.stored.is_kept:
                opened(now)
            else:
                not_opened(PersistFailed(0, "full", reason), now)

        self._persist(records, now, opened, not_opened, stalled)

    def _opened(self, member: Member, message: Subscribe, is_resumed: bool, now: float) -> None:
        state = member.subscription
        if state.durable:
            state.stored.is_kept = True
            self._flush_later(now)  # other brokers learn what it needs
        if member not in state.joining:  # it left before it was answered
            return
        state.leave_out(member)
        state.members = (*state.members, member)
        member.is_open = True
        id, warning = state.id, self._registry.warning(state, message)
        answer = Subscribed(message.call, member.ref, id.subscriber, id.name, is_resumed, warning)
        self.ports.send(member.address, answer)
        self._registry.returns.opened(self._registry.sessions.get(member.address), member, now)
        self._dispatcher.opened(state, now)

    def _not_opened(
        self, session: Session, call: int, member: Member, failure: PersistFailed, now: float
    ) -> None:
        if member not in member.subscription.joining:
            return  # it left, or was refused before
        self.ports.send(session.address, Refused(call, failure.code, f"not kept: {failure.reason}"))
        is_new = not member.subscription.stored.is_kept  # one that the disk holds outlives a refused listener
        self._persist(self._registry.leave(member, end=is_new, lingers=False, now=now), now)

    def _on_unsubscribe(self, session: Session, message: Unsubscribe, now: float) -> None:
        member = session.members.get(message.ref)
        if member is not None and message.takes_rest and member.subscription.unacked.holds(member):
            # A sent event counts as received only when acknowledged: the link may have broken since.
            member.last_word, member.credit, member.withheld = message, 0, 0
            return
        self._leave(session, member, message, now)

    def _leave(self, session: Session, member: Member | None, message: Unsubscribe, now: float) -> None:
        records: list[Record] = []
        if member is not None:
            state = member.subscription
            records = self._registry.leave(member, end=message.end, lingers=False, now=now)
            if state.stored.is_remote and state.has_ended:
                records += self._remote_ends.send(state.id, state.stored.home, now)
            self._maintain_at = now
        send, call = partial(self.ports.send, session.address), message.call
        left = Unsubscribed(call, message.ref)
        self._persist(records, now, lambda _: send(left), None, lambda why: send(Refused(call, *unsure(why))))

    def _on_credit(self, session: Session, message: Credit | AckCredit, now: float) -> None:
        members, ref = session.members, message.ref
        if ref in members and members[ref].last_word is None:
            self._dispatcher.credit(members[ref], message.amount)

    def _on_ack(self, session: Session, message: Ack | AckAll | AckCredit, now: float) -> None:
        members, ref = session.members, message.ref
        if ref in members:
            member = members[ref]
            self._dispatcher.acknowledge(member, message.tags, now)
            if member.last_word is not None and not member.subscription.unacked.holds(member):
                self._leave(session, member, member.last_word, now)

    def _on_ack_credit(self, session: Session, message: AckCredit, now: float) -> None:
        self._on_ack(session, message, now)
        self._on_credit(session, message, now)

    def _on_nack(self, session: Session, message: Nack, now: float) -> None:
        if (member := session.members.get(message.ref)) is not None:
            self._dispatcher.give_back(
                member, message.tags, counted=message.counted, now=now, reason=message.reason
            )
            self._registry.keep_letters()

    def _on_came(self, session: Session, message: ClientJoined, now: float) -> None:
        if self._settings.names_log:
            session.stay, session.positions = message.stay, within_bounds(message.places)

    def _on_fence(self, session: Session, message: Fence, now: float) -> None:
        """Answer when what came before is handled, and new dead letters are on the disk."""
        answer = partial(answer_fence, self.ports, session, message)
        member = session.members.get(message.ref)
        if member is None or not member.subscription.stored.has_new_letter:
            answer()
            return
        member.subscription.stored.has_new_letter = False
        progress = self._registry.progress(member.subscription)
        self._persist([progress], now, lambda _: answer(), lambda *_: answer(), lambda _: answer())

    def _on_advertise(self, session: Session, message: Advertise, now: float) -> None:
        advertisement = Advertisement(session.client, message.filter)
        earlier = session.advertisements.get(message.name)
        session.advertisements[message.name] = advertisement
        self.ports.events.advertised(advertisement, now)
        if earlier is not None:
            self.ports.events.unadvertised(earlier, now)
        self.ports.send(session.address, Advertised(message.call))

    def _on_unadvertise(self, session: Session, message: Unadvertise, now: float) -> None:
        advertisement = session.advertisements.pop(message.name, None)
        if advertisement is not None:
            self.ports.events.unadvertised(advertisement, now)
        self.ports.send(session.address, Advertised(message.call))

    # -- hooks of the courier --------------------------------------------------------------------

    def read(self, state: SubscriptionState, now: float) -> None:
        self._replay.read_on(state, now)

    def unblocked(self, pending: PendingPublish) -> None:
        self._flow.unblocked(pending)

    def delivered(self, state: SubscriptionState, now: float) -> None:
        self._age_later(state, now)
        self._flush_later(now)

    def close(self, state: SubscriptionState, code: str, reason: str, now: float) -> None:
        self._persist(self._registry.close(state, code, reason, now), now)

    def dead_letter_subscribers(self, state: SubscriptionState) -> list[SubscriptionState]:
        return self._registry.dead_letter_subscribers(state)

    def touched(self, state: SubscriptionState, now: float) -> None:
        self._touched[state] = None
        self._flush_later(now)

    def _flush_later(self, now: float) -> None:
        if self._flush_at is None:
            self._flush_at = now + self._settings.flush_seconds

    def _age_later(self, state: SubscriptionState, now: float) -> None:
        keep = state.options.keep_seconds
        if keep is not None and state.durable:
            self._age_at = now + keep if self._age_at is None else min(self._age_at, now + keep)

    # -- the timer -------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        registry = self._registry
        jobs, earliest = self._jobs, self._index.next_deadline()
        delivered, dead = registry.memory.ends, self._dead.ending
        for at in (
            self._flush_at, self._maintain_at, self._age_at, self._identities_at, registry.remote_ends_at,
            delivered[0][0] if delivered else None, dead[0][0] if dead else None, self._remote_ends.next_at,
            jobs.staging.next_at, jobs.holding.next_at, self._flow.release_at, registry.returns.next_at,
        ):  # fmt: skip
            if at is not None and (earliest is None or at < earliest):
                earliest = at
        return earliest

    def on_timer(self, now: float) -> None:
        forgotten = self._index.collect(now)
        records: list[Record] = [*forgotten, *self._registry.collect(now)]
        records += self._jobs.collect(now)
        self._flow.release(now)
        records += self._remote_ends.on_timer(now)
        if self._identities_at is not None and self._identities_at <= now:
            records += self._flow.identities.collect(now, self._settings.collect_budget)
        self._forget_identities_later(now)
        if self._age_at is not None and self._age_at <= now:
            self._age_out(now)
        then, losses = None, self._dispatcher.losses
        if self._flush_at is not None and (self._flush_at <= now or (forgotten and losses.unkept)):
            flushed = self._flush(now)
            records, then = records + flushed, losses.take_unkept() if flushed else None
        if self._maintain_at is not None and self._maintain_at <= now:
            left = self.ports.interest.maintain(self._settings.maintain_budget)
            self._maintain_at = now + self._settings.flush_seconds if left else None
        self._persist(records, now, then)

    def _flush(self, now: float) -> list[Record]:
        """Persist progress, and tell members what they do not know yet."""
        self._flush_at = None
        self._release_barred(now)
        if self.ports.disk.full is not None:  # one row for each subscription later, not one for each flush
            self._flush_later(now)
            return []
        touched, self._touched = self._touched, {}
        records: list[Record] = []
        for state in [each for each in touched if not each.has_ended]:
            if state.durable and self.ports.disk.stable:
                records.append(self._registry.progress(state))
            if state.losses is not None and state.losses.has_news:
                self._dispatcher.losses.notify(state, now)
        for state in self._registry.durables.values():
            self._dispatcher.losses.tell_silences(state)
        has_readers, self._has_readers = self._has_readers, bool(self._registry.durables)
        if has_readers or self._has_readers:  # other subscriptions need nothing of a log
            self.ports.logs.progressed(now)
        return records

    def _release_barred(self, now: float) -> None:
        moves = self._dispatcher.moves
        for state in list(moves.waiting):
            self._dispatcher.release(state, now)
        if moves.waiting:
            self._flush_later(now)

    def _age_out(self, now: float) -> None:
        age_out = self._dispatcher.bounds.age_out
        ends = [age_out(state, now) for state in list(self._registry.durables.values())]
        due = [end for end in ends if end is not None]
        self._age_at = max(min(due), now + self._settings.flush_seconds) if due else None

    def _persist(
        self,
        records: list[Record],
        now: float,
        then: Callable[[float], None] | None = None,
        otherwise: Callable[[PersistFailed, float], None] | None = None,
        stalled: Callable[[str], None] | None = None,
    ) -> None:
        """Keep the records, if there is anything to keep; tables are kept only where they last."""
        if not (disk := self.ports.disk).stable:
            records = [record for record in records if isinstance(record, Append | Forget)]
        elif records:
            records = [*records, clock_row(now)]
        if disk.failed is not None and records and otherwise is not None:
            otherwise(disk.failed, now)
        elif disk.failed is None and records:
            disk.persist(records, then, otherwise, stalled)
        elif then is not None:
            then(now)

    # -- for people and for tests ------------------------------------------------------------------

    def client_of(self, address: str) -> str | None:
        return None if (session := self._registry.sessions.get(address)) is None else session.client

    def address_of(self, client: str) -> str | None:
        return next((s.address for s in self._registry.sessions.values() if s.client == client), None)

    def subscriptions(self) -> tuple[SubscriptionId, ...]:
        return tuple(self._registry.states)

    def subscription(self, id: SubscriptionId) -> tuple[Subscription, float] | None:
        state = self._registry.states.get(id)
        return None if state is None else (state.subscription, state.since)

    def wanting(self, event: Event) -> tuple[SubscriptionId, ...]:
        return tuple(stored.id for stored in self.ports.interest.match(event).subscriptions)

    def figures(self) -> dict[str, Any]:
        waiting, reading = self._sweep.look(self._registry.states)
        return {
            **self._flow.figures, **self._dispatcher.figures,
            "subscriptions": len(self._registry.states), "waiting": waiting, "reading": reading,
            "entries": len(self._index.entries),
            "order given up": self._dispatcher.moves.given_up,
            "forgotten": self._index.forgotten, "backlog recounts": self._registry.recount.done,
            **self._flow.identities.figures(),
            "dead letters": len(self._dead), "dead letters dropped": self._dead.dropped,
            **self._registry.memory.figures(),
            "clients": len(self._registry.sessions),
            "unsubscribes pending": len(self._remote_ends),  # ended here; their home brokers do not know yet
            "unsubscribes given up": self._remote_ends.given_up,
        }  # fmt: skip

    def describe(self, limit: int, sees: Sees | None = None) -> list[dict[str, Any]]:
        return [described(state) for state in busiest(self._registry.states, limit, sees)]

    def inspect(self, what: str, about: Any = None) -> Any:
        return self._administration.inspect(what, about)

    def check(self) -> None:
        self._index.check()
        self._registry.check()
        self._flow.check()
        self._dead.check()
