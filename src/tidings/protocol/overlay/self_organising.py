"""A tree that rearranges itself: brokers with like interests become neighbours.

SOCBR, pbSOCBR (Virgillito 2003, chapter 4) and a variant that counts hops are settings of one strategy:
- `weigh="associativity"` links the broker that wants most of what we want; the lightest link of the path
  goes.
- `bound_seconds` is pbSOCBR: only brokers so near are linked, and of the lighter links the farthest goes.
- `weigh="hops"` links and cuts what saves most hops per event, by the zones and by the events that were seen.
The rules are functions (`choosing.py`), zones are behind a measure (`measures.py`), who is worth a link is
found by `discovery.py`, and links are changed by `swaps.py`. A broker looks again for changes that were on
their way at its first look (`repeated_search.py`). Here: what triggers it, and which links there are.

A neighbour is kept on the disk before it is used, with whether a swap is still making it. A broker forgets a
link when the far end says that it is gone (`LinkUnknown`). Needs links that keep their order, and routing
that drops what it has seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from tidings.availability.records import Delete, Put, Record
from tidings.errors import SettingsError
from tidings.model.filter import Filter
from tidings.protocol.effects import CloseLink, OpenLink, ProbePeer
from tidings.protocol.inputs import Input, Joined, LinkDown, LinkUp, Parted, Probed, Started
from tidings.protocol.messages import Envelope, Message
from tidings.protocol.overlay import choosing, swaps
from tidings.protocol.overlay.choosing import NEVER_ENDS, LinkOffer
from tidings.protocol.overlay.discovery import Discovery
from tidings.protocol.overlay.measures import Measure, Z, weight
from tidings.protocol.overlay.repeated_search import RepeatedSearch
from tidings.protocol.overlay.subtree_sizes import SubtreeSizes
from tidings.protocol.overlay.swap_messages import (
    DiscoveryPartial,
    DiscoveryReply,
    DiscoveryRequest,
    LinkUnknown,
    SubtreeSize,
)
from tidings.protocol.slots import Overlay

LINKS = "overlay.links"  # table: by name, `_StoredNeighbour`; the row "" says that the table counts
FORMER = "overlay.former"  # table: brokers that a swap has parted us from


class OrganisingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The knobs, each with its price."""

    fan_out: int = 10  # links of a broker at most
    weigh: str = "associativity"  # or "hops"
    trigger: str = (
        ""  # `printed`, `overlap` or `growth`: which change of the zone begins a discovery; "": as printed,
    )
    # or on any growth when hops are weighed. Each costs more messages than the one before and finds more
    ttl: int = NEVER_ENDS  # how far a discovery goes; less costs fewer messages and finds less; 0: never
    adaptive_ttl: bool = False  # True: it is chosen from the events and changes that were seen
    bound_seconds: float | None = None  # one way, to a new neighbour; None: any distance
    keep_alpha: bool = (
        False  # True: no swap that lengthens the mean way between brokers; they count one another
    )
    on_unsubscribe: bool = True  # the thesis knows no such trigger
    again_seconds: float = (
        2.0  # after a change: look again, for what was on its way; 0: never, as in the thesis
    )
    patience_seconds: float = 2.0  # until an answer that did not come is given up
    locks: bool = True  # False: breaks the tree; for the test that shows it

    def __post_init__(self) -> None:
        if self.trigger and self.trigger not in choosing.TRIGGERS:
            raise SettingsError(
                f"no trigger is called {self.trigger!r}", hint=f"there are: {', '.join(choosing.TRIGGERS)}"
            )

    @property
    def active_trigger(self) -> str:
        """The trigger that is chosen, or that of what is weighed: associativity is not what hops are
        after."""
        return self.trigger or (choosing.GROWTH if self.weigh == "hops" else choosing.PRINTED)


class _StoredNeighbour(msgspec.Struct, frozen=True, array_like=True):
    """A neighbour as the disk knows it."""

    swap: str = ""  # that makes the link, and is not over
    address: str = ""  # not empty: we are the one that dials


class SelfOrganisingOverlay(Overlay):
    name = "self-organising"
    messages = (DiscoveryRequest, DiscoveryReply, DiscoveryPartial, LinkUnknown, SubtreeSize, *swaps.MESSAGES)

    def __init__(
        self, neighbours: Iterable[str], measure: Measure, settings: OrganisingSettings | None = None
    ) -> None:
        self.settings = settings or OrganisingSettings()
        self.measure = measure
        self.neighbours: dict[str, _StoredNeighbour] = dict.fromkeys(neighbours, _StoredNeighbour())
        self.former: set[str] = set()
        self.swaps = swaps.Swaps(self, locks=self.settings.locks, patience=self.settings.patience_seconds)
        self.discovery = Discovery(
            self,
            weigh_hops=self.settings.weigh == "hops",
            counts_brokers=self.settings.keep_alpha,
            bound=self.settings.bound_seconds,
            measures=self.settings.keep_alpha,
            patience=self.settings.patience_seconds,
            found=self._found,
        )
        self.looks = RepeatedSearch(
            measure,
            pause=self.settings.again_seconds,
            weigh_hops=self.settings.weigh == "hops",
            draw=lambda: self.ports.rng.random(),
        )
        self.subtree_sizes = SubtreeSizes(self)
        self.counts: Counter[str] = Counter()
        self._up: dict[str, None] = {}
        self._distance: dict[str, float] = {}  # one way, in seconds
        self._own: dict[str, tuple[Filter, int]] = {}  # by digest: what our clients want, and how often
        self._zone: Z = measure.empty
        self._came: Counter[str] = Counter()  # events by the link that brought them; "": from our clients
        self._changes = 0  # of subscriptions here

    # -- links ---------------------------------------------------------------------------------

    def links(self) -> tuple[str, ...]:
        return tuple(peer for peer in self.neighbours if peer in self._up and not self.swaps.is_closing(peer))

    def peers(self) -> tuple[str, ...]:
        return tuple(self.neighbours)

    def distance(self, peer: str) -> float | None:
        return self._distance.get(peer)

    def firm(self, link: str) -> bool:
        kept = self.neighbours.get(link)
        return kept is not None and not kept.swap and link in self._up

    def knows(self, link: str) -> bool:
        return link in self.neighbours

    def is_up(self, link: str) -> bool:
        return link in self._up

    def room(self) -> int:
        firm = sum(1 for kept in self.neighbours.values() if not kept.swap)
        return self.settings.fan_out - firm

    def free(self) -> int:
        return max(0, self.room() - self.swaps.pending())

    def add(self, link: str, swap: str, address: str) -> list[Record]:
        self.neighbours[link] = kept = _StoredNeighbour(swap, address)
        self.former.discard(link)
        return [Put(LINKS, link, msgspec.msgpack.encode(kept)), Delete(FORMER, link)]

    def confirm(self, link: str) -> list[Record]:
        kept = self.neighbours.get(link)
        if kept is None:
            return []
        self.neighbours[link] = kept = msgspec.structs.replace(kept, swap="")
        return [Put(LINKS, link, msgspec.msgpack.encode(kept))]

    def drop(self, link: str) -> list[Record]:
        if link not in self.neighbours:
            return []
        del self.neighbours[link]
        self.former.add(link)
        return [Delete(LINKS, link), Put(FORMER, link, b"")]

    # -- inputs --------------------------------------------------------------------------------

    def on_input(self, input: Input, now: float) -> None:
        match input:
            case Started():
                self._started(input, now)
            case LinkUp():
                self._link_up(input.peer)
            case LinkDown():
                self._up.pop(input.peer, None)
                if input.peer in self.former:
                    self.ports.emit(CloseLink(input.peer, "another link took its place", for_good=True))
            case Joined():
                self._joined(input.peer)
            case Parted():
                self.ports.disk.persist(self.drop(input.peer))
                self.ports.emit(CloseLink(input.peer, "it was parted from this network"))
            case Probed():
                if input.distance is not None:
                    self._distance[input.peer] = input.distance / 2
                self.discovery.probed(input.peer, now)
        if isinstance(input, LinkDown):
            self.subtree_sizes.lost(input.peer)
        if isinstance(input, LinkUp | LinkDown | Parted):
            self._recount(now)

    def _started(self, input: Started, now: float) -> None:
        kept = input.state.tables.get(LINKS, {})
        if "" in kept:
            rows = {
                peer: msgspec.msgpack.decode(row, type=_StoredNeighbour) for peer, row in kept.items() if peer
            }
            self.neighbours = dict(sorted(rows.items()))
        else:
            first = [Put(LINKS, peer, msgspec.msgpack.encode(_StoredNeighbour())) for peer in self.neighbours]
            self.ports.disk.persist([Put(LINKS, "", b""), *first])
        self.former = set(input.state.tables.get(FORMER, {}))
        self.swaps.started(
            input.state.tables.get(swaps.SWAPS, {}), input.state.tables.get(swaps.DONE, {}), now
        )
        for peer, row in self.neighbours.items():
            if row.address or row.swap:
                self.ports.emit(OpenLink(peer, row.address))

    def _link_up(self, peer: str) -> None:
        if peer in self.neighbours:
            self._up[peer] = None
            self.swaps.linked(peer)
            if self.settings.keep_alpha:
                self.ports.emit(ProbePeer(peer, self.neighbours[peer].address))
        elif peer in self.former:
            self.ports.send(peer, LinkUnknown())

    def _joined(self, peer: str) -> None:
        """A broker wants to be a neighbour."""
        if peer == self.ports.name:
            self.ports.emit(CloseLink(peer, f"{peer} is our own name; every broker needs a name of its own"))
        elif peer in self.neighbours or peer in self.former:
            self.ports.emit(
                OpenLink(peer)
            )  # one that a swap has parted from us is told so, once it is linked
        else:
            self.ports.disk.persist(self.add(peer, "", ""), partial(self._joined_now, peer))

    def _joined_now(self, peer: str, now: float) -> None:
        self.ports.emit(OpenLink(peer))

    def on_message(self, sender: str, message: Message, now: float) -> None:
        if isinstance(message, DiscoveryRequest):
            self.discovery.on_request(sender, message, now)
        elif isinstance(message, DiscoveryReply):
            self.discovery.on_reply(sender, message, now)
        elif isinstance(message, DiscoveryPartial):
            self.discovery.on_partial(sender, message, now)
        elif isinstance(message, LinkUnknown):
            self.ports.disk.persist(self.drop(sender))
            self._up.pop(sender, None)
            self.ports.emit(CloseLink(sender, "the other end says that there is no such link", for_good=True))
        elif isinstance(message, SubtreeSize):
            self.subtree_sizes.receive(sender, message, now)
        else:
            self.swaps.on_message(sender, message, now)
            self._recount(now)

    def _recount(self, now: float) -> None:
        if self.settings.keep_alpha:
            self.subtree_sizes.changed(now)

    def next_deadline(self) -> float | None:
        times = (
            self.swaps.next_deadline(), self.discovery.next_deadline(), self.looks.due, self.subtree_sizes.due
        )  # fmt: skip
        return min((at for at in times if at is not None), default=None)

    def on_timer(self, now: float) -> None:
        if self.swaps.on_timer(now):
            self._recount(now)
        self.discovery.on_timer(now)
        self.subtree_sizes.on_timer(now)
        if self.looks.due is not None and self.looks.due <= now:
            self._look_again(now)

    # -- what is wanted, and what was seen ----------------------------------------------------------

    def interest_added(self, filter: Filter, now: float) -> None:
        count = self._own.get(filter.digest, (filter, 0))[1]
        self._own[filter.digest] = (filter, count + 1)
        if not count:
            self._changed(self.measure.join(self._zone, self.measure.of([filter])), now)

    def interest_removed(self, filter: Filter, now: float) -> None:
        count = self._own[filter.digest][1]
        if count > 1:
            self._own[filter.digest] = (filter, count - 1)
            return
        del self._own[filter.digest]
        zone = self.measure.of(wanted for wanted, _ in self._own.values())
        if self.settings.on_unsubscribe:
            self._changed(zone, now)
        else:
            self._zone = zone

    def event_seen(self, envelope: Envelope, came_from: str | None) -> None:
        self._came[came_from or ""] += 1

    def _changed(self, zone: Z, now: float) -> None:
        """Our zone changed: is there a broker that we should be linked with?"""
        old, self._zone = self._zone, zone
        self._changes += 1
        ttl = self._ttl()
        if ttl < 1:
            return
        behind = self.behind()
        links = choosing.worth_asking(self.measure, old, zone, behind, self.settings.active_trigger)
        self.counts["activated"] += bool(links)
        self.looks.begin(behind, now)
        self.discovery.ask(zone, links, ttl, now)

    def _look_again(self, now: float) -> None:
        links = self.looks.again(self._zone, self.behind())
        self.counts["activated again"] += bool(links)
        self.discovery.ask(self._zone, links, self._ttl(), now)

    def missed(self, link: str, now: float) -> None:
        self.looks.miss(link, now)

    def _ttl(self) -> int:
        if not self.settings.adaptive_ttl:
            return self.settings.ttl
        seen = sum(self._came.values()) / self._changes
        return choosing.adaptive_ttl(seen, max(self.discovery.deepest, 4))

    def zone(self) -> Z:
        return self._zone

    def _zone_behind(self, link: str) -> Z:
        return self.measure.of(self.ports.link_interest.interest(link))

    def behind(self, without: str | None = None) -> dict[str, Z]:
        return {link: self._zone_behind(link) for link in self.links() if link != without and self.firm(link)}

    def hanging(self, path: tuple[str, ...]) -> tuple[Z, float]:
        zone, rate = self._zone, 1.0 + self._came[""]
        for link in self.links():
            if link not in path:
                zone = self.measure.join(zone, self._zone_behind(link))
                rate += 1.0 + self._came[link]
        return zone, float(self.subtree_sizes.hanging(path)) if self.settings.keep_alpha else rate

    # -- choosing ------------------------------------------------------------------------------

    def _found(self, offer: LinkOffer, now: float) -> None:
        """The best broker behind a link: worth a link of ours?"""
        if offer.broker in self.neighbours or len(offer.hops) < 3:
            return
        cut = self._cut(offer, self._keeps_alpha(offer) if self.settings.keep_alpha else choosing.any_cut)
        if cut is None:
            self.counts["not worth it"] += 1
            return
        path = tuple(hop.broker for hop in offer.hops)
        if not self.swaps.begin(path, cut, offer.address, now):
            self.missed(path[1], now)

    def _keeps_alpha(self, offer: LinkOffer) -> Callable[[int], bool]:
        away = offer.hops[-1].away
        return lambda cut: away is not None and not choosing.slows_diffusion(offer.hops, away, cut)

    def _cut(self, offer: LinkOffer, may: Callable[[int], bool]) -> int | None:
        if self.settings.weigh == "hops":
            return choosing.saving_cut(self.measure, offer.hops, self.free(), offer.free, may)[0]
        gain = weight(self.measure, self._zone, self.measure.unpack(offer.zone))
        rule = choosing.lightest_cut if self.settings.bound_seconds is None else choosing.farthest_cut
        return rule(offer.hops, self.free(), offer.free, gain, may)

    # -- for people and for tests --------------------------------------------------------------------

    def figures(self) -> dict[str, int]:
        begun = {"swaps begun": 0, "swaps done": 0, "swaps refused": self.swaps.counts["nack"]}
        return {**begun, **{f"swaps {name}": self.swaps.counts[name] for name in ("begun", "done")}}

    def check(self) -> None:
        assert set(self._up) <= set(self.neighbours) | self.former, "a link to an unknown broker"
        assert not self.former & set(self.neighbours), "a link that is gone and is not"
        if self.settings.locks:
            limit = self.settings.fan_out + len(self.swaps.swaps)
            assert len(self.neighbours) <= max(limit, 1), f"{len(self.neighbours)} links are too many"
        self.swaps.check()


class NearOverlay(SelfOrganisingOverlay):
    name = "self-organising, near"


class FewerHopsOverlay(SelfOrganisingOverlay):
    name = "self-organising by hops"
