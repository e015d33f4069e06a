"""A link that is lost while both its ends are well: one end is linked with a neighbour of the other instead.

An end asks the far end's neighbours, as if that were lost (`healing.py`). One that has a link to it knows
better. Rules
- It first takes the one that asks for a neighbour, so that everything is kept for it from then on, and then
  asks the far end (`BypassRequest`), which agrees only if its link is down too, and has been for as long.
- When the far end agrees (`BypassReply`), the one that asked is told so, and gives the link up. The far end
  keeps everything for it until it and all behind it have what they missed (`CaughtUpNotice`), and gives the
  link up then: only the far end keeps what the brokers in between have acknowledged already. When it does not
  agree, everything stays as it was.
- Until then logs are heard from two sides, which does not count as a cycle.
- Both ends may look for a detour at once: of two that ask, the one whose name is less goes on. Two detours
  would close a cycle, of which the youngest link is undone (`cycle_repair.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

from tidings.availability.records import Delete, Put, Record
from tidings.protocol.inputs import Parted
from tidings.protocol.messages import Message
from tidings.protocol.slots import Ports

GIVEN_WAY = "overlay.given_way"  # table: brokers whose link with us was given up, and the bypass to each
AROUND = "the link to it is lost; there is another way round"
TAKEN_SECONDS = 60.0  # in which a broker has come round, or is let go again
LOOK_SECONDS = 1.0  # between two looks whether we have all
NOT_NEEDED = "it is not needed any more"


class BypassRequest(Message, frozen=True, tag="Detour"):
    """This broker asks us for a link, since that with you is lost: is it?"""

    peer: str


class BypassReply(Message, frozen=True, tag="DetourAnswer"):
    """The link to this broker may be given up, or not.

    To the one that asked: and you are linked with us instead.
    """

    peer: str
    agrees: bool


class CaughtUpNotice(Message, frozen=True, tag="Caught"):
    """A broker that came round has all that it missed: who kept that for it may let go.

    Passed on to the far end.
    """

    peer: str
    far: str


class BypassOverlay(Protocol):
    """Interface of the overlay, as detours use it."""

    ports: Ports

    def has_given_up(self, peer: str) -> bool:
        """Was this neighbour away for too long?"""

    def take_in(self, peer: str, now: float, then: Callable[[float], None]) -> None:
        """Have it for a neighbour, once that is written down."""

    def links(self) -> tuple[str, ...]: ...

    def is_asking(self, lost: str) -> bool:
        """Do we look for a way round ourselves just now?"""

    def stop_asking(self, lost: str) -> None: ...

    def write(self, rows: list[Record]) -> None: ...


class BypassLinks:
    def __init__(self, here: BypassOverlay) -> None:
        self._here = here
        self._pending: dict[str, str] = {}  # by broker that asks us: the other end of its lost link
        self._agreed: dict[str, None] = {}  # brokers that come another way soon
        self._gave_way: dict[str, None] = {}  # brokers whose link with us was given up
        self._catching_up: dict[str, str] = {}  # of those, the ones with a bypass, and over which broker
        self._taken_in: dict[str, float] = {}  # brokers that come round over us, and until when they may
        self._marks: dict[str, dict[str, int]] = {}  # by these: what we and those behind us have to have
        self.due: float | None = None

    def load(self, table: Mapping[str, bytes]) -> None:
        self._gave_way = dict.fromkeys(table)
        self._catching_up = {far: over.decode() for far, over in table.items() if over}

    def gave_way(self, peer: str) -> bool:
        return peer in self._gave_way

    def is_pending(self, peer: str) -> bool:
        return peer in self._pending

    def ask(self, peer: str, far: str, now: float) -> None:
        """A broker has lost its link to a neighbour of ours, which is well as far as we see."""
        self._pending[peer] = far
        self._taken_in[peer] = now + TAKEN_SECONDS
        self._here.take_in(peer, now, partial(self._ask_far, peer, far))

    def _ask_far(self, peer: str, far: str, _now: float) -> None:
        self._here.ports.send(far, BypassRequest(peer))

    def on_bypass_request(self, sender: str, request: BypassRequest, now: float) -> None:
        here, peer = self._here, request.peer
        is_first = here.is_asking(peer) and here.ports.name < peer
        if here.has_given_up(peer) and not is_first:
            self._agreed[peer] = None
            here.stop_asking(peer)
            here.ports.log_paths.elsewhere(peer, now)
        here.ports.send(sender, BypassReply(peer, peer in self._agreed))

    def give_way(self, peer: str, over: str, now: float) -> None:
        """Our link with it is lost, and we are linked with a neighbour of it instead."""
        self._agreed[peer], self._catching_up[peer] = None, over
        self._marks.pop(peer, None)
        self._here.stop_asking(peer)
        self._here.ports.events.parted(Parted(peer, AROUND, is_elsewhere=True), now)

    def parted(self, peer: str) -> None:
        """The broker is no neighbour any more: not after a restart either, even if the configuration names
        it."""
        if peer in self._agreed:
            del self._agreed[peer]
            self._gave_way[peer] = None
            over = self._catching_up.get(peer, "")
            self._here.write([Put(GIVEN_WAY, peer, over.encode())])

    def has_agreed(self, peer: str) -> bool:
        """Does it come another way soon?"""
        return peer in self._agreed

    def linked(self, peer: str) -> None:
        """There is a link to it again: what was given up once counts no longer."""
        self._agreed.pop(peer, None)
        if peer in self._gave_way:
            del self._gave_way[peer]
            self._catching_up.pop(peer, None)
            self._here.write([Delete(GIVEN_WAY, peer)])

    def on_answer(self, sender: str, answer: BypassReply, now: float) -> bool:
        """The far end's word, at the one in between; False: it is not about a detour over us."""
        peer = answer.peer
        if self._pending.get(peer) != sender:
            return False
        self._settle(peer, sender, answer.agrees, now)
        return True

    def _settle(self, peer: str, far: str, agrees: bool, now: float) -> None:
        del self._pending[peer]
        self._here.ports.send(peer, BypassReply(far, agrees))
        if not agrees:
            del self._taken_in[peer]
            self._here.ports.events.parted(Parted(peer, NOT_NEEDED, is_elsewhere=True), now)

    # -- catching up -----------------------------------------------------------------------------

    def is_taken_in(self, peer: str, now: float) -> bool:
        return self._taken_in.get(peer, now) > now

    def is_coming_round(self, peer: str, now: float) -> bool:
        """Is the broker heard on two ways, for a while?"""
        return peer in self._agreed or self.is_taken_in(peer, now)

    def look_later(self, now: float) -> None:
        if self._catching_up and self.due is None:
            self.due = now + LOOK_SECONDS

    def on_timer(self, now: float) -> None:
        """Have we, and those behind us, all that we missed?"""
        if self.due is None or now < self.due:
            return
        self.due = None
        paths = self._here.ports.log_paths
        for far, link in list(self._catching_up.items()):
            if far not in self._marks and link in self._here.links():
                found = paths.marks(link)
                if found is not None:
                    self._marks[far] = found
            elif far in self._marks and paths.is_settled(self._marks[far]):
                del self._catching_up[far], self._marks[far]
                self._here.ports.send(link, CaughtUpNotice(self._here.ports.name, far))
        self.look_later(now)

    def on_caught(self, caught: CaughtUpNotice, now: float) -> None:
        here, peer = self._here, caught.peer
        if caught.far in here.links():
            self._taken_in.pop(peer, None)
            here.ports.send(caught.far, caught)
        elif caught.far == here.ports.name and peer in self._agreed:
            here.ports.events.parted(Parted(peer, AROUND, is_elsewhere=True), now)

    def lost(self, peer: str, now: float) -> None:
        """A link is down: without the far end's word everything stays as it was."""
        for waiting in [each for each, far in self._pending.items() if far == peer]:
            self._settle(waiting, peer, False, now)
