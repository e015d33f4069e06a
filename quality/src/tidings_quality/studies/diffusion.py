"""Study `diffusion`: how fast subscriptions and events spread (Virgillito 2003, Table 3.1, Figure 3.10).

Every broker in turn is the source of a subscription that all others have to learn, and of an event that all
others want. T_sub and T_diff are the longest of these delays over all sources; the rates s and r are those of
the logistic curve with the same integral as the measured one. Absolute seconds are the hardware's: one
constant is set on the row of 100 hosts.

How much this shows. The thesis prints neither the shape of its networks nor its handling times. Ours
(`TransitStub`, and the two costs in `_cbr`) were chosen with all three rows of Table 3.1 in view, so its rows
are *fitted*, T_sub and T_diff as well, whose values follow from the same delays; that r > s follows from a
handling time that is longer for subscriptions than for events, and is fitted too. So is the shape of the
curves: the delays that it is made of come from the same constants. A topology is a seed; intervals are over
topologies.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidings_lab.analysis.fit import fit_rate, goodness
from tidings_lab.studies._cbr import BROKERS, delays_of
from tidings_lab.studies.study import (
    ABOVE_ZERO,
    Curve,
    PaperClaim,
    Picture,
    Study,
    StudyOutcome,
    StudySetting,
    StudyTable,
    estimate,
    everywhere,
    jackknife,
    measured,
)

Floats = NDArray[np.float64]


class DiffusionRow(NamedTuple):
    hosts: int
    s: float
    r: float
    t_sub: float
    t_diff: float


PAPER = (
    DiffusionRow(100, 0.97, 1.21, 12.20, 9.95),
    DiffusionRow(250, 0.62, 0.80, 19.06, 14.03),
    DiffusionRow(500, 0.47, 0.58, 25.44, 20.44),
)


class MeasuredDiffusion(NamedTuple):
    """Delays of each topology, in simulated seconds."""

    hosts: int
    subscriptions: list[Floats]
    notifications: list[Floats]

    @property
    def subscription(self) -> Floats:
        return np.concatenate([delays.ravel() for delays in self.subscriptions])

    @property
    def notification(self) -> Floats:
        return np.concatenate([delays.ravel() for delays in self.notifications])

    def figures(self, constant: float) -> dict[str, list[float]]:
        """The four columns of Table 3.1, each as one value for each topology."""
        return {
            "s": [fit_rate(delays.ravel() * constant, BROKERS) for delays in self.subscriptions],
            "r": [fit_rate(delays.ravel() * constant, BROKERS) for delays in self.notifications],
            "T_sub": [float(delays.max()) * constant for delays in self.subscriptions],
            "T_diff": [float(delays.max()) * constant for delays in self.notifications],
        }

    def row(self, constant: float) -> DiffusionRow:
        longest = self.figures(constant)
        return DiffusionRow(
            self.hosts,
            fit_rate(self.subscription * constant, BROKERS),
            fit_rate(self.notification * constant, BROKERS),
            float(np.mean(longest["T_sub"])),
            float(np.mean(longest["T_diff"])),
        )


def measure(hosts: int, setting: StudySetting) -> MeasuredDiffusion:
    topologies, step = (30, 34) if setting.quick else (40, 1)  # the thesis has 5: the spread is wide
    sources = list(range(0, BROKERS, step))
    points = [(hosts, setting.seed * 1000 + number, sources) for number in range(setting.seeds or topologies)]
    found = setting.measure(delays_of, points)
    return MeasuredDiffusion(
        hosts,
        [np.asarray(delays["subscription"]) for delays in found],
        [np.asarray(delays["notification"]) for delays in found],
    )


def run(setting: StudySetting) -> StudyOutcome:
    found = [measure(row.hosts, setting) for row in PAPER]
    constant = float(np.log(BROKERS) / PAPER[0].s / found[0].subscription.mean())
    ours = [each.row(constant) for each in found]
    claims = [*_table_claims(found, constant), *_shape_claims(found, ours, constant)]
    return StudyOutcome(
        claims=claims, pictures=_pictures(found[0], ours[0], constant), tables=[_table(found, constant)]
    )


FITTED = "handling times and the shape of networks, by the rows of this table"
WHERE = "Virgillito 2003, 3.3.2, Table 3.1"
SHAPE_FITTED = (
    "handling times and the shape of networks, by Table 3.1, and the rate of each curve, which has the "
    "integral of the measured one"
)
SHAPE = "The shape of the curves coincides with those in Figure 3.6"
TRENDS = "The same experiments were carried out with networks of 250 and 500 nodes, producing the same trends"


def _table_claims(found: list[MeasuredDiffusion], constant: float) -> list[PaperClaim]:
    """Every cell of Table 3.1; rates as the rate of the mean delay, so that they agree with the pooled
    fit."""
    claims = []
    columns = {each.hosts: each.figures(constant) for each in found}
    for row in PAPER:
        for name in ("s", "r", "T_sub", "T_diff"):
            printed = {"s": row.s, "r": row.r, "T_sub": row.t_sub, "T_diff": row.t_diff}[name]
            set_by = "the one constant, by this very value" if (row.hosts, name) == (100, "s") else FITTED
            values = columns[row.hosts][name]
            if name in ("s", "r"):
                values = jackknife([1.0] * len(values), [1 / value for value in values])
            claims.append(
                measured("VIR3-7", f"{name} with {row.hosts} hosts", where=WHERE, paper=printed,
                         values=values,
                         within=(0.85 * printed, 1.15 * printed), form=".2f", fitted=set_by,
                         why="15%: the catalogue's tolerance.")
            )  # fmt: skip
    faster = {
        f"{each.hosts} hosts": [
            r - s for s, r in zip(columns[each.hosts]["s"], columns[each.hosts]["r"], strict=True)
        ]
        for each in found
    }
    claims.append(
        everywhere("VIR3-7", "r less s", where=WHERE, paper="notification routing turns out to be faster "
                   "than subscription routing",
                   levels=faster,
                   within=(ABOVE_ZERO, float("inf")), form="+.3f",
                   fitted="a longer handling time for subscriptions",
                   why="Faster: above 0 in every row.")
    )  # fmt: skip
    return claims


def _curve(delays: Floats, constant: float, longest: float) -> tuple[Floats, Floats]:
    times = np.linspace(0.0, longest, 200)
    reached = np.searchsorted(np.sort(delays * constant), times, side="right") / len(delays)
    return times, reached


def _shape_claims(
    found: list[MeasuredDiffusion], ours: list[DiffusionRow], constant: float
) -> list[PaperClaim]:
    """Figure 3.10, both panels: one R² for each topology, of the logistic curve of equal integral."""
    claims = []
    for each, row in zip(found, ours, strict=True):
        for what, runs, longest, rate in (
            ("subscription, reached", each.subscriptions, row.t_sub, row.s),
            ("event, not reached", each.notifications, row.t_diff, row.r),
        ):
            fits = []
            for delays in runs:
                times, reached = _curve(delays.ravel(), constant, longest)
                own = fit_rate(delays.ravel() * constant, BROKERS)
                fits.append(float(goodness(list(times), list(reached), BROKERS, own)))
            times, reached = _curve(np.concatenate([d.ravel() for d in runs]), constant, longest)
            pooled = goodness(list(times), list(reached), BROKERS, rate)
            claims.append(
                measured("VIR3-8", f"{row.hosts} hosts, brokers by time, {what}: R² of the logistic curve",
                         where="Virgillito 2003, 3.3.2, Figure 3.10",
                         paper=SHAPE if row.hosts == PAPER[0].hosts else TRENDS, values=fits,
                         within=(0.97, 1.0), form=".4f", note=f"pooled over topologies {pooled:.4f}",
                         fitted=SHAPE_FITTED,
                         why="0.97: the catalogue's; of each topology, since pooling smooths any curve.")
            )  # fmt: skip
    return claims


def _pictures(measured: MeasuredDiffusion, ours: DiffusionRow, constant: float) -> list[Picture]:
    pictures = []
    for what, delays, longest, rate, flip in (
        ("subscription", measured.subscription, ours.t_sub, ours.s, False),
        ("notification", measured.notification, ours.t_diff, ours.r, True),
    ):
        times, reached = _curve(delays, constant, longest)
        model = 1 / (1 + (BROKERS - 1) * np.exp(-rate * times))
        printed_rate = PAPER[0].r if flip else PAPER[0].s
        paper = 1 / (1 + (BROKERS - 1) * np.exp(-printed_rate * times))
        pictures.append(
            Picture(
                name=f"diffusion-{what}",
                title="Figure 3.10: brokers "
                f"{'not reached by an event' if flip else 'reached by a subscription'}",
                x_label="seconds",
                y_label="fraction of brokers",
                curves=[
                    Curve("measured", list(times)[::8], _side(reached, flip)[::8]),
                    Curve(
                        f"logistic, {'r' if flip else 's'} = {rate:.2f}",
                        list(times),
                        _side(model, flip),
                        dashed=True,
                    ),
                    Curve(
                        f"thesis, {printed_rate}", list(times)[::12], _side(paper, flip)[::12], points=True
                    ),
                ],
            )
        )
    return pictures


def _side(reached: Floats, flip: bool) -> list[float]:
    return [float(value) for value in (1 - reached if flip else reached)]


def _table(found: list[MeasuredDiffusion], constant: float) -> StudyTable:
    rows: list[tuple[Any, ...]] = []
    for printed, each in zip(PAPER, found, strict=True):
        rows.append(("thesis", *printed))
        rows.append(("ours", each.hosts, *(estimate(v).text(".2f") for v in each.figures(constant).values())))
    return StudyTable("Table 3.1", ("", "hosts", "s", "r", "T_sub", "T_diff"), rows)


STUDY = Study(
    name="diffusion",
    title="How fast subscriptions and events spread",
    answers="Virgillito 2003, Table 3.1 and Figure 3.10",
    run=run,
)
