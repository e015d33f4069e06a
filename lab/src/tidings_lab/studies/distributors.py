"""Study `distributors`: what it costs to leave no gap, and what a flush costs (Mathur et al. 1995, 4.2).

Gaps: five distributors, subscribers at each, one publisher that does not stop; the distributor of some
subscribers crashes. Every subscriber wants everything, so an event that one misses between the first and
the last that it hears is a gap. State: what a distributor remembers of subscribers, its own and others', as
they become more. Views: from the suspicion of a distributor that died with an event at one other, to the last
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
        heard = [int(id.rpartition("-")[2]) for _, id in world.heard(name)]
        missed += len(set(range(min(heard), max(heard) + 1)) - set(heard)) if heard else total
        again += len(heard) - len(set(heard))
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
    heard = sum(len(world.heard(name)) for name in names)
    return {"state": (own + known) / 10, "others": known / 10, "heard": heard / (5 * subscribers)}


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
    seeds = (seed,) if setting.quick else tuple(range(seed, seed + 5))
    gaps = setting.measure(gaps_of, [(mode, 20, 20.0, each) for mode in MODES for each in seeds])
    states = setting.measure(state_of, [(mode, size, seed) for mode in MODES for size in sizes])
    [crowd] = setting.measure(state_of, [("gap", many, seed)])
    flushes = (1, 10, 50)
    points = [(synchrony, count, seed) for synchrony in ("weak", "virtual") for count in flushes]
    views = setting.measure(view_seconds, points)
    by_mode = {mode: gaps[place * len(seeds) : (place + 1) * len(seeds)] for place, mode in enumerate(MODES)}
    curves = {mode: states[place * len(sizes) : (place + 1) * len(sizes)] for place, mode in enumerate(MODES)}
    weak, virtual = views[: len(flushes)], views[len(flushes) :]
    return StudyOutcome(
        claims=[
            *_gap_claims(by_mode), *_state_claims(curves, sizes), _crowd_claim(crowd, many),
            _view_claim(weak, virtual),
        ],
        pictures=[_picture(curves, sizes)],
        tables=[
            StudyTable("after the crash of a distributor", ("mode", "missed", "told twice"),
                  [(mode, _sum(found, "missed"), _sum(found, "twice")) for mode, found in by_mode.items()]),
            StudyTable("subscribers that a distributor of ten knows", ("subscribers", *MODES),
                  [(size, *(curves[mode][at]["state"] for mode in MODES)) for at, size in enumerate(sizes)]),
            StudyTable("seconds to the next view", ("events at one survivor", "weak", "virtual", "later by"),
                  [(count, w, v, v - w) for count, w, v in zip(flushes, weak, virtual, strict=True)]),
        ],
    )  # fmt: skip


def _sum(found: list[dict[str, int]], key: str) -> int:
    return sum(each[key] for each in found)


def _gap_claims(found: dict[str, list[dict[str, int]]]) -> list[PaperClaim]:
    twice = sum(_sum(each, "twice") for each in found.values())
    return [
        judged(
            "UAR-10", "with gaps: a crash of the distributor leaves some", paper="possible",
            ours=_sum(found["gap"], "missed"), rule="more than none", held=_sum(found["gap"], "missed") > 0,
        ),
        judged(
            "UAR-10", "without gaps: buffers until every subscriber has it leave none", paper="none",
            ours=_sum(found["no-gap"], "missed"), rule="none", held=_sum(found["no-gap"], "missed") == 0,
        ),
        judged(
            "UAR-10", "the group's log leaves none either", paper=None, expected="none",
            ours=_sum(found["log"], "missed"), rule="none", held=_sum(found["log"], "missed") == 0,
        ),
        judged("UAR-6", "nobody hears anything twice", paper="once", ours=twice, rule="none",
            held=twice == 0),
    ]  # fmt: skip


def _state_claims(curves: dict[str, list[dict[str, float]]], sizes: tuple[int, ...]) -> list[PaperClaim]:
    small, large = sizes[0], sizes[-1]
    local = {mode: curves[mode][-1]["state"] for mode in ("gap", "log")}
    grows = (curves["no-gap"][-1]["state"] - curves["no-gap"][0]["state"]) / (large - small)
    others = max(curves[mode][-1]["others"] for mode in ("gap", "log"))
    return [
        judged(
            "UAR-10", "with gaps, and from a log, a distributor knows its own subscribers alone",
            paper="local subscribers", ours=max(local.values()), expected=large / 10,
            rule="a tenth of all", held=all(state == large / 10 for state in local.values()),
        ),
        judged(
            "UAR-10", "without gaps every distributor knows of every subscriber", paper="global membership",
            ours=grows, expected=1.0, rule="one more for each subscriber in the system",
            held=0.99 <= grows <= 1.01,
        ),
        judged(
            "UAR-1", "no subscriber is known outside its distributor, but without gaps by buffers",
            paper="none", ours=others, rule="none", held=others == 0,
        ),
    ]  # fmt: skip


def _crowd_claim(crowd: dict[str, float], many: int) -> PaperClaim:
    return judged(
        "UAR-10", f"{many:,} subscribers over 10 distributors: each hears everything, each distributor knows "
            "a tenth",
        paper="scales", ours=f"{crowd['heard']:.3f} of the events, {crowd['state']:.0f} known",
        expected="all",
        rule="all of it, and a tenth", held=crowd["heard"] == 1.0 and crowd["state"] == many / 10,
    )  # fmt: skip


def _view_claim(weak: list[float], virtual: list[float]) -> PaperClaim:
    later = ", ".join(f"{v - w:.4f}" for w, v in zip(weak, virtual, strict=True))
    return judged(
        "UAR-9", "the next view stands sooner without a flush", paper="sooner",
        ours=f"{later} s later with one",
        rule="later in every case", held=all(v > w for w, v in zip(weak, virtual, strict=True)),
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
