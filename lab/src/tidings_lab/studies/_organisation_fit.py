"""The sweep of study `self-organisation`: trigger, forwarding and counting, and the one setting that fits
three figures.

The three are the break-even of Figure 4.14 (about 12), the share of discovery (about 90%) and the break-even
of Figure 4.19 (about 30). A setting fits by the largest of its three distances, each as a share of the
printed value. Everything else that the setting says is a prediction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from tidings_lab.studies._claims import (
    PaperClaim,
    estimate,
    everywhere,
    exact,
    measured,
)
from tidings_lab.studies._organisation_runs import ALL as ALL
from tidings_lab.studies._organisation_runs import (
    COUNTINGS,
    FORWARDINGS,
    SOCBR,
    TRIGGERS,
    Case,
    OrganisationRuns,
)
from tidings_lab.studies._proximity_runs import CBR, NEAR_100, NearCase, ProximityRuns
from tidings_lab.studies.study import StudySetting, StudyTable

WANTED = (12.0, 0.90, 30.0)  # break-even of 4.14, share of discovery, break-even of 4.19
ENOUGH = 0.25  # of each printed value: what "about" is taken for everywhere


def over_ideal_claim(runs: OrganisationRuns, case: Case, stated: str) -> PaperClaim:
    """The rule of the printed sentence on Figure 4.12, under another setting."""
    return everywhere("VIR4-11", f"{stated}: hops over the ideal, by window", where="beside Figure 4.12",
                      paper=None, reference="very close to 1", within=(1.0, 1.25), form=".2f",
                      erratum="E-V9e", levels=runs.in_windows(lambda end: runs.over_ideal(case, end)),
                      why="The rule of Figure 4.12: within a quarter.")  # fmt: skip


class FitPoint(NamedTuple):
    """One setting of the sweep with its three figures, each as one value per seed."""

    case: Case
    counting: str
    even: list[float]
    share: list[float]
    near_even: list[float]

    @property
    def means(self) -> tuple[float, float, float]:
        return estimate(self.even).mean, estimate(self.share).mean, estimate(self.near_even).mean

    @property
    def is_inside(self) -> bool:
        """Whether all three intervals lie within a quarter of the print, and not the means alone."""
        found = [estimate(values) for values in (self.even, self.share, self.near_even)]
        return all(
            wanted * (1 - ENOUGH) <= each.low and each.high <= wanted * (1 + ENOUGH)
            for each, wanted in zip(found, WANTED, strict=True)
        )

    @property
    def distance(self) -> float:
        return max(abs(ours / wanted - 1) for ours, wanted in zip(self.means, WANTED, strict=True))


class Fit(NamedTuple):
    points: Sequence[FitPoint]

    @property
    def best(self) -> FitPoint:
        return min(self.points, key=lambda point: point.distance)

    @property
    def case(self) -> Case:
        return self.best.case

    @property
    def counting(self) -> str:
        return self.best.counting

    @property
    def inside(self) -> list[str]:
        """Settings that fit by their intervals, the nearest first."""
        return [
            f"{point.case.trigger}/{point.case.forwarding}, {point.counting}"
            for point in sorted(self.points, key=lambda point: point.distance)
            if point.is_inside
        ]

    def claims(self, runs: OrganisationRuns) -> list[PaperClaim]:
        """The fit, and what follows from it for the figures that it was not made with."""
        best, end = self.best, runs.subscriptions
        case, counting = best.case, best.counting
        stated = f"{case.trigger} trigger, {case.forwarding} forwarding"
        fits = [point for point in self.points if point.distance <= ENOUGH]
        inside = self.inside
        chosen = "trigger, forwarding and counting, by these three figures"
        first, last = runs.fewer_forwarders(case, 100), runs.fewer_forwarders(case, end)
        return [
            exact("VIR4-11", "settings of trigger, forwarding and counting that fit the three figures "
                  "together",
                  where="beside Figures 4.14 and 4.19", paper=None, reference="one at least",
                  ours=f"{len(fits)} of {len(self.points)} by means, {len(inside)} by intervals "
                  f"({', '.join(inside) or 'none'}); nearest: {stated}, {counting}",
                  rule="each mean within a quarter",
                  why="About: a quarter to either side. By intervals: all three inside.",
                  held=bool(fits), fitted=chosen, erratum="E-V9e", seeds=len(runs.seeds)),
            measured("VIR4-11", f"{stated}: break-even", where="beside Figure 4.14", paper=None, reference=12,
                     values=best.even, within=(9.0, 15.0), form=".1f", fitted=chosen, erratum="E-V9e",
                     why="The band of Figure 4.14."),
            measured("VIR4-11", f"{stated}: share of discovery", where="beside 4.5.3", paper=None,
                     reference=0.9,
                     values=best.share, within=(0.8, 1.0), form=".2f", fitted=chosen, erratum="E-V9e",
                     why="The band of the share."),
            measured("VIR4-11", f"{stated}: break-even with a bound of 100 ms", where="beside Figure 4.19",
                     paper=None,
                     reference=30, values=best.near_even, within=(22.5, 37.5), form=".1f", fitted=chosen,
                     erratum="E-V9e",
                     why="The band of Figure 4.19."),
            measured("VIR4-11", f"{stated}: pure forwarders after {end} subscriptions",
                     where="beside Figure 4.12",
                     paper=None, reference="-70%", values=last, within=(-0.80, -0.55), scale=100, form="+.0f",
                     unit="%",
                     why="The band of Figure 4.12; not part of this fit.", erratum="E-V9e",
                     fitted="the trigger was proposed with Figure 4.12 in view"),
            measured("VIR4-11", f"{stated}: the window that ends at {end} less that at 100",
                     where="beside Figure 4.12",
                     paper=None, reference="no difference",
                     values=[b - a for a, b in zip(first, last, strict=True)],
                     within=(-0.05, 0.05), scale=100, form="+.1f", unit=" points",
                     why="The band of Figure 4.12; not part of this fit.", erratum="E-V9e",
                     fitted="the trigger was proposed with Figure 4.12 in view"),
            everywhere("VIR4-11", f"{stated}: messages of all kinds at R = 100, by window",
                       where="beside Figure 4.14", paper=None, reference="-30%", within=(-0.40, -0.25),
                       levels=runs.in_windows(lambda end: runs.fewer_messages(case, end, 100, counting)),
                       scale=100, form="+.0f", unit="%", why="The band of Figure 4.14.",
                       erratum="E-V9e",
                       fitted="it follows from the saved hops and the break-even, which were fitted"),
            everywhere("VIR4-11", f"{stated}: messages of all kinds at R = 10, by window",
                       where="beside Figure 4.14", paper=None, reference="not fewer", within=(0.0, math.inf),
                       levels=runs.in_windows(lambda end: runs.fewer_messages(case, end, 10, counting)),
                       scale=100, form="+.1f", unit="%", why="The rule of Figure 4.14.",
                       erratum="E-V9e",
                       fitted="it follows from the break-even of 12, which was fitted"),
            measured("VIR4-11", f"{stated}: price for each subscription, at the end over in the middle",
                     where="beside Figure 4.15", paper=None, reference="slightly descending",
                     within=(0.75, 1.05),
                     values=[b / a for a, b in zip(runs.price(case, end // 2, counting),
                         runs.price(case, end, counting),
                                                   strict=True)],
                     form=".2f",
                     note=" ".join(f"{estimate(runs.price(case, n, counting)).mean:.0f}"
                         for n in runs.ends()),
                     why="The rule of Figure 4.15; not part of the fit.", erratum="E-V9e"),
            over_ideal_claim(runs, case, stated),
        ]  # fmt: skip

    def tables(self) -> list[StudyTable]:
        rows = [
            (point.case.trigger, point.case.forwarding, point.counting,
             *(estimate(values).text(".2f") for values in (point.even, point.share, point.near_even)),
             round(point.distance, 2))
            for point in sorted(self.points, key=lambda point: point.distance)
        ]  # fmt: skip
        columns = ("trigger", "forwarding", "counting", "break-even (12)", "discovery (0.9)",
            "break-even of 4.19 (30)",
                   "largest distance")  # fmt: skip
        return [StudyTable("trigger, forwarding and counting", columns, rows)]


def fit_of(runs: OrganisationRuns, setting: StudySetting) -> Fit:
    """All settings, with Figure 4.19 on trees that are blind to the network, as printed."""
    near = ProximityRuns(setting)
    near.load([NearCase(CBR)])
    near.load([NearCase(NEAR_100, trigger, forwarding) for trigger in TRIGGERS for forwarding in FORWARDINGS])
    return Fit(
        [
            FitPoint(
                case, counting, runs.break_even(case, runs.middle, counting), runs.discovery_share(case,
                    counting),
                near.break_even(NearCase(NEAR_100, case.trigger, case.forwarding), counting),
            )
            for case in (Case(SOCBR, trigger,
                forwarding) for trigger in TRIGGERS for forwarding in FORWARDINGS)
            for counting in COUNTINGS
        ]
    )  # fmt: skip
