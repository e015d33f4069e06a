"""New processes that continue a durable subscription at another broker, without a resume token."""

from __future__ import annotations

from functools import partial
from random import Random
from types import SimpleNamespace

import pytest

from tidings.protocol import inputs
from tidings.protocol.delivery.homes import HomeAsk
from tidings.protocol.effects import Send
from tidings.simulation import simulator
from tidings.simulation.parts import Place
from tidings.simulation.simulator import Simulation, SimulationSettings
from tidings.simulation.topology import line
from tidings.simulation.world import World

BROKERS = ("b0", "b1", "b2", "b3")


def scene(seed: int = 1) -> World:
    """b0 - b1 - b2 - b3; a publisher at each broker, s subscribes at b3, durable."""
    world = World("tidings", line(4), seed=seed, settings=SimulationSettings(check=True))
    for broker in BROKERS:
        world.add_client(f"p{broker}", broker)
    world.add_client("s", "b3")
    world.run(1.0)
    world.subscribe("s", "n", "x > 0", durable=True)
    world.run(3.0)
    return world


def new_process(world: World, broker: str, at: float, **options: bool) -> None:
    """The process of s ends without a word, and another one subscribes at this broker."""
    simulation = world.simulation
    simulation.crash("s")
    for a, b in [pair for pair in simulation.links if "s" in pair]:
        simulation.disconnect(a, b)
    world.applications["s"].refs.clear()
    simulation.restart("s")
    simulation.connect("s", broker)
    simulation.call_at(at, partial(world.subscribe, "s", "n", "x > 0", durable=True, **options))


def heard(world: World) -> list[tuple[str, int]]:
    return [(source, int(id.rpartition("-")[2])) for source, id in world.heard("s")]


@pytest.mark.parametrize("seed", range(12))
def test_a_new_process_continues_at_another_broker_and_receives_each_event_once(seed: int) -> None:
    world, rng, now = scene(seed), Random(seed), 3.0
    published = dict.fromkeys(BROKERS, 0)
    for _ in range(5):
        for _ in range(rng.randrange(1, 12)):
            broker = rng.choice(BROKERS)
            published[broker] += 1
            world.publish(f"p{broker}", {"x": published[broker]})
            now += rng.choice((0.0, 0.004, 0.02))
            world.run(now)
        now += rng.choice((0.3, 1.5, 3.0))  # acknowledgements and reports are on their way, or have arrived
        world.run(now)
        new_process(world, rng.choice(BROKERS), now + 0.1)
        now += rng.choice((0.2, 1.0))
        world.run(now)
    world.run(now + 40.0)
    wanted = [(f"p{broker}", n) for broker in BROKERS for n in range(1, published[broker] + 1)]
    assert not world.applications["s"].failures
    assert sorted(set(heard(world))) == wanted
    assert len(heard(world)) == len(wanted)


def test_events_that_wait_at_the_home_are_delivered_at_another_broker_and_not_again_at_home() -> None:
    world = scene()
    world.simulation.crash("s")
    world.run(4.0)
    for broker in BROKERS:
        world.publish(f"p{broker}", {"x": 1})
    world.run(6.0)
    new_process(world, "b1", 6.5)
    world.run(10.0)
    assert sorted(heard(world)) == [(f"p{broker}", 1) for broker in BROKERS]
    new_process(world, "b3", 10.5)
    world.run(20.0)
    assert len(heard(world)) == 4


def test_a_home_that_does_not_answer_is_named_and_nothing_begins_anew() -> None:
    world = scene()
    world.simulation.crash("b3")
    world.run(4.0)
    new_process(world, "b1", 4.5)
    world.run(12.0)
    failed = world.applications["s"].failures[-1]
    assert failed.code == "unreachable"
    assert "may be at a broker that does not answer: b3; try again when it is back" in failed.reason
    world.publish("pb0", {"x": 1})
    world.simulation.restart("b3")
    world.run(20.0)
    world.subscribe("s", "n", "x > 0", durable=True)
    world.run(40.0)
    assert heard(world) == [("pb0", 1)]


def test_a_subscription_that_waives_earlier_events_begins_anew_when_a_broker_is_away() -> None:
    world = scene()
    world.simulation.crash("b3")
    world.run(4.0)
    new_process(world, "b1", 4.5, replay=False)
    world.run(12.0)
    assert not world.applications["s"].failures
    world.publish("pb0", {"x": 1})
    world.run(20.0)
    assert heard(world) == [("pb0", 1)]


def test_another_filter_is_refused_where_the_subscription_is_not_at_home() -> None:
    world = scene()
    new_process(world, "b1", 3.5)
    world.simulation.call_at(3.4, partial(world.subscribe, "s", "n", "x > 5", durable=True))
    world.run(8.0)
    assert [failed.reason.partition(";")[0] for failed in world.applications["s"].failures] == [
        "subscription s/n is at broker b3 with another filter"
    ]


def test_another_client_with_the_same_subscription_name_has_its_own() -> None:
    world = scene()
    world.add_client("t", "b1")
    world.simulation.crash("s")
    world.run(4.0)
    world.publish("pb0", {"x": 1})
    world.run(6.0)
    world.subscribe("t", "n", "x > 0", durable=True)
    world.run(12.0)
    assert world.heard("t") == []
    assert dict(world.nodes())["b3"].slots["delivery"].subscriptions()


def test_a_guest_lets_the_logs_go_that_its_home_keeps() -> None:
    world = scene()
    new_process(world, "b1", 3.5)
    world.run(6.0)
    for n in range(1, 31):
        world.publish("pb0", {"x": n})
        world.run(6.0 + n * 0.01)
    world.run(60.0)
    assert [n for _, n in heard(world)] == list(range(1, 31))
    assert [node.figures()["entries"] for _, node in world.nodes()] == [0, 0, 0, 0]


@pytest.mark.parametrize("earlier", [("b2", "b3"), ("b1", "b2")])
def test_a_neighbour_of_the_last_release_is_not_asked(
    monkeypatch: pytest.MonkeyPatch, earlier: tuple[str, str]
) -> None:
    """It would end the link. A broker behind it counts as one that does not hold the subscription."""
    one, other = earlier
    asked: list[str] = []
    send = Simulation._send

    link_up = inputs.LinkUp

    def up(peer: str) -> inputs.LinkUp:
        return link_up(peer, is_earlier=peer == one)

    def sent(simulation: Simulation, place: Place, effect: Send) -> None:
        if isinstance(effect.message, HomeAsk) and effect.to == one:
            asked.append(place.name)
        send(simulation, place, effect)

    monkeypatch.setattr(simulator, "ins", SimpleNamespace(**{**vars(inputs), "LinkUp": up}))
    monkeypatch.setattr(Simulation, "_send", sent)
    world = World("tidings", line(4), seed=1, settings=SimulationSettings(check=True))
    world.add_client("s", "b3")
    world.add_client("p", "b0")
    world.run(1.0)
    world.subscribe("s", "n", "x > 0", durable=True)
    world.run(3.0)
    world.publish("p", {"x": 1})
    world.run(5.0)
    assert other not in asked
    assert not world.applications["s"].failures
    assert heard(world) == [("p", 1)]
