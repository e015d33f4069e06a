"""Pictures and tables of study `self-organisation`, with error bars over seeds."""

from __future__ import annotations

from collections.abc import Callable

from tidings_lab.studies._claims import SeedEstimate, estimate
from tidings_lab.studies._organisation_fit import Fit
from tidings_lab.studies._organisation_runs import (
    ALL,
    BOUND_STEP,
    CBR,
    FEWER,
    GROWTH,
    PRINTED,
    SHORT_TTL,
    SOCBR,
    STEP,
    TRIGGERS,
    Case,
    OrganisationRuns,
)
from tidings_lab.studies.study import Curve, Picture, StudyTable, curve_of

RATIOS = (1, 2, 5, 10, 12, 20, 50, 100)
TTLS = (1, 2, 4, 8)
WORKLOADS = [(width, fan) for width in (1.0, 0.5, 0.2) for fan in (10, 4)]
EVERY = BOUND_STEP // STEP  # looks between two points that are drawn


def pictures(runs: OrganisationRuns, fit: Fit) -> list[Picture]:
    named = [(f"SOCBR, {trigger} trigger", Case(SOCBR, trigger)) for trigger in TRIGGERS]
    named.append((f"SOCBR, {fit.case.trigger} trigger, {fit.case.forwarding} forwarding", fit.case))
    return [
        *(_hops(runs, width, fan) for width, fan in WORKLOADS),
        _along(runs, "figure-4-13", "Associativity of the system", "AS", "as", named),
        _ratios(runs, "figure-4-14", "Messages of all kinds", [("CBR", Case(CBR)), *named], ALL),
        _ratios(runs, "figure-4-14-fitted", f"Messages, {fit.counting}", [("CBR", Case(CBR)), *named[-1:]],
                fit.counting),
        _prices(runs, named, fit),
        _ratios(runs, "figure-4-16", "Discovery over some hops only, as printed", [
            ("CBR", Case(CBR)), *((f"TTL {ttl}", Case(f"TTL {ttl}")) for ttl in TTLS),
            ("no bound", Case(SOCBR))], ALL),
    ]  # fmt: skip


def _thin(found: list[SeedEstimate]) -> list[SeedEstimate]:
    return found[EVERY - 1 :: EVERY]


def _hops(runs: OrganisationRuns, width: float, fan: int) -> Picture:
    ends = [float(end) for end in runs.ends()]
    plain = Case(CBR, width=width, fan_out=fan)
    variants = [("CBR", plain), *((f"SOCBR, {t}", Case(SOCBR, t, PRINTED, width, fan)) for t in TRIGGERS),
                ("fewer hops", Case(FEWER, GROWTH, PRINTED, width, fan))]  # fmt: skip
    curves = [curve_of(name, ends, _thin(runs.along(case, "hops"))) for name, case in variants]
    best = _thin(runs.along(plain, "best"))
    ideal = _thin(runs.along(plain, "ideal"))
    return Picture(
        name=f"figure-4-12-{width:g}-f{fan}", title=f"Hops per event: rectangles to {width:g}, F = {fan}",
        x_label="subscriptions", y_label="links crossed",
        curves=[*curves, Curve("tree of most associativity", ends, [each.mean for each in best], dashed=True),
                Curve("no pure forwarder", ends, [each.mean for each in ideal], dashed=True)],
    )  # fmt: skip


def _along(
    runs: OrganisationRuns, name: str, title: str, label: str, column: str, named: list[tuple[str, Case]]
) -> Picture:
    ends = [float(end) for end in runs.ends()]
    curves = [
        curve_of(words, ends, _thin(runs.along(case, column))) for words, case in [("CBR", Case(CBR)), *named]
    ]
    most = [each.mean for each in _thin(runs.along(Case(CBR), "most"))]
    return Picture(
        name=name, title=title, x_label="subscriptions", y_label=label,
        curves=[*curves, Curve("maximum-weight spanning tree", ends, most, dashed=True)],
    )  # fmt: skip


def _ratios(
    runs: OrganisationRuns, name: str, title: str, named: list[tuple[str, Case]], counting: str
) -> Picture:
    at = runs.middle
    curves = [
        curve_of(
            words,
            [float(ratio) for ratio in RATIOS],
            [
                estimate([run.per_operation(at, ratio, counting) for run in runs[case]])
                for ratio in RATIOS
            ],
        )
        for words, case in named
    ]  # fmt: skip
    return Picture(
        name=name, title=title, x_label="events for each subscription (R)", y_label="messages per operation",
        curves=curves, x_log=True,
    )  # fmt: skip


def _prices(runs: OrganisationRuns, named: list[tuple[str, Case]], fit: Fit) -> Picture:
    ends = runs.ends()
    curves = [
        curve_of(words, [float(end) for end in ends],
            [estimate(runs.price(case, end, fit.counting)) for end in ends])
        for words, case in named
    ]  # fmt: skip
    return Picture(
        name="figure-4-15", title=f"The price of self-organisation ({fit.counting})", x_label="subscriptions",
        y_label="messages per subscription", curves=curves,
    )  # fmt: skip


def tables(runs: OrganisationRuns, fit: Fit) -> list[StudyTable]:
    return [_chapter(runs, fit), _hops_table(runs)]


Figure = Callable[[Case, int, str], list[float]]  # of a setting, at the end of a window, by a counting


def _chapter(runs: OrganisationRuns, fit: Fit) -> StudyTable:
    """Figures 4.12 to 4.16 under each trigger and under the fitted setting, window by window."""
    end = runs.subscriptions
    settings = [*((Case(SOCBR, trigger), ALL) for trigger in TRIGGERS), (fit.case, fit.counting)]

    def row(words: str, printed: str, figure: Figure, at: int, percent: bool) -> tuple[str, ...]:
        found = [estimate(figure(case, at, counting)) for case, counting in settings]
        return words, printed, *(each.percent if percent else each.text(".2f") for each in found)

    in_windows: tuple[tuple[str, str, Figure, bool], ...] = (
        ("4.12, pure forwarders", "-70%", lambda case, at, _: runs.fewer_forwarders(case, at), True),
        ("4.12, hops over the ideal", "very close", lambda case, at, _: runs.over_ideal(case, at), False),
        ("4.12, hops against CBR", "-", lambda case, at, _: runs.fewer_hops(case, at), True),
        ("4.14, messages at R = 100", "-30%",
         lambda case, at, counting: runs.fewer_messages(case, at, 100, counting), True),
        ("4.14, messages at R = 10", "not fewer",
         lambda case, at, counting: runs.fewer_messages(case, at, 10, counting), True),
        ("4.14, break-even", "12", runs.break_even, False),
        (f"4.16, TTL {SHORT_TTL} against no bound at R = 2", "fewer",
         lambda case, at, counting: runs.short_ttl(case, at, 2, counting), True),
        (f"4.16, TTL {SHORT_TTL} against no bound at R = 100", "more",
         lambda case, at, counting: runs.short_ttl(case, at, 100, counting), True),
    )  # fmt: skip
    rows = [
        row(f"{words}, window to {at}", printed, figure, at, percent)
        for words, printed, figure, percent in in_windows
        for at in runs.windows
    ]

    def trend(case: Case, _: int, counting: str) -> list[float]:
        early, late = runs.price(case, end // 2, counting), runs.price(case, end, counting)
        return [b / a for a, b in zip(early, late, strict=True)]

    once: tuple[tuple[str, str, Figure], ...] = (
        ("4.13, associativity after 100 over the most of any tree", "high",
         lambda case, *_: runs.associativity_share(case)),
        (f"4.15, price of a subscription, window to {end}", "-", runs.price),
        (f"4.15, price in the window to {end} over that in the window to {end // 2}", "slightly descending",
         trend),
        (f"share of discovery, over all {end} subscriptions", "0.9",
         lambda case, _, counting: runs.discovery_share(case, counting)),
    )  # fmt: skip
    rows += [row(words, printed, figure, end, False) for words, printed, figure in once]
    fitted = f"fitted: {fit.case.trigger} trigger, {fit.case.forwarding} forwarding, {fit.counting}"
    return StudyTable(
        "Figures 4.12 to 4.16 under each trigger (forwarding as printed, all messages counted), and under "
        "the fitted setting",
        ("figure", "the thesis", *(f"trigger {trigger}" for trigger in TRIGGERS), fitted), rows,
    )  # fmt: skip


def _hops_table(runs: OrganisationRuns) -> StudyTable:
    end, rows = runs.subscriptions, []
    for width, fan in WORKLOADS:
        cases = [Case(name, trigger, PRINTED, width, fan) for name in (SOCBR, FEWER) for trigger in TRIGGERS]
        rows.append([
            width, fan,
            estimate([run.at(end, "hops") for run in runs[Case(CBR, width=width, fan_out=fan)]]).text(".1f"),
            *(estimate(runs.fewer_hops(case, end)).percent for case in cases),
        ])  # fmt: skip
    columns = ["largest side", "F", "CBR, hops", *(f"SOCBR, {trigger}" for trigger in TRIGGERS),
               *(f"fewer hops, {trigger}" for trigger in TRIGGERS)]  # fmt: skip
    return StudyTable(f"hops per event after {end} subscriptions, against CBR", columns, rows)
