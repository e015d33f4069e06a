"""A subscription in the hands of the application.

    async with bus.subscribe("change < -3") as news:
        async for event in news: ...

Rules
- Asking for the next event, or batch of events, commits the one before, also when none comes in time. `ack`
  commits at once, `nack` gives it back; a `nack` or `reject` behind a commit does nothing but log a warning.
- Leaving normally commits what was taken; leaving by an exception does not. It ends a transient
  subscription and detaches a durable one; `unsubscribe` ends that too.
- Leaving a durable subscription while no broker is connected waits `LEAVING_SECONDS` for one, to tell it what
  was committed; without one a warning is logged, and those events are delivered again.
- A cancelled `get` or `async for` loses no event: the event is there for the next one.
- An event that cannot be read as the class subscribed to is rejected: it becomes a dead letter, is counted
  (`unreadable`) and logged, and the next event is returned.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tidings.errors import ClosedError, EventError, SettingsError, TimedOutError
from tidings.model.dead_letter_header import reason_of
from tidings.model.event import Event
from tidings.model.packed import pack, unpack
from tidings.model.subscription import Notification, Position, SubscriptionId
from tidings.protocol.effects import Notify, SubscriptionOpened
from tidings.protocol.inputs import (
    ClientAck,
    ClientCancel,
    ClientLeave,
    ClientNack,
    ClientSubscribe,
    ClientTake,
    ClientWindow,
)
from tidings.runtime.broker import Timeout
from tidings.runtime.failures import error_of
from tidings.runtime.losses import SubscriptionLosses
from tidings.runtime.readers import Reader, calling_thread, current_reader

if TYPE_CHECKING:
    from tidings.runtime.bus import Bus

log = logging.getLogger("tidings.client")
UNTOLD = "%r was left while no broker answered: what it committed last is delivered again under its name"

COMMITTED = (
    "%r: nothing is returned: what was taken last is committed, since the next event was asked for, though "
    "none came; decide on an event before you ask for the next one"
)
NAMELESS = "%r: name=%r has no effect beside group=%r: a group's members share one subscription of its name"
UNREADABLE = "%r: %s; the event is a dead letter of the subscription now"

LATER: Any = object()  # in place of the answer of a call that is not there yet

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Listener(Generic[T]):
    """What `bus.subscribe` gives: enter it (or await it) to begin, then iterate."""

    __slots__ = (
        "__weakref__", "_batch", "_bus", "_durable", "_filter", "_has_committed", "_is_over", "_losses",
        "_most_deliveries", "_numbers", "_opened", "_places", "_push", "_read", "_reader", "_ref",
        "_returned", "_taken", "_taking", "_wanted",
    )  # fmt: skip

    def __init__(
        self, bus: Bus, wanted: dict[str, Any], read: Callable[[Event], T] | None, durable: bool
    ) -> None:
        self._bus = bus
        self._wanted: dict[str, Any] | None = wanted  # the fields of `ClientSubscribe`, until it is open
        self._filter = pack(wanted["filter"])
        self._read = read
        self._durable = durable
        self._most_deliveries: int = wanted["options"].max_deliveries
        self._ref: int | None = None
        self._opened: SubscriptionOpened | None = None
        self._is_over = False
        self._batch: Sequence[Notification] = ()  # taken last ...
        self._numbers: Sequence[int] = ()  # ... under these numbers; none when no broker delivered them
        self._has_committed = False  # by a call that has returned nothing, what was taken last
        self._taken = 0
        self._taking = 0  # the call that took last
        self._places = dict(wanted.get("after") or ())  # by log: the last offset that was taken
        self._returned: set[Position] = set()  # given back, and not taken again since
        self._losses = SubscriptionLosses()
        self._reader: Reader | None = None  # the task or thread that touched it last
        self._push: Callable[[Notification], None] | None = None  # called with what comes, in place of taking

    # -- beginning and leaving -------------------------------------------------------------

    async def open(self) -> Listener[T]:
        """Begin; the broker knows of the subscription when this returns."""
        if self._opened is not None or self._is_over:
            raise ClosedError("a subscription is opened once", hint="subscribe again under its name")
        wanted = self._wanted
        assert wanted is not None
        self._reader = current_reader()
        if wanted["name"] is not None and wanted["options"].group is not None:
            log.warning(NAMELESS, self, wanted["name"], wanted["options"].group)
        timeout = wanted.pop("timeout", ...)
        window = 0 if wanted.get("is_paused") else self._bus._broker.window(wanted["options"])
        answer = await self._bus._request(
            lambda call: ClientSubscribe(call, window=window, **wanted),
            subscribing=True,
            push=self._push,
            timeout=timeout,
        )
        assert isinstance(answer, SubscriptionOpened)
        self._opened, self._wanted = answer, None
        self._ref = answer.ref
        self._bus._listeners[answer.ref] = self
        if answer.warning:
            log.warning("%r: %s", self, answer.warning)
        self._count_losses()
        return self

    def __await__(self) -> Generator[Any, None, Listener[T]]:
        return self.open().__await__()

    async def __aenter__(self) -> Listener[T]:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close(commit=error is None)

    async def close(self, *, commit: bool = True, timeout: Timeout = ...) -> None:
        """Stop listening: ends a transient subscription, detaches a durable one."""
        await self._leave(commit=commit, end=False, timeout=timeout)

    async def unsubscribe(self, *, timeout: Timeout = ...) -> None:
        """End the subscription, a durable one too. No further event is handed over."""
        await self._leave(commit=True, end=True, timeout=timeout)

    async def _leave(self, *, commit: bool, end: bool, timeout: Timeout) -> None:
        if self._ref is None or self._is_over:
            return
        self._is_over = True
        ref = self._ref
        is_bounded = timeout is ... and not end
        if not self._bus.is_closed and self._bus._over is None:
            try:
                await self._bus._request(
                    lambda call: ClientLeave(call, ref, commit, end),
                    timeout=self._bus._leaving_seconds() if is_bounded else timeout,
                )
            except TimedOutError:
                if not is_bounded:
                    raise
                log.warning(UNTOLD, self)
        self._bus._listeners.pop(ref, None)
        self._bus._pushed.pop(ref, None)
        self._losses.end(self)

    # -- hearing -----------------------------------------------------------------------------

    async def get(self, timeout: float | None = None) -> T:
        """The next event; commits the one before, at once. Raises `TimeoutError` after `timeout` seconds."""
        if self._read is not None:
            return (await self._get_readable(1, timeout))[0]
        notification = (await self._take(1, timeout))[0]
        event: Any = notification.event
        event.__dict__["_position"] = notification.position
        return event  # type: ignore[no-any-return]

    async def get_many(self, most: int, timeout: float | None = None) -> list[T]:
        """The next events, at most so many and at least one; commits those before. It waits for the first
        event and takes those with it that are there. Raises `TimeoutError` after `timeout` seconds without
        any."""
        if most < 1:
            raise SettingsError(f"get_many of {most} events", hint="ask for 1 or more")
        if self._read is not None:
            return await self._get_readable(most, timeout)
        batch = await self._take(most, timeout)
        for notification in batch:
            notification.event.__dict__["_position"] = notification.position
        events: list[Any] = [notification.event for notification in batch]
        return events

    async def _get_readable(self, most: int, timeout: float | None) -> list[T]:
        """The next events as instances of the class, at least one, without those that cannot be read."""
        loop = asyncio.get_running_loop()
        ends = None if timeout is None else loop.time() + timeout
        while True:
            await self._take(most, None if ends is None else ends - loop.time())
            if values := self._readable():
                return values

    def _readable(self) -> list[T]:
        """The events that were taken last, as instances of the class. One that cannot be read is rejected,
        and no longer among them."""
        read = self._read
        assert read is not None
        batch, numbers, values = self._batch, self._numbers, []
        for place, notification in enumerate(batch):
            try:
                values.append(read(notification.event.placed_at(notification.position)))
            except EventError as error:
                self._batch = tuple(each for each in self._batch if each is not notification)
                if numbers:
                    self._numbers = tuple(each for each in self._numbers if each != numbers[place])
                    self._bus._input(ClientNack(self._ref, (numbers[place],), reason_of(error)))  # type: ignore[arg-type]
                self._taken -= 1
                self._losses.count_unreadable()
                log.warning(UNREADABLE, self, error)
        return values

    async def _take(
        self, most: int, timeout: float | None, *, commits: bool = True
    ) -> Sequence[Notification]:
        """The next notifications, at most so many and at least one."""
        bus, ref = self._bus, self._ref
        if ref is None:
            raise ClosedError("the subscription has not begun", hint="use `async with` or `await` it first")
        self._reader = calling_thread.get() or asyncio.current_task(bus._loop)
        call = bus._last_call = bus._last_call + 1
        notify = bus._submit(call, ClientTake(call, ref, commits, most))
        if notify is LATER:
            self._has_committed = commits
            if timeout is None:
                notify = await bus._answer_of(call, taking=ref)
            else:
                try:
                    async with asyncio.timeout(timeout):
                        notify = await bus._answer_of(call, taking=ref)
                except TimeoutError:
                    raise TimeoutError(f"no event for {self!r} within {timeout:.3g} s") from None
        if type(notify) is not Notify:
            raise error_of(notify.code, notify.reason, notify.id)
        batch = notify.notifications
        self._batch, self._numbers, self._taking = batch, notify.numbers, call
        self._has_committed = False
        self._taken += 1 if most == 1 else len(batch)
        places = self._places
        for notification in batch:
            if (position := notification.position) is not None:
                if position.log not in places or places[position.log] < position.offset:
                    places[position.log] = position.offset
                if self._returned:
                    self._returned.discard(position)
        return batch

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        try:
            return await self.get()
        except ClosedError:
            if self._ref is None:
                raise
            raise StopAsyncIteration from None

    async def batches(self, most: int = 100, *, linger: float = 0.0) -> AsyncIterator[list[T]]:
        """Iterate over batches of at most so many events; taking the next batch commits the one before.

        A batch waits for its first event and takes those with it that are there. With `linger` it waits so
        many seconds more for others to fill it."""
        while True:
            try:
                events = await self._batched(most, linger)
            except ClosedError:
                if self._ref is None:
                    raise
                return
            yield events

    async def _batched(self, most: int, linger: float) -> list[T]:
        events = await self.get_many(most)
        if linger > 0 and len(events) < most:
            calls = [self._taking]
            try:
                async with asyncio.timeout(linger):
                    while len(events) < most:
                        batch, numbers = self._batch, self._numbers
                        more: Any = await self._take(most - len(events), None, commits=False)
                        calls.append(self._taking)
                        placed = [each.event.placed_at(each.position) for each in more]
                        events += placed if self._read is None else self._readable()
                        self._batch, self._numbers = (*batch, *self._batch), (*numbers, *self._numbers)
            except TimeoutError:
                return events
            except asyncio.CancelledError:  # the caller received none of them: the next call returns them
                for call in reversed(calls) if self._ref is not None else ():
                    self._bus._input(ClientCancel(call, self._ref))
                self._batch, self._numbers = (), ()
                raise
        return events

    async def notifications(self) -> AsyncIterator[Notification]:
        """As iterating, with each event's position and attempt beside it."""
        while True:
            try:
                notification = (await self._take(1, None))[0]
            except ClosedError:
                return
            yield notification

    async def take(self) -> tuple[Notification, int]:
        """The next notification and its number, while those before stay open; `settle` commits each by its
        number."""
        notification = (await Listener._take(self, 1, None, commits=False))[0]
        return notification, self._numbers[0]

    def settle(self, number: int, *, handled: bool = True, reason: str = "") -> None:
        """Commit what `take` gave with this number, or give it back; with a reason it is a dead letter."""
        if self._ref is not None:
            back = ClientNack(self._ref, (number,), reason)
            self._bus._input(ClientAck(self._ref, number) if handled else back)

    def allow(self, count: int) -> None:
        """Let so many notifications come ahead of those that were taken; 0 holds back all that were not sent
        yet."""
        if self._ref is not None and not self._is_over:
            self._bus._input(ClientWindow(self._ref, count))

    async def ack(self) -> None:
        """Commit what was taken, without taking the next."""
        if self._ref is not None:
            self._bus._input(ClientAck(self._ref))

    async def nack(self) -> None:
        """Give back what was taken last (after `get_many`: the batch): it comes again, at most
        `max_deliveries` times."""
        if (ref := self._returns()) is not None:
            self._hold(self._batch)
            self._bus._input(ClientNack(ref, tuple(self._numbers)))

    def _hold(self, returned: Iterable[Notification]) -> None:
        """Hold `positions` until what was given back is taken again; a dead letter is not."""
        again = [each for each in returned if each.attempt < self._most_deliveries]
        self._returned.update(each.position for each in again if each.position is not None)

    async def reject(self, reason: str) -> None:
        """Make what was taken last (after `get_many`: the batch) a dead letter, without another attempt."""
        if (ref := self._returns()) is not None:
            self._bus._input(ClientNack(ref, tuple(self._numbers), reason_of(reason)))

    def _returns(self) -> int | None:
        """The subscription at the broker, if what was taken last can still be returned to it."""
        if not self._numbers:
            return None
        if self._has_committed:
            log.warning(COMMITTED, self)
            return None
        return self._ref

    # -- what is known of it -----------------------------------------------------------------

    @property
    def id(self) -> SubscriptionId:
        if self._opened is None:
            raise ClosedError("the subscription has not begun", hint="use `async with` or `await` it first")
        return self._opened.id

    @property
    def resumed(self) -> bool:
        """True when the broker knew the subscription, or remembered it, under this name."""
        return self._opened is not None and self._opened.resumed

    @property
    def last(self) -> Notification | None:
        """What was taken last, with its position and its attempt."""
        return self._batch[-1] if self._batch else None

    @property
    def position(self) -> Position | None:
        """Where the event that was taken last stands in the broker's log; None when no log holds it."""
        return self._batch[-1].position if self._batch else None

    @property
    def positions(self) -> dict[str, int]:
        """By log, the offset up to which events were taken, those that were taken last among them. Events of
        a network of brokers come from several logs: store all of it together with your own effects, and hand
        it back as `since=` to receive each event once even across a crash of your process. An event that was
        given back (`nack`) holds its log until it was taken again."""
        places = dict(self._places)
        for position in self._returned:
            places[position.log] = min(places[position.log], position.offset - 1)
        return places

    def _count_losses(self) -> None:
        reported = self._bus._early_losses.pop(self._ref, None) if self._ref is not None else None
        if reported is not None:
            self._losses.count(self, reported, warns=self._bus._broker.warns)

    @property
    def counters(self) -> dict[str, int]:
        """`taken`, and how many were lost, by the name of the policy or bound; `unreadable` ones are dead
        letters."""
        return {"taken": self._taken, **self._losses.counts}

    def __repr__(self) -> str:
        named = None if self._wanted is None else self._wanted["name"]
        name = self._opened.id if self._opened is not None else named or "new"
        return f"<{'durable ' if self._durable else ''}subscription {name}: {unpack(self._filter).text}>"
