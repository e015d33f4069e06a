"""A broker on an empty disk asks its neighbours what was behind it, and the neighbour that answers has
restarted.

b0 - b1 - b2 - b9, and b8 at b2. The events of a durable subscription at b9, which is away, wait in the log of
b0. A neighbour that knew the brokers behind b2 in memory alone answered that there were none: b2 acknowledged
for b9, and b0 let the events go.
"""

from __future__ import annotations

from tests.simulation.test_tidings_joining import Growing

from tidings.simulation.topology import line
from tidings.store.memory import MemoryStore
from tidings.systems import Site


class Line(Growing):
    """The brokers, with three events in the log of b0 that s is owed at b9."""

    def __init__(self) -> None:
        super().__init__(line(1))
        for name in ("b1", "b2", "b8"):
            self.add(name)
        for pair in (("b0", "b1"), ("b1", "b2"), ("b2", "b9"), ("b2", "b8")):
            self.join(*pair)
        self.world.subscribe("s", "n", "x > 0", durable=True)
        self.world.run(5.0)
        self.simulation.crash("b9")
        self.pause(1.0)
        for x in (1, 2, 3):
            self.world.publish("p", {"x": x})
        self.pause(5.0)

    def add(self, name: str) -> None:
        site = Site(name=name, brokers=(name,), options={"joins": True})
        self.simulation.add(name, self.world._builder(site), disk=MemoryStore())

    def pause(self, seconds: float) -> None:
        self.world.run(self.simulation.now + seconds)

    def down(self, *names: str) -> None:
        """These brokers are killed, and their links with them."""
        for name in names:
            self.simulation.crash(name)
        self.pause(0.5)
        for a, b in [pair for pair in self.simulation.links if {*pair} & {*names, "b9"}]:
            if a.startswith("b") and b.startswith("b"):
                self.simulation._close(a, b)
                self._agreed -= {(a, b), (b, a)}

    def end(self) -> list[int]:
        """b9 comes back; the events that s received, also of one that is published last."""
        self.pause(5.0)
        self.simulation.restart("b9")
        self.join("b2", "b9")
        self.pause(30.0)
        self.world.publish("p", {"x": 9})
        self.pause(20.0)
        return self.received()


def test_a_neighbour_that_did_not_restart_names_the_brokers_behind() -> None:
    scene = Line()
    scene.down("b2")
    scene.simulation.restart("b2", keep_disk=False)
    scene.join("b1", "b2")
    assert scene.end() == [1, 2, 3, 4]


def test_a_neighbour_that_restarted_names_the_brokers_behind() -> None:
    scene = Line()
    scene.down("b2", "b1")
    scene.simulation.restart("b1")
    scene.join("b0", "b1")
    scene.pause(1.0)
    scene.simulation.restart("b2", keep_disk=False)
    scene.join("b1", "b2")
    assert scene.end() == [1, 2, 3, 4]


def test_another_neighbour_that_restarted_and_is_back_first_names_them_too() -> None:
    scene = Line()
    scene.down("b2", "b8")
    scene.simulation.restart("b8")
    scene.pause(0.2)
    scene.simulation.restart("b2", keep_disk=False)
    scene.join("b2", "b8")
    scene.pause(0.5)
    scene.join("b1", "b2")
    assert scene.end() == [1, 2, 3, 4]


def test_a_newcomer_that_joins_before_the_neighbours_are_back_is_no_answer() -> None:
    scene = Line()
    scene.add("b7")
    scene.down("b2")
    scene.simulation.restart("b2", keep_disk=False)
    scene.join("b2", "b7")
    scene.pause(0.5)
    scene.join("b1", "b2")
    assert scene.end() == [1, 2, 3, 4]


def test_newcomers_alone_are_waited_for_no_longer_than_the_settings_say() -> None:
    scene = Growing(line(1))
    site = Site(name="b2", brokers=("b2",), options={"joins": True})
    scene.simulation.add("b2", scene.world._builder(site), disk=MemoryStore())
    scene.join("b2", "b9")  # b9 dials b2, and nobody that b2 was told to join is there
    recovery = scene.simulation.hosts["b2"].machine.slots["recovery"]
    scene.world.run(599.0)
    assert recovery.is_unsure
    scene.world.run(602.0)
    assert not recovery.is_unsure
