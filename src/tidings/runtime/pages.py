"""Reading a broker's log in large pages, as its disk holds it: the inquiry `log`.

For jobs that go through whole logs. `Bus.read_log` asks the node, which makes each event and each answer
anew; here a thread takes the stored bytes from the disk, and the broker's own work goes on beside it.
Rules
- Only who may hear everything is served: for all others every event has to be asked about, which the
  way through the node does. They are refused, and go that way.
- A filter is applied here; without one no event is decoded at all, but those that may be replies to others.
- Superseded events are left out, unless the reader asks for them as well (`superseded`).
- Expired events are left out. Entries beyond `upto` are not read: the reader has learned from the node how
  far the log was delivered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from tidings.errors import InputError, RefusedError
from tidings.language import DEFAULT_LIMITS, Limits, parse_filter
from tidings.language.evaluate import accepts
from tidings.model.event import Event
from tidings.model.filter import EVERYTHING, TIDINGS, Filter
from tidings.protocol.limits import DEFAULT_LIMITS as DEFAULT_RESOURCES
from tidings.protocol.limits import ResourceLimits
from tidings.security.inboxes import INBOX
from tidings.security.interfaces import Guard

_NO_END = 10  # the byte that says whether an entry has an end: after the array's mark and the time
_NIL = 0xC0


class StoredEntry(msgspec.Struct, array_like=True, frozen=True):
    """An entry as the disk and a page hold it, beside its offset."""

    accepted: float
    expires_at: float | None
    sequence: int | None
    event: Event


_INBOX = INBOX.encode()
_decode = msgspec.msgpack.Decoder(StoredEntry).decode


class LogPages:
    """Answers the inquiry `log` of one broker."""

    def __init__(
        self,
        store: Any,
        guard: Guard[Any] | None,
        log: Callable[[], str],
        now: Callable[[], float],
        limits: Limits = DEFAULT_LIMITS,
        resources: ResourceLimits = DEFAULT_RESOURCES,
        inspect: Callable[[str], Any] = lambda what: None,  # as the node's, for what is superseded
    ) -> None:
        self._inspect = inspect
        self._resources = resources
        self._store, self._guard, self._log, self._now, self._limits = store, guard, log, now, limits

    async def answer(self, about: dict[str, Any], principal: Any) -> dict[str, Any]:
        if self._guard is not None and not self._guard.receives_all(principal):
            raise RefusedError(
                "whole pages are for principals who may receive everything", hint="use read_log"
            )
        after, upto = about.get("after", 0), about.get("upto", 0)
        text, dialect = about.get("filter"), about.get("dialect", TIDINGS)
        if not all(isinstance(position, int) for position in (after, upto)) or not isinstance(
            text, str | None
        ):
            raise InputError("a page is asked for by two places and a filter's text")
        filter = EVERYTHING if text is None else parse_filter(text, dialect=dialect, limits=self._limits)
        is_hidden = None if about.get("superseded") else self._inspect("superseded")
        wants = _wanted(filter, self._now(), partial(self._is_open, principal), is_hidden or _never)
        most, size = self._resources.transfer_count, self._resources.transfer_bytes
        packed, read = await asyncio.to_thread(self._store.pack, after + 1, upto, most, size, wants)
        return {"log": self._log(), "entries": packed, "upto": read}

    def _is_open(self, principal: Any, payload: bytes) -> bool:
        """Is the stored entry no reply to another principal?"""
        if self._guard is None or _INBOX not in payload:
            return True
        return self._guard.deliver(principal, _decode(payload).event) is not None


def _never(_offset: int) -> bool:
    return False


def _wanted(
    filter: Filter, now: float, is_open: Callable[[bytes], bool], is_hidden: Callable[[int], bool]
) -> Callable[[int, bytes], bool]:
    """Whether a stored entry goes into the page."""

    def is_there(offset: int, payload: bytes) -> bool:
        if is_hidden(offset) or not is_open(payload):
            return False
        if payload[_NO_END] == _NIL:
            return True
        ends_at = _decode(payload).expires_at
        return ends_at is None or ends_at > now

    if filter.is_always_true:
        return is_there

    def is_wanted(offset: int, payload: bytes) -> bool:
        if is_hidden(offset):
            return False
        stored = _decode(payload)
        if stored.expires_at is not None and stored.expires_at <= now:
            return False
        return accepts(filter, stored.event) and is_open(payload)

    return is_wanted
