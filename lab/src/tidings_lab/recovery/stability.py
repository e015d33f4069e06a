"""Stability among distributors (Mathur et al. 1995, 4.2.1): an event is buffered until every member has it.

Rules
- Members exchange the highest numbers that they have, while an event is not stable. A member that lacks an
  event gets it again from the distributor that accepted it or, when that one is not in the view or began
  another life, from any member that has it.
- Weak synchrony: no event is flushed when the view changes. Events of a distributor that is gone are handed
  on afterwards, so two members may hear one event in different views.
- Virtual synchrony, for comparison: before a survivor acknowledges the next view it has every event that any
  survivor has; what clients publish meanwhile waits.
- A newcomer asks where the streams stand, and hears what comes later.
- No-gap mode (4.2.2): an event is buffered until every *subscriber in the system* has heard it, so every
  distributor knows of all of them. A subscriber that comes from a distributor that failed is sent what it has
  not heard.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from tidings.history.schema import recv_row
from tidings.language.evaluate import accepts
from tidings.model.subscription import Subscription, SubscriptionId
from tidings.protocol.effects import Record
from tidings.protocol.inputs import Input, LinkDown, LinkUp, ViewChanged
from tidings.protocol.messages import Envelope, Message
from tidings.protocol.slots import Recovery
from tidings_lab.recovery.streams import (
    Flush,
    GroupState,
    GroupStateRequest,
    Highest,
    Marks,
    Owed,
    PublisherStream,
    ResendRequest,
    StreamProgress,
    SubscriberMarks,
    stream_of,
)

GAP, NO_GAP = "gap", "no-gap"


class StabilitySettings(msgspec.Struct, frozen=True, kw_only=True):
    mode: str = GAP
    exchange_seconds: float = 0.5  # between two exchanges; oftener empties buffers sooner
    patience_seconds: float = 5.0  # for an event that no member may have any more
    orphan_seconds: float = 30.0  # no-gap: a subscriber without a distributor is waited for so long


class Stability(Recovery):
    name = "stability buffers"
    messages: ClassVar[tuple[type[Message], ...]] = (
        Highest, ResendRequest, GroupStateRequest, GroupState, Flush, StreamProgress, SubscriberMarks,
    )  # fmt: skip

    def __init__(self, settings: StabilitySettings | None = None, *, above: tuple[str, ...] = ()) -> None:
        self._settings = settings or StabilitySettings()
        self._epoch = 0  # the number of the view
        self._up: set[str] = set()  # of those, the linked ones
        self._above = above  # distributors that we are below of; none: we are of the group
        self.streams: dict[str, PublisherStream] = {}
        self._marks: dict[str, Marks] = {}  # by member: what it said that it has
        self._dirty: set[str] = set()  # streams that moved since they were told
        self._members: tuple[str, ...] = ()
        self._is_synced = False
        self._exchange_at: float | None = None
        self._repaired: dict[tuple[str, str], float] = {}
        self._flush: tuple[int, tuple[str, ...]] | None = None
        self._flush_marks: dict[int, dict[str, Marks]] = {}
        self._buffered: list[Envelope] = []  # published while we flush
        self.owed: dict[str, Owed] = {}  # no-gap: by subscriber
        self._sent_marks: dict[str, Marks] = {}
        self.most_buffered = self.gaps = 0

    @property
    def is_without_gaps(self) -> bool:
        return self._settings.mode == NO_GAP

    # -- the way of an event -------------------------------------------------------------------

    def observe(self, envelopes: Sequence[Envelope], came_from: str | None, now: float) -> Sequence[Envelope]:
        observed = [self._observe(envelope, came_from, now) for envelope in envelopes]
        return [envelope for envelope in observed if envelope is not None]

    def _observe(self, envelope: Envelope, came_from: str | None, now: float) -> Envelope | None:
        number = envelope.sequence
        if number is None:
            return envelope
        if came_from is None and self._flush is not None:
            self._buffered.append(envelope)
            return None
        key = stream_of(envelope)
        stream = self._stream(key)
        if number <= stream.known:
            return None  # its publisher came from another distributor, which had sent it on
        if number > stream.known + 1 or not self._is_synced:
            stream.put_by(number, envelope, came_from, now)
            self._exchange_soon(now)
            return None
        stream.passed(number, envelope)
        if self.ports.recording and came_from is not None:
            self.ports.emit(Record(recv_row(now, self.ports.name, envelope.event, came_from)))
        self._dirty.add(key)
        self.most_buffered = max(self.most_buffered, self.buffered)
        self._exchange_soon(now)
        if self.is_without_gaps:
            self._note_sent(envelope, key, number)
        return envelope

    def admit(self, envelopes: Sequence[Envelope], came_from: str, now: float) -> Sequence[Envelope]:
        """Everything from others goes on from here, in the order of its stream."""
        for envelope in envelopes:
            self.ports.events.arrived((envelope,), came_from, now)
            self._drain(stream_of(envelope), now)
            self._try_flush(now)
        return ()

    def _drain(self, key: str, now: float) -> None:
        stream = self._stream(key)
        while self._is_synced and (found := stream.next()) is not None:
            envelope, came_from = found
            if came_from is None:
                self.ports.events.accepted(envelope, now)
            else:
                self.ports.events.arrived((envelope,), came_from, now)

    def _stream(self, key: str) -> PublisherStream:
        return self.streams.setdefault(key, PublisherStream())

    @property
    def buffered(self) -> int:
        return sum(len(stream.buffer) for stream in self.streams.values())

    # -- inputs and messages -------------------------------------------------------------------

    def on_input(self, input: Input, now: float) -> None:
        if isinstance(input, ViewChanged):
            self._view_changed(input, now)
        elif isinstance(input, LinkUp) and input.peer in self._above:
            self._up.add(input.peer)
            self._ask_above(now)
        elif isinstance(input, LinkDown):
            self._client_away(input.peer, now)
            if input.peer in self._up:  # another one above has what comes next
                self._up.discard(input.peer)
                self._ask_above(now)

    def on_message(self, sender: str, message: Message, now: float) -> None:
        if isinstance(message, Highest):
            self._marks.setdefault(sender, {}).update(message.marks)
            if message.asks:
                known = {key: self._stream(key).known for key in message.marks}
                self.ports.send(sender, Highest(known))
            self._repair(sender, now)
            self._discard()
        elif isinstance(message, ResendRequest):
            for envelope in message.envelopes:
                self.admit((envelope,), sender, now)
        elif isinstance(message, GroupStateRequest):
            if self._is_synced:
                self._bring_in(sender, message)
        elif isinstance(message, GroupState):
            self._sync(message.marks, now)
        elif isinstance(message, Flush):
            self._on_flush(sender, message, now)
        elif isinstance(message, StreamProgress):
            self._on_progress(sender, message, now)
        elif isinstance(message, SubscriberMarks):
            self._on_subscribers(sender, message)

    def _ask_above(self, now: float) -> None:
        for peer in sorted(self._up):
            self.ports.send(peer, GroupStateRequest(0, self._known()))
        self._exchange_soon(now)

    def _bring_in(self, newcomer: str, message: GroupStateRequest) -> None:
        """Tell it where streams stand, and send what is buffered here and comes after what it has."""
        lacking = {key: stream.above(message.marks.get(key, 0)) for key, stream in self.streams.items()}
        marks = {
            key: (lacking[key][0].sequence or 1) - 1 if lacking[key] else stream.known
            for key, stream in self.streams.items()
        }
        self.ports.send(newcomer, GroupState(message.epoch, marks))
        again = tuple(envelope for envelopes in lacking.values() for envelope in envelopes)
        if again:
            self.ports.send(newcomer, ResendRequest(again))

    def _known(self) -> Marks:
        return {key: stream.known for key, stream in self.streams.items()}

    def _view_changed(self, change: ViewChanged, now: float) -> None:
        self._epoch = change.number
        self._members = tuple(member for member in change.members if member != self.ports.name)
        stay = set(self._members) - set(change.joined)
        self._marks = {member: marks for member, marks in self._marks.items() if member in stay}
        for stream in self.streams.values():
            stream.orphan(change.joined)
        for owed in self.owed.values():
            if owed.at not in change.members and owed.away_since is None:
                owed.away_since = now
        if change.number == 1 or change.members[:1] == (self.ports.name,):
            self._sync({}, now)
        elif self.ports.name in change.joined:
            self._is_synced = False
        self._sent_marks.clear()
        self._flush, stored, self._buffered = None, self._buffered, []
        self._flush_marks = {n: marks for n, marks in self._flush_marks.items() if n > change.number}
        for member in self._members:
            self._repair(member, now)
        for envelope in stored:
            self.ports.events.accepted(envelope, now)
        self._exchange_at = now

    def _sync(self, marks: Marks, now: float) -> None:
        if self._is_synced:
            return
        self._is_synced = True
        for key, mark in marks.items():
            stream = self._stream(key)
            stream.known = max(stream.known, mark)
        for key in list(self.streams):
            self._drain(key, now)

    # -- exchange --------------------------------------------------------------------------------

    def _exchange_soon(self, now: float) -> None:
        soon = now + self._settings.exchange_seconds
        if self._exchange_at is None or self._exchange_at > soon:  # later only when our clock was set back
            self._exchange_at = soon

    def next_deadline(self) -> float | None:
        return self._exchange_at

    def on_timer(self, now: float) -> None:
        self._exchange_at = None
        if not self._is_synced and self._up:
            self._ask_above(now)
        if not self._is_synced and self._members:
            self.ports.send(self._members[0], GroupStateRequest(self._epoch, self._known()))
            self._exchange_soon(now)
        for key, stream in list(self.streams.items()):
            if stream.waits_since is not None and stream.waits_since > now:
                stream.waits_since = now  # our clock was set back
            late = (
                stream.waits_since is not None and now - stream.waits_since >= self._settings.patience_seconds
            )
            if late and self._is_synced and stream.waiting:
                self.gaps += 1
                stream.skip(now)
            self._drain(key, now)
        if self.is_without_gaps:
            self._notify_subscribers(now)
        unstable = {key for key, stream in self.streams.items() if stream.buffer or stream.waiting}
        fields = {key: self.streams[key].known for key in sorted(self._dirty | unstable)}
        self._dirty.clear()
        if fields and self._members:
            for member in self._members:
                self.ports.send(member, Highest(fields, asks=bool(unstable)))
        self._discard()
        if self._flush is not None:
            self._say_flush(now)
            self._try_flush(now)
        if unstable or self._flush is not None or self._has_orphans():
            self._exchange_soon(now)

    def _repair(self, member: str, now: float) -> None:
        """Send a member what it lacks, if it is for us to send it."""
        if member not in self._members:
            return
        marks, me = self._marks.get(member, {}), self.ports.name
        for key, stream in self.streams.items():
            lacking = [
                envelope
                for envelope in stream.above(marks.get(key, 0))
                if envelope.origin == me
                or envelope.origin not in self._members
                or envelope.sequence in stream.orphans
            ]
            if not lacking:
                continue
            last = self._repaired.get((member, key), float("-inf"))
            is_ours = lacking[0].origin == me
            if now - last >= self._settings.exchange_seconds and not (is_ours and self._is_fresh(lacking[0])):
                self._repaired[(member, key)] = now
                self.ports.send(member, ResendRequest(tuple(lacking)))

    def _is_fresh(self, envelope: Envelope) -> bool:
        """The event was sent so lately that no member can have acknowledged it."""
        return stream_of(envelope) in self._dirty

    def _discard(self) -> None:
        for key, stream in self.streams.items():
            if not stream.buffer:
                continue
            marks = [self._marks.get(member, {}).get(key, 0) for member in self._members]
            stable = min([stream.known, *marks])
            if self.is_without_gaps:
                stable = min([stable, *(self._settled(owed, key) for owed in self.owed.values())])
            stream.discard(stable)

    # -- virtual synchrony -----------------------------------------------------------------------

    def flush(self, number: int, survivors: tuple[str, ...], now: float) -> bool:
        self._flush = (number, survivors)
        self._say_flush(now)
        self._try_flush(now)
        return False

    def _say_flush(self, now: float) -> None:
        """To the others, again and again until it is done: words may be lost."""
        assert self._flush is not None
        number, survivors = self._flush
        marks = self._flush_marks.setdefault(number, {})[self.ports.name] = self._known()
        for survivor in survivors:
            if survivor != self.ports.name:
                self.ports.send(survivor, Flush(number, marks))
        self._exchange_soon(now)

    def _on_flush(self, sender: str, message: Flush, now: float) -> None:
        delivered = self._flush_marks.setdefault(message.number, {})
        delivered[sender] = message.marks
        if message.asks and self.ports.name in delivered:
            self.ports.send(sender, Flush(message.number, self._known(), asks=False))
            lacking = [
                envelope for key, s in self.streams.items() for envelope in s.above(message.marks.get(key, 0))
            ]
            if lacking and self._flush is None:  # we are done, and it is not
                self.ports.send(sender, ResendRequest(tuple(lacking)))
        self._try_flush(now)

    def _try_flush(self, now: float) -> None:
        if self._flush is None:
            return
        number, survivors = self._flush
        delivered, me = self._flush_marks[number], self.ports.name
        needed = [s for s in survivors if s == me or self.ports.quorum.trusts(s)]
        if any(survivor not in delivered for survivor in needed):
            self._exchange_soon(now)
            return
        keys = sorted({key for survivor in needed for key in delivered[survivor]})
        target = {key: max(delivered[survivor].get(key, 0) for survivor in needed) for key in keys}
        for survivor in needed:
            self._bring_up(survivor, delivered, target, needed, now)
        if all(self._stream(key).known >= mark for key, mark in target.items()):
            self._flush = None
            self.ports.quorum.flushed(number, now)
        else:
            self._exchange_soon(now)

    def _bring_up(
        self, survivor: str, delivered: dict[str, Marks], target: Marks, needed: list[str], now: float
    ) -> None:
        """The first member that has all of a stream sends it to those that lack some."""
        me = self.ports.name
        for key, mark in target.items():
            has_all = [name for name in needed if delivered[name].get(key, 0) == mark]
            lacks = delivered[survivor].get(key, 0)
            if survivor == me or lacks == mark or has_all[0] != me:
                continue
            if now - self._repaired.get((survivor, key), float("-inf")) >= self._settings.exchange_seconds:
                self._repaired[(survivor, key)] = now
                self.ports.send(survivor, ResendRequest(tuple(self._stream(key).above(lacks))))

    # -- no gaps: every subscriber in the system ---------------------------------------------------

    def _settled(self, owed: Owed, key: str) -> int:
        """Number up to which one subscriber has all events of a stream."""
        received, sent = owed.received.get(key, 0), owed.sent.get(key, 0)
        if owed.at == self.ports.name and owed.away_since is None and received >= sent:
            return self.streams[key].known
        return received

    def _note_sent(self, envelope: Envelope, key: str, number: int) -> None:
        for id in self.ports.subscribers.wanting(envelope.event):
            owed = self.owed.get(str(id))
            if owed is not None and owed.at == self.ports.name:
                owed.sent[key] = number

    def _on_progress(self, sender: str, message: StreamProgress, now: float) -> None:
        client = self._client_of(sender)
        if client is None or not self.is_without_gaps:
            return
        for name, marks in message.marks.items():
            owed = self.owed.get(str(SubscriptionId(client, name)))
            if owed is not None:  # from here or from another distributor: what it has not heard it is owed
                for key, mark in marks.items():
                    owed.received[key] = max(owed.received.get(key, 0), mark)
        self._exchange_soon(now)

    def interested(self, subscription: Subscription, now: float) -> None:
        if not self.is_without_gaps:
            return
        owed = self.owed.get(str(subscription.id))
        if owed is None:  # a new one has a right to what comes from now on
            known = self._known()
            self.owed[str(subscription.id)] = Owed(self.ports.name, known, dict(known))
        else:
            owed.at, owed.away_since = self.ports.name, None
            self._bring_to(subscription, owed, now)
        self._exchange_soon(now)

    def _bring_to(self, subscription: Subscription, owed: Owed, now: float) -> None:
        for key in sorted(self.streams):
            for number, envelope in self.streams[key].buffer.items():
                if number > owed.received.get(key, 0) and accepts(subscription.filter, envelope.event):
                    owed.sent[key] = max(owed.sent.get(key, 0), number)
                    self.ports.dispatcher.deliver_to(subscription.id, envelope, now)

    def uninterested(self, subscription: Subscription, now: float) -> None:
        id = str(subscription.id)
        owed = self.owed.get(id)
        if owed is None or owed.at != self.ports.name or owed.away_since is not None:
            return  # its link broke: it is waited for
        del self.owed[id]
        self._sent_marks.pop(id, None)
        for member in self._members:
            self.ports.send(member, SubscriberMarks({}, (id,)))
        self._exchange_soon(now)

    def _client_of(self, address: str) -> str | None:
        return self.ports.subscribers.client_of(address)

    def _client_away(self, address: str, now: float) -> None:
        client = self._client_of(address) if self.owed else None
        if client is None:
            return
        for id in self.ports.subscribers.subscriptions():
            owed = self.owed.get(str(id)) if id.subscriber == client else None
            if owed is not None and owed.at == self.ports.name:
                owed.away_since = now
        self._exchange_soon(now)

    def _notify_subscribers(self, now: float) -> None:
        for client, owed in list(self.owed.items()):
            if owed.away_since is not None and now - owed.away_since > self._settings.orphan_seconds:
                del self.owed[client]
        mine = {
            client: {key: self._settled(owed, key) for key in self.streams}
            for client, owed in self.owed.items()
            if owed.at == self.ports.name and owed.away_since is None
        }
        news = {client: marks for client, marks in mine.items() if self._sent_marks.get(client) != marks}
        self._sent_marks |= news
        if news:
            for member in self._members:
                self.ports.send(member, SubscriberMarks(news))

    def _on_subscribers(self, sender: str, message: SubscriberMarks) -> None:
        for client, marks in message.marks.items():
            self.owed[client] = Owed(sender, marks)
        for client in message.gone:
            self.owed.pop(client, None)
        self._discard()

    def _has_orphans(self) -> bool:
        return any(owed.away_since is not None for owed in self.owed.values())

    # -- for people ------------------------------------------------------------------------------

    def state(self) -> int:
        """State of this distributor: events in buffers, streams, and marks of subscribers."""
        marks = sum(1 + len(owed.received) for owed in self.owed.values())
        return self.buffered + len(self.streams) + marks

    def figures(self) -> dict[str, Any]:
        return {
            "unstable events": self.buffered,
            "most unstable events": self.most_buffered,
            "gaps between distributors": self.gaps,
            "subscribers known": len(self.owed),
        }

    def check(self) -> None:
        for stream in self.streams.values():
            assert all(number <= stream.known for number in stream.buffer), "what is buffered has passed"
