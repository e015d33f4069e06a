"""Clients that go on at another broker while their own is down: no gap, nothing twice, nothing claimed."""

from __future__ import annotations

import pytest

from tidings.history.check import check
from tidings.model.event import FOREVER
from tidings.protocol.delivery.cursor import LIVE
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import line
from tidings.simulation.world import World


def scene() -> World:
    """b0 - b1 - b2 - b3; p publishes at b0, q at b1, s subscribes at b3, durable."""
    world = World("tidings", line(4), seed=1, settings=SimulationSettings(check=True))
    for client, broker in {"p": "b0", "q": "b1", "s": "b3"}.items():
        world.add_client(client, broker)
    return world


def move(world: World, client: str, old: str, new: str) -> None:
    world.simulation._close(client, old)
    world.simulation.connect(client, new)
    world.simulation._open(client, new)


def heard(world: World, client: str) -> list[tuple[str, int]]:
    return [(source, int(id.rpartition("-")[2])) for source, id in world.received(client)]


@pytest.mark.parametrize("pause", [0.0, 0.02, 0.1, 0.5, 2.0])
def test_a_durable_subscription_goes_on_elsewhere_while_its_broker_is_down(pause: float) -> None:
    world = scene()
    world.subscribe("s", "n", "x > 0", durable=True)
    world.run(3.0)
    world.publish("p", {"x": 1})
    world.publish("q", {"x": 1})
    world.run(4.0 + pause)
    world.simulation.crash("b3")
    world.publish("p", {"x": 2})
    world.run(5.0)
    world.publish("q", {"x": 2})
    world.run(8.0)
    move(world, "s", "b3", "b1")  # nobody there has heard of the subscription
    world.publish("p", {"x": 3})
    world.run(12.0)
    assert sorted(heard(world, "s")) == [("p", 1), ("p", 2), ("p", 3), ("q", 1), ("q", 2)]
    world.simulation.restart("b3")
    world.publish("q", {"x": 3})
    world.run(20.0)
    move(world, "s", "b1", "b3")
    world.publish("p", {"x": 4})
    world.run(40.0)
    assert sorted(heard(world, "s")) == [("p", n) for n in (1, 2, 3, 4)] + [("q", n) for n in (1, 2, 3)]
    report = check(world.rows, contract="Tidings", t_sub=5.0, t_diff=30.0)
    assert not [name for name, verdict in report.verdicts.items() if verdict.holds is False]


def test_what_the_log_of_a_broker_holds_that_is_down_comes_when_it_is_back() -> None:
    """The events are in the log of the broker that is down; the subscription waits for them elsewhere."""
    world = scene()
    world.add_client("r", "b3")
    world.subscribe("s", "n", "x > 0", durable=True)
    world.run(3.0)
    for x in range(1, 4):
        world.publish("r", {"x": x})
    world.run(3.004)  # kept, and perhaps not sent
    world.simulation.crash("b3")
    world.run(6.0)
    move(world, "s", "b3", "b1")
    world.run(9.0)
    world.simulation.restart("b3")
    world.run(40.0)
    acknowledged = [receipt.id for receipt in world.applications["r"].receipts]
    assert acknowledged
    assert {id for _, id in world.received("s")} >= set(acknowledged)
    assert len(world.received("s")) == len(set(world.received("s")))


@pytest.mark.parametrize("moment", [0.0006, 0.001, 0.002, 0.003, 0.004])
def test_a_publish_whose_answer_was_lost_is_unknown_elsewhere_and_never_told_twice(moment: float) -> None:
    world = scene()
    world.subscribe("s", "n", "x > 0", durable=True)
    world.run(3.0)
    world.publish("p", {"x": 1})
    world.run(3.0 + moment)
    is_answered = bool(world.applications["p"].receipts)
    world.simulation.crash("b0")
    world.run(4.0)
    move(world, "p", "b0", "b1")
    world.run(5.0)
    world.publish("p", {"x": 2})
    world.run(6.0)
    world.simulation.restart("b0")
    world.run(30.0)
    failures = [failure.code for failure in world.applications["p"].failures]
    assert failures == ([] if is_answered else ["unknown"])
    delivered = heard(world, "s")
    assert ("p", 2) in delivered
    assert len(delivered) == len(set(delivered))
    assert not is_answered or ("p", 1) in delivered


@pytest.mark.parametrize("crash_after", [0.003, 0.06])
def test_a_broker_that_crashes_soon_after_it_was_subscribed_at_is_kept_everything_for(
    crash_after: float,
) -> None:
    """Its neighbours must not take the beginning of its next life for the beginning of the subscription,
    and let the log go while it is read page by page."""
    world = World("tidings", line(4), seed=1, settings=SimulationSettings(check=True))
    for client, broker in {"p": "b0", "s": "b3", "t": "b3"}.items():
        world.add_client(client, broker)
    world.subscribe("t", "n", "x > 0")  # so that what is published is on its way from the start
    world.run(3.0)
    world.publish("p", {"x": 1})
    world.run(4.0)
    world.subscribe("s", "n", "x > 0", durable=True, queue=20)  # small pages: reading takes its time
    world.run(4.0 + crash_after)
    assert world.applications["s"].refs
    world.simulation.crash("b3")
    world.run(4.5)
    for x in range(2, 502):
        world.publish("p", {"x": x})
        world.run(4.5 + x * 0.002)
    world.run(8.0)
    world.simulation.restart("b3")
    world.run(40.0)
    assert [number for _, number in heard(world, "s")] == list(range(2, 502))


def test_a_guest_ends_a_while_after_its_listener_left_and_its_home_goes_on() -> None:
    world = World(
        "tidings", line(4), seed=1, settings=SimulationSettings(check=True),
        options={"delivery": {"remote_subscription_seconds": 10.0}},
    )  # fmt: skip
    for client, broker in {"p": "b0", "s": "b3"}.items():
        world.add_client(client, broker)
    world.subscribe("s", "n", "x > 0", durable=True)
    world.run(3.0)
    world.publish("p", {"x": 1})
    world.run(4.0)
    world.simulation.crash("b3")
    world.run(5.0)
    move(world, "s", "b3", "b1")
    world.publish("p", {"x": 2})
    world.run(8.0)
    local_clients = world.simulation.hosts["b1"].machine.slots["delivery"]
    assert len(local_clients.subscriptions()) == 1
    world.simulation.restart("b3")
    move(world, "s", "b1", "b3")
    world.run(12.0)
    assert len(local_clients.subscriptions()) == 1  # it may come back
    world.simulation.crash("b1")
    world.simulation.restart("b1")
    world.run(30.0)
    local_clients = world.simulation.hosts["b1"].machine.slots["delivery"]
    assert len(local_clients.subscriptions()) == 0
    world.publish("p", {"x": 3})
    world.run(60.0)
    assert heard(world, "s") == [("p", 1), ("p", 2), ("p", 3)]
    assert not world.simulation.hosts["b0"].machine.slots["delivery"]._index.entries


# -- ending a subscription where it is a guest -----------------------------------------------------------


def held_at(world: World, broker: str) -> int:
    return len(world.simulation.hosts[broker].machine.slots["delivery"].subscriptions())


def away() -> World:
    """s subscribed at b3, which is down; s is a guest at b1."""
    world = scene()
    world.subscribe("s", "n", "x > 0", durable=True)
    world.run(3.0)
    world.publish("p", {"x": 1})
    world.run(4.0)
    world.simulation.crash("b3")
    world.run(6.0)
    move(world, "s", "b3", "b1")
    world.publish("p", {"x": 2})
    world.run(9.0)
    return world


@pytest.mark.parametrize("restarts", [False, True], ids=["guest-stays", "guest-restarts"])
def test_a_subscription_that_is_ended_where_it_is_a_guest_ends_at_its_home_too(restarts: bool) -> None:
    world = away()
    world.unsubscribe("s", "n")
    world.run(11.0)
    assert held_at(world, "b1") == 0
    if restarts:
        world.simulation.crash("b1")
        world.run(12.0)
        world.simulation.restart("b1")
    world.run(20.0)
    world.publish("p", {"x": 3})
    world.simulation.restart("b3")
    world.run(90.0)
    assert held_at(world, "b3") == 0, "its home goes on keeping what nobody will hear"
    assert heard(world, "s") == [("p", 1), ("p", 2)]
    for name in ("b0", "b1", "b2", "b3"):
        delivery = world.simulation.hosts[name].machine.slots["delivery"]
        assert not delivery._index.entries, f"{name} keeps events"
        assert delivery.figures()["unsubscribes pending"] == 0
        assert delivery.next_deadline() is None or delivery._remote_ends.next_at is None


def test_whoever_subscribed_again_at_home_after_the_end_keeps_that_subscription() -> None:
    """The farewell comes late: it was of the one before."""
    world = away()
    world.simulation._close("b1", "b2")
    world.unsubscribe("s", "n")
    world.run(11.0)
    world.simulation.restart("b3")
    world.run(12.0)
    move(world, "s", "b1", "b3")
    world.run(13.0)
    world.subscribe("s", "n", "x > 0", durable=True)
    world.run(15.0)
    world.simulation._open("b1", "b2")
    world.run(60.0)
    assert held_at(world, "b3") == 1
    world.publish("p", {"x": 3})
    world.run(70.0)
    assert heard(world, "s")[-1] == ("p", 3)
    assert len(heard(world, "s")) == len(set(heard(world, "s")))
    assert world.simulation.hosts["b1"].machine.slots["delivery"].figures()["unsubscribes pending"] == 0


def test_a_home_that_never_returns_is_given_up_after_a_while() -> None:
    world = World(
        "tidings", line(4), seed=1, settings=SimulationSettings(check=True),
        options={"delivery": {"memory_seconds": 30.0}},
    )  # fmt: skip
    for client, broker in {"p": "b0", "s": "b3"}.items():
        world.add_client(client, broker)
    world.subscribe("s", "n", "x > 0", durable=True)
    world.run(3.0)
    world.simulation.crash("b3")
    world.run(5.0)
    move(world, "s", "b3", "b1")
    world.run(8.0)
    world.unsubscribe("s", "n")
    world.run(10.0)
    local_client = world.simulation.hosts["b1"].machine.slots["delivery"]
    assert local_client.figures()["unsubscribes pending"] == 1
    world.run(80.0)
    assert (
        local_client.figures()["unsubscribes pending"],
        local_client.figures()["unsubscribes given up"],
    ) == (0, 1)


@pytest.mark.parametrize("forgets", [False, True])
def test_a_token_that_names_a_lost_log_does_not_stop_the_subscription(forgets: bool) -> None:
    """The disk of b0 was replaced, and then the broker of the subscription: its token still names the old
    log, which the new broker never knew."""
    world = scene()
    world.subscribe("s", "n", "x > 0", durable=True)
    world.run(3.0)
    world.publish("p", {"x": 1})
    world.run(5.0)
    world.simulation.crash("b3")
    world.simulation.crash("b0")
    world.run(6.0)
    world.simulation.restart("b0", keep_disk=False)
    world.run(8.0)
    if forgets:
        world.simulation.crash("b1")
        world.simulation.restart("b1", keep_disk=False)
        world.run(10.0)
    move(world, "s", "b3", "b1")
    world.run(12.0)
    for x in range(2, 6):
        world.publish("p", {"x": x})
        world.run(world.simulation.now + 1.0)
    world.run(40.0)
    assert heard(world, "s") == [("p", n) for n in range(1, 6)]
    machine = world.simulation.hosts["b1"].machine
    stored = next(iter(machine.slots["delivery"]._registry.states.values()))  # type: ignore[attr-defined]
    waiting = {log for log, cursor in stored.others.items() if cursor.state is not LIVE}
    assert {log[:3] for log in waiting} == {"b3#"}, (
        "a cursor waits for the broker that is down, for no lost log"
    )


@pytest.mark.parametrize("reader", ["b0", "b2", "b3"])
def test_a_reader_of_what_is_available_receives_what_a_moved_publisher_left_in_two_logs(reader: str) -> None:
    """The later events wait for the earlier ones, which are in a log further away."""
    world = scene()
    world.run(3.0)
    for x in range(1, 4):
        world.publish("p", {"x": x}, lifetime=FOREVER)
    world.run(4.0)
    move(world, "p", "b0", "b2")
    world.run(5.0)
    for x in range(4, 7):
        world.publish("p", {"x": x}, lifetime=FOREVER)
    world.run(8.0)
    world.add_client("late", reader)
    world.run(9.0)
    world.subscribe("late", "n", "x > 0", until_live=True)
    world.run(20.0)
    assert heard(world, "late") == [("p", n) for n in range(1, 7)]
