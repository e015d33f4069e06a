"""Messages between brokers that rearrange their links.

Discovery: `DiscoveryRequest` (DREQ) away from the broker that asks, `DiscoveryReply` (DREP) back, after a
`DiscoveryPartial` when some answers are missing.
Reconfiguration: `Lock` from one end of the path to the other, `LockAnswer` (ACK, NACK) back, `TablesTold` over
the new link, `Close` toward the link that goes, `Closing` and `LinkClosed` over it, `Unlock` away from it.
After a failure: `AskVerdict` and `Verdict`; `Gone` to a broker that believes in a link that is no more.
For brokers that keep alpha: `Crowd`.
"""

from __future__ import annotations

from tidings.protocol.messages import Message
from tidings.protocol.overlay.choosing import Hop, Offer


class DiscoveryRequest(Message, frozen=True, tag="DiscoveryRequest"):
    request: str
    zone: bytes  # of the broker that asks, as it is now
    nearest: bytes  # the zone of the broker that sends this on
    hops: tuple[Hop, ...]  # up to that broker
    ttl: int
    patience: float  # seconds in which an answer is of use
    address: str = ""  # of the broker that asks, to measure how far it is


class DiscoveryReply(Message, frozen=True, tag="DiscoveryReply"):
    request: str
    offer: Offer | None


class DiscoveryPartial(Message, frozen=True, tag="DiscoveryPartial"):
    """Before a reply: it is not all, a broker on the way did not answer in time."""

    request: str


class Lock(Message, frozen=True, tag="Lock"):
    swap: str
    path: tuple[str, ...]
    cut: int  # the link between brokers cut - 1 and cut of the path goes


class LockAnswer(Message, frozen=True, tag="LockAnswer"):
    swap: str
    is_locked: bool
    reason: str = ""


class TablesTold(Message, frozen=True, tag="TablesTold"):
    """Over the new link: all that is wanted here was told before this."""

    swap: str


class Close(Message, frozen=True, tag="Close"):
    """Every event that could not go over the new link is before this one."""

    swap: str


class Closing(Message, frozen=True, tag="Closing"):
    """No more messages will come over this link."""

    swap: str


class LinkClosed(Message, frozen=True, tag="LinkClosed"):
    """The link is no more: it is decided."""

    swap: str


class Unlock(Message, frozen=True, tag="Unlock"):
    swap: str
    is_done: bool  # False: it was given up


class AskVerdict(Message, frozen=True, tag="AskVerdict"):
    """Was this swap done? Passed on everywhere until it reaches the one that decides."""

    swap: str
    decider: str
    path: tuple[str, ...]


class Verdict(Message, frozen=True, tag="Verdict"):
    swap: str
    is_done: bool
    path: tuple[str, ...]


class Crowd(Message, frozen=True, tag="Crowd"):
    """Number of brokers on the sender's side of this link."""

    brokers: int


class Gone(Message, frozen=True, tag="Gone"):
    """There is no link between us, as far as the sender knows."""
