"""Sending to any broker that is known: by datagram, or over links that are made when they are needed.

Rules
- By datagram nothing is prepared, and what is lost is lost.
- Over links the first word to a broker asks the driver for a link (`Connect`); what is said meanwhile waits, up to
  `MOST_WAITING` messages. A link that is neither used nor to a node of the overlay's sets is closed after a while.
- Whoever joins by itself is let in.
"""

from __future__ import annotations

from collections.abc import Container

from tidings.protocol.effects import Channel, Connect, Disconnect
from tidings.protocol.inputs import Input, Joined, LinkDown, LinkUp
from tidings.protocol.messages import Message
from tidings.protocol.slots import Ports

MOST_WAITING = 256  # messages for one broker, until its link stands
IDLE_SECONDS = 60.0


class Reach:
    def __init__(self, ports: Ports, *, linked: bool) -> None:
        self._ports = ports
        self.linked = linked
        self._waiting: dict[str, list[Message]] = {}  # by broker whose link is being made
        self._up: dict[str, float] = {}  # by linked broker: when it was last used
        self._joined: set[str] = set()  # who may be linked with us
        self._now = 0.0

    def links(self) -> tuple[str, ...]:
        return tuple(self._up)

    def send(self, to: str, message: Message, address: str) -> None:
        if not self.linked:
            self._ports.send(to, message, Channel.DATAGRAM)
        elif to in self._up:
            self._up[to] = self._now
            self._ports.send(to, message)
        else:
            if to not in self._waiting:
                self._joined.add(to)
                self._ports.emit(Connect(to, address))
            waiting = self._waiting.setdefault(to, [])
            if len(waiting) < MOST_WAITING:
                waiting.append(message)

    def on_input(self, input: Input, now: float) -> str | None:
        """A broker with which a link came up."""
        self._now = now
        match input:
            case Joined():
                self._joined.add(input.peer)
                self._ports.emit(Connect(input.peer))
            case LinkUp() if input.peer in self._joined:
                self._up[input.peer] = now
                for message in self._waiting.pop(input.peer, ()):
                    self._ports.send(input.peer, message)
                return input.peer
            case LinkDown():
                self._up.pop(input.peer, None)
        return None

    def give_up(self, peer: str) -> None:
        """It is gone: nobody dials it any more."""
        if self.linked and peer in self._joined:
            self._joined.discard(peer)
            self._waiting.pop(peer, None)
            self._up.pop(peer, None)
            self._ports.emit(Disconnect(peer, "it does not answer", for_good=True))

    def tidy(self, wanted: Container[str], now: float) -> None:
        """Close what nobody needs."""
        self._now = now
        for peer in [p for p, used in self._up.items() if p not in wanted and used + IDLE_SECONDS < now]:
            self._joined.discard(peer)
            del self._up[peer]
            self._ports.emit(Disconnect(peer, "it is not needed", for_good=True))
