"""The capacity model of docs/scaling.md: predictions from measured costs, and checks of them.

    python scripts/capacity.py                                  # the table for 10^3 to 10^9 subscriptions
    python scripts/capacity.py --check here                     # costs at three sizes on this machine
    python scripts/capacity.py --check simulation --brokers 100,1000
    python scripts/capacity.py --check simulation --brokers 10000 --system routing

Rules
- A check calibrates on the smaller sizes and predicts the largest; it prints both, and never adjusts.
- CPU is the loop's own time, memory the resident set: other work on the machine changes them little.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import time
from random import Random
from typing import Any

import msgspec


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """Measured costs; docs/scaling.md names the source of each."""

    subscription_bytes: float = 3_700  # at its broker, over TCP
    interest_bytes: float = 900  # of a filter that no other covers, at each further broker that knows it
    cursor_bytes: float = 350  # of one subscription over one log
    publish_us: float = 15.0  # CPU of the broker for an event without matches, in batches
    delivery_us: float = 47.0  # CPU of the broker for a delivery to a connection of its own
    hop_us: float = 22.0  # CPU of one broker for one event that it forwards over one link
    event_bytes: float = 300.0  # on a link and in the log, beside the payload
    core_share: float = 0.7  # of a core that a broker may be busy with


COSTS = Costs()


class Side(msgspec.Struct, frozen=True):
    """One side of a link of a tree, seen from the other: share of the brokers, and longest path there."""

    share: float
    height: int


def sides_of(overlay: Any) -> list[tuple[Side, Side]]:
    """For each link of a tree: the side below it and the side above it, from the first broker."""
    links, root = overlay.neighbours(), overlay.brokers[0]
    order, parent = [root], {root: ""}
    for broker in order:
        for other in links[broker]:
            if other != parent[broker]:
                parent[other] = broker
                order.append(other)
    size, below = dict.fromkeys(order, 1), dict.fromkeys(order, 0)
    for broker in reversed(order[1:]):
        size[parent[broker]] += size[broker]
        below[parent[broker]] = max(below[parent[broker]], below[broker] + 1)
    above, found = {root: -1}, []
    for broker in order:
        children = [other for other in links[broker] if other != parent[broker]]
        heights = sorted(((below[child] + 1, child) for child in children), reverse=True)
        for child in children:
            others = [height for height, name in heights[:2] if name != child]
            above[child] = max(0, above[broker] + 1, *others)
            share = size[child] / len(order)
            found.append((Side(share, below[child]), Side(1 - share, above[child])))
    return found


def hops_over(shares: list[float], targets: float) -> float:
    """Links that an event crosses, from a random broker to so many random ones: a link with the share `a` on
    one side is crossed when the publisher and some target are apart."""
    return sum(a * (1 - a**targets) + (1 - a) * (1 - (1 - a) ** targets) for a in shares)


def settling_hops(
    sides: list[tuple[Side, Side]], matches: list[int], *, subscriptions: int, publishers: int, rate: float,
    link_seconds: float,
) -> float:  # fmt: skip
    """Links that events cross without being wanted, once, after the first publish of a network.

    A broker advertises everything at its first publish that no client advertised. Until a link has answered,
    events cross it whether they are wanted or not (`protocol/routing/settled.py`). It answers after the
    longest path behind it, there and back, and one more round trip when filters are told over it. The first
    event crosses every link, and so do those of that time. A later publisher only has to settle the path to
    the part of the tree where an earlier one has.
    """
    shares = [below.share for below, _ in sides]
    total = 0.0
    for below, above in sides:
        for far, near in ((below, above), (above, below)):  # the publisher is on the near side
            told = 1 - (1 - far.share) ** subscriptions
            window = link_seconds * 2 * (1 + far.height + told)
            unwanted = sum((1 - far.share) ** count for count in matches) / len(matches)
            total += near.share * (1 + rate * window) * unwanted
    for number in range(2, publishers + 1):
        path = hops_over(shares, number - 1) - hops_over(shares, number - 2)
        total += path * (1 + rate / publishers * link_seconds * (path + 2))
    return total


def predict(
    subscriptions: float, brokers: int, rate: float, matches: float, distinct: float
) -> dict[str, float]:
    """Needs of one broker of so many: `rate` events a second in all, `matches` deliveries of each, and
    `distinct` filters that no other covers as a share of all."""
    own = subscriptions / brokers
    targets = min(matches, brokers)
    hops = 0.0 if brokers == 1 else hops_over(balanced_shares(brokers), targets)
    memory = own * (COSTS.subscription_bytes + brokers * COSTS.cursor_bytes)
    memory += (subscriptions - own) * distinct * COSTS.interest_bytes
    cpu = rate / brokers * COSTS.publish_us + rate * matches / brokers * COSTS.delivery_us
    cpu += rate * hops / brokers * COSTS.hop_us * 2  # one end sends, one receives
    return {
        "subscriptions": subscriptions,
        "brokers": brokers,
        "memory_gb": round(memory / 1e9, 2),
        "cores": round(cpu / 1e6 / COSTS.core_share, 2),
        "hops": round(hops, 1),
        "link_mbit": round(rate * hops / max(1, brokers - 1) * (COSTS.event_bytes + 200) * 8 / 1e6, 3),
    }


def balanced_shares(brokers: int, children: int = 9) -> list[float]:
    """The same for a balanced tree, whose links are known without a simulation."""
    size = [1] * brokers
    for number in range(brokers - 1, 0, -1):
        size[(number - 1) // children] += size[number]
    return [behind / brokers for behind in size[1:]]


# -- checks ----------------------------------------------------------------------------------------------


async def cost_of(subscriptions: int) -> dict[str, float]:
    """Memory and CPU of one embedded broker with so many subscriptions of prices by symbol."""
    import tidings

    rng, base = Random(7), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with tidings.connect() as bus:
        for number in range(subscriptions):
            filter = f"symbol = 'S{rng.randrange(subscriptions)}' AND price < {rng.randrange(1, 100)}"
            await bus.subscribe(filter, name=f"n{number}").open()
        memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) * 1024
        events = [
            {"symbol": f"S{rng.randrange(subscriptions)}", "price": rng.random() * 100} for _ in range(4000)
        ]
        await bus.publish_many(events[:1000])
        began = time.thread_time()  # kernels compile in a thread of their own
        await bus.publish_many(events[1000:])
        return {
            "subscriptions": subscriptions,
            "megabytes": round(memory / 1e6, 1),
            "us_per_event": round((time.thread_time() - began) / 3000 * 1e6, 1),
        }


def check_here(sizes: list[int]) -> None:
    rows = []
    for size in sizes:
        command = [sys.executable, __file__, "--cost", str(size)]
        rows.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        print(json.dumps(rows[-1]), flush=True)
    first, *_, before, last = rows
    steps = (last["subscriptions"] - before["subscriptions"]) / (
        before["subscriptions"] - first["subscriptions"]
    )
    grown = before["megabytes"] + steps * (before["megabytes"] - first["megabytes"])
    predicted = {"megabytes": round(grown, 1), "us_per_event": before["us_per_event"]}  # each matches as many
    print(json.dumps({"predicted": predicted, "measured": {name: last[name] for name in predicted}}))


def routing_alone() -> str:
    """A system with the routing of `tidings` and no logs and cursors, whose memory grows with the square of
    the brokers; its name."""
    from tidings import systems
    from tidings.protocol.routing.covering import CoveringRouting
    from tidings.systems.brokers import broker_slots

    def slots(site: systems.Site) -> dict[str, Any]:
        routing = CoveringRouting(advertisements=True, acknowledged=True, remember_links=True)
        return broker_slots(site, routing)

    name = "tidings-routing"
    systems._BY_NAME[systems._plain(name)] = systems.System(
        name=name, contract="SIENA", model="content", promise="", graph=systems.TREE, strategies=slots
    )
    return name


def predicted_hops(experiment: Any) -> dict[str, float]:
    """Links that an event crosses, from the tree and the matches of each event alone."""
    from tidings.language import parse_filter
    from tidings.language.evaluate import accepts
    from tidings.model.event import make_event
    from tidings.simulation.simulator import SimulationSettings
    from tidings.simulation.workloads import PublishStep, SubscribeStep, content_named, mixed

    overlay, plan = experiment.build_overlay(), experiment.plan
    content = content_named(experiment.workload)
    steps = mixed(content, overlay.brokers, Random(f"{experiment.seed}/workload"), plan).steps
    filters = [parse_filter(step.filter) for step in steps if isinstance(step, SubscribeStep)]
    events = [
        make_event(step.attributes, source="p", id="1") for step in steps if isinstance(step, PublishStep)
    ]
    matches = [sum(accepts(filter, event) for filter in filters) for event in events]
    sides = sides_of(overlay)
    shares = [below.share for below, _ in sides]
    settled = sum(hops_over(shares, count) for count in matches) / len(matches)
    once = settling_hops(
        sides, matches, subscriptions=len(filters), publishers=plan.publishers, rate=plan.rate,
        link_seconds=SimulationSettings().link_seconds,
    )  # fmt: skip
    return {"settled": settled, "once": once, "all": settled + once / len(events)}


def simulated_hops(experiment: Any) -> dict[str, Any]:
    """The same, counted: all forwards, and those within the smallest subtree that joins the publisher and
    the subscribers of an event, which is where a settled network forwards it."""
    from tidings.simulation.experiment import _schedule, build_world
    from tidings.simulation.topology import minimal_subtree
    from tidings.simulation.workloads import content_named, mixed

    world = build_world(experiment)
    until, _ = _schedule(world, experiment)
    world.run(until)
    content, brokers = content_named(experiment.workload), world.overlay.brokers
    home = mixed(content, brokers, Random(f"{experiment.seed}/workload"), experiment.plan).clients
    ends: dict[Any, set[str]] = {}
    for row in world.rows:
        if row.op in ("pub", "ntfy"):
            ends.setdefault((row.source, row.event), set()).add(home[row.process])
    needed = sum(len(minimal_subtree(world.overlay, each)) for each in ends.values())
    return {"all": world.simulation.hops / len(ends), "settled": needed / len(ends),
            "once": world.simulation.hops - needed, "sent": dict(world.simulation.sent)}  # fmt: skip


def check_simulation(sizes: list[int], subscriptions: int, events: int, seed: int, system: str) -> None:
    from tidings.simulation.experiment import Experiment
    from tidings.simulation.workloads import Plan

    if system == "routing":
        system = routing_alone()
    for brokers in sizes:
        plan = Plan(subscriptions=subscriptions, events=events, rate=100.0, leave=True)
        experiment = Experiment(system=system, seed=seed, brokers=brokers, plan=plan)
        row: dict[str, Any] = {"system": system, "brokers": brokers, "seed": seed}
        row["predicted"] = {name: round(value, 1) for name, value in predicted_hops(experiment).items()}
        print(json.dumps(row), flush=True)
        began = time.monotonic()
        found = simulated_hops(experiment)
        row["sent"] = found.pop("sent")
        row["measured"] = {name: round(value, 1) for name, value in found.items()}
        row["megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        row["seconds"] = round(time.monotonic() - began)
        print(json.dumps(row), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", choices=["here", "simulation"])
    parser.add_argument("--sizes", default="8000,16000,32000")
    parser.add_argument("--brokers", default="100,1000")
    parser.add_argument("--subscriptions", type=int, default=50)
    parser.add_argument("--events", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--system", default="tidings", help="routing: its routing alone, without logs")
    parser.add_argument("--cost", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.cost:
        print(json.dumps(asyncio.run(cost_of(given.cost))))
    elif given.check == "here":
        check_here([int(size) for size in given.sizes.split(",")])
    elif given.check == "simulation":
        sizes = [int(size) for size in given.brokers.split(",")]
        check_simulation(sizes, given.subscriptions, given.events, given.seed, given.system)
    else:
        for subscriptions in (1e3, 1e5, 1e6, 1e7, 1e8, 1e9):
            for brokers in (1, 10, 100, 1_000, 10_000):
                print(json.dumps(predict(subscriptions, brokers, rate=1e4, matches=3, distinct=0.01)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
