"""The bus: an application publishes to it and subscribes at it.

A `Bus` turns calls into inputs of its client machine and effects into answers. The broker beside
it may be embedded here; a bus of a remote broker has the same methods.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, NoReturn, TypeVar, Unpack, overload
from weakref import WeakSet

from tidings.errors import ClosedError, SettingsError, TidingsError, TimedOutError
from tidings.model.event import Event
from tidings.model.filter import TIDINGS, Filter
from tidings.model.subscription import DeliveryOptions, Notification, Policy, Position, SubscriptionId
from tidings.protocol import effects as fx
from tidings.protocol.inputs import (
    ClientAdvertise,
    ClientCancel,
    ClientPublish,
    ClientPublishAll,
    ClientUnadvertise,
    Input,
)
from tidings.protocol.limits import DEFAULT_LIMITS
from tidings.protocol.messages import AckMode
from tidings.runtime.blocked_publishes import BlockedPublishes
from tidings.runtime.broker import BrokerInterface, ConnectionState, Timeout
from tidings.runtime.callbacks import is_cut_off
from tidings.runtime.coercion import EventFactory, filter_from
from tidings.runtime.deadlines import Deadlines
from tidings.runtime.failures import error_of, in_short, refuse_unknown
from tidings.runtime.forks import FORKED, ends_in_children
from tidings.runtime.handler_calls import HandlerCalls
from tidings.runtime.listener import LATER, Listener
from tidings.runtime.log_calls import LogCalls
from tidings.runtime.losses import warn_of_gap
from tidings.runtime.options import (
    PUBLISH,
    PUBLISH_MANY,
    SUBSCRIBE,
    EventOptions,
    Mode,
    OnState,
    PublishOptions,
    SubscribeOptions,
    Wanted,
    resume_token,
)
from tidings.runtime.pending_publishes import PendingPublishes

log = logging.getLogger("tidings.client")
LEAVING_SECONDS = 5.0  # that subscriptions which are left wait together for a broker, while none is connected

T = TypeVar("T")
Pushed = Callable[[Notification], None]

CLOSED = "the bus is closed"
TURN = 16  # publishes that are answered at once before other tasks run, when none of them was woken


class Family(WeakSet["Bus"]):
    """All buses of one broker in this process, and when a loop that publishes lets other tasks run."""

    def __init__(self) -> None:
        super().__init__()
        self.has_woken = True  # did a task begin, or was one answered that waits, since others could run?
        self.left = TURN  # publishes that are answered at once before others run, though none was woken


class Bus(LogCalls, HandlerCalls):
    """One application's connection. Enter it (or await it) to begin."""

    def __init__(self, broker: BrokerInterface, name: str, *, family: Family | None = None) -> None:
        super().__init__()
        self.name = name
        self._broker = broker
        self._family = Family() if family is None else family
        self._family.add(self)
        self._address, self._last_call = "", 0
        self._hand_in: Callable[[Input], None]  # to the client machine, once the bus is open
        self._asking = 0  # the call that is being handed over right now ...
        self._given: Any = LATER  # ... and its answer, when that is there at once
        self._deadlines = Deadlines(self._expire)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._listeners: dict[int, Listener[Any]] = {}
        self._early_losses: dict[int, Mapping[str, int]] = {}  # by ref: told and not counted
        self._opening: dict[int, Pushed] = {}  # by call of a subscribe: who is called with what comes
        self._pushed: dict[int, Pushed] = {}  # the same by ref, once it is open
        self._state, self._why_closed = "new", CLOSED
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connection = ConnectionState("new")
        self._leave_by: float | None = None  # of the loop's clock; None: a broker was connected since
        self._over: TidingsError | None = None  # the broker said no for good
        self._watchers: list[OnState] = []
        self._in_input: set[asyncio.Future[None]] = set()  # watchers that await
        self._factory = EventFactory(name, schemas=getattr(broker, "checks_schemas", True))
        self._blocked = BlockedPublishes(self)
        self._pending = PendingPublishes(self, DEFAULT_LIMITS.pending_publishes)

    # -- beginning and ending ----------------------------------------------------------------

    async def open(self) -> Bus:
        if self._state != "new":
            raise ClosedError("a bus is opened once", hint="call tidings.connect again")
        self._loop = asyncio.get_running_loop()
        self._address = await in_short(self._broker.join(self.name, self._receive, self._on_state))
        self._hand_in = self._broker.inlet(self._address)
        self._state = "open"
        ends_in_children(self)
        return self

    def __await__(self) -> Generator[Any, None, Bus]:
        return self.open().__await__()

    async def __aenter__(self) -> Bus:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for calling in self._callings if is_cut_off(error) else ():
            await calling.stop(timeout=0)
        try:
            if error is None:
                await self.flush()
        finally:
            await self.close(commit=error is None)

    def forked(self) -> None:
        self._state, self._why_closed = "closed", FORKED

    @property
    def is_closed(self) -> bool:
        return self._state == "closed"

    async def close(self, *, commit: bool = True) -> None:
        """Leave every subscription, let the disk finish, and end."""
        if self._state != "open":
            self._state = "closed"
            return
        self._pending.send()
        for calling in self._callings:
            await calling.stop()
        if self._over is None:  # else the application has gone
            for listener in list(self._listeners.values()):
                with suppress(TimedOutError):  # the end of the connection ends it at the broker too
                    await listener.close(commit=commit)
        self._state = "closed"
        self.stop()  # ends `run`
        self._pending.report()
        self._deadlines.close()
        await self._broker.part(self._address)
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ClosedError(CLOSED))

    @property
    def state(self) -> ConnectionState:
        """State of the connection: new, connecting, up, down, refused or closed. It is a text; its `reason`
        says why no broker is connected, its `broker` which one is. Calls wait while it is down."""
        return ConnectionState("closed") if self.is_closed else self._connection

    def watch(self, callback: OnState) -> None:
        """Have a function called with each new state of the connection."""
        self._watchers.append(callback)

    def on_connected(self, callback: OnState) -> None:
        """Have a function (or a coroutine function) called when a broker is connected, also again later.
        It is called with the state, whose `broker` names that broker."""
        self.watch(lambda state: callback(state) if state == "up" else None)

    def on_disconnected(self, callback: OnState) -> None:
        """Have a function called when the connection is lost or refused, with the state, whose `reason`
        says why. Closing the bus does not call it."""
        self.watch(lambda state: callback(state) if state in ("down", "refused") else None)

    def _on_state(self, state: ConnectionState, error: TidingsError | None) -> None:
        is_new = state != self._connection
        if state == "up" and self._connection == "down":
            warn_of_gap(self.name, self._listeners.values())
        self._connection = state
        if state == "up":
            self._leave_by = None
        if error is not None:
            self._over = error
            self._pending.fail(error)
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(error)
        for callback in self._watchers if is_new else ():
            self._report_state(callback, state)

    def _report_state(self, callback: OnState, state: ConnectionState) -> None:
        """Call a watcher. One that fails is reported to the event loop and hurts no connection."""
        loop = asyncio.get_running_loop()
        try:
            result = callback(state)
        except Exception as error:
            loop.call_exception_handler({"message": f"a watcher of {self.name} failed", "exception": error})
            return
        if inspect.isawaitable(result):
            task: asyncio.Future[None] = asyncio.ensure_future(result)
            self._in_input.add(task)
            task.add_done_callback(self._in_input.discard)

    def client(self, name: str) -> Bus:
        """Another client of the same broker, as another process would be."""
        return Bus(self._broker, name, family=self._family)

    # -- publishing --------------------------------------------------------------------------

    async def publish(
        self,
        what: Mapping[str, Any] | Event | Any = None,
        /,
        *,
        mode: Mode = AckMode.AUTO,
        timeout: Timeout = ...,
        **options: Unpack[PublishOptions],
    ) -> fx.Receipt:
        """Publish attributes (a mapping), a typed instance or an Event; returns when it is acknowledged.

        Options: topic, type, id, source, time, payload, content_type, lifetime (seconds, default 0, or
        FOREVER), key, expires. `mode` is 'auto', 'best effort' or 'kept'.

        After `timeout` seconds it raises `TimedOutError` (it was never sent and is not published) or
        `UnansweredError` (it was sent; it may be delivered or not). Both are `TimeoutError` too.
        """
        if options and not PUBLISH.issuperset(options):
            refuse_unknown(
                [name for name in options if name not in PUBLISH], (*PUBLISH, "mode", "timeout"), "publish"
            )
        event, is_numbered = self._factory.make(what, options)  # type: ignore[arg-type]
        if type(mode) is not AckMode:
            mode = _chosen(AckMode, mode, "mode")
        family, call = self._family, self._last_call + 1
        self._last_call = call
        receipt = self._submit(call, ClientPublish(call, event, is_numbered, mode))  # type: ignore[arg-type]
        if receipt is LATER:
            receipt = await self._answer_of(call, timeout=timeout, blocks=self._broker.policy is Policy.BLOCK)
        else:
            family.left -= 1
            if family.has_woken or family.left <= 0:
                family.has_woken, family.left = False, TURN
                await asyncio.sleep(0)
        if type(receipt) is not fx.Receipt:
            raise _error_of(receipt)
        return receipt

    async def publish_many(
        self,
        what: Iterable[Mapping[str, Any] | Event | Any],
        /,
        *,
        mode: Mode = AckMode.AUTO,
        timeout: Timeout = ...,
        **options: Unpack[EventOptions],
    ) -> list[fx.Receipt]:
        """Publish events in this order and wait for all acknowledgements together: cheaper than one by one.

        Options as for `publish`, without `id`; they hold for each event. When the broker refused some of
        them, the error of the first one is raised after all were answered; the others are published.
        """
        refuse_unknown([name for name in options if name not in PUBLISH_MANY], PUBLISH_MANY, "publish_many")
        events, numbered = self._factory.make_all(what, options)
        if not events:
            return []
        mode = _chosen(AckMode, mode, "mode")
        call = self._last_call + 1
        self._last_call += len(events)
        results = self._submit(call, ClientPublishAll(call, tuple(events), tuple(numbered), mode))  # type: ignore[arg-type]
        if results is LATER:
            blocks = self._broker.policy is Policy.BLOCK
            results = await self._answer_of(call, timeout=timeout, blocks=blocks, calls=len(events))
        else:
            self._family.has_woken = False
            await asyncio.sleep(0)
        for result in results if type(results) is list else (results,):
            if type(result) is fx.CallFailed:
                raise _error_of(result)
        return list(results)

    async def advertise(
        self, name: str, *wanted: Wanted | type[Any] | None, dialect: str = TIDINGS, timeout: Timeout = ...
    ) -> None:
        """Advertise what this client may publish, under a name; the same name again replaces it. Advertising
        is optional: it spares distant brokers the filters that no event here can meet. It ends with the
        connection."""
        filter, _ = filter_from(wanted, dialect=dialect)
        await self._request(lambda call: ClientAdvertise(call, name, filter), timeout=timeout)

    async def unadvertise(self, name: str, *, timeout: Timeout = ...) -> None:
        """Take it back."""
        await self._request(lambda call: ClientUnadvertise(call, name), timeout=timeout)

    def publish_nowait(
        self,
        what: Mapping[str, Any] | Event | Any = None,
        /,
        *,
        mode: Mode = AckMode.AUTO,
        **options: Unpack[PublishOptions],
    ) -> None:
        """Publish without waiting; `flush` waits for the acknowledgements and raises what was refused.
        Options as for `publish`. With too many unanswered ones (65,536) it raises `PublishBufferFullError`.
        Events leave in order."""
        if options and not PUBLISH.issuperset(options):
            refuse_unknown([name for name in options if name not in PUBLISH], PUBLISH, "publish_nowait")
        if self._state != "open" or self._over is not None or asyncio.get_running_loop() is not self._loop:
            self._refuse_call()
        event, is_numbered = self._factory.make(what, options)  # type: ignore[arg-type]
        if type(mode) is not AckMode:
            mode = _chosen(AckMode, mode, "mode")
        self._pending.add(event, is_numbered, mode)  # type: ignore[arg-type]

    async def flush(self, *, timeout: Timeout = ...) -> None:
        """Wait until every event of `publish_nowait` is acknowledged. When some were refused, the error of
        the first one is raised after all were answered. After `timeout` seconds it raises `TimedOutError`;
        the unanswered ones stay pending, and the next flush waits for them."""
        if self._state == "open":
            await asyncio.sleep(0)
        await self._pending.flush(timeout)

    async def _publish_event(self, event: Event, is_numbered: bool) -> None:
        """Publish a made event: a request, a reply or a dead letter."""
        await self._request(lambda call: ClientPublish(call, event, is_numbered, AckMode.AUTO), timeout=...)

    def publish_soon(
        self, what: Mapping[str, Any] | Event | Any = None, /, **options: Unpack[PublishOptions]
    ) -> None:
        """Publish as best effort without waiting: no answer tells whether the broker accepted it. Options as
        above."""
        refuse_unknown([name for name in options if name not in PUBLISH], PUBLISH, "publish_soon")
        event, is_numbered = self._factory.make(what, options)  # type: ignore[arg-type]
        self._last_call += 1
        self._hand(ClientPublish(self._last_call, event, is_numbered, AckMode.BEST_EFFORT))

    # -- subscribing -------------------------------------------------------------------------

    @overload
    def subscribe(
        self, wanted: type[T], /, *more: Wanted | None, **options: Unpack[SubscribeOptions]
    ) -> Listener[T]: ...
    @overload
    def subscribe(
        self, first: Wanted | None, wanted: type[T], /, *more: Wanted, **options: Unpack[SubscribeOptions]
    ) -> Listener[T]: ...
    @overload
    def subscribe(self, *wanted: Wanted | None, **options: Unpack[SubscribeOptions]) -> Listener[Event]: ...

    def subscribe(self, *wanted: Any, **given: Unpack[SubscribeOptions]) -> Listener[Any]:
        """Subscribe to all that is wanted at once: a filter text, a condition, a Filter, an EventBridge
        pattern (a mapping), a class whose instances are events.

        Options: name, topic (a pattern), type, durable, group, queue, policy, replay, since (a position, or
        "forever": begin with the broker's archive, if it has one),
        max_deliveries, keep_seconds, keep_events, dead_letters_of, dialect; timeout (seconds for the broker
        to answer); strict (refuse a filter that can never be true or was surely not meant so; without it, a
        warning is logged).
        """
        options: dict[str, Any] = {**given}
        refuse_unknown({name: 1 for name in options if name not in SUBSCRIBE}, SUBSCRIBE, "subscribe")
        filter, read = filter_from(
            wanted,
            topic_pattern=options.pop("topic", None),
            type_name=options.pop("type", None),
            dialect=options.pop("dialect", TIDINGS),
            strict=options.pop("strict", False),
        )
        name, since = options.pop("name", None), options.pop("since", None)
        timeout = options.pop("timeout", ...)
        kind: type[Listener[Any]] = Listener
        if since == "forever":
            from tidings.runtime.archive_subscription import ArchiveListener

            kind, since = ArchiveListener, None
        if options.get("policy") is not None:
            options["policy"] = _chosen(Policy, options["policy"], "policy")
        named = {field: value for field, value in options.items() if value is not None}
        if not named.get("durable"):
            named.setdefault("policy", self._broker.policy)
        delivery = DeliveryOptions(**named)
        fields = {"filter": filter, "name": name, "options": delivery, "after": resume_token(since)}
        if timeout is not ...:
            fields["timeout"] = timeout  # until it is open
        return kind(self, fields, read, delivery.durable)

    async def subscribe_callback(
        self, filter: Filter, push: Pushed, /, *, is_paused: bool = False, **options: Unpack[SubscribeOptions]
    ) -> Listener[Event]:
        """Open a subscription that calls `push` with each notification, at once and committed: `push` must
        not wait. `Listener.allow` says how many may come ahead; with `is_paused` none do before it is called.
        For gateways; applications use `on`."""
        listener: Listener[Event] = self.subscribe(filter, **options)
        assert listener._wanted is not None
        listener._wanted |= {"auto": True, "is_paused": is_paused}
        listener._push = push
        return await listener.open()

    async def hear(
        self, filter: Filter, push: Pushed, /, **options: Unpack[SubscribeOptions]
    ) -> Listener[Event]:
        """Deprecated name of `subscribe_callback`."""
        warnings.warn("Bus.hear is Bus.subscribe_callback now", DeprecationWarning, stacklevel=2)
        return await self.subscribe_callback(filter, push, **options)

    def figures(self) -> dict[str, Any]:
        """The broker's counters, for people; of a remote broker, what is known of it here."""
        return self._broker.figures()

    async def inquire(self, what: str = "figures", /, *, timeout: Timeout = ..., **about: Any) -> Any:
        """Ask the broker about itself: `figures`, and its other inquiries."""
        seconds = self._seconds(timeout)
        try:
            async with asyncio.timeout(seconds):
                return await self._broker.inquire(self._address, what, about)
        except TimeoutError as error:
            if isinstance(error, TidingsError):
                raise
            raise self._late(None, seconds) from None

    # -- between calls and the client machine ----------------------------------------------------

    async def _request(
        self,
        make: Callable[[int], Input],
        *,
        subscribing: bool = False,
        push: Pushed | None = None,
        timeout: Timeout = None,
    ) -> Any:
        """Hand an input to the client and wait for its answer."""
        call = self._last_call = self._last_call + 1
        if push is not None:
            self._opening[call] = push
        answer = self._submit(call, make(call))
        if answer is LATER:
            answer = await self._answer_of(call, subscribing=subscribing, timeout=timeout)
        if type(answer) is fx.CallFailed:
            raise _error_of(answer)
        return answer

    def _leaving_seconds(self) -> Timeout:
        """Time for the broker to answer that a durable subscription is left: little while none is
        connected."""
        if self._connection in ("up", "new"):
            return ...
        now = asyncio.get_running_loop().time()
        self._leave_by = now + LEAVING_SECONDS if self._leave_by is None else self._leave_by
        return max(self._leave_by - now, 0.0)

    def _submit(self, call: int, input: Input) -> Any:
        """Hand over the input of a call; its answer, or `LATER` when the answer is not there yet."""
        if self._state != "open" or self._over is not None or asyncio.get_running_loop() is not self._loop:
            self._refuse_call()
        if self._pending.events:  # they were published before
            self._pending.send()
        self._asking, self._given = call, LATER
        self._hand_in(input)
        self._asking = 0
        return self._given

    async def _answer_of(
        self,
        call: int,
        *,
        taking: int | None = None,
        subscribing: bool = False,
        timeout: Timeout = None,
        blocks: bool = False,
        calls: int = 1,
    ) -> Any:
        """Wait for the answer of a call that was handed over. `blocks`: full queues may delay it, or one of
        so many `calls` that it stands for."""
        assert self._loop is not None
        future = self._waiting[call] = self._loop.create_future()
        seconds = self._broker.call_timeout if timeout is ... else timeout
        if seconds is not None:
            self._deadlines.add(call, seconds, self._loop)
        if blocks:
            self._blocked.add(call, calls)
        try:
            return await future
        except asyncio.CancelledError:
            if (taking is not None or subscribing) and not self.is_closed:
                self._hand(ClientCancel(call, taking))
            raise
        finally:
            self._waiting.pop(call, None)
            if blocks:
                self._blocked.remove(call)
            if seconds is not None:
                self._deadlines.remove(call)

    def _seconds(self, timeout: Timeout) -> float | None:
        return self._broker.call_timeout if timeout is ... else timeout

    def _expire(self, call: int, seconds: float) -> None:
        """A call timed out: have the client machine forget it, and say how it ends."""
        future = self._waiting.pop(call, None)
        if future is not None and not future.done():
            answer = self._submit(call, ClientCancel(call))
            future.set_exception(self._late(answer, seconds))

    def _late(self, answer: Any, seconds: float | None) -> TidingsError:
        """The error of a call without an answer; `answer` is what the client machine says of a publish."""
        state = self.state
        why = f": {state.reason}" if state.reason else f" from broker {state.broker}" if state.broker else ""
        message = f"no answer within {seconds:g} s; the connection is {state}{why}"
        if isinstance(answer, fx.CallFailed):
            late = error_of(answer.code, f"{answer.reason}: {message}", answer.id)
            late.hint = "timeout= gives it more time, None any time"
            return late
        return TimedOutError(message, hint="timeout= gives it more time, None any time")

    def _note(self, subscription: SubscriptionId, event: Event, position: Position) -> None:
        """Record what came from an archive, as the client machine records what came from the broker."""
        self._broker.note(self._address, subscription, event, position)

    def _input(self, input: Input) -> None:
        """Hand over an input that has no answer."""
        if not self.is_closed:
            self._hand(input)

    def _hand(self, input: Input) -> None:
        """Hand over an input whose answer is not waited for."""
        if self._state != "open" or self._over is not None or asyncio.get_running_loop() is not self._loop:
            self._refuse_call()
        if self._pending.events:
            self._pending.send()
        self._hand_in(input)

    def _refuse_call(self) -> NoReturn:
        """Say why the client machine takes no input."""
        if self._state == "new":
            raise ClosedError("the bus has not begun", hint="use `async with` or `await` it first")
        if self._state != "open":
            raise ClosedError(self._why_closed)
        if self._over is not None:
            raise self._over
        raise SettingsError(
            "this bus belongs to another event loop", hint="tidings.open() gives one for any thread"
        )

    def _receive(self, effect: fx.Effect) -> None:
        """Perform an effect of the client machine for the application."""
        kind = type(effect)
        value: Any = effect
        if kind is fx.CallResult:
            call, value = effect.call, effect.value  # type: ignore[union-attr]
            if call in self._opening:  # what came early is handed over at once behind this
                self._pushed[value.ref] = self._opening.pop(call)
        elif kind is fx.Notify:
            call, ref = effect.call, effect.ref  # type: ignore[union-attr]
            if call is None:
                for notification in effect.notifications:  # type: ignore[union-attr]
                    if ref in self._pushed:  # until it is left
                        self._pushed[ref](notification)
                return
        elif kind is fx.CallFailed:
            call = effect.call  # type: ignore[union-attr]
        else:
            if kind is fx.Counted:
                self._count_lost(effect.ref, effect.lost)  # type: ignore[union-attr]
            return
        if call == self._asking:
            self._given = value
            return
        if call in self._waiting:
            future = self._waiting[call]
            if not future.done():
                future.set_result(value)
                self._family.has_woken = True
        if call in self._pending.calls:  # a flush that waits for it too may be cancelled
            self._pending.answer(call, value)

    def _count_lost(self, ref: int, lost: Mapping[str, int]) -> None:
        self._early_losses[ref] = lost  # its `subscribe` may not have returned yet
        if ref in self._listeners:
            self._listeners[ref]._count_losses()


def _error_of(answer: fx.CallFailed) -> TidingsError:
    return error_of(answer.code, answer.reason, answer.id)


def _chosen(kind: Any, value: Any, what: str) -> Any:
    try:
        return kind(value)
    except ValueError:
        choices = ", ".join(repr(str(each)) for each in kind)
        raise SettingsError(f"{what} {value!r} is unknown", hint=f"one of {choices}") from None
