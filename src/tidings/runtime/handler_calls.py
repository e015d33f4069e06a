"""Calls of a bus about handlers and requests: `on`, `reply`, `use`, `serving`, `run`, `stop` and
`request`."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, Unpack, cast, overload

from tidings.errors import ClosedError, SettingsError
from tidings.model.event import Event
from tidings.runtime.broker import Timeout
from tidings.runtime.callbacks import STOP_SECONDS, Callback, Calling, is_cut_off
from tidings.runtime.failures import refuse_unknown
from tidings.runtime.handlers import Backoff, DeadLetter, EventHandler, HandlerSettings
from tidings.runtime.listener import Listener
from tidings.runtime.middleware import Middleware
from tidings.runtime.options import PUBLISH, SUBSCRIBE, PublishOptions, SubscribeOptions, Wanted
from tidings.runtime.requests import PendingRequests

if TYPE_CHECKING:
    from tidings.runtime.bus import Bus

T = TypeVar("T")
R = TypeVar("R")
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class HandlerOptions(SubscribeOptions, total=False):
    """Options of a handler: those of its subscription, and how it is called."""

    concurrency: int  # calls at one time; more than 1 gives up the order of events
    retry: Backoff
    dead_letter: str | DeadLetter | None  # a topic, or a function of the event and the error
    middleware: Sequence[Middleware]  # of this handler, inside those of the bus


class HandlerDecorator(Protocol[T]):
    """Decorator that registers a handler and returns it as it is."""

    def __call__(self, handler: Callable[[T], R], /) -> Callable[[T], R]:
        """Register the handler."""


_HANDLER = ("concurrency", "retry", "dead_letter", "middleware", "batch")


def split_options(options: Mapping[str, Any], what: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of the subscription, and those of the handler."""
    known = (*SUBSCRIBE, *_HANDLER)
    refuse_unknown({name: 1 for name in options if name not in known}, known, what)
    own = {name: value for name, value in options.items() if name in _HANDLER}
    subscribing = {name: value for name, value in options.items() if name not in _HANDLER}
    if "retry" in own:
        subscribing.setdefault("max_deliveries", 1)  # its own attempts are enough
    return subscribing, own


class HandlerCalls:
    """The calls of `Bus` that concern handlers."""

    def __init__(self) -> None:
        self.handlers: list[EventHandler] = []
        self.middleware: list[Middleware] = []
        self._callings: list[Calling[Any]] = []
        self._requests: PendingRequests | None = None
        self._serving: set[asyncio.Task[None]] | None = None  # starts of handlers that came later
        self._started = asyncio.Event()  # the handlers are being called, or could not be
        self._start_error: BaseException | None = None  # why they could not
        self._end = asyncio.Event()  # of `run`

    @overload
    def on(
        self, wanted: type[T], callback: Callback[T], /, **options: Unpack[SubscribeOptions]
    ) -> Calling[T]: ...
    @overload
    def on(
        self, wanted: Wanted | None, callback: Callback[Event], /, **options: Unpack[SubscribeOptions]
    ) -> Calling[Event]: ...
    @overload
    def on(
        self, wanted: type[T], /, *more: Wanted, batch: int, **options: Unpack[HandlerOptions]
    ) -> HandlerDecorator[list[T]]: ...
    @overload
    def on(
        self, wanted: type[T], /, *more: Wanted, **options: Unpack[HandlerOptions]
    ) -> HandlerDecorator[T]: ...
    @overload
    def on(
        self, *wanted: Wanted | None, batch: int, **options: Unpack[HandlerOptions]
    ) -> HandlerDecorator[list[Event]]: ...
    @overload
    def on(self, *wanted: Wanted | None, **options: Unpack[HandlerOptions]) -> HandlerDecorator[Event]: ...

    def on(self, *wanted: Any, **options: Any) -> Any:
        """Have a function (or a coroutine function) called with each event.

        As a decorator it registers a handler, which `run` or `serving` starts:

            @bus.on("change < -3", concurrency=8, retry=Backoff(attempts=3), dead_letter="falls/dead")
            async def fall(event: Event) -> None: ...

        Options are those of `subscribe`, and `concurrency`, `retry`, `dead_letter`, `middleware`, `batch`
        (the handler gets lists of at most so many events). With the function as second argument it returns a
        `Calling`, which calls it one event after another from when it is entered or awaited; options as for
        `subscribe`.
        """
        if wanted and callable(wanted[-1]) and not isinstance(wanted[-1], type):
            *first, callback = wanted
            calling = Calling(_bus(self).subscribe(*first, **options), callback)
            self._callings.append(calling)
            return calling
        return self._register(wanted, options, replies=False)

    @overload
    def reply(
        self, wanted: type[T], /, *more: Wanted, **options: Unpack[HandlerOptions]
    ) -> HandlerDecorator[T]: ...
    @overload
    def reply(self, *wanted: Wanted | None, **options: Unpack[HandlerOptions]) -> HandlerDecorator[Event]: ...

    def reply(self, *wanted: Any, **options: Any) -> Any:
        """Register a handler whose result is the reply to a request: a mapping, a typed instance, an Event
        or None.

        Options as for `on`, without `batch`. An error of the handler is raised at the requester as
        `ReplyError`, after its retries. With `group=` one of several repliers answers; else each does, and
        the first answer counts.
        """
        refuse_unknown({"batch": 1} if "batch" in options else {}, (*SUBSCRIBE, *_HANDLER[:-1]), "reply")
        return self._register(wanted, options, replies=True)

    def _register(self, wanted: tuple[Any, ...], options: dict[str, Any], *, replies: bool) -> Any:
        subscribing, own = split_options(options, "reply" if replies else "on")
        settings = HandlerSettings(**own, replies=replies)
        bus = _bus(self)
        bus.subscribe(*wanted, **subscribing)  # raises what is wrong with it here, not in `run`

        def make() -> Listener[Any]:
            return bus.subscribe(*wanted, **subscribing)

        def decorate(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
            if not callable(function):
                raise SettingsError(f"{function!r} is no function", hint="decorate a function: @bus.on(...)")
            handler = EventHandler(bus, function, make, settings)
            self.handlers.append(handler)
            if self._serving is not None:
                self._start_late(handler)
            return function

        return decorate

    def _start_late(self, handler: EventHandler) -> None:
        """Start a handler that is registered while the others are called. Another thread than the loop's
        waits until it has started."""
        loop = _bus(self)._loop
        assert loop is not None
        assert self._serving is not None
        if asyncio._get_running_loop() is loop:
            self._serving.add(loop.create_task(handler.start()))
        else:
            asyncio.run_coroutine_threadsafe(handler.start(), loop).result()

    def use(self, *middleware: Middleware) -> None:
        """Add middleware around the calls of all handlers that start from now on; the first is the
        outermost."""
        self.middleware.extend(middleware)

    @asynccontextmanager
    async def serving(self, *, timeout: float | None = STOP_SECONDS) -> AsyncIterator[None]:
        """Start all handlers, for as long as the block runs: for the lifespan of another framework.

        At the end calls that run have `timeout` seconds to finish; an exception that cancels the block
        cancels them."""
        if self._serving is not None:
            raise SettingsError("the handlers have started already", hint="run() or serving() once at a time")
        self._serving = set()
        error: BaseException | None = None
        try:
            with self._starting():
                for handler in list(self.handlers):
                    await handler.start()
            self._started.set()
            yield
        except BaseException as raised:
            error = raised
            raise
        finally:
            if self._start_error is None:
                self._started.clear()
            starting, self._serving = self._serving, None
            for task in starting:
                await asyncio.wait([task])
            seconds = 0 if is_cut_off(error) else timeout
            await asyncio.gather(*(handler.stop(timeout=seconds) for handler in self.handlers))

    @contextmanager
    def _starting(self) -> Iterator[None]:
        """A part of the start of the handlers: its error wakes those that wait for the whole."""
        self._start_error = None
        self._started.clear()
        try:
            yield
        except BaseException as error:
            self._start_error = error
            self._started.set()
            raise

    async def started(self) -> None:
        """Wait until `run` or `serving` has opened the subscriptions of all handlers. Raises the error with
        which they failed to begin."""
        await self._started.wait()
        if (error := self._start_error) is not None:
            if is_cut_off(error):
                raise ClosedError("the start of the handlers was cancelled")
            raise error
        if self._serving:
            await asyncio.gather(*map(asyncio.shield, self._serving))

    async def run(
        self, *, signals: Iterable[signal.Signals] = SIGNALS, timeout: float | None = STOP_SECONDS
    ) -> None:
        """Call the handlers until a signal comes, `stop` is called, or the broker ends a subscription; then
        end cleanly.

        It opens the bus if that is new, and closes it at the end. After the first signal calls that run have
        `timeout` seconds to finish, and no new one begins; a second signal cancels them.
        """
        bus = _bus(self)
        if bus._state == "new":
            with self._starting():
                await bus.open()
        loop = asyncio.get_running_loop()
        caught = list(signals) if threading.current_thread() is threading.main_thread() else []
        before = {number: signal.getsignal(number) for number in caught}
        for number in caught:
            loop.add_signal_handler(number, self._ask_to_end)
        try:
            async with self.serving(timeout=timeout):
                await self._until_end()
        finally:
            self._end.clear()
            for number in caught:
                loop.remove_signal_handler(number)
                signal.signal(number, before[number])
            await bus.close()

    def _ask_to_end(self) -> None:
        """End `run` after a signal; a second one cancels the calls that run."""
        if self._end.is_set():
            self._cancel_calls()
        self._end.set()

    def _cancel_calls(self) -> None:
        for handler in self.handlers:
            for worker in handler._workers:
                worker.cancel()

    async def _until_end(self) -> None:
        ending = asyncio.create_task(self._end.wait(), name="tidings end")
        failures = [asyncio.create_task(each.failure(), name="tidings watch") for each in self.handlers]
        try:
            done, _ = await asyncio.wait([ending, *failures], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (ending, *failures):
                task.cancel()
        for task in done:
            if task is not ending:
                raise cast("asyncio.Task[Exception]", task).result()

    def stop(self) -> None:
        """End `run` from a task or a handler, as a signal would; a `run` that has not begun yet ends as it
        begins."""
        self._end.set()

    @overload
    async def request(
        self,
        what: Mapping[str, Any] | Event | Any = None,
        /,
        *,
        wants: type[T],
        timeout: Timeout = ...,
        **options: Unpack[PublishOptions],
    ) -> T: ...
    @overload
    async def request(
        self,
        what: Mapping[str, Any] | Event | Any = None,
        /,
        *,
        timeout: Timeout = ...,
        **options: Unpack[PublishOptions],
    ) -> Event: ...

    async def request(
        self,
        what: Mapping[str, Any] | Event | Any = None,
        /,
        *,
        wants: type[Any] | None = None,
        timeout: Timeout = ...,
        **options: Any,
    ) -> Any:
        """Publish a request and wait for the first reply, at this broker or any other.

        `wants` is a class to read the reply as. Options as for `publish`. After `timeout` seconds (30 by
        default) it raises `TimedOutError`; the error of a replier is raised as `ReplyError`. A cancelled
        request drops its reply.
        """
        refuse_unknown(
            {name: 1 for name in options if name not in PUBLISH}, (*PUBLISH, "wants", "timeout"), "request"
        )
        if self._requests is None:
            self._requests = PendingRequests(_bus(self))
        return await self._requests.ask(what, wants, timeout, options)


def _bus(calls: HandlerCalls) -> Bus:
    return cast("Bus", calls)
