"""A tree that heals: when a broker is lost for good, those it joined link with one another.

Each broker tells its neighbours its other links, with addresses. All neighbours of a broker
therefore know the same list when it is gone, and need no election. Rules
- A neighbour that is away for `heal_seconds` counts as lost. That is a guess: choose it longer than any
  restart.
- Its neighbours, in the order of their names, make a tree of two branches each: number k asks number
  (k-1)//2, and goes on to the others before it when that one does not answer. A neighbour that finds none of
  them leads. When no neighbour asks the leader either, it asks the others.
- The asked broker agrees only if the lost one is away there too, and only as the first of the list, or when
  it has found its own place: so the brokers that have given the lost one up always hang together. Is the lost
  one well as seen from there, only the link is lost, and there is a way round (`bypass.py`).
- The new neighbours, also those who have yet to ask, are written down before the old one is given up. Events
  are kept for a neighbour until it has spoken, so no event that a surviving broker has acknowledged is lost
  in between; the logs that came by the lost broker are heard over the new link, from where they are known
  (`recovery`).
- One of the new neighbours may be lost too: two that were adjacent. The broker that waits for it stands in
  for the first one among the neighbours of the second (`two_hop.py`), after five times as long, which a
  restart does not reach. No broker knows enough to heal three losses in a row: an operator has to `join`.
- A lost broker that was linked with one other only is given up too, after ten times as long.
- Events that only the lost broker had are lost with it. If it comes back after all it joins anew, asking
  those who were linked with its neighbours; when it, or a guess that was wrong, closes a cycle, the youngest
  link of that goes (`cycle_repair.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import ClassVar

import msgspec

from tidings.availability.records import Delete, Put, Record
from tidings.protocol.effects import CloseLink, OpenLink
from tidings.protocol.inputs import Input, Joined, LinkDown, LinkUp, Parted, Started
from tidings.protocol.messages import Message
from tidings.protocol.overlay.bypass import (
    GIVEN_WAY,
    NOT_NEEDED,
    BypassLinks,
    BypassReply,
    BypassRequest,
    CaughtUpNotice,
)
from tidings.protocol.overlay.cycle_repair import MESSAGES
from tidings.protocol.overlay.joined import NEIGHBOURS, JoinedOverlay
from tidings.protocol.overlay.two_hop import COUSINS, StandInRequest, TwoHopNeighbours, TwoHopTable, places_in

NEIGHBOUR_LINKS = "overlay.kin"  # table: by neighbour, its links
REPLACED = "overlay.replaced"  # table: brokers that were given up, and who was linked with them
KEPT_REPLACED = 64
LET_GO_SECONDS = (
    30.0  # for one that found another place: it asks there for what it missed, and we still have it
)
STAND_IN_ROUNDS = 5  # times as long as one broker is waited for, until two adjacent ones count as lost
LEAF_ROUNDS = 10  # and until one that was linked with us alone does: it may be well, and look for a way round
LOST_ALONE = "it was away for too long, and has no other link"
LOST = "it was away for too long; its neighbours are linked with one another instead"


class NeighbourList(Message, frozen=True, tag="Kin"):
    """Links of the sender, with addresses; the sender itself too."""

    names: tuple[str, ...]
    addresses: tuple[str, ...]


class HealRequest(Message, frozen=True, tag="HealAsk"):
    """The sender has lost this broker, and wants to be linked with us instead."""

    lost: str


class HealReply(Message, frozen=True, tag="HealAnswer"):
    lost: str
    agrees: bool


class _PendingHeal(msgspec.Struct, frozen=True):
    """Request to a broker that is no neighbour yet."""

    about: str  # the neighbour of ours that is away
    lost: str  # the broker in whose place we want to be linked
    instead: str = ""  # not empty: we stand in for this one


_NO_ROUNDS: list[tuple[str, _PendingHeal] | None] = [None] * STAND_IN_ROUNDS


def places_to_ask(rank: int) -> list[int]:
    """Brokers that number `rank` of a list asks, in order: the branch that it belongs to, then
    all before it."""
    order: list[int] = []
    position = rank
    while position > 0:
        position = (position - 1) // 2
        order.append(position)
    return order + [other for other in range(rank) if other not in order]


class HealingOverlay(JoinedOverlay):
    name = "joined, healing"
    messages: ClassVar[tuple[type[Message], ...]] = (
        *MESSAGES, NeighbourList, HealRequest, HealReply, TwoHopNeighbours, StandInRequest, BypassRequest,
        BypassReply, CaughtUpNotice,
    )  # fmt: skip

    def __init__(
        self, neighbours: Iterable[str] = (), parent: str | None = None, *, heal_seconds: float
    ) -> None:
        super().__init__(neighbours, parent)
        self.heal_seconds = heal_seconds
        self.neighbour_links: dict[
            str, dict[str, str]
        ] = {}  # by neighbour: its neighbours, and where they are
        self.replaced: dict[str, dict[str, str]] = {}  # by broker that was given up: the same
        self.healed = 0  # links that were made so
        self._away: dict[str, float] = {}  # neighbours that are not linked, and when to act
        self._tries: dict[str, int] = {}  # by lost broker: how many were asked
        self._letting_go: dict[
            str, float
        ] = {}  # heard of on another way, and until when we keep things for them
        self._asking: dict[str, _PendingHeal] = {}  # dialled brokers, and the request for each
        self.two_hop = TwoHopTable()
        self.bypass = BypassLinks(self)
        self._announced: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())

    # -- inputs --------------------------------------------------------------------------------

    def on_input(self, input: Input, now: float) -> None:
        if isinstance(input, Joined) and self._is_near(input.peer):
            self._talk(input.peer, now)
            return
        super().on_input(input, now)
        if isinstance(input, Started):
            self._load(input.state.tables, now)
        elif isinstance(input, LinkUp):
            self._link_up(input.peer, now)
        elif isinstance(input, LinkDown):
            self.bypass.lost(input.peer, now)
            if input.peer in self.neighbours:
                self._away.setdefault(input.peer, now + self.heal_seconds)
        elif isinstance(input, Parted):
            self._away.pop(input.peer, None)
            self._letting_go.pop(input.peer, None)
            self.bypass.parted(input.peer)
        if isinstance(input, LinkUp | LinkDown | Parted):
            self._announce_neighbour_links()

    def _load(self, tables: Mapping[str, Mapping[str, bytes]], now: float) -> None:
        self.neighbour_links = {peer: _unpacked(row) for peer, row in tables.get(NEIGHBOUR_LINKS, {}).items()}
        self.replaced = {peer: _unpacked(row) for peer, row in tables.get(REPLACED, {}).items()}
        self.two_hop.load(tables.get(COUSINS, {}))
        self.bypass.load(tables.get(GIVEN_WAY, {}))
        back = tables.get(NEIGHBOURS, {})
        self.neighbours = tuple(
            peer
            for peer in self.neighbours
            if peer in back or not (peer in self.replaced or self.bypass.gave_way(peer))
        )
        self._away = dict.fromkeys(self.neighbours, now + self.heal_seconds)

    def _link_up(self, peer: str, now: float) -> None:
        if peer in self._asking:
            requests = self._asking[peer]
            if requests.instead:
                self.ports.send(peer, StandInRequest(requests.lost, requests.instead))
            else:
                self.ports.send(peer, HealRequest(requests.lost))
        elif peer in self._up:
            self._away.pop(peer, None)
            self._tries.pop(peer, None)
            self._letting_go.pop(peer, None)
            self._announced = ((), ())
            self.bypass.linked(peer)
            self.bypass.look_later(now)
            for other, addresses in self.neighbour_links.items():
                if other != peer and other in self.neighbours:
                    self.ports.send(
                        peer, TwoHopNeighbours(other, tuple(addresses), tuple(addresses.values()))
                    )

    def _announce_neighbour_links(self) -> None:
        """Announce our links, when they have changed."""
        addresses = {self.ports.name: self.ports.address}
        for peer in self.neighbours:
            addresses[peer] = self.neighbour_links.get(peer, {}).get(peer, "")
        announced = (tuple(addresses), tuple(addresses.values()))
        if announced != self._announced:
            self._announced = announced
            for link in self.links():
                self.ports.send(link, NeighbourList(*announced))

    def on_message(self, sender: str, message: Message, now: float) -> None:
        match message:
            case NeighbourList():
                self._receive_neighbour_links(sender, message)
            case TwoHopNeighbours():
                if sender in self._up and message.of not in (self.ports.name, *self.neighbours):
                    self.write(self.two_hop.receive(message))
            case HealRequest():
                self._answer(sender, message.lost, "", now)
            case StandInRequest():
                self._answer(sender, message.lost, message.instead, now)
            case HealReply():
                self._receive_answer(sender, message, now)
            case BypassRequest() if sender in self._up:
                self.bypass.on_bypass_request(sender, message, now)
            case CaughtUpNotice() if sender in self._up:
                self.bypass.on_caught(message, now)
            case BypassReply():
                if not self.bypass.on_answer(sender, message, now):
                    self._receive_bypass(sender, message, now)
            case _:
                super().on_message(sender, message, now)

    def _receive_neighbour_links(self, sender: str, message: NeighbourList) -> None:
        if sender not in self.neighbours:
            return
        addresses = places_in(message)
        if addresses != self.neighbour_links.get(sender):
            self.neighbour_links[sender] = addresses
            self.write([Put(NEIGHBOUR_LINKS, sender, msgspec.msgpack.encode(addresses))])
            self._announce_neighbour_links()
            for link in self.links():
                if link != sender:
                    self.ports.send(link, TwoHopNeighbours(sender, message.names, message.addresses))

    def received_from_two(self, log: str, upstream: str, other: str, now: float) -> None:
        if any(self.bypass.is_coming_round(link, now) for link in (upstream, other)):
            return
        if upstream in self.neighbours and upstream not in self._up:
            self._letting_go.setdefault(upstream, now + LET_GO_SECONDS)  # it has found another place
        else:
            super().received_from_two(log, upstream, other, now)

    def write(self, rows: list[Record]) -> None:
        self.ports.disk.keep(rows)

    def figures(self) -> dict[str, int]:
        return {"links healed": self.healed, "neighbours away": len(self._away)}

    # -- losing --------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        times = [super().next_deadline(), self.bypass.due, *self._away.values(), *self._letting_go.values()]
        return min((at for at in times if at is not None), default=None)

    def on_timer(self, now: float) -> None:
        super().on_timer(now)
        self.bypass.on_timer(now)
        for peer in [peer for peer, at in self._letting_go.items() if at <= now]:
            del self._letting_go[peer]
            self._undo(peer, now)
        for lost in [peer for peer, at in self._away.items() if at <= now]:
            self._away[lost] = now + self.heal_seconds
            self._find_stand_in_position(lost, now)

    def _places_of(self, broker: str) -> dict[str, str]:
        """Present or last known links of a broker, with addresses."""
        return self.neighbour_links.get(broker) or self.replaced.get(broker) or self.two_hop.of(broker)

    def _order(self, lost: str) -> list[str]:
        """All brokers that were linked with the lost one, us included, in the order that all agree on."""
        links = self.neighbour_links.get(lost) or self.replaced.get(lost, {})
        return sorted({*links, self.ports.name} - {lost})

    def _find_stand_in_position(self, lost: str, now: float) -> None:
        self.stop_asking(lost)
        if self.bypass.has_agreed(lost):
            return  # it is linked with a neighbour of ours instead
        tried = self._tries[lost] = self._tries.get(lost, -1) + 1
        if self._is_alone(lost) and tried >= LEAF_ROUNDS:
            self._give_up(lost, now)
            return
        rounds = self._rounds(lost)
        found = rounds[tried % len(rounds)] if rounds else None
        if found is None:
            return  # we lead: the others ask us
        target, requests = found
        if target in self._up:
            return
        self._asking[target] = requests
        self.ports.emit(OpenLink(target, self._places_of(requests.lost).get(target, "")))

    def _is_alone(self, lost: str) -> bool:
        """Was it linked with us alone?"""
        return lost in self.neighbour_links and self._order(lost) == [self.ports.name]

    def _give_up(self, lost: str, now: float) -> None:
        self.write(self._remember(lost))
        self.ports.events.parted(Parted(lost, LOST_ALONE, is_elsewhere=True), now)

    def _remember(self, lost: str) -> list[Record]:
        """The broker was given up; the records to persist for it, and for the brokers that we
        forget with it."""
        links = self.replaced[lost] = self._places_of(lost)
        rows: list[Record] = [Put(REPLACED, lost, msgspec.msgpack.encode(links))]
        while len(self.replaced) > KEPT_REPLACED:
            oldest = next(iter(self.replaced))
            del self.replaced[oldest]
            rows.append(Delete(REPLACED, oldest))
        return rows

    def is_asking(self, lost: str) -> bool:
        return any(requests.about == lost for requests in self._asking.values())

    def stop_asking(self, lost: str) -> None:
        for peer in [peer for peer, requests in self._asking.items() if requests.about == lost]:
            del self._asking[peer]
            self.ports.emit(CloseLink(peer, "it does not answer"))

    def _rounds(self, lost: str) -> list[tuple[str, _PendingHeal] | None]:
        """Brokers to ask, one after the other, when this neighbour is away."""
        waits_for = next((one for one, links in self.replaced.items() if lost in links), "")
        if lost not in self.neighbour_links and waits_for:  # it may have found another place
            leads_too = [(lost, _PendingHeal(lost, waits_for))] if lost < self.ports.name else []
            return [None, *leads_too, *_NO_ROUNDS, *self._standing_in(lost, lost, waits_for)]
        order = self._order(lost)
        rank = order.index(self.ports.name)
        requests = _PendingHeal(lost, lost)
        before = [(order[position], requests) for position in places_to_ask(rank)]
        after = [(peer, requests) for peer in order[rank + 1 :]]
        beyond = [each for peer in order for each in self._standing_in(lost, peer, lost)]
        near: list[tuple[str, _PendingHeal] | None] = [*before, None, *before, *after]
        return [*near, *_NO_ROUNDS[len(near) :], *beyond]

    def _standing_in(self, about: str, lost: str, instead: str) -> list[tuple[str, _PendingHeal] | None]:
        """Brokers to ask in the place of a lost broker, when its neighbour is lost too."""
        known = self.two_hop.of(lost)
        order = sorted({*known} - {lost, self.ports.name})
        if instead not in order:
            return []
        first = [order[position] for position in places_to_ask(order.index(instead))]
        others = [peer for peer in order if peer not in first and peer != instead]
        return [(peer, _PendingHeal(about, lost, instead)) for peer in (*first, *others)]

    def _leads(self, lost: str) -> bool:
        """Do the others ask us first, or has no broker before us answered?"""
        positions = places_to_ask(self._order(lost).index(self.ports.name))
        return self._tries.get(lost, -1) >= len(positions)

    def has_given_up(self, peer: str) -> bool:
        return peer in self._away and self._tries.get(peer, -1) >= 0

    def _is_near(self, peer: str) -> bool:
        """Do we and this broker, no neighbour of ours, stand at the same lost one, or at the same lost two?
        Or is it linked with a neighbour of ours, and could not join us anyway?"""
        if peer in self.neighbours:
            return False
        if peer in self._asking or self._is_beyond(peer):
            return True
        is_near = any(peer in self.neighbour_links.get(link, {}) for link in self.links())
        return is_near and self._knows_log_of(peer)

    def _is_beyond(self, peer: str) -> bool:
        lost = self._given_up()
        if peer in lost:
            return False  # it is back
        orders = [self._order(one) for one in lost]
        if any(peer in order for order in orders):
            return True
        return bool(self._away) and any(peer in self.two_hop.of(one) for order in orders for one in order)

    def _given_up(self) -> list[str]:
        return [*self.replaced, *(lost for lost in self._away if self._tries.get(lost, -1) >= 0)]

    def _talk(self, peer: str, now: float) -> None:
        """A link only to ask over; it is no part of the overlay yet."""
        self.ports.emit(OpenLink(peer))

    # -- being asked -----------------------------------------------------------------------------

    def _answer(self, sender: str, lost: str, instead: str, now: float) -> None:
        if self.bypass.is_pending(sender):
            return  # the answer is on its way
        if self.bypass.is_taken_in(sender, now) and sender in self.neighbours:
            self.ports.send(sender, BypassReply(lost, True))
        elif sender in self.neighbours:
            self.ports.send(sender, HealReply(lost, True))
        elif lost in self._up and not instead and lost in self.neighbour_links:
            self._answer_for_one_that_is_well(sender, lost, now)
        elif self._agrees(instead or sender, lost) and instead not in self._up:
            agreed = partial(self._agreed, sender, lost)
            self._replace(lost, sender, now, agreed, without=instead, silent=self._silent(lost))
        else:
            self.ports.send(sender, HealReply(lost, False))

    def _answer_for_one_that_is_well(self, sender: str, lost: str, now: float) -> None:
        """The lost one is a neighbour of ours. Only its link with the sender is lost; or it has given the
        sender up, which was away for too long and comes back: it is let in like any other."""
        if sender in self.neighbour_links[lost]:
            self.bypass.ask(sender, lost, now)
        elif self._problem(sender, now) is not None:
            self.ports.send(sender, HealReply(lost, False))
        else:
            self.take_in(sender, now, partial(self._let_in, sender, lost))

    def _let_in(self, sender: str, lost: str, now: float) -> None:
        self.ports.send(sender, BypassReply(lost, True))

    def _agrees(self, member: str, lost: str) -> bool:
        if member not in self._order(lost):
            return False
        return lost in self.replaced or (self.has_given_up(lost) and self._leads(lost))

    def _agreed(self, sender: str, lost: str, now: float) -> None:
        self.ports.send(sender, HealReply(lost, True))

    def take_in(self, peer: str, now: float, then: Callable[[float], None]) -> None:
        self._keep_all([peer], [], now, then)

    # -- answers ---------------------------------------------------------------------------------

    def _receive_answer(self, sender: str, answer: HealReply, now: float) -> None:
        requests = self._asking.get(sender)
        if requests is None or requests.lost != answer.lost:
            if not answer.agrees and sender in self.neighbours and sender not in self._up:
                self.ports.events.parted(Parted(sender, NOT_NEEDED, is_elsewhere=True), now)
            return
        del self._asking[sender]
        if not answer.agrees:
            self.ports.emit(CloseLink(sender, f"{answer.lost} is not lost there"))
            return
        address = self._places_of(answer.lost).get(sender, "")
        anew = partial(self._begin_anew, sender, address)
        if sender in self.neighbours:  # we waited for it, or it asked us as well
            anew(now)
        elif requests.about not in self._away:  # it came back while we asked
            self.ports.send(sender, HealReply(answer.lost, False))
        else:
            self._replace(requests.about, sender, now, anew, without=requests.lost)

    def _receive_bypass(self, sender: str, answer: BypassReply, now: float) -> None:
        """The neighbour that we lost is well, and a neighbour of it has an answer for us."""
        requests = self._asking.get(sender)
        if requests is None or requests.lost != answer.peer:
            return
        address = self._places_of(requests.lost).get(sender, "")
        del self._asking[sender]
        if not answer.agrees:
            self.ports.emit(CloseLink(sender, f"{answer.peer} holds on to its link"))
        elif requests.about not in self._away:
            self.ports.send(sender, HealReply(requests.lost, False))
        else:
            self.healed += 1
            self._keep_all([sender], [], now, partial(self._go_round, answer.peer, sender, address))

    def _go_round(self, lost: str, peer: str, address: str, now: float) -> None:
        self.bypass.give_way(lost, peer, now)
        self._begin_anew(peer, address, now)

    def _begin_anew(self, peer: str, address: str, now: float) -> None:
        """The link was made to talk; from now on it is one of the overlay, for both ends."""
        self.ports.emit(CloseLink(peer, "to begin anew, as neighbours"))
        self.ports.emit(OpenLink(peer, address))

    # -- new neighbours ----------------------------------------------------------------------------

    def _replace(
        self,
        lost: str,
        heir: str,
        now: float,
        then: Callable[[float], None],
        *,
        without: str = "",
        silent: Iterable[str] = (),
    ) -> None:
        """The new neighbours first, then the lost one goes: no event is unkept in between.

        Those who are to ask us are neighbours from now on, though they have not asked yet: until they have
        spoken, everything that they may want is kept for them. So are those who were `silent` when we asked
        them. `without` is lost too, and another broker stands in for it."""
        self.healed += 1
        heirs = [heir]
        rows: list[Record] = []
        if lost in self.neighbours:
            known = {heir, without, *self.neighbours}
            heirs += [peer for peer in (*silent, *self._branches(lost)) if peer not in known]
            rows += self._remember(lost)

        def gone(now: float) -> None:
            for peer in (lost, without):
                if peer in self.neighbours and peer not in self._up:
                    self.ports.events.parted(Parted(peer, LOST, is_elsewhere=True), now)
            then(now)

        self._keep_all(heirs, rows, now, gone)

    def _keep_all(
        self, heirs: list[str], rows: list[Record], now: float, then: Callable[[float], None]
    ) -> None:
        rows = [*rows, *(Put(NEIGHBOURS, peer, msgspec.msgpack.encode(now)) for peer in heirs)]

        def kept(now: float) -> None:
            for peer in heirs:
                self._add(peer, now)
                self._away.setdefault(peer, now + self.heal_seconds)
            then(now)

        if self.ports.disk.stable and self.ports.disk.failed is None:
            self.ports.disk.persist(rows, kept)
        else:
            kept(now)

    def _branches(self, lost: str) -> list[str]:
        """Brokers that are to ask us first."""
        if lost not in self.neighbour_links:
            return []  # we only waited for it
        order = self._order(lost)
        rank = order.index(self.ports.name)
        return order[2 * rank + 1 : 2 * rank + 3]

    def _silent(self, lost: str) -> list[str]:
        """Brokers before us that did not answer, so that we lead."""
        order = self._order(lost)
        return order[: order.index(self.ports.name)]


def _unpacked(row: bytes) -> dict[str, str]:
    return msgspec.msgpack.decode(row, type=dict[str, str])
