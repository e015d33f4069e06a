"""Reading in logs: requests for the log of another broker, their answers, and scans of a broker's own log."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from tidings.availability.records import Append
from tidings.model.filter import Filter
from tidings.protocol import batches
from tidings.protocol.inputs import FetchFailed
from tidings.protocol.messages import Envelope

SUPERSEDED = "recovery.superseded"  # header: a newer event has its key; for subscriptions that are owed it


class ReadRequest(msgspec.Struct, frozen=True):
    """Request of a subscription to read the log of another broker."""

    filter: Filter
    after: int  # only what is beyond this offset
    start: int | None  # it has a right to everything from here on; None: not known yet, see `since`
    since: float  # to what was available then, or came later, it has a right too
    limit: int  # events at once
    superseding: bool = True  # False: also what it is owed and a newer event has superseded


class ReadResult(msgspec.Struct, frozen=True):
    """What was read."""

    envelopes: tuple[Envelope, ...] = ()
    upto: int = 0  # everything up to here was read
    is_last: bool = False  # `upto` was the log's end
    is_gone: bool = False  # that log is no more


class ReaderNeeds(NamedTuple):
    """What the durable subscriptions of a broker need of another broker's log."""

    settled: int | None = None  # they need no event up to this offset; None: there are none
    highest: int = 0  # the highest offset that one of them knows of
    superseded: bool = False  # is one owed events also when a newer one has their key?


class LogScan(NamedTuple):
    """A scan of a broker's own log for one page of entries."""

    after: int  # only entries beyond this offset
    upto: int | None  # only entries up to this offset; None: to the end of the log
    page: batches.PageBuilder[Envelope]
    is_wanted: Callable[[Append, float], bool]
    fits: Callable[[Envelope, float], bool]  # can it be sent to the reader?
    then: Callable[
        [tuple[Envelope, ...], int, bool, float], None
    ]  # page, the offset it reaches, is it the end?
    failed: Callable[[FetchFailed, float], None]
    is_owed: Callable[[Append, float], bool]  # is it for the reader though a newer one has its key?
