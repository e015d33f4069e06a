"""The Data Quality Broker on Spark: copies are found, the best wins, and what is adopted makes
data better."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from tidings_quality.broker import ObjectCopy, choose, parse_requirements, take_the_offer
from tidings_quality.generate import LOCAL, NOW, number_of, population, write_organisation
from tidings_quality.querying import adopt, ask
from tidings_quality.spark.factory import Factory, files_of
from tidings_quality.spark.linkage import LinkedPair, entities
from tidings_quality.spark.settings import FactoryPlan, read_plan

NOW_MICROS = int(NOW.timestamp()) * 10**6

copies_of_three = st.tuples(st.sampled_from("abc"), st.sampled_from("123"))
drawn_pairs = st.lists(
    st.builds(LinkedPair, st.sampled_from([0.8, 0.9, 1.0]), copies_of_three, copies_of_three), max_size=9
)


@given(drawn_pairs, st.randoms())
def test_an_entity_has_one_copy_of_a_source_and_the_order_of_pairs_does_not_matter(
    found: list[LinkedPair], rng: Any
) -> None:
    found = [
        LinkedPair(likeness, *sorted([one, other])) for likeness, one, other in found if one[0] != other[0]
    ]
    named = entities(found)
    shuffled = list(found)
    rng.shuffle(shuffled)
    assert entities(shuffled) == named
    members = defaultdict(list)
    for copy, entity in named.items():
        members[entity].append(copy)
    assert all(len({source for source, _ in group}) == len(group) for group in members.values())
    if found:
        best = max(found, key=lambda pair: pair.likeness).likeness
        first = min((p for p in found if p.likeness == best), key=lambda p: (p.one, p.other))
        assert named[first.one] == named[first.other]  # the likest pair is always linked


def evaluate(spark: Any, plan: FactoryPlan) -> None:
    factory = Factory(spark, plan, now=lambda: NOW_MICROS)
    factory.stream(files_of(spark, plan), once=True).awaitTermination()


def means(objects: tuple[tuple[ObjectCopy, ...], ...]) -> dict[str, float]:
    stored: dict[str, list[float]] = defaultdict(list)
    for copies in objects:
        for copy in copies:
            stored[copy.source] += copy.quality.values()
    return {source: mean(values) for source, values in stored.items()}


@pytest.mark.soak  # the act of `tidings demo` asks three organisations too, and is always tested
@pytest.mark.spark
def test_vir5_4_three_organisations_are_asked_and_become_better(spark: Any, tmp_path: Path) -> None:
    people = population(150, 7)
    plans = []
    for organisation in LOCAL:
        write_organisation(tmp_path, organisation, people, 7)
        plans.append(read_plan(tmp_path / organisation / "factory.toml"))
        evaluate(spark, plans[-1])
    found = ask(spark, plans)
    check_links(found.objects)
    before = means(found.objects)
    person = next(
        copies[0]
        for copies in found.objects
        if len(copies) == 3 and copies[0].values["FiscalCode"] is not None
    )
    one = ask(
        spark,
        plans,
        where=f"FiscalCode = '{person.values['FiscalCode']}'",
        require=parse_requirements(["Name.accuracy >= 1", "Address.currency >= 1"]),
        haggle=take_the_offer,
    )
    assert len(one.objects) == 1
    assert person in one.objects[0]
    assert one.deal.agreed
    assert one.deal.rounds == 1  # nobody's address is as young as that
    assert one.deal.answers[0] == choose(one.objects[0], one.deal.requirements)
    adopted = {plan.organisation: adopt(spark, plan, found.proposals) for plan in plans}
    assert all(adopted.values())
    for plan in plans:
        evaluate(spark, plan)
    after = means(ask(spark, plans).objects)
    assert mean(after.values()) > mean(before.values())
    assert min(after.values()) >= min(before.values())
    assert all(after[source] > before[source] for source in after)


def check_links(objects: tuple[tuple[ObjectCopy, ...], ...]) -> None:
    """Against the numbers of the people, which linkage does not know.

    Some copies have no code, and another address than the others: those nobody can find.
    """
    linked = {
        frozenset([(one.source, one.key), (other.source, other.key)])
        for copies in objects
        for one, other in combinations(copies, 2)
    }
    people: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for copies in objects:
        for copy in copies:
            people[number_of(copy.key)].append((copy.source, copy.key))
    right = {frozenset(pair) for stored in people.values() for pair in combinations(stored, 2)}
    assert len(linked & right) / len(linked) >= 0.99
    assert len(linked & right) / len(right) >= 0.9
