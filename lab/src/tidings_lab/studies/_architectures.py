"""The points of study `architectures`: each runs one composition once and returns its result, as plain
values."""

from __future__ import annotations

from random import Random
from typing import Any

from tidings.language import parse_filter
from tidings.simulation.topology import local_networks, random_tree
from tidings.simulation.workloads import (
    AdvertiseStep,
    Markets,
    Plan,
    PublishStep,
    Rectangles,
    SubscribeStep,
    mixed,
)
from tidings.simulation.world import World
from tidings.systems import find_system
from tidings_lab.routing.subjects import covers_subject, subjects_of
from tidings_lab.simulation.comparing import Comparison, measure

SETTLE = 5.0


def measured(
    system: str, brokers: int, subscriptions: int, seed: int, *overlay: str, **others: Any
) -> dict[str, Any]:
    """One line of a comparison."""
    comparison = Comparison(
        workload=others.get("workload", "markets"), seed=seed, brokers=brokers,
        overlay=overlay[0] if overlay else "tree", fan_out=3,
        plan=Plan(subscriptions=subscriptions, events=150, rate=50.0), probes=others.get("probes", 0),
    )  # fmt: skip
    found = measure(find_system(system), comparison)
    assert found.refused is None, found.refused
    names = (
        "event_messages", "control_messages", "hops", "imbalance", "busiest", "entries", "delivered",
        "verdict",
        "t_sub", "t_diff", "d", "latency_p50",
    )  # fmt: skip
    return {name: getattr(found, name) for name in names}


def hierarchy_load(system: str, brokers: int, seed: int) -> dict[str, Any]:
    """On a hierarchy of three below each: how uneven the load is, and who has most of it."""
    return measured(system, brokers, 60, seed, "hierarchy", workload="rectangles")


def traffic(system: str, subscriptions: int, seed: int) -> dict[str, Any]:
    return measured(system, 20, subscriptions, seed)


def delays(system: str, brokers: int, seed: int) -> dict[str, Any]:
    return measured(system, brokers, 40, seed, probes=4)


def hermes_copies(brokers: int, subscriptions: int, seed: int) -> dict[str, Any]:
    """Number of copies of subscriptions at the brokers of types, and at SIENA's brokers."""
    rng = Random(f"{seed}/copies")
    network = random_tree(brokers, rng, 4)
    plan = Plan(subscriptions=subscriptions, events=1, rate=1.0, settle=SETTLE)
    workload = mixed(Markets(), network.brokers, rng, plan)
    placed = {
        (workload.clients[step.client], parse_filter(step.filter).digest)
        for step in workload.steps
        if isinstance(step, SubscribeStep)
    }
    entries = {}
    for name in ("hermes", "siena"):
        links = () if name == "hermes" else network.links
        world = World(name, type(network)(network.brokers, links), seed=seed, record=False)
        world.load(workload)
        world.run(workload.over_at + 10.0)
        routing = [node.slots["routing"] for _, node in world.nodes()]
        entries[name] = sum(r.enrolment.table_size() if name == "hermes" else r.table_size() for r in routing)
    return {"subscriptions": len(placed), "hermes": entries["hermes"], "siena": entries["siena"]}


def subject_trees(brokers: int, subscriptions: int, seed: int) -> dict[str, Any]:
    """TIB/RV: messages between routers, beside the edges of each event's tree; what LANs without subscribers
    hear."""
    rng = Random(f"{seed}/subjects")
    network = random_tree(brokers, rng, 4)
    lans = local_networks(network)
    workload = mixed(
        Markets(wild=0.2), network.brokers, rng, Plan(subscriptions=subscriptions, events=120, rate=50.0)
    )
    world = World(
        "tib-rv", type(network)(network.brokers, ()), seed=seed, options={"lans": lans}, record=False
    )
    subjects = {
        (lans[workload.clients[step.client]], subject)
        for step in workload.steps
        if isinstance(step, SubscribeStep)
        for subject in subjects_of(parse_filter(step.filter))
    }
    edges = 0
    for step in workload.steps:
        if isinstance(step, PublishStep):
            wanted = {lan for lan, subject in subjects if covers_subject(subject, step.topic)}
            edges += len(wanted - {lans[workload.clients[step.client]]})
    crossed = _count_crossings(world, lans, {lan for lan, _ in subjects})
    world.load(workload)
    world.run(workload.over_at + 10.0)
    sent = world.simulation.sent
    return {"edges": edges, "between_routers": sent["ToRouters"], "to_the_indifferent": crossed[0]}


def _count_crossings(world: World, lans: dict[str, str], wanting: set[str]) -> list[int]:
    """Events from outside that a network without subscribers hears."""
    from tidings.protocol.inputs import Received
    from tidings_lab.routing.subjects import ToRouters

    crossed = [0]

    def note(name: str, item: Any, _now: float) -> None:
        if type(item) is Received and type(item.message) is ToRouters and lans[name] not in wanting:
            crossed[0] += 1

    world.simulation.on_handled = note
    return crossed


def group_waste(groups: int, seed: int, events: int = 300) -> dict[str, Any]:
    """Content over so many multicast groups, with subscriptions that come and go: the useless deliveries."""
    rng = Random(f"{seed}/groups")
    network = random_tree(20, rng, 4)
    plan = Plan(subscriptions=60, events=events, rate=20.0, churn=0.5)
    workload = mixed(Rectangles(widest=0.3), network.brokers, rng, plan)
    world = World("multicast-groups", network, seed=seed, options={"groups": groups}, record=False)
    world.load(workload)
    world.run(workload.over_at + 10.0)
    routing = [node.slots["routing"] for _, node in world.nodes()]
    received, useless = sum(r.received for r in routing), sum(r.useless for r in routing)
    delivered = sum(len(application.received) for application in world.applications.values())
    return {
        "heard": received, "useless": useless, "delivered": delivered,
        "messages": world.simulation.sent["ToGroups"] / plan.events,
    }  # fmt: skip


def quenched(wanted_markets: int, seed: int) -> dict[str, Any]:
    """Publishers advertise their market, of six; only some markets have subscribers."""
    rng = Random(f"{seed}/quenching")
    network = random_tree(12, rng, 4)
    content = Markets()
    world = World("elvin", network, seed=seed, record=False)
    for number in range(len(content.markets)):
        world.add_client(f"p{number}", rng.choice(network.brokers))
        world.add_client(f"s{number}", rng.choice(network.brokers))
    world.run(1.0)
    for number, market in enumerate(content.markets):
        advertise = AdvertiseStep(at=1.0, client=f"p{number}", name="all", filter=f"market = '{market}'")
        world.do(advertise)
        if number < wanted_markets:
            world.subscribe(f"s{number}", "n", f"market = '{market}' AND change > 0")
    world.run(3.0)
    for _ in range(20):
        for number, market in enumerate(content.markets):
            event = {**content.event(rng), "market": market}
            world.publish(f"p{number}", event, **content.address(event))
    world.run(6.0)
    receipts = [receipt for application in world.applications.values() for receipt in application.receipts]
    received = sum(len(application.received) for application in world.applications.values())
    return {
        "published": len(receipts), "held_back": sum(receipt.unwanted for receipt in receipts),
        "spread": world.simulation.sent["Hold"], "delivered": received,
    }  # fmt: skip
