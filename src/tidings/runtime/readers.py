"""Readers of full queues: a publish that waits for its own reader is found out.

With policy `block` a publish waits until every full queue has room. It waits for ever when the only reader
of such a queue is the task, or the thread, that publishes. Rules
- A subscription is read by the task or thread that took from it last, or else by the one that opened it.
- The deadlock is certain when that reader publishes, or has ended, and no other task or thread of the
  application is left that could read instead: then the publish fails. Otherwise a warning is logged, once
  for each subscription, because another task may be about to read. So it is for a queue that was never
  read, whichever task publishes: a task that gathers publishes before it reads waits for itself too.
- A callback's task takes the next event when the callback has returned, and no other task takes it. So a
  callback that publishes into its own full queue has no way out, and neither have callbacks that wait for
  one another's queues: their publishes fail, whichever tasks are there beside them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Mapping, Set
from contextvars import ContextVar
from typing import Any, Protocol

from tidings.errors import DeadlockError

CHECK_SECONDS = 0.4  # between two looks at publishes that wait; one is judged when two looks have seen it
_OWN = (
    "tidings",
    "asyncio_",
)  # names of our tasks and threads, and of the pool beside an event loop, begin so

Reader = asyncio.Task[Any] | threading.Thread

calling_thread: ContextVar[threading.Thread | None] = ContextVar("calling_thread", default=None)


class QueueRead(Protocol):
    """A subscription whose reader is known."""

    _reader: Reader | None


def current_reader() -> Reader | None:
    """The thread of a call without `await`, else the task that runs."""
    return calling_thread.get() or asyncio.current_task()


def may_be_read(listeners: Iterable[QueueRead], publisher: Reader | None) -> bool:
    """Whether some reader other than the publisher is at work on one of these."""
    readers = [listener._reader for listener in listeners]
    return any(reader is not publisher and reader is not None and _is_alive(reader) for reader in readers)


def has_others(publisher: Reader | None) -> bool:
    """Whether the application has another task, or thread, that could read."""
    if isinstance(publisher, threading.Thread):
        threads = (thread for thread in threading.enumerate() if thread is not publisher)
        return any(not thread.name.startswith(_OWN) for thread in threads)
    tasks = (task for task in asyncio.all_tasks() if task is not publisher)
    return any(not task.get_name().startswith(_OWN) for task in tasks)


def deadlocked(waits: Mapping[Reader, Set[str]], readers: Mapping[str, Set[Reader | None]]) -> set[Reader]:
    """Callbacks that wait in a publish for queues which only such callbacks read. `waits`: the full queues
    that each waits for; `readers`: who reads each queue."""
    stuck = set(waits)
    while True:
        left = {
            each for each in stuck if any(readers[full] and readers[full] <= stuck for full in waits[each])
        }
        if left == stuck:
            return stuck
        stuck = left


def own_queue_error(full: str) -> DeadlockError:
    """The error of a callback's publish that waits for such a queue."""
    return DeadlockError(
        f"a callback publishes into the full queue of subscription {full}, which is read when it "
        "has returned",
        hint="publish in a task of your own, or subscribe with a larger queue= or with policy='drop oldest'; "
        "the event is delivered when there is room",
    )


def _is_alive(reader: Reader) -> bool:
    return reader.is_alive() if isinstance(reader, threading.Thread) else not reader.done()
