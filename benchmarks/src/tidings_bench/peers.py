"""Installable peers of the matching engine, each given the same subscriptions and events.

A peer is a function from events to the number of matches; a slow one gets fewer subscriptions
or fewer events, and its figure says how many. Those that are not installed are left out. A peer that
takes many events at once gets them as arrays that are made before the clock runs, as our columns are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from tidings.model.constraint import Constraint, Equals, Exists, OneOf, Prefix, Range
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings_bench.wording import literal

RULES = 200  # subscriptions that rule-engine gets; its cost is linear in them


def _as_they_are(events: Sequence[Event]) -> Sequence[Any]:
    return events


class MatchingPeer(NamedTuple):
    name: str
    match: Callable[[Sequence[Any]], int]
    batch: bool  # takes all events at once, as arrays, as our columns do
    subscriptions: int  # how many it was given
    prepared: Callable[[Sequence[Event]], Sequence[Any]] = _as_they_are  # not measured


def peers(population: Sequence[Filter], table: Any, *, boxes: bool) -> Iterator[MatchingPeer]:
    """The peers that can hold these subscriptions; `table` is our frozen table, for its arrays."""
    yield brute_force(table, len(np.unique(table.rows.owners)))  # it has them all, for every population
    if boxes:
        low, high = corners(population)
        if find_spec("shapely") is not None:
            yield shapely_tree(low, high)
        if find_spec("geoindex_rs") is not None:
            yield geoindex(low, high)
        if find_spec("rtree") is not None:
            yield r_tree(low, high)
            yield r_tree_bulk(low, high)
        if find_spec("duckdb") is not None:
            yield duckdb_join(low, high)
        if find_spec("polars") is not None:
            yield polars_filter(low, high)
    elif find_spec("rule_engine") is not None and all(_wordable(f) for f in population[:RULES]):
        yield rules(population[:RULES])


def corners(population: Sequence[Filter]) -> tuple[Any, Any]:
    """Lower and upper corners of rectangles over x and y."""

    def side(c: Constraint) -> tuple[float, float]:
        return (c.value, c.value) if isinstance(c, Equals) else (c.low, c.high)  # type: ignore[union-attr]

    sides = np.array([[side(c) for c in f.conjunctions[0].constraints] for f in population])
    return np.ascontiguousarray(sides[:, :, 0]), np.ascontiguousarray(sides[:, :, 1])


def brute_force(table: Any, count: int) -> MatchingPeer:
    """Every constraint of every row, in whole-array NumPy, over our own encoding."""
    from tidings.matching.columnar.exact import RowsView, holds
    from tidings.matching.columnar.merge import link_presence
    from tidings.matching.columnar.parts import Packer
    from tidings.matching.columnar.slots import Slots

    slots = Slots()
    slots.take(table.slots)
    packer = Packer(slots, table.strings)
    view, everyone = RowsView(table.rows, len(table.rows)), np.arange(len(table.rows))
    rest = np.zeros(len(slots) + 1, np.int32)
    links = slots.links()

    def match(events: Sequence[Event]) -> int:
        found = 0
        for event in events:
            row = packer.blank[:]
            packer.pack(event, row)
            matrix = np.array(row)[None, :-1]
            link_presence(matrix, *links)
            found += len(holds(view, everyone, matrix[0], rest))
        return found

    return MatchingPeer("brute force, NumPy", match, False, count)


def shapely_tree(low: Any, high: Any) -> MatchingPeer:
    """GEOS's STR-tree: all points in one call, pairs of numbers out. It compares bounding boxes, which
    boxes and points are themselves."""
    import shapely

    tree = shapely.STRtree(shapely.box(low[:, 0], low[:, 1], high[:, 0], high[:, 1]))

    def match(points: Sequence[Any]) -> int:
        pairs: int = tree.query(points).shape[1]
        return pairs

    def prepared(events: Sequence[Event]) -> Sequence[Any]:
        points: Sequence[Any] = shapely.points(_points(events))
        return points

    return MatchingPeer("shapely STRtree, bulk", match, True, len(low), prepared)


def geoindex(low: Any, high: Any) -> MatchingPeer:
    """A static packed R-tree in Rust, one point at a time."""
    from geoindex_rs import rtree

    builder = rtree.RTreeBuilder(num_items=len(low))
    builder.add(low[:, 0].copy(), low[:, 1].copy(), high[:, 0].copy(), high[:, 1].copy())
    tree = builder.finish()
    search: Any = rtree.search

    def match(events: Sequence[Event]) -> int:
        found = 0
        for event in events:
            x, y = event["x"], event["y"]
            found += len(search(tree, x, y, x, y))
        return found

    return MatchingPeer("geoindex-rs", match, False, len(low))


def _points(events: Sequence[Event]) -> Any:
    return np.array([(event["x"], event["y"]) for event in events])


def r_tree_bulk(low: Any, high: Any) -> MatchingPeer:
    """The call of rtree that takes many points at once."""
    tree = _r_tree(low, high)

    def match(points: Sequence[Any]) -> int:
        ids, _ = tree.intersection_v(points, points)
        return len(ids)

    return MatchingPeer("rtree, bulk", match, True, len(low), _points)


def _r_tree(low: Any, high: Any) -> Any:
    from rtree import index

    boxes = np.concatenate((low, high), axis=1).tolist()
    return index.Index((number, tuple(box), None) for number, box in enumerate(boxes))


def r_tree(low: Any, high: Any) -> MatchingPeer:
    tree = _r_tree(low, high)

    def match(events: Sequence[Event]) -> int:
        found = 0
        for event in events:
            x, y = event["x"], event["y"]
            found += sum(1 for _ in tree.intersection((x, y, x, y)))
        return found

    return MatchingPeer("rtree", match, False, len(low))


def duckdb_join(low: Any, high: Any) -> MatchingPeer:
    import duckdb
    import pyarrow as pa

    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    names = ("x0", "y0", "x1", "y1")
    corners = pa.table(dict(zip(names, (low[:, 0], low[:, 1], high[:, 0], high[:, 1]), strict=True)))
    connection.register("boxes", corners)
    join = (
        "SELECT count(*) FROM events, boxes "
        "WHERE x BETWEEN x0 AND x1 AND y BETWEEN y0 AND y1"
    )  # fmt: skip

    def match(points: Any) -> int:
        connection.register("events", pa.table({"x": points[:, 0], "y": points[:, 1]}))
        return int(connection.execute(join).fetchall()[0][0])

    return MatchingPeer("DuckDB, join", match, True, len(low), _points)


def polars_filter(low: Any, high: Any) -> MatchingPeer:
    import polars as pl

    frame = pl.DataFrame({"x0": low[:, 0], "y0": low[:, 1], "x1": high[:, 0], "y1": high[:, 1]})
    c = pl.col

    def match(events: Sequence[Event]) -> int:
        found = 0
        for event in events:
            x, y = event["x"], event["y"]
            found += frame.filter((c("x0") <= x) & (c("x1") >= x) & (c("y0") <= y) & (c("y1") >= y)).height
        return found

    return MatchingPeer("Polars, filter", match, False, len(low))


def _wordable(filter: Filter) -> bool:
    return len(filter.conjunctions) == 1 and not filter.conjunctions[0].residuals and all(
        isinstance(c, Equals | OneOf | Range | Prefix | Exists) for c in filter.conjunctions[0].constraints
    )  # fmt: skip


def _rule(c: Constraint) -> str:
    """The constraint in rule-engine's words; an attribute's name is a symbol of its own there."""
    name = c.attribute.replace(".", "_") + "_"
    match c:
        case Equals():
            return f"{name} == {literal(c.value)}"
        case OneOf():
            return f"{name} in [{', '.join(literal(v) for v in c.values)}]"
        case Range():
            parts = [] if c.low is None else [f"{name} {'>' if c.low_open else '>='} {literal(c.low)}"]
            parts += [] if c.high is None else [f"{name} {'<' if c.high_open else '<='} {literal(c.high)}"]
            return f"{name} != null and {' and '.join(parts)}"
        case Prefix():
            return f"{name} != null and {name} =~ '{c.prefix}.*'"
        case _:
            return f"{name} != null"


def rules(population: Sequence[Filter]) -> MatchingPeer:
    import rule_engine

    context = rule_engine.Context(default_value=None)
    made = [
        rule_engine.Rule(" and ".join(_rule(c) for c in f.conjunctions[0].constraints), context=context)
        for f in population
    ]

    def match(events: Sequence[Event]) -> int:
        things = [{f"{n.replace('.', '_')}_": v for n, v in e.view.items()} for e in events]
        return sum(rule.matches(thing) for thing in things for rule in made)

    return MatchingPeer("rule-engine", match, False, len(population))
