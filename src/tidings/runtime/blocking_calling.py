"""A callback of a blocking bus."""

from __future__ import annotations

from types import TracebackType
from typing import Generic, TypeVar

from tidings.runtime.callbacks import STOP_SECONDS, Calling, is_cut_off
from tidings.runtime.loop_thread import LoopThread

T = TypeVar("T")


class BlockingCalling(Generic[T]):
    """A callback at work, in the bus's own thread."""

    def __init__(self, loop: LoopThread, calling: Calling[T]) -> None:
        self._loop = loop
        self._calling = calling

    def __enter__(self) -> BlockingCalling[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop(timeout=0 if is_cut_off(error) else STOP_SECONDS)

    def stop(self, *, end: bool = False, timeout: float | None = STOP_SECONDS) -> None:
        """Let the callback that runs finish, then leave; after `timeout` seconds it is cancelled."""
        self._loop.call(lambda: self._calling.stop(end=end, timeout=timeout))

    @property
    def error(self) -> BaseException | None:
        return self._calling.error
