"""Inputs: everything that can happen to a node or a client.

Rules
- An input is a value. Only `handle(input, now)` changes a machine.
- `sender` and `peer` are addresses: what the driver calls the other end of a link. A client's `Hello` names
  the client behind its address.
- The driver hands in the messages of one link in the order in which they were sent; those that came
  together it may hand in together.
- The application's calls are inputs of the client; `call` is a number that the driver
  chose, and the effect that answers it (`CallResult`, `CallFailed`, `Notify`) carries it back.
"""

from __future__ import annotations

from enum import IntFlag
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from tidings.model.subscription import DeliveryOptions, SubscriptionId
from tidings.protocol.messages import AckMode, Message

if TYPE_CHECKING:
    from tidings.availability.records import Append, Loaded
    from tidings.model.event import Event
    from tidings.model.filter import Filter
    from tidings.protocol.publishing import PublishBatch


class Feature(IntFlag):
    """Messages and contents that the version before did not have: sent only to a peer that announces them."""

    REPLAY_PARTS = 1
    ACK_CREDIT = 2
    RICH_BODIES = 4  # events with lists, decimals and so on, and filters with conditions on them
    PUBLISH_ALL = 8  # several publishes in one frame
    SUPERSEDED = 16  # events that say that a newer one has their key
    REJECT = 32  # a `Nack` with a reason: a dead letter at once
    EVENT_RUNS = 64  # several events with positions in one message: `ForwardAll`, `DeliverAll` with offsets
    HOLDINGS = 128  # `MemberHoldings`: what a member of a group holds over a broken link


ALL_FEATURES = sum(Feature)
IN_PROCESS_FEATURES = ALL_FEATURES & ~Feature.HOLDINGS  # a client in its broker's process ends with it
EARLIER_PEER = (
    "the {} is of an earlier version, which cannot read lists, decimals, UUIDs, dates, bytes, None or fields "
    "with names of the envelope; upgrade it, or publish flat values"
)


class _Input(msgspec.Struct, frozen=True, gc=False):
    """Base of inputs: values without cycles, which the collector need not look at."""


# -- of every machine --------------------------------------------------------------------


class Received(_Input, frozen=True):
    """A message arrived."""

    sender: str
    message: Message


class MessageTooLarge(_Input, frozen=True):
    """A message that the machine sent is larger than a frame holds: the driver dropped it, and the link
    stands."""

    to: str
    message: Message


class ReceivedAll(_Input, frozen=True):
    """Messages that came together on one link, in this order: the same as `Received` for each of them, and
    cheaper."""

    sender: str
    messages: list[Message]


class PublishesReceived(_Input, frozen=True):
    """Publishes of several links that came together: the same as `ReceivedAll` for each of these senders and
    their messages, and cheaper."""

    batches: list[tuple[str, list[Message]]]


class TimerFired(_Input, frozen=True):
    """The time that `next_deadline()` named has come."""


class LinkUp(_Input, frozen=True):
    """A link to `peer` can be used from now on."""

    peer: str
    frame_bytes: int = 0  # of a frame that the peer takes at most; 0: what all brokers take
    features: int = ALL_FEATURES  # kinds of messages that the peer announced


class LinkDown(_Input, frozen=True):
    """The link to `peer` is gone; what was in flight on it is lost."""

    peer: str


# -- of a node ----------------------------------------------------------------------------


class Started(_Input, frozen=True):
    """The first input of a node: what its disk holds."""

    state: Loaded


class Joined(_Input, frozen=True):
    """A broker wants to be a neighbour, or is one and is back. `OpenLink(peer)` says that the link may
    be used, `CloseLink(peer)` that it may not; neither comes before the answer is on the disk."""

    peer: str
    is_dialled: bool = False  # we opened the connection: we were told to join this broker, or knew it


class Parted(_Input, frozen=True):
    """A neighbour is gone for good: no event is kept for it any more."""

    peer: str
    reason: str = "it was parted from this network"  # for people
    is_elsewhere: bool = False  # it is still there, and its logs are heard by another way


class PrincipalRevoked(_Input, frozen=True):
    """A principal has lost rights: its holds end unless it may read all of what they hold, and what it staged
    is forgotten."""

    scope: str  # that the names of its holds and queries begin with
    allowed: Filter  # what it may read
    staged: bool = True  # False: what it staged stays


class AdminInput(_Input, frozen=True):
    """An operator acts on what others own (`delivery/administration.py`)."""


class EndSubscription(AdminInput, frozen=True):
    """End a subscription, durable or not, or a consumer group."""

    id: SubscriptionId


class EndRetentionHold(AdminInput, frozen=True):
    """End a reader's hold on the log."""

    name: str  # with its scope


class SettleDeadLetters(AdminInput, frozen=True):
    """Discard dead letters of a subscription, or deliver them to it again."""

    id: SubscriptionId
    numbers: tuple[int, ...] = ()  # none: all
    redelivers: bool = False


class PurgeEntries(AdminInput, frozen=True):
    """Forget entries of the log, whoever needs them."""

    offsets: tuple[int, ...]


class Persisted(_Input, frozen=True):
    """The records of every `Persist` up to and including token `upto` are on stable storage."""

    upto: int


class DiskFull(_Input, frozen=True):
    """The disk has no room for the next records.

    The driver tries again, in order; `Persisted` says that it could.
    """

    reason: str


class PersistFailed(_Input, frozen=True):
    """The disk has failed for good: no record of the `Persist` with this token, nor of a later
    one, is kept."""

    token: int
    code: str
    reason: str


class Fetched(_Input, frozen=True):
    """The answer to a `Fetch`: log entries in ascending order; none means that none follow."""

    request: int
    records: tuple[Append, ...]


class FetchFailed(_Input, frozen=True):
    """The log could not be read there; no entry of it was served."""

    request: int
    code: str
    reason: str


class Probed(_Input, frozen=True):
    """The answer to a `ProbePeer`: the distance to a peer in seconds, None when it cannot be reached."""

    peer: str
    distance: float | None


class ViewChanged(_Input, frozen=True):
    """The group of this node agreed on a view, or the node began or ceased to serve in it (`membership`)."""

    number: int
    members: tuple[str, ...]
    serves: bool  # is it one of the members, and in the majority?
    joined: tuple[str, ...] = ()  # members that were not in the view before it, or in another life
    is_member: bool = (
        True  # False: the view names an earlier life of this node, or another disk, or not this node
    )
    went_back: bool = False  # this node's disk was put back to an older copy, and counts as an empty one


# -- of a client: what the application asks ------------------------------------------------


class ClientPublish(_Input, frozen=True):
    """Answered by `CallResult(call, Receipt)` when the broker has acknowledged."""

    call: int
    event: Event
    number: bool = False  # True: the event's id is a placeholder, the client gives the real one
    mode: AckMode = AckMode.AUTO


class ClientPublishAll(_Input, frozen=True):
    """`ClientPublish` for each of these events, in this order, whose calls follow one another. Answered by
    `CallResult(call, results)`, a `Receipt` or a `CallFailed` for each event, when the broker has answered
    all of them."""

    call: int  # of the first
    events: tuple[Event, ...]
    number: tuple[bool, ...]  # as in `ClientPublish`, for each event
    mode: AckMode = AckMode.AUTO
    batch: PublishBatch | None = None  # of which these events are a part; None: they are a batch


class ClientSubscribe(_Input, frozen=True):
    """Answered by `CallResult(call, SubscriptionOpened)`; its `ref` names the subscription in later calls."""

    call: int
    filter: Filter
    name: str | None = None  # None: transient, the client draws a name
    options: DeliveryOptions = DeliveryOptions()
    after: dict[str, int] = {}  # by log: the application has handled everything up to this offset
    window: int = 0  # notifications that may be sent ahead of `ClientTake`
    auto: bool = False  # True: each notification is handed over at once, and committed
    is_paused: bool = False  # True: the window stays 0 until `ClientWindow` opens it


class ClientTake(_Input, frozen=True):
    """Commit what was taken before and wait for the next: answered by `Notify(call=call)` as soon as there is
    one."""

    call: int
    ref: int
    commits: bool = True  # False: what was taken before stays open, until it is committed by its number
    most: int = 1  # notifications that the answer holds at most


class ClientCancel(_Input, frozen=True):
    """The caller no longer waits. A notification that was on its way to it is put back."""

    call: int
    ref: int | None = None  # of the take; None: the call was another one


class ClientAck(_Input, frozen=True):
    """Commit what was taken: the one of this number, or everything so far."""

    ref: int
    number: int | None = None


class ClientWindow(_Input, frozen=True):
    """Change how many notifications may be sent ahead: with 0 the broker sends none that were not
    asked for."""

    ref: int
    window: int


class ClientNack(_Input, frozen=True):
    """Give notifications back: those of these numbers, or all that were taken and not committed. With a
    reason they become dead letters without another attempt."""

    ref: int
    numbers: tuple[int, ...] | None = None
    reason: str = ""


class ClientLeave(_Input, frozen=True):
    """Stop listening: ends a transient subscription, detaches a durable one. Answered with None."""

    call: int
    ref: int
    commit: bool = True  # False: what was taken and not committed counts as not heard
    end: bool = False  # True: ends a durable subscription too


class ClientSkip(_Input, frozen=True):
    """The application has events that live forever, and those that `policy` accepts, from an archive up to
    these offsets by log: they are not handed over, and count as handled."""

    ref: int
    upto: dict[str, int]
    policy: Filter | None = None


class ClientAdvertise(_Input, frozen=True):
    """The application may publish what the filter accepts. Answered with None."""

    call: int
    name: str
    filter: Filter


class ClientAsk(_Input, frozen=True):
    """Send the broker an idempotent request (`ReadLog`, `StageEvents`, `CommitStaged`,
    `AskCommitted`, with this call in it). Answered with the broker's message."""

    call: int
    message: Message


class ClientUnadvertise(_Input, frozen=True):
    """Withdraw an advertisement. Answered with None."""

    call: int
    name: str


Input: TypeAlias = (
    Received
    | ReceivedAll
    | PublishesReceived
    | TimerFired
    | LinkUp
    | LinkDown
    | Started
    | Joined
    | Parted
    | PrincipalRevoked
    | AdminInput
    | Persisted
    | DiskFull
    | PersistFailed
    | Fetched
    | FetchFailed
    | Probed
    | ViewChanged
    | MessageTooLarge
    | ClientPublish
    | ClientPublishAll
    | ClientSubscribe
    | ClientTake
    | ClientCancel
    | ClientAck
    | ClientWindow
    | ClientNack
    | ClientSkip
    | ClientLeave
    | ClientAdvertise
    | ClientUnadvertise
    | ClientAsk
)
