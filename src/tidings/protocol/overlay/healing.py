"""A tree that heals: when a broker is lost for good, those it joined link with one another.

Each broker tells its neighbours whom else it is linked with, and where those are. All neighbours of a broker
therefore know the same list when it is gone, and need no election. Rules
- A neighbour that is away for `heal_seconds` counts as lost. That is a guess: choose it longer than any restart.
- Its neighbours, in the order of their names, make a tree of two branches each: number k asks number (k-1)//2,
  and goes on to the others before it when that one does not answer. Who finds none of them leads itself.
- Who is asked agrees only if the lost one is away there too, and only as the first of the list, or when it has
  found its own place: so those who have given the lost one up always hang together.
- The new neighbours, also those who have yet to ask, are written down before the old one is given up. Events are
  kept for a neighbour until it has spoken, so nothing that a surviving broker has acknowledged is lost in
  between; the logs that came by the lost broker are heard over the new link, from where they are known (`recovery`).
- What the lost broker alone had is lost with it. If it comes back after all it joins anew; when it, or a
  guess that was wrong, closes a cycle, the youngest link of that goes (`circles.py`).
- Two neighbours lost at once leave those between whom they stood without a common list: somebody has to `join`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import ClassVar

import msgspec

from tidings.availability.records import Put, Record
from tidings.protocol.effects import Connect, Disconnect
from tidings.protocol.inputs import Input, Joined, LinkDown, LinkUp, Parted, Started
from tidings.protocol.messages import Message
from tidings.protocol.overlay.circles import MESSAGES
from tidings.protocol.overlay.joined import NEIGHBOURS, JoinedOverlay

KIN = "overlay.kin"  # table: by neighbour, whom it is linked with
REPLACED = "overlay.replaced"  # table: brokers that were given up, and who was linked with them
KEPT_REPLACED = 64
LOST = "it was away for too long; its neighbours are linked with one another instead"


class Kin(Message, frozen=True):
    """Whom the sender is linked with, and where each is; the sender itself too."""

    names: tuple[str, ...]
    addresses: tuple[str, ...]


class HealAsk(Message, frozen=True):
    """The sender has lost this broker, and wants to be linked with us instead."""

    lost: str


class HealAnswer(Message, frozen=True):
    lost: str
    agrees: bool


def places_to_ask(rank: int) -> list[int]:
    """Whom number `rank` of a list asks, in order: the branch that it belongs to, then all before it."""
    order: list[int] = []
    place = rank
    while place > 0:
        place = (place - 1) // 2
        order.append(place)
    return order + [other for other in range(rank) if other not in order]


class HealingOverlay(JoinedOverlay):
    name = "joined, healing"
    messages: ClassVar[tuple[type[Message], ...]] = (*MESSAGES, Kin, HealAsk, HealAnswer)

    def __init__(
        self, neighbours: Iterable[str] = (), parent: str | None = None, *, heal_seconds: float
    ) -> None:
        super().__init__(neighbours, parent)
        self.heal_seconds = heal_seconds
        self.kin: dict[str, dict[str, str]] = {}  # by neighbour: its neighbours, and where they are
        self.replaced: dict[str, dict[str, str]] = {}  # by broker that was given up: the same
        self.healed = 0  # links that were made so
        self._away: dict[str, float] = {}  # neighbours that are not linked, and when to do something about it
        self._tries: dict[str, int] = {}  # by lost broker: how many were asked
        self._asking: dict[str, str] = {}  # whom we dialled, and for which lost broker
        self._told: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())

    # -- inputs --------------------------------------------------------------------------------

    def on_input(self, input: Input, now: float) -> None:
        if isinstance(input, Joined) and self._is_kin(input.peer):
            self._talk(input.peer, now)
            return
        super().on_input(input, now)
        if isinstance(input, Started):
            tables = input.state.tables
            self.kin = {peer: _unpacked(row) for peer, row in tables.get(KIN, {}).items()}
            self.replaced = {peer: _unpacked(row) for peer, row in tables.get(REPLACED, {}).items()}
            back = tables.get(NEIGHBOURS, {})
            self.neighbours = tuple(n for n in self.neighbours if n in back or n not in self.replaced)
            self._away = dict.fromkeys(self.neighbours, now + self.heal_seconds)
        elif isinstance(input, LinkUp):
            self._link_up(input.peer)
        elif isinstance(input, LinkDown) and input.peer in self.neighbours:
            self._away.setdefault(input.peer, now + self.heal_seconds)
        elif isinstance(input, Parted):
            self._away.pop(input.peer, None)
        if isinstance(input, LinkUp | LinkDown | Parted):
            self._tell_kin()

    def _link_up(self, peer: str) -> None:
        if peer in self._up:
            self._away.pop(peer, None)
            self._tries.pop(peer, None)
            self._told = ((), ())
        elif peer in self._asking:
            self.ports.send(peer, HealAsk(self._asking[peer]))

    def _tell_kin(self) -> None:
        """Say whom we are linked with, when that has changed."""
        places = {self.ports.name: self.ports.address}
        for peer in self.neighbours:
            places[peer] = self.kin.get(peer, {}).get(peer, "")
        told = (tuple(places), tuple(places.values()))
        if told != self._told:
            self._told = told
            for link in self.links():
                self.ports.send(link, Kin(*told))

    def on_message(self, sender: str, message: Message, now: float) -> None:
        if isinstance(message, Kin):
            self._hear_kin(sender, message)
        elif isinstance(message, HealAsk):
            self._answer(sender, message.lost, now)
        elif isinstance(message, HealAnswer):
            self._hear_answer(sender, message, now)
        else:
            super().on_message(sender, message, now)

    def _hear_kin(self, sender: str, message: Kin) -> None:
        if sender not in self.neighbours:
            return
        places = dict(zip(message.names, message.addresses, strict=True))
        if places != self.kin.get(sender):
            self.kin[sender] = places
            self._write([Put(KIN, sender, msgspec.msgpack.encode(places))])
            self._tell_kin()

    def _write(self, rows: list[Record]) -> None:
        if self.ports.disk.stable and self.ports.disk.failed is None:
            self.ports.disk.persist(rows)

    def figures(self) -> dict[str, int]:
        return {"links healed": self.healed, "neighbours away": len(self._away)}

    # -- losing --------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        times = [super().next_deadline(), *self._away.values()]
        return min((at for at in times if at is not None), default=None)

    def on_timer(self, now: float) -> None:
        super().on_timer(now)
        for lost in [peer for peer, at in self._away.items() if at <= now]:
            self._away[lost] = now + self.heal_seconds
            self._look_for_place(lost)

    def _order(self, lost: str) -> list[str]:
        """Everybody who was linked with the lost one, us included, in the order that all agree on."""
        kin = self.kin.get(lost) or self.replaced.get(lost, {})
        return sorted({*kin, self.ports.name} - {lost})

    def _look_for_place(self, lost: str) -> None:
        for peer in [peer for peer, whom in self._asking.items() if whom == lost]:
            del self._asking[peer]
            self.ports.emit(Disconnect(peer, "it does not answer"))
        order = self._order(lost)
        places = places_to_ask(order.index(self.ports.name))
        tried = self._tries[lost] = self._tries.get(lost, -1) + 1
        if not places:
            return  # we lead: the others ask us
        target = order[places[tried % len(places)]]
        if target in self.neighbours:
            return
        self._asking[target] = lost
        self.ports.emit(Connect(target, self.kin[lost].get(target, "")))

    def _leads(self, lost: str) -> bool:
        """Are we the one whom the others ask first, or has nobody before us answered?"""
        places = places_to_ask(self._order(lost).index(self.ports.name))
        return self._tries.get(lost, -1) >= len(places)

    def _is_kin(self, peer: str) -> bool:
        """Do we and this broker, no neighbour of ours, stand at the same lost one?"""
        if peer in self.neighbours:
            return False
        return peer in self._asking or any(peer in self._order(lost) for lost in self._given_up())

    def _given_up(self) -> list[str]:
        return [*self.replaced, *(lost for lost in self._away if self._tries.get(lost, -1) >= 0)]

    def _talk(self, peer: str, now: float) -> None:
        """A link only to ask over; it is no part of the overlay yet."""
        self.ports.emit(Connect(peer))

    def _answer(self, sender: str, lost: str, now: float) -> None:
        if sender in self.neighbours:
            self.ports.send(sender, HealAnswer(lost, True))
            return
        is_away = lost in self._away and self._tries.get(lost, -1) >= 0
        if sender not in self._order(lost) or not (lost in self.replaced or (is_away and self._leads(lost))):
            self.ports.send(sender, HealAnswer(lost, False))
            return
        self._replace(lost, sender, now, partial(self._agreed, sender, lost))

    def _agreed(self, sender: str, lost: str, now: float) -> None:
        self.ports.send(sender, HealAnswer(lost, True))

    def _hear_answer(self, sender: str, answer: HealAnswer, now: float) -> None:
        if self._asking.get(sender) != answer.lost:
            if not answer.agrees and sender in self.neighbours and sender not in self._up:
                self.ports.events.parted(Parted(sender, "it is not needed any more", is_elsewhere=True), now)
            return
        del self._asking[sender]
        if not answer.agrees:
            self.ports.emit(Disconnect(sender, f"{answer.lost} is not lost there"))
            return
        if answer.lost not in self._away:  # it came back while we asked
            self.ports.send(sender, HealAnswer(answer.lost, False))
            return
        address = self.kin.get(answer.lost, {}).get(sender, "")
        self._replace(answer.lost, sender, now, partial(self._begin_anew, sender, address))

    def _begin_anew(self, peer: str, address: str, now: float) -> None:
        """The link was made to talk; from now on it is one of the overlay, for both ends."""
        self.ports.emit(Disconnect(peer, "to begin anew, as neighbours"))
        self.ports.emit(Connect(peer, address))

    def _replace(self, lost: str, heir: str, now: float, then: partial[None]) -> None:
        """The new neighbours first, then the lost one goes: nothing is unkept in between.

        Those who are to ask us are neighbours from now on, though they have not asked yet: until they have
        spoken, everything that they may want is kept for them."""
        self.healed += 1
        heirs = [heir]
        rows: list[Record] = []
        if lost in self.neighbours:
            heirs += [peer for peer in self._branches(lost) if peer != heir and peer not in self.neighbours]
            kin = self.replaced[lost] = self.kin.get(lost, {})
            rows.append(Put(REPLACED, lost, msgspec.msgpack.encode(kin)))
            while len(self.replaced) > KEPT_REPLACED:
                del self.replaced[next(iter(self.replaced))]
        rows += [Put(NEIGHBOURS, peer, msgspec.msgpack.encode(now)) for peer in heirs]

        def kept(now: float) -> None:
            for peer in heirs:
                self._add(peer, now)
                self._away.setdefault(peer, now + self.heal_seconds)
            if lost in self.neighbours:
                self.ports.events.parted(Parted(lost, LOST, is_elsewhere=True), now)
            then(now)

        if self.ports.disk.stable and self.ports.disk.failed is None:
            self.ports.disk.persist(rows, kept)
        else:
            kept(now)

    def _branches(self, lost: str) -> list[str]:
        """Who is to ask us first."""
        order = self._order(lost)
        rank = order.index(self.ports.name)
        return order[2 * rank + 1 : 2 * rank + 3]


def _unpacked(row: bytes) -> dict[str, str]:
    return msgspec.msgpack.decode(row, type=dict[str, str])
