"""Two joins at the same moment that close a cycle together: found, the younger one undone, nothing lost."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tidings.protocol.effects import CloseLink, OpenLink
from tidings.protocol.inputs import Joined
from tidings.protocol.overlay.cycle_repair import MESSAGES, CutLink, CycleQuery, dated
from tidings.protocol.overlay.joined import JoinedOverlay
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import OverlayGraph
from tidings.simulation.world import World
from tidings.store.memory import MemoryStore
from tidings.systems import Site

Edge = tuple[str, str]


class Parts:
    """Lines of brokers that know nothing of one another: a0 - a1 - ..., b0 - b1 - ...; a client at each
    broker, which listens to all and publishes."""

    def __init__(self, sizes: dict[str, int], seed: int = 1) -> None:
        brokers = tuple(f"{part}{n}" for part, size in sizes.items() for n in range(size))
        links = tuple(
            (f"{part}{n}", f"{part}{n + 1}") for part, size in sizes.items() for n in range(size - 1)
        )
        self.seed = seed
        self.links = set(links)
        self.brokers = brokers
        first = OverlayGraph(brokers[:1], ())
        self.world = World("tidings", first, seed=seed, settings=SimulationSettings(check=True))
        self.simulation = self.world.simulation
        self._agreed: set[Edge] = set()
        self._opens = self.simulation._open
        self.simulation._open = self._both  # type: ignore[method-assign]
        perform = self.simulation._perform

        def noting(host: Any, effect: Any) -> None:
            if type(effect) is OpenLink:
                self._agreed.add((host.name, effect.peer))
            elif type(effect) is CloseLink:
                self._agreed.discard((host.name, effect.peer))
            perform(host, effect)

        self.simulation._perform = noting  # type: ignore[method-assign]
        for broker in brokers[1:]:
            build = self.world._builder(Site(name=broker, brokers=(broker,)))
            self.simulation.add(broker, build, disk=MemoryStore())
        self.join(*links)
        self.world.run(1.0)
        for broker in brokers:
            self.world.add_client(f"c-{broker}", broker)
            self.world.subscribe(f"c-{broker}", "n", "x > 0", durable=True)
        self.world.run(2.0)
        self.published = 0

    def _both(self, a: str, b: str) -> None:
        if {(a, b), (b, a)} <= self._agreed:
            self._opens(a, b)

    def join(self, *edges: Edge) -> None:
        """Dialled, and dialled again, as the driver of either end would."""
        for a, b in edges:
            self.simulation.input(a, Joined(b))
            self.simulation.input(b, Joined(a))

    def slow_down(self, most: float) -> None:
        """Give every new link between brokers a delay of its own."""

        def seconds(a: str, b: str) -> float:
            return Random(f"{self.seed} {min(a, b)} {max(a, b)}").uniform(0.0, most)

        self.simulation.seconds_between = seconds

    def lose_questions(self, share: float, until: float) -> None:
        """Lose this share of all messages about cycles, as a link does that goes down with them
        on their way."""
        rng, fly = Random(f"lost {self.seed}"), self.simulation._fly
        self.simulation.plan_rough()

        def losing(link: Any, to: Any, sender: str, message: Any, at: float) -> None:
            is_lost = isinstance(message, MESSAGES) and self.simulation.now < until and rng.random() < share
            if not is_lost:
                fly(link, to, sender, message, at)

        self.simulation._fly = losing  # type: ignore[method-assign]

    def nodes(self) -> dict[str, Any]:
        return {name: self.simulation.hosts[name].machine for name in self.brokers}

    def neighbours(self) -> set[Edge]:
        """Links that both ends hold."""
        nodes = self.nodes()
        pairs = {(a, b) for a, node in nodes.items() for b in node.slots["overlay"].peers()}
        assert all((b, a) in pairs for a, b in pairs), f"one end holds what the other does not: {pairs}"
        return {(a, b) for a, b in pairs if a < b}

    def is_tree(self) -> bool:
        edges, brokers = self.neighbours(), list(self.brokers)
        reached, fresh = {brokers[0]}, [brokers[0]]
        while fresh:
            here = fresh.pop()
            for a, b in edges:
                for one, other in ((a, b), (b, a)):
                    if one == here and other not in reached:
                        reached.add(other)
                        fresh.append(other)
        return len(edges) == len(brokers) - 1 and reached == set(brokers)

    def everybody_publishes(self) -> None:
        self.published += 1
        for name in self.brokers:
            self.world.publish(f"c-{name}", {"x": self.published})

    def received(self, client: str) -> list[tuple[str, int]]:
        return [(source, int(id.rpartition("-")[2])) for source, id in self.world.received(client)]

    def assert_all_heard(self, since: int) -> None:
        """From that round on everything by everybody; nothing twice, and in order, in all rounds."""
        clients = [f"c-{name}" for name in self.brokers]
        for client in clients:
            received = self.received(client)
            assert len(received) == len(set(received)), f"{client} was told something twice"
            for source in clients:
                numbers = [number for other, number in received if other == source]
                assert numbers == sorted(numbers)
                late = [number for number in numbers if number >= since]
                assert late == list(range(since, self.published + 1)), f"{client} of {source}: {numbers}"


CASES = [
    pytest.param({"a": 2, "b": 2}, [("a0", "b0"), ("a1", "b1")], id="two-and-two"),
    pytest.param({"a": 5, "b": 4}, [("a0", "b0"), ("a4", "b3")], id="far-apart"),
    pytest.param({"a": 1, "b": 3}, [("a0", "b0"), ("a0", "b2")], id="one-that-joins-two"),
    pytest.param({"a": 3, "b": 3, "c": 3}, [("a0", "b0"), ("b2", "c0"), ("c2", "a2")], id="three-parts"),
    pytest.param(
        {"a": 4, "b": 4}, [("a0", "b0"), ("a1", "b1"), ("a3", "b3")], id="two-cycles-that-share-a-link"
    ),
]


@pytest.mark.parametrize(("sizes", "edges"), CASES)
def test_joins_at_the_same_moment_that_close_a_cycle_leave_a_tree(
    sizes: dict[str, int], edges: list[Edge]
) -> None:
    scene = Parts(sizes)
    scene.join(*edges)
    for _ in range(12):
        scene.world.run(scene.simulation.now + 0.25)
        scene.everybody_publishes()  # while the cycle is there, and while it is undone
    scene.world.run(12.0)
    scene.everybody_publishes()
    scene.world.run(30.0)
    assert scene.is_tree(), scene.neighbours()
    assert scene.links <= scene.neighbours(), "a link that was there before has to stay"
    scene.assert_all_heard(since=1 if len(edges) == 2 and len(sizes) == 2 else 13)


@pytest.mark.parametrize("seed", range(5))
def test_a_join_that_was_undone_is_refused_when_it_is_tried_again(seed: int) -> None:
    rng = Random(seed)
    sizes = {"a": rng.randrange(1, 5), "b": rng.randrange(2, 5)}
    edges = [("a0", "b0"), (f"a{sizes['a'] - 1}", f"b{sizes['b'] - 1}")]
    scene = Parts(sizes, seed)
    scene.join(edges[0])
    scene.world.run(scene.simulation.now + rng.uniform(0.0, 0.03))
    scene.join(edges[1])
    while scene.simulation.now < 60.0:
        scene.world.run(scene.simulation.now + rng.uniform(1.0, 4.0))
        scene.join(*edges)
        scene.everybody_publishes()
    scene.world.run(90.0)
    assert scene.is_tree(), scene.neighbours()
    scene.assert_all_heard(since=scene.published - 5)


def test_nobody_waits_for_anything_after_a_cycle_was_undone() -> None:
    """A link that one end still held would keep every event for ever."""
    scene = Parts({"a": 3, "b": 3})
    scene.join(("a0", "b0"), ("a2", "b2"))
    scene.world.run(10.0)
    scene.everybody_publishes()
    scene.world.run(90.0)
    for name, node in scene.nodes().items():
        assert node.slots["delivery"].figures()["entries"] == 0, f"{name} keeps events"
        assert len(node.slots["recovery"].timers) == 0, f"{name} is not quiet"


def test_a_cycle_is_undone_though_a_broker_in_it_crashes_in_the_middle() -> None:
    for moment in range(0, 8, 2):
        scene = Parts({"a": 3, "b": 3}, seed=moment)
        scene.join(("a0", "b0"), ("a2", "b2"))
        scene.world.run(2.0 + 0.02 * moment)
        scene.simulation.crash("a1")
        scene.world.run(6.0)
        scene.simulation.restart("a1")
        while scene.simulation.now < 60.0:
            scene.world.run(scene.simulation.now + 4.0)
            scene.join(("a0", "b0"), ("a2", "b2"))
        scene.everybody_publishes()
        scene.world.run(90.0)
        assert scene.is_tree(), (moment, scene.neighbours())
        scene.assert_all_heard(since=scene.published)


@pytest.mark.parametrize("seed", range(20))
def test_a_link_that_one_end_undid_and_could_not_say_so_is_no_way_to_a_log(seed: int) -> None:
    """One end of the link undoes it, its word is lost, and the other end waits for it to come back. A broker
    behind that end hears the log by another way too, and has to take it from there."""
    rng = Random(seed)
    scene = Parts({"a": 1, "b": 1, "c": 1, "d": 1}, seed)
    scene.slow_down(0.3)
    scene.lose_questions(0.3, until=5.0)
    for edge in rng.sample([("a0", "b0"), ("b0", "c0"), ("c0", "d0"), ("a0", "d0")], 4):
        scene.join(edge)
        scene.world.run(scene.simulation.now + rng.uniform(0.0, 0.1))
    scene.world.run(30.0)
    assert scene.is_tree(), scene.neighbours()
    scene.everybody_publishes()
    scene.world.run(60.0)
    scene.assert_all_heard(since=1)


# -- the parts ---------------------------------------------------------------------------------------


def test_a_question_that_comes_back_to_whom_it_passed_goes_no_further() -> None:
    scene = Parts({"a": 2})
    overlay = scene.simulation.hosts["a0"].machine.slots["overlay"]
    assert isinstance(overlay, JoinedOverlay)
    overlay.on_message("a1", CycleQuery("x#1", "a0", 1, ("a0", "a1"), 0.0), 3.0)
    overlay.on_message("a1", CycleQuery("x#1", "z", 1, ("z",), 0.0), 3.0)  # its last step was not the sender
    assert not overlay._cycle_repair._kept


def test_questions_are_remembered_for_a_while_and_few_are() -> None:
    scene = Parts({"a": 2})
    overlay = scene.simulation.hosts["a0"].machine.slots["overlay"]
    assert isinstance(overlay, JoinedOverlay)
    for number in range(1000):
        overlay.on_message("a1", CycleQuery("x#1", "z", number, ("z", "a1"), 0.0), 3.0)
    assert len(overlay._cycle_repair._kept) == 256
    overlay.on_message("a1", CycleQuery("x#1", "z", 1001, ("z", "a1"), 0.0), 60.0)
    assert len(overlay._cycle_repair._kept) == 1


def test_a_link_that_is_younger_than_the_question_is_not_cut() -> None:
    scene = Parts({"a": 2})
    overlay = scene.simulation.hosts["a0"].machine.slots["overlay"]
    overlay._since["a1"] = 9.0
    overlay._cycle_repair.on_cut(CutLink(dated(5.0, "a0", "a1"), ()), 10.0)
    assert overlay.peers() == ("a1",)
    overlay._cycle_repair.on_cut(CutLink(dated(9.0, "a0", "a1"), ()), 10.0)
    assert overlay.peers() == ()
