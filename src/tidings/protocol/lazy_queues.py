"""Lines of what waits, and tables: nearly all of them are empty, and an empty one costs nothing.

A subscription has half a dozen queues and tables, and a broker has a million
subscriptions; an empty deque takes 760 bytes, an empty dict 64. So all empty ones are one object
that refuses to be filled. A writer gets one of its own from `own` or `own_table`.

A queue that is a `UniformQueue` holds items of one kind alone, so its reader need not look at each of them.
The one who fills it knows the kind; for any other writer `own` makes it a common one.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NoReturn


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise AssertionError("this queue is shared: request an own one before you add to it")


class _EmptyQueue(deque[Any]):
    append = appendleft = extend = extendleft = insert = __iadd__ = _refuse


class _EmptyTable(dict[Any, Any]):
    __setitem__ = setdefault = update = __ior__ = _refuse


class UniformQueue(deque[Any]):
    """A line of items of one kind; removing some leaves it so."""

    __slots__ = ()


EMPTY: deque[Any] = _EmptyQueue()
NOTHING: dict[Any, Any] = _EmptyTable()


def own(holder: Any, name: str) -> deque[Any]:
    """The line of that name, to write to."""
    line: deque[Any] = getattr(holder, name)
    if type(line) is not deque:
        line = deque(line)
        setattr(holder, name, line)
    return line


def own_table(holder: Any, name: str) -> dict[Any, Any]:
    """The table of that name, to write to."""
    table: dict[Any, Any] = getattr(holder, name)
    if type(table) is _EmptyTable:
        table = {}
        setattr(holder, name, table)
    return table
