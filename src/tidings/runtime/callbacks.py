"""Callbacks: a function that is called with each event, one after another.

An event is committed when its callback has returned. A callback that fails gives its event back; it
comes again, and after `max_deliveries` it goes to dead letters. The failure is told to the event
loop's exception handler, and the last one is kept. `Reject` makes the event a dead letter at once. A callback
that is still at work `STOP_SECONDS` after the end was asked for, or when its application is cancelled, is
cancelled too, and gives its event back.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import Any, Generic, TypeVar

from tidings.errors import ClosedError, Reject, TidingsError
from tidings.model.dead_letter_header import reason_of
from tidings.runtime.listener import Listener
from tidings.runtime.readers import calling_thread

log = logging.getLogger("tidings.client")
T = TypeVar("T")
Callback = Callable[[T], Awaitable[None] | None]
STOP_SECONDS = 30.0  # default time for a running callback to finish
CANCEL_SECONDS = 5.0  # for one that was cancelled to clean up


def is_cut_off(error: BaseException | None) -> bool:
    """Whether an application leaves because it was cancelled or interrupted, and not by an error
    of its own."""
    return error is not None and not isinstance(error, Exception)


def is_being_cancelled() -> bool:
    """Whether the running task was asked to end; else a `CancelledError` comes from another task that it
    awaits."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


class Calling(Generic[T]):
    """What `bus.on` gives: enter it (or await it) to begin; leave it, or `stop`, to end."""

    def __init__(self, listener: Listener[T], callback: Callback[T]) -> None:
        self.listener = listener
        self.error: BaseException | None = None  # the last failure of the callback
        self._callback = callback
        self._task: asyncio.Task[None] | None = None
        self._is_calling = False
        self._is_stopping = False

    async def start(self) -> Calling[T]:
        await self.listener.open()
        self._task = asyncio.create_task(self._run(), name=f"tidings callback {self.listener.id}")
        self.listener._bus._family.has_woken = True  # the next publish lets it begin
        return self

    def __await__(self) -> Generator[Any, None, Calling[T]]:
        return self.start().__await__()

    async def __aenter__(self) -> Calling[T]:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop(timeout=0 if is_cut_off(error) else STOP_SECONDS)

    async def stop(self, *, end: bool = False, timeout: float | None = STOP_SECONDS) -> None:
        """Let the callback that runs finish, then leave; `end` ends a durable subscription too. A callback
        that has not finished after `timeout` seconds is cancelled, and its event is given back."""
        self._is_stopping = True
        task = self._task
        if task is not None and task is not asyncio.current_task():
            await self._finish(task, timeout)
        if end:
            await self.listener.unsubscribe()
        else:
            await self.listener.close()

    async def _finish(self, task: asyncio.Task[None], timeout: float | None) -> None:
        if not self._is_calling:
            task.cancel()
        try:
            done, _ = await asyncio.wait([task], timeout=timeout)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if not done:
            task.cancel()
            await asyncio.wait([task], timeout=CANCEL_SECONDS)

    async def _run(self) -> None:
        calling_thread.set(None)  # this task reads, whichever thread began it
        try:
            while not self._is_stopping:
                event = await self.listener.get()
                self._is_calling = True
                await self._call(event)
                self._is_calling = False
        except ClosedError:
            return  # the subscription was left
        except TidingsError as error:  # the broker ended the subscription
            self._report(error)

    async def _call(self, event: T) -> None:
        try:
            result = self._callback(event)
            if inspect.isawaitable(result):
                await result
            await self.listener.ack()
        except asyncio.CancelledError as error:
            await self.listener.nack()
            if is_being_cancelled():
                raise
            self._report(error)
        except Reject as error:
            await self.listener.reject(reason_of(error))
            self.error = error
            log.warning("callback of %r rejected an event: %s", self.listener, error)
        except Exception as error:
            await self.listener.nack()
            self._report(error)

    def _report(self, error: BaseException) -> None:
        self.error = error
        context = {"message": f"callback of {self.listener!r} failed", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)
