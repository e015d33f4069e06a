"""Study `distributors`: what it costs to leave no gap, and what a flush costs (Mathur et al. 1995, 4.2).

Gaps: five distributors, subscribers at each, one publisher that does not stop; the distributor of some
subscribers crashes. Every subscriber wants everything, so an event that one misses between the first and the
last that it hears is a gap. State: what a distributor remembers of subscribers, its own and others', as they
become more. Views: from the suspicion of a distributor that died with an event at one other, to the last
survivor's new view, with a flush (virtual synchrony) and without (weak).

How much this shows. The report prints no figures. The length of a gap is the time that a subscriber takes to
find another distributor, which is a setting (`suspect_seconds`); that there is one at all, and none in the
other modes, is a result. The report claims which curve is steeper; the slopes are ours.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import mesh
from tidings.simulation.world import World
from tidings_lab.studies._claims import ABOVE_ZERO, PaperClaim, estimate, everywhere, exact
from tidings_lab.studies.study import Curve, Picture, Study, StudyOutcome, StudySetting, StudyTable

MODES = ("gap", "no-gap", "log")
WARM = 4.0  # seconds until the group stands
PATIENT = {
    "beat_seconds": 600.0,
    "suspect_seconds": 1800.0,
}  # no primary fails: subscribers need not ask


def world_of(mode: str, distributors: int, seed: int, **options: Any) -> World:
    system = "tidings-group" if mode == "log" else "uarc"
    given = dict(options) if mode == "log" else {"mode": mode, **options}
    world = World(system, mesh(distributors), seed=seed, record=False, options=given,
                  settings=SimulationSettings())  # fmt: skip
    world.simulation.plan_rough()
    world.run(WARM)
    return world


def subscribed(world: World, mode: str, count: int) -> list[str]:
    """So many subscribers, spread over the distributors, who want everything."""
    names = [f"s{number}" for number in range(count)]
    brokers = world.overlay.brokers
    for number, name in enumerate(names):
        world.add_client(name, brokers[number % len(brokers)])
    world.run(world.simulation.now + 1.0)
    for name in names:
        world.subscribe(name, "n", "x > 0", durable=mode == "log")
    world.run(world.simulation.now + 2.0)
    return names


def gaps_of(mode: str, subscribers: int, rate: float, seed: int) -> dict[str, int]:
    """Gaps and repetitions that subscribers saw when the distributor of a fifth of them crashed."""
    world = world_of(mode, 5, seed)
    world.add_client("pub", "b1")
    names = subscribed(world, mode, subscribers)
    start = world.simulation.now
    total = int(rate * 20)
    for number in range(total):
        world.simulation.call_at(start + number / rate, partial(world.publish, "pub", {"x": number + 1}))
    world.simulation.call_at(start + 5.0, lambda: _crash(world, "b0"))
    world.run(start + 60.0)
    missed = again = 0
    for name in names:
        received = [int(id.rpartition("-")[2]) for _, id in world.received(name)]
        missed += len(set(range(min(received), max(received) + 1)) - set(received)) if received else total
        again += len(received) - len(set(received))
    return {"missed": missed, "twice": again}


def _crash(world: World, name: str) -> None:
    world.simulation.crash(name)
    world.simulation.notice(name)


def state_of(mode: str, subscribers: int, seed: int) -> dict[str, float]:
    """State that a distributor of ten keeps of subscribers, on average, and how many of others' it knows."""
    world = world_of(mode, 10, seed, roaming=PATIENT)
    world.add_client("pub", "b1")
    names = subscribed(world, mode, subscribers)
    for number in range(5):
        world.publish("pub", {"x": number + 1})
        world.run(world.simulation.now + 0.2)
    world.run(world.simulation.now + 5.0)
    own = known = 0
    for _, node in world.nodes():
        local = len(node.slots["delivery"].subscriptions())
        everybody = getattr(node.slots["recovery"], "owed", {})
        own += local
        known += sum(owed.at != node.name for owed in everybody.values())
    received = sum(len(world.received(name)) for name in names)
    return {"state": (own + known) / 10, "others": known / 10, "heard": received / (5 * subscribers)}


def view_seconds(synchrony: str, unstable: int, seed: int) -> float:
    """From the first suspicion of the dead distributor to the last survivor's new view."""
    world = World("uarc", mesh(4), seed=seed, options={"synchrony": synchrony})
    world.simulation.plan_rough()
    world.run(WARM)
    world.add_client("pub", "b0")
    world.run(WARM + 1.0)
    for other in ("b2", "b3"):
        world.simulation.links[("b0", other)].cut[("b0", other)] += 1
    for number in range(unstable):
        world.publish("pub", {"x": number})
    world.run(WARM + 1.1)
    _crash(world, "b0")
    world.run(WARM + 20.0)
    lost = min(row.time for row in world.rows if row.op == "suspect" and row.from_ == "b0")
    return max(row.time for row in world.rows if row.op == "view" and row.view == 2) - lost


def run(setting: StudySetting) -> StudyOutcome:
    seed = setting.seed
    sizes = (50, 100, 200) if setting.quick else (100, 300, 1000)
    many = 1_000 if setting.quick else 10_000
    seeds = list(setting.seed_range(2, 20))
    gaps = setting.over_seeds(gaps_of, [(mode, 20, 20.0) for mode in MODES], seeds)
    states = setting.measure(state_of, [(mode, size, seed) for mode in MODES for size in sizes])
    [largest] = setting.measure(state_of, [("gap", many, seed)])
    flushes = (1, 10, 50)
    cases = [(synchrony, count) for synchrony in ("weak", "virtual") for count in flushes]
    views = dict(zip(cases, setting.over_seeds(view_seconds, cases, seeds), strict=True))
    by_mode = dict(zip(MODES, gaps, strict=True))
    curves = {
        mode: states[position * len(sizes) : (position + 1) * len(sizes)]
        for position, mode in enumerate(MODES)
    }
    later = {
        f"{count} events": [v - w for w, v in zip(views["weak", count], views["virtual", count], strict=True)]
        for count in flushes
    }
    return StudyOutcome(
        claims=[*_gap_claims(by_mode), *_state_claims(curves, sizes), _size_claim(largest, many),
        _view_claim(later)],
        pictures=[_picture(curves, sizes)],
        tables=[
            StudyTable("after the crash of a distributor", ("mode", "missed", "delivered twice"),
                  [(mode, estimate(_all(found, "missed")).text(".1f"), sum(_all(found, "twice")))
                   for mode, found in by_mode.items()]),
            StudyTable("subscribers that a distributor of ten knows", ("subscribers", *MODES),
                  [(size, *(curves[mode][at]["state"] for mode in MODES)) for at, size in enumerate(sizes)]),
            StudyTable("seconds to the next view", ("events at one survivor", "weak", "virtual"),
                  [(count, *(estimate(views[kind, count]).text(".4f") for kind in ("weak", "virtual")))
                   for count in flushes]),
        ],
    )  # fmt: skip


def _all(found: list[dict[str, int]], key: str) -> list[float]:
    return [float(each[key]) for each in found]


PLACE = "Mathur et al. 1995"
LOCAL = (
    "a distributor knows only about its local set of subscribers and has no knowledge of the other "
    "subscribers in the system"
)
BUILT = "the system was built to keep this and no more"


def _gap_claims(found: dict[str, list[dict[str, int]]]) -> list[PaperClaim]:
    twice = sum(sum(_all(each, "twice")) for each in found.values())
    missed = {mode: _all(found[mode], "missed") for mode in MODES}
    count = len(missed["gap"])
    return [
        exact("UAR-10", "gap mode: events missed after the crash of a distributor",
              where=f"{PLACE}, 4.2.2",
              paper="If the distributor fails during any of these multicasts, the subscribers may not "
              "receive the message, leading to a possible gap in the sequence of messages received",
              ours=", ".join(f"{n:.0f}" for n in sorted(set(missed["gap"]))), rule="some in any run",
              seeds=count, held=any(missed["gap"]),
              built="the crash falls while events are published, and gap mode repeats none",
              why="Possible: there are some. Crash and publications have fixed times, so that every run "
              "misses the same events and no interval says anything."),
        exact("UAR-10", "no-gap mode: events missed, with buffers until every subscriber has them",
              where=f"{PLACE}, 4.2.2", paper="guarantees that there will be no gaps in the sequence of "
              "messages received at a subscriber even if its primary distributor fails",
              ours=sum(missed["no-gap"]), rule="none in any run",
              seeds=count,
              why="It is promised of every run.", held=not any(missed["no-gap"])),
        exact("UAR-10", "the group's log: events missed", where="our system", paper=None, reference="none",
              ours=sum(missed["log"]), rule="none in any run", why="It promises everything.", seeds=count,
              held=not any(missed["log"])),
        exact("UAR-6", "events delivered twice, in any mode", where="our system", paper=None,
              reference="none", ours=twice,
              rule="none in any run", why="A subscriber that changes distributors receives each event once.",
              seeds=count,
              held=twice == 0),
    ]  # fmt: skip


def _state_claims(curves: dict[str, list[dict[str, float]]], sizes: tuple[int, ...]) -> list[PaperClaim]:
    small, large = sizes[0], sizes[-1]
    local = {mode: curves[mode][-1]["state"] for mode in ("gap", "log")}
    grows = (curves["no-gap"][-1]["state"] - curves["no-gap"][0]["state"]) / (large - small)
    others = max(curves[mode][-1]["others"] for mode in ("gap", "log"))
    return [
        exact("UAR-10", "gap mode: subscribers that a distributor of ten knows", where=f"{PLACE}, 4.1.1",
              reference=large / 10,
              paper=LOCAL, ours=max(local.values()),
              rule="a tenth of all",
              why="Subscribers are spread evenly over ten; a count.", built=BUILT,
              held=all(v == large / 10 for v in local.values())),
        exact("UAR-10", "no-gap mode: more known subscribers for each one in the system",
              where=f"{PLACE}, 4.2.2",
              paper="a distributor needs to maintain global membership information about subscribers at "
              "other distributors in the system", ours=grows, built=BUILT,
              reference=1.0,
              rule="0.99 to 1.01",
              why="Global: one more for each; a count.", held=0.99 <= grows <= 1.01),
        exact("UAR-1", "subscribers known outside their distributor, gap mode and log",
              where=f"{PLACE}, 4.1.1",
              paper=LOCAL, ours=others, rule="none", built=BUILT,
              why="Only: none elsewhere.", held=others == 0),
    ]  # fmt: skip


def _size_claim(largest: dict[str, float], many: int) -> PaperClaim:
    return exact(
        "UAR-10", f"{many:,} subscribers over 10 distributors: events received, subscribers known",
        where=f"{PLACE}, 2",
        paper="This allows the system to scale nicely as subscribers can join and leave without affecting "
        "the entire system", built=BUILT,
        ours=f"{largest['heard']:.3f} of the events, {largest['state']:.0f} known",
        reference="all, a tenth",
        rule="all of them, and a tenth", held=largest["heard"] == 1.0 and largest["state"] == many / 10,
        why="No number is printed. Its reason is that a distributor knows its local subscribers alone.",
    )  # fmt: skip


def _view_claim(later: dict[str, list[float]]) -> PaperClaim:
    return everywhere(
        "UAR-9", "seconds by which a flush delays the next view", where=f"{PLACE}, 4.2.1, Figure 6",
        paper="messages do not need to be flushed from the previous view before any new messages can be "
        "delivered in the new view", levels=later, within=(ABOVE_ZERO, float("inf")),
        form=".4f", built="a flush is a further round of messages of one length here, so that seeds do not "
        "differ", why="Without a flush the view stands sooner in every case.",
    )  # fmt: skip


def _picture(curves: dict[str, list[dict[str, float]]], sizes: tuple[int, ...]) -> Picture:
    names = {"gap": "with gaps", "no-gap": "without: buffers", "log": "without: the group's log"}
    return Picture(
        name="distributors",
        title="Subscribers that one distributor of ten has to know",
        x_label="subscribers in the system",
        y_label="known to a distributor",
        curves=[
            Curve(
                names[mode],
                list(map(float, sizes)),
                [found["state"] for found in curves[mode]],
                dashed=mode == "log",
            )
            for mode in MODES
        ],
        x_log=True,
        y_log=True,
    )


STUDY = Study(
    name="distributors",
    title="Gaps, state and synchrony in a group of distributors",
    answers="Mathur et al. 1995, section 4.2 and Figure 6",
    run=run,
)
