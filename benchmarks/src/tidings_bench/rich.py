"""Costs of lists and decimals in matching, beside the same work on flat events and beside rule-engine.

Event-ruler, the engine behind EventBridge patterns, is a Java library and cannot be had from the registries
that this package installs from. Peers with lists that can: rule-engine, and `event-ruler` of PyPI,
which tests one EventBridge pattern on one event (a port in Go; it has no index).
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from importlib.util import find_spec
from typing import Any, NamedTuple

from tidings.language import parse_filter
from tidings.matching.columnar.matcher import ColumnarMatcher
from tidings.matching.small import SmallMatcher
from tidings.model.event import make_event

RICH = ("lists", "decimals")
SIZES, QUICK_SIZES = (500, 5_000), (500,)
PROBES = 200
WORDS = 400  # different tags
RULES = 500  # rules that the peer is measured with


class RichWork(NamedTuple):
    """Filters as our texts and as the peer's, and bodies of events: with the rich values, and flat."""

    name: str
    texts: list[str]
    rules: list[str]
    bodies: list[dict[str, Any]]
    flat_texts: list[str]
    flat_bodies: list[dict[str, Any]]
    patterns: list[str]  # of EventBridge; none where it has no such condition


def rich_work(name: str, size: int) -> RichWork:
    rng = random.Random(7)
    if name == "lists":
        tags = [f"t{rng.randrange(WORDS)}" for _ in range(size)]
        lists = [[f"t{rng.randrange(WORDS)}" for _ in range(5)] for _ in range(PROBES)]
        return RichWork(
            name, [f"'{tag}' IN tags" for tag in tags], [f"'{tag}' in tags" for tag in tags],
            [{"tags": some} for some in lists], [f"tags = '{tag}'" for tag in tags],
            [{"tags": some[0]} for some in lists], [json.dumps({"tags": [tag]}) for tag in tags],
        )  # fmt: skip
    bounds = [round(rng.random() * 100, 2) for _ in range(size)]
    prices = [round(rng.random() * 100, 2) for _ in range(PROBES)]
    texts = [f"price BETWEEN {low!r} AND {low + 1!r}" for low in bounds]
    rules = [f"price >= {low!r} and price <= {low + 1!r}" for low in bounds]
    decimals = [{"price": Decimal(str(price))} for price in prices]
    return RichWork(name, texts, rules, decimals, texts, [{"price": price} for price in prices], [])


def rich_rows(
    work: str, sizes: Sequence[int], rate: Callable[..., float], row: Callable[..., dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Events a CPU second of both matchers, with the rich values and flat, and of the peer."""
    for size in sizes:
        made = rich_work(work, size)
        peers = {"rule-engine": _peer_rate(made, size, rate), "event-ruler": _pattern_rate(made, size, rate)}
        best = max((figure for figure in peers.values() if figure is not None), default=None)
        for kind, texts, bodies in (
            ("", made.texts, made.bodies),
            (", flat values", made.flat_texts, made.flat_bodies),
        ):
            probes = [make_event(body, source="b", id=str(n)) for n, body in enumerate(bodies)]
            for label, matcher in (("plain index", SmallMatcher()), ("columns", ColumnarMatcher())):
                for text in texts:
                    matcher.add(parse_filter(text))
                if isinstance(matcher, ColumnarMatcher):
                    matcher.freeze()
                figure = rate(lambda some, one=matcher.match: [one(event) for event in some], probes)
                yield row(work, size, f"tidings, {label}{kind}", figure, "events/s", best)
        for peer, found in peers.items():
            if found is not None:
                yield row(work, size, f"{peer} (scaled from {min(RULES, size)})", found, "events/s", best)


def _peer_rate(made: RichWork, size: int, rate: Callable[..., float]) -> float | None:
    if find_spec("rule_engine") is None:
        return None
    import rule_engine

    rules = [rule_engine.Rule(text) for text in made.rules[:RULES]]

    def match(bodies: Sequence[dict[str, Any]]) -> int:
        return sum(rule.matches(body) for body in bodies for rule in rules)

    return rate(match, made.bodies[:20]) * len(rules) / size


def _pattern_rate(made: RichWork, size: int, rate: Callable[..., float]) -> float | None:
    if not made.patterns or find_spec("event_ruler") is None:
        return None
    from event_ruler.event_ruler import test_event_pattern

    patterns = made.patterns[:RULES]

    def match(bodies: Sequence[str]) -> int:
        return sum(bool(test_event_pattern(body, pattern)) for body in bodies for pattern in patterns)

    return rate(match, [json.dumps(body) for body in made.bodies[:20]]) * len(patterns) / size


__all__ = ["RICH", "RichWork", "rich_rows", "rich_work"]
