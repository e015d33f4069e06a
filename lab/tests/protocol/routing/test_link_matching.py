"""Gryphon's routing takes events over links: it keeps the filters of links in a tree of its own."""

from __future__ import annotations

from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import line
from tidings.simulation.world import World


def test_events_go_over_every_hop_on_which_they_are_wanted_and_over_no_other() -> None:
    world = World("gryphon", line(3), seed=1, settings=SimulationSettings(check=True, together=True))
    for client, broker in (("p", "b0"), ("far", "b2"), ("near", "b1")):
        world.add_client(client, broker)
    world.subscribe("far", "n", "x > 2")
    world.subscribe("near", "n", "x = 1")
    world.run(3.0)
    for number in range(6):
        world.publish("p", {"x": number})
    world.run(10.0)
    assert (len(world.received("far")), len(world.received("near"))) == (3, 1)
