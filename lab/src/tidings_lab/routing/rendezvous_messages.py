"""Messages between brokers in systems of rendezvous."""

from __future__ import annotations

from typing import ClassVar

from tidings.model.filter import Filter
from tidings.protocol.messages import Envelope, Message

Version = tuple[str, int]  # of a node's life, and a counter in it


class Graft(Message, frozen=True, tag="Graft"):
    """We are in the tree of a key below you; said again from time to time. Answered by `Grafted`."""

    key: str
    version: Version
    filters: tuple[Filter, ...] | None = None  # what is wanted below us; None: everything of the key


class Grafted(Message, frozen=True, tag="Grafted"):
    key: str
    version: Version


class Prune(Message, frozen=True, tag="Prune"):
    """We are not in that tree below you any more."""

    key: str
    version: Version


class Climb(Message, frozen=True, tag="Climb"):
    """An event on its way to the brokers that are responsible for these keys."""

    is_hop: ClassVar[bool] = True

    keys: tuple[str, ...]
    envelope: Envelope
    hops: int = 1
    address: str = ""  # where the broker is reached that accepted it


class Descend(Message, frozen=True, tag="Descend"):
    """An event on its way down the trees of these keys."""

    is_hop: ClassVar[bool] = True

    keys: tuple[str, ...]
    envelope: Envelope


class KeyUnwanted(Message, frozen=True, tag="KeyUnwanted"):
    """The tree of this key is empty: for so long, send us no event for it."""

    key: str
    seconds: float


class KeyWanted(Message, frozen=True, tag="KeyWanted"):
    """The tree of this key has a member again."""

    key: str


class Enrol(Message, frozen=True, tag="Enrol"):
    """All the filters of one broker that belong to a key, for the broker that is responsible for it."""

    key: str
    access: str
    version: Version
    filters: tuple[Filter, ...]
    hops: int = 1
    address: str = ""  # of the broker that holds these filters


class Enrolled(Message, frozen=True, tag="Enrolled"):
    key: str
    version: Version
