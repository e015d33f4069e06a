"""Messages between peers about membership. All of them travel as datagrams and may be lost."""

from __future__ import annotations

from tidings.protocol.membership.probing import News
from tidings.protocol.membership.tables import PeerRecord
from tidings.protocol.messages import Message


class PeerJoin(Message, frozen=True, tag="PeerArriving"):
    """From a newcomer to a member that it was told of; answered by `PeerFound`."""

    me: PeerRecord


class PeerShuffle(Message, frozen=True, tag="PeerShuffle"):
    """A part of the view of a scope, and with it what a group shares: its supertopic tables, its size."""

    scope: str
    members: tuple[PeerRecord, ...]
    supers: tuple[PeerRecord, ...] = ()
    epoch: int = 0
    least: tuple[float, ...] = ()
    is_answer: bool = False
    news: tuple[News, ...] = ()


class PeerSearch(Message, frozen=True, tag="PeerSearch"):
    """Who belongs to one of these topics?"""

    seeker: PeerRecord
    number: int
    topics: tuple[str, ...]
    ttl: int


class PeerFound(Message, frozen=True, tag="PeerFound"):
    members: tuple[PeerRecord, ...]


class PeerSubscribe(Message, frozen=True, tag="PeerFresh"):
    """Name some others of your group; answered by `PeerFound`."""

    topics: tuple[str, ...]
    count: int


class PeerPing(Message, frozen=True, tag="PeerPing"):
    number: int
    news: tuple[News, ...] = ()


class PeerPong(Message, frozen=True, tag="PeerPong"):
    number: int
    me: PeerRecord
    news: tuple[News, ...] = ()


class PeerPingFor(Message, frozen=True, tag="PeerPingFor"):
    """Ping a member for us; answered by `PeerPong` with our number."""

    number: int
    target: str


class PeerLeave(Message, frozen=True, tag="PeerLeaving"):
    incarnation: int
    topics: tuple[str, ...] = ()  # the groups that are left; none: all
