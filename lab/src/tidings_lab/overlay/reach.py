"""Sending to any broker that is known: by datagram, or over links that are made when they are needed.

Rules
- A datagram needs no preparation, and a lost one is not repeated.
- Over links the first word to a broker asks the driver for a link (`OpenLink`); what is said meanwhile waits,
  up to `MOST_WAITING` messages. A link that is neither used nor to a node of the overlay's sets is closed
  after a while.
- A broker that joins by itself is let in.
"""

from __future__ import annotations

from collections.abc import Container

from tidings.protocol.effects import Channel, CloseLink, OpenLink
from tidings.protocol.inputs import Input, Joined, LinkDown, LinkUp
from tidings.protocol.messages import Message
from tidings.protocol.slots import Ports

MOST_WAITING = 256  # messages for one broker, until its link stands
IDLE_SECONDS = 60.0


class Reach:
    def __init__(self, ports: Ports, *, linked: bool) -> None:
        self._ports = ports
        self.linked = linked
        self._waiting: dict[
            str, tuple[float, list[Message]]
        ] = {}  # by broker whose link is being made, since when
        self._up: dict[str, float] = {}  # by linked peer, clients too: when it was last used
        self._brokers: set[str] = set()  # that joined, or that we asked for a link
        self._now = 0.0

    def links(self) -> tuple[str, ...]:
        return tuple(peer for peer in self._up if peer in self._brokers)

    def send(self, to: str, message: Message, address: str) -> None:
        if not self.linked:
            self._ports.send(to, message, Channel.DATAGRAM)
        elif to in self._up:
            self._up[to] = self._now
            self._ports.send(to, message)
        else:
            self._queue(to, message, address)

    def _queue(self, to: str, message: Message, address: str) -> None:
        if to not in self._waiting:
            self._brokers.add(to)
            self._waiting[to] = (self._now, [])
            self._ports.emit(OpenLink(to, address))
        waiting = self._waiting[to][1]
        if len(waiting) < MOST_WAITING:
            waiting.append(message)

    def on_input(self, input: Input, now: float) -> str | None:
        """A broker with which a link came up."""
        self._now = now
        match input:
            case Joined():
                self._brokers.add(input.peer)
                self._ports.emit(OpenLink(input.peer))
            case LinkUp() if self.linked:
                self._up[input.peer] = now
                for message in self._waiting.pop(input.peer, (now, []))[1]:
                    self._ports.send(input.peer, message)
                return input.peer if input.peer in self._brokers else None
            case LinkDown():
                self._up.pop(input.peer, None)
        return None

    def give_up(self, peer: str) -> None:
        """The broker is gone: it is dialled no more."""
        if peer in self._brokers:
            self._close(peer, "it does not answer")

    def _close(self, peer: str, reason: str) -> None:
        self._brokers.discard(peer)
        self._waiting.pop(peer, None)
        self._up.pop(peer, None)
        self._ports.emit(CloseLink(peer, reason, for_good=True))

    def tidy(self, wanted: Container[str], now: float) -> None:
        """Close links that are not needed, and give up brokers that no link reaches."""
        self._now = now
        idle = [p for p, used in self._up.items() if p in self._brokers and used + IDLE_SECONDS < now]
        for peer in idle:
            if peer not in wanted:
                self._close(peer, "it is not needed")
        for peer in [p for p, (since, _) in self._waiting.items() if since + IDLE_SECONDS < now]:
            self._close(peer, "there is no way to it")
