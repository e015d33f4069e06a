"""Claims: a verdict comes from an interval and a band, and only printed values stand as printed."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random
from statistics import fmean

import msgspec
import pytest

from tidings.errors import SettingsError
from tidings_lab.studies._claims import (
    ABOVE_ZERO,
    BELOW_ZERO,
    ClaimKind,
    ClaimVerdict,
    PaperClaim,
    SeedEstimate,
    by_kind,
    estimate,
    everywhere,
    exact,
    incomparable,
    jackknife,
    judged,
    measured,
    never,
    pseudo_values,
    side_by_side,
    stated,
    t_quantile,
    verdict_of,
)
from tidings_lab.studies._confirming import confirming_tables, verdict_there
from tidings_lab.studies._report import StudyRecord, claims_page


def claim(values: list[float], within: tuple[float, float], fitted: str = "") -> PaperClaim:
    return measured(
        "X-1", "c", where="Table 1", paper=5.0, values=values, within=within, why="w", fitted=fitted
    )


def test_an_interval_inside_outside_or_on_the_edge_of_the_band() -> None:
    values = [4.9, 5.0, 5.1, 5.0]
    assert claim(values, (4.0, 6.0)).verdict is ClaimVerdict.HELD
    assert claim(values, (5.5, 6.0)).verdict is ClaimVerdict.REFUTED
    assert claim(values, (1.0, 2.0)).verdict is ClaimVerdict.REFUTED
    assert claim(values, (5.0, 6.0)).verdict is ClaimVerdict.UNDECIDED


def test_only_a_held_claim_is_reproduced_and_a_fit_never_is() -> None:
    fitted = claim([4.9, 5.0, 5.1], (4.0, 6.0), fitted="the size of it")
    assert (fitted.verdict, fitted.reproduced) == (ClaimVerdict.FITTED, False)
    assert "the size of it" in fitted.reason
    assert (
        claim([4.9, 5.0, 5.1], (8.0, 9.0), fitted="x").verdict is ClaimVerdict.REFUTED
    )  # even a fit may fail
    for verdict in ClaimVerdict:
        wrong = verdict is not ClaimVerdict.HELD
        with pytest.raises(SettingsError, match="reproduced is"):
            msgspec.structs.replace(fitted, verdict=verdict, reproduced=wrong)


def test_what_no_paper_prints_cannot_stand_as_printed() -> None:
    with pytest.raises(SettingsError, match="its printed value is None"):
        exact("X", "c", where="-", paper=None, kind=ClaimKind.NUMBER, ours=1, rule="r", why="w", held=True)
    with pytest.raises(SettingsError, match="its printed value is 3"):
        exact("X", "c", where="-", paper=3, kind=ClaimKind.OWN, ours=1, rule="r", why="w", held=True)
    ours = exact("X", "c", where="-", paper=None, reference=3, ours=3, rule="r", why="w", held=True)
    assert (ours.kind, ours.paper, ours.expected) == (ClaimKind.OWN, None, 3)


def test_the_interval_is_students() -> None:
    found = estimate([1.0, 2.0, 3.0, 4.0])  # deviation 1.291, t 3.182
    assert found.mean == 2.5
    assert found.half == pytest.approx(3.182 * 1.2910 / 2, rel=1e-3)
    assert estimate([2.0]).half == 0.0
    assert math.isinf(estimate([1.0, math.inf]).high)
    assert t_quantile(9) == 2.262
    assert 2.064 > t_quantile(27) > 2.045
    assert 1.980 > t_quantile(5000) >= 1.960
    with pytest.raises(SettingsError):
        t_quantile(0)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    rng = Random(5)
    inside = 0
    for _ in range(2000):
        found = estimate([rng.gauss(3.0, 1.0) for _ in range(5)])
        inside += found.low <= 3.0 <= found.high
    assert 0.935 <= inside / 2000 <= 0.965


def test_a_ratio_of_means_is_not_ruled_by_one_small_denominator() -> None:
    tops, bottoms = [10.0, 12.0, 11.0, 9.0], [5.0, 6.0, 5.5, 0.01]
    assert fmean(a / b for a, b in zip(tops, bottoms, strict=True)) > 200
    assert estimate(jackknife(tops, bottoms)).mean < 4
    assert estimate(jackknife([2.0] * 5, [1.0] * 5)).mean == pytest.approx(2.0)


def test_every_level_counts() -> None:
    good, bad, open_ = [1.0, 1.1, 0.9], [-1.0, -1.1, -0.9], [0.0, 1.0, -1.0]

    def found(**levels: list[float]) -> ClaimVerdict:
        return everywhere(
            "X", "c", where="-", paper="w", levels=levels, within=(0.0, math.inf), why="w"
        ).verdict

    assert found(a=good, b=good) is ClaimVerdict.HELD
    assert found(a=good, b=open_) is ClaimVerdict.UNDECIDED
    assert found(a=good, b=open_, c=bad) is ClaimVerdict.REFUTED


def test_claims_say_where_they_are_stated_and_are_counted_by_kind() -> None:
    shown = incomparable("X", "c", where="-", paper=2.0, ours=3.0, why="w")
    assert shown.source.endswith("test_claims.py:" + str(_line()))
    table = by_kind(
        [shown, claim([1.0, 1.0], (0.0, 2.0)), judged("Y", "c", paper=None, ours=1, rule="r", held=False)]
    )
    assert table[ClaimKind.NUMBER] == {
        **dict.fromkeys(ClaimVerdict, 0),
        ClaimVerdict.NOT_COMPARABLE: 1,
        ClaimVerdict.HELD: 1,
    }
    assert table[ClaimKind.OWN][ClaimVerdict.REFUTED] == 1


def _line() -> int:
    text = Path(__file__).read_text(encoding="utf-8").splitlines()
    return 1 + next(n for n, line in enumerate(text) if line.startswith("    shown = incomparable("))


def helper_of_claims() -> str:
    return stated(helpers=1)


def test_a_claim_links_to_the_line_that_states_it_and_not_to_a_helper() -> None:
    line = helper_of_claims()
    text = Path(__file__).read_text(encoding="utf-8").splitlines()
    number = int(line.rpartition(":")[2])
    assert text[number - 1].strip() == "line = helper_of_claims()"


def test_a_verdict_names_the_value_of_a_parameter_that_is_not_printed() -> None:
    there = measured(
        "X-1", "c", where="T", paper=5.0, values=[7.9, 8.0], within=(4.0, 6.0), why="w", at="sides to 1"
    )
    assert "| **refuted** at sides to 1 |" in claims_page([record(1, there)])


def test_figures_side_by_side_have_no_verdict() -> None:
    levels: dict[str, list[float]] = {"a": [7.9, 8.0], "b": [5.0, 5.1]}
    judged_claim = everywhere("X", "c", where="-", paper=5, levels=levels, within=(4.0, 6.0), why="-")
    shown = side_by_side(judged_claim, "its tree is not printed")
    assert "(refuted)" in str(judged_claim.ours)
    assert "(refuted)" not in str(shown.ours)
    assert (shown.verdict, shown.reproduced) == (ClaimVerdict.NOT_COMPARABLE, False)
    assert (shown.reason, shown.interval) == ("its tree is not printed", judged_claim.interval)


def test_a_rule_that_was_worded_otherwise_is_listed() -> None:
    values = [4.9, 5.0, 5.1]
    here, there = record(1, claim(values, (4.0, 6.0))), record(1001, claim(values, (4.0, math.inf)))
    *_, rules = confirming_tables([here], [there])
    assert rules.rows == [("locality", "X-1", "c", "4 to 6", "at least 4")]
    assert "at least 4" in claims_page([here], [there])
    assert len(confirming_tables([here], [msgspec.structs.replace(here, seed=1001)])) == 2


def test_a_value_that_is_no_number_decides_nothing() -> None:
    assert verdict_of(estimate([math.nan, 1.0]), (0.0, 2.0)) is ClaimVerdict.UNDECIDED


def test_what_was_never_seen_is_bounded_and_not_refuted() -> None:
    levels: dict[str, list[float] | SeedEstimate] = {"seen": [0.1, 0.2, 0.15], "never": never(300, 3)}
    found = everywhere("X-1", "c", where="6", paper="w", levels=levels, within=(1e-9, 1.0), why="w")
    assert found.verdict is ClaimVerdict.UNDECIDED
    assert never(300, 3).high == pytest.approx(0.01)


def test_levels_are_scaled_like_other_claims() -> None:
    found = everywhere(
        "X-1", "c", where="T", paper="w", levels={"a": [0.1, 0.3]}, within=(0.0, 2.0), why="w", scale=100.0,
        form=".0f", unit="%",
    )  # fmt: skip
    assert str(found.ours).startswith("a: 20 ± ")
    assert str(found.tolerance) == "0% to 200%, at every level"


def test_more_than_none_has_an_open_edge_at_zero() -> None:
    assert claim([0.0, 0.0], (ABOVE_ZERO, math.inf)).verdict is ClaimVerdict.REFUTED
    assert claim([0.2, 0.3], (ABOVE_ZERO, math.inf)).verdict is ClaimVerdict.UNDECIDED
    more = claim([0.2, 0.21], (ABOVE_ZERO, math.inf))
    assert (more.verdict, more.tolerance) == (ClaimVerdict.HELD, "above 0")
    assert claim([0.2], (ABOVE_ZERO, 1.0)).tolerance == "above 0, at most 1"
    fewer = everywhere("X", "c", where="-", paper="w", levels={"a": [-0.2, -0.21]}, why="w", scale=100.0,
                       within=(-math.inf, BELOW_ZERO))  # fmt: skip
    assert (fewer.verdict, fewer.tolerance) == (ClaimVerdict.HELD, "below 0, at every level")


def test_a_figure_of_several_means_has_pseudo_values() -> None:
    tops, bottoms = [10.0, 12.0, 11.0], [5.0, 6.0, 5.0]
    assert pseudo_values(lambda a, b: a / b, tops, bottoms) == pytest.approx(jackknife(tops, bottoms))
    assert estimate(pseudo_values(lambda a: a, tops)).mean == pytest.approx(11.0)
    assert pseudo_values(lambda a, b: a - b, [3.0], [1.0]) == [2.0]


def test_what_holds_by_construction_says_so() -> None:
    plain = exact("X", "c", where="-", paper="w", ours=0, rule="none", why="w.", held=True)
    built = exact("X", "c", where="-", paper="w", ours=0, rule="none", why="w.", held=True, built="so")
    assert (plain.built, built.built) == (False, True)
    assert built.reason == "w. By construction: so."
    assert built.verdict is ClaimVerdict.HELD


def record(seed: int, *claims: PaperClaim) -> StudyRecord:
    return StudyRecord(
        study="locality", title="t", answers="a", quick=False, seed=seed, version="0", seconds=1.0,
        claims=list(claims), commit="abc",
    )  # fmt: skip


def test_verdicts_of_held_back_seeds_stand_beside_those_in_view() -> None:
    inside, outside = claim([4.9, 5.0, 5.1], (4.0, 6.0)), claim([7.9, 8.0, 8.1], (4.0, 6.0))
    own = judged("Y", "c", paper=None, ours=1, rule="r", held=True)
    here, there = record(1, inside, own), record(1001, outside, own)
    summary, changes = confirming_tables([here], [there])
    assert summary.rows == [
        ("locality", "1001", "abc", 0, 1, 1, 0),
        ("sum of these studies", "", "", 0, 1, 1, 0),
    ]
    [row] = changes.rows
    assert (row[4], row[6], row[7]) == ("held", "refuted", "apart")
    assert [verdict_there(here, each, [there]) for each in here.claims] == ["refuted", "held"]
    assert "| refuted |" in claims_page([here], [there])


def test_a_claim_is_not_confirmed_by_itself_or_by_another() -> None:
    inside = claim([4.9, 5.0, 5.1], (4.0, 6.0))
    other = msgspec.structs.replace(inside, claim="another")
    assert confirming_tables([record(1, inside)], [record(1, inside)]) == []  # the same seeds
    assert confirming_tables([record(1, inside)], [record(1001, other)]) == []
    assert verdict_there(record(1, inside), inside, []) == "-"
    quick = msgspec.structs.replace(record(1001, inside), quick=True)
    assert confirming_tables([record(1, inside)], [quick]) == []
