"""Study `merge-subscriptions`: what merging saves between organisations (Virgillito 2003, Figures 5.8 to
5.10).

Ten organisations run the system `qns` on the simulator. The schema is a weather report: classes below
`RatingReport` (as topics here), a city, a measured value, and the accuracy and the currency of that value. A
subscription draws each of these by Zipf's law with exponent 1; of each, "not constrained" is the most popular
choice, as in the examples of the thesis, and the others are ranked in a random order, so that popular is not
the same as wide. Events are uniform in everything. The trivial way, which all reductions refer to, sends
every subscription to every other organisation and keeps it there.

With the schema mapping an organisation holds one to three of the five classes, and only those that hold a
subscription's class are told of it. Beyond the thesis: `union` leaves out what several subscriptions cover
together.

How much is saved depends on how often a choice is left open: one subscription to everything covers all
others. So the same is measured with "not constrained" ranked at random among the other choices (`open at any
rank`), with other exponents, and with intervals in the place of one-sided bounds, where unions have more to
find. The table has all of them; the claims of the thesis are judged by the usual subscriptions alone.

The thesis prints no numbers of subscriptions under its curves, but for the hundred of Figure 5.10. How far
the curves go to the right here (a thousand for each organisation) was chosen before the first measurement;
where the quick run ends (three hundred) was chosen afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, combinations, pairwise
from random import Random
from statistics import fmean
from typing import Any

from tidings.simulation.topology import OverlayGraph
from tidings.simulation.world import World
from tidings_lab.studies.study import (
    Curve,
    PaperClaim,
    Picture,
    Study,
    StudyOutcome,
    StudySetting,
    StudyTable,
    judged,
)

ORGANISATIONS = tuple(f"o{number}" for number in range(10))
KINDS = ("Temperature", "Rain", "Wind", "Pressure", "Humidity")
CITIES = tuple(f"city{number}" for number in range(20))
STEPS = 10  # of the measured value and of each quality
MEASURES = ("measured", "accuracy", "currency")
EXPONENT = 1.0
SIZES, QUICK_SIZES = (10, 20, 50, 100, 200, 500, 1000), (10, 50, 300)
REDUCTIONS = ("covering", "union")
WITH, WITHOUT = "with mapping", "without mapping"
USUAL, ANY_RANK, INTERVALS = "usual", "open at any rank", "intervals"  # kinds of subscriptions


class Zipf:
    """Draws from some choices, ranked at random; the first one is the most popular if that is wanted."""

    def __init__(self, choices: Sequence[str], rng: Random, exponent: float, is_open_first: bool) -> None:
        first, *others = choices
        rng.shuffle(others)
        place = 0 if is_open_first else rng.randint(0, len(others))
        self._choices = (*others[:place], first, *others[place:])
        self._weights = list(accumulate(1 / rank**exponent for rank in range(1, len(choices) + 1)))

    def draw(self, rng: Random) -> str:
        (found,) = rng.choices(self._choices, cum_weights=self._weights)
        return found


class Weather:
    """Subscriptions, events and the mapping, all from one seed."""

    def __init__(self, seed: int, exponent: float = EXPONENT, kind: str = USUAL) -> None:
        self.rng = Random(f"weather/{seed}")
        steps = [f"{step / STEPS:g}" for step in range(1, STEPS)]
        tables = [
            ["topic MATCHES 'Report/#'", *(f"topic MATCHES 'Report/{below}/#'" for below in KINDS)],
            ["", *(f"city = '{city}'" for city in CITIES)],
        ]
        if kind == INTERVALS:
            pairs = list(combinations(steps, 2))
            tables += [["", *(f"{name} BETWEEN {a} AND {b}" for a, b in pairs)] for name in MEASURES]
        else:
            tables.append(["", *(f"measured {op} {step}" for op in ("<=", ">=") for step in steps)])
            tables += [["", *(f"{name} <= {step}" for step in steps)] for name in MEASURES[1:]]
        self._zipf = [Zipf(table, self.rng, exponent, kind != ANY_RANK) for table in tables]
        self.holds = {name: self.rng.sample(KINDS, self.rng.randint(1, 3)) for name in ORGANISATIONS}

    def subscription(self) -> str:
        return " AND ".join(part for part in (zipf.draw(self.rng) for zipf in self._zipf) if part)

    def event(self, kinds: Sequence[str] = KINDS) -> tuple[str, dict[str, Any]]:
        rng = self.rng
        attributes = {name: rng.random() for name in MEASURES}
        return f"Report/{rng.choice(kinds)}", {"city": rng.choice(CITIES), **attributes}

    def produces(self) -> dict[str, str]:
        """For each organisation a filter that accepts all that it may tell."""
        return {
            name: " OR ".join(f"topic = 'Report/{kind}'" for kind in kinds)
            for name, kinds in self.holds.items()
        }


def _world(weather: Weather, mapping: str, reduce: str, seed: int) -> World:
    options: dict[str, Any] = {"reduce": reduce}
    if mapping == WITH:
        options["produces"] = weather.produces()
    world = World("qns", OverlayGraph(ORGANISATIONS, ()), seed=seed, options=options, record=False)
    for name in ORGANISATIONS:
        world.add_client(f"users of {name}", name)
    world.run(1.0)
    return world


def _subscribe(world: World, weather: Weather, first: int, upto: int) -> None:
    """Subscriptions number `first` to `upto` of every organisation, one after the other."""
    for number in range(first, upto):
        for name in ORGANISATIONS:
            world.subscribe(f"users of {name}", f"s{number}", weather.subscription())
        world.run(world.simulation.now + 1.0)


def reduction(
    mapping: str, reduce: str, sizes: Sequence[int], exponent: float, kind: str, seed: int
) -> list[dict[str, Any]]:
    """Messages and tables after so many subscriptions at each organisation (Figures 5.8 and 5.9)."""
    weather = Weather(seed, exponent, kind)
    world = _world(weather, mapping, reduce, seed)
    before, done, found = world.simulation.sent["Interest"], 0, []
    others = len(ORGANISATIONS) - 1
    for size in sizes:
        _subscribe(world, weather, done, size)
        done = size
        sent = world.simulation.sent["Interest"] - before
        tables = [node.slots["routing"].table_size() for _, node in world.nodes()]
        trivial = others * size * len(ORGANISATIONS)
        found.append(
            {
                "mapping": mapping, "reduce": reduce, "exponent": exponent, "kind": kind,
                "subscriptions": size, "sent": sent,
                "traffic": 1 - sent / trivial, "tables": tables, "table": 1 - fmean(tables) / (others * size),
            }
        )  # fmt: skip
    return found


def notification(users: int, events: int, mapping: str, seed: int) -> dict[str, Any]:
    """Cost of publishing between organisations, and deliveries to subscribers of others (Figure 5.10)."""
    weather = Weather(seed)
    world = _world(weather, mapping, "covering", seed)
    _subscribe(world, weather, 0, users)
    heard_before = _heard(world)
    before = world.simulation.sent["Notify"]
    at_home = bound = 0.0
    for number in range(events):
        name = ORGANISATIONS[number % len(ORGANISATIONS)]
        topic, attributes = weather.event(weather.holds[name] if mapping == WITH else KINDS)
        heard = _heard(world)
        world.publish(f"users of {name}", attributes, topic=topic)
        world.run(world.simulation.now + 2.0)
        new = _heard(world) - heard
        at_home += new[name]
        bound += sum(1 for other in new if other != name)
    delivered = (_heard(world) - heard_before).total() - at_home
    sent = world.simulation.sent["Notify"] - before
    return {
        "users": users,
        "events": events,
        "mapping": mapping,
        "sent": sent,
        "delivered": delivered,
        "bound": bound,
    }


def _heard(world: World) -> Counter[str]:
    return Counter({name: len(world.applications[f"users of {name}"].heard) for name in ORGANISATIONS})


def run(setting: StudySetting) -> StudyOutcome:
    sizes = QUICK_SIZES if setting.quick else SIZES
    slow = sizes[: 2 if setting.quick else 5]  # a union is looked for again and again
    usual = (EXPONENT, USUAL, setting.seed)
    points: list[tuple[Any, ...]] = [(mapping, "covering", sizes, *usual) for mapping in (WITH, WITHOUT)]
    points += [(mapping, reduce, slow, *usual) for reduce in REDUCTIONS[1:] for mapping in (WITH, WITHOUT)]
    points += [(WITHOUT, "covering", slow, exponent, USUAL, setting.seed) for exponent in (0.5, 1.5)]
    points += [(mapping, "covering", slow, EXPONENT, ANY_RANK, setting.seed) for mapping in (WITH, WITHOUT)]
    points += [(WITHOUT, reduce, slow, EXPONENT, INTERVALS, setting.seed) for reduce in REDUCTIONS]
    found = [row for rows in setting.measure(reduction, points) for row in rows]
    events = 40 if setting.quick else 400
    users = (20, 50) if setting.quick else (20, 50, 100, 200)
    counts = [(each, events, WITHOUT, setting.seed) for each in users]
    steps = (10, 20) if setting.quick else (100, 200, 400, 700, 1000)
    counts += [
        (users[-1] if setting.quick else 100, step, mapping, setting.seed)
        for mapping in (WITH, WITHOUT)
        for step in steps
    ]
    told = setting.measure(notification, counts)
    by_users, by_events = told[: len(users)], told[len(users) :]
    return StudyOutcome(
        claims=_claims(found, by_users, by_events),
        pictures=[*_reduction_pictures(found), _table_picture(found), _notification_picture(by_events)],
        tables=[_reduction_table(found), _notification_table(told)],
    )


def _usual(found: list[dict[str, Any]], mapping: str, reduce: str) -> list[dict[str, Any]]:
    """The rows of one curve, with the usual exponent and ranks."""
    wanted = (mapping, reduce, EXPONENT, USUAL)
    return [row for row in found if (row["mapping"], row["reduce"], row["exponent"], row["kind"]) == wanted]


def _curve(
    found: list[dict[str, Any]], mapping: str, reduce: str, what: str
) -> tuple[list[float], list[float]]:
    rows = _usual(found, mapping, reduce)
    return [float(row["subscriptions"]) for row in rows], [row[what] for row in rows]


def _claims(
    found: list[dict[str, Any]], by_users: list[dict[str, Any]], by_events: list[dict[str, Any]]
) -> list[PaperClaim]:
    claims = [_falls(found, mapping, what) for mapping in (WITHOUT, WITH) for what in ("traffic", "table")]
    claims.append(_differ(found))
    exact = all(row["sent"] == row["bound"] for row in (*by_users, *by_events))
    claims.append(
        judged(
            "VIR5-10", "an event goes once to each organisation with a matching user (Figure 5.10)",
            paper="once",
            ours="once" if exact else "not always",
            rule="messages = organisations with a match, for all events",
            held=exact,
        )
    )  # fmt: skip
    ratios = [row["sent"] / row["delivered"] for row in by_users]
    claims.append(
        judged(
            "VIR5-10", "messages per delivered notification fall as users grow", paper="far fewer",
            ours=", ".join(f"{ratio:.3f}" for ratio in ratios), rule="strictly, and below 0.5 at the end",
            held=all(a > b for a, b in pairwise(ratios)) and ratios[-1] < 0.5,
        )
    )  # fmt: skip
    return [*claims, *_beyond(found)]


def _differ(found: list[dict[str, Any]]) -> PaperClaim:
    """Figure 5.9, judged where the tables are the largest: later one wide subscription covers them all."""
    largest = max(_usual(found, WITH, "covering"), key=lambda row: fmean(row["tables"]))
    size = largest["subscriptions"]
    same = next(row for row in _usual(found, WITHOUT, "covering") if row["subscriptions"] == size)
    spread, plain = (max(row["tables"]) / min(row["tables"]) for row in (largest, same))
    return judged(
        "VIR5-10", "under the mapping the tables of organisations differ (Figure 5.9)", paper="they differ",
        ours=f"{min(largest['tables'])} to {max(largest['tables'])} at {size} subscriptions each "
        f"(without mapping {min(same['tables'])} to {max(same['tables'])})",
        rule="largest over smallest is larger than without the mapping", held=spread > plain,
    )  # fmt: skip


def _last(found: list[dict[str, Any]], mapping: str, reduce: str = "covering") -> dict[str, Any]:
    return _usual(found, mapping, reduce)[-1]


def _falls(found: list[dict[str, Any]], mapping: str, what: str) -> PaperClaim:
    sizes, values = _curve(found, mapping, "covering", what)
    grows = all(a < b for a, b in pairwise(values))
    named = "subscription traffic" if what == "traffic" else "size of the tables"
    return judged(
        "VIR5-10", f"{named} falls by up to three quarters, {mapping} (Figure 5.8)", paper="75 %",
        ours=f"{100 * values[-1]:.1f} % at {sizes[-1]:g} subscriptions each, from {100 * values[0]:.1f} %",
        rule="grows with the number of subscriptions, and 70 % or more at the right end",
        held=grows and values[-1] >= 0.7,
    )  # fmt: skip


def _beyond(found: list[dict[str, Any]]) -> list[PaperClaim]:
    claims = []
    for mapping in (WITHOUT, WITH):
        size = _last(found, mapping, "union")["subscriptions"]
        at = {
            reduce: row
            for reduce in REDUCTIONS
            for row in _usual(found, mapping, reduce)
            if row["subscriptions"] == size
        }
        plain = at["covering"]
        claims.append(
            judged(
                "VIR5-10", f"beyond: unions cover more than single subscriptions do, {mapping}", paper=None,
                ours=", ".join(
                    f"{name}: tables {100 * row['table']:.1f} %, traffic {100 * row['traffic']:.1f} %"
                    for name, row in at.items()
                ),
                rule=f"at {size} subscriptions each, union's tables are no larger than covering's",
                held=at["union"]["table"] >= plain["table"],
            )
        )  # fmt: skip
    return claims


def _reduction_pictures(found: list[dict[str, Any]]) -> list[Picture]:
    pictures = []
    for what, title in (
        ("traffic", "Subscription traffic saved"),
        ("table", "Size of external merge tables saved"),
    ):
        curves = [
            Curve(f"{reduce}, {mapping}", sizes, [100 * value for value in values], dashed=mapping == WITH)
            for reduce in REDUCTIONS
            for mapping in (WITHOUT, WITH)
            for sizes, values in [_curve(found, mapping, reduce, what)]
        ]
        pictures.append(
            Picture(
                name=f"merge-subscriptions-{what}", title=title, x_label="subscriptions of each organisation",
                y_label="percent of the trivial way", curves=curves, x_log=True,
            )
        )  # fmt: skip
    return pictures


def _table_picture(found: list[dict[str, Any]]) -> Picture:
    rows = _usual(found, WITH, "covering")
    sizes = [float(row["subscriptions"]) for row in rows]
    curves = [
        Curve(name, sizes, [float(row["tables"][place]) for row in rows])
        for place, name in enumerate(ORGANISATIONS)
    ]
    return Picture(
        name="merge-subscriptions-tables", title="External merge table of each organisation, with mapping",
        x_label="subscriptions of each organisation", y_label="subscriptions held for others", curves=curves,
        x_log=True,
    )  # fmt: skip


def _notification_picture(told: list[dict[str, Any]]) -> Picture:
    curves = []
    for mapping in (WITHOUT, WITH):
        rows = [row for row in told if row["mapping"] == mapping]
        events = [float(row["events"]) for row in rows]
        curves.append(
            Curve(f"delivered, {mapping}", events, [float(r["delivered"]) for r in rows], dashed=True)
        )
        curves.append(
            Curve(f"sent between organisations, {mapping}", events, [float(r["sent"]) for r in rows])
        )
    return Picture(
        name="merge-subscriptions-notifications", title="Notifications delivered, and messages sent for them",
        x_label="events", y_label="number", curves=curves,
    )  # fmt: skip


def _reduction_table(found: list[dict[str, Any]]) -> StudyTable:
    rows = [
        (
            r["reduce"], r["mapping"], r["kind"], r["exponent"], r["subscriptions"], r["sent"],
            round(100 * r["traffic"], 1),
            round(fmean(r["tables"]), 1), round(100 * r["table"], 1),
        )
        for r in found
    ]  # fmt: skip
    columns = (
        "reduction", "mapping", "subscriptions", "exponent", "subscriptions each", "messages",
        "traffic saved %", "mean table",
        "table saved %",
    )  # fmt: skip
    return StudyTable("subscriptions between organisations", columns, rows)


def _notification_table(told: list[dict[str, Any]]) -> StudyTable:
    rows = [
        (
            r["mapping"],
            r["users"],
            r["events"],
            r["sent"],
            int(r["delivered"]),
            round(r["sent"] / r["delivered"], 4),
        )
        for r in told
    ]
    return StudyTable(
        "notifications between organisations",
        ("mapping", "users each", "events", "sent", "delivered elsewhere", "sent per delivered"), rows,
    )  # fmt: skip


STUDY = Study(
    name="merge-subscriptions",
    title="What merge subscriptions save between organisations",
    answers="Virgillito 2003, Figures 5.8, 5.9 and 5.10",
    run=run,
)
