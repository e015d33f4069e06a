"""VIR2-7:

Hermes, a rendezvous by the hash of the type and one tree for each type (Virgillito 2003, 2.5.5).
"""

from __future__ import annotations

from collections import Counter
from random import Random

from tidings.simulation.topology import OverlayGraph, broker_names, random_tree
from tidings.testing.trial import Trial
from tidings_lab.overlay.prefix_state import between, id_of
from tidings_lab.simulation.rendezvous import RendezvousNetwork

from ..simulation._trees import Forest


def test_vir2_7_there_is_one_spanning_tree_for_each_type_rooted_at_the_hash_of_its_name() -> None:
    ring = RendezvousNetwork("hermes", 80)
    ring.subscribe(60, groups=6)
    forest = Forest(ring)
    assert forest.names() == [f"type:T{number}" for number in range(6)]
    for key in forest.names():
        assert forest.roots(key) == [forest.responsible(key)]
        assert forest.members(key) == forest.ways(key)


def test_vir2_7_one_copy_of_each_subscription_is_held_at_the_broker_of_its_type_and_none_elsewhere() -> None:
    ring = RendezvousNetwork("hermes", 80)
    ring.subscribe(60, groups=6)
    stored: Counter[str] = Counter()
    holders = set()
    for name in ring.up():
        for key, by_access in ring.node(name).slots["routing"].enrolment.copies().items():
            assert name == min(ring.up(), key=lambda each: between(id_of(each), id_of(key)))
            holders.add(name)
            for access, filters in by_access.items():
                stored.update(f"{filter.text}@{access}" for filter in filters)
    wanted = {f"{text}@{client.partition('@')[2]}" for client, text in ring.filters.items()}
    assert stored == Counter(dict.fromkeys(wanted, 1))
    assert len(holders) <= 6 < len(ring.up()), "more brokers than types: most have nothing to hold"


def test_vir2_7_siena_keeps_several_copies_where_hermes_keeps_one() -> None:
    """The same subscriptions, of which none covers another, at the same twenty brokers."""
    rng = Random(1)
    brokers = broker_names(20)
    wanted = [(f"c{k}", rng.choice(brokers), f"type IS A 'T{k % 4}' AND x = {k}") for k in range(30)]
    copies = {}
    for system, overlay in (("siena", random_tree(20, rng, 4)), ("hermes", OverlayGraph(brokers, ()))):
        trial = Trial(system, overlay)
        trial.settle()
        for client, broker, filter in wanted:
            trial.client(client, broker)
            trial.subscribe(client, "n", filter)
        trial.settle()
        if system == "hermes":
            routing = [node.slots["routing"].enrolment for _, node in trial.world.nodes()]
            copies[system] = sum(part.table_size() for part in routing)
        else:
            copies[system] = sum(trial.routing_tables().values())
    assert copies["hermes"] == len(wanted)
    assert copies["siena"] > 5 * len(wanted)


def test_vir2_7_who_wants_a_type_hears_of_its_subtypes_and_not_of_its_supertype() -> None:
    for system in ("hermes", "hermes-path"):
        trial = Trial(system, OverlayGraph(broker_names(12), ()))
        trial.settle()
        for client, broker, name in (("a", "b1", "Event"), ("b", "b2", "Quote"), ("c", "b3", "Tick")):
            trial.client(client, broker)
            trial.subscribe(client, "n", f"type IS A '{name}'")
        trial.client("press", "b9")
        trial.settle()
        for number, lineage in enumerate(
            [("Tick", "Quote", "Event"), ("Quote", "Event"), ("Event",), ("Other",)]
        ):
            trial.world.publish("press", {"number": number}, type=lineage)
        trial.settle()
        received = {client: [n.event.attributes["number"] for n in application.received]
                 for client, application in trial.world.applications.items()}  # fmt: skip
        assert received == {"a": [0, 1, 2], "b": [0, 1], "c": [0], "press": []}


def test_vir2_7_filters_on_the_path_save_messages_and_deliver_the_same() -> None:
    descents = {}
    for system in ("hermes", "hermes-path"):
        ring = RendezvousNetwork(system, 60, seed=2)
        ring.subscribe(40, groups=2)
        delivered = ring.publish(40)
        assert delivered.is_exact
        assert delivered.due > 100
        descents[system] = delivered.messages["Descend"]
    assert descents["hermes-path"] < 0.8 * descents["hermes"], descents
