"""The Rating Service: who overstates loses, who is honest keeps, and nothing is counted twice."""

from __future__ import annotations

import itertools
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import InputError
from tidings_quality.broker import ObjectCopy
from tidings_quality.generate import LOCAL, generated_rows, mistyped, population
from tidings_quality.rating import Observation, RatingReport, Ratings, observe

shares = st.floats(0, 1)


@given(st.floats(0.01, 1), st.integers(1, 30))
def test_vir5_5_who_goes_on_overstating_loses_with_every_observation(over: float, count: int) -> None:
    ratings = Ratings()
    trusts = [1.0]
    for number in range(count):
        ratings.report(
            RatingReport(str(number), (Observation("INAIL", 1.0, 1.0 - over), Observation("CoC", 0.5, 0.9)))
        )
        trusts.append(ratings.trust("INAIL"))
    assert all(after < before for before, after in itertools.pairwise(trusts))
    assert ratings.trust("CoC") == 1.0  # who is modest keeps his trust
    assert [each.source for each in ratings.standings()] == ["CoC", "INAIL"]
    assert trusts[-1] >= 1.0 - over


@given(st.lists(st.builds(Observation, st.sampled_from(["a", "b"]), shares, shares), max_size=20))
def test_trust_stays_within_bounds(observations: list[Observation]) -> None:
    ratings = Ratings()
    ratings.report(RatingReport("r", tuple(observations)))
    assert all(0 <= trust <= 1 for trust in ratings.table().values())


def test_vir5_5_a_source_that_overstates_falls_from_the_first_rank_to_the_last() -> None:
    """INAIL declares full accuracy for whatever it holds; the others declare what is so."""
    people = population(300, 5)
    rng = Random(5)
    ratings = Ratings(patience=1.0)
    ranks = []
    for number, person in enumerate(people):
        copies = [ObjectCopy("CoC", "c", {"Name": person.name}, {"Name.accuracy": 1.0})]
        copies.append(ObjectCopy("INPS", "p", {"Name": person.name}, {"Name.accuracy": 1.0}))
        false = mistyped(mistyped(person.name, rng), rng) if rng.random() < 0.5 else person.name
        copies.append(ObjectCopy("INAIL", "l", {"Name": false}, {"Name.accuracy": 1.0}))
        ratings.report(RatingReport(str(number), tuple(observe(copies, ratings.table()))))
        ranks.append({each.source: each.rank for each in ratings.standings()}["INAIL"])
    assert ranks == sorted(ranks)  # it never comes up again
    assert ranks[-1] == 3
    assert ratings.trust("INAIL") < min(ratings.trust("CoC"), ratings.trust("INPS"))


def test_reports_are_kept_and_counted_once(tmp_path: Path) -> None:
    file = tmp_path / "reports.jsonl"
    ratings = Ratings(file)
    report = RatingReport("one", (Observation("INPS", 1.0, 0.5),))
    assert ratings.report(report)
    assert not ratings.report(report)
    with file.open("ab") as out:
        out.write(b'{"id":"torn","observ')  # a crash in the middle of a report
    again = Ratings(file)
    assert again.standings() == ratings.standings()
    assert again.report(RatingReport("torn", ()))
    assert Ratings(file).standings() == ratings.standings()
    with pytest.raises(InputError):
        ratings.report(RatingReport("two", (Observation("INPS", 1.5, 0.5),)))
    file.write_text("nonsense\n")
    with pytest.raises(InputError, match="is no report"):
        Ratings(file)


def test_all_organisations_can_be_observed() -> None:
    people = population(30, 1)
    rows = {name: {row["id"][-7:]: row for row in generated_rows(name, people, 1)} for name in LOCAL}
    number = next(key for key in rows["INPS"] if all(key in stored for stored in rows.values()))
    copies = [
        ObjectCopy(name, number, {"Name": rows[name][number][LOCAL[name][0]]}, {"Name.accuracy": 0.9})
        for name in LOCAL
    ]
    assert {each.source for each in observe(copies, {})} == {c.source for c in copies if c.values["Name"]}
