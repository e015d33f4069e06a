"""VIR4-3 to VIR4-6 and VIR4-9: associativity and the rules that choose links (Virgillito 2003,
4.2 to 4.4)."""

from __future__ import annotations

import itertools
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.language import parse_filter
from tidings.model.filter import Filter
from tidings.protocol.overlay import choosing
from tidings.protocol.overlay.choosing import Hop, LinkOffer
from tidings.protocol.overlay.measures import ExactMeasure, SampledMeasure, associativity, weight
from tidings.simulation.topology import OverlayGraph, minimal_subtree, random_tree
from tidings.simulation.workloads import Rectangles
from tidings_lab.overlay.spanning import heaviest_tree

SQUARE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
EXACT = ExactMeasure(SQUARE)
SAMPLED = SampledMeasure(SQUARE, points=4096)


def zone(*texts: str) -> object:
    return EXACT.of(map(parse_filter, texts))


def boxes(rng: Random, count: int, widest: float = 1.0) -> list[Filter]:
    content = Rectangles(widest)
    return [parse_filter(content.filter(rng)) for _ in range(count)]


def path(*weights: float) -> list[Hop]:
    return [Hop("b0")] + [Hop(f"b{k}", w) for k, w in enumerate(weights, 1)]


# -- VIR4-3 -----------------------------------------------------------------------------------


def test_vir4_3_associativity_is_the_share_of_the_first_zone() -> None:
    left, right = zone("x <= 0.5"), zone("x BETWEEN 0.25 AND 0.5")
    assert associativity(EXACT, left, right) == pytest.approx(0.5)
    assert associativity(EXACT, right, left) == pytest.approx(1.0)
    assert weight(EXACT, left, right) == weight(EXACT, right, left) == pytest.approx(1.5)


def test_vir4_3_an_empty_zone_has_no_associativity() -> None:
    assert associativity(EXACT, EXACT.empty, zone("x <= 1")) == 0.0
    assert weight(EXACT, EXACT.empty, EXACT.empty) == 0.0
    assert associativity(SAMPLED, SAMPLED.empty, SAMPLED.empty) == 0.0


@pytest.mark.parametrize("seed", range(5))
def test_vir4_3_sampled_is_within_its_stated_error_of_exact(seed: int) -> None:
    rng = Random(seed)
    one, other = boxes(rng, 8), boxes(rng, 8)
    for filters in (one, other, one + other):
        exact, sampled = EXACT.size(EXACT.of(filters)), SAMPLED.size(SAMPLED.of(filters))
        assert abs(exact - sampled) <= SAMPLED.error(0.9999)
    common = EXACT.common(EXACT.of(one), EXACT.of(other))
    assert abs(common - SAMPLED.common(SAMPLED.of(one), SAMPLED.of(other))) <= SAMPLED.error(0.9999)


def test_vir4_3_zones_survive_packing() -> None:
    filters = boxes(Random(3), 6)
    for measure in (EXACT, SAMPLED):
        made = measure.of(filters)
        again = measure.unpack(measure.pack(made))  # type: ignore[arg-type]
        assert measure.size(again) == pytest.approx(measure.size(made))  # type: ignore[arg-type]
        assert measure.common(again, made) == pytest.approx(measure.size(made))  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(4))
def test_vir4_3_a_swap_changes_the_systems_associativity_by_the_difference_of_weights(seed: int) -> None:
    rng = Random(seed)
    tree = random_tree(8, rng, 4)
    zones = {b: SAMPLED.of(boxes(rng, 3)) for b in tree.brokers}

    def total(links: tuple[tuple[str, str], ...]) -> float:
        """N times the mean over brokers of the sum over their neighbours, as the thesis has it."""
        return sum(
            associativity(SAMPLED, zones[a], zones[b]) + associativity(SAMPLED, zones[b], zones[a])
            for a, b in links
        )

    way = sorted(minimal_subtree(tree, ("b0", "b7")))
    cut, new = rng.choice(way), ("b0", "b7")
    after = (*(link for link in tree.links if link != cut), new)
    gained = weight(SAMPLED, zones["b0"], zones["b7"]) - weight(SAMPLED, zones[cut[0]], zones[cut[1]])
    assert total(after) - total(tree.links) == pytest.approx(gained)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000))
def test_vir4_3_no_tree_is_heavier_than_the_heaviest(seed: int) -> None:
    rng = Random(seed)
    names = tuple(f"b{k}" for k in range(5))
    weights = {frozenset(pair): rng.random() for pair in itertools.combinations(names, 2)}

    def heavy(links: object) -> float:
        return sum(weights[frozenset(link)] for link in links)  # type: ignore[attr-defined]

    found = heaviest_tree(names, lambda a, b: weights[frozenset((a, b))])
    assert OverlayGraph(names, tuple(found)).is_tree
    every = itertools.combinations(itertools.combinations(names, 2), 4)
    most = max(heavy(links) for links in every if OverlayGraph(names, links).is_tree)
    assert heavy(found) == pytest.approx(most)


# -- VIR4-4 and VIR4-5 ------------------------------------------------------------------------


def test_vir4_4_only_links_with_more_of_the_new_zone_are_asked() -> None:
    old, new = zone("x <= 0.25"), zone("x <= 0.75")
    behind = {"more": zone("x BETWEEN 0.2 AND 0.7"), "less": zone("x <= 0.25"), "none": zone("x > 0.9")}
    assert choosing.worth_asking(EXACT, old, new, behind) == ["more"]


def test_vir4_4_a_subscription_inside_the_zone_triggers_nothing() -> None:
    wide = zone("x <= 0.75")
    assert choosing.worth_asking(EXACT, wide, zone("x <= 0.75", "x <= 0.3"), {"b1": zone("x <= 0.3")}) == []


def test_vir4_4_the_first_subscription_of_a_broker_triggers() -> None:
    assert choosing.worth_asking(EXACT, EXACT.empty, zone("x <= 0.5"), {"b1": zone("x <= 0.1")}) == ["b1"]


def test_vir4_4_an_unsubscription_triggers_toward_what_is_left() -> None:
    old, new = zone("x <= 0.2", "x >= 0.8"), zone("x >= 0.8")
    behind = {"left": zone("x <= 0.2"), "right": zone("x >= 0.7")}
    assert choosing.worth_asking(EXACT, old, new, behind) == ["right"]


def test_vir4_4_a_link_that_covers_the_zone_never_triggers_again_as_printed() -> None:
    old, new, behind = (
        zone("x <= 0.3"),
        zone("x <= 0.6"),
        {"covers": zone("x <= 0.9"), "apart": zone("x > 0.9")},
    )
    assert choosing.worth_asking(EXACT, old, new, behind) == []  # its share was 1, and is
    assert choosing.worth_asking(EXACT, old, new, behind, choosing.OVERLAP) == ["covers"]
    assert choosing.worth_asking(EXACT, old, new, behind, choosing.GROWTH) == ["covers", "apart"]
    for trigger in choosing.TRIGGERS:
        assert choosing.worth_asking(EXACT, new, new, behind, trigger) == []


def test_vir4_5_forwarding_predicates_from_the_narrowest_to_all() -> None:
    requested, own = zone("x <= 0.5"), zone("x <= 0.25")
    behind = {
        "more": zone("x <= 0.375"),
        "same": zone("x > 0.125 AND x <= 0.375"),
        "less": zone("x <= 0.125"),
        "none": zone("x > 0.75"),
    }
    found = [choosing.worth_passing(EXACT, requested, own, behind, each) for each in choosing.FORWARDINGS]
    assert found == [["more"], ["more", "same"], ["more", "same", "less"], ["more", "same", "less", "none"]]


def test_vir4_5_a_request_goes_only_where_there_may_be_more() -> None:
    requested, own = zone("x <= 0.5"), zone("x <= 0.2")
    behind = {"more": zone("x <= 0.3"), "same": zone("x BETWEEN 0.1 AND 0.3"), "other": zone("x > 0.6")}
    assert choosing.worth_passing(EXACT, requested, own, behind) == ["more"]


def test_vir4_5_the_best_offer_is_kept_whole() -> None:
    """E-V9.5: the printed code pairs the best value with the zone and the path of the last reply."""
    good = LinkOffer(0.7, b"z7", 3, tuple(path(0.1, 0.2)), "here")
    last = LinkOffer(0.5, b"z6", 9, tuple(path(0.3)))
    assert choosing.best([good, None, last]) is good
    assert choosing.best([None]) is None
    one, other = LinkOffer(0.5, b"", 1, (Hop("b1"),)), LinkOffer(0.5, b"", 1, (Hop("b2"),))
    assert choosing.best([other, one]) is one  # of equals, by name


# -- VIR4-6 and VIR4-9 ------------------------------------------------------------------------


def test_vir4_6_with_room_at_both_ends_the_lightest_link_goes() -> None:
    assert choosing.lightest_cut(path(0.5, 0.1, 0.3), 1, 1, gain=0.4) == 2


def test_vir4_6_the_first_element_has_no_link_and_never_wins() -> None:
    """E-V9.7: the printed minimum is always the 0 of the broker that asks."""
    assert choosing.lightest_cut(path(0.5, 0.4), 1, 1, gain=0.1) is None


def test_vir4_6_a_full_end_gives_up_its_own_link_on_the_path() -> None:
    hops = path(0.5, 0.1, 0.3)
    assert choosing.lightest_cut(hops, 0, 1, gain=0.6) == 1
    assert choosing.lightest_cut(hops, 1, 0, gain=0.6) == 3
    assert choosing.lightest_cut(hops, 0, 1, gain=0.4) is None
    assert choosing.lightest_cut(hops, 0, 0, gain=9.9) is None


def test_vir4_6_equal_weight_is_not_enough() -> None:
    assert choosing.lightest_cut(path(0.5, 0.5), 1, 1, gain=0.5) is None


def test_vir4_9_of_the_lighter_links_the_farthest_goes() -> None:
    hops = [Hop("b0"), Hop("b1", 0.2, away=0.01), Hop("b2", 0.9, away=0.09), Hop("b3", 0.3, away=0.05)]
    assert choosing.farthest_cut(hops, 1, 1, gain=0.5) == 3
    assert choosing.farthest_cut(hops, 1, 1, gain=0.95) == 2
    assert choosing.farthest_cut(hops, 1, 1, gain=0.1) is None
    assert choosing.farthest_cut(hops, 0, 1, gain=0.5) == 1


# -- ours ---------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 100_000))
def test_hops_saved_is_what_counting_on_the_tree_says(seed: int) -> None:
    """Against the dumbest oracle: count the links of the smallest subtree for every point and publisher."""
    rng = Random(seed)
    measure = SampledMeasure(SQUARE, points=64)
    tree = random_tree(7, rng, 4)
    wanted = {b: measure.of(boxes(rng, 1, 0.6)) for b in tree.brokers}

    def counted(links: tuple[tuple[str, str], ...]) -> float:
        overlay = OverlayGraph(tree.brokers, links)
        hops = 0
        for point in range(64):
            takers = [b for b, bits in wanted.items() if bits >> point & 1]
            hops += sum(len(minimal_subtree(overlay, [p, *takers])) for p in tree.brokers if takers)
        return hops / (64 * len(tree.brokers))

    way = _a_way(tree, rng)
    if len(way) < 3:
        return
    hops = [_hanging(tree, wanted, way, k, measure) for k in range(len(way))]
    cut = rng.randrange(1, len(way))
    old = {way[cut - 1], way[cut]}
    after = (*(link for link in tree.links if set(link) != old), (way[0], way[-1]))
    assert choosing.hops_saved(measure, hops, cut) == pytest.approx(counted(tree.links) - counted(after))


def _a_way(tree: OverlayGraph, rng: Random) -> list[str]:
    """Between two brokers of the tree."""
    ends = rng.sample(tree.brokers, 2)
    edges = minimal_subtree(tree, ends)
    way = [ends[0]]
    while way[-1] != ends[1]:
        way.append(
            next(b for b in tree.neighbours()[way[-1]] if b not in way and _is_edge(edges, way[-1], b))
        )
    return way


def _is_edge(edges: set[tuple[str, str]], a: str, b: str) -> bool:
    return (a, b) in edges or (b, a) in edges


def _hanging(
    tree: OverlayGraph, wanted: dict[str, int], way: list[str], k: int, measure: SampledMeasure
) -> Hop:
    found, bits = [way[k]], 0
    for broker in found:
        found += [b for b in tree.neighbours()[broker] if b not in found and b not in way]
    for broker in found:
        bits |= wanted[broker]
    return Hop(way[k], zone=measure.pack(bits), rate=float(len(found)))


def test_a_swap_that_only_costs_hops_is_refused() -> None:
    everything = SAMPLED.pack(SAMPLED.of([parse_filter("x >= 0")]))
    line = [Hop(f"b{k}", zone=everything, rate=1.0) for k in range(4)]
    assert choosing.saving_cut(SAMPLED, line, 1, 1) == (None, 0.0)  # every event crosses every link anyway


def test_the_speed_of_diffusion_is_kept() -> None:
    hops = [Hop("b0"), *(Hop(f"b{k}", seconds=0.01) for k in range(1, 4))]
    assert choosing.slows_diffusion(hops, 0.05, cut=2)
    assert not choosing.slows_diffusion(hops, 0.01, cut=2)
    slow = [Hop("b0"), Hop("b1", seconds=0.01), Hop("b2", seconds=0.09), Hop("b3", seconds=0.01)]
    assert not choosing.slows_diffusion(slow, 0.05, cut=2)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 100_000))
def test_diffusion_slows_when_the_mean_way_of_the_whole_tree_is_longer(seed: int) -> None:
    """6.1: against the ways between all pairs of brokers, those that hang on the path too."""
    rng = Random(seed)
    tree = random_tree(9, rng, 4)
    tenths = {frozenset((a, b)): rng.randint(1, 9) for a in tree.brokers for b in tree.brokers if a != b}

    def ways(links: tuple[tuple[str, str], ...]) -> int:
        overlay = OverlayGraph(tree.brokers, links)
        pairs = [(a, b) for a in tree.brokers for b in tree.brokers if a < b]
        return sum(tenths[frozenset(link)] for pair in pairs for link in minimal_subtree(overlay, list(pair)))

    way = _a_way(tree, rng)
    if len(way) < 3:
        return
    measure = SampledMeasure(SQUARE, points=8)
    hops = [_hanging(tree, dict.fromkeys(tree.brokers, 0), way, k, measure) for k in range(len(way))]
    hops = [
        msgspec.structs.replace(hop, seconds=float(tenths[frozenset((way[k - 1], way[k]))]) if k else None)
        for k, hop in enumerate(hops)
    ]
    cut = rng.randrange(1, len(way))
    old = {way[cut - 1], way[cut]}
    after = (*(link for link in tree.links if set(link) != old), (way[0], way[-1]))
    new = float(tenths[frozenset((way[0], way[-1]))])
    assert choosing.slows_diffusion(hops, new, cut) == (ways(after) > ways(tree.links))


def test_with_alpha_kept_another_link_may_go() -> None:
    """The lightest link is a short one; with it gone all would go over the long one."""
    hops = [Hop("b0"), Hop("b1", 0.5, 0.01), Hop("b2", 0.1, 0.01), Hop("b3", 0.3, 0.09)]

    def may(cut: int) -> bool:
        return not choosing.slows_diffusion(hops, 0.02, cut)

    assert choosing.lightest_cut(hops, 1, 1, 0.6) == 2
    assert choosing.lightest_cut(hops, 1, 1, 0.6, may) == 3
    assert choosing.farthest_cut(hops, 1, 1, 0.2, may) is None


def test_the_adaptive_ttl_grows_with_events_for_each_change() -> None:
    assert [choosing.adaptive_ttl(r, 16) for r in (0.1, 1, 2.5)] == [1, 4, 8]
    assert choosing.adaptive_ttl(5.0, 4) == choosing.NEVER_ENDS  # whatever little was seen so far
