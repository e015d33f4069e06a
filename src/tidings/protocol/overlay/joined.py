"""A tree that grows: each broker is told which broker to join, and remembers those that joined it.

Rules
- A neighbour is kept on the disk before its link is used. From then on events are kept for it, also by
  a next life that begins while it is away.
- A broker that is already reached on another way may not join: the overlay would have a cycle, and
  events of one log would come from two sides. A cycle that two joins at the same moment close is found
  afterwards, and the younger join is undone (`cycle_repair.py`); for a while it is not tried again.
- A neighbour stays one until it is `Parted`. After a lost disk one more counts as missing, until those that
  are back have said which brokers were behind this one (`recovery/recall.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import ClassVar

import msgspec

from tidings.availability.records import Delete, Put, Record
from tidings.protocol.effects import CloseLink, OpenLink
from tidings.protocol.inputs import Input, Joined, Parted, PersistFailed, Started
from tidings.protocol.messages import Message
from tidings.protocol.naming import UNKNOWN
from tidings.protocol.overlay.cycle_repair import MESSAGES, CutLink, CycleQuery, CycleRepair, LinkUndone
from tidings.protocol.overlay.static import StaticOverlay
from tidings.protocol.slots import Ports

NEIGHBOURS = "overlay.neighbours"  # table: by name, when it joined
UNDONE_SECONDS = (
    5.0,
    10.0,
)  # until a link that was undone may be tried again: logs are known everywhere then
UNDONE = (
    "this link closed a cycle together with another that was made at the same moment, and was undone; "
    "join one broker of a network only"
)


class JoinedOverlay(StaticOverlay):
    name = "joined"
    joins: ClassVar[bool] = True
    messages: ClassVar[tuple[type[Message], ...]] = MESSAGES

    def __init__(self, neighbours: Iterable[str] = (), parent: str | None = None) -> None:
        super().__init__(neighbours, parent)
        self._joining: set[str] = set()  # on their way to the disk
        self._since: dict[str, float] = {}  # by neighbour: when it joined
        self._undone: dict[str, float] = {}  # by broker: until when it may not join again
        self.circles_undone = 0

    def bind(self, ports: Ports) -> None:
        super().bind(ports)
        self._cycle_repair = CycleRepair(ports, lambda peer: self._since.get(peer, 0.0), self._undo)

    def on_input(self, input: Input, now: float) -> None:
        if isinstance(input, Started):
            for peer, since in sorted(input.state.tables.get(NEIGHBOURS, {}).items()):
                self._add(peer, msgspec.msgpack.decode(since, type=float))
        elif isinstance(input, Joined):
            self._join(input.peer, now)
        elif isinstance(input, Parted):
            self._part(input)
        else:
            super().on_input(input, now)

    def on_message(self, sender: str, message: Message, now: float) -> None:
        if sender not in self._up:
            return
        if isinstance(message, CycleQuery):
            self._cycle_repair.on_cycle_query(sender, message, now)
        elif isinstance(message, CutLink):
            self._cycle_repair.on_cut(message, now)
        elif isinstance(message, LinkUndone):
            self._undo(sender, now)

    def peers(self) -> tuple[str, ...]:
        return (*self.neighbours, UNKNOWN) if self.ports.log_paths.is_unsure else self.neighbours

    def received_from_two(self, log: str, upstream: str, other: str, now: float) -> None:
        if upstream in self._up:
            self._cycle_repair.suspect(log, upstream, other, now)
        elif upstream in self.neighbours:
            self._undo(upstream, now)  # the far end undid the link, and could not say so

    def _undo(self, peer: str, now: float) -> None:
        """A link that closed a cycle: as if it had never been, but what came over it comes another way."""
        if peer not in self.neighbours:
            return
        self.circles_undone += 1
        self._undone[peer] = now + self.ports.rng.uniform(*UNDONE_SECONDS)
        if peer in self._up:
            self.ports.send(peer, LinkUndone())
        self.ports.events.parted(Parted(peer, UNDONE, is_elsewhere=True), now)

    def _add(self, peer: str, since: float) -> None:
        if peer not in self.neighbours:
            self.neighbours = (*self.neighbours, peer)
            self._since[peer] = since

    def _join(self, peer: str, now: float) -> None:
        if peer in self.neighbours:
            self.ports.emit(OpenLink(peer))
            return
        problem = self._problem(peer, now)
        if problem is not None:
            self.ports.emit(CloseLink(peer, problem))
        elif peer not in self._joining:
            self._joining.add(peer)
            row = Put(NEIGHBOURS, peer, msgspec.msgpack.encode(now))
            self._keep(row, peer, now)

    def _knows_log_of(self, peer: str) -> bool:
        """Does a log of this broker come here over a link?"""
        return self.ports.log_paths.knows_log_of(peer)

    def _problem(self, peer: str, now: float) -> str | None:
        """Reason why a broker cannot be a neighbour."""
        if self._undone.get(peer, now) > now:
            return UNDONE
        self._undone.pop(peer, None)
        if peer == self.ports.name:
            return f"{peer} is our own name; every broker needs a name of its own"
        if self._knows_log_of(peer):
            return (
                f"{peer} is reached through another broker already, and the overlay must have no cycle; "
                f"join one broker of a network only, or part {peer} from its old neighbours first; if "
                f"another broker is called {peer} too, give this one a name of its own"
            )
        failed = self.ports.disk.failed
        return None if failed is None else f"the disk has failed: {failed.reason}"

    def _keep(self, row: Record, peer: str, now: float) -> None:
        if self.ports.disk.stable:
            self.ports.disk.persist([row], partial(self._joined, peer), partial(self._not_joined, peer))
        else:
            self._joined(peer, now)

    def _joined(self, peer: str, now: float) -> None:
        self._joining.discard(peer)
        problem = self._problem(peer, now)  # it may have come by another way meanwhile
        if problem is None:
            self._add(peer, now)
            self.ports.emit(OpenLink(peer))
        else:
            self.ports.disk.persist([Delete(NEIGHBOURS, peer)])
            self.ports.emit(CloseLink(peer, problem))

    def _not_joined(self, peer: str, failure: PersistFailed, now: float) -> None:
        self._joining.discard(peer)
        self.ports.emit(CloseLink(peer, f"not kept: {failure.reason}"))

    def _part(self, parted: Parted) -> None:
        peer = parted.peer
        if peer not in self.neighbours:
            return
        self.neighbours = tuple(other for other in self.neighbours if other != peer)
        self._since.pop(peer, None)
        self._up.discard(peer)
        self._review()
        self.ports.disk.keep([Delete(NEIGHBOURS, peer)])
        self.ports.emit(CloseLink(peer, parted.reason))
