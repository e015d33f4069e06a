"""Take events off a subscription in one line of a test."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar, overload

from tidings.runtime.blocking import BlockingListener
from tidings.runtime.listener import Listener

T = TypeVar("T")
SECONDS = 5.0  # to wait for one event before the test fails


@overload
def collect(news: BlockingListener[T], count: int | None = None, *, timeout: float = SECONDS) -> list[T]: ...
@overload
def collect(
    news: Listener[T], count: int | None = None, *, timeout: float = SECONDS
) -> Coroutine[Any, Any, list[T]]: ...


def collect(news: Any, count: int | None = None, *, timeout: float = SECONDS) -> Any:
    """The next `count` events (`TimeoutError` when one does not come), or all that are there now.

    On a subscription of `tidings.open()` it returns a list; on one that is awaited, await it."""
    collecting = _wait if isinstance(news, BlockingListener) else _collect
    return collecting(news, count, timeout)


async def _collect(news: Listener[T], count: int | None, timeout: float) -> list[T]:
    events: list[T] = []
    while count is None or len(events) < count:
        try:
            events.append(await news.get(timeout=0 if count is None else timeout))
        except TimeoutError:
            if count is None:
                break
            raise
    return events


def _wait(news: BlockingListener[T], count: int | None, timeout: float) -> list[T]:
    return news._loop.call(lambda: _collect(news._listener, count, timeout))
