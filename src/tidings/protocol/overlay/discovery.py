"""Looking for a broker that is worth a link: tear-up discovery (Virgillito 2003, 4.3.3 and 4.4.2).

A request goes from broker to broker along links behind which there may be a better neighbour; each keeps, for
this request alone, the brokers it waits for and the best offer so far, and answers once. The printed
pseudo-code never ends and mixes up what it has heard (E-V9); the differences here: a request does not go back
where it came from, an offer is kept whole with its own path, the state is kept by request, and a broker that
waits too long answers with what it has, and says that it is not all. With a bound on the distance a broker
measures how far it is from the one that asks, and one that is too far away (farther than the bound; at the
bound is near enough) passes the request on but does not offer itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Protocol

import msgspec

from tidings.protocol.effects import ProbePeer
from tidings.protocol.overlay import choosing
from tidings.protocol.overlay.choosing import Hop, LinkOffer
from tidings.protocol.overlay.measures import Measure, Z, weight
from tidings.protocol.overlay.swap_messages import DiscoveryPartial, DiscoveryReply, DiscoveryRequest
from tidings.protocol.slots import Ports

FURTHER = 0.8  # of the patience is left at the next broker, so that those behind answer first


class DiscoveryOverlay(Protocol):
    """Interface of the overlay, as discovery uses it."""

    ports: Ports
    measure: Measure

    def zone(self) -> Z:
        """Interest of this broker."""

    def behind(self, without: str | None = None) -> dict[str, Z]:
        """Interest behind each link that could be asked."""

    def free(self) -> int: ...

    def knows(self, link: str) -> bool: ...

    def hanging(self, path: tuple[str, ...]) -> tuple[Z, float]:
        """Interest here and behind all links but those on the path, and events that come from there."""

    def distance(self, peer: str) -> float | None: ...

    def missed(self, link: str, now: float) -> None:
        """A broker behind this link did not answer in time."""


class _PendingDiscovery:
    """A request that waits for answers."""

    __slots__ = ("back", "best", "deadline", "is_whole", "waiting")

    def __init__(self, back: str | None, best: LinkOffer | None, waiting: set[str], deadline: float) -> None:
        self.back = back  # None: we asked
        self.best = best
        self.waiting = waiting
        self.deadline = deadline
        self.is_whole = True


class Discovery:
    def __init__(
        self,
        here: DiscoveryOverlay,
        *,
        weigh_hops: bool,
        counts_brokers: bool = False,
        bound: float | None,
        measures: bool = False,
        patience: float,
        found: Callable[[LinkOffer, float], None],
    ) -> None:
        self._here = here
        self._weigh_hops = weigh_hops
        self._hangs = weigh_hops or counts_brokers  # does what hangs on the path matter?
        self._bound = bound
        self._measures = measures or bound is not None  # how far is the asking broker?
        self._patience = patience
        self._found = found
        self._pending: dict[str, _PendingDiscovery] = {}
        self._probing: dict[str, list[tuple[str, DiscoveryRequest, float]]] = {}  # by measured broker
        self._number = 0
        self.counts: Counter[str] = Counter()
        self.deepest = 0  # the longest path that was seen

    # -- asking -----------------------------------------------------------------------------------

    def ask(self, zone: Z, links: list[str], ttl: int, now: float) -> None:
        """One discovery for each link; each finds the best broker behind it."""
        here = self._here
        packed = here.measure.pack(zone)
        for link in links:
            self._number += 1
            request = f"{here.ports.name}/{here.ports.rng.getrandbits(32):08x}/{self._number}"
            self._pending[request] = _PendingDiscovery(None, None, {link}, now + self._patience)
            self.counts["requests"] += 1
            hops = (self._hop(None, None, (here.ports.name, link)),)
            patience = self._patience * FURTHER
            address = here.ports.address
            here.ports.send(link, DiscoveryRequest(request, packed, packed, hops, ttl - 1, patience, address))

    def _hop(self, before: str | None, link_weight: float | None, path: tuple[str, ...]) -> Hop:
        """Us, on the way of a discovery: `path` are the links that it uses here."""
        here = self._here
        zone, rate = here.hanging(path) if self._hangs else (here.measure.empty, 0.0)
        return Hop(
            here.ports.name,
            link_weight or 0.0,
            None if before is None else here.distance(before),
            None,
            here.measure.pack(zone) if self._weigh_hops else b"",
            rate,
        )

    # -- being asked -----------------------------------------------------------------------------

    def on_request(self, sender: str, request: DiscoveryRequest, now: float) -> None:
        requester = request.hops[0].broker
        if self._measures and self._here.distance(requester) is None:
            waiting = self._probing.setdefault(requester, [])
            waiting.append((sender, request, now + request.patience))
            if len(waiting) == 1:
                self.counts["probes"] += 1
                self._here.ports.emit(ProbePeer(requester, request.address))
            return
        self._consider(sender, request, now)

    def probed(self, peer: str, now: float) -> None:
        for sender, request, until in self._probing.pop(peer, ()):
            if now < until:
                self._consider(sender, request, now)

    def _consider(self, sender: str, request: DiscoveryRequest, now: float) -> None:
        here, measure = self._here, self._here.measure
        requested, own = measure.unpack(request.zone), here.zone()
        behind = here.behind(without=sender) if request.ttl > 0 else {}
        onward = [
            link
            for link in choosing.worth_passing(measure, requested, own, behind)
            if all(hop.broker != link for hop in request.hops)
        ]
        link_weight = weight(measure, measure.unpack(request.nearest), own)
        offer = self._offer(sender, request, requested, own, link_weight)
        self.deepest = max(self.deepest, len(request.hops))
        if not onward or request.request in self._pending:
            here.ports.send(sender, DiscoveryReply(request.request, offer))
            return
        until = now + request.patience
        self._pending[request.request] = _PendingDiscovery(sender, offer, set(onward), until)
        for link in onward:
            hop = self._hop(sender, link_weight, (sender, link))
            hop = msgspec.structs.replace(hop, away=here.distance(request.hops[0].broker))
            self.counts["requests"] += 1
            here.ports.send(
                link,
                DiscoveryRequest(
                    request.request, request.zone, measure.pack(own), (*request.hops, hop), request.ttl - 1,
                    request.patience * FURTHER, request.address,
                ),
            )  # fmt: skip

    def _offer(
        self, sender: str, request: DiscoveryRequest, requested: Z, own: Z, link_weight: float
    ) -> LinkOffer | None:
        """Ourselves, unless we are too far away from the one that asks."""
        here, requester = self._here, request.hops[0].broker
        away = here.distance(requester)
        if self._bound is not None and (away is None or away > self._bound):
            return None
        hop = msgspec.structs.replace(self._hop(sender, link_weight, (sender,)), away=away)
        hops = (*request.hops, hop)
        packed = here.measure.pack(own)
        value = here.measure.common(requested, own)
        if self._weigh_hops:
            if len(hops) < 3:
                return None  # a neighbour is linked already
            # The asking broker may be full, and then has fewer links to choose from: it looks again itself.
            value = choosing.saving_cut(here.measure, hops, 1, here.free())[1]
        return LinkOffer(value, packed, here.free(), hops, here.ports.address)

    # -- answers ---------------------------------------------------------------------------------

    def on_reply(self, sender: str, reply: DiscoveryReply, now: float) -> None:
        pending = self._pending.get(reply.request)
        if pending is None or sender not in pending.waiting:
            return
        pending.waiting.discard(sender)
        pending.best = choosing.best((pending.best, reply.offer))
        if not pending.waiting:
            self._over(reply.request, now)

    def on_partial(self, sender: str, partial: DiscoveryPartial, now: float) -> None:
        pending = self._pending.get(partial.request)
        if pending is not None and sender in pending.waiting:
            self._incomplete(pending, sender, now)

    def _over(self, request: str, now: float) -> None:
        pending = self._pending.pop(request)
        if pending.back is not None:
            if not pending.is_whole:
                self._here.ports.send(pending.back, DiscoveryPartial(request))
            self._here.ports.send(pending.back, DiscoveryReply(request, pending.best))
        elif pending.best is not None:
            self.deepest = max(self.deepest, len(pending.best.hops) - 1)
            self._found(pending.best, now)

    def next_deadline(self) -> float | None:
        return min((pending.deadline for pending in self._pending.values()), default=None)

    def on_timer(self, now: float) -> None:
        for request in [name for name, pending in self._pending.items() if pending.deadline <= now]:
            self.counts["given up"] += 1
            pending = self._pending[request]
            for link in sorted(pending.waiting):
                self._incomplete(pending, link, now)
            self._over(request, now)

    def _incomplete(self, pending: _PendingDiscovery, link: str, now: float) -> None:
        """Tell the asking broker that an unanswered branch may hide a better neighbour."""
        pending.is_whole = False
        if pending.back is None:
            self._here.missed(link, now)
