"""The Data Quality Broker: the best value under the requirements, proposals, negotiation that ends."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import InputError
from tidings_quality.broker import (
    MOST_ROUNDS,
    ObjectCopy,
    PartialOffer,
    Requirement,
    choose,
    give_up,
    negotiate,
    parse_requirements,
    proposals,
    score,
    strongest,
    take_the_offer,
    weighed,
)

PROPERTIES = ("Name", "Address")
DIMENSIONS = ("accuracy", "currency")
values = st.floats(0, 1).map(lambda value: round(value, 2))
copies = st.builds(
    ObjectCopy,
    st.sampled_from(["INPS", "INAIL", "CoC"]),
    st.sampled_from(["1", "2"]),
    st.fixed_dictionaries({name: st.sampled_from([None, "a", "b", "c"]) for name in PROPERTIES}),
    st.fixed_dictionaries({f"{p}.{d}": values for p in PROPERTIES for d in DIMENSIONS}),
)
objects = st.lists(copies, min_size=1, max_size=5)
trusts = st.fixed_dictionaries(dict.fromkeys(("INPS", "INAIL"), values))
wishes = st.lists(
    st.builds(Requirement, st.sampled_from(PROPERTIES), st.sampled_from(DIMENSIONS), values), max_size=3
).map(tuple)


@given(objects, wishes, trusts)
def test_vir5_4_the_value_has_the_highest_quality_under_the_requirement(
    held: list[ObjectCopy], wanted: tuple[Requirement, ...], trust: dict[str, float]
) -> None:
    answer = choose(held, wanted, trust)
    for property in PROPERTIES:
        there = [copy for copy in held if copy.values[property] is not None]
        mine = [each for each in wanted if each.property == property]
        fit = [
            copy
            for copy in there
            if all(weighed(copy, property, trust)[each.dimension] >= each.least for each in mine)
        ]
        assert (property in answer.choices) == bool(there)
        if there:
            chosen = answer.choices[property]
            assert chosen.score == max(score(copy, property, trust) for copy in (fit or there))
            assert any(copy.values[property] == chosen.value for copy in (fit or there))
        short = [each for each in answer.short if each.requirement.property == property]
        assert bool(short) == (bool(mine) and not fit and any(each.least > 0 for each in mine)) or not there
        assert all(each.best < each.requirement.least for each in short)


@given(objects, trusts)
def test_vir5_4_a_proposal_is_never_worse_than_what_is_held(
    held: list[ObjectCopy], trust: dict[str, float]
) -> None:
    answer = choose(held, (), trust)
    for proposal in proposals(held, answer, trust):
        assert proposal.score > proposal.current_score
        assert proposal.value != proposal.current
        assert proposal.value == answer.choices[proposal.property].value


@given(st.lists(objects, min_size=1, max_size=4), wishes, trusts)
def test_vir5_4_who_takes_the_offer_gets_an_answer_in_one_round(
    held: list[list[ObjectCopy]], wanted: tuple[Requirement, ...], trust: dict[str, float]
) -> None:
    deal = negotiate(held, wanted, take_the_offer, trust)
    assert deal.agreed
    assert deal.rounds <= 1
    before = {(each.property, each.dimension): each.least for each in strongest(wanted)}
    assert all(each.least <= before[each.property, each.dimension] for each in deal.requirements)


def test_vir5_4_negotiation_ends_however_small_the_steps() -> None:
    stored = [[ObjectCopy("INPS", "1", {"Name": "a"}, {"Name.accuracy": 0.5})]]
    requested = []

    def miser(offer: PartialOffer, wanted: tuple[Requirement, ...]) -> tuple[Requirement, ...]:
        requested.append(offer)
        return tuple(msgspec.structs.replace(each, least=each.least - 0.001) for each in wanted)

    deal = negotiate(stored, parse_requirements(["Name.accuracy >= 0.9"]), miser)
    assert not deal.agreed
    assert len(requested) == MOST_ROUNDS == deal.rounds
    assert requested[0].unmet[0].best == 0.5
    deal = negotiate(stored, parse_requirements(["Name.accuracy >= 0.9"]), give_up)
    assert (deal.agreed, deal.rounds) == (False, 0)
    assert deal.answers[0].choices["Name"].value == "a"  # the best there is, and what it lacks
    assert deal.answers[0].short[0].best == 0.5


def test_a_negotiation_goes_one_way() -> None:
    stored = [[ObjectCopy("INPS", "1", {"Name": "a"}, {"Name.accuracy": 0.5})]]
    wanted = parse_requirements(["Name.accuracy >= 0.9"])
    for wrong in (wanted, parse_requirements(["Name.accuracy >= 0.95"])):
        with pytest.raises(InputError):
            negotiate(stored, wanted, lambda offer, before, wrong=wrong: wrong)  # type: ignore[misc]


def test_trust_weighs_what_is_declared() -> None:
    boaster = ObjectCopy("INPS", "1", {"Name": "wrong"}, {"Name.accuracy": 1.0})
    honest = ObjectCopy("CoC", "7", {"Name": "right"}, {"Name.accuracy": 0.9})
    assert choose([boaster, honest]).choices["Name"].value == "wrong"
    assert choose([boaster, honest], (), {"INPS": 0.5}).choices["Name"].value == "right"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Name.accuracy >= high", ("Name", "accuracy", 0.8)),
        ("Name.Currency>=0.25", ("Name", "currency", 0.25)),
        ("Name.accuracy < 0.5", None),
        ("Name.colour >= 0.5", None),
        ("Name.accuracy >= 1.5", None),
        ("Name.accuracy >= best", None),
    ],
)
def test_requirements_in_words(text: str, found: Any) -> None:
    if found is None:
        with pytest.raises(InputError):
            parse_requirements([text])
    else:
        assert parse_requirements([text]) == (Requirement(*found),)
