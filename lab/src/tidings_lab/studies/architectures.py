"""Study `architectures`: what the survey of Virgillito 2003 (chapter 2) says of its systems, asked of the
systems themselves.

The same events and subscriptions go through compositions that differ in one thing, in the simulator. The
thesis gives no figures in this chapter but words (more load, useless traffic, a single copy, sub-linear), so
a claim is judged by an order or an exact count. Workloads, sizes and seeds are ours. CPU times of matching
are of this process and vary with the machine: they are shown, and the nodes that an event visits are judged.
Useless notifications of clusters are judged by the words of 6.1 alone: an error
where unequal subscriptions share a group. That there is none with a group for each is a claim of our own.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import nextafter
from typing import Any

from tidings_lab.studies._architectures import (
    delays,
    group_waste,
    hermes_copies,
    hierarchy_load,
    quenched,
    subject_trees,
    traffic,
)
from tidings_lab.studies._claims import ABOVE_ZERO, ANY_MORE, estimate, everywhere, exact, measured, stated
from tidings_lab.studies._trees import MATCHERS, TREES, link_matching_cost, matching_cost
from tidings_lab.studies.study import Curve, Picture, Study, StudyOutcome, StudySetting, StudyTable, curve_of

Found = dict[str, Any]
FLAT, STEEP = "siena", "siena-hierarchical"
AT_RECIPIENTS, ON_PATH = "hermes", "hermes-path"
DELAYED = "tree, delayed branching"
GROUPS = (1, 2, 4, 8, 16, 32, 64)
SUBSCRIPTIONS = 60  # of the study of groups
BUILT = "the system was built by these words"
MARKETS = 6
THESIS = "Virgillito 2003"
REACTING = (
    "network-of-servers", "siena", "all-brokers", "partitioned", "notification-service", "tib-rv", "scribe",
    "hermes",
    "gryphon",
)  # fmt: skip


class _Answers:
    """Claims, pictures and tables as they come together."""

    def __init__(self, setting: StudySetting) -> None:
        self.setting = setting
        self.seeds = len(setting.seed_range(1, 20))  # of the parts that ask for so many
        self.outcome = StudyOutcome(claims=[])

    def claim(
        self, id: str, words: str, *, paper: str | None, ours: str, rule: str, held: bool, seeds: int,
        where: str = "2.3",
        why: str = "The chapter has words and no numbers: an order or a count that has to hold in every run.",
        reference: str | None = None, built: str = "",
    ) -> None:  # fmt: skip
        position = f"{THESIS}, {where}" if paper is not None else f"beside {where}"
        self.outcome.claims.append(
            exact(id, words, where=position, paper=paper, ours=ours, rule=rule, why=why, held=held,
                seeds=seeds, reference=reference, built=built, source=stated(helpers=1))
        )  # fmt: skip

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self.outcome.tables.append(StudyTable(title, columns, rows))

    def picture(
        self, name: str, title: str, labels: tuple[str, str], curves: Sequence[Curve], **how: bool
    ) -> None:
        x_label, y_label = labels
        self.outcome.pictures.append(
            Picture(name=name, title=title, x_label=x_label, y_label=y_label, curves=curves, **how)
        )


def run(setting: StudySetting) -> StudyOutcome:
    answers = _Answers(setting)
    for part in (
        _hierarchy,
        _filtered_topics,
        _copies,
        _subjects,
        _links,
        _trees,
        _groups,
        _quenching,
    ):
        part(answers)
    _central(answers, _reactions(answers))
    return answers.outcome


def _hierarchy(answers: _Answers) -> None:
    setting = answers.setting
    sizes = (13, 40) if setting.quick else (13, 40, 121)
    seeds = setting.seed_range(2, 20)
    points = [(system, size, seed) for size in sizes for seed in seeds for system in (FLAT, STEEP)]
    found = dict(zip(points, setting.measure(hierarchy_load, points), strict=True))
    pairs = [(found[FLAT, size, seed], found[STEEP, size, seed]) for size in sizes for seed in seeds]
    mean = {
        (system, size): sum(found[system, size, seed]["imbalance"] for seed in seeds) / len(seeds)
        for system in (FLAT, STEEP)
        for size in sizes
    }
    answers.claim(
        "VIR2-3", "a hierarchy loads its busiest broker more than an acyclic peer network",
        paper="[20] shows the more effective load-balance obtained with respect to a hierarchical topology",
        ours=f"busiest over mean {mean[STEEP, sizes[-1]]:.2f}, against "
        f"{mean[FLAT, sizes[-1]]:.2f}",
        rule=f"in each of {len(pairs)} pairs of runs", held=all(s["imbalance"] > f["imbalance"] for f,
            s in pairs),
        seeds=len(seeds), where="2.3.2",
    )  # fmt: skip
    answers.claim(
        "VIR2-3", "the busiest broker of a hierarchy, whose root is b0",
        paper="brokers belonging to upper levels of the hierarchy experience a higher load than ones at "
        "lower levels", seeds=len(seeds), where="2.3.2",
        ours=", ".join(sorted({steep["busiest"] for _, steep in pairs})),
        rule="b0 in every run", held=all(steep["busiest"] == "b0" for _, steep in pairs),
    )  # fmt: skip
    curves = [
        curve_of(
            system,
            [float(n) for n in sizes],
            [estimate([float(found[system, n, seed]["imbalance"]) for seed in seeds]) for n in sizes],
        )
        for system in (FLAT, STEEP)
    ]
    answers.picture(
        "hierarchy-load",
        "A hierarchy loads the top",
        ("brokers", "messages of the busiest broker / mean"),
        curves,
    )


def _filtered_topics(answers: _Answers) -> None:
    setting = answers.setting
    sizes = (20, 60) if setting.quick else (20, 60, 120, 240)
    systems = (AT_RECIPIENTS, ON_PATH)
    seeds = setting.seed_range(2, 20)
    points = [(system, size, seed) for size in sizes for system in systems for seed in seeds]
    runs = dict(zip(points, setting.measure(traffic, points), strict=True))
    pairs = [(runs[AT_RECIPIENTS, size, seed], runs[ON_PATH, size, seed]) for size in sizes for seed in seeds]
    found = {
        (system, size): estimate([float(runs[system, size, seed]["event_messages"]) for seed in seeds])
        for system in systems
        for size in sizes
    }
    wide, narrow = found[AT_RECIPIENTS, sizes[-1]], found[ON_PATH, sizes[-1]]
    answers.claim(
        "VIR2-2", "filtering at the receiver sends useless traffic",
        paper="If the notification matches a topic but does not match the content-based filter, it is not "
        "delivered to the client, generating useless network traffic",
        ours=f"{wide.text('.2f')} messages an event, {narrow.text('.2f')} with filters on the path",
        rule="never fewer, and more somewhere", seeds=len(seeds), where="2.2.2", built=BUILT,
        held=all(w["event_messages"] >= n["event_messages"] for w, n in pairs)
        and any(w["event_messages"] > n["event_messages"] for w, n in pairs),
    )  # fmt: skip
    answers.claim(
        "VIR2-2", "deliveries with filters at the receiver and on the path", paper=None, reference="the same",
        seeds=len(seeds), where="2.2.2",
        ours="same" if all(w["delivered"] == n["delivered"] for w, n in pairs) else "different",
        rule="equal deliveries, exactly what the oracle says",
        held=all(w["delivered"] == n["delivered"] and w["verdict"] == n["verdict"] == "exact" for w,
            n in pairs),
    )  # fmt: skip
    curves = [
        curve_of(words, [float(size) for size in sizes], [found[system, size] for size in sizes])
        for system, words in ((AT_RECIPIENTS, "filters at recipients"), (ON_PATH, "filters on the path"))
    ]
    answers.picture(
        "filtered-topic", "Filtered topics waste traffic", ("subscriptions", "messages an event"), curves
    )


def _copies(answers: _Answers) -> None:
    setting = answers.setting
    points = [(brokers, 60, seed) for brokers in ((10, 20) if setting.quick else (10, 20, 40, 80))
              for seed in setting.seed_range(1, 20)]  # fmt: skip
    found = setting.measure(hermes_copies, points)
    last = found[-1]
    answers.claim(
        "VIR2-7", "Hermes keeps a single copy of each subscription, at its type's broker",
        paper="only a single copy of each subscription is retained in the system, at the corresponding "
        "target broker", built=BUILT,
        ours=f"{last['hermes']} copies of {last['subscriptions']} subscriptions; SIENA holds "
        f"{last['siena']} entries",
        rule="exactly one each, whatever the number of brokers", seeds=answers.seeds, where="2.5.5",
        held=all(each["hermes"] == each["subscriptions"] for each in found),
    )  # fmt: skip
    sizes = sorted({point[0] for point in points})
    of = {
        size: [each for point, each in zip(points, found, strict=True) if point[0] == size] for size in sizes
    }
    curves = [
        curve_of(
            name,
            [float(size) for size in sizes],
            [estimate([each[key] / each["subscriptions"] for each in of[size]]) for size in sizes],
        )
        for name, key in (("Hermes", "hermes"), ("SIENA", "siena"))
    ]
    answers.picture("copies", "Copies of a subscription", ("brokers", "copies of each subscription"), curves)


def _subjects(answers: _Answers) -> None:
    setting = answers.setting
    points = [
        (24, subscriptions, seed) for subscriptions in (3, 12, 48) for seed in setting.seed_range(1, 20)
    ]
    found = setting.measure(subject_trees, points)
    edges, sent = sum(each["edges"] for each in found), sum(each["between_routers"] for each in found)
    answers.claim(
        "VIR2-7", "TIB/RV: between routers an event crosses the edges of its subject's tree",
        paper="Event routing is realized by building multicast trees among router daemons", built=BUILT,
        ours=f"{sent} messages, {edges} edges", rule="equal in every run", seeds=answers.seeds, where="2.5.1",
        held=all(each["edges"] == each["between_routers"] for each in found),
    )  # fmt: skip
    answers.claim(
        "VIR2-7", "TIB/RV: messages to networks without subscribers", where="2.5.1", seeds=answers.seeds,
        paper="A router daemon is added to a tree if there exists at least a subscriber for that subject "
        "in the local network represented by that daemon", rule="none", built=BUILT,
        ours=str(sum(each["to_the_indifferent"] for each in found)),
        held=not any(each["to_the_indifferent"] for each in found),
    )  # fmt: skip


def _links(answers: _Answers) -> None:
    setting = answers.setting
    points = [
        (20, subscriptions, seed)
        for subscriptions in ((200,) if setting.quick else (200, 2000))
        for seed in setting.seed_range(1, 20)
    ]
    found = setting.measure(link_matching_cost, points)
    last = found[-1]
    answers.claim(
        "VIR2-7", "Gryphon: the part of the matching at each hop is never more than full matching there",
        paper="an efficient event routing protocol performing partial matching at each broker", built=BUILT,
        ours=f"{last['partial'] / last['hops']:.1f} nodes a hop, {last['full'] / last['hops']:.1f} in full",
        rule="at none of the hops more nodes; every subscriber is reached", seeds=answers.seeds,
        where="2.5.3",
        held=all(not each["hops_with_more"] and each["reached"] == each["due"] for each in found),
    )  # fmt: skip


def _trees(answers: _Answers) -> None:
    setting = answers.setting
    sizes = (100, 1_000, 10_000) if setting.quick else (100, 1_000, 10_000, 100_000)
    points = [(kind, size, setting.seed) for size in sizes for kind in MATCHERS]
    found = {
        (p[0], p[1]): each for p, each in zip(points, setting.measure(matching_cost, points), strict=True)
    }
    seeds = setting.seed_range(2, 20)
    drawn = dict(
        zip(sizes, setting.over_seeds(matching_cost, [(DELAYED, size) for size in sizes], seeds), strict=True)
    )
    answers.outcome.claims.append(
        everywhere(
            "VIR2-4", "nodes that an event visits in the tree: ten times the subscriptions over once",
            where=f"{THESIS}, 2.5.3", paper="a matching algorithm with sub-linear complexity", form=".2f",
            levels={f"{a:,} to {b:,}": [y["visited"] / x["visited"] for x, y in zip(drawn[a], drawn[b],
                    strict=True)] for a, b in pairwise(sizes)},
            within=(0.0, nextafter(10.0, 0.0)), why="Sub-linear: less than ten times. Nodes are counted; CPU "
            "times of one seed are in the table.")
    )  # fmt: skip
    same = all(len({found[kind, size]["found"] for kind in MATCHERS}) == 1 for size in sizes)
    fewer = all(found[DELAYED, n]["visited"] <= found["tree, plain", n]["visited"] for n in sizes)
    answers.claim(
        "VIR2-4", "matches of counting and of every form of the tree", paper=None, reference="the same",
        where="2.4.2",
        ours="the same" if same else "different", rule="equal numbers of matches", held=same,
        seeds=len(sizes),
    )  # fmt: skip
    answers.claim(
        "VIR2-7", "Gryphon: delayed branching visits no more nodes than the plain tree", paper=None,
        reference="no more",
        ours=f"{found[DELAYED, sizes[-1]]['visited']:.0f} nodes an event, "
        f"{found['tree, plain', sizes[-1]]['visited']:.0f}",
        rule="at every size", held=fewer, seeds=len(sizes), where="2.5.3",
    )  # fmt: skip
    xs = [float(size) for size in sizes]
    answers.picture(
        "tree-matching", "Matching an event", ("subscriptions", "CPU microseconds"),
        [Curve(kind, xs, [found[kind, size]["microseconds"] for size in sizes]) for kind in MATCHERS],
        x_log=True, y_log=True,
    )  # fmt: skip
    answers.picture(
        "tree-nodes", "Nodes that an event visits", ("subscriptions", "nodes"),
        [Curve(kind, xs, [found[kind, size]["visited"] for size in sizes]) for kind in TREES], x_log=True,
        y_log=True,
    )  # fmt: skip
    rows = [(kind, size, each["microseconds"], each["visited"]) for (kind, size), each in found.items()]
    answers.table("matching", ("matcher", "subscriptions", "CPU microseconds", "nodes"), rows)


def _groups(answers: _Answers) -> None:
    setting = answers.setting
    chosen = GROUPS[::2] if setting.quick else GROUPS
    seeds = setting.seed_range(1, 20)
    by_groups = setting.over_seeds(group_waste, [(groups,) for groups in chosen], seeds)
    shares = [[each["useless"] / max(1, each["heard"]) for each in runs] for runs in by_groups]
    found = [runs[0] for runs in by_groups]
    by_count = dict(zip(chosen, shares, strict=True))
    answers.outcome.claims += [
        everywhere(
            "VIR2-2", f"useless notifications when {SUBSCRIPTIONS} subscriptions share so many groups",
            where=f"{THESIS}, 6.1",
            paper="a notification could be routed to subscribers that are not actually interested in it, "
            "introducing some useless hops", form=".2f", within=(ABOVE_ZERO, ANY_MORE),
            levels={f"{count} groups": share for count, share in by_count.items() if count < SUBSCRIPTIONS},
            built="every event of a group goes to all subscriptions that share it",
            why="Some: more than none, wherever unequal subscriptions share a group."),
        measured(
            "VIR2-2", f"useless notifications with {chosen[-1]} groups for {SUBSCRIPTIONS} subscriptions",
            where="beside 6.1", paper=None, reference=0, values=by_count[chosen[-1]], within=(0.0, 0.0),
            form=".3f", why="The error comes of sharing: with a group for each, none is to be expected."),
        everywhere(
            "VIR2-2", "useless notifications: change from a number of groups to the next", where="beside 6.1",
            paper=None, reference="fewer", within=(-1.0, 0.0), form="+.2f",
            levels={f"{a} to {b}": [y - x for x, y in zip(by_count[a], by_count[b], strict=True)]
                    for a, b in pairwise(chosen)}, why="Finer clusters are to waste less."),
    ]  # fmt: skip
    xs = [float(groups) for groups in chosen]
    answers.picture(
        "group-waste", "Content over multicast groups", ("groups", "part of what brokers hear that nobody "
        "there wants"),
        [curve_of("online clusters", xs, [estimate(each) for each in shares])], x_log=True,
    )  # fmt: skip
    rows = [
        (groups, each["heard"], each["useless"], each["messages"])
        for groups, each in zip(chosen, found, strict=True)
    ]
    answers.table("multicast groups", ("groups", "heard", "useless", "messages an event"), rows)


def _quenching(answers: _Answers) -> None:
    setting = answers.setting
    points = [(wanted, seed) for wanted in (0, 3, MARKETS) for seed in setting.seed_range(1, 20)]
    found = setting.measure(quenched, points)
    middle = next(each for point, each in zip(points, found, strict=True) if point[0] == 3)
    expected = [
        each["published"] * (MARKETS - point[0]) // MARKETS for point, each in zip(points, found, strict=True)
    ]
    answers.claim(
        "VIR2-7", "Elvin: publishers hold back what nobody wants, for the price of all subscriptions "
        "everywhere",
        paper="the complete flooding of subscriptions was a characterizing feature (referred to as "
        "“quenching”) of an older version of Elvin [99]. Authors in a successive version ([100]) had removed "
        "the feature, as it proved to be very costly",
        ours=f"{middle['held_back']} of {middle['published']} held back, {middle['spread']} messages for 3 "
        f"subscriptions",
        built=BUILT, rule="exactly those of unwanted markets; N-1 messages a subscription",
        seeds=answers.seeds,
        where="2.4.4",
        held=[each["held_back"] for each in found] == expected
        and all(each["spread"] == 11 * point[0] for point, each in zip(points, found, strict=True)),
    )  # fmt: skip


def _reactions(answers: _Answers) -> dict[str, list[Found]]:
    """Comparing systems by T_sub, T_diff and d (3.1.6)."""
    setting = answers.setting
    seeds = setting.seed_range(1, 20)
    cases = [(system, 12 if setting.quick else 30) for system in REACTING]
    every = dict(zip(REACTING, setting.over_seeds(delays, cases, seeds), strict=True))
    found = {name: runs[0] for name, runs in every.items()}
    rows = [
        (name, each["t_sub"], each["t_diff"], each["d"], each["latency_p50"]) for name, each in found.items()
    ]
    answers.table(
        "how quick they are, seconds", ("system", "T_sub", "T_diff", "d at 1 s", "median latency"), rows
    )
    flood, routed = found["network-of-servers"], found["siena"]
    pairs = list(zip(every["network-of-servers"], every["siena"], strict=True))
    answers.claim(
        "VIR3-2", "systems that are all live differ in T_sub and T_diff, and d tells them apart",
        paper="our Liveness condition can also be used to compare different NS implementations",
        ours=f"flooding: T_sub {flood['t_sub']:g} s, d {flood['d']:.3f}; SIENA: {routed['t_sub']:g} s, "
        f"{routed['d']:.3f}",
        rule="flooding knows subscriptions at once and has the higher d",
        held=all(a["t_sub"] == 0 < b["t_sub"] and a["d"] > b["d"] for a, b in pairs), seeds=len(seeds),
        built="flooding sends no subscription, so that its T_sub is 0",
        where="3.1.6",
    )  # fmt: skip
    return every


def _central(answers: _Answers, found: dict[str, list[Found]]) -> None:
    pairs = list(zip(found["notification-service"], found["partitioned"], strict=True))
    central, direct = pairs[0]
    answers.claim(
        "VIR2-7", "a central notification service carries every notification",
        paper="relies on an external centralized notification routing service that receives notifications "
        "from brokers and dispatch them to proper subscribers",
        ours=f"busiest over mean {central['imbalance']:.2f}, {direct['imbalance']:.2f} when brokers notify "
        f"themselves",
        rule="the service is the busiest, by more, in every run", seeds=len(pairs), where="2.4.4",
        built=BUILT,
        held=all(a["busiest"] == "b0" and a["imbalance"] > b["imbalance"] for a, b in pairs),
    )  # fmt: skip


STUDY = Study(
    name="architectures",
    title="What the surveyed architectures cost",
    answers="Virgillito 2003, chapter 2 (2.2-2.5) and 3.1.6",
    run=run,
)
