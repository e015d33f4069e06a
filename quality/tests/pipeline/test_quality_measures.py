"""The measures of quality against definitions that are slower and plainer still."""

from __future__ import annotations

from decimal import Decimal
from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from tidings_quality.spark import measures

words = st.text(st.sampled_from("abcé"), max_size=6)
shares = st.one_of(st.none(), st.floats(0, 1))


def by_definition(one: str, other: str) -> int:
    @cache
    def least(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        return min(
            least(i - 1, j) + 1, least(i, j - 1) + 1, least(i - 1, j - 1) + (one[i - 1] != other[j - 1])
        )

    return least(len(one), len(other))


@given(words, words)
def test_distance_is_the_least_number_of_changes(one: str, other: str) -> None:
    assert measures.distance(one, other) == by_definition(one, other) == measures.distance(other, one)
    likeness = measures.similarity(one, other)
    assert 0 <= likeness <= 1
    assert (likeness == 1) == (one == other)


@given(st.one_of(st.none(), words), st.lists(words, max_size=4), st.booleans())
def test_accuracy_is_that_of_the_nearest(value: str | None, candidates: list[str], applies: bool) -> None:
    found = measures.accuracy(value, candidates, applies=applies)
    if not applies or not candidates:
        assert found is None
    elif value is None:
        assert found == 0
    else:
        assert found == max(measures.similarity(value, each) for each in candidates)
        assert (found == 1) == (value in candidates)


@given(st.lists(st.one_of(st.none(), words), min_size=1, max_size=5))
def test_completeness_counts_what_is_there(parts: list[str | None]) -> None:
    assert measures.completeness(parts) * len(parts) == sum(part is not None for part in parts)
    assert measures.completeness(parts, applies=False) == 1


@given(st.integers(-100, 300), st.integers(1, 200))
def test_currency_falls_with_age_and_stays_within_bounds(age: int, volatility: int) -> None:
    now, later = measures.currency(age, volatility), measures.currency(age + 1, volatility)
    assert now is not None
    assert later is not None
    assert 0 <= later <= now <= 1
    assert (now == 0) == (age >= volatility)
    assert (now == 1) == (age <= 0)
    assert measures.currency(None, volatility) is None


@given(st.lists(shares, max_size=5))
def test_consistency_is_the_mean_of_what_applies(verdicts: list[float | None]) -> None:
    given_ = [verdict for verdict in verdicts if verdict is not None]
    found = measures.consistency(verdicts)
    if not given_:
        assert found == 1
    else:
        assert min(given_) - 1e-12 <= found <= max(given_) + 1e-12


pairs = st.one_of(st.none(), st.tuples(st.sampled_from("xy"), st.sampled_from("pqr")))


@given(st.lists(pairs, max_size=12))
def test_agreement_is_a_share_of_the_group(held: list[tuple[str, str] | None]) -> None:
    for mine, share in zip(held, measures.agreements(held), strict=True):
        if mine is None:
            assert share is None
            continue
        group = [pair for pair in held if pair is not None and pair[0] == mine[0]]
        assert share == sum(pair == mine for pair in group) / len(group)


@given(st.floats(0, 1), st.integers(0, 6))
def test_rounding_goes_to_the_nearest_and_halves_go_up(value: float, digits: int) -> None:
    found = measures.rounded(value, digits)
    assert found is not None
    assert abs(Decimal(repr(found)) - Decimal(repr(value))) <= Decimal(5).scaleb(-digits - 1)
    assert measures.rounded(0.5, 0) == 1.0
    assert measures.rounded(0.125, 2) == 0.13
    assert measures.rounded(None, digits) is None
