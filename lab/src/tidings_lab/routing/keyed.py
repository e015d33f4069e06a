"""Common part of routing toward keys: its knobs, versions of its messages, and sending to any broker."""

from __future__ import annotations

import msgspec

from tidings.model.event import Event
from tidings.protocol.messages import Message
from tidings.protocol.roles import KeyLookup
from tidings.protocol.routing.one_by_one import OneByOne
from tidings.protocol.slots import Ports
from tidings_lab.routing.rendezvous_messages import Version

MOST_HOPS = 64  # toward a key: no way of sound tables is so long


class TreeSettings(msgspec.Struct, frozen=True, kw_only=True):
    retry_seconds: float = 0.5
    tries: int = 3  # until a parent is doubted
    refresh_seconds: float = 5.0
    children_seconds: float = 18.0  # without a word of it a child is forgotten
    quench_seconds: float = 10.0
    remembered: int = 4096  # events, so that none is taken twice
    most_filters: int = 64  # on a graft: more are told as: everything

    @property
    def slack(self) -> float:
        """Seconds by which a timer may be early."""
        return self.retry_seconds / 4


class KeyRouting(OneByOne):
    """Routing to the broker that is responsible for a key now. A version orders messages, in this life and
    the next."""

    needs = (KeyLookup,)

    def __init__(self, settings: TreeSettings | None) -> None:
        self.settings = settings or TreeSettings()
        self._count = 0
        self.dropped = 0  # events that climbed too far

    def bind(self, ports: Ports) -> None:
        super().bind(ports)
        self._life = f"{ports.rng.getrandbits(32):08x}"

    def new_version(self) -> Version:
        self._count += 1
        return (self._life, self._count)

    def next_hop(self, key: str) -> str | None:
        """The link toward the broker that is responsible for a key; None: we are."""
        return self.ports.keys.next_hop(key)

    def keys_of(self, event: Event) -> tuple[str, ...]:
        """The keys whose brokers match this event."""
        return self.ports.placement.resolve(event) or ()

    def send(self, to: str, message: Message, address: str = "") -> None:
        self.ports.keys.reach(to, message, address)
