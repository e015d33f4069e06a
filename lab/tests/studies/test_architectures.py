"""Study `architectures`: its points say what is so, in small."""

from __future__ import annotations

import pytest

from tidings_lab.studies import architectures
from tidings_lab.studies._architectures import (
    group_waste,
    hermes_copies,
    hierarchy_load,
    quenched,
    subject_trees,
)
from tidings_lab.studies._trees import MATCHERS, link_matching_cost, matching_cost
from tidings_lab.studies.study import StudySetting


def test_vir2_3_the_top_of_a_hierarchy_has_most_to_do() -> None:
    flat, steep = hierarchy_load("siena", 13, 1), hierarchy_load("siena-hierarchical", 13, 1)
    assert steep["busiest"] == "b0"
    assert steep["imbalance"] > flat["imbalance"]
    assert steep["delivered"] == flat["delivered"] > 0


def test_vir2_4_every_matcher_finds_the_same_and_trees_grow_more_slowly_than_filters() -> None:
    small = {kind: matching_cost(kind, 100, 1) for kind in MATCHERS}
    large = {kind: matching_cost(kind, 1000, 1) for kind in MATCHERS}
    for costs in (small, large):
        assert len({cost["found"] for cost in costs.values()}) == 1
    for kind in MATCHERS:
        assert large[kind]["visited"] <= 10 * small[kind]["visited"]


def test_vir2_7_the_points_of_single_systems() -> None:
    copies = hermes_copies(8, 20, 1)
    assert copies["hermes"] == copies["subscriptions"] < copies["siena"]
    trees = subject_trees(12, 5, 1)
    assert trees["edges"] == trees["between_routers"] > 0
    assert trees["to_the_indifferent"] == 0
    links = link_matching_cost(8, 60, 1)
    assert links["hops_with_more"] == 0
    assert links["reached"] == links["due"] > 0
    assert 0 < links["partial"] < links["full"]
    back = quenched(2, 1)
    assert back["held_back"] * 6 == back["published"] * 4


def test_vir2_2_fewer_groups_waste_more() -> None:
    few, many = group_waste(1, 1, 80), group_waste(64, 1, 80)
    assert few["useless"] > 5 * many["useless"]
    assert few["messages"] > many["messages"]


def test_a_claim_that_does_not_hold_is_not_reproduced(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = architectures._Answers(StudySetting(quick=True))
    wrong = {"edges": 3, "between_routers": 4, "to_the_indifferent": 1}
    monkeypatch.setattr(StudySetting, "measure", lambda self, function, points: [wrong] * len(points))
    architectures._subjects(answers)
    assert [claim.reproduced for claim in answers.outcome.claims] == [False, False]


@pytest.mark.soak
def test_the_whole_quick_study_is_reproduced() -> None:
    outcome = architectures.run(StudySetting(quick=True))
    assert [claim.claim for claim in outcome.claims if not claim.reproduced] == [
        "useless notifications with 64 groups for 60 subscriptions"  # ours: newcomers choose before they hear
    ]
    assert len(outcome.claims) >= 15
    assert {picture.name for picture in outcome.pictures} >= {
        "tree-matching",
        "group-waste",
        "hierarchy-load",
    }
