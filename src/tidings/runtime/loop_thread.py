"""Event loop in a thread of its own, and calls into it from other threads.

Rules
- One thread at a time runs code of the loop. The loop's own thread gives its turn up while it waits for
  input; then a thread that calls may take it, and runs the steps of its call itself (`run`). A publish that
  is answered at once costs no change of threads, and one that waits for a broker costs one.
- Threads take turns in the order in which they ask: a busy loop starves no caller.
- A step that scheduled a callback or a timer wakes the loop.
- A call that needs a task (it uses `asyncio.timeout`) runs in the loop's thread (`call`).
- A forked child has no such thread: every call is refused there, and nothing is waited for.
"""

from __future__ import annotations

import asyncio
import inspect
import selectors
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from tidings.errors import ClosedError, DeadlockError
from tidings.runtime.forks import FORKED, ends_in_children
from tidings.runtime.readers import calling_thread

T = TypeVar("T")
CLOSED = "the bus is closed"


class _SharedSelector(selectors.DefaultSelector):
    """Selector that gives up the turn while it waits."""

    turn: threading.Lock
    line: threading.Lock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.turn.release()
        try:
            return super().select(timeout)
        finally:
            with self.line:
                self.turn.acquire()


class _SharedLoop(asyncio.SelectorEventLoop):
    """Event loop that other threads may run steps of, one thread at a time."""

    def __init__(self) -> None:
        selector = _SharedSelector()
        self.turn = selector.turn = threading.Lock()  # held by the thread that runs
        self.line = selector.line = threading.Lock()  # held by the thread that is next
        self.is_touched = False  # has a step scheduled something?
        super().__init__(selector)

    def call_soon(self, *given: Any, **options: Any) -> asyncio.Handle:  # type: ignore[override]
        self.is_touched = True
        return super().call_soon(*given, **options)

    def call_at(self, *given: Any, **options: Any) -> asyncio.TimerHandle:  # type: ignore[override]
        self.is_touched = True
        return super().call_at(*given, **options)

    def run_forever(self) -> None:
        with self.turn:
            super().run_forever()


class _Waiter:
    """A thread that waits for a future of the loop."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def wake(self, _: asyncio.Future[Any]) -> None:
        self._lock.release()

    def wait(self, timeout: float | None) -> bool:
        """Wait; False: the time is over."""
        return self._lock.acquire(timeout=-1 if timeout is None else max(timeout, 0))


class LoopThread:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = _SharedLoop()
        self._may_stop = threading.Lock()
        self._is_forked = False
        ends_in_children(self)
        self._thread = threading.Thread(target=self._run, name="tidings-bus", daemon=True)
        self._thread.start()

    def forked(self) -> None:
        self._is_forked = True

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        with self._loop.turn:
            self._loop.close()

    def run(self, make: Callable[[], Coroutine[Any, Any, T]], timeout: float | None = None) -> T:
        """Run a call in this thread, step by step, and wait between the steps. It must not use the running
        task. After `timeout` seconds it is cancelled, and `TimeoutError` is raised."""
        if self._loop.get_debug():  # asyncio refuses calls from other threads then
            return self.call(lambda: asyncio.wait_for(make(), timeout))
        self._refuse_caller()
        coroutine = make()
        error: BaseException | None = None
        while True:
            try:
                waiter = self._enter(coroutine, error)
            except StopIteration as end:
                result: T = end.value
                return result
            except asyncio.CancelledError:
                if error is None:
                    raise
                raise TimeoutError(f"no answer within {timeout:g} s") from None
            except BaseException:
                if inspect.getcoroutinestate(coroutine) == inspect.CORO_SUSPENDED:
                    self._give_up(coroutine)  # an interrupt between its steps; it did not fail by itself
                raise
            try:
                error = None if waiter.wait(timeout) else asyncio.CancelledError()
            except BaseException:  # an interrupt: the caller waits no longer
                self._give_up(coroutine)
                raise

    def _enter(self, coroutine: Coroutine[Any, Any, Any], error: BaseException | None) -> _Waiter:
        """Run the next steps of a call, up to the future that it waits for; raises `StopIteration` at its
        end."""
        loop = self._loop
        outer = asyncio._get_running_loop()
        token = calling_thread.set(threading.current_thread())
        with loop.line:
            loop.turn.acquire()
        try:  # an interrupt before this line would keep the turn
            if loop.is_closed():
                coroutine.close()
                raise ClosedError(CLOSED)
            asyncio._set_running_loop(loop)
            loop.is_touched = False
            future = coroutine.send(None) if error is None else coroutine.throw(error)
            while future is None:  # it lets other tasks run: they do when this thread waits
                future = coroutine.send(None)
            future._asyncio_future_blocking = False
            waiter = _Waiter()
            future.add_done_callback(waiter.wake)
            return waiter
        finally:
            asyncio._set_running_loop(outer)
            calling_thread.reset(token)
            is_touched, loop.is_touched = loop.is_touched, False
            loop.turn.release()
            if is_touched and not loop.is_closed():
                loop._write_to_self()  # type: ignore[attr-defined]

    def _give_up(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        try:
            self._enter(coroutine, asyncio.CancelledError())
        except (asyncio.CancelledError, StopIteration, ClosedError):
            return

    def call(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a call as a task in the loop's thread and wait for it here."""
        if self._loop.is_closed():
            raise ClosedError(CLOSED)
        self._refuse_caller()
        token = calling_thread.set(threading.current_thread())
        try:
            future = asyncio.run_coroutine_threadsafe(make(), self._loop)
        finally:
            calling_thread.reset(token)
        try:
            return future.result()
        except BaseException:  # an interrupt, say: the caller waits no longer
            future.cancel()
            raise

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Have a function called in the loop's thread, without waiting for it; not after its end."""
        if self._is_forked:
            return
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(callback)

    def _refuse_caller(self) -> None:
        if self._is_forked:
            raise ClosedError(FORKED)
        if threading.current_thread() is self._thread:
            raise DeadlockError(
                "a callback called the bus that waits for it",
                hint="a callback runs in the thread of the bus: hand the event to a thread of yours, and "
                "publish there; or await tidings.connect() instead",
            )

    def stop(self) -> None:
        if self._is_forked:
            return
        if self._may_stop.acquire(blocking=False):  # a second stop would end the end of the loop
            self.call_soon(self._loop.stop)
        self._thread.join()
