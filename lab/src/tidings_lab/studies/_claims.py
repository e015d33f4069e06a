"""Claims of papers and the verdicts on them.

Rules
- `paper` holds only what a paper prints: a number, or its words in short. Every claim of a paper has it; our
  own claims and corrections have none. A value that we computed is a `reference`.
- A rule is a band with two edges and a reason. An edge at infinity is there only when the printed words have
  one side ("more than", "not significantly").
- A verdict on measurements comes from the 95% confidence interval of the mean over seeds (Student's t):
  *held* when the whole interval is inside the band, *refuted* when all of it is outside, *undecided* when it
  meets an edge.
- *fitted*: a free parameter that the paper does not print was chosen so that this, or the figure it follows
  from, comes out. A fit that fails all the same is refuted. *not comparable*: what was printed and what we
  measure are not the same quantity, or a parameter that decides the figure is not printed and was not fitted,
  or no measurement of ours could break it (a bound that sends cannot exceed, an identity); the reason says
  which.
- One rule for all parameters that are not printed. Where nothing but a choice of ours stands for one (a tree
  that no text describes), what depends on it is not comparable. Where a text bounds one and several values
  were tried, the claim is judged at one value, which stands beside its verdict (`at`): *refuted* is a
  refutation there. It would be not comparable if another value that was tried were held.
- A claim on a system that was built by the words it is judged by (`built`) shows that it was built so and no
  more. It is counted apart as well.
- A claim that is `arithmetic` compares a paper's words with the paper's own formulas: nothing was measured,
  and *held* says that text and formula agree. It is counted apart as well.
- A correction of ours is a claim of its own, of the kind *our own*, beside the printed claim that it refutes.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import msgspec

from tidings.errors import SettingsError

ANY_MORE = math.inf
ABOVE_ZERO = math.nextafter(0.0, 1.0)  # edges of bands for "more", "fewer", "some"
BELOW_ZERO = -ABOVE_ZERO
TINY = 1e-300  # less than this is an edge at 0, scaled or not


class ClaimKind(StrEnum):
    """Source of a claim: how its value or its words stand in a paper."""

    NUMBER = "printed number"
    WORDS = "printed words"
    CURVE = "read from a curve"
    FORMULA = "formula"
    OWN = "our own"


class ClaimVerdict(StrEnum):
    HELD = "held"
    REFUTED = "refuted"
    UNDECIDED = "undecided"
    FITTED = "fitted"
    NOT_COMPARABLE = "not comparable"


class SeedEstimate(msgspec.Struct, frozen=True):
    """Mean over seeds with its 95% confidence interval; one seed has no interval."""

    mean: float
    low: float
    high: float
    seeds: int

    @property
    def half(self) -> float:
        return (self.high - self.low) / 2

    def text(self, form: str = ".3g", scale: float = 1.0, unit: str = "") -> str:
        """`0.91 ± 0.02 (20 seeds)`."""
        if self.seeds < 2:
            return f"{self.mean * scale:{form}}{unit} (1 seed)"
        wide = format(self.half * scale, form).removeprefix("+")
        return f"{self.mean * scale:{form}} ± {wide}{unit} ({self.seeds} seeds)"

    @property
    def percent(self) -> str:
        return self.text("+.0f", 100.0, "%")


# Quantiles 0.975 of Student's t by degrees of freedom; between them 1/df is interpolated.
_T = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228,
      11: 2.201, 12: 2.179, 13: 2.160, 14: 2.145, 15: 2.131, 16: 2.120, 17: 2.110, 18: 2.101, 19: 2.093,
      20: 2.086,
      24: 2.064, 29: 2.045, 39: 2.023, 59: 2.001, 119: 1.980}  # fmt: skip
_NORMAL = 1.960


def t_quantile(freedom: int) -> float:
    """The 0.975 quantile of Student's t."""
    if freedom < 1:
        raise SettingsError("an interval needs two values at least", hint="run it with more seeds")
    if freedom in _T:
        return _T[freedom]
    below = max(known for known in _T if known < freedom)
    above = min((known for known in _T if known > freedom), default=None)
    upper, far = (_NORMAL, 0.0) if above is None else (_T[above], 1 / above)
    share = (1 / freedom - far) / (1 / below - far)
    return upper + share * (_T[below] - upper)


def estimate(values: Sequence[float]) -> SeedEstimate:
    """Mean and interval of one value per seed. A value that is not finite makes the interval infinite."""
    if not values:
        raise SettingsError("there is nothing to estimate", hint="give one value for each seed")
    if not all(math.isfinite(value) for value in values):
        return SeedEstimate(fmean(values), -math.inf, math.inf, len(values))
    mean = fmean(values)
    half = t_quantile(len(values) - 1) * stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return SeedEstimate(mean, mean - half, mean + half, len(values))


def never(trials: int, seeds: int) -> SeedEstimate:
    """Share of something that was not seen in so many trials: values without spread have no interval of
    Student's; 3 / trials is the 95% bound (the rule of three)."""
    return SeedEstimate(0.0, 0.0, 3 / trials, seeds)


def jackknife(tops: Sequence[float], bottoms: Sequence[float]) -> list[float]:
    """Pseudo-values of the ratio of two means over the same seeds: their mean and interval are those of the
    ratio.

    One ratio for each seed would let a seed with a small denominator rule the mean."""
    return pseudo_values(lambda top, bottom: _ratio(top, bottom), tops, bottoms)


def pseudo_values(figure: Callable[..., float], *columns: Sequence[float]) -> list[float]:
    """The jackknife of a figure of several means over the same seeds, one pseudo-value for each seed."""
    count = len(columns[0])
    sums = [sum(column) for column in columns]
    whole = figure(*(total / count for total in sums))
    if count < 2:
        return [whole]
    left_out = [
        figure(*((total - value) / (count - 1) for total, value in zip(sums, row, strict=True)))
        for row in zip(*columns, strict=True)
    ]
    return [count * whole - (count - 1) * each for each in left_out]


def _ratio(top: float, bottom: float) -> float:
    return top / bottom if bottom else math.inf


class PaperClaim(msgspec.Struct, frozen=True, kw_only=True):
    """One claim and our answer to it. `reproduced` is true only where the verdict is *held*."""

    id: str  # catalogue id, e.g. VIR3-7
    claim: str  # in our own words
    where: str  # section, table, figure or sentence of the paper
    kind: ClaimKind
    paper: float | str | None  # as printed; None only for claims of our own
    expected: float | str | None = None  # our reference: computed by us, or corrected
    erratum: str | None = None
    ours: float | str | None
    interval: tuple[float, float] | None = None  # of 95%, over seeds
    seeds: int = 1
    tolerance: float | str  # the rule
    reason: str  # why this rule
    verdict: ClaimVerdict
    reproduced: bool
    built: bool = False  # the system was built by the words that it is judged by
    arithmetic: bool = False  # on the paper's own formulas: nothing was measured
    at: str = ""  # value of a parameter that is not printed, for which the verdict is
    source: str = ""  # file and line that states the claim

    def __post_init__(self) -> None:
        if (self.paper is None) is not (self.kind is ClaimKind.OWN):
            raise SettingsError(
                f"claim {self.id} ({self.claim}) is of kind {self.kind} and its printed value is "
                f"{self.paper!r}",
                hint="a claim of a paper needs what the paper prints; one of ours has nothing printed",
            )
        if self.reproduced is not (self.verdict is ClaimVerdict.HELD):
            raise SettingsError(
                f"claim {self.id}: reproduced is {self.reproduced} and the verdict is {self.verdict}",
                hint="reproduced is true only where the verdict is held",
            )


Band = tuple[float, float]


def verdict_of(found: SeedEstimate, band: Band) -> ClaimVerdict:
    """Held, refuted or undecided by interval and band; edges belong to the band."""
    low, high = band
    if math.isnan(found.mean):
        return ClaimVerdict.UNDECIDED
    if low <= found.low and found.high <= high:
        return ClaimVerdict.HELD
    if found.high < low or found.low > high:
        return ClaimVerdict.REFUTED
    return ClaimVerdict.UNDECIDED


def band_text(band: Band, form: str = "{:g}") -> str:
    low, high = band
    if 0.0 < low < TINY:
        return "above 0" if math.isinf(high) else f"above 0, at most {form.format(high)}"
    if -TINY < high < 0.0:
        return "below 0" if math.isinf(low) else f"below 0, at least {form.format(low)}"
    if math.isinf(high):
        return f"at least {form.format(low)}"
    if math.isinf(low):
        return f"at most {form.format(high)}"
    return f"{form.format(low)} to {form.format(high)}"


def measured(
    id: str, claim: str, *, where: str, paper: float | str | None, values: Sequence[float], within: Band,
    why: str,
    kind: ClaimKind | None = None, reference: float | str | None = None, erratum: str | None = None,
    fitted: str = "", built: str = "", at: str = "",
    note: str = "", form: str = ".4g", scale: float = 1.0, unit: str = "",
) -> PaperClaim:  # fmt: skip
    """A claim on a mean over seeds, judged by interval and band.

    `fitted` names the parameter that was chosen with this in view: then *held* becomes *fitted*."""
    found = estimate(values)
    verdict = verdict_of(found, within)
    if fitted and verdict is ClaimVerdict.HELD:
        verdict = ClaimVerdict.FITTED
    rule = band_text((within[0] * scale, within[1] * scale), f"{{:{form}}}{unit}")
    return PaperClaim(
        id=id, claim=claim, where=where, kind=kind or kind_of(paper), paper=paper, expected=reference,
        erratum=erratum, ours=found.text(form, scale, unit) + (f"; {note}" if note else ""),
        interval=(found.low * scale, found.high * scale) if found.seeds > 1 else None, seeds=found.seeds,
        tolerance=rule, reason=_reason(why, fitted, built), verdict=verdict, built=bool(built),
        reproduced=verdict is ClaimVerdict.HELD, at=at, source=stated(),
    )  # fmt: skip


def everywhere(
    id: str, claim: str, *, where: str, paper: float | str | None,
    levels: Mapping[str, Sequence[float] | SeedEstimate], within: Band,
    why: str, kind: ClaimKind | None = None, reference: float | str | None = None, erratum: str | None = None,
    fitted: str = "", built: str = "", at: str = "", form: str = ".4g", scale: float = 1.0, unit: str = "",
) -> PaperClaim:  # fmt: skip
    """A claim on every level of something: held when every level holds, refuted when one is refuted."""
    found = {
        name: values if isinstance(values, SeedEstimate) else estimate(values)
        for name, values in levels.items()
    }
    verdicts = {name: verdict_of(each, within) for name, each in found.items()}
    verdict = next(
        (each for each in (ClaimVerdict.REFUTED, ClaimVerdict.UNDECIDED) if each in verdicts.values()),
        ClaimVerdict.HELD,
    )
    if fitted and verdict is ClaimVerdict.HELD:
        verdict = ClaimVerdict.FITTED
    shown = ", ".join(
        f"{name}: {each.mean * scale:{form}} ± {format(each.half * scale, form).removeprefix('+')}{unit}"
        + ("" if verdicts[name] is ClaimVerdict.HELD else f" ({verdicts[name]})")
        for name, each in found.items()
    )
    seeds = min(each.seeds for each in found.values())
    form_with_unit = f"{{:{form}}}{unit}"
    return PaperClaim(
        id=id, claim=claim, where=where, kind=kind or kind_of(paper), paper=paper, expected=reference,
        erratum=erratum, ours=f"{shown} ({seeds} seeds)", seeds=seeds,
        interval=(scale * min(each.low for each in found.values()),
                  scale * max(each.high for each in found.values())),
        tolerance=f"{band_text((within[0] * scale, within[1] * scale), form_with_unit)}, at every level",
        reason=_reason(why, fitted, built), verdict=verdict, built=bool(built),
        reproduced=verdict is ClaimVerdict.HELD, at=at,
        source=stated(),
    )  # fmt: skip


def exact(
    id: str, claim: str, *, where: str, paper: float | str | None, ours: float | str, rule: str, why: str,
    held: bool,
    kind: ClaimKind | None = None, reference: float | str | None = None, erratum: str | None = None,
    fitted: str = "", built: str = "", arithmetic: bool = False, at: str = "",
    seeds: int = 1, source: str = "",
) -> PaperClaim:  # fmt: skip
    """A claim on counts or orders that have no spread, or that must hold in every run."""
    verdict = (ClaimVerdict.FITTED if fitted else ClaimVerdict.HELD) if held else ClaimVerdict.REFUTED
    return PaperClaim(
        id=id, claim=claim, where=where, kind=kind or kind_of(paper), paper=paper, expected=reference,
        erratum=erratum, ours=ours, seeds=seeds, tolerance=rule,
        reason=_reason(why, fitted, built), verdict=verdict, built=bool(built), arithmetic=arithmetic,
        reproduced=verdict is ClaimVerdict.HELD, at=at,
        source=source or stated(),
    )  # fmt: skip


def incomparable(
    id: str, claim: str, *, where: str, paper: float | str, ours: float | str, why: str,
    kind: ClaimKind | None = None,
    reference: float | str | None = None, erratum: str | None = None, seeds: int = 1,
    found: SeedEstimate | None = None, scale: float = 1.0, arithmetic: bool = False,
) -> PaperClaim:  # fmt: skip
    """A printed value beside one of ours that does not measure the same; `found` gives it an interval."""
    interval = None if found is None else (found.low * scale, found.high * scale)
    return PaperClaim(
        id=id, claim=claim, where=where, kind=kind or kind_of(paper), paper=paper, expected=reference,
        erratum=erratum, ours=ours, interval=interval, seeds=seeds if found is None else found.seeds,
        tolerance="none: shown side by side", reason=why, arithmetic=arithmetic,
        verdict=ClaimVerdict.NOT_COMPARABLE, reproduced=False, source=stated(),
    )  # fmt: skip


def side_by_side(claim: PaperClaim, why: str) -> PaperClaim:
    """The same figures without a verdict: a parameter that decides them is not printed, and one value of
    ours stands for it."""
    marks = "|".join(str(verdict) for verdict in ClaimVerdict)
    return msgspec.structs.replace(
        claim, ours=re.sub(rf" \(({marks})\)", "", str(claim.ours)), tolerance="none: shown side by side",
        reason=why, verdict=ClaimVerdict.NOT_COMPARABLE, reproduced=False,
    )  # fmt: skip


def judged(
    id: str, claim: str, *, paper: float | str | None, ours: float | str, rule: str, held: bool,
    expected: float | str | None = None, erratum: str | None = None,
) -> PaperClaim:  # fmt: skip
    """A claim by a rule in words, as studies of other packages write it; `exact` says more."""
    return exact(
        id, claim, where="not stated", paper=paper, ours=ours, rule=rule, why="The study states no reason.",
        held=held,
        reference=expected, erratum=erratum,
    )  # fmt: skip


def _reason(why: str, fitted: str, built: str) -> str:
    return why + (f" Fitted: {fitted}." if fitted else "") + (f" By construction: {built}." if built else "")


def kind_of(paper: Any) -> ClaimKind:
    if paper is None:
        return ClaimKind.OWN
    return ClaimKind.NUMBER if isinstance(paper, int | float) else ClaimKind.WORDS


_OWN_FILE = Path(__file__).name


def stated(helpers: int = 0) -> str:
    """File and line of the study that states the claim, so many of the study's own helpers further up."""
    depth = 1
    frame = sys._getframe(depth)
    while Path(frame.f_code.co_filename).name == _OWN_FILE and frame.f_back is not None:
        frame = frame.f_back
    for _ in range(helpers):
        frame = frame.f_back or frame
    path = Path(frame.f_code.co_filename)
    package = path.parent.parent.name
    return f"{package}/studies/{path.name}:{frame.f_lineno}"


def by_kind(claims: Sequence[PaperClaim]) -> dict[ClaimKind, dict[ClaimVerdict, int]]:
    """How many claims of each kind have which verdict."""
    table = {kind: dict.fromkeys(ClaimVerdict, 0) for kind in ClaimKind}
    for claim in claims:
        table[claim.kind][claim.verdict] += 1
    return table
