"""Reading a broker's log between two places, page by page, the next one while this one is worked on.

Rules
- Reads events that the filter accepts beyond `after` and up to `upto`, in order. `upto` is never beyond the
  broker's reported end, so the same two places give the same events again (except expired ones).
- Whole pages come as the disk holds them where the principal may receive everything; else through the node,
  which asks about each event. The answer is the same, the price is not.
- A log of another name is refused by the broker: places of another log have no meaning there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from tidings.errors import InputError, RefusedError
from tidings.pipeline.broker.lines import Ask, BrokerConnection, line_to
from tidings.pipeline.broker.options import BrokerTarget
from tidings.protocol.messages import LogEntry, LogRead
from tidings.runtime.pages import StoredEntry

BEYOND = 2**62  # a place beyond every log: asks how the log stands
NODE_PAGE = 4_096
EMPTY = bytes(4)  # the count of a page without entries, after the mark of the array

Entries = list[tuple[int, StoredEntry]]
_decode = msgspec.msgpack.Decoder(Entries).decode


class LogSpan(NamedTuple):
    """A part of a log, and where it is read."""

    where: BrokerTarget
    log: str
    after: int
    upto: int
    filter: str | None
    dialect: str
    superseded: bool = False  # also what the log keeps although a newer event has its key


class LogExtent(NamedTuple):
    """Range of a log: its name, the first and the last offset that it holds."""

    log: str
    begin: int
    end: int


def state_of(where: BrokerTarget) -> LogExtent:
    """Present range of a broker's log."""
    page = line_to(where).ask(lambda bus: bus.read_log(after=BEYOND, limit=1))
    return LogExtent(page.log, page.begin, page.end)


def next_place(where: BrokerTarget, log: str, after: int) -> int:
    """The place right before the first entry beyond `after`; without one, where the log ends. A log that was
    restored has a hole that is wider than all that it will ever hold. Raises `RefusedError` when `after` is
    behind the end of the broker's own log."""
    page = line_to(where).ask(lambda bus: bus.read_log(after=after, limit=1, log=log))
    return page.entries[0].offset - 1 if page.entries else page.upto


def pages(span: LogSpan) -> Iterator[Entries]:
    """The entries of a span, in pages."""
    for page in raw_pages(span):
        yield decoded(page) if isinstance(page, bytes) else page


def raw_pages(span: LogSpan) -> Iterator[bytes | Entries]:
    """The same; a page that came as the disk holds it is not decoded."""
    if span.after >= span.upto:
        return
    line = line_to(span.where)
    try:
        yield from _packed(line, span)
    except _PermissionDenied:
        yield from _through_node(line, span)


def decoded(page: bytes) -> Entries:
    return _decode(page)


class _PermissionDenied(Exception):
    """The broker wants to be asked about each event."""


def _packed(line: BrokerConnection, span: LogSpan) -> Iterator[bytes]:
    about: dict[str, Any] = {
        "upto": span.upto, "filter": span.filter, "dialect": span.dialect, "superseded": span.superseded,
    }  # fmt: skip

    def ask(after: int) -> Ask[Any]:
        return lambda bus: bus.inquire("log", after=after, **about)

    future = line.ask_ahead(ask(span.after))
    is_first = True
    while True:
        try:
            answer = line.result(future)
        except RefusedError:
            if is_first:
                raise _PermissionDenied from None
            raise
        is_first = False
        if answer["log"] != span.log:
            raise _other_log(span, answer["log"])
        read = int(answer["upto"])
        if read < span.upto:
            future = line.ask_ahead(ask(read))
        entries: bytes = answer["entries"]
        if entries[1:5] != EMPTY:
            yield entries
        if read >= span.upto:
            return


def _through_node(line: BrokerConnection, span: LogSpan) -> Iterator[Entries]:
    def ask(after: int) -> Ask[LogRead]:
        return lambda bus: bus.read_log(
            span.filter, after=after, limit=NODE_PAGE, log=span.log, superseded=span.superseded,
            dialect=span.dialect,
        )  # fmt: skip

    read = span.after
    while read < span.upto:
        page = line.ask(ask(read))
        entries = [stored(entry) for entry in page.entries if entry.offset <= span.upto]
        read = page.upto
        if entries:
            yield entries


def stored(entry: LogEntry) -> tuple[int, StoredEntry]:
    return entry.offset, StoredEntry(entry.accepted, None, None, entry.event)


def _other_log(span: LogSpan, found: str) -> InputError:
    return InputError(
        f"the broker at {span.where.address} has the log {found}, and {span.log} was to be read",
        hint="its disk was replaced, or another broker listens there: what was not read there is gone",
    )
