"""Messages between machines.

Rules
- Messages are tagged structs; the simulator passes the same objects that the wire encodes.
- They are encoded as arrays: a new field goes to the end and has a default.
- Each class states its tag, the name that frames, counters and error messages use (`tag_of`). A renamed class
  keeps its tag, so the bytes of the last version stay readable.
- Here stand the base, the envelope, and the messages between a client and its broker. A strategy
  declares its own messages in its own file (`Strategy.messages`); `union` joins them.
- A client numbers its requests (`call`); the answer, or `Refused`, carries the number back.
  It also numbers what it holds open (`ref`): one subscription, or one membership of a group.
- An envelope header belongs to the kind whose name it begins with; no other kind reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Any, ClassVar, Union

import msgspec

from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.subscription import DeliveryOptions, Position

VERSION = 1
MOST_TAGS = 1 << 32  # of one message; no member has so many unacknowledged


class AckMode(StrEnum):
    """Meaning of an acknowledgement, as the publisher chooses it."""

    AUTO = "auto"  # kept when the event has a lifetime or is owed to a durable subscription
    BEST_EFFORT = "best effort"  # accepted by the broker; survives no crash
    KEPT = "kept"  # on stable storage, or refused
    REPLICATED = "replicated"  # on stable storage at a majority of a group, or refused


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    """Base of every message. `tag=True` lets an extension leave its tag out; our own classes state theirs."""

    cut_field: ClassVar[str] = (
        ""  # the field that holds a sequence which may be sent in parts (see `batches.py`)
    )
    is_hop: ClassVar[bool] = False  # it takes an event over a link: the simulator counts it as a hop
    fills_frame: ClassVar[bool] = False  # it is sent in parts only when one frame would not hold it

    def in_parts(self, slices: Iterable[Any]) -> Iterator[Message]:
        """The same message in parts, for consecutive slices of its sequence, none of them empty."""
        return (msgspec.structs.replace(self, **{self.cut_field: part}) for part in slices)

    def one_by_one(self) -> Sequence[Message]:
        """The same in messages of one event each; itself when it does not carry several."""
        return (self,)


class Envelope(msgspec.Struct, frozen=True, array_like=True):
    """An event on its way between brokers."""

    event: Event
    origin: str  # the broker that accepted it
    offset: int | None = None  # its place in the origin's log; None: no log holds it
    sequence: int | None = None  # the publisher's counter
    remaining: float = 0.0  # seconds of lifetime that are left; clocks need not agree
    expires: float | None = None  # seconds until it ends for all subscribers
    headers: dict[str, Any] = {}


# -- client to broker -----------------------------------------------------------------------


class Hello(Message, frozen=True, tag="Hello"):
    """The first message on a client's link."""

    client: str
    incarnation: str
    version: int = VERSION
    owner: str = ""  # the principal, as the broker's gate says: what a client writes here does not count
    memory: int = 0  # bytes that may wait for the owner's subscriptions, likewise


class ClientJoined(Message, frozen=True, tag="Came"):
    """The client was at other brokers before, and its events here come after those there."""

    stay: int  # grows with each move
    places: dict[str, dict[str, int]]  # by source and log: the last offset that was acknowledged


class Publish(Message, frozen=True, tag="Publish"):
    call: int
    event: Event
    sequence: int  # the client's counter for this source; ascends
    mode: AckMode = AckMode.AUTO


class Subscribe(Message, frozen=True, tag="Subscribe"):
    call: int
    ref: int
    name: str
    filter: Filter
    options: DeliveryOptions
    named: bool = True  # False: the name is random, no client will come back under it
    after: dict[str, int] = {}  # token: by log, the offset up to which everything was handled
    credit: int = 0


class Home(Message, frozen=True, tag="Home"):
    """Before `Subscribe`: the client opened this durable subscription first at the broker of another log."""

    ref: int
    log: str


class MemberHoldings(Message, frozen=True, tag="Holdings"):
    """By log, the offsets that a member of a durable group holds uncommitted, and the last ones that it
    committed. Before `Subscribe`; later with commits of deliveries that came over an earlier link. Only to a
    broker that announces `Feature.HOLDINGS`."""

    ref: int
    taken: dict[str, tuple[int, ...]] = {}
    committed: dict[str, tuple[int, ...]] = {}


class Unsubscribe(Message, frozen=True, tag="Unsubscribe"):
    """Stop. With `end` False a durable subscription is only detached."""

    call: int
    ref: int
    end: bool = True
    takes_rest: bool = False  # the client acknowledges what was sent before; then it has left


class Credit(Message, frozen=True, tag="Credit"):
    """The client can take so many more; a negative number takes credit back."""

    ref: int
    amount: int


class Ack(Message, frozen=True, tag="Ack"):
    """The application is done with these deliveries."""

    ref: int
    tags: tuple[int, ...]


class AckAll(Message, frozen=True, tag="AckAll"):
    """`Ack` for so many deliveries whose tags follow one another."""

    ref: int
    tag: int  # the first
    count: int

    @property
    def tags(self) -> range:
        return range(self.tag, self.tag + min(self.count, MOST_TAGS))


class AckCredit(Message, frozen=True, tag="AckCredit"):
    """`Ack` and then `Credit`; only to a broker that announces `Feature.ACK_CREDIT`."""

    ref: int
    tags: tuple[int, ...]
    amount: int


class Nack(Message, frozen=True, tag="Nack"):
    """Deliver these again; `counted` False when the application never saw them. With a reason they become
    dead letters at once; only to a broker that announces `Feature.REJECT`."""

    ref: int
    tags: tuple[int, ...]
    counted: bool = True
    reason: str = ""


class Fence(Message, frozen=True, tag="Fence"):
    """Answer when everything before this was handled: what was given back has been sent again by then."""

    ref: int
    number: int


class Advertise(Message, frozen=True, tag="Advertise"):
    """The client may publish what this filter accepts."""

    call: int
    name: str
    filter: Filter


class Unadvertise(Message, frozen=True, tag="Unadvertise"):
    call: int
    name: str


class ReadLog(Message, frozen=True, tag="ReadLog"):
    """Read the broker's own log by filter; answered by `LogRead`."""

    call: int
    filter: Filter
    after: int = 0  # only what is beyond this offset
    limit: int = 256
    log: str = ""  # refuse when the log has another name
    superseded: bool = False  # also what is kept although a newer event has its key


class StageEvents(Message, frozen=True, tag="Stage"):
    """Keep these events, to be published with the rest of their batch; answered by `Staged`."""

    call: int
    query: str
    batch: int
    part: int
    events: tuple[Event, ...]
    log: str = ""  # where the rest of the batch is staged


class CommitStaged(Message, frozen=True, tag="CommitStaged"):
    """Publish all parts of a batch at once; answered by `Committed`."""

    call: int
    query: str
    batch: int
    parts: int
    log: str = ""


class CommitParts(Message, frozen=True, tag="CommitParts"):
    """As `CommitStaged`, of these very parts, in this order; other parts of the batch are dropped."""

    call: int
    query: str
    batch: int
    numbers: tuple[int, ...]
    log: str = ""


class HoldLog(Message, frozen=True, tag="HoldLog"):
    """Keep in the broker's log what the filter accepts, and forget no entry beyond a place; answered by
    `LogHeld`. The same name again moves the place on, never back."""

    call: int
    name: str
    filter: Filter
    upto: int = 0
    seconds: float = 0.0  # it ends when no client asks for it again for so long
    releases: bool = False  # events that live forever are archived up to the place: the log may let them go
    log: str = ""
    most_bytes: int = 0  # that it may keep in the log, as the broker's gate says; 0: no bound of its own
    superseding: bool = True  # False: an event is kept also when a newer one has its key


class EndHold(Message, frozen=True, tag="EndHold"):
    """Answered by `LogHeld`."""

    call: int
    name: str


class AskCommitted(Message, frozen=True, tag="AskCommitted"):
    """Which batch of this query was committed last? Answered by `Committed`."""

    call: int
    query: str


# -- broker to client -----------------------------------------------------------------------


class Welcome(Message, frozen=True, tag="Welcome"):
    broker: str
    log: str  # the name that positions in this broker's log carry
    version: int = VERSION
    event_bytes: int = 0  # the largest event that it accepts; 0: it does not say


class Published(Message, frozen=True, tag="Published"):
    call: int
    position: Position | None = None


class PublishedAll(Message, frozen=True, tag="PublishedAll"):
    """`Published` for each of so many calls, one after the other, that no log holds."""

    call: int  # the first
    count: int


class Advertised(Message, frozen=True, tag="Advertised"):
    """The answer to `Advertise` and to `Unadvertise`."""

    call: int


class Quench(Message, frozen=True, tag="Quench"):
    """Whether a subscriber wants what the client advertised."""

    digest: str  # of the filter that it advertised
    unwanted: bool


class Subscribed(Message, frozen=True, tag="Subscribed"):
    call: int
    ref: int
    subscriber: str  # with the name, the identity of the subscription
    name: str
    resumed: bool = False
    warning: str = ""  # it is open, and probably not what was meant
    narrowed: str = ""  # the filter that holds, when the client's rights allow a part of what it asked for


class Unsubscribed(Message, frozen=True, tag="Unsubscribed"):
    call: int
    ref: int


class Deliver(Message, frozen=True, tag="Deliver"):
    ref: int
    tag: int  # names this delivery in `Ack` and `Nack`
    event: Event
    position: Position | None = None
    attempt: int = 1  # grows when the application gives it back
    again: bool = False  # it was sent before, and is not acknowledged


class DeliverAll(Message, frozen=True, tag="DeliverAll"):
    """`Deliver` for each of these events, one after the other, that no member had before. No log holds them,
    or (`offsets`, only to a peer that announces `Feature.EVENT_RUNS`) one log holds all of them."""

    cut_field: ClassVar[str] = "events"

    ref: int
    tag: int  # of the first; those of the others follow
    events: tuple[Event, ...]
    log: str = ""
    offsets: tuple[int, ...] = ()  # of the events in that log

    def in_parts(self, slices: Iterable[Any]) -> Iterator[Message]:
        begin = 0
        for events in slices:
            end = begin + len(events)
            yield DeliverAll(self.ref, self.tag + begin, events, self.log, self.offsets[begin:end])
            begin = end

    def one_by_one(self) -> list[Deliver]:
        """The same in single messages."""
        ref, log = self.ref, self.log
        if not self.offsets:
            return [Deliver(ref, tag, event) for tag, event in enumerate(self.events, self.tag)]
        return [
            Deliver(ref, tag, event, Position(log, offset))
            for tag, (event, offset) in enumerate(zip(self.events, self.offsets, strict=True), self.tag)
        ]


class Fenced(Message, frozen=True, tag="Fenced"):
    """The answer to `Fence`."""

    ref: int
    number: int


class Silence(Message, frozen=True, tag="Silence"):
    """No more events for this subscription up to and including this position."""

    ref: int
    position: Position


class Lost(Message, frozen=True, tag="Lost"):
    """Number of notifications that this subscription lost so far, by the name of the policy or bound."""

    ref: int
    counts: dict[str, int]


class LogEntry(msgspec.Struct, frozen=True, array_like=True):
    """An event as the log holds it."""

    offset: int
    event: Event
    accepted: float  # when, by the broker's clock


class LogRead(Message, frozen=True, tag="LogRead"):
    call: int
    log: str
    entries: tuple[LogEntry, ...]
    upto: int  # everything up to here was looked at
    begin: int  # the first offset that the log still holds
    end: int  # the last that it holds


class LogHeld(Message, frozen=True, tag="LogHeld"):
    """State of the log, and the place of its hold."""

    call: int
    log: str
    begin: int
    end: int
    upto: int
    is_new: bool = False  # no subscription had this name
    released: int = 0  # up to there the log let go of events that are archived


class Staged(Message, frozen=True, tag="Staged"):
    call: int


class Committed(Message, frozen=True, tag="Committed"):
    """The last batch of this query that was committed; -1: none was."""

    call: int
    query: str
    batch: int
    is_new: bool = False  # False: it was committed before


class Refused(Message, frozen=True, tag="Refused"):
    """No, and why; `code` is that of a class in `tidings.errors`."""

    call: int
    code: str
    reason: str


class Closed(Message, frozen=True, tag="Closed"):
    """The broker ended this subscription of its own accord."""

    ref: int
    code: str
    reason: str


CLIENT_MESSAGES: tuple[type[Message], ...] = (
    Hello,
    Publish,
    Subscribe,
    Unsubscribe,
    Credit,
    Ack,
    Nack,
    Advertise,
    Unadvertise,
    Fence,
    ClientJoined,
    ReadLog,
    StageEvents,
    CommitStaged,
    AskCommitted,
    Home,
    CommitParts,
    HoldLog,
    EndHold,
    AckAll,
    AckCredit,
    MemberHoldings,
)
BROKER_MESSAGES: tuple[type[Message], ...] = (
    Welcome,
    Published,
    Subscribed,
    Unsubscribed,
    Deliver,
    Silence,
    Lost,
    Refused,
    Closed,
    Advertised,
    Fenced,
    LogRead,
    Staged,
    Committed,
    LogHeld,
    DeliverAll,
    PublishedAll,
    Quench,
)


def tag_of(kind: type) -> str:
    """Name of a class of messages on the wire; a class that is no message has the name of the class."""
    config = getattr(kind, "__struct_config__", None)
    return kind.__name__ if config is None or config.tag is None else str(config.tag)


def union(declared: Iterable[type[Message]] = ()) -> Any:
    """The type of every message: ours, and those that strategies declare. For decoders."""
    types = dict.fromkeys((*CLIENT_MESSAGES, *BROKER_MESSAGES, *declared))
    return Union[tuple(types)]  # noqa: UP007 - built from a tuple
