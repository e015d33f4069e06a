"""The publish flow: accept, deduplicate, match once, persist if owed, dispatch, forward, acknowledge.

Publishes of one turn of the loop go through the steps together, and one publish is a batch of one. Rules
- An event is written to the log when it has a lifetime, when a durable subscription is owed it, when its
  publisher asks for it, when a hold keeps it, or when recovery may have to bring it to another broker.
- An event that is written is dispatched, and acknowledged, only after it is on the disk: otherwise a crash
  and a publish that is tried again could deliver it twice. Mode `best effort` is acknowledged at once.
- An event that needs no disk follows the earlier ones of its source that do: the order of a source holds.
- The match of the first step serves the whole flow as long as no filter came or went meanwhile
  (`InterestTable.version`).
- Neighbouring events of a batch that the same subscriptions accept are dispatched as one stretch.
- While the disk is full, a publish that needs it, or has to follow one that does, is refused (`full`).
  One that was handed in before is answered as `unknown`, and dispatched when it is kept.
- After a start, an event that is kept is dispatched when each neighbour has said how far it knows our log, or
  `first_word_seconds` have passed: an older copy of the disk gives offsets again that neighbours know.
- An event with a key that no log holds ends the older one of its key: acknowledged when that is on the disk.
- Publishing an identity again is answered with the same acknowledgement and changes nothing: as long as the
  log holds the event, and for the deduplication window after that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import repeat

from tidings.availability.identity import Identities, IdentityBounds, IdentityStatus
from tidings.availability.records import Append, Loaded
from tidings.availability.records import Record as DiskRecord
from tidings.errors import TooLargeError
from tidings.history.schema import avail_row
from tidings.language.unexpected import FAILURES
from tidings.model.event import Event, event_size
from tidings.model.subscription import Position
from tidings.protocol.batches import too_large
from tidings.protocol.delivery import refusals
from tidings.protocol.delivery.dispatcher import Dispatcher
from tidings.protocol.delivery.log_index import LogIndex
from tidings.protocol.delivery.migration_header import HEADER, STAYED
from tidings.protocol.delivery.pending import ONE, PendingPublish, offset_of, stretches
from tidings.protocol.delivery.publisher_migration import PublisherStays
from tidings.protocol.delivery.registry import Registry
from tidings.protocol.delivery.retention_holds import RetentionHolds
from tidings.protocol.delivery.sessions import Session
from tidings.protocol.delivery.subscription_state import SubscriptionState
from tidings.protocol.effects import Record, Send, Warn
from tidings.protocol.inputs import PersistFailed
from tidings.protocol.interest import Match
from tidings.protocol.messages import AckMode, Envelope, Publish, Published, PublishedAll, Refused
from tidings.protocol.slots import Ports

AUTO, BEST_EFFORT, KEPT, REPLICATED = AckMode
STAYING = repeat(True)  # for each event of a broker without others
UNSURE_SECONDS = 0.05  # between two looks at whether neighbours have spoken


class PublishFlow:
    def __init__(
        self, ports: Ports, bounds: IdentityBounds, index: LogIndex, stays: PublisherStays,
        registry: Registry, dispatcher: Dispatcher, holding: RetentionHolds,
    ) -> None:  # fmt: skip
        self._ports = ports
        self._interest = ports.interest
        self._bounds, self._index, self._publisher_stays = bounds, index, stays
        self._registry, self._dispatcher, self._holding = registry, dispatcher, holding
        self._losses = dispatcher.losses
        self.has_new_identities = True  # since the last look at when to forget some
        self._publisher_of = lambda source: ports.kept.publisher_of(source)
        self.identities = Identities(bounds, self._publisher_of)
        index.on_forgotten = self.identities.forgotten
        self._under_way: dict[tuple[str, str], PendingPublish] = {}  # by identity
        self._last_of: dict[str, PendingPublish] = {}  # by source: the last one that waits for the disk
        self._is_log_unsure = ports.log_guard.is_log_unsure
        self._unsure: list[PendingPublish] = []  # kept, until neighbours have said how far they know our log
        self.release_at: float | None = None  # when to look at those again
        self._again: dict[PendingPublish, None] = {}  # on their way to the disk under another offset
        self.number = 0
        self._begun = 1  # the first offset that this life gives
        names = ("published", "duplicate publishes", "kept", "refused for room", "offsets skipped")
        self.figures = dict.fromkeys((*names, "offsets repeated"), 0)

    def load(self, state: Loaded) -> None:
        self._begun = state.next_offset
        self.adopt(state.tables)

    def adopt(self, tables: Mapping[str, Mapping[str, bytes]]) -> None:
        """Know the identities of these tables, and no others."""
        self.identities = Identities.restore(tables, self._bounds, self._publisher_of)
        self._index.on_forgotten = self.identities.forgotten

    # -- the flow --------------------------------------------------------------------------------

    def publish_one(self, session: Session, message: Publish, now: float) -> None:
        """Take one publish through all steps: a batch of one."""
        session.published += 1
        batch = self._accept(session, (message,), 0, now) or self._accept_one(session, message, now)
        self._pass_batch(batch, now)

    def publish(self, parts: Sequence[tuple[Session, Sequence[Publish]]], now: float) -> None:
        """Take publishes that came together through all steps, in their order on each link."""
        batch: list[PendingPublish] = []
        for session, messages in parts:
            position, count = 0, len(messages)
            session.published += count
            while position < count:
                if accepted := self._accept(session, messages, position, now):
                    batch += accepted
                    position += len(accepted)
                    continue
                self._pass_batch(batch, now)  # one of them may be the one that comes now
                self._pass_batch(self._accept_one(session, messages[position], now), now)
                batch, position = [], position + 1
        self._pass_batch(batch, now)

    def _pass_batch(self, batch: list[PendingPublish], now: float) -> None:
        """From the match on: events of which none is known yet. Should that fail, they may be tried again."""
        if not batch:
            return
        try:
            interest, last_of = self._interest, self._last_of
            matches = interest.match_each(batch) if batch[1:] else [interest.match(batch[0].event)]
            if FAILURES.news:
                self._losses.count_all_failed(self._registry.states.values(), now)
            stays: Iterable[bool] = STAYING
            if not self._ports.is_alone:
                stays = self._ports.events.staying([each.event for each in batch], matches, now)
            kept: list[PendingPublish] = []
            records: list[DiskRecord] = []
            looks = self._registry.durables or self._holding.rows
            begin = position = 0  # of the stretch that needs neither the disk nor the network
            for position, (pending, match, stay) in enumerate(zip(batch, matches, stays, strict=False)):
                event = pending.event
                is_owed = event.lifetime > 0 or pending.mode is KEPT
                if (looks or not stay) and not is_owed:
                    is_owed = self._is_owed(event, match, stay)
                if not is_owed:
                    if not pending.is_own:
                        self._remember(event, now)
                    if stay and event.key is None and not (last_of and event.source in last_of):
                        continue
                if begin < position:
                    self._dispatch(batch[begin:position], matches[begin:position], now)
                begin = position + 1
                pending.match, pending.version = match, interest.version
                if is_owed:
                    records += self._append(pending, now)
                    kept.append(pending)
                elif (earlier := last_of.get(event.source)) is not None:
                    self._under_way[event.identity] = pending
                    pending.below = self._index.next_offset
                    earlier.followers += (pending,)
                else:
                    self._pass_on((pending,), now)
                    if pending.blocked:
                        self._under_way[event.identity] = pending
            if not begin:
                self._dispatch(batch, matches, now)
            elif begin <= position:
                self._dispatch(batch[begin:], matches[begin:], now)
            if kept:
                self._persist(kept, records)
        except Exception:
            for pending in batch:
                event, is_begun = pending.event, pending.is_begun or pending.is_dispatched
                if not (is_begun or event.identity in self._under_way):
                    self.identities.give_back(event.source, pending.incarnation, pending.sequence)
            raise

    # -- accept and deduplicate --------------------------------------------------------------------

    def _accept(
        self, session: Session, messages: Sequence[Publish], position: int, now: float
    ) -> list[PendingPublish]:
        """The publishes from this place on that are new and follow one another in the numbers of one source;
        none: the one in this place has to be looked at (`_accept_one`)."""
        ports, incarnation, address = self._ports, session.incarnation, session.address
        disk, under_way, most_bytes = ports.disk, self._under_way, ports.event_bytes
        take_next, number = self.identities.take_next, self.number
        batch: list[PendingPublish] = []
        source, sequence = "", 0  # of the last one
        if disk.full is not None or disk.failed is not None:
            return batch
        for message in messages[position:] if position else messages:
            event, mode = message.event, message.mode
            if not batch:
                source, sequence = event.source, message.sequence - 1
            sequence += 1
            if (
                message.sequence != sequence
                or event.id != f"{incarnation}-{sequence}"
                or event.source != source
                or (size := event.size) > most_bytes
                or (mode is not AUTO and (mode is REPLICATED or (mode is KEPT and not disk.stable)))
                or (under_way and event.identity in under_way)
                or not (batch or take_next(source, incarnation, sequence, now))
            ):
                break
            number += 1
            pending = PendingPublish(
                event, size, None, now, None, number=number, sequence=sequence, mode=mode,
                incarnation=incarnation, waiters=((address, message.call),)
            )  # fmt: skip
            if event.expires is not None:
                pending.expires_at = now + event.expires
            if session.stay:
                pending.moved = session.moved(source)
            batch += (pending,)
        if (accepted := len(batch)) > 1:
            take_next(source, incarnation, messages[position].sequence + 1, now, accepted - 1)
        self.number = number
        self.figures["published"] += accepted
        return batch

    def _accept_one(self, session: Session, message: Publish, now: float) -> list[PendingPublish]:
        """A publish that may be known, or refused; empty when it was answered."""
        event = message.event
        if self._ports.disk.full is not None and self._is_kept_out(session, message, now):
            return []
        is_own = session.is_own(event.id, message.sequence)
        if self._answer_again(session, message, is_own, now):
            return []
        refusal = self._refusal(message, is_own)
        if refusal is not None:
            self._ports.send(session.address, Refused(message.call, *refusal))
            return []
        self.identities.take(event.source, session.incarnation, message.sequence, now)
        self.has_new_identities = True
        self.number += 1
        self.figures["published"] += 1
        pending = self._pending(session, event, message.sequence, now)
        pending.mode, pending.is_own = message.mode, is_own
        pending.waiters, pending.incarnation = ((session.address, message.call),), session.incarnation
        return [pending]

    def _pending(self, session: Session, event: Event, sequence: int | None, now: float) -> PendingPublish:
        expires_at = None if event.expires is None else now + event.expires
        pending = PendingPublish(event, event_size(event), None, now, expires_at, sequence=sequence)
        pending.number = self.number
        pending.moved = session.moved(event.source)
        return pending

    def _answer_again(self, session: Session, message: Publish, is_own: bool, now: float) -> bool:
        """True when this was published before, or that cannot be told. A client numbers all that it
        publishes, so what it sends again is known by its number; an id that is not the client's own is known
        besides, by any sender."""
        address, event = session.address, message.event
        pending = self._under_way.get(event.identity)
        if pending is not None:
            pending.waiters += ((address, message.call),)
            self.figures["duplicate publishes"] += 1
            return True
        seen = self._seen(session, message, is_own, now)
        if seen is not IdentityStatus.SEEN:
            if seen is IdentityStatus.STALE:
                self._ports.send(address, Refused(message.call, "refused", refusals.STALE))
            return seen is IdentityStatus.STALE
        self.figures["duplicate publishes"] += 1
        offset, failed = self._index.offset_of(event.identity), self._ports.disk.failed
        if failed is not None and (offset is None or offset >= self._index.end):
            self._ports.send(address, Refused(message.call, *refusals.not_known(failed.reason)))
        else:
            position = None if offset is None else Position(self._index.log, offset)
            self._ports.send(address, Published(message.call, position))
        return True

    def _seen(self, session: Session, message: Publish, is_own: bool, now: float) -> IdentityStatus:
        event = message.event
        seen = self.identities.look_number(event.source, session.incarnation, message.sequence)
        if seen is IdentityStatus.NEW and self._index.offset_of(event.identity) is not None:
            seen = IdentityStatus.SEEN
        if seen is IdentityStatus.NEW and not is_own:
            seen = self.identities.look(*event.identity, None, now)
        return seen

    def _is_kept_out(self, session: Session, message: Publish, now: float) -> bool:
        """Refuse a publish that needs the full disk, unless its identity is known."""
        event, reason = message.event, self._ports.disk.full
        pending = self._under_way.get(event.identity)
        if pending is not None:
            if not pending.is_dispatched:
                self._ports.send(session.address, Refused(message.call, *refusals.unsure(reason)))
            return not pending.is_dispatched
        is_own = session.is_own(event.id, message.sequence)
        if self._seen(session, message, is_own, now) is not IdentityStatus.NEW:
            return False
        is_asked = event.lifetime > 0 or message.mode is KEPT
        needs_disk = is_asked or self._is_owed(event, self._interest.match(event), False)
        if needs_disk or event.source in self._last_of:
            self.figures["refused for room"] += 1
            self._ports.send(session.address, Refused(message.call, *refusals.kept_out(reason)))
            return True
        return False

    def _refusal(self, message: Publish, is_own: bool) -> tuple[str, str] | None:
        disk = self._ports.disk
        if (reason := too_large(message.event, self._ports.event_bytes)) is not None:
            return (TooLargeError.code, reason)
        if disk.failed is not None:
            return ("store", f"the broker's disk has failed: {disk.failed.reason}")
        if message.mode is KEPT and not disk.stable:
            return ("refused", refusals.NO_STORE)
        if message.mode is REPLICATED:
            return ("refused", refusals.NO_GROUP)
        is_full = not is_own and self.identities.is_full(message.event.identity[0])
        return ("limit", refusals.MANY_IDS) if is_full else None

    def _remember(self, event: Event, now: float) -> None:
        """The log will not hold the event: its foreign id is remembered from now on."""
        self._ports.disk.keep(self.identities.remember(*event.identity, None, now))

    # -- persist if owed -----------------------------------------------------------------------------

    def _is_owed(self, event: Event, match: Match, stays: bool) -> bool:
        """Must the log hold the event, though its publisher does not ask for it?"""
        if self._registry.durables and any(stored.durable for stored in match.subscriptions):
            return True
        if self._holding.rows and self._holding.wants(event):
            return True
        if stays:
            return False
        self._interest.keep(event, match)
        return self._ports.log_guard.keeps(event)

    def _append(self, pending: PendingPublish, now: float) -> list[DiskRecord]:
        """Give the event its offset; the records to persist."""
        event, offset = pending.event, self._index.next_offset
        self.figures["kept"] += 1
        pending.position = Position(self._index.log, offset)
        self._under_way.setdefault(event.identity, pending)
        self._last_of[event.source] = pending
        records = self._index.append(Append(offset, event, now, pending.sequence, pending.expires_at))
        return records + self._publisher_stays.keep(event.source, pending.moved or STAYED, offset)

    def _persist(self, kept: list[PendingPublish], records: list[DiskRecord]) -> None:
        if self._ports.disk.stable:
            publishers = dict.fromkeys([(pending.event.source, pending.incarnation) for pending in kept])
            records += [self.identities.row(*publisher) for publisher in publishers]
        kept_all, not_kept = partial(self.kept, kept), partial(self._not_kept_all, kept)
        self._ports.disk.persist(records, kept_all, not_kept, partial(self.stalled, kept))
        for pending in kept:
            if pending.mode is BEST_EFFORT:
                self.answer(pending)

    def publish_all(
        self,
        session: Session,
        events: list[Event],
        records: list[DiskRecord],
        then: Callable[[float], None],
        otherwise: Callable[[PersistFailed, float], None],
        stalled: Callable[[str], None],
        now: float,
    ) -> None:
        """Keep all of these at once, with these records; then dispatch them in order. A known identity is
        left out: publishing it again changes nothing."""
        pendings: list[PendingPublish] = []
        kept_first: list[DiskRecord] = []
        for event in events:
            identity, seen = event.identity, IdentityStatus.SEEN
            is_here = identity in self._under_way or self._index.offset_of(identity) is not None
            if is_here or self.identities.look(*identity, None, now) is seen:
                self.figures["duplicate publishes"] += 1
                continue
            self.number += 1
            pending = self._pending(session, event, None, now)
            kept_first += self._append(pending, now)
            pendings.append(pending)
        self.figures["published"] += len(pendings)
        session.published += len(pendings)

        def kept(at: float) -> None:
            self.kept(pendings, at)
            then(at)

        def not_kept(failure: PersistFailed, at: float) -> None:
            self._not_kept_all(pendings, failure, at)
            otherwise(failure, at)

        self._ports.disk.persist([*kept_first, *records], kept, not_kept, stalled)

    def kept(self, pendings: Sequence[PendingPublish], now: float) -> None:
        """These events are on the disk."""
        again = self._again  # those have an offset that is not on the disk
        ready = [pending for pending in pendings if pending not in again] if again else pendings
        if self._unsure or self._is_log_unsure(now):
            self._unsure += ready
            if ready and self.release_at is None:
                self.release_at = now + UNSURE_SECONDS
            return
        self._release(ready, now)

    def _release(self, pendings: Sequence[PendingPublish], now: float) -> None:
        """Pass on kept events, and those that followed them. Neighbours pass together, but for one with a
        key, which ends those before it."""
        run: list[PendingPublish] = []
        for pending in pendings:
            if self._last_of.get(pending.event.source) is pending:
                del self._last_of[pending.event.source]
            if run and (pending.event.key is not None or run[-1].event.key is not None):
                self._pass_on(run, now)
                run = []
            run += (pending,)
            if pending.followers:
                self._pass_on(run, now)
                run = []
                for follower in pending.followers:
                    self._pass_on((follower,), now)
                pending.followers = ()  # subscriptions may have the first one for long
        if run:
            self._pass_on(run, now)

    def _not_kept_all(self, pendings: Sequence[PendingPublish], failure: PersistFailed, now: float) -> None:
        for pending in pendings:
            for refused in (pending, *pending.followers):
                self._under_way.pop(refused.event.identity, None)
                self._refuse(refused, "store", f"not kept: {failure.reason}")

    def stalled(self, pendings: Sequence[PendingPublish], reason: str) -> None:
        """The disk is full, and these may be kept when there is room."""
        for pending in pendings:
            for waiting in (pending, *pending.followers):
                self._refuse(waiting, *refusals.unsure(reason))

    def _refuse(self, pending: PendingPublish, code: str, reason: str) -> None:
        for address, call in pending.waiters:
            self._ports.send(address, Refused(call, code, reason))
        pending.waiters = ()

    # -- dispatch and forward ------------------------------------------------------------------------

    def _dispatch(self, batch: list[PendingPublish], matches: list[Match], now: float) -> None:
        """Deliver a stretch of events that go to subscriptions here alone, and acknowledge them: calls that
        follow one another in one message. A publish that a subscription blocks is answered when there is
        room."""
        ports = self._ports
        for pending in batch if ports.recording else ():
            ports.emit(Record(avail_row(now, ports.name, pending.event)))
        self._dispatch_here(batch, batch, matches, now)
        count, address, first = 0, "", 0  # of the calls that one message answers
        for pending in batch:
            pending.is_dispatched = True
            if pending.blocked:
                self._under_way[pending.event.identity] = pending
                continue
            for to, call in pending.waiters:
                if call == first + count and to == address:
                    count += 1
                    continue
                if count:
                    ports.emit(Send(address, Published(first) if count == 1 else PublishedAll(first, count)))
                address, first, count = to, call, 1
        if count:
            ports.emit(Send(address, Published(first) if count == 1 else PublishedAll(first, count)))

    def _pass_on(self, batch: Sequence[PendingPublish], now: float) -> None:
        """Dispatch and forward events that the log holds; or one that supersedes another, or leaves here."""
        ports, interest = self._ports, self._interest
        envelopes: list[Envelope] = []
        matches: list[Match] = []
        for pending in batch:
            event, offset, match = pending.event, pending.offset, pending.match
            if match is None or pending.version != interest.version:  # a filter came or went meanwhile
                match = interest.match(event)
            if ports.recording:
                ports.emit(Record(avail_row(now, ports.name, event)))
            if offset is not None:
                self._index.expose(offset)
            elif event.key is not None:
                self._supersede(event.key, pending)
            envelopes += (self._envelope(pending, offset, now),)
            matches += (match,)
        ports.events.passing(envelopes, matches, None, now, partial(self._dispatch_here, batch))
        for pending in batch:
            pending.is_dispatched = True
            if pending.position is not None:
                self._index.dispatched(pending.position.offset, now)
            if not pending.blocked:
                self.unblocked(pending)

    def _dispatch_here(
        self,
        batch: Sequence[PendingPublish],
        passing: Sequence[Envelope | PendingPublish],
        matches: Sequence[Match],
        now: float,
    ) -> None:
        """Deliver publishes, those that recovery lets pass, to the subscriptions that accept them."""
        if batch[1:] and len(passing) < len(batch):
            found = {each.event.identity for each in passing}
            batch = [pending for pending in batch if pending.event.identity in found]
        for pending in batch if self._interest.has_work else ():
            self._losses.count_all_over_budget(pending.event, now)
        for begin, end in stretches(batch, matches, self._ports.limits) if batch[1:] else ONE:
            if (key := batch[begin].event.key) is not None:
                self._dispatcher.supersede(key, batch[begin].position, now)
            if subscriptions := matches[begin].subscriptions:
                stretch = batch[begin:end]
                for pending in stretch:
                    pending.is_begun = True
                self._dispatcher.dispatch(subscriptions, stretch, now)

    def deliver(self, envelopes: Sequence[Envelope], states: Sequence[SubscriptionState], now: float) -> None:
        """Dispatch events that come from a neighbour without a log, or that recovery held back."""
        batch: list[PendingPublish] = []
        for envelope in envelopes:
            event = envelope.event
            pending = PendingPublish(event, event.size, None, now, None, number=self.number)
            if envelope.offset is not None and envelope.origin == self._index.log:
                pending.position = Position(envelope.origin, envelope.offset)
            if envelope.expires is not None:
                pending.expires_at = now + envelope.expires
            batch.append(pending)
        self._dispatcher.dispatch(states, batch, now)

    def _supersede(self, key: str, pending: PendingPublish) -> None:
        """An event that is not kept itself still ends the older one that is, and blocks until it has."""
        disk, records, one = self._ports.disk, self._index.supersede(key, pending.below), (pending,)
        if records and disk.failed is None:
            pending.blocked += 1
            not_kept, stalled = partial(self._not_kept_all, one), partial(self.stalled, one)
            disk.persist(records, partial(self._superseded, pending), not_kept, stalled)
            if pending.mode is BEST_EFFORT:
                self.answer(pending)

    def _superseded(self, pending: PendingPublish, now: float) -> None:
        pending.blocked -= 1
        if not pending.blocked:
            self.unblocked(pending)

    def _envelope(self, pending: PendingPublish, offset: int | None, now: float) -> Envelope:
        event, log = pending.event, self._index.log
        if not event.lifetime and event.expires is None and pending.moved is None:
            return Envelope(event, log, offset, pending.sequence)
        spent = now - pending.accepted
        expires = None if event.expires is None else event.expires - spent
        remaining = max(event.lifetime - spent, 0.0)
        headers = {} if pending.moved is None else {HEADER: pending.moved}
        return Envelope(event, log, offset, pending.sequence, remaining, expires, headers)

    def unblocked(self, pending: PendingPublish) -> None:
        """No subscription blocks the event any longer."""
        if pending.is_dispatched:
            self._under_way.pop(pending.event.identity, None)
            self.answer(pending)

    def answer(self, pending: PendingPublish) -> None:
        for address, call in pending.waiters:
            self._ports.send(address, Published(call, pending.position))
        pending.waiters = ()

    # -- a disk that may be an older copy of itself ------------------------------------------------------

    def release(self, now: float) -> None:
        """Dispatch what is kept and waited for the word of neighbours, when they have spoken or need not."""
        if self.release_at is None or self.release_at > now:
            return
        if self._unsure and self._is_log_unsure(now):
            self.release_at = now + UNSURE_SECONDS
            return
        self.release_at = None
        unsure, self._unsure = self._unsure, []
        self._release(unsure, now)

    def skip_to(self, upto: int) -> None:
        """An earlier life gave the offsets up to there, and our disk does not hold their events. Events that
        have some of them and were not dispatched get others, in the same order."""
        index = self._index
        skipped, repeated = upto + 1 - index.end, index.end - self._begun
        self.figures["offsets skipped"] += skipped
        self.figures["offsets repeated"] += repeated
        self._ports.emit(Warn(refusals.older_copy(index.log, skipped, repeated)))
        self._begun = upto + 1
        again = [each for each in self._under_way.values() if each.position and not each.is_dispatched]
        again = sorted((each for each in again if offset_of(each) >= index.end), key=offset_of)
        records = [record for each in again for record in index.withdraw(offset_of(each))]
        index.skip_to(upto)
        for pending in again:
            offset, event = index.next_offset, pending.event
            pending.position = Position(index.log, offset)
            append = Append(offset, event, pending.accepted, pending.sequence, pending.expires_at)
            records += index.append(append)
            records += self._publisher_stays.keep(event.source, pending.moved or STAYED, offset)
        if again and self._ports.disk.failed is None:
            self._again.update(dict.fromkeys(again))
            self._unsure = []
            self._ports.disk.persist(
                records, partial(self._kept_again, again), partial(self._not_kept_all, again)
            )

    def _kept_again(self, pendings: list[PendingPublish], now: float) -> None:
        for pending in pendings:
            self._again.pop(pending, None)
        self.kept(pendings, now)

    def check(self) -> None:
        for identity, pending in self._under_way.items():
            assert pending.event.identity == identity
            assert not pending.is_dispatched or pending.blocked, "a dispatched event that blocks is answered"
        for source, pending in self._last_of.items():
            assert offset_of(pending) >= self._index.end, f"{source} waits for a dispatched event"
