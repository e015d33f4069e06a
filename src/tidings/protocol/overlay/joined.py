"""A tree that grows: each broker is told whom to join, and remembers who joined it.

Rules
- A neighbour is kept on the disk before its link is used. From then on events are kept for it, also by
  a next life that begins while it is away.
- A broker that is already reached on another way may not join: the overlay would have a cycle, and
  events of one log would come from two sides.
- A neighbour stays one until it is `Parted`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import msgspec

from tidings.availability.records import Delete, Put, Record
from tidings.protocol.effects import Connect, Disconnect
from tidings.protocol.inputs import Input, Joined, Parted, PersistFailed, Started
from tidings.protocol.naming import broker_of
from tidings.protocol.overlay.static import StaticOverlay

NEIGHBOURS = "overlay.neighbours"  # table: by name, when it joined


class JoinedOverlay(StaticOverlay):
    name = "joined"

    def __init__(self, neighbours: Iterable[str] = (), parent: str | None = None) -> None:
        super().__init__(neighbours, parent)
        self._joining: set[str] = set()  # on their way to the disk

    def on_input(self, input: Input, now: float) -> None:
        if isinstance(input, Started):
            for peer in sorted(input.state.tables.get(NEIGHBOURS, {})):
                self._add(peer)
        elif isinstance(input, Joined):
            self._join(input.peer, now)
        elif isinstance(input, Parted):
            self._part(input.peer)
        else:
            super().on_input(input, now)

    def _add(self, peer: str) -> None:
        if peer not in self.neighbours:
            self.neighbours = (*self.neighbours, peer)

    def _join(self, peer: str, now: float) -> None:
        if peer in self.neighbours:
            self.ports.emit(Connect(peer))
            return
        problem = self._problem(peer)
        if problem is not None:
            self.ports.emit(Disconnect(peer, problem))
        elif peer not in self._joining:
            self._joining.add(peer)
            row = Put(NEIGHBOURS, peer, msgspec.msgpack.encode(now))
            self._keep(row, peer)

    def _problem(self, peer: str) -> str | None:
        """Why it cannot be a neighbour."""
        if peer == self.ports.name:
            return f"{peer} is our own name; every broker needs a name of its own"
        if any(broker_of(log) == peer for log in self.ports.recovery.logs()):
            return (
                f"{peer} is reached through another broker already, and the overlay must have no cycle; "
                f"join one broker of a network only, or part {peer} from its old neighbours first"
            )
        failed = self.ports.disk.failed
        return None if failed is None else f"the disk has failed: {failed.reason}"

    def _keep(self, row: Record, peer: str) -> None:
        if self.ports.disk.stable:
            self.ports.disk.persist([row], partial(self._joined, peer), partial(self._not_joined, peer))
        else:
            self._joined(peer, 0.0)

    def _joined(self, peer: str, now: float) -> None:
        self._joining.discard(peer)
        problem = self._problem(peer)  # it may have come by another way meanwhile
        if problem is None:
            self._add(peer)
            self.ports.emit(Connect(peer))
        else:
            self.ports.disk.persist([Delete(NEIGHBOURS, peer)])
            self.ports.emit(Disconnect(peer, problem))

    def _not_joined(self, peer: str, failure: PersistFailed, now: float) -> None:
        self._joining.discard(peer)
        self.ports.emit(Disconnect(peer, f"not kept: {failure.reason}"))

    def _part(self, peer: str) -> None:
        if peer not in self.neighbours:
            return
        self.neighbours = tuple(other for other in self.neighbours if other != peer)
        self._up.discard(peer)
        if self.ports.disk.stable and self.ports.disk.failed is None:
            self.ports.disk.persist([Delete(NEIGHBOURS, peer)])
        self.ports.emit(Disconnect(peer, "it was parted from this network"))
