"""A bus without `await`, for scripts and notebooks.

    with tidings.open() as bus:
        with bus.subscribe("change < -3") as news:
            bus.publish({"change": -4.5})
            print(news.get(timeout=1))

The bus runs on an event loop in a thread of its own, so it also works where a loop is running
already. Callbacks are called in that thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Generic, TypeVar, Unpack, overload

from tidings.errors import ClosedError
from tidings.model.event import Event
from tidings.model.filter import TIDINGS
from tidings.model.subscription import Notification, Position, SubscriptionId
from tidings.protocol.effects import Receipt
from tidings.protocol.messages import AckMode
from tidings.runtime import connect as way_in
from tidings.runtime.blocking_handlers import BlockingHandlerCalls
from tidings.runtime.blocking_log import BlockingLogCalls
from tidings.runtime.broker import ConnectionState, Timeout
from tidings.runtime.bus import Bus
from tidings.runtime.listener import Listener
from tidings.runtime.loop_thread import LoopThread
from tidings.runtime.options import (
    EmbeddedOptions,
    EventOptions,
    Mode,
    OnState,
    PublishOptions,
    RemoteOptions,
    SubscribeOptions,
    Wanted,
)

T = TypeVar("T")


class BlockingListener(Generic[T]):
    """A subscription; iterate, or `get`. Leaving the `with` block ends or detaches it."""

    def __init__(self, loop: LoopThread, listener: Listener[T]) -> None:
        self._loop = loop
        self._listener = listener
        self._is_plain = type(listener) is Listener  # one that begins with an archive needs a task

    def __enter__(self) -> BlockingListener[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close(commit=error is None)

    def close(self, *, commit: bool = True, timeout: Timeout = ...) -> None:
        """Stop listening: ends a transient subscription, detaches a durable one."""
        self._loop.call(lambda: self._listener.close(commit=commit, timeout=timeout))

    def unsubscribe(self, *, timeout: Timeout = ...) -> None:
        """End the subscription, a durable one too."""
        self._loop.call(lambda: self._listener.unsubscribe(timeout=timeout))

    def get(self, timeout: float | None = None) -> T:
        """The next event; commits the one before. Raises `TimeoutError` after `timeout` seconds."""
        if self._is_plain:
            return self._loop.run(self._listener.get, timeout)
        return self._loop.call(lambda: self._listener.get(timeout))

    def get_many(self, most: int, timeout: float | None = None) -> list[T]:
        """The next events, at most so many and at least one; commits those before."""
        if self._is_plain:
            return self._loop.run(lambda: self._listener.get_many(most), timeout)
        return self._loop.call(lambda: self._listener.get_many(most, timeout))

    def batches(self, most: int = 100, *, linger: float = 0.0) -> Iterator[list[T]]:
        """As `Listener.batches`."""
        while True:
            try:
                yield self._loop.call(lambda: self._listener._batched(most, linger))
            except ClosedError:
                return

    def __iter__(self) -> Iterator[T]:
        while True:
            try:
                yield self.get()
            except ClosedError:
                return

    def ack(self) -> None:
        """Commit what was taken, without taking the next."""
        self._loop.run(self._listener.ack)

    def nack(self) -> None:
        """Give back what was taken last."""
        self._loop.run(self._listener.nack)

    def reject(self, reason: str) -> None:
        """As `Listener.reject`."""
        self._loop.run(lambda: self._listener.reject(reason))

    @property
    def id(self) -> SubscriptionId:
        return self._listener.id

    @property
    def resumed(self) -> bool:
        return self._listener.resumed

    @property
    def last(self) -> Notification | None:
        return self._listener.last

    @property
    def position(self) -> Position | None:
        return self._listener.position

    @property
    def positions(self) -> dict[str, int]:
        """As `Listener.positions`."""
        return self._listener.positions

    @property
    def counters(self) -> dict[str, int]:
        return self._listener.counters

    def __repr__(self) -> str:
        return repr(self._listener)


class BlockingBus(BlockingLogCalls, BlockingHandlerCalls):
    """The bus, with methods that wait."""

    def __init__(self, bus: Bus, loop: LoopThread | None = None) -> None:
        self._bus = bus
        self._owns_loop = loop is None
        self._is_serving = False
        self._loop = loop or LoopThread()
        try:
            self._loop.call(bus.open)
        except BaseException:
            self._stop()
            raise

    def __enter__(self) -> BlockingBus:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if error is None and not self.is_closed:
                self.flush()
        finally:
            self.close(commit=error is None)

    def close(self, *, commit: bool = True) -> None:
        """Leave every subscription, let the disk finish, and end. Closing again has no effect."""
        if not self._bus.is_closed:
            try:
                self._loop.call(lambda: self._bus.close(commit=commit))
            finally:
                if not self._is_serving:  # else `serving` stops the loop when the handlers have ended
                    self._stop()

    def _stop(self) -> None:
        if self._owns_loop:
            self._loop.stop()

    @property
    def name(self) -> str:
        return self._bus.name

    @property
    def is_closed(self) -> bool:
        return self._bus.is_closed

    def publish(
        self,
        what: Mapping[str, Any] | Event | Any = None,
        /,
        *,
        mode: Mode = AckMode.AUTO,
        timeout: Timeout = ...,
        **options: Unpack[PublishOptions],
    ) -> Receipt:
        """As `Bus.publish`; returns when it is acknowledged."""
        return self._loop.run(lambda: self._bus.publish(what, mode=mode, timeout=timeout, **options))

    def publish_many(
        self,
        what: Iterable[Mapping[str, Any] | Event | Any],
        /,
        *,
        mode: Mode = AckMode.AUTO,
        timeout: Timeout = ...,
        **options: Unpack[EventOptions],
    ) -> list[Receipt]:
        """As `Bus.publish_many`; returns when all are acknowledged."""
        events = list(what)  # here: a generator may be slow, or call the bus
        return self._loop.run(lambda: self._bus.publish_many(events, mode=mode, timeout=timeout, **options))

    def publish_nowait(
        self,
        what: Mapping[str, Any] | Event | Any = None,
        /,
        *,
        mode: Mode = AckMode.AUTO,
        **options: Unpack[PublishOptions],
    ) -> None:
        """As `Bus.publish_nowait`: it returns when the bus has accepted the event."""

        async def publish() -> None:
            self._bus.publish_nowait(what, mode=mode, **options)

        self._loop.run(publish)

    def flush(self, *, timeout: Timeout = ...) -> None:
        """As `Bus.flush`."""
        self._loop.call(lambda: self._bus.flush(timeout=timeout))

    @overload
    def subscribe(
        self, wanted: type[T], /, *more: Wanted | None, **options: Unpack[SubscribeOptions]
    ) -> BlockingListener[T]: ...
    @overload
    def subscribe(
        self, first: Wanted | None, wanted: type[T], /, *more: Wanted, **options: Unpack[SubscribeOptions]
    ) -> BlockingListener[T]: ...
    @overload
    def subscribe(
        self, *wanted: Wanted | None, **options: Unpack[SubscribeOptions]
    ) -> BlockingListener[Event]: ...

    def subscribe(self, *wanted: Any, **options: Unpack[SubscribeOptions]) -> BlockingListener[Any]:
        """As `Bus.subscribe`; the subscription has begun when this returns."""
        listener = self._bus.subscribe(*wanted, **options)
        self._loop.call(listener.open)
        return BlockingListener(self._loop, listener)

    def advertise(
        self, name: str, *wanted: Wanted | type[Any] | None, dialect: str = TIDINGS, timeout: Timeout = ...
    ) -> None:
        """As `Bus.advertise`."""
        self._loop.call(lambda: self._bus.advertise(name, *wanted, dialect=dialect, timeout=timeout))

    def unadvertise(self, name: str, *, timeout: Timeout = ...) -> None:
        """As `Bus.unadvertise`."""
        self._loop.call(lambda: self._bus.unadvertise(name, timeout=timeout))

    def inquire(self, what: str = "figures", /, *, timeout: Timeout = ..., **about: Any) -> Any:
        """As `Bus.inquire`."""
        return self._loop.call(lambda: self._bus.inquire(what, timeout=timeout, **about))

    @property
    def state(self) -> ConnectionState:
        """As `Bus.state`."""
        return self._bus.state

    def watch(self, callback: OnState) -> None:
        """As `Bus.watch`; the function is called in the bus's own thread."""
        self._bus.watch(callback)

    def on_connected(self, callback: OnState) -> None:
        """As `Bus.on_connected`. `tidings.open(on_connected=…)` hears of the first connection too."""
        self._bus.on_connected(callback)

    def on_disconnected(self, callback: OnState) -> None:
        """As `Bus.on_disconnected`; the function is called in the bus's own thread."""
        self._bus.on_disconnected(callback)

    def client(self, name: str) -> BlockingBus:
        """Another client of the same broker."""
        return BlockingBus(self._bus.client(name), self._loop)

    def figures(self) -> dict[str, Any]:
        """The broker's counters, for people."""

        async def figures() -> dict[str, Any]:
            return self._bus.figures()

        return self._loop.call(figures)


@overload
def connect(address: None = None, /, **settings: Unpack[EmbeddedOptions]) -> BlockingBus: ...
@overload
def connect(address: str, /, **settings: Unpack[RemoteOptions]) -> BlockingBus: ...


def connect(address: str | None = None, /, **settings: Any) -> BlockingBus:
    """A bus for code that does not await: `tidings.connect` without `await`. Also called `tidings.open`.

    Without an address the broker is in this process; `tidings.open("tidings://host:port")` connects to one.
    The options are keywords of both:

    - `path`: a directory for what is to survive the process (needs the extra `store`);
    - `name`: who this client is; with the name of a subscription, the subscription's identity;
    - `record`: a file or recorder for the history; `seed` and `clock`: a run that can be repeated;
    - `on_connected`, `on_disconnected`: called with the new state of the connection;
    - `call_timeout`: seconds that a call waits for its answer when it names no `timeout=` itself.

    With an address also `timeout`, `patience`, `tenant`, `credentials`, `tls` and `network`; without one
    those of `DeliverySettings`. `help(tidings.connect)` explains all of them.
    """
    return BlockingBus(way_in.connect(address, **settings))
