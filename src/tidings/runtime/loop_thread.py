"""Event loop in a thread of its own, and calls into it from other threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tidings.errors import ClosedError, DeadlockError
from tidings.runtime.readers import calling_thread

T = TypeVar("T")


class LoopThread:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="tidings-bus", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def call(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run it there and wait for it here."""
        if self._loop.is_closed():
            raise ClosedError("the bus is closed")
        if threading.current_thread() is self._thread:
            raise DeadlockError(
                "a callback called the bus that waits for it",
                hint="a callback runs in the thread of the bus: hand the event to a thread of yours, and "
                "publish there; or await tidings.connect() instead",
            )
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

    def stop(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
