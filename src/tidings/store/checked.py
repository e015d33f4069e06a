"""Checks on a store of another package: every call goes through one guard.

Rules
- A call that raises is an `ExtensionError` that names the package and the line; errors of `tidings.errors`
  pass unchanged. So is a result that breaks the contract of `Store`: one of another type, a coroutine,
  entries out of order or below the offset that was asked for, and a page without entries that were committed.
- The first of these stands in `problem`: a broker with such a store is not ready until it is started again.
  Each is logged when its kind has not been logged before.
- The offsets of the log are kept in memory beside the store (8 bytes each), so that a page can be compared
  with what was committed. Entries that are forgotten, or come, while a page is read may be in it or not.
"""

from __future__ import annotations

import inspect
import logging
import threading
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, Final

from tidings.availability.records import Append, Entry, Forget, Loaded, Record
from tidings.errors import ExtensionError
from tidings.extensions import blaming, refused
from tidings.store.store import Store

log = logging.getLogger("tidings.store")
GROUP: Final = "tidings.stores"  # the entry-point group
FIGURES: Final = ("entries", "rows", "bytes", "commits")  # of `sizes`
SLACK: Final = 1024  # forgotten offsets that are kept in the list at least


class _LiveOffsets:
    """Offsets of the entries of a log, in order."""

    def __init__(self, offsets: Iterable[int] = ()) -> None:
        self._offsets = array("q", offsets)
        self._gone: set[int] = set()

    def apply(self, records: Sequence[Record]) -> None:
        for record in records:
            if isinstance(record, Append):
                if not self._offsets or record.offset > self._offsets[-1]:
                    self._offsets.append(record.offset)
                self._gone.discard(record.offset)
            elif isinstance(record, Forget):
                self._gone.add(record.offset)
        if len(self._gone) > max(SLACK, len(self._offsets) // 2):
            self._offsets = array("q", (each for each in self._offsets if each not in self._gone))
            self._gone.clear()

    def since(self, offset: int, last: int | None, limit: int) -> list[int]:
        """The first of them from `offset` to `last`."""
        found: list[int] = []
        position = bisect_left(self._offsets, offset)
        while position < len(self._offsets) and len(found) < limit:
            each = self._offsets[position]
            if last is not None and each > last:
                break
            if each not in self._gone:
                found.append(each)
            position += 1
        return found


class CheckedStore:
    """A store of another package, behind checks of its contract."""

    def __init__(self, store: Store, scheme: str) -> None:
        self.problem: str | None = None  # the first breach of the contract, for people
        self._store = store
        self._scheme = scheme  # the name of its entry point
        self._live: _LiveOffsets | None = None  # None: the log was not loaded
        self._known: set[str] = set()  # breaches that were logged
        self._lock = threading.Lock()

    def load(self) -> Loaded:
        loaded: Loaded = self._call("load", wrong=_wrong_state)
        with self._lock:
            self._live = _LiveOffsets(entry.offset for entry in loaded.entries)
        return loaded

    def commit(self, records: Sequence[Record]) -> None:
        self._call("commit", records, wrong=_wrong_nothing)
        with self._lock:
            if self._live is not None:
                self._live.apply(records)

    def fetch(self, from_offset: int, limit: int, max_bytes: int) -> list[Append]:
        before = self._since(from_offset, None, limit)
        found: list[Append] = self._call(
            "fetch", from_offset, limit, max_bytes, wrong=lambda value: _wrong_page(value, from_offset, limit)
        )
        last = found[-1].offset if found else None
        still = self._since(from_offset, last if found else before[-1] if before else None, limit)
        missing = sorted(set(before).intersection(still).difference(each.offset for each in found))
        if missing:
            self._refuse(
                f"whose method fetch({from_offset}, {limit}, {max_bytes}) left out entry {missing[0]}, which "
                "was committed and not forgotten"
            )
        return found

    def get(self, offset: int) -> Append | None:
        found: Append | None = self._call("get", offset, wrong=lambda value: _wrong_entry(value, offset))
        return found

    def verify(self) -> int:
        count: int = self._call("verify", wrong=lambda value: "" if _is_count(value) else "a number")
        return count

    def sizes(self) -> dict[str, int]:
        sizes: dict[str, int] = self._call("sizes", wrong=_wrong_sizes)
        return sizes

    def close(self) -> None:
        self._call("close", wrong=_wrong_nothing)

    def _since(self, offset: int, last: int | None, limit: int) -> list[int]:
        with self._lock:
            return [] if self._live is None else self._live.since(offset, last, limit)

    def _call(self, name: str, *arguments: Any, wrong: Callable[[Any], str]) -> Any:
        """Call a method; `wrong` says what its result has to be, if it is not."""
        try:
            with blaming(GROUP, self._scheme):
                value = getattr(self._store, name)(*arguments)
        except ExtensionError as error:
            self._note(error)
            raise
        if inspect.iscoroutine(value):
            value.close()
            self._refuse(f"whose method {name} is a coroutine function: it has to be an ordinary one")
        if expected := wrong(value):
            self._refuse(f"whose method {name} gave {_short(value)} and has to give {expected}")
        return value

    def _refuse(self, why: str) -> None:
        error = refused(GROUP, self._scheme, why)
        self._note(error)
        raise error

    def _note(self, error: ExtensionError) -> None:
        kind = "".join(letter for letter in error.message if not letter.isdigit())
        with self._lock:
            is_new = kind not in self._known and len(self._known) < SLACK
            self._known.add(kind)
            if self.problem is None:
                self.problem = error.message
        if is_new:
            log.error("%s", error.message, exc_info=error.__cause__)


# What a result has to be, if it is not; empty: it is


def _wrong_nothing(value: Any) -> str:
    return "" if value is None else "nothing"


def _wrong_page(value: Any, from_offset: int, limit: int) -> str:
    if not isinstance(value, list) or not all(isinstance(each, Append) for each in value):
        return "a list of Append"
    if len(value) > limit:
        return f"at most {limit} entries"
    offsets = [each.offset for each in value]
    if any(one >= two for one, two in pairwise(offsets)):
        return "entries with ascending offsets"
    return f"entries from offset {from_offset} on" if offsets and offsets[0] < from_offset else ""


def _wrong_entry(value: Any, offset: int) -> str:
    fits = value is None or (isinstance(value, Append) and value.offset == offset)
    return "" if fits else f"the entry {offset}, or None"


def _wrong_sizes(value: Any) -> str:
    fits = isinstance(value, dict) and all(_is_count(value.get(figure)) for figure in FIGURES)
    return "" if fits else f"a dictionary with the numbers {', '.join(FIGURES)}"


def _wrong_state(value: Any) -> str:
    if not isinstance(value, Loaded):
        return "a Loaded"
    if not isinstance(value.entries, list) or not all(isinstance(each, Entry) for each in value.entries):
        return "a Loaded whose `entries` are a list of Entry"
    offsets = [each.offset for each in value.entries]
    if any(one >= two for one, two in pairwise(offsets)):
        return "a Loaded whose `entries` have ascending offsets"
    if not _is_count(value.next_offset) or value.next_offset < (offsets[-1] + 1 if offsets else 1):
        return "a Loaded whose `next_offset` is above all entries, and at least 1"
    if not isinstance(value.tables, dict) or not all(_is_table(each) for each in value.tables.values()):
        return "a Loaded whose `tables` hold bytes by table and key"
    if value.sizes and len(value.sizes) != len(offsets):
        return "a Loaded with as many `sizes` as `entries`, or none"
    return ""


def _is_table(rows: Any) -> bool:
    return isinstance(rows, dict) and all(
        isinstance(key, str) and isinstance(row, bytes) for key, row in rows.items()
    )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _short(value: Any) -> str:
    with suppress(Exception):
        if isinstance(value, list) and all(isinstance(each, Append) for each in value):
            return f"entries {[each.offset for each in value[:5]]}"
        text = repr(value)
        return text if len(text) <= 60 else f"a {type(value).__name__}"
    return f"a {type(value).__name__}"
