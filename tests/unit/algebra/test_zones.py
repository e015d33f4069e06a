"""Zones and associativity: the thesis's definitions, exact volumes against sampling, odd shapes."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tidings.algebra import (
    Association,
    Space,
    Zone,
    associativity,
    link_weight,
    mean_associativity,
    sampled_associativity,
    zone_of,
)
from tidings.algebra import volume as vol
from tidings.errors import FilterError, FilterLimitError
from tidings.language import parse_filter
from tidings.model.constraint import NotOneOf, OneOf
from tidings.model.filter import Conjunction, Filter

UNIT = Space.of({"x": (0, 1), "y": (0, 1)})


def rectangles(rng: np.random.Generator, count: int, extension: float, dimension: int = 2) -> np.ndarray:
    centre, half = rng.random((count, dimension)), rng.random((count, dimension)) * extension / 2
    return np.clip(np.stack([centre - half, centre + half], axis=1), 0, 1)


def square(x: float, y: float, side: float = 0.5) -> np.ndarray:
    return UNIT.box({"x": (x, x + side), "y": (y, y + side)})


@pytest.mark.parametrize(("count", "extension"), [(10, 1.0), (40, 0.5), (200, 0.2), (1000, 0.05)])
def test_vir4_3_exact_area_against_a_million_points(count: int, extension: float) -> None:
    rng = np.random.default_rng(count)
    one = Zone.of(UNIT, rectangles(rng, count, extension))
    other = Zone.of(UNIT, rectangles(rng, count, extension))
    points = rng.random((1_000_000, 2))
    points = points[np.argsort(points[:, 0])]
    first, second = hits(one, points), hits(other, points)
    assert one.volume == pytest.approx(first.mean(), abs=0.003)
    assert one.intersection_volume(other) == pytest.approx((first & second).mean(), abs=0.003)
    assert one.union_volume(other) == pytest.approx((first | second).mean(), abs=0.003)


def hits(zone: Zone, points: np.ndarray) -> np.ndarray:
    """By brute force, box by box (points sorted by x): nothing of the zone's own machinery."""
    inside = np.zeros(len(points), dtype=bool)
    for low, high in zone.boxes:
        start, end = np.searchsorted(points[:, 0], [low[0], high[0]])
        inside[start:end] |= (points[start:end, 1] >= low[1]) & (points[start:end, 1] < high[1])
    return inside


@pytest.mark.parametrize(("dimension", "count"), [(3, 60), (4, 25)])
def test_vir4_3_exact_volume_in_more_dimensions(dimension: int, count: int) -> None:
    rng = np.random.default_rng(dimension)
    space = Space.of({f"x{i}": (0, 1) for i in range(dimension)})
    one = Zone.of(space, rectangles(rng, count, 0.9, dimension))
    other = Zone.of(space, rectangles(rng, count, 0.9, dimension))
    points = rng.random((200_000, dimension))
    first, second = one.holds(points), other.holds(points)
    assert one.volume == pytest.approx(first.mean(), abs=0.005)
    assert one.intersection_volume(other) == pytest.approx((first & second).mean(), abs=0.005)


def test_vir4_3_associativity_is_the_share_that_is_common() -> None:
    left, right = Zone.of(UNIT, [square(0, 0)]), Zone.of(UNIT, [square(0.25, 0), square(0.5, 0.5)])
    assert associativity(left, right) == pytest.approx(0.5)
    assert associativity(right, left) == pytest.approx(0.25)
    assert link_weight(left, right) == link_weight(right, left) == pytest.approx(0.75)


def test_vir4_3_an_empty_zone_has_associativity_zero() -> None:
    """Erratum E-V9.10: the definition would divide by 0."""
    nothing, line = Zone.of(UNIT), zone_of(parse_filter("x = 0.5"), UNIT)
    whole = Zone.of(UNIT, [UNIT.bounds])
    for empty in (nothing, line):
        assert empty.is_empty
        assert associativity(empty, whole) == associativity(whole, empty) == 0.0


def test_vir4_3_the_sum_over_brokers_is_the_sum_of_link_weights() -> None:
    """N·AS = Σ w over links, so that a swap changes AS by (w_up - w_down)/N exactly."""
    rng = np.random.default_rng(5)
    zones = [Zone.of(UNIT, rectangles(rng, 4, 0.8)) for _ in range(8)]
    links = [(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (5, 6), (6, 7)]
    neighbours = {i: [b if a == i else a for a, b in links if i in (a, b)] for i in range(8)}
    as_defined = sum(associativity(zones[i], zones[j]) for i in range(8) for j in neighbours[i]) / 8
    assert mean_associativity(zones, links) == pytest.approx(as_defined)
    swapped = [*links[1:], (3, 7)]
    gain = (link_weight(zones[3], zones[7]) - link_weight(zones[0], zones[1])) / 8
    assert mean_associativity(zones, swapped) - mean_associativity(zones, links) == pytest.approx(gain)


def test_vir4_1_a_subscription_inside_the_zone_adds_nothing() -> None:
    """Figure 4.1: what lies in Y ∪ W already is not diffused; what sticks out is."""
    zone = Zone.of(UNIT, [square(0, 0), square(0.5, 0)])
    across = UNIT.box({"x": (0.25, 0.75), "y": (0.1, 0.4)})
    assert zone.growth(across) == pytest.approx(0.0, abs=1e-15)
    assert zone.growth(UNIT.box({"x": (0.25, 0.75), "y": (0.1, 0.6)})) == pytest.approx(0.05)


def test_disjoint_zones_share_exactly_nothing() -> None:
    rng = np.random.default_rng(1)
    boxes = rectangles(rng, 50, 0.3) * 0.499999
    assert Zone.of(UNIT, boxes).intersection_volume(Zone.of(UNIT, boxes + 0.5)) == 0.0


def test_an_association_grows_with_either_zone() -> None:
    kept = Association.of(Zone.of(UNIT, [square(0, 0)]), Zone.of(UNIT, [square(0.5, 0.5)]))
    assert kept.weight == 0.0
    kept = kept.grow(square(0.5, 0.5))
    assert kept.associativity == pytest.approx(0.5)
    kept = kept.grow_other(square(0, 0))
    assert kept.weight == pytest.approx(2.0)
    assert kept.shrink(square(0, 0)).associativity == pytest.approx(1.0)


def test_the_sampled_estimate_is_within_its_error() -> None:
    rng = np.random.default_rng(3)
    one, other = Zone.of(UNIT, rectangles(rng, 30, 0.4)), Zone.of(UNIT, rectangles(rng, 30, 0.4))
    truth = associativity(one, other)
    found = [
        sampled_associativity(one, other, rng=random.Random(seed), points=400, confidence=0.9)
        for seed in range(60)
    ]
    assert {estimate.points for estimate in found} == {400}
    outside = sum(abs(estimate.value - truth) > estimate.error for estimate in found)
    assert outside <= 6
    assert abs(sum(estimate.value for estimate in found) / 60 - truth) < 0.02  # evenly drawn: no bias
    assert sampled_associativity(Zone.of(UNIT), one, rng=random.Random(1)).value == 0.0


@pytest.mark.parametrize(
    ("text", "volume"),
    [
        ("TRUE", 1.0),
        ("x < 0.25", 0.25),
        ("x != 0.5", 1.0),
        ("x < 0.25 OR y > 0.5", 0.625),
        ("NOT (x BETWEEN 0.25 AND 0.75) AND y < 0.5", 0.25),
        ("x > -5 AND x < 7", 1.0),
        ("x = 'a'", 0.0),
        ("x IS NULL", 0.0),
        ("x IN (0.1, 0.2)", 0.0),
        ("x > 2", 0.0),
        ("FALSE", 0.0),
    ],
)
def test_the_zone_of_a_filter(text: str, volume: float) -> None:
    assert zone_of(parse_filter(text), UNIT).volume == pytest.approx(volume)


@pytest.mark.parametrize("text", ["x < 0.5 AND z = 1", "x < 0.5 AND x + y > 1", "x < 0.5 AND type IS A 'T'"])
def test_what_the_space_does_not_have_is_refused_or_ignored(text: str) -> None:
    with pytest.raises(FilterError, match="also depends on"):
        zone_of(parse_filter(text), UNIT)
    assert zone_of(parse_filter(text), UNIT, outside="ignore").volume == 0.5


def test_boxes_are_clipped_to_the_space() -> None:
    zone = Zone.of(UNIT).add(np.array([[0.5, 0.5], [9.0, 9.0]])).add(np.array([[2.0, 2.0], [3.0, 3.0]]))
    assert len(zone) == 1
    assert zone.volume == 0.25
    assert zone.remove(np.array([[0.5, 0.5], [9.0, 9.0]])).volume == 0.0


def test_mistakes_are_told() -> None:
    with pytest.raises(FilterError, match="low < high"):
        Space.of({"x": (1, 1)})
    with pytest.raises(FilterError, match="not an attribute"):
        UNIT.box({"z": (0, 1)})
    with pytest.raises(FilterError, match="not in the zone"):
        Zone.of(UNIT).remove(square(0, 0))
    with pytest.raises(FilterError, match="different spaces"):
        associativity(Zone.of(UNIT), Zone.of(Space.of({"x": (0, 1)})))
    holed = NotOneOf("x", tuple(n / 100 for n in range(1, 99)))
    assert len(zone_of(Filter("holes", (Conjunction((holed,)),)), UNIT)) == 1  # a point cuts no interval


def test_a_filter_of_too_many_boxes_is_refused() -> None:
    space = Space.of(dict.fromkeys("wxyz", (0, 10)))
    points = tuple(OneOf(name, tuple(range(9))) for name in "wxyz")
    with pytest.raises(FilterLimitError, match="boxes"):
        zone_of(Filter("many", (Conjunction(points),)), space)


def test_pruning_keeps_the_union_and_one_of_equals() -> None:
    rng = np.random.default_rng(8)
    boxes = rectangles(rng, 300, 0.6)
    twice = np.concatenate([boxes, boxes])
    assert len(vol.pruned(twice)) == len(vol.pruned(boxes)) < 300
    assert vol.union_volume(vol.pruned(twice)) == pytest.approx(vol.union_volume(boxes))
    assert len(vol.maximal(np.concatenate([boxes[:5], boxes[:5]]))) == len(vol.maximal(boxes[:5]))
