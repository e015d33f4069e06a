"""What a broker does not tell: events that have expired, and events that come from the wrong side."""

from __future__ import annotations

import pytest
from tests.simulation.test_tidings_scenes import begin, cut, sequences, three

from tidings.model.event import FOREVER, make_event
from tidings.protocol.inputs import Received
from tidings.protocol.messages import Envelope
from tidings.protocol.recovery.messages import PREVIOUS
from tidings.protocol.routing.duplicates import Forward
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import line
from tidings.simulation.world import World


def test_what_expired_while_its_link_was_cut_is_not_told() -> None:
    world = three()
    world.subscribe("s", "n", "x > 0", durable=True)
    world.run(3.0)
    incident = cut("b0", "b1")
    begin(world, incident)
    world.run(4.0)
    for x, seconds in ((1, 5.0), (2, 100.0)):
        world.publish("p", {"x": x}, lifetime=FOREVER, expires=seconds)
    world.run(20.0)
    world.simulation.end(incident)
    world.run(40.0)
    assert sequences(world, "s") == [2]


def test_an_event_that_comes_from_the_wrong_side_is_not_believed() -> None:
    """A neighbour that is not on the way from the log cannot put events into it."""
    world = three(t="b1")
    world.subscribe("t", "n", "x > 0")
    world.run(3.0)
    world.publish("p", {"x": 1}, lifetime=FOREVER)
    world.run(4.0)
    [(origin, view)] = [
        item for item in world.simulation.hosts["b1"].machine.slots["recovery"].views.items() if item[1].known
    ]
    false = make_event({"x": 666}, source="p", id="false", lifetime=FOREVER)
    forged = Envelope(false, origin, view.known + 1, 2, FOREVER, headers={PREVIOUS: view.known})
    world.simulation.input("b1", Received("b2", Forward(forged)))
    world.run(5.0)
    world.publish("p", {"x": 2}, lifetime=FOREVER)
    world.run(8.0)
    assert [n.event["x"] for n in world.applications["t"].received] == [1, 2]


@pytest.mark.parametrize("broker", ["b0", "b1"])
def test_an_event_that_expired_while_it_was_written_is_not_delivered(broker: str) -> None:
    """Also where the subscriber has room: the live way is no way round the deadline."""
    world = World("tidings", line(2), seed=1, settings=SimulationSettings(check=True))
    world.add_client("p", "b0")
    world.add_client("s", broker)
    world.run(1.0)
    world.subscribe("s", "n", "x > 0")
    world.run(2.0)
    world.publish("p", {"x": 1}, lifetime=60.0, expires=0.001)  # the disk takes longer
    world.publish("p", {"x": 2}, lifetime=60.0, expires=60.0)
    world.run(5.0)
    assert [int(id.rpartition("-")[2]) for _, id in world.received("s")] == [2]
