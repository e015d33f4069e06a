"""Upper bound on the delay of an event in a run, derived from its settings and its faults.

The largest delay that a history shows is no bound: a slower event was perhaps never delivered, and
so never seen. Here the bound is derived. Faults that only delay (duplication, reordering, a slow
link, a wrong clock) leave one: the slowest path over the links, each as slow as its incidents can
make it at once, plus the delay by reordering on each link. If every event is kept, a broker
that crashes or stops only delays too: as long as it is away, and until its clients are back.
With any other fault an event can be lost, and there is no bound (`inf`).
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf, prod

from tidings.simulation import faults as fault
from tidings.simulation.faults import FaultPlan
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import Edge, OverlayGraph

ONLY_DELAY = frozenset({fault.SLOW_LINK, fault.CLOCK_SKEW})  # incidents; rates are looked at by name
AWAY = frozenset({fault.CRASH, fault.STOP})
HANDSHAKES = 10  # there and back and a sync each, at most: greeting, subscribing, publishing again, telling


def longest_delay(
    overlay: OverlayGraph,
    plan: FaultPlan,
    settings: SimulationSettings,
    latencies: dict[Edge, float] | None = None,
    *,
    is_kept: bool = False,
) -> float:
    """Most seconds from a publish until all its subscribers have received it; infinite: it may be lost.

    For systems that forward an event at once, over any present link. `is_kept`: every event is
    on the disk of the one broker until all its subscribers have it."""
    harmless = ONLY_DELAY | AWAY if is_kept else ONLY_DELAY
    if plan.rates.loss or plan.rates.corruption or any(i.kind not in harmless for i in plan.incidents):
        return inf
    reordering_delay = plan.rates.reorder_seconds if plan.rates.reordering else 0.0
    seconds: dict[str, dict[str, float]] = {broker: {} for broker in overlay.brokers}
    for a, b in overlay.links:
        calm = (latencies or {}).get((a, b), settings.link_seconds)
        seconds[a][b] = seconds[b][a] = calm * slowest(plan, (a, b)) + reordering_delay
    ends = 2 * settings.client_seconds + settings.disk_seconds
    way = max(max(_farthest(broker, seconds).values()) for broker in overlay.brokers)
    return ends + way + longest_absence(plan, settings)


def longest_absence(plan: FaultPlan, settings: SimulationSettings) -> float:
    """Seconds for which a broker and its clients may be apart: incidents with less between them
    than it takes to come back are one absence."""
    back = settings.detect_seconds + HANDSHAKES * (settings.client_seconds + settings.disk_seconds)
    longest, begin, end = 0.0, -inf, -inf
    for incident in sorted((i for i in plan.incidents if i.kind in AWAY), key=lambda i: i.at):
        if incident.at > end + back:
            begin = incident.at
        end = max(end, incident.until)
        longest = max(longest, end - begin + 2 * back)
    return longest


def slowest(plan: FaultPlan, edge: Edge) -> float:
    """Largest slowdown factor of a link: incidents at one time add up."""
    hits = [i for i in plan.incidents if i.kind == fault.SLOW_LINK and {edge, edge[::-1]}.intersection(i.cut)]
    return max((prod(i.amount for i in hits if i.at <= one.at <= i.until) for one in hits), default=1.0)


def _farthest(start: str, seconds: dict[str, dict[str, float]]) -> dict[str, float]:
    """The quickest path to every broker: later copies have no effect."""
    found: dict[str, float] = {}
    queue = [(0.0, start)]
    while queue:
        taken, broker = heappop(queue)
        if broker in found:
            continue
        found[broker] = taken
        for other, more in seconds[broker].items():
            if other not in found:
                heappush(queue, (taken + more, other))
    return found
