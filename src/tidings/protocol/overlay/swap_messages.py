"""Messages between brokers that rearrange their links.

Discovery: `DiscoveryRequest` (DREQ) away from the broker that asks, `DiscoveryReply` (DREP) back, after a
`DiscoveryPartial` when some answers are missing.
Reconfiguration: `LockPath` from one end of the path to the other, `LockReply` (ACK, NACK) back,
`InterestComplete` over the new link, `CloseOldLink` toward the link that goes, `LinkClosing` and `LinkClosed`
over it, `UnlockPath` away from it. After a failure: `SwapVerdictRequest` and `SwapVerdict`; `LinkUnknown` to
a broker that believes in a link that is no more. For brokers that keep alpha: `SubtreeSize`.
"""

from __future__ import annotations

from tidings.protocol.messages import Message
from tidings.protocol.overlay.choosing import Hop, LinkOffer


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
    offer: LinkOffer | None


class DiscoveryPartial(Message, frozen=True, tag="DiscoveryPartial"):
    """Before a reply: it is not all, a broker on the way did not answer in time."""

    request: str


class LockPath(Message, frozen=True, tag="Lock"):
    swap: str
    path: tuple[str, ...]
    cut: int  # the link between brokers cut - 1 and cut of the path goes


class LockReply(Message, frozen=True, tag="LockAnswer"):
    swap: str
    is_locked: bool
    reason: str = ""


class InterestComplete(Message, frozen=True, tag="TablesTold"):
    """Over the new link: all that is wanted here was told before this."""

    swap: str


class CloseOldLink(Message, frozen=True, tag="Close"):
    """Every event that could not go over the new link is before this one."""

    swap: str


class LinkClosing(Message, frozen=True, tag="Closing"):
    """No more messages will come over this link."""

    swap: str


class LinkClosed(Message, frozen=True, tag="LinkClosed"):
    """The link is no more: it is decided."""

    swap: str


class UnlockPath(Message, frozen=True, tag="Unlock"):
    swap: str
    is_done: bool  # False: it was given up


class SwapVerdictRequest(Message, frozen=True, tag="AskVerdict"):
    """Was this swap done? Passed on everywhere until it reaches the one that decides."""

    swap: str
    decider: str
    path: tuple[str, ...]


class SwapVerdict(Message, frozen=True, tag="Verdict"):
    swap: str
    is_done: bool
    path: tuple[str, ...]


class SubtreeSize(Message, frozen=True, tag="Crowd"):
    """Number of brokers on the sender's side of this link."""

    brokers: int


class LinkUnknown(Message, frozen=True, tag="Gone"):
    """There is no link between us, as far as the sender knows."""
