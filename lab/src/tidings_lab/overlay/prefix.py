"""An overlay of prefixes in the manner of Pastry: any node leads to the one responsible for a key in few
hops.

Rules
- A newcomer knows some `contacts`. Its `PrefixJoin` goes to its own id, hop by hop; it comes back as
  `PrefixJoinReply` with all that those on the way know, and the newcomer greets every node that it takes into
  its sets. A node that hears of a new leaf greets it and is told its leaves, so that many may come at once.
- Every `beat_seconds` a node asks its two neighbours on the ring whether they live, and some of the others,
  so that each has its turn in `rounds` beats. A node that does not answer `tries` times is gone: the leaves
  are told, and look for themselves. A gap among the leaves is filled by asking the farthest leaf, one in the
  table by asking another node of its row.
- A node that is parted from the network (`Parted` with its own name) says farewell, and is silent from then
  on.
- A node that was taken for gone is not added again on hearsay for a while; its own message brings it back.
- Of two nodes for one cell of the table the nearer one stays, by measured distance (`proximity`); in every
  beat one row is compared with that of another node.
- Two rings become one again, since a contact that is not known is asked for a place every `merge_seconds`.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tidings.errors import SettingsError
from tidings.protocol.effects import ProbePeer
from tidings.protocol.inputs import Input, Joined, LinkDown, LinkUp, Parted, Probed, Started
from tidings.protocol.messages import Message
from tidings.protocol.roles import KeyLookup
from tidings.protocol.slots import Overlay, Ports
from tidings_lab.overlay.prefix_messages import (
    CellRequest,
    Contact,
    PrefixHello,
    PrefixJoin,
    PrefixJoinReply,
    PrefixLeave,
    PrefixSuspicion,
    RowReply,
    RowRequest,
)
from tidings_lab.overlay.prefix_state import PrefixTables, id_of
from tidings_lab.overlay.reach import Reach

MOST_CONTACTS = 8
MOST_KEYS = 1 << 16  # whose next hop is remembered
MOST_HOPS = 64  # of a newcomer's request; more than any way of sound tables has


class PrefixSettings(msgspec.Struct, frozen=True, kw_only=True):
    leaves: int = 16  # half of them on each side
    near: int = 16  # in the neighbourhood
    digit_bits: int = 4  # b
    beat_seconds: float = 2.0
    rounds: int = 8  # beats until every known node was asked
    answer_seconds: float = 0.5  # for an answer
    tries: int = 3
    grave_seconds: float = 60.0
    merge_seconds: float = 30.0
    join_seconds: float = 0.5  # newcomers that start together spread over so long
    proximity: bool = True

    def __post_init__(self) -> None:
        if self.leaves < 2 or self.leaves % 2:
            raise SettingsError(f"a leaf set of {self.leaves}", hint="give an even number, 2 or more")
        if self.digit_bits not in (1, 2, 4, 8):
            raise SettingsError(f"digits of {self.digit_bits} bits", hint="use 1, 2, 4 or 8")
        if min(self.tries, self.rounds) < 1:
            raise SettingsError(
                "nobody would be asked whether it lives", hint="tries and rounds are 1 or more"
            )


class _PendingPing(msgspec.Struct):
    """Open probe of one node: when it times out, and how many were sent."""

    until: float
    tries: int = 1


class PrefixOverlay(Overlay, KeyLookup):
    name = "prefix"
    messages = (
        PrefixJoin,
        PrefixJoinReply,
        PrefixHello,
        CellRequest,
        RowRequest,
        RowReply,
        PrefixSuspicion,
        PrefixLeave,
    )

    def __init__(
        self, contacts: Iterable[str] = (), settings: PrefixSettings | None = None, *, linked: bool = False
    ) -> None:
        self._is_linked = linked
        self.settings = settings or PrefixSettings()
        self._contacts = tuple(contacts)
        self._pings: dict[str, _PendingPing] = {}
        self._checked: dict[str, float] = {}  # when each was asked last
        self._graves: dict[str, float] = {}  # until when
        self._distances: dict[str, float] = {}
        self._rivals: dict[str, str] = {}  # who is being measured: its address
        self._waiting: dict[str, dict[str, str]] = {}  # by measured holder of a cell: the candidates
        self._hops: dict[str, str | None] = {}  # by key; emptied at every change
        self._where: dict[str, str] = {}  # of contacts, also of those that were lost
        self._turn = 0
        self._changed = False
        self._is_admitted = False
        self._has_left = False  # it said farewell, and answers no node
        self._beat_at: float | None = None
        self._seek_at: float | None = None

    def bind(self, ports: Ports) -> None:
        super().bind(ports)
        settings = self.settings
        self._reach = Reach(ports, linked=self._is_linked)
        self.known = PrefixTables(
            ports.name, leaves=settings.leaves, near=settings.near, digit_bits=settings.digit_bits
        )
        self._is_contact = ports.name in self._contacts
        self._contacts = tuple(contact for contact in self._contacts if contact != ports.name)

    # -- for the other slots -----------------------------------------------------------------------

    def next_hop(self, key: str) -> str | None:
        try:
            return self._hops[key]
        except KeyError:
            if len(self._hops) >= MOST_KEYS:
                self._hops.clear()
            hop = self._hops[key] = self.known.hop(id_of(key))
            return hop

    def reach(self, peer: str, message: Message, address: str = "") -> None:
        self._send(peer, message, address)

    def links(self) -> tuple[str, ...]:
        return self._reach.links()

    def peers(self) -> tuple[str, ...]:
        return tuple(self.known.everybody())

    def distance(self, peer: str) -> float | None:
        return self._distances.get(peer)

    def doubted(self, peer: str, now: float) -> None:
        self._request(peer, now)

    def figures(self) -> dict[str, int]:
        known = self.known
        return {
            "leaves": len(known.leaves()),
            "table entries": len(known.table),
            "known dead": len(self._graves),
        }

    # -- inputs ----------------------------------------------------------------------------------------

    def on_input(self, input: Input, now: float) -> None:
        if isinstance(input, Started):
            wait = 0.0 if self._is_contact else self.ports.rng.uniform(0.0, self.settings.join_seconds)
            self._seek_at = now + wait if self._contacts else None
            self._beat_at = now + wait + self.ports.rng.uniform(0.5, 1.0) * self.settings.beat_seconds
        elif isinstance(input, Probed):
            self._probed(input.peer, input.distance)
        elif isinstance(input, Joined | LinkUp | LinkDown):
            self._linked(self._reach.on_input(input, now), now)
            if isinstance(input, LinkDown) and input.peer in self.known.addresses:
                self._request(input.peer, now)
        elif isinstance(input, Parted):
            self._leave() if input.peer == self.ports.name else self._lost(input.peer, now)
        self._announce_changes(now)

    def on_message(self, sender: str, message: Message, now: float) -> None:
        if self._has_left:
            return
        self._pings.pop(sender, None)
        match message:
            case PrefixHello():
                self._greeted(sender, message, now)
            case PrefixJoin():
                self._sought(message, now)
            case PrefixJoinReply():
                self._admitted(message.contacts, now)
            case CellRequest():
                self._fill(message, now)
            case RowRequest():
                self._send(sender, RowReply(self._contacts_of(self.known.row(message.row))))
            case RowReply():
                for name, address in message.contacts:
                    self._learn(name, address, now, weighed=True)
            case PrefixSuspicion():
                if message.name in self.known.addresses:
                    self._request(message.name, now)
            case PrefixLeave():
                self._bury(sender, now)
                self._learn_all(message.contacts, now)
        self._announce_changes(now)

    def next_deadline(self) -> float | None:
        moments = [at for at in (self._beat_at, self._seek_at) if at is not None]
        if self._pings:
            moments.append(min(ask.until for ask in self._pings.values()))
        return min(moments, default=None)

    def on_timer(self, now: float) -> None:
        self._review_asked(now)
        if self._seek_at is not None and self._seek_at <= now:
            self._seek(now)
        if self._beat_at is not None and self._beat_at <= now:
            self._beat_at = now + self.settings.beat_seconds
            self._beat(now)
        self._announce_changes(now)

    def _announce_changes(self, now: float) -> None:
        if self._changed:
            self._changed = False
            self._hops.clear()
            self.ports.link_interest.ways_changed(now)

    def _send(self, to: str, message: Message, address: str = "") -> None:
        self._reach.send(to, message, address or self.known.addresses.get(to) or self._where.get(to, ""))

    # -- coming and going ------------------------------------------------------------------------------

    def _me(self) -> Contact:
        return (self.ports.name, self.ports.address)

    def _seek(self, now: float) -> None:
        """Ask a contact for our place; again soon while no node is known, else when one is a stranger."""
        strangers = [contact for contact in self._contacts if contact not in self.known.addresses]
        settled = self._is_admitted and bool(self.known.addresses)
        candidates = strangers if settled else self._contacts
        if candidates:
            self._turn += 1
            self._send(candidates[self._turn % len(candidates)], PrefixJoin(self._me()))
        self._seek_at = now + (
            self.settings.merge_seconds * self.ports.rng.uniform(0.5, 1.5)
            if settled
            else self.settings.answer_seconds
        )

    def _linked(self, peer: str | None, now: float) -> None:
        """A link came up: a node that knows no other asks there for its place."""
        if peer is not None and peer not in self._contacts:
            self._contacts = (*self._contacts, peer)[-MOST_CONTACTS:]
        if peer is not None and not self._is_admitted:
            self._turn = self._contacts.index(peer) - 1
            self._seek(now)

    def _sought(self, seek: PrefixJoin, now: float) -> None:
        name, address = seek.newcomer
        if name == self.ports.name:
            return
        id, known = id_of(name), self.known
        hop = known.hop(id, without=name)
        found = {*seek.found, *self._contacts_of(known.row(known.row_of(id))), self._me()}
        if seek.hops == 0:
            found.update(self._contacts_of(known.near))
        if hop is None or seek.hops >= MOST_HOPS:
            found.update(self._contacts_of(known.leaves()))
            self._send(name, PrefixJoinReply(tuple(sorted(found - {seek.newcomer}))), address)
        else:
            self._send(hop, PrefixJoin(seek.newcomer, tuple(sorted(found - {seek.newcomer})), seek.hops + 1))
        self._graves.pop(name, None)
        self._learn(name, address, now, directly=True)

    def _admitted(self, contacts: Iterable[Contact], now: float) -> None:
        before = set(self.known.addresses) if self._is_admitted else set()
        self._learn_all(contacts, now)
        self._is_admitted = True
        requested = self._pings
        for name in self.known.addresses:
            if name not in requested and name not in before:
                self._send(name, PrefixHello(address=self.ports.address))
        self._seek_at = now + self.settings.merge_seconds * self.ports.rng.uniform(0.5, 1.5)

    def _leave(self) -> None:
        for name in self.known.everybody():
            self._send(name, PrefixLeave(self._contacts_of(self.known.leaves())))
        self._beat_at = self._seek_at = None
        self._pings.clear()
        self._has_left = True

    def _contacts_of(self, names: Iterable[str]) -> tuple[Contact, ...]:
        addresses = self.known.addresses
        return tuple((name, addresses[name]) for name in names)

    # -- hearing of others -----------------------------------------------------------------------------

    def _greeted(self, sender: str, greet: PrefixHello, now: float) -> None:
        self._graves.pop(sender, None)
        self._learn(sender, greet.address, now, directly=True)
        self._learn_all(greet.contacts, now)
        if greet.answer:
            leaves = self._contacts_of(self.known.leaves())
            self._send(sender, PrefixHello(leaves, address=self.ports.address), greet.address)

    def _learn_all(self, contacts: Iterable[Contact], now: float) -> None:
        for name, address in contacts:
            if name not in self.known.addresses:
                self._learn(name, address, now)

    def _learn(
        self, name: str, address: str, now: float, *, directly: bool = False, weighed: bool = False
    ) -> None:
        if name == self.ports.name or (not directly and self._is_buried(name, now)):
            return
        known = self.known
        if address and name in self._contacts:
            self._where[name] = address
        was_known = name in known.addresses
        if known.add(name, address):
            self._changed = True
            if not directly and (self._is_admitted or known.is_leaf(name)):
                self._request(name, now)
        if not was_known and self.settings.proximity and (directly or weighed or not self._is_admitted):
            self._weigh(name, address)  # what neighbours say again and again is not measured

    def _is_buried(self, name: str, now: float) -> bool:
        until = self._graves.get(name)
        if until is not None and until <= now:
            del self._graves[name]
            return False
        return until is not None

    # -- who lives ---------------------------------------------------------------------------------------

    def _request(self, name: str, now: float) -> None:
        if name not in self._pings:
            self._pings[name] = _PendingPing(now + self.settings.answer_seconds)
            self._checked[name] = now
            self._send(name, PrefixHello(answer=True, address=self.ports.address))

    def _review_asked(self, now: float) -> None:
        for name, ask in [(name, ask) for name, ask in self._pings.items() if ask.until <= now]:
            if ask.tries < self.settings.tries:
                ask.tries += 1
                ask.until = now + self.settings.answer_seconds
                self._send(name, PrefixHello(answer=True, address=self.ports.address))
            else:
                del self._pings[name]
                self._lost(name, now)

    def _beat(self, now: float) -> None:
        for name in self.known.beside():
            self._request(name, now)
        names = sorted(self.known.everybody(), key=lambda name: self._checked.get(name, 0.0))
        for name in names[: -(-len(names) // self.settings.rounds)]:
            self._request(name, now)
        self._checked = {name: self._checked[name] for name in names if name in self._checked}
        self._compare_row()
        self._graves = {name: until for name, until in self._graves.items() if until > now}
        self._reach.tidy({*self.known.addresses, *self._contacts}, now)

    def _compare_row(self) -> None:
        """Ask a node of our table for the row that it shares with us: its nodes may be nearer than ours."""
        if self.settings.proximity and self.known.table:
            cell, name = self.ports.rng.choice(sorted(self.known.table.items()))
            self._send(name, RowRequest(cell >> self.settings.digit_bits))

    def _lost(self, name: str, now: float) -> None:
        """A node is gone: tell the leaves, and look for others in its places."""
        if name not in self.known.addresses:
            return
        was_leaf = self.known.is_leaf(name)
        self._bury(name, now)
        if was_leaf:
            for leaf in self.known.leaves():
                self._send(leaf, PrefixSuspicion(name))

    def _bury(self, name: str, now: float) -> None:
        known = self.known
        self._reach.give_up(name)
        self._graves[name] = now + self.settings.grave_seconds
        self._pings.pop(name, None)
        self._distances.pop(name, None)
        if name not in known.addresses:
            return
        had_cell, was_leaf = known.rival(name) is None, known.is_leaf(name)
        self._changed = known.remove(name) or self._changed
        if was_leaf:
            for side in (known.up, known.down):
                if side:
                    self._request(side[-1][1], now)
        if had_cell:
            self._fill_gap(id_of(name))

    def _fill_gap(self, id: int) -> None:
        known = self.known
        mates = known.row(known.row_of(id)) or known.leaves()
        if mates:
            self._send(self.ports.rng.choice(sorted(mates)), CellRequest(self._me(), id))

    def _fill(self, fill: CellRequest, now: float) -> None:
        """Our table's cell for the id has what the other one lost, when the two of us share its prefix."""
        found = self.known.table.get(self.known.cell_of(fill.key))
        if found is not None and found != fill.newcomer[0]:
            self._send(
                fill.newcomer[0],
                PrefixHello(self._contacts_of((found,)), address=self.ports.address),
                fill.newcomer[1],
            )

    # -- who is near ---------------------------------------------------------------------------------------

    def _weigh(self, name: str, address: str) -> None:
        """Measure the distance of a node, when it may take another one's cell or belong to the
        neighbourhood."""
        if name in self._distances:
            self._settle(name, address)
        elif name not in self._rivals and (
            self.known.rival(name) is not None or len(self.known.near) < self.settings.near
        ):
            self._rivals[name] = address
            self.ports.emit(ProbePeer(name, address))

    def _probed(self, name: str, seconds: float | None) -> None:
        address = self._rivals.pop(name, self.known.addresses.get(name, ""))
        waiting = self._waiting.pop(name, {})
        if seconds is None:
            return
        if len(self._distances) > 4 * len(self.known.addresses) + 256:
            self._distances = {
                each: far for each, far in self._distances.items() if each in self.known.addresses
            }
        self._distances[name] = seconds
        if name not in self._graves:
            self.known.measured(name, address, seconds)
            self._settle(name, address)
        for rival, where in waiting.items():
            self._settle(rival, where)

    def _settle(self, name: str, address: str) -> None:
        """The nearer of two has the cell."""
        holder, distances = self.known.rival(name), self._distances
        if holder is None or name not in distances or name in self._graves:
            return
        if holder not in distances:
            if holder not in self._waiting:
                self.ports.emit(ProbePeer(holder, self.known.addresses[holder]))
            self._waiting.setdefault(holder, {})[name] = address
        elif distances[name] < distances[holder]:
            self.known.prefer(name, address)
            self._changed = True

    def check(self) -> None:
        self.known.check()
