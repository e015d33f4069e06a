"""The rules of self-organisation, as functions of what a broker knows.

SOCBR and pbSOCBR (Virgillito 2003, 4.3 and 4.4) in their corrected form, and ours, which weighs hops.
Rules
- The activation predicate: the zone really changed, and behind some link there is now a larger share of
  it. It holds after an unsubscription as well as after a subscription; the thesis has the latter only.
  As printed (`PRINTED`) it compares shares of the zone and saturates: a link that covers the zone never
  triggers again. `OVERLAP` compares the overlap itself; `GROWTH` asks over every link when the zone really
  changed.
- The forwarding predicate as printed passes a request on where more of the zone is wanted than here.
  `NOT_LESS`
  passes it on where as much is wanted too, `ANY` where some is, `EVERYWHERE` always; these are for
  comparison.
- A hop sequence begins with the broker that asks; the link of hop k joins brokers k - 1 and k, so the first
  hop has none. The cut link is named by the number of its hop.
- Associativity: N times the system's is the sum of all links' weights. So a swap that raises the weight
  raises it by exactly that much, and the best tree is the spanning tree of maximum weight.
- Expected hops: seen from the path, the brokers hang on it in clusters. A link carries what is published on
  one side of it and wanted on the other. Cutting the path at another link only changes the order of the
  clusters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate

import msgspec

from tidings.protocol.overlay.measures import Measure, Z, associativity

NEVER_ENDS = 1 << 30  # a TTL without effect
BREAK_EVEN = (
    5.0  # events for each change of a subscription: from here on looking everywhere pays (E-V9c: 1 to 5)
)


PRINTED, OVERLAP, GROWTH = "printed", "overlap", "growth"
TRIGGERS = (PRINTED, OVERLAP, GROWTH)
NOT_LESS, ANY, EVERYWHERE = "not less", "any", "everywhere"
FORWARDINGS = (PRINTED, NOT_LESS, ANY, EVERYWHERE)


class Hop(msgspec.Struct, frozen=True, array_like=True):
    """A broker on the way of a discovery."""

    broker: str
    weight: float = 0.0  # of the link from the hop before
    seconds: float | None = None  # along that link
    away: float | None = None  # from the broker that asks, as measured by this one
    zone: bytes = b""  # of all that hangs on the path here
    rate: float = (
        0.0  # events that come onto the path here; for brokers that keep alpha: brokers that hang on it here
    )


class LinkOffer(msgspec.Struct, frozen=True, array_like=True):
    """A broker that could be linked with the one that asks, and the way to it."""

    value: float
    zone: bytes  # its own
    free: int  # links that it may still open
    hops: tuple[Hop, ...]
    address: str = ""

    @property
    def broker(self) -> str:
        return self.hops[-1].broker


def really_changed(measure: Measure, old: Z, new: Z) -> bool:
    """Is the zone another one? Brokers that weigh hops ask over every link then: what the activation
    predicate looks at, associativity, is not what they are after."""
    return not measure.size(old) == measure.size(new) == measure.common(old, new)


def worth_asking(
    measure: Measure, old: Z, new: Z, behind: Mapping[str, Z], trigger: str = PRINTED
) -> list[str]:
    """The links for which the activation predicate holds."""
    if not really_changed(measure, old, new):
        return []
    if trigger == GROWTH:
        return list(behind)
    if trigger == OVERLAP:
        return [
            link for link, zone in behind.items() if measure.common(new, zone) > measure.common(old, zone)
        ]
    return [
        link
        for link, zone in behind.items()
        if associativity(measure, new, zone) > associativity(measure, old, zone)
    ]


def worth_passing(
    measure: Measure, requested: Z, own: Z, behind: Mapping[str, Z], forwarding: str = PRINTED
) -> list[str]:
    """The links for which the forwarding predicate holds; `behind` leaves out the link that asked."""
    if forwarding == EVERYWHERE:
        return list(behind)
    here = 0.0 if forwarding == ANY else measure.common(requested, own)
    if forwarding == NOT_LESS:
        return [link for link, zone in behind.items() if measure.common(requested, zone) >= max(here, 1e-12)]
    return [link for link, zone in behind.items() if measure.common(requested, zone) > here]


def best(offers: Iterable[LinkOffer | None]) -> LinkOffer | None:
    """The whole offer that is worth most; of equals, the first by name."""
    there = [offer for offer in offers if offer is not None]
    return min(there, key=lambda offer: (-offer.value, offer.broker), default=None)


def allowed_cuts(hops: Sequence[Hop], own_free: int, far_free: int) -> range:
    """Links of the path that may go, so that no broker exceeds its bound on links."""
    last = len(hops) - 1
    if own_free <= 0 and far_free <= 0:
        return range(0)
    if own_free <= 0:
        return range(1, 2)
    if far_free <= 0:
        return range(last, last + 1)
    return range(1, last + 1)


def any_cut(_cut: int) -> bool:
    """No rule beyond the bound on links."""
    return True


def lightest_cut(
    hops: Sequence[Hop], own_free: int, far_free: int, gain: float, may: Callable[[int], bool] = any_cut
) -> int | None:
    """SOCBR: the link of least weight, when the new one weighs more."""
    cuts = filter(may, allowed_cuts(hops, own_free, far_free))
    chosen = min(cuts, key=lambda k: hops[k].weight, default=None)
    return chosen if chosen is not None and gain > hops[chosen].weight else None


def farthest_cut(
    hops: Sequence[Hop], own_free: int, far_free: int, gain: float, may: Callable[[int], bool] = any_cut
) -> int | None:
    """pbSOCBR: of the links that weigh less than the new one, that farthest from the broker that asks."""
    lighter = [k for k in allowed_cuts(hops, own_free, far_free) if hops[k].weight < gain and may(k)]
    return max(lighter, key=lambda k: (hops[k].away or 0.0, -hops[k].weight), default=None)


# -- expected hops ------------------------------------------------------------------------------


def crossings(measure: Measure, zones: Sequence[Z], rates: Sequence[float]) -> float:
    """Links of a line of clusters that an event crosses, in the mean: at each, what is published on one
    side and wanted on the other."""
    left = list(accumulate(zones, measure.join))
    right = list(accumulate(reversed(zones), measure.join))[::-1]
    total = sum(rates)
    before, crossed = 0.0, 0.0
    for k in range(len(zones) - 1):
        before += rates[k]
        crossed += before * measure.size(right[k + 1]) + (total - before) * measure.size(left[k])
    return crossed / total if total > 0 else 0.0


def hops_saved(measure: Measure, hops: Sequence[Hop], cut: int) -> float:
    """Hops per event that are saved when the ends of the path are linked and link `cut` goes."""
    zones = [measure.unpack(hop.zone) for hop in hops]
    rates = [hop.rate for hop in hops]
    return _saved(measure, zones, rates, crossings(measure, zones, rates), cut)


def _saved(measure: Measure, zones: list[Z], rates: list[float], now: float, cut: int) -> float:
    return now - crossings(measure, zones[cut:] + zones[:cut], rates[cut:] + rates[:cut])


def saving_cut(
    measure: Measure,
    hops: Sequence[Hop],
    own_free: int,
    far_free: int,
    may: Callable[[int], bool] = any_cut,
) -> tuple[int | None, float]:
    """The link whose going saves most hops, and how many; None: every swap costs hops."""
    zones = [measure.unpack(hop.zone) for hop in hops]
    rates = [hop.rate for hop in hops]
    now = crossings(measure, zones, rates)
    cuts = filter(may, allowed_cuts(hops, own_free, far_free))
    savings = {k: _saved(measure, zones, rates, now, k) for k in cuts}
    chosen = max(savings, key=lambda k: savings[k], default=None)
    if chosen is None or savings[chosen] <= 1e-9:
        return None, 0.0
    return chosen, savings[chosen]


# -- how far to look, and how fast events spread ------------------------------------------------------


def adaptive_ttl(events_per_change: float, diameter: int) -> int:
    """Hops to search (4.5.3 leaves the rule open; this one is ours): the whole network when there are
    many events for each change of a subscription, and less of it in proportion when there are fewer. The
    diameter is that of what was looked at so far, so no bound on looking may hang on it alone."""
    if events_per_change >= BREAK_EVEN:
        return NEVER_ENDS
    return max(1, math.ceil(diameter * events_per_change / BREAK_EVEN))


def slows_diffusion(hops: Sequence[Hop], new_seconds: float, cut: int) -> bool:
    """Would the mean way between any two brokers of the network be longer after this swap?

    The speed of diffusion, alpha, is what chapter 3 of the thesis says decides how much is lost; 6.1 wants it
    computed for a tree, and no swap to lower it. A swap only changes the order of what hangs on the path, so
    the sum of all ways changes by what the links of the path are passed: by all pairs of which one broker
    hangs on each side. To count the brokers of the path alone would not do: most ways lead farther.
    Unmeasured links count as zero."""
    links = [hop.seconds or 0.0 for hop in hops[1:]]
    subtree_sizes = [max(1.0, hop.rate) for hop in hops]
    after = _ways([*links[cut:], new_seconds, *links[: cut - 1]], subtree_sizes[cut:] + subtree_sizes[:cut])
    return after > _ways(links, subtree_sizes) * (1 + 1e-12) + 1e-12


def _ways(links: Sequence[float], subtree_sizes: Sequence[float]) -> float:
    """Sum that the links of a line add to the ways between all pairs of brokers that hang on it."""
    total = sum(subtree_sizes)
    before = list(accumulate(subtree_sizes))
    return sum(seconds * near * (total - near) for seconds, near in zip(links, before, strict=False))
