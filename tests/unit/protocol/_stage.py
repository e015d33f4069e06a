"""A stage for one broker and its clients: real machines, channels and a disk that this stage moves.

By default everything is passed on at once and in order (`settle`). With `rng`, one thing at a time
moves, chosen at random: a message of some channel, a commit, a read, a timer. Channels are first in,
first out unless told otherwise; then also several messages of one channel may arrive together.
Every step has a time of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from tidings.availability.records import Append, Delete, Entry, Forget, Loaded, Put, entry_of
from tidings.history.schema import Row
from tidings.language import parse_filter
from tidings.model.event import make_event
from tidings.model.filter import EVERYTHING, Filter
from tidings.model.subscription import DeliveryOptions, Notification
from tidings.protocol.client import Client
from tidings.protocol.compositions import intermediary
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.effects import (
    CallFailed,
    CallResult,
    Counted,
    Effect,
    Fetch,
    Notify,
    Persist,
    Receipt,
    Record,
    Send,
    SendAll,
    SubscriptionEnded,
    SubscriptionOpened,
)
from tidings.protocol.inputs import (
    ClientCancel,
    ClientLeave,
    ClientPublish,
    ClientSubscribe,
    ClientTake,
    Fetched,
    Input,
    LinkDown,
    LinkUp,
    Persisted,
    PublishesReceived,
    Received,
    ReceivedAll,
    Started,
    TimerFired,
)
from tidings.protocol.limits import DEFAULT_LIMITS, ResourceLimits
from tidings.protocol.messages import AckMode, Message, Publish
from tidings.protocol.node import Node

BROKER = "b"


class Disk:
    """What is committed survives `Stage.crash`; what waits in `pending` does not."""

    def __init__(self) -> None:
        self.log: dict[int, Append] = {}
        self.tables: dict[str, dict[str, bytes]] = {}
        self.next_offset = 1
        self.pending: deque[Persist] = deque()
        self.reads: deque[Fetch] = deque()

    def commit(self) -> int:
        persist = self.pending.popleft()
        for record in persist.records:
            self._apply(record)
        return persist.token

    def _apply(self, record: Any) -> None:
        if isinstance(record, Append):
            assert record.offset >= self.next_offset, "offsets ascend"
            self.log[record.offset] = record
            self.next_offset = record.offset + 1
        elif isinstance(record, Forget):
            self.log.pop(record.offset, None)
        elif isinstance(record, Put):
            self.tables.setdefault(record.table, {})[record.key] = record.value
        elif isinstance(record, Delete):
            self.tables.get(record.table, {}).pop(record.key, None)

    def read(self, fetch: Fetch) -> tuple[Append, ...]:
        found = sorted(offset for offset in self.log if offset >= fetch.from_offset)
        return tuple(self.log[offset] for offset in found[: fetch.limit])

    def load(self) -> Loaded:
        entries: list[Entry] = [entry_of(self.log[offset]) for offset in sorted(self.log)]
        first = entries[0].offset if entries else self.next_offset
        tables = {name: dict(rows) for name, rows in self.tables.items()}
        return Loaded(first, self.next_offset, entries, tables)


class Stage:
    def __init__(
        self,
        *,
        stable: bool = False,
        recording: bool = False,
        fifo: bool = True,
        rng: Random | None = None,
        settings: DeliverySettings | None = None,
        check: bool = True,
        inline: bool = False,
        several: bool | None = None,
        together: bool = False,
        limits: ResourceLimits = DEFAULT_LIMITS,
    ) -> None:
        self.rng = rng
        self.fifo = fifo
        self.check = check
        self.inline = inline  # the disk works at once
        self.several = several  # publishes of several clients come in one turn, as one input or one by one
        self.together = together  # without `rng`: whatever waits in a channel arrives at once
        self.now = 0.0
        self.tick = 0.001
        self.rows: list[Row] = []
        self.disk = Disk()
        self.is_full = False
        self._build: Callable[[], Node] = lambda: intermediary(
            BROKER, rng=Random(1), stable=stable, recording=recording, settings=settings, limits=limits
        )
        self.recording = recording
        self.node = self._build()
        self.clients: dict[str, Client] = {}
        self.channels: dict[tuple[str, str], deque[Any]] = {}
        self.answers: dict[int, Any] = {}
        self.failures: dict[int, tuple[str, str]] = {}
        self.received: dict[tuple[str, int], list[Notification]] = {}
        self.tags: dict[tuple[str, int], list[int]] = {}
        self.lost: dict[tuple[str, int], dict[str, int]] = {}
        self.ended: dict[tuple[str, int], tuple[str, str]] = {}
        self.handled: list[tuple[float, str, Any]] = []  # messages, as the broker had them
        self.slowest = 0.0  # the largest delay of a message
        self.quiet_at = 0.0
        self.calls = 0
        self.lives = 0
        self.hand(BROKER, Started(Loaded.empty()))

    # -- moving things -------------------------------------------------------------------

    def hand(self, name: str, input: Input) -> list[Effect]:
        """Hand one input to a machine and put its effects in their places."""
        self.now += self.tick
        machine = self.node if name == BROKER else self.clients[name]
        effects = machine.handle(input, self.now)
        if name == BROKER and isinstance(input, Received):
            self.handled.append((self.now, input.sender, input.message))
        elif name == BROKER and isinstance(input, PublishesReceived):
            self.handled += [
                (self.now, sender, message) for sender, some in input.batches for message in some
            ]
        elif name == BROKER and isinstance(input, ReceivedAll):
            self.handled += [(self.now, input.sender, message) for message in input.messages]
        for effect in effects:
            self._place(name, effect)
        if self.check:
            machine.check()
        if self.inline and name == BROKER:
            while self.disk.pending:
                self.move("commit", None)
            while self.disk.reads:
                self.move("read", None)
        return effects

    def _place(self, name: str, effect: Effect) -> None:
        match effect:
            case Send(to, message):
                self.channels.setdefault((name, to), deque()).append((self.now, message))
            case SendAll(to, messages):
                self.channels.setdefault((name, to), deque()).extend((self.now, each) for each in messages)
            case Persist():
                self.disk.pending.append(effect)
            case Fetch():
                self.disk.reads.append(effect)
            case Record(row):
                self.rows.append(row)
            case CallResult(call, value):
                self.answers[call] = value
            case CallFailed(call, code, reason):
                self.failures[call] = (code, reason)
            case Notify(ref, notifications, tags, call):
                self.received.setdefault((name, ref), []).extend(notifications)
                self.tags.setdefault((name, ref), []).extend(tags)
                if call is not None:
                    self.answers[call] = notifications[-1]
            case Counted(ref, lost):
                self.lost[name, ref] = dict(lost)
            case SubscriptionEnded(ref, code, reason):
                self.ended[name, ref] = (code, reason)
            case _:
                raise AssertionError(f"unexpected {effect}")

    def movable(self) -> list[tuple[str, Any]]:
        """What could happen next, in a fixed order."""
        things: list[tuple[str, Any]] = [("message", pair) for pair, line in self.channels.items() if line]
        if self.disk.pending and not self.is_full:
            things.append(("commit", None))
        if self.disk.reads:
            things.append(("read", None))
        deadline = self.node.next_deadline()
        if deadline is not None and deadline <= self.now:
            things.append(("timer", None))
        return things

    def move(self, kind: str, what: Any) -> None:
        if kind == "message":
            sender, to = what
            line = self.channels[what]
            position = 0 if self.fifo or self.rng is None else self.rng.randrange(len(line))
            count = self._together(len(line))
            some = [line[position]] if count == 1 else [line[number] for number in range(count)]
            del line[position]
            for _ in range(count - 1):
                line.popleft()
            self.slowest = max(self.slowest, self.now - some[0][0])
            messages = [message for _, message in some]
            others = self._publishes_beside(sender) if to == BROKER and _are_publishes(messages) else []
            if others and self.several is False:
                for each, publishes in [(sender, messages), *others]:
                    self.hand(to, ReceivedAll(each, publishes))
            elif others:
                self.hand(to, PublishesReceived([(sender, messages), *others]))
            elif to == BROKER or to in self.clients:
                self.hand(to, Received(sender, messages[0]) if count == 1 else ReceivedAll(sender, messages))
        elif kind == "commit":
            self.hand(BROKER, Persisted(self.disk.commit()))
            while self.several is not None and self.disk.pending:  # one commit for all of the turn
                self.hand(BROKER, Persisted(self.disk.commit()))
        elif kind == "read":
            fetch = self.disk.reads.popleft()
            self.hand(BROKER, Fetched(fetch.request, self.disk.read(fetch)))
        else:
            self.hand(BROKER, TimerFired())

    def _together(self, waiting: int) -> int:
        """How many messages of one channel arrive at once."""
        if not self.fifo or waiting == 1:
            return 1
        if self.rng is None:
            return waiting if self.together else 1
        return self.rng.randint(1, waiting) if self.rng.random() < 0.5 else 1

    def _publishes_beside(self, sender: str) -> list[tuple[str, list[Message]]]:
        """Publishes of other clients that arrive in the same turn."""
        if not self.fifo or (self.several is None if self.rng is None else self.rng.random() < 0.5):
            return []
        found: list[tuple[str, list[Message]]] = []
        for (other, to), line in self.channels.items():
            publishes: list[Message] = []
            while to == BROKER and other != sender and line and isinstance(line[0][1], Publish):
                publishes.append(line.popleft()[1])
            if publishes:
                found.append((other, publishes))
        return found

    def step(self) -> bool:
        things = self.movable()
        if not things:
            return False
        self.move(*(things[0] if self.rng is None else self.rng.choice(things)))
        return True

    def settle(self) -> None:
        """Until nothing can move."""
        while self.step():
            pass

    def wait(self, seconds: float) -> None:
        """Let time pass, with every timer on the way."""
        until = self.now + seconds
        self.settle()
        while (deadline := self.node.next_deadline()) is not None and deadline <= until:
            self.now = max(self.now, deadline)
            self.settle()
        self.now = max(self.now, until)
        self.settle()

    # -- the broker's lives ----------------------------------------------------------------

    def crash(self) -> None:
        """The broker's process ends: what was not committed is gone, and every link breaks."""
        self.disk.pending.clear()
        self.disk.reads.clear()
        self.channels.clear()
        self.node = self._build()
        for name in self.clients:
            self.hand(name, LinkDown(BROKER))
        self.hand(BROKER, Started(self.disk.load()))

    def link(self, name: str) -> None:
        self.hand(BROKER, LinkUp(name))
        self.hand(name, LinkUp(BROKER))

    def cut(self, name: str) -> None:
        """The link breaks: what was in flight is lost."""
        self.channels.pop((name, BROKER), None)
        self.channels.pop((BROKER, name), None)
        self.hand(name, LinkDown(BROKER))
        self.hand(BROKER, LinkDown(name))

    # -- the clients' calls ------------------------------------------------------------------

    def client(self, name: str, *, subscriber: str | None = None) -> str:
        """A new client, linked; its machine has the name of the subscriber it stands for."""
        self.lives += 1
        machine = Client(
            subscriber or name, BROKER, rng=Random(f"{name}/{self.lives}"), recording=self.recording
        )
        self.clients[name] = machine
        self.link(name)
        return name

    def call(self) -> int:
        self.calls += 1
        return self.calls

    def publish(
        self,
        who: str,
        attributes: dict[str, Any] | None = None,
        *,
        mode: AckMode = AckMode.AUTO,
        **options: Any,
    ) -> int:
        call = self.call()
        is_numbered = "id" not in options
        event = make_event(attributes or {}, source=options.pop("source", who), **{"id": "-", **options})
        self.hand(who, ClientPublish(call, event, number=is_numbered, mode=mode))
        return call

    def subscribe(self, who: str, filter: str | Filter = EVERYTHING, **options: Any) -> int:
        call = self.call()
        own = {key: options.pop(key) for key in ("name", "after", "window", "auto") if key in options}
        wanted = parse_filter(filter) if isinstance(filter, str) else filter
        self.hand(who, ClientSubscribe(call, wanted, options=DeliveryOptions(**options), **own))
        return call

    def take(self, who: str, ref: int) -> int:
        call = self.call()
        self.hand(who, ClientTake(call, ref))
        return call

    def leave(self, who: str, ref: int, *, commit: bool = True, end: bool = False) -> int:
        call = self.call()
        self.hand(who, ClientLeave(call, ref, commit, end))
        return call

    # -- the same, and waiting for the answer ---------------------------------------------------

    def published(self, who: str, attributes: dict[str, Any] | None = None, **options: Any) -> Receipt:
        call = self.publish(who, attributes, **options)
        self.settle()
        receipt = self.answers[call]
        assert isinstance(receipt, Receipt)
        return receipt

    def subscribed(self, who: str, filter: str | Filter = EVERYTHING, **options: Any) -> int:
        """The reference of the new subscription."""
        opened = self.opened(who, filter, **options)
        return opened.ref

    def opened(self, who: str, filter: str | Filter = EVERYTHING, **options: Any) -> SubscriptionOpened:
        call = self.subscribe(who, filter, **options)
        self.settle()
        assert call in self.answers, self.failures.get(call, "no answer")
        opened = self.answers[call]
        assert isinstance(opened, SubscriptionOpened)
        return opened

    def taken(self, who: str, ref: int) -> Notification | None:
        """The next notification; None (and the take is cancelled) when none comes."""
        call = self.take(who, ref)
        self.settle()
        notification = self.answers.get(call)
        if notification is None:
            self.hand(who, ClientCancel(call, ref))
            self.settle()
        assert notification is None or isinstance(notification, Notification)
        return notification

    def drain(self, who: str, ref: int, attribute: str = "n", *, most: int = 10_000) -> list[Any]:
        """Take until none comes; one attribute of each event."""
        values: list[Any] = []
        while len(values) < most and (notification := self.taken(who, ref)) is not None:
            values.append(notification.event.get(attribute))
        return values


def _are_publishes(messages: list[Message]) -> bool:
    return all(isinstance(message, Publish) for message in messages)
