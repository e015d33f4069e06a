"""Messages between brokers so that no event is lost between them.

Downstream, away from a log: `Knowledge` (what was sent, and that there is nothing else), `LogsUnreachable`,
`RangeReply`, `ReplayReply`. Upstream, toward it: `AckProgress` (what arrived, and what is needed no more),
`RangeRequest`, `ReplayRequest`. An upstream message is passed from broker to broker and carries the `path`
that it took; the answer goes back along it, so that brokers in between keep no state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import msgspec

from tidings.model.filter import Filter
from tidings.protocol.messages import Envelope, Message

PREVIOUS = "recovery.previous"  # header: the last event of this log before this one on this link


class LogKnowledge(msgspec.Struct, frozen=True, array_like=True):
    """One log as the sender tells of it, since the link is up."""

    log: str
    base: int  # the sender answers for what comes after this offset
    last: int  # the last event that it sent; `base` when it has sent none
    upto: int  # between `last` and this offset no event is for the receiver


class Knowledge(Message, frozen=True, tag="Known"):
    """Knowledge and silence; repeated until the far end says that it has it."""

    cut_field: ClassVar[str] = "news"

    news: tuple[LogKnowledge, ...]


class LogsUnreachable(Message, frozen=True, tag="Unheard"):
    """The sender hears these logs no more: receivers that had them from it need another upstream link."""

    cut_field: ClassVar[str] = "logs"

    logs: tuple[str, ...]


class LogAck(msgspec.Struct, frozen=True, array_like=True):
    """One log as the sender of `AckProgress` has it."""

    log: str
    known: int  # everything up to here has arrived
    acked: int  # no event up to here is needed any more, there or behind it
    highest: int = 0  # the highest offset that the sender, or a subscription there or behind it, has heard of
    superseded: bool = False  # are events needed there, or behind it, also when a newer one has their key?


class AckProgress(Message, frozen=True, tag="Have"):
    cut_field: ClassVar[str] = "had"

    had: tuple[LogAck, ...]


class RangeRequest(Message, frozen=True, tag="Ask"):
    """An event between these offsets (after, upto] was lost on the way."""

    log: str
    after: int
    upto: int
    path: tuple[str, ...]


class RangeReply(Message, frozen=True, tag="Fill"):
    """All that the receiver wants between these offsets; it may be a part of what was asked for."""

    cut_field: ClassVar[str] = "envelopes"

    log: str
    after: int
    upto: int
    envelopes: tuple[Envelope, ...]
    path: tuple[str, ...]
    is_gone: bool = False  # there is no such log any more

    def in_parts(self, slices: Iterable[Any]) -> Iterator[Message]:
        """Each part begins where the one before it ends."""
        after, parts = self.after, list(slices)
        for position, envelopes in enumerate(parts):
            upto = self.upto if position == len(parts) - 1 else envelopes[-1].offset or after
            yield RangeReply(self.log, after, upto, envelopes, self.path, self.is_gone)
            after = upto


class ReplayRequest(Message, frozen=True, tag="ReplayAsk"):
    """A subscription wants to hear what the log holds for it (see `slots.ReadRequest`)."""

    log: str
    number: int
    filter: Filter
    after: int
    start: int | None
    age: float  # seconds since the subscription began; clocks need not agree
    limit: int
    path: tuple[str, ...]
    superseding: bool = True  # False: also what it is owed and a newer event has superseded


class ReplayRequests(Message, frozen=True, tag="ReplayAsks"):
    """Several of them that go the same way: a new subscription asks every log."""

    cut_field: ClassVar[str] = "asks"

    asks: tuple[ReplayRequest, ...]


class ReplayReply(Message, frozen=True, tag="ReplayPart"):
    """The answer to `ReplayRequest`: events of the log for one reading, and how far it was read."""

    log: str
    number: int
    envelopes: tuple[Envelope, ...]
    upto: int
    path: tuple[str, ...]
    is_last: bool = False
    is_gone: bool = False


class ReplayReplies(Message, frozen=True, tag="ReplayParts"):
    """Several answers that go the same way; only to a neighbour that announces `Feature.REPLAY_PARTS`."""

    cut_field: ClassVar[str] = "parts"

    parts: tuple[ReplayReply, ...]
