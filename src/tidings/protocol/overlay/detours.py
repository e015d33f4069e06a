"""A link that is lost while both its ends are well: one end is linked with a neighbour of the other instead.

An end asks the far end's neighbours, as if that were lost (`healing.py`). One that has a link to it knows better. Rules
- It first takes the one that asks for a neighbour, so that everything is kept for it from then on, and then asks the
  far end (`Detour`), which agrees only if its link is down too, and has been for as long.
- When the far end agrees (`DetourAnswer`), the one that asked is told so, and gives the link up. The far end keeps
  everything for it until it hears of it on the new way, and gives the link up then. When it does not agree, everything
  stays as it was.
- Both ends may look for a detour at once: two detours close a cycle, and the younger is undone (`circles.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from tidings.availability.records import Delete, Put, Record
from tidings.protocol.inputs import Parted
from tidings.protocol.messages import Message
from tidings.protocol.slots import Ports

GIVEN_WAY = "overlay.given_way"  # table: brokers whose link with us was given up for a detour
AROUND = "the link to it is lost; there is another way round"
NOT_NEEDED = "it is not needed any more"


class Detour(Message, frozen=True):
    """This broker asks us for a link, since that with you is lost: is it?"""

    peer: str


class DetourAnswer(Message, frozen=True):
    """The link to this broker may be given up, or not. To the one that asked: and you are linked with us instead."""

    peer: str
    agrees: bool


class Here(Protocol):
    """What detours need of the overlay that they are part of."""

    ports: Ports

    def has_given_up(self, peer: str) -> bool:
        """Is it a neighbour that was away for too long?"""

    def take_in(self, peer: str, now: float, then: Callable[[float], None]) -> None:
        """Have it for a neighbour, once that is written down."""

    def stop_asking(self, lost: str) -> None: ...

    def write(self, rows: list[Record]) -> None: ...


class Detours:
    def __init__(self, here: Here) -> None:
        self._here = here
        self._pending: dict[str, str] = {}  # by broker that asks us: the other end of its lost link
        self._agreed: dict[str, None] = {}  # brokers that come another way soon
        self._gave_way: dict[str, None] = {}  # brokers whose link with us was given up

    def load(self, table: Iterable[str]) -> None:
        self._gave_way = dict.fromkeys(table)

    def gave_way(self, peer: str) -> bool:
        return peer in self._gave_way

    def is_pending(self, peer: str) -> bool:
        return peer in self._pending

    def ask(self, peer: str, far: str, now: float) -> None:
        """A broker has lost its link to a neighbour of ours, which is well as far as we see."""
        self._pending[peer] = far
        self._here.take_in(peer, now, partial(self._ask_far, peer, far))

    def _ask_far(self, peer: str, far: str, _now: float) -> None:
        self._here.ports.send(far, Detour(peer))

    def on_detour(self, sender: str, detour: Detour, now: float) -> None:
        here, peer = self._here, detour.peer
        if here.has_given_up(peer):
            self._agreed[peer] = None
            here.stop_asking(peer)
        here.ports.send(sender, DetourAnswer(peer, peer in self._agreed))

    def give_way(self, peer: str, now: float) -> None:
        """Our link with it is lost, and we are linked with a neighbour of it instead."""
        self._agreed[peer] = None
        self._here.stop_asking(peer)
        self._here.ports.events.parted(Parted(peer, AROUND, is_elsewhere=True), now)

    def parted(self, peer: str) -> None:
        """It is no neighbour any more: not after a restart either, whatever the configuration says."""
        if peer in self._agreed:
            del self._agreed[peer]
            self._gave_way[peer] = None
            self._here.write([Put(GIVEN_WAY, peer, b"")])

    def has_agreed(self, peer: str) -> bool:
        """Does it come another way soon?"""
        return peer in self._agreed

    def linked(self, peer: str) -> None:
        """There is a link to it again: what was given up once counts no longer."""
        self._agreed.pop(peer, None)
        if peer in self._gave_way:
            del self._gave_way[peer]
            self._here.write([Delete(GIVEN_WAY, peer)])

    def on_answer(self, sender: str, answer: DetourAnswer, now: float) -> bool:
        """The far end's word, at the one in between; False: it is not about a detour over us."""
        peer = answer.peer
        if self._pending.get(peer) != sender:
            return False
        del self._pending[peer]
        if not answer.agrees:
            self._here.ports.events.parted(Parted(peer, NOT_NEEDED, is_elsewhere=True), now)
        self._here.ports.send(peer, DetourAnswer(sender, answer.agrees))
        return True

    def lost(self, peer: str) -> None:
        """A link is down: whoever waits for an answer over it will ask again."""
        for waiting in [each for each, far in self._pending.items() if peer in (each, far)]:
            del self._pending[waiting]
