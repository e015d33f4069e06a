"""Reading the log of another broker: what is wanted of it, and the page that answers."""

from __future__ import annotations

import msgspec

from tidings.model.filter import Filter
from tidings.protocol.messages import Envelope


class Wanted(msgspec.Struct, frozen=True):
    """What a subscription wants to read in the log of another broker."""

    filter: Filter
    after: int  # only what is beyond this offset
    start: int | None  # it has a right to everything from here on; None: not known yet, see `since`
    since: float  # to what was available then, or came later, it has a right too
    limit: int  # events at once


class Page(msgspec.Struct, frozen=True):
    """What was read."""

    envelopes: tuple[Envelope, ...] = ()
    upto: int = 0  # everything up to here was read
    is_last: bool = False  # `upto` was the log's end
    is_gone: bool = False  # that log is no more
