"""Handlers: functions that a bus calls with events, with retries, dead letters and concurrency.

Rules
- A handler stays the function that it is: a test calls it. The bus calls it through the middleware.
- Coroutine functions run on the event loop. Plain functions run in worker threads, so that a slow one delays
  no other handler.
- `concurrency` workers take events from one subscription. Each event, or batch, is committed when its call
  has returned; with more than one worker the order of calls is not the order of events.
- A call that fails is repeated by `retry`; each attempt passes through the middleware.
- After the last attempt the events go to `dead_letter`: a topic, or a function of the event and the error.
  Without one they are negative-acknowledged: the broker redelivers them, at most `max_deliveries` times, and
  then keeps them as dead letters of the subscription. With `retry` that happens after one round
  (`max_deliveries` is 1 by default).
- `Reject` ends the attempts: the events go to `dead_letter`, or become dead letters of the subscription at
  once. So does an event that cannot be read as the class subscribed to; the others of its batch are handled.
  Both are one line in the log `tidings.client`; any other failure is told to the event loop.
- A call that is cancelled, or waits for its next attempt when the bus stops, commits nothing: its events are
  delivered again to a durable subscription, or to another consumer of the group.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from tidings.errors import ClosedError, EventError, Reject, SettingsError, TidingsError
from tidings.model.dead_letter_header import reason_of
from tidings.model.event import Event, make_event
from tidings.runtime.callbacks import CANCEL_SECONDS, STOP_SECONDS, is_being_cancelled
from tidings.runtime.listener import Listener
from tidings.runtime.middleware import CallNext, HandlerCall, Middleware, running_call
from tidings.runtime.readers import calling_thread
from tidings.runtime.requests import failed_reply, is_request, reply_event

if TYPE_CHECKING:
    from tidings.runtime.bus import Bus

log = logging.getLogger("tidings.client")
DeadLetter = Callable[[Event, BaseException], Awaitable[None] | None]
DEAD_LETTER_SECONDS = (
    7 * 86_400.0
)  # that an event in a topic of dead letters is available to later subscribers


class Backoff(msgspec.Struct, frozen=True):
    """Attempts of a handler, and the growing pauses between them."""

    attempts: int = 5  # calls in all, the first included
    first: float = 0.1  # seconds before the second attempt; 0: no pauses
    factor: float = 2.0  # each pause is so many times the one before ...
    longest: float = 30.0  # ... up to so many seconds; a longer pause holds its worker longer
    jitter: float = 0.1  # part of a pause that is drawn, so that many handlers do not try at one moment

    def __post_init__(self) -> None:
        if (
            self.attempts < 1
            or self.first < 0
            or self.factor < 1
            or self.longest < 0
            or not 0 <= self.jitter <= 1
        ):
            raise SettingsError(
                f"{self} has no meaning",
                hint="attempts >= 1, first >= 0, factor >= 1, longest >= 0, jitter from 0 to 1",
            )

    def pause(self, attempt: int, rng: Random) -> float:
        """Seconds to wait after this attempt failed."""
        whole = min(self.first * self.factor ** min(attempt - 1, 64), self.longest)
        return whole * (1 + self.jitter * (rng.random() - 0.5))


ONCE = Backoff(attempts=1)


class HandlerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a handler is called."""

    concurrency: int = 1  # calls at one time; more than 1 gives up the order of events
    retry: Backoff = ONCE
    dead_letter: str | DeadLetter | None = None
    batch: int | None = None  # call with lists of at most so many events
    middleware: Sequence[Middleware] = ()  # of this handler, inside those of the bus
    replies: bool = False

    def __post_init__(self) -> None:
        if self.concurrency < 1 or (self.batch is not None and self.batch < 1):
            raise SettingsError("concurrency and batch count from 1", hint="leave them out for one at a time")


class Outcome(NamedTuple):
    """How a call ends for its events: committed, or given back; with a reason they are dead letters."""

    handled: bool
    reason: str = ""


HANDLED, RETURNED = Outcome(True), Outcome(False)


class EventHandler:
    """One handler of a bus: its function, its subscription and its workers."""

    def __init__(
        self,
        bus: Bus,
        function: Callable[[Any], Any],
        make: Callable[[], Listener[Any]],
        settings: HandlerSettings,
    ) -> None:
        self.function = function
        self.name: str = getattr(function, "__qualname__", type(function).__name__)
        self.settings = settings
        self.handled = 0  # events that were committed
        self.failed = 0  # events whose last attempt failed
        self.error: BaseException | None = None  # the last failure
        self.listener: Listener[Any] | None = None
        self._bus = bus
        self._make = make
        self._rng = Random()  # noqa: S311 - pauses
        self._workers: list[asyncio.Task[None]] = []
        self._busy: set[asyncio.Task[Any]] = set()  # workers that call the function
        self._stopping = asyncio.Event()
        self._is_async = _is_async(function)
        self._call: CallNext = self._invoke

    async def start(self) -> None:
        """Open the subscription and let the workers begin."""
        layers = (*self._bus.middleware, *self.settings.middleware)
        self._call = self._invoke
        for layer in reversed(layers):
            self._call = partial(_through, layer, self._call)
        self._stopping = asyncio.Event()
        self.listener = await self._make().open()
        self._workers = [
            asyncio.create_task(self._work(self.listener), name=f"tidings handler {self.name}")
            for _ in range(self.settings.concurrency)
        ]
        self._bus._family.has_woken = True

    async def stop(self, *, timeout: float | None = STOP_SECONDS) -> None:
        """Let the calls that run finish; after `timeout` seconds cancel them. Then leave the subscription."""
        self._stopping.set()
        own = asyncio.current_task()
        for worker in self._workers:
            if worker not in self._busy and worker is not own:
                worker.cancel()
        waiting = [worker for worker in self._workers if worker is not own]
        if waiting:
            try:
                _, late = await asyncio.wait(waiting, timeout=timeout)
            except asyncio.CancelledError:
                for worker in waiting:
                    worker.cancel()
                raise
            for worker in late:
                worker.cancel()
            if late:
                await asyncio.wait(late, timeout=CANCEL_SECONDS)
        if self.listener is not None:
            await self.listener.close(commit=False)  # each call committed its own events
            self.listener = None

    @property
    def reader(self) -> asyncio.Task[None] | None:
        """The one task that reads the subscription; None when there are several, or none."""
        return self._workers[0] if len(self._workers) == 1 else None

    async def failure(self) -> TidingsError:
        """Wait until the broker ends the subscription, and say why."""
        for worker in self._workers:
            await asyncio.wait([worker])
            if not worker.cancelled() and isinstance(error := worker.exception(), TidingsError):
                return error
        await asyncio.Event().wait()
        raise AssertionError

    async def _work(self, listener: Listener[Any]) -> None:
        calling_thread.set(None)
        task = asyncio.current_task()
        assert task is not None
        most = self.settings.batch or 1
        while not self._stopping.is_set():
            try:
                notifications = await listener._take(most, None, commits=False)
            except ClosedError:
                return  # the subscription was left
            events = [each.event.placed_at(each.position) for each in notifications]
            taken = dict(zip(listener._numbers, events, strict=True))
            self._busy.add(task)
            try:
                values = await self._read_all(listener, taken)
                outcome = await self._handle(list(taken.values()), values)
            finally:
                self._busy.discard(task)
            if outcome is not None:
                if outcome == RETURNED:
                    listener._hold(notifications)
                for number in taken:
                    listener.settle(number, **outcome._asdict())
            elif not self._stopping.is_set():
                return

    async def _read_all(self, listener: Listener[Any], taken: dict[int, Event]) -> list[Any]:
        """The values that the function gets. An event that cannot be read is taken out and rejected; an own
        dead letter is taken out and committed."""
        read, values = listener._read, []
        for number, event in list(taken.items()):
            outcome = HANDLED
            if not self._is_own_letter(event):
                try:
                    values.append(event if read is None else read(event))
                    continue
                except EventError as error:
                    outcome = await self._fail([event], error, is_final=True)
            del taken[number]
            listener.settle(number, **outcome._asdict())
        return values

    async def _handle(self, events: list[Event], values: list[Any]) -> Outcome | None:
        """Call the function. None: the bus stops, and the events are neither committed nor given back."""
        settings = self.settings
        if not events:
            return HANDLED
        try:
            result = await self._attempts(events, values[0] if settings.batch is None else values)
        except _Stopped:
            return None
        except Exception as error:
            return await self._fail(events, error, is_final=isinstance(error, Reject))
        if settings.replies and is_request(events[0]):
            try:
                await self._bus._publish_event(reply_event(events[0], result, self._bus.name), True)
            except TidingsError as error:  # what was returned is no event, or the broker refuses it
                self._tell(error)
                await self._reply_failure(events[0], error)
        self.handled += len(events)
        return HANDLED

    async def _fail(self, events: list[Event], error: Exception, *, is_final: bool) -> Outcome:
        """The last attempt failed: count and report it, and say what becomes of the events."""
        self.failed += len(events)
        if is_final:
            self.error = error
            ids = ", ".join(event.id for event in events)
            log.warning("handler %s of %r rejected %s: %s", self.name, self.listener, ids, error)
        else:
            self._tell(error)
        try:
            if await self._give_up(events, error):
                return HANDLED
        except Exception as again:  # the dead letter was refused: the broker keeps the event
            self._tell(again, f"could not hand its dead letter to {self.settings.dead_letter!r}")
        return Outcome(False, reason_of(error)) if is_final else RETURNED

    async def _attempts(self, events: list[Event], value: Any) -> Any:
        retry = self.settings.retry
        is_in_order = self.settings.concurrency == 1 and self.listener is not None
        positions = self.listener.positions if is_in_order and self.listener is not None else None
        for attempt in range(1, retry.attempts + 1):
            try:
                return await self._call_once(HandlerCall(self.name, events, value, attempt, positions))
            except Exception as error:
                if attempt == retry.attempts or isinstance(error, Reject):
                    raise
                await self._pause(retry.pause(attempt, self._rng))
        raise AssertionError

    async def _call_once(self, call: HandlerCall) -> Any:
        """Call the function. The cancellation of another task, which the handler awaits, is a failure of the
        call."""
        try:
            return await self._call(call)
        except asyncio.CancelledError as error:
            if is_being_cancelled():
                raise
            raise RuntimeError(
                f"handler {self.name} raised CancelledError but was not cancelled: a task that it awaits was"
            ) from error

    async def _pause(self, seconds: float) -> None:
        if seconds > 0:
            try:
                async with asyncio.timeout(seconds):
                    await self._stopping.wait()
            except TimeoutError:
                return
        if self._stopping.is_set():
            raise _Stopped

    async def _invoke(self, call: HandlerCall) -> Any:
        token = running_call.set(call)
        try:
            if not self._is_async:
                result = await asyncio.to_thread(_in_thread, self.function, call.value)
            else:
                result = self.function(call.value)
            return await result if inspect.isawaitable(result) else result
        finally:
            running_call.reset(token)

    async def _reply_failure(self, request: Event, error: Exception) -> None:
        """Tell the requester. Its address may be one that no event can go to: that concerns it alone."""
        try:
            await self._bus._publish_event(failed_reply(request, error, self._bus.name), True)
        except TidingsError as refusal:
            self._tell(refusal)

    async def _give_up(self, events: list[Event], error: Exception) -> bool:
        """Events whose last attempt failed: answer the requester, or hand them to the dead letters of the
        handler. False: it has none."""
        dead_letter = self.settings.dead_letter
        if self.settings.replies and is_request(events[0]):
            await self._reply_failure(events[0], error)
            return True
        if dead_letter is None:
            return False
        for event in events:
            if isinstance(dead_letter, str):
                await self._bus._publish_event(self._dead(event, error, dead_letter), False)
            else:
                result = dead_letter(event, error)
                if inspect.isawaitable(result):
                    await result
        return True

    def _is_own_letter(self, event: Event) -> bool:
        """Whether the filter of this handler accepts a dead letter of its own: that must not fail again. A
        handler without a dead-letter topic has none: it may repair those of another one of its name."""
        letter = event.attributes.get("dead_letter")
        is_named = isinstance(letter, dict) and letter.get("handler") == self.name
        return is_named and isinstance(self.settings.dead_letter, str)

    def _dead(self, event: Event, error: Exception, topic: str) -> Event:
        """The dead letter of an event in a topic. Its id follows from both, so that a repetition is the same
        letter."""
        why = {
            "reason": f"{type(error).__name__}: {error}", "handler": self.name, "source": event.source,
            "id": event.id, "topic": event.topic,
        }  # fmt: skip
        return make_event(
            {**event.attributes, "dead_letter": {name: why[name] for name in why if why[name] is not None}},
            source=self._bus.name, id=f"dead {topic} {self.name} {event.source} {event.id}", topic=topic,
            type=event.type, time=event.time, payload=event.payload, content_type=event.content_type,
            lifetime=DEAD_LETTER_SECONDS,
        )  # fmt: skip

    def _tell(self, error: Exception, what: str = "failed") -> None:
        self.error = error
        context = {"message": f"handler {self.name} of {self.listener!r} {what}", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)

    def __repr__(self) -> str:
        return f"<handler {self.name}: {self.handled} handled, {self.failed} failed>"


class _Stopped(Exception):
    """The bus stops while a call waits for its next attempt."""


def _is_async(function: Callable[..., Any]) -> bool:
    while isinstance(function, partial):
        function = function.func
    call = type(function).__call__ if not inspect.isroutine(function) else function
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def _in_thread(function: Callable[[Any], Any], value: Any) -> Any:
    """Call a plain handler. No future carries `StopIteration`, and `SystemExit` would end the event loop."""
    try:
        return function(value)
    except (StopIteration, SystemExit, KeyboardInterrupt) as error:
        raise RuntimeError(f"the handler raised {error!r}; raise an Exception instead") from error


async def _through(layer: Middleware, call_next: CallNext, call: HandlerCall) -> Any:
    return await layer(call, call_next)
