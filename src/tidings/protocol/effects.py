"""Effects: requests of a node or a client to its driver.

Rules
- An effect is a value; a unit test compares lists of them.
- The driver performs them in order and never looks into the machine.
- Disk is an effect: `Persist` is answered by `Persisted` or `PersistFailed`, `Fetch` by
  `Fetched` or `FetchFailed`. Tokens of `Persist` ascend, and the driver commits in that order.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from tidings.protocol.messages import Message

if TYPE_CHECKING:
    from tidings.availability.records import Record as DiskRecord
    from tidings.model.subscription import Notification, Position, SubscriptionId


class Channel(StrEnum):
    """Transport of a message."""

    LINK = "link"  # in order, on a link of the overlay or to a client
    DATAGRAM = "datagram"  # out of band, to any address; may be lost
    MULTICAST = "multicast"  # to everyone in a named scope


class _Effect(msgspec.Struct, frozen=True, gc=False):
    """Base of effects: values without cycles, which the collector need not look at."""


class Send(_Effect, frozen=True):
    to: str
    message: Message
    channel: Channel = Channel.LINK


class SendAll(_Effect, frozen=True):
    """`Send` for each of these messages of one kind, in this order, over the link: the same, and cheaper."""

    to: str
    messages: list[Message]


class Persist(_Effect, frozen=True):
    """Commit these records as one atomic batch, after those of every smaller token."""

    token: int
    records: tuple[DiskRecord, ...]


class Fetch(_Effect, frozen=True):
    """Read log entries from `from_offset` on, among them all that were reported `Persisted`."""

    request: int
    from_offset: int
    limit: int
    max_bytes: int


class OpenLink(_Effect, frozen=True):
    """Open a link; `LinkUp` follows when it stands."""

    peer: str
    address: str = ""  # where it is, for who has to dial; empty: it is there already, or the driver knows


class CloseLink(_Effect, frozen=True):
    """Close a link; `LinkDown` follows."""

    peer: str
    reason: str = ""  # for people
    for_good: bool = False  # True: do not dial it again


class JoinMulticast(_Effect, frozen=True):
    """From now on hear what is sent to a scope by multicast, in every life of this machine."""

    scope: str


class ProbePeer(_Effect, frozen=True):
    """Measure the distance to a peer; `Probed` follows."""

    peer: str
    address: str = ""  # where it is, if there may be no link to it


class Warn(_Effect, frozen=True):
    """Say this to the operator of this node."""

    text: str


class Record(_Effect, frozen=True):
    """A row of the history; emitted only by machines that were told to record."""

    row: Any  # tidings.history.schema.Row


# -- of a client: what the application hears ------------------------------------------------


class CallResult(_Effect, frozen=True):
    """The call succeeded."""

    call: int
    value: Any = None  # Receipt, Opened or None, as the input says


class CallFailed(_Effect, frozen=True):
    """The call failed; `code` is that of a class in `tidings.errors`."""

    call: int
    code: str
    reason: str
    id: str = ""  # of the event, when it is unknown whether it is published


class Notify(_Effect, frozen=True):
    """Notifications for the application, in order. `call` is the take that they answer, None when pushed."""

    ref: int
    notifications: Sequence[Notification]
    numbers: Sequence[int]  # of the same deliveries: an application names them so
    call: int | None = None


class SubscriptionEnded(_Effect, frozen=True):
    """The broker ended the subscription; later takes fail with the same code and reason."""

    ref: int
    code: str
    reason: str


class Counted(_Effect, frozen=True):
    """Losses of the subscription so far, by the name of the policy or bound."""

    ref: int
    lost: dict[str, int]


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """What an acknowledged publish gives back: the event's identity and where it is kept."""

    source: str
    id: str
    position: Position | None = None  # None: no log holds it
    unwanted: bool = False  # True: it was held back, since the broker had said that it has no subscriber


class SubscriptionOpened(msgspec.Struct, frozen=True):
    """Result of a subscribe."""

    ref: int
    id: SubscriptionId
    resumed: bool = False  # True: the subscription, or the memory of one, was there before
    warning: str = ""  # of the broker


Effect: TypeAlias = (
    Send
    | SendAll
    | Persist
    | Fetch
    | OpenLink
    | CloseLink
    | ProbePeer
    | JoinMulticast
    | Record
    | Warn
    | CallResult
    | CallFailed
    | Notify
    | SubscriptionEnded
    | Counted
)
