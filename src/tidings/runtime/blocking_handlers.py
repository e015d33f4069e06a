"""Calls of a blocking bus about handlers and requests, as those of `HandlerCalls`.

Plain functions are called in worker threads, so a handler may call the bus. Coroutine functions run on the
bus's own event loop.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from tidings.model.event import Event
from tidings.runtime.blocking_calling import BlockingCalling
from tidings.runtime.broker import Timeout
from tidings.runtime.callbacks import STOP_SECONDS, Callback, Calling, is_cut_off
from tidings.runtime.handler_calls import SIGNALS, HandlerDecorator, HandlerOptions
from tidings.runtime.handlers import EventHandler
from tidings.runtime.loop_thread import LoopThread
from tidings.runtime.middleware import Middleware
from tidings.runtime.options import PublishOptions, SubscribeOptions, Wanted

if TYPE_CHECKING:
    from tidings.runtime.bus import Bus

T = TypeVar("T")


class BlockingHandlerCalls(ABC):
    """The calls of `BlockingBus` that concern handlers."""

    _bus: Bus
    _loop: LoopThread
    _is_serving: bool

    @abstractmethod
    def close(self, *, commit: bool = True) -> None:
        """Leave every subscription, and end."""

    @abstractmethod
    def _stop(self) -> None:
        """End the thread of the loop."""

    @overload
    def on(
        self, wanted: type[T], callback: Callback[T], /, **options: Unpack[SubscribeOptions]
    ) -> BlockingCalling[T]: ...
    @overload
    def on(
        self, wanted: Wanted | None, callback: Callback[Event], /, **options: Unpack[SubscribeOptions]
    ) -> BlockingCalling[Event]: ...
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
        """As `Bus.on`: a decorator for handlers, which `run` or `serving` starts; or, with a function as
        second argument, a callback in the bus's own thread, from now on."""
        made = self._bus.on(*wanted, **options)
        if not isinstance(made, Calling):
            return made
        self._loop.call(made.start)
        return BlockingCalling(self._loop, made)

    @overload
    def reply(
        self, wanted: type[T], /, *more: Wanted, **options: Unpack[HandlerOptions]
    ) -> HandlerDecorator[T]: ...
    @overload
    def reply(self, *wanted: Wanted | None, **options: Unpack[HandlerOptions]) -> HandlerDecorator[Event]: ...

    def reply(self, *wanted: Any, **options: Any) -> Any:
        """As `Bus.reply`."""
        return self._bus.reply(*wanted, **options)

    @property
    def handlers(self) -> list[EventHandler]:
        """The handlers that were registered."""
        return self._bus.handlers

    def use(self, *middleware: Middleware) -> None:
        """As `Bus.use`."""
        self._bus.use(*middleware)

    @contextmanager
    def serving(self, *, timeout: float | None = STOP_SECONDS) -> Iterator[None]:
        """As `Bus.serving`: the handlers are called while the block runs."""
        was_serving = self._is_serving
        self._is_serving = True  # before the first call of a handler, which may close the bus
        try:
            with self._called_handlers(timeout):
                yield
        finally:
            self._is_serving = was_serving
            if self._bus.is_closed and not was_serving:
                self._stop()

    @contextmanager
    def _called_handlers(self, timeout: float | None) -> Iterator[None]:
        block = self._bus.serving(timeout=timeout)
        self._loop.call(block.__aenter__)
        error: asyncio.CancelledError | None = None
        try:
            yield
        except BaseException as raised:
            error = asyncio.CancelledError() if is_cut_off(raised) else None  # it cancels the calls that run
            raise
        finally:
            self._loop.call(lambda: block.__aexit__(type(error) if error else None, error, None))

    def run(
        self, *, signals: Iterable[signal.Signals] = SIGNALS, timeout: float | None = STOP_SECONDS
    ) -> None:
        """As `Bus.run`: call the handlers until a signal comes, `stop` or `close` is called, or the broker
        ends a subscription; then close the bus. Signals are caught in the main thread alone."""
        caught = list(signals) if threading.current_thread() is threading.main_thread() else []
        before = {number: signal.signal(number, self._ask_to_end) for number in caught}
        try:
            with self.serving(timeout=timeout):
                self._loop.call(self._bus._until_end)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            self.close()

    def _ask_to_end(self, *_: object) -> None:
        self._loop.call_soon(self._bus._ask_to_end)

    def stop(self) -> None:
        """End `run` from a thread or a handler, as a signal would; a `run` that has not begun yet ends as it
        begins."""
        self._loop.call_soon(self._bus.stop)

    @overload
    def request(
        self,
        what: Mapping[str, Any] | Event | Any = None,
        /,
        *,
        wants: type[T],
        timeout: Timeout = ...,
        **options: Unpack[PublishOptions],
    ) -> T: ...
    @overload
    def request(
        self,
        what: Mapping[str, Any] | Event | Any = None,
        /,
        *,
        timeout: Timeout = ...,
        **options: Unpack[PublishOptions],
    ) -> Event: ...

    def request(self, what: Any = None, /, **options: Any) -> Any:
        """As `Bus.request`."""
        return self._loop.call(lambda: self._bus.request(what, **options))
