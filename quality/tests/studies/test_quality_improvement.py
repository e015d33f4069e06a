"""The study of improvement, small: what feedback and ratings do, for more than one seed."""

from __future__ import annotations

from itertools import pairwise
from statistics import mean

import pytest

from tidings_quality.studies.quality_improvement import LIAR, SLACK, improvement


@pytest.mark.parametrize("seed", [1, 2])
def test_vir5_4_feedback_raises_the_mean_and_does_not_lower_the_lowest(seed: int) -> None:
    delivered = [each["quality"] for each in improvement(80, 3, seed, False, True)]
    for before, after in pairwise(delivered):
        assert mean(after.values()) > mean(before.values())
        assert min(after.values()) >= min(before.values()) - SLACK


def test_vir5_5_a_source_that_overstates_ends_last_and_spoils_less_when_it_is_rated() -> None:
    rated, unrated = improvement(80, 4, 3, True, True), improvement(80, 4, 3, True, False)
    assert [each["rank"][LIAR] for each in rated] == [1, 3, 3, 3, 3]
    assert all(each["quality"][LIAR] == rated[0]["quality"][LIAR] for each in rated)  # it takes no advice

    def others(delivered: list[dict[str, dict[str, float]]]) -> float:
        return mean(value for name, value in delivered[-1]["quality"].items() if name != LIAR)

    assert others(rated) > others(unrated)
