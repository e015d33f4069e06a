"""Quenching, in the manner of Elvin: publishers learn that no subscriber wants what they would publish.

On the all-brokers policy every broker knows every subscription, so the publisher's own broker can say at once
whether any of them overlaps what a client advertises (Virgillito 2003, 2.4.4). It tells the client so
whenever the answer changes. A client that was told holds back events that only unwanted advertisements cover;
with them go the way to the broker and the matching there. The price is that of the policy: all filters
everywhere.
"""

from __future__ import annotations

from tidings.algebra import overlaps
from tidings.model.filter import Filter
from tidings.model.subscription import Advertisement
from tidings.protocol.messages import Quench
from tidings.protocol.slots import Ports
from tidings_lab.routing.direct import Hold, MatchFirst


class _AdvertisedFilter:
    """Advertisement of a client, and the filters here that overlap it."""

    def __init__(self, client: str, filter: Filter) -> None:
        self.client, self.filter = client, filter
        self.count = 1  # the same client may advertise it under several names
        self.wanted: set[str] = set()  # digests


class Quenching(MatchFirst):
    name = "match first, quenching"

    def bind(self, ports: Ports) -> None:
        super().bind(ports)
        self._filters: dict[str, Filter] = {}  # that some broker wants, by digest
        self._offers: dict[tuple[str, str], _AdvertisedFilter] = {}  # by client and digest

    def advertisement_added(self, advertisement: Advertisement, now: float) -> None:
        key = (advertisement.publisher, advertisement.filter.digest)
        if key in self._offers:
            self._offers[key].count += 1
            return
        offer = self._offers[key] = _AdvertisedFilter(advertisement.publisher, advertisement.filter)
        offer.wanted = {d for d, filter in self._filters.items() if overlaps(filter, offer.filter)}
        self._announce(offer)

    def advertisement_removed(self, advertisement: Advertisement, now: float) -> None:
        key = (advertisement.publisher, advertisement.filter.digest)
        self._offers[key].count -= 1
        if not self._offers[key].count:
            del self._offers[key]

    def _change(self, hold: Hold, now: float) -> None:
        super()._change(hold, now)
        digest = hold.filter.digest
        came = self._filters_of.holds(digest)
        if came is (digest in self._filters):
            return
        if came:
            self._filters[digest] = hold.filter
        else:
            del self._filters[digest]
        for offer in self._offers.values():
            self._review(offer, hold.filter, came=came)

    def _review(self, offer: _AdvertisedFilter, filter: Filter, *, came: bool) -> None:
        was_wanted = bool(offer.wanted)
        if not came:
            offer.wanted.discard(filter.digest)
        elif overlaps(filter, offer.filter):
            offer.wanted.add(filter.digest)
        if bool(offer.wanted) is not was_wanted:
            self._announce(offer)

    def _announce(self, offer: _AdvertisedFilter) -> None:
        address = self.ports.subscribers.address_of(offer.client)
        if address is not None:
            self.ports.send(address, Quench(offer.filter.digest, not offer.wanted))

    def check(self) -> None:
        super().check()
        stored = set(self._filters)
        assert all(offer.wanted <= stored for offer in self._offers.values()), "wanted by nobody who is here"
