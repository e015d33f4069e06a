"""Taking publishes in: each identity once, kept before it is told, in the order of its source.

Rules
- An event is written to the log when it has a lifetime, when a durable subscription is owed it,
  when its publisher asks for it, or when recovery may have to bring it to another broker. Any
  other event goes straight to the subscriptions.
- What is written is told, and acknowledged, only after it is on the disk: otherwise a crash and
  a publish that is tried again could tell it twice. Mode `best effort` is acknowledged at once.
- An event that needs no disk follows the earlier ones of its source that do, so that the
  order of a source holds.
- While the disk is full, a publish that needs the disk, or has to follow one that does, is refused at once (`full`).
  One that was handed in before may still be kept: it is answered as `unknown`, and told when it is kept.
- After a start, an event that is kept is told, and acknowledged, when each neighbour has said how far it knows our
  log, or `first_word_seconds` have passed: a disk that was put back to an older copy would give offsets again that
  neighbours know under other events, which would therefore pass over ours.
- Publishing an identity again is answered with the same acknowledgement and changes nothing: as long as the log
  holds the event, and for the deduplication window after that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice

from tidings.availability.identity import Bounds, Identities, Seen
from tidings.availability.records import Append, Loaded, Put
from tidings.availability.records import Record as DiskRecord
from tidings.errors import TooLargeError
from tidings.history.schema import avail_row
from tidings.model.event import Event, event_size
from tidings.model.subscription import Position
from tidings.protocol.batches import too_large
from tidings.protocol.delivery.arrival import Arrival
from tidings.protocol.delivery.ledger import Ledger
from tidings.protocol.delivery.moved import HEADER, STAYED
from tidings.protocol.delivery.moves import Stays
from tidings.protocol.delivery.refusals import kept_out, not_known, unsure
from tidings.protocol.delivery.sessions import Session
from tidings.protocol.effects import Record, Warn
from tidings.protocol.inputs import PersistFailed
from tidings.protocol.messages import Envelope, Message, Mode, Publish, Published, Refused
from tidings.protocol.slots import Ports

NO_STORE = "mode 'kept' needs a broker with a store; this one keeps events only as long as its process lives"

NO_GROUP = "mode 'replicated' needs a broker in a group (tidings broker --group); here 'kept' is on this broker's disk"

MANY_IDS = "as many ids of other publishers as may be are remembered here, and yours are more than a fair share; leave the id out, or publish later"

STALE = "this number was passed long ago; nobody can tell whether it was published"


UNSURE_SECONDS = 0.05  # between two looks at whether neighbours have spoken


class Intake:
    def __init__(
        self,
        ports: Ports,
        bounds: Bounds,
        ledger: Ledger,
        stays: Stays,
        is_owed: Callable[[Event], bool],
    ) -> None:
        self._ports = ports
        self._bounds = bounds
        self._ledger = ledger
        self._stays = stays
        self.identities = Identities(bounds, self._publisher_of)
        ledger.on_forgotten = self.identities.forgotten
        self._is_owed = is_owed  # does some durable subscription accept it?
        self._under_way: dict[tuple[str, str], Arrival] = {}  # by identity
        self._last_of: dict[str, Arrival] = {}  # by source: the last one that waits for the disk
        self._waiting: list[
            Arrival
        ] = []  # kept, and told when neighbours have said how far they know our log
        self.release_at: float | None = None  # when to look at those again
        self._again: dict[Arrival, None] = {}  # on their way to the disk under another offset
        self.number = 0
        self.telling: Arrival | None = None  # the one that is being told right now
        self._begun = 1  # the first offset that this life gives
        self.figures = {
            "published": 0, "published again": 0, "kept": 0, "refused for room": 0, "offsets skipped": 0,
            "offsets repeated": 0,
        }  # fmt: skip

    def load(self, state: Loaded) -> None:
        self._begun = state.next_offset
        self.adopt(state.tables)

    def adopt(self, tables: Mapping[str, Mapping[str, bytes]]) -> None:
        """Know what these tables hold, and nothing else."""
        self.identities = Identities.restore(tables, self._bounds, self._publisher_of)
        self._ledger.on_forgotten = self.identities.forgotten

    def _publisher_of(self, source: str) -> str:
        return self._ports.kept.publisher_of(source)

    def publish(self, session: Session, message: Publish, now: float) -> None:
        event = message.event
        identity = event.identity
        is_own = True
        if self._ports.disk.full is not None and self._is_kept_out(session, message, now):
            return
        if not self._is_next(session, message, identity, now):
            is_own = _is_own(session, event.id, message.sequence)
            if self._answer_again(session, message, identity, is_own, now):
                return
            refusal = self._refusal(message, is_own)
            if refusal is not None:
                self._ports.send(session.address, Refused(message.call, *refusal))
                return
            self.identities.take(event.source, session.incarnation, message.sequence, now)
        self.number += 1
        self.figures["published"] += 1
        arrival = Arrival(event, self.number, message.sequence, now)
        if session.stay:
            arrival.moved = session.moved(event.source)
        arrival.waiters.append((session.address, message.call))
        if event.lifetime > 0 or message.mode is Mode.KEPT or self._is_owed(event):
            self._under_way[identity] = arrival
            self._keep(arrival, message.mode, [self._row(session, event)], now)
            return
        if not is_own:
            self._remember(event, now)
        if (earlier := self._last_of.get(event.source)) is not None:
            self._under_way[identity] = arrival
            earlier.followers.append(arrival)
        else:
            self._tell(arrival, now)
            if arrival.blocked:
                self._under_way[identity] = arrival

    def alike(self, session: Session, messages: Sequence[Message], at: int) -> list[Publish]:
        """The publishes from this place on, one behind the other in number and call, that ask nothing of the
        log by themselves and of which nothing is known."""
        first = messages[at]
        assert isinstance(first, Publish)
        source, incarnation, call = first.event.source, session.incarnation, first.call
        last = self.identities.last(source, incarnation)
        disk = self._ports.disk
        if last is None or session.stay or disk.failed is not None or disk.full is not None:
            return []
        under_way, kept, replicated, shift = self._under_way, Mode.KEPT, Mode.REPLICATED, last + 1 - call
        found: list[Publish] = []
        most_bytes = self._ports.event_bytes
        for message in islice(messages, at, at + self._ports.limits.publishes_together):
            if type(message) is not Publish:
                break
            event = message.event
            number = message.sequence
            if (
                message.call != call
                or number != call + shift
                or event.source != source
                or event.id != f"{incarnation}-{number}"
                or event.lifetime
                or message.mode is kept
                or message.mode is replicated
                or event.key is not None
                or event.expires is not None
                or (under_way and event.identity in under_way)
                or event_size(event) > most_bytes
            ):
                break
            call += 1
            found.append(message)
        return found

    def waits(self, source: str) -> bool:
        """Is an earlier event of this source on its way to the disk?"""
        return source in self._last_of

    def take(self, session: Session, publishes: Sequence[Publish], now: float) -> int:
        """Take in some of those that are `alike`; the number of the first among all that happened here."""
        first, count = publishes[0], len(publishes)
        is_next = self.identities.take_next(
            first.event.source, session.incarnation, first.sequence, now, count
        )
        assert is_next, "what is alike follows what was taken"
        number = self.number + 1
        self.number += count
        self.figures["published"] += count
        if self._ports.recording:
            for publish in publishes:
                self._ports.emit(Record(avail_row(now, self._ports.name, publish.event)))
        return number

    def told(self, session: Session, call: int, arrival: Arrival) -> None:
        """It was told, but for subscriptions that have no room for it: its answer waits for those."""
        arrival.waiters.append((session.address, call))
        self._under_way[arrival.event.identity] = arrival

    def _is_next(self, session: Session, message: Publish, identity: tuple[str, str], now: float) -> bool:
        """Is it the next one of a client's own, nothing known of it and no refusal due? Then it is taken."""
        number = message.sequence
        if identity in self._under_way or not _is_own(session, identity[1], number):
            return False
        if event_size(message.event) > self._ports.event_bytes:
            return False
        disk = self._ports.disk
        if disk.failed is not None or (message.mode is Mode.KEPT and not disk.stable):
            return False
        if message.mode is Mode.REPLICATED:
            return False
        return self.identities.take_next(message.event.source, session.incarnation, number, now)

    def _answer_again(
        self, session: Session, message: Publish, identity: tuple[str, str], is_own: bool, now: float
    ) -> bool:
        """True when this was published before, or nobody can tell. A client numbers all that it publishes,
        so what it sends again is known by its number; an id that is not the client's own is known
        besides, whoever sends it."""
        address, source = session.address, message.event.source
        arrival = self._under_way.get(identity)
        if arrival is not None:
            arrival.waiters.append((address, message.call))
            self.figures["published again"] += 1
            return True
        seen = self.identities.look_number(source, session.incarnation, message.sequence)
        if seen is Seen.NEW and self._ledger.offset_of(identity) is not None:
            seen = Seen.SEEN
        if seen is Seen.NEW and not is_own:
            seen = self.identities.look(*identity, None, now)
        if seen is Seen.NEW:
            return False
        if seen is Seen.STALE:
            self._ports.send(address, Refused(message.call, "refused", STALE))
            return True
        self.figures["published again"] += 1
        offset, failed = self._ledger.offset_of(identity), self._ports.disk.failed
        if failed is not None and (offset is None or offset >= self._ledger.end):
            self._ports.send(address, Refused(message.call, *not_known(failed.reason)))
            return True
        self._ports.send(address, Published(message.call, self._position(offset)))
        return True

    def _is_kept_out(self, session: Session, message: Publish, now: float) -> bool:
        """Does the full disk keep it out? Then that was said. An identity that is known, and an event that needs no
        disk, go their usual way."""
        event, reason = message.event, self._ports.disk.full
        arrival = self._under_way.get(event.identity)
        if arrival is not None:
            if not arrival.told:
                self._ports.send(session.address, Refused(message.call, *unsure(reason)))
            return not arrival.told
        seen = self.identities.look_number(event.source, session.incarnation, message.sequence)
        if seen is Seen.NEW and self._ledger.offset_of(event.identity) is not None:
            return False
        if seen is Seen.NEW and not _is_own(session, event.id, message.sequence):
            seen = self.identities.look(*event.identity, None, now)
        if seen is not Seen.NEW:
            return False
        needs_disk = event.lifetime > 0 or message.mode is Mode.KEPT or self._is_owed(event)
        if needs_disk or event.source in self._last_of:
            self.figures["refused for room"] += 1
            self._ports.send(session.address, Refused(message.call, *kept_out(reason)))
            return True
        return False

    def _stalled(self, arrival: Arrival, reason: str) -> None:
        """The disk is full, and this one may be kept when there is room."""
        for waiting in (arrival, *arrival.followers):
            waiters, waiting.waiters = waiting.waiters, []
            for address, call in waiters:
                self._ports.send(address, Refused(call, *unsure(reason)))

    def _row(self, session: Session, event: Event) -> Put:
        return self.identities.row(event.source, session.incarnation)

    def _remember(self, event: Event, now: float) -> None:
        """No log will hold it: its id is remembered from now on."""
        disk, rows = self._ports.disk, self.identities.remember(*event.identity, None, now)
        if disk.stable and disk.failed is None:
            disk.persist(rows)

    def _refusal(self, message: Publish, is_own: bool) -> tuple[str, str] | None:
        disk = self._ports.disk
        if (reason := too_large(message.event, self._ports.event_bytes)) is not None:
            return (TooLargeError.code, reason)
        if disk.failed is not None:
            return ("store", f"the broker's disk has failed: {disk.failed.reason}")
        if message.mode is Mode.KEPT and not disk.stable:
            return ("refused", NO_STORE)
        if message.mode is Mode.REPLICATED:
            return ("refused", NO_GROUP)
        return (
            None if is_own or not self.identities.is_full(message.event.identity[0]) else ("limit", MANY_IDS)
        )

    def _position(self, offset: int | None) -> Position | None:
        return None if offset is None else Position(self._ledger.log, offset)

    # -- keeping -----------------------------------------------------------------------------

    def _keep(self, arrival: Arrival, mode: Mode, rows: list[Put], now: float) -> None:
        self.figures["kept"] += 1
        offset = arrival.offset = self._ledger.next_offset
        record = Append(offset, arrival.event, now, arrival.sequence, arrival.expires_at)
        self._last_of[arrival.event.source] = arrival
        records = self._ledger.append(record)
        records += self._stays.keep(arrival.event.source, arrival.moved or STAYED, offset)
        if self._ports.disk.stable:
            records += rows
        self._ports.disk.persist(
            records,
            partial(self._kept, arrival),
            partial(self._not_kept, arrival),
            partial(self._stalled, arrival),
        )
        if mode is Mode.BEST_EFFORT:
            self._answer(arrival)

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
        """Keep them all at once, with these records; then tell them in order. An identity that is known
        here is left out: publishing it again changes nothing."""
        arrivals: list[Arrival] = []
        kept_first: list[DiskRecord] = []
        for event in events:
            if self._is_known(event, now):
                self.figures["published again"] += 1
                continue
            self.number += 1
            arrival = Arrival(event, self.number, None, now)
            arrival.moved = session.moved(event.source)
            arrival.offset = self._ledger.next_offset
            self._last_of[event.source] = arrival
            self._under_way.setdefault(event.identity, arrival)
            record = Append(arrival.offset, event, now, None, arrival.expires_at)
            kept_first += self._ledger.append(record)
            kept_first += self._stays.keep(event.source, arrival.moved or STAYED, arrival.offset)
            arrivals.append(arrival)
        self.figures["published"] += len(arrivals)
        self.figures["kept"] += len(arrivals)

        def kept(at: float) -> None:
            for arrival in arrivals:
                self._kept(arrival, at)
            then(at)

        def not_kept(failure: PersistFailed, at: float) -> None:
            for arrival in arrivals:
                self._not_kept(arrival, failure, at)
            otherwise(failure, at)

        self._ports.disk.persist([*kept_first, *records], kept, not_kept, stalled)

    def _is_known(self, event: Event, now: float) -> bool:
        identity = event.identity
        if identity in self._under_way or self._ledger.offset_of(identity) is not None:
            return True
        return self.identities.look(*identity, None, now) is Seen.SEEN

    # -- a disk that may be an older copy of itself --------------------------------------------

    def release(self, now: float) -> None:
        """Tell what is kept and waited for the word of neighbours, when they have spoken or need not."""
        if self.release_at is None or self.release_at > now:
            return
        if self._waiting and self._ports.recovery.is_log_unsure(now):
            self.release_at = now + UNSURE_SECONDS
            return
        self.release_at = None
        waiting, self._waiting = self._waiting, []
        for arrival in waiting:
            self._kept_surely(arrival, now)

    def skip_to(self, upto: int) -> None:
        """An earlier life gave the offsets up to there, and our disk does not hold their events. Events that have some
        of them and were told to nobody get others, in the same order."""
        ledger = self._ledger
        self._warn(upto + 1 - ledger.end, ledger.end - self._begun)
        self._begun = upto + 1
        again = [each for each in self._under_way.values() if each.offset is not None and not each.told]
        again = sorted((each for each in again if (each.offset or 0) >= ledger.end), key=_offset)
        records = [record for each in again for record in ledger.withdraw(_offset(each))]
        ledger.skip_to(upto)
        for arrival in again:
            arrival.offset = ledger.next_offset
            event = arrival.event
            append = Append(arrival.offset, event, arrival.accepted, arrival.sequence, arrival.expires_at)
            records += ledger.append(append)
            records += self._stays.keep(event.source, arrival.moved or STAYED, arrival.offset)
        if again and self._ports.disk.failed is None:
            self._again.update(dict.fromkeys(again))
            self._waiting = []
            self._ports.disk.persist(
                records, partial(self._kept_again, again), partial(self._not_again, again)
            )

    def _warn(self, skipped: int, repeated: int) -> None:
        self.figures["offsets skipped"] += skipped
        self.figures["offsets repeated"] += repeated
        lost = f"the log {self._ledger.log} was {skipped} entries longer in an earlier life of this broker"
        shared = f"; {repeated} events of this life may not have reached all neighbours" if repeated else ""
        self._ports.emit(Warn(f"{lost}: was the store put back to an older copy? Those are lost{shared}"))

    def _kept_again(self, arrivals: list[Arrival], now: float) -> None:
        for arrival in arrivals:
            self._again.pop(arrival, None)
            self._kept(arrival, now)

    def _not_again(self, arrivals: list[Arrival], failure: PersistFailed, now: float) -> None:
        for arrival in arrivals:
            self._not_kept(arrival, failure, now)

    def _kept(self, arrival: Arrival, now: float) -> None:
        if arrival in self._again:
            return  # under an offset that it has no longer
        if self._waiting or self._ports.recovery.is_log_unsure(now):
            self._waiting.append(arrival)
            if self.release_at is None:
                self.release_at = now + UNSURE_SECONDS
            return
        self._kept_surely(arrival, now)

    def _kept_surely(self, arrival: Arrival, now: float) -> None:
        if self._last_of.get(arrival.event.source) is arrival:
            del self._last_of[arrival.event.source]
        self._tell(arrival, now)
        for follower in arrival.followers:
            self._tell(follower, now)

    def _not_kept(self, arrival: Arrival, failure: PersistFailed, now: float) -> None:
        for refused in (arrival, *arrival.followers):
            self._under_way.pop(refused.event.identity, None)
            waiters, refused.waiters = refused.waiters, []
            for address, call in waiters:
                self._ports.send(address, Refused(call, "store", f"not kept: {failure.reason}"))

    # -- telling -----------------------------------------------------------------------------

    def _tell(self, arrival: Arrival, now: float) -> None:
        event, offset = arrival.event, arrival.offset
        if self._ports.recording:
            self._ports.emit(Record(avail_row(now, self._ports.name, event)))
        if offset is not None:
            self._ledger.tell(offset)
        elif event.key is not None:
            self._supersede(event.key)
        self.telling = arrival
        self._ports.events.accepted(self._envelope(arrival, now), now)
        self.telling = None
        arrival.told = True
        if offset is not None:
            self._ledger.told(offset, now)
        if not arrival.blocked:
            self.unblocked(arrival, now)

    def _supersede(self, key: str) -> None:
        """An event that is not kept itself still ends the older one that is."""
        records = self._ledger.supersede(key)
        if records and self._ports.disk.failed is None:
            self._ports.disk.persist(records)

    def _envelope(self, arrival: Arrival, now: float) -> Envelope:
        event = arrival.event
        spent = now - arrival.accepted
        if not event.lifetime and event.expires is None and arrival.moved is None:
            return Envelope(event, self._ledger.log, arrival.offset, arrival.sequence)
        expires = None if event.expires is None else event.expires - spent
        remaining = max(event.lifetime - spent, 0.0)
        headers = {} if arrival.moved is None else {HEADER: arrival.moved}
        return Envelope(
            event, self._ledger.log, arrival.offset, arrival.sequence, remaining, expires, headers
        )

    def unblocked(self, arrival: Arrival, now: float) -> None:
        """Nobody has to wait for room any longer."""
        if arrival.told:
            self._under_way.pop(arrival.event.identity, None)
            self._answer(arrival)

    def _answer(self, arrival: Arrival) -> None:
        waiters, arrival.waiters = arrival.waiters, []
        for address, call in waiters:
            self._ports.send(address, Published(call, self._position(arrival.offset)))

    def check(self) -> None:
        for identity, arrival in self._under_way.items():
            assert arrival.event.identity == identity
            assert not arrival.told or arrival.blocked, "what was told and blocks nobody is answered"
        for source, arrival in self._last_of.items():
            assert arrival.offset is not None, f"{source} waits for the disk"
            assert arrival.offset >= self._ledger.end, f"{source} waits for what was told"


def _offset(arrival: Arrival) -> int:
    assert arrival.offset is not None
    return arrival.offset


def _is_own(session: Session, id: str, number: int) -> bool:
    """Did the client make this id from its number?"""
    return id == f"{session.incarnation}-{number}"
