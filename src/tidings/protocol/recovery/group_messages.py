"""Messages between the members of a group about their log."""

from __future__ import annotations

from typing import ClassVar

from tidings.availability.records import Put
from tidings.protocol.messages import Message
from tidings.protocol.proposals import PlacedEvent, Proposal


class Propose(Message, frozen=True, tag="Propose"):
    """To the coordinator: give these places. `first` numbers what this member proposed in this epoch."""

    epoch: int
    first: int
    proposals: tuple[Proposal, ...]
    done: int = 0  # all up to this number are committed; messages with them may never arrive


class ProposalsSettled(Message, frozen=True, tag="Settled"):
    """To a member: of these that it proposed, the first were committed long ago, and the others never will
    be."""

    epoch: int
    cut_field: ClassVar[str] = "identities"

    identities: tuple[tuple[str, str], ...]
    passed: tuple[tuple[str, str], ...] = ()  # a later event of the same publisher has its place already


class Replicate(Message, frozen=True, tag="Replicate"):
    """To every member: keep these behind `after`; everything up to `committed` may be told."""

    epoch: int
    after: int
    entries: tuple[PlacedEvent, ...]
    committed: int
    floor: int = 0  # below this no member needs an event
    full: str = ""  # why the group keeps no event at the moment: too few disks have room


class Replicated(Message, frozen=True, tag="Stored"):
    """To the coordinator: all of this epoch up to here is on our disk; with `lacks`: is here, on
    disk or not."""

    epoch: int
    upto: int
    needs: int  # the lowest offset that a subscription here still needs
    lacks: bool = False  # an earlier entry is missing: send again from `upto`
    full: str = ""  # why the disk of the sender has no room; empty: it has


class LogStateRequest(Message, frozen=True, tag="LogAsk"):
    """A new coordinator: how far is your log?"""

    epoch: int
    pages: bool = False  # True: the tail may be given in part, the rest is asked for (`TailRequest`)
    stored: int = (
        0  # committed, and on your disk by your own word: a log that ends before it is an older copy
    )


class LogState(Message, frozen=True, tag="LogState"):
    epoch: int
    log_epoch: int  # the epoch in which this log was last agreed on
    committed: int
    tail: tuple[PlacedEvent, ...]  # all of it, or as much as one message holds
    needs: int
    last: int = -1  # where the tail ends; -1: with what is given here

    @property
    def end(self) -> int:
        return self.committed + len(self.tail) if self.last < 0 else self.last


class AdoptLog(Message, frozen=True, tag="Adopt"):
    """To every member: this is the log behind `committed`, from this epoch on."""

    epoch: int
    committed: int
    tail: tuple[PlacedEvent, ...]


class AdoptLogPages(Message, frozen=True, tag="AdoptPages"):
    """As `AdoptLog`, of a tail that one message does not hold: the member asks for it (`TailRequest`)."""

    epoch: int
    committed: int
    last: int  # where the tail ends


class TailRequest(Message, frozen=True, tag="TailAsk"):
    """What stands in your tail after this offset?"""

    epoch: int
    after: int


class TailReply(Message, frozen=True, tag="TailPart"):
    """As much of the tail after this offset as one message holds; ask again behind the last entry."""

    epoch: int
    after: int
    entries: tuple[PlacedEvent, ...]


class LogCopyRequest(Message, frozen=True, tag="CopyAsk"):
    """State transfer: what was committed after this offset?"""

    epoch: int
    after: int
    pages: bool = False  # True: identities may be given in part
    rows_after: str | None = None  # the log is here: only identities behind this place are asked for


class LogCopyPage(Message, frozen=True, tag="Copy"):
    """Page of the log: all entries up to `upto` that were not forgotten. The log goes on behind it when
    `upto` is below `end`."""

    epoch: int
    after: int
    upto: int
    entries: tuple[PlacedEvent, ...]
    end: int  # how far the sender's log is committed
    identities: tuple[
        Put, ...
    ] = ()  # with the last part: identities of earlier publishes, as far as the sender remembers
    more: str = ""  # not empty: further identities follow behind this place


MESSAGES: tuple[type[Message], ...] = (
    Propose, ProposalsSettled, Replicate, Replicated, LogStateRequest, LogState, AdoptLog, LogCopyRequest,
    LogCopyPage, AdoptLogPages, TailRequest, TailReply,
)  # fmt: skip
