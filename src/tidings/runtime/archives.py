"""A broker's archive, as its clients see it: the inquiry `archive`.

Rules
- Reading the archive is a way out like any other: the filter is narrowed to what the principal may hear,
  and each event is asked about again before it goes.
- Without a filter the answer is how the archive stands: how far each log is in it, and its policy.
- Events that the broker's own log let go of are in the archive that said so. An archive that reaches less far
  is another one, an older copy, or a directory on which nothing is mounted: that is an error, not a gap.
- Pages are bounded, by events, by bytes and by rows that are looked at; a place {log: offset} says where to
  go on.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

import msgspec

from tidings.archive.reading import ArchivedEvent, page
from tidings.archive.state import Archive, ArchiveState
from tidings.errors import CorruptionError, InputError, RefusedError
from tidings.language import DEFAULT_LIMITS, Limits, parse_filter
from tidings.model.filter import EVERYTHING, TIDINGS, Filter
from tidings.protocol.limits import DEFAULT_LIMITS as DEFAULT_RESOURCES
from tidings.protocol.limits import ResourceLimits
from tidings.security.interfaces import Guard


def _released(node: Any) -> tuple[str, int]:
    """A broker's own log, and the offset up to which it let go of events because they are archived."""
    return ("", 0) if node is None else (node.log, node.inspect("released") or 0)


def no_archive(node: Any) -> None:
    """Refuse the inquiry at a broker without an archive. Raises."""
    log, upto = _released(node)
    if upto:
        raise _lacking("no archive: this broker has no setting `archive`", log, upto, 0)
    raise RefusedError("this broker has no archive", hint="name one in its setting `archive`")


def _lacking(what: str, log: str, upto: int, reaches: int) -> CorruptionError:
    return CorruptionError(
        f"the log {log} let go of events up to offset {upto} because they are archived, and this is {what}, "
        f"which reaches to {reaches}",
        hint="put the archive back (is its volume mounted? is it an older copy?); what is gone for good is "
        "passed over by subscriptions without since='forever', and by `tidings archive run --go-on`",
    )


class ArchiveRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Request of a client to the archive."""

    filter: str | None = None
    dialect: str = TIDINGS
    after: dict[str, int] = {}
    upto: dict[str, int] = {}


class ServedArchive:
    def __init__(
        self,
        path: str | os.PathLike[str],
        guard: Guard[Any] | None,
        limits: Limits = DEFAULT_LIMITS,
        resources: ResourceLimits = DEFAULT_RESOURCES,
        node: Callable[[], Any] = lambda: None,  # whose log the archive may have freed of events
    ) -> None:
        self._resources, self._node = resources, node
        self._archive, self._guard, self._limits = Archive(path), guard, limits

    async def answer(self, about: dict[str, Any], principal: Any) -> dict[str, Any]:
        try:
            request = msgspec.convert(about, ArchiveRequest)
        except msgspec.ValidationError as error:
            raise InputError(f"the archive cannot be asked this: {error}") from None
        if request.filter is None:
            self._check(principal, EVERYTHING)
            released = _released(self._node())
            state = self._whole(await asyncio.to_thread(self._archive.state), *released)
            return {"places": state.places, "policy": state.policy}
        filter = parse_filter(request.filter, dialect=request.dialect, limits=self._limits)
        filter = self._check(principal, filter)
        released = _released(self._node())  # first: the archiver goes on while the archive is read
        state, found = await asyncio.to_thread(self._read, filter, request)
        return {
            "places": self._whole(state, *released).places,
            "entries": [entry for one in found.found if (entry := self._allowed(one, principal)) is not None],
            "after": found.after,
            "is_last": found.is_last,
        }

    def _whole(self, state: ArchiveState, log: str, upto: int) -> ArchiveState:
        """The state of an archive that has all that the own log let go of. Raises `CorruptionError`."""
        if (reaches := state.places.get(log, 0)) < upto:
            raise _lacking(f"the archive {self._archive.path}", log, upto, reaches)
        return state

    def _check(self, principal: Any, filter: Filter) -> Filter:
        """Part of the filter that the principal may hear. Raises `RefusedError` when no part is left."""
        if self._guard is not None:
            filter = self._guard.subscribe(principal, "", "archive", filter)
            self._guard.unsubscribed(principal, "", "archive")
        return filter

    def _read(self, filter: Any, request: ArchiveRequest) -> tuple[ArchiveState, Any]:
        state = self._archive.state()
        limits = self._resources
        found = page(
            self._archive, state, filter, after=request.after, upto=request.upto,
            limit=limits.archive_page_count, most_rows=limits.archive_page_rows,
            most_bytes=limits.transfer_bytes,
        )  # fmt: skip
        return state, found

    def _allowed(self, found: ArchivedEvent, principal: Any) -> tuple[str, int, Any] | None:
        event = found.event if self._guard is None else self._guard.deliver(principal, found.event)
        return None if event is None else (found.log, found.offset, event)
