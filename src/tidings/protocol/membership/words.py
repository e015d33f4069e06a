"""What peers tell one another about who is there. All of it travels as datagrams and may be lost."""

from __future__ import annotations

from tidings.protocol.membership.probing import News
from tidings.protocol.membership.tables import Told
from tidings.protocol.messages import Message


class Arriving(Message, frozen=True):
    """A newcomer to one whom it was told of; answered by `Found`."""

    me: Told


class Shuffle(Message, frozen=True):
    """A part of the view of a scope, and with it what a group shares: its supertopic tables, its size."""

    scope: str
    members: tuple[Told, ...]
    supers: tuple[Told, ...] = ()
    epoch: int = 0
    least: tuple[float, ...] = ()
    is_answer: bool = False
    news: tuple[News, ...] = ()


class Search(Message, frozen=True):
    """Who belongs to one of these topics?"""

    seeker: Told
    number: int
    topics: tuple[str, ...]
    ttl: int


class Found(Message, frozen=True):
    members: tuple[Told, ...]


class Fresh(Message, frozen=True):
    """Name some others of your group; answered by `Found`."""

    topics: tuple[str, ...]
    count: int


class Ping(Message, frozen=True):
    number: int
    news: tuple[News, ...] = ()


class Pong(Message, frozen=True):
    number: int
    me: Told
    news: tuple[News, ...] = ()


class PingFor(Message, frozen=True):
    """Ping a member for us; answered by `Pong` with our number."""

    number: int
    target: str


class Leaving(Message, frozen=True):
    incarnation: int
    topics: tuple[str, ...] = ()  # the groups that are left; none: all
