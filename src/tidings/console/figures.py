"""From what brokers say at two moments to what a person wants to see: rates, delays, changes.

Everything here is pure. Counters may fall (a broker was started again): then the new count is what happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from tidings.runtime.histogram import quantile

Figures = Mapping[str, Any]

COUNTS = ("published", "delivered", "lost", "events over links")  # shown as so many a second
LEVELS = (
    "subscriptions", "waiting", "reading", "entries", "connections", "local clients", "dead letters", "kept",
    "forgotten", "published", "delivered", "lost", "neighbours", "remembered subscriptions", "withheld",
    "refused by rule",
)  # fmt: skip
RECOVERY = (
    "events lost", "events recovered", "recovered twice", "losses given up", "losses open", "gossip sent",
    "events given", "events held for others", "events handed over", "events dropped while away",
    "links healed", "neighbours away",
)  # fmt: skip
SWAPS = ("swaps begun", "swaps done", "swaps refused")
DELAYS = {"acknowledge": "seconds to acknowledge", "deliver": "seconds to deliver"}
PARTS = {"p50": 0.5, "p99": 0.99}
BEYOND = 10.0  # seconds: what is slower than the last bucket is shown as this


class OverlayChange(msgspec.Struct, frozen=True):
    """A change of the overlay between two polls."""

    time: float
    kind: str  # link-up, link-down, broker-up, broker-down, swap
    brokers: tuple[str, ...]
    text: str


def rate(now: Figures, before: Figures | None, name: str, seconds: float) -> float:
    value = now.get(name)
    if before is None or not isinstance(value, int | float) or seconds <= 0:
        return 0.0
    last = before.get(name)
    last = last if isinstance(last, int | float) else 0
    return (value - last if value >= last else value) / seconds


def buckets_since(now: Figures, before: Figures | None, name: str) -> list[int]:
    """The histogram of what happened between two looks."""
    new = list(now.get(name, {}).get("buckets", ()))
    old = list((before or {}).get(name, {}).get("buckets", ()))
    if len(old) != len(new) or (old and old[-1] > new[-1]):
        return new
    return [count - last for count, last in zip(new, old, strict=True)]


def added(histograms: Iterable[list[int]]) -> list[int]:
    given = [buckets for buckets in histograms if buckets]
    return [sum(counts) for counts in zip(*given, strict=True)] if given else []


def delays(buckets: Mapping[str, list[int]]) -> dict[str, dict[str, float | None]]:
    """Milliseconds within which so large a part was done."""
    shown: dict[str, dict[str, float | None]] = {}
    for name, counts in buckets.items():
        found = {part: quantile(counts, value) for part, value in PARTS.items()}
        shown[name] = {p: None if s is None else 1000 * min(s, BEYOND) for p, s in found.items()}
    return shown


def shown_broker(name: str, now: Figures, before: Figures | None, seconds: float) -> dict[str, Any]:
    """One broker, as pages show it."""
    if "problem" in now:
        return {"name": name, "address": now.get("address", ""), "problem": str(now["problem"]), "links": []}
    shown: dict[str, Any] = {
        "name": name,
        "address": now.get("address", ""),
        "links": sorted(now.get("links", ())),
        "problems": [str(problem) for problem in now.get("problems", {}).values()],
        "rates": {count: round(rate(now, before, count, seconds), 2) for count in COUNTS},
        "levels": _present(now, LEVELS),
        "recovery": _present(now, RECOVERY),
        "swaps": _present(now, SWAPS),
        "delays": delays({key: buckets_since(now, before, name) for key, name in DELAYS.items()}),
    }
    return shown


def _present(now: Figures, names: Iterable[str]) -> dict[str, Any]:
    return {name: now[name] for name in names if isinstance(now.get(name), int | float)}


def total(brokers: Mapping[str, Figures], before: Mapping[str, Figures], seconds: float) -> dict[str, Any]:
    """The whole network in one row: what the plots draw."""
    answered = {name: one for name, one in brokers.items() if "problem" not in one}
    buckets = {
        key: added(buckets_since(one, before.get(broker), name) for broker, one in answered.items())
        for key, name in DELAYS.items()
    }
    rates = {
        count: round(sum(rate(one, before.get(name), count, seconds) for name, one in answered.items()), 2)
        for count in COUNTS
    }
    shown = [_present(one, LEVELS) for one in answered.values()]
    levels = {  # one that no broker shows is unknown, not 0
        level: sum(one.get(level, 0) for one in shown)
        for level in LEVELS
        if any(level in one for one in shown)
    }
    return {
        "brokers": len(brokers),
        "silent": len(brokers) - len(answered),
        "links": len(set(links_of(brokers))),
        "rates": rates,
        "levels": levels,
        "delays": delays(buckets),
    }


def links_of(brokers: Mapping[str, Figures]) -> Iterator[tuple[str, str]]:
    """Each link once or twice: as either end says."""
    for name, one in brokers.items():
        for other in one.get("links", ()):
            yield (name, other) if name < other else (other, name)


def changes(
    brokers: Mapping[str, Figures],
    before: Mapping[str, Figures],
    now: float,
    known: Mapping[str, Figures] | None = None,
) -> list[OverlayChange]:
    """Changes of the overlay that an operator should see. `known`: the last answer of each
    broker, since a poll may miss a broker that is just swapping a link."""
    if not before:
        return []
    here = {name for name, one in brokers.items() if "problem" not in one}
    there = {name for name, one in before.items() if "problem" not in one}
    up = [OverlayChange(now, "broker-up", (name,), f"{name} is here") for name in sorted(here - there)]
    down = [
        OverlayChange(now, "broker-down", (name,), f"{name} does not answer") for name in sorted(there - here)
    ]
    links, were = set(links_of(brokers)), set(links_of(before))
    made = [
        OverlayChange(now, "link-up", pair, f"{pair[0]} and {pair[1]} linked")
        for pair in sorted(links - were)
    ]
    cut = [
        OverlayChange(now, "link-down", pair, f"{pair[0]} and {pair[1]} parted")
        for pair in sorted(were - links)
    ]
    return [*down, *up, *_swaps(brokers, before if known is None else known, now), *made, *cut]


def _swaps(
    brokers: Mapping[str, Figures], before: Mapping[str, Figures], now: float
) -> Iterator[OverlayChange]:
    for name, one in sorted(brokers.items()):
        done = int(rate(one, before.get(name), "swaps done", 1.0))
        if done:
            word = "a link" if done == 1 else f"{done} links"
            yield OverlayChange(now, "swap", (name,), f"{name} swapped {word}")


def link_rates(activities: Mapping[str, Figures], seconds: Mapping[str, float]) -> list[dict[str, Any]]:
    """Events a second over each link, both ways; each end tells what it sent."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for name, one in activities.items():
        for peer, count in one.get("sent", {}).items():
            pair = (name, peer) if name < peer else (peer, name)
            link = found.setdefault(pair, {"a": pair[0], "b": pair[1], "ab": 0.0, "ba": 0.0})
            link["ab" if name == pair[0] else "ba"] += round(count / max(seconds.get(name, 1.0), 1e-3), 2)
    return list(found.values())
