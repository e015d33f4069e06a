"""A broker in the middle of a network loses its disk, and with it the names of its neighbours: events that
others acknowledged, and those that it accepts itself, still reach the durable subscription behind it."""

from __future__ import annotations

import pytest
from tests.simulation.test_tidings_joining import Growing

from tidings.protocol.naming import UNKNOWN
from tidings.simulation.topology import line
from tidings.store.memory import MemoryStore
from tidings.systems import Site


class Replaced(Growing):
    """b0 - b1 - b9; b1 knows its neighbours from its disk alone. p publishes at b0, q at b1, s subscribes at
    b9."""

    def __init__(self) -> None:
        super().__init__(line(1))
        self.simulation.add(
            "b1",
            self.world._builder(Site(name="b1", brokers=("b1",), options={"joins": True})),
            disk=MemoryStore(),
        )
        self.world.add_client("q", "b1")
        self.join("b0", "b1")
        self.join("b1", "b9")
        self.world.subscribe("s", "n", "x > 0", durable=True)
        self.world.run(5.0)

    def replace_disk(self) -> None:
        """b1 begins on an empty disk; no link of it is up."""
        self.simulation.crash("b1")
        self.world.run(self.simulation.now + 1.0)
        for ends in (("b0", "b1"), ("b1", "b9")):
            del self.simulation.links[ends]
        self._agreed.clear()
        self.simulation.restart("b1", keep_disk=False)

    def peers(self) -> tuple[str, ...]:
        overlay = self.simulation.hosts["b1"].machine.slots["overlay"]
        found: tuple[str, ...] = overlay.peers()
        return found


def test_events_of_others_wait_for_the_neighbours_of_an_earlier_disk() -> None:
    scene = Replaced()
    scene.replace_disk()
    scene.world.publish("p", {"x": 1})
    scene.join("b0", "b1")
    scene.world.run(20.0)  # b9 is away for long
    scene.world.publish("p", {"x": 2})
    scene.world.run(30.0)
    assert scene.peers() == ("b0", UNKNOWN)
    scene.join("b1", "b9")
    scene.world.run(50.0)
    assert scene.received() == [1, 2]
    assert scene.peers() == ("b0", "b9")


def test_events_that_it_accepts_before_a_neighbour_is_back_are_kept() -> None:
    scene = Replaced()
    scene.replace_disk()
    scene.world.publish("q", {"x": 1})
    scene.world.run(10.0)
    scene.join("b0", "b1")
    scene.world.run(15.0)
    scene.world.publish("q", {"x": 2})
    scene.world.run(20.0)
    scene.join("b1", "b9")
    scene.world.run(40.0)
    assert scene.received() == [1, 2]


@pytest.mark.parametrize("is_back", [True, False])
def test_nothing_is_kept_any_longer_once_the_neighbours_are_known(is_back: bool) -> None:
    """A broker that was named and does not come back is waited for, and given up at last."""
    scene = Replaced()
    scene.replace_disk()
    scene.join("b0", "b1")
    scene.world.run(10.0)
    scene.world.publish("q", {"x": 1})
    scene.world.run(12.0)
    ledger = scene.simulation.hosts["b1"].machine.slots["delivery"]._index
    assert len(ledger.entries) == 1
    if is_back:
        scene.join("b1", "b9")
        scene.world.run(60.0)
    else:
        scene.world.run(700.0)
    assert not ledger.entries
    assert UNKNOWN not in scene.peers()


def test_a_second_life_on_the_new_disk_still_waits_for_them() -> None:
    scene = Replaced()
    scene.replace_disk()
    scene.join("b0", "b1")
    scene.world.run(10.0)
    scene.simulation.crash("b1")
    scene.world.run(11.0)
    scene.simulation.restart("b1")
    scene.join("b0", "b1")
    scene.world.run(15.0)
    scene.world.publish("p", {"x": 1})
    scene.world.run(20.0)
    scene.join("b1", "b9")
    scene.world.run(40.0)
    assert scene.received() == [1]
