"""Tidings in small scenes, each made for one way in which an event could be lost or told twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidings.history.check import check
from tidings.model.event import FOREVER
from tidings.model.subscription import Policy
from tidings.protocol.inputs import ClientLeave
from tidings.protocol.messages import Ack, AckAll
from tidings.protocol.recovery.messages import ReplayReplies, ReplayReply
from tidings.protocol.routing.diffusion import Interest
from tidings.simulation.faults import CRASH, DISK_LOSS, ISOLATE_ONE, FaultPlan, Incident
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import OverlayGraph, line, star
from tidings.simulation.world import World


def three(**clients: str) -> World:
    """b0 - b1 - b2, and clients: p at b0, s at b2, and whoever else is named."""
    world = World("tidings", line(3), seed=1, settings=SimulationSettings(check=True))
    for client, broker in {"p": "b0", "s": "b2", **clients}.items():
        world.add_client(client, broker)
    return world


def begin(world: World, incident: Incident) -> None:
    world.simulation._rough = True
    world.simulation.begin(incident)


def cut(a: str, b: str) -> Incident:
    return Incident(kind=ISOLATE_ONE, at=0.0, until=0.0, cut=((a, b), (b, a)))


def sequences(world: World, client: str) -> list[int]:
    return [int(id.rpartition("-")[2]) for _, id in world.received(client)]


def dropping(world: World, is_lost: Callable[[str, Any], bool]) -> None:
    """Lose every message between brokers that `is_lost` says."""
    send = world.simulation._send

    def lossy(host: Any, effect: Any) -> None:
        if not is_lost(host.name, effect):
            send(host, effect)

    world.simulation._send = lossy  # type: ignore[method-assign]


def test_an_event_reaches_a_subscriber_two_links_away_once() -> None:
    world = three()
    world.subscribe("s", "n", "x > 0")
    world.run(2.0)
    for x in (1, 0, 2):
        world.publish("p", {"x": x})
    world.run(10.0)
    assert sequences(world, "s") == [1, 3]


def test_a_broker_that_restarts_in_the_middle_does_not_make_others_forget() -> None:
    """b1 comes back knowing nobody; b0 must go on keeping what b2 wants until b2 is heard."""
    world = three()
    world.subscribe("s", "n", "x > 0")
    world.run(2.0)
    world.simulation.crash("b1")
    begin(world, cut("b1", "b2"))
    world.run(3.0)
    world.simulation.restart("b1")
    world.run(5.0)
    world.publish("p", {"x": 1})
    world.run(10.0)
    assert sequences(world, "s") == []
    world.simulation.end(cut("b1", "b2"))
    world.run(20.0)
    assert sequences(world, "s") == [1]


def test_a_publishers_broker_that_restarts_keeps_what_unheard_links_may_want() -> None:
    world = three()
    world.subscribe("s", "n", "x > 0")
    world.run(2.0)
    world.simulation.crash("b0")
    begin(world, cut("b0", "b1"))
    world.run(3.0)
    world.simulation.restart("b0")
    world.run(5.0)
    world.publish("p", {"x": 1})
    world.run(8.0)
    world.simulation.end(cut("b0", "b1"))
    world.run(20.0)
    assert sequences(world, "s") == [1]
    assert entries(world) == {"b0": 0, "b1": 0, "b2": 0}


def test_a_replay_waits_until_the_filter_is_known_all_the_way() -> None:
    """The filter is lost between b1 and b0. Had b0 answered the replay, the event that is published
    next would be neither in the answer nor on the live way."""
    world = three()
    world.run(1.0)
    lost_until = 3.0
    dropping(
        world,
        lambda name, effect: (
            name == "b1"
            and effect.to == "b0"
            and isinstance(effect.message, Interest)
            and bool(effect.message.add)
            and world.simulation.now < lost_until
        ),
    )
    world.subscribe("s", "n", "x > 0")
    world.run(2.0)
    world.publish("p", {"x": 1}, lifetime=FOREVER)
    world.run(10.0)
    assert sequences(world, "s") == [1]


def holding_pages(world: World) -> Callable[[], None]:
    """Hold back the pages of replays that pass b1; what this returns lets them go."""
    send, stored = world.simulation._send, []
    is_holding = [True]

    def late(host: Any, effect: Any) -> None:
        if is_holding[0] and host.name == "b1" and isinstance(effect.message, ReplayReply | ReplayReplies):
            stored.append((host, effect))
        else:
            send(host, effect)

    def let_go() -> None:
        is_holding[0] = False
        parts = [part for _, effect in stored for part in getattr(effect.message, "parts", (effect.message,))]
        assert any(part.log.startswith("b0#") for part in parts)
        for host, effect in stored:
            send(host, effect)

    world.simulation._send = late  # type: ignore[method-assign]
    return let_go


def test_what_overtakes_the_last_page_of_a_replay_is_heard_once() -> None:
    world = three()
    world.publish("p", {"x": 1}, lifetime=FOREVER)
    world.run(1.0)
    let_go = holding_pages(world)
    world.subscribe("s", "n", "x > 0")
    world.run(2.0)
    world.publish("p", {"x": 2})
    world.publish("p", {"x": 3})
    world.run(2.5)
    assert sequences(world, "s") == []
    let_go()
    world.run(10.0)
    assert sequences(world, "s") == [1, 2, 3]


def test_more_than_can_wait_beside_a_replay_is_read_again() -> None:
    world = three()
    world.run(1.0)
    let_go = holding_pages(world)
    world.subscribe("s", "n", "x > 0", durable=True)
    world.run(2.0)
    for x in range(1, 601):
        world.publish("p", {"x": x})
    world.run(2.5)
    let_go()
    world.run(20.0)
    assert sequences(world, "s") == list(range(1, 601))


def test_what_a_transient_subscription_cannot_let_wait_beside_a_replay_is_counted() -> None:
    world = three()
    world.run(1.0)
    let_go = holding_pages(world)
    world.subscribe("s", "n", "x > 0", queue=100)
    world.run(2.0)
    for x in range(1, 601):
        world.publish("p", {"x": x})
    world.run(2.5)
    let_go()
    world.run(20.0)
    dropped = [row for row in world.rows if row.op == "drop" and row.reason == Policy.DROP_NEWEST]
    received = sequences(world, "s")
    assert received == sorted(received)
    assert len(received) + len(dropped) == 600
    assert dropped


def test_a_slow_transient_subscription_is_disconnected_amid_what_waited_for_a_replay() -> None:
    world = three()
    world.run(1.0)
    let_go = holding_pages(world)
    world.subscribe("s", "n", "x > 0", queue=1, policy=Policy.DISCONNECT)
    world.run(2.0)
    for x in range(1, 201):
        world.publish("p", {"x": x})
    world.run(2.5)
    let_go()
    world.run(20.0)
    received = sequences(world, "s")
    assert received == list(range(1, len(received) + 1))
    assert 0 < len(received) < 200
    assert figures(world, "b2")["subscriptions"] == 0


def test_a_late_subscriber_hears_what_is_available_in_every_log() -> None:
    world = three(q="b2")
    world.run(1.0)
    world.publish("p", {"x": 1}, lifetime=FOREVER)
    world.publish("p", {"x": 2})
    world.publish("p", {"x": 3}, lifetime=60.0)
    world.publish("p", {"x": 4}, lifetime=1.0)
    world.publish("q", {"x": 5}, lifetime=FOREVER)
    world.run(5.0)
    world.subscribe("s", "n", "x > 0")
    world.run(10.0)
    assert sorted(world.received("s")) == sorted(
        (n.source, n.id) for n in _receipts(world, "p", (0, 2)) + _receipts(world, "q", (0,))
    )


def _receipts(world: World, client: str, positions: tuple[int, ...]) -> list[Any]:
    return [world.applications[client].receipts[position] for position in positions]


def test_a_covered_filter_replays_too() -> None:
    """Covering never suppresses a replay: the second subscription is covered by the first."""
    world = three(t="b2")
    world.subscribe("s", "n", "x > 0")
    world.run(2.0)
    world.publish("p", {"x": 7}, lifetime=FOREVER)
    world.run(4.0)
    world.subscribe("t", "n", "x > 5")
    world.run(8.0)
    assert sequences(world, "s") == [1]
    assert sequences(world, "t") == [1]


def test_a_slow_durable_subscription_falls_behind_and_reads_the_log_of_origin() -> None:
    """Its client is away while more comes than its queue holds; no broker but b0 keeps the rest."""
    world = three()
    world.subscribe("s", "n", "x > 0", durable=True, queue=5)
    world.run(2.0)
    detach(world, "s", "n")
    world.run(3.0)
    for x in range(1, 41):
        world.publish("p", {"x": x})
    world.run(6.0)
    assert entries(world)["b0"] == 40
    assert figures(world, "b2")["waiting"] == 5
    world.subscribe("s", "n", "x > 0", durable=True, queue=5)
    world.run(20.0)
    assert sequences(world, "s") == list(range(1, 41))
    assert entries(world) == {"b0": 0, "b1": 0, "b2": 0}


def test_a_durable_subscription_survives_the_crash_of_its_own_broker() -> None:
    world = three()
    world.subscribe("s", "n", "x > 0", durable=True)
    world.run(2.0)
    world.publish("p", {"x": 1})
    world.run(3.0)
    world.simulation.crash("b2")
    for x in (2, 3):
        world.publish("p", {"x": x})
    world.run(6.0)
    world.simulation.restart("b2")
    world.run(20.0)
    assert sequences(world, "s") == [1, 2, 3]
    assert entries(world) == {"b0": 0, "b1": 0, "b2": 0}


def test_the_brokers_token_is_enough_when_the_client_forgot_everything() -> None:
    world = three()
    world.subscribe("s", "n", "x > 0", durable=True)
    world.run(2.0)
    for x in (1, 2):
        world.publish("p", {"x": x}, lifetime=FOREVER)
    world.run(4.0)
    for machine in ("s", "b2"):
        world.simulation.crash(machine)
    world.publish("p", {"x": 3}, lifetime=FOREVER)
    world.run(6.0)
    for machine in ("s", "b2"):
        world.simulation.restart(machine)
    world.run(8.0)
    world.subscribe("s", "n", "x > 0", durable=True)
    world.run(20.0)
    assert sequences(world, "s") == [1, 2, 3]


def test_another_filter_under_the_same_name_tells_only_the_difference() -> None:
    world = three()
    world.subscribe("s", "n", "x < 5", durable=True)
    world.run(2.0)
    for x in (1, 9, 3):
        world.publish("p", {"x": x}, lifetime=FOREVER)
    world.run(4.0)
    detach(world, "s", "n")
    world.run(5.0)
    world.publish("p", {"x": 2})  # owed under the old filter, and wanted under the new one
    world.publish("p", {"x": 4})  # owed under the old filter alone
    world.run(6.0)
    world.subscribe("s", "n", "x < 3 OR x > 8", durable=True)
    world.run(12.0)
    world.publish("p", {"x": 10})
    world.run(20.0)
    assert sequences(world, "s") == [1, 3, 2, 4, 6]
    assert entries(world)["b0"] == 3


def test_another_filter_after_a_crash_tells_only_the_difference() -> None:
    """The broker's disk is slow: it crashes with the acknowledgements, and the client leaves while it is
    down."""
    slow = SimulationSettings(check=True, disk_seconds=0.5)
    world = World("tidings", line(1), seed=1, settings=slow)
    for client in ("p", "s"):
        world.add_client(client, "b0")
    world.subscribe("s", "n", "x < 5", durable=True)
    world.run(3.0)
    for x in (1, 9, 3):
        world.publish("p", {"x": x}, lifetime=FOREVER)
    while sequences(world, "s") != [1, 3]:
        world.run(world.simulation.now + 0.01)
    world.simulation.crash("b0")
    world.run(4.0 + world.simulation.now)
    detach(world, "s", "n")
    world.simulation.restart("b0")
    world.run(4.0 + world.simulation.now)
    world.subscribe("s", "n", "x < 3 OR x > 8", durable=True)
    world.run(10.0 + world.simulation.now)
    assert sequences(world, "s") == [1, 3, 2]


def test_a_group_shares_what_comes_from_far_away() -> None:
    world = three(t="b2")
    for client in ("s", "t"):
        world.subscribe(client, "workers", "x > 0", group="workers", durable=True)
    world.run(2.0)
    for x in range(1, 21):
        world.publish("p", {"x": x})
    world.run(4.0)
    world.simulation.crash("b2")
    for x in range(21, 31):
        world.publish("p", {"x": x})
    world.run(6.0)
    world.simulation.restart("b2")
    world.run(20.0)
    assert sorted(sequences(world, "s") + sequences(world, "t")) == list(range(1, 31))
    assert sequences(world, "s"), "both take part"
    assert sequences(world, "t"), "both take part"


def test_a_newer_event_of_a_key_takes_the_place_of_one_that_was_lost_on_the_way() -> None:
    world = three()
    world.subscribe("s", "n", "x > 0", durable=True)
    world.run(2.0)
    begin(world, cut("b0", "b1"))
    world.run(3.0)
    for x in (1, 2):
        world.publish("p", {"x": x}, key="k", lifetime=FOREVER)
    world.run(5.0)
    world.simulation.end(cut("b0", "b1"))
    world.run(20.0)
    assert sequences(world, "s") == [2]
    assert entries(world) == {"b0": 1, "b1": 0, "b2": 0}


def test_a_new_log_on_an_empty_disk_is_another_log() -> None:
    """What only the lost disk held is lost by contract; nothing is told twice, and life goes on."""
    world = three()
    world.subscribe("s", "n", "x > 0", durable=True)
    world.run(2.0)
    world.publish("p", {"x": 1}, lifetime=FOREVER)
    world.run(3.0)
    world.simulation.crash("b0")
    world.run(4.0)
    world.simulation.restart("b0", keep_disk=False)
    world.run(6.0)
    world.publish("p", {"x": 2}, lifetime=FOREVER)
    world.run(20.0)
    assert sequences(world, "s") == [1, 2]
    assert [log for log in recovery(world, "b2").logs() if log.startswith("b0#")] != ["b0#0000000000000000"]
    report = check(world.rows, t_sub=1.0, t_diff=5.0)
    assert report.holds, report.story


def test_clocks_that_differ_do_not_matter() -> None:
    """Lifetimes travel as what is left of them."""
    world = three()
    world.simulation.hosts["b0"].clock.jump(5000.0)
    world.simulation.hosts["b2"].clock.jump(-3000.0)
    world.run(1.0)
    world.publish("p", {"x": 1}, lifetime=3.0)
    world.publish("p", {"x": 2}, lifetime=600.0)
    world.run(6.0)
    world.subscribe("s", "n", "x > 0")
    world.run(10.0)
    world.publish("p", {"x": 3})
    world.run(20.0)
    assert sequences(world, "s") == [2, 3]


def test_a_crash_before_the_sync_finds_nothing_acknowledged_and_nothing_sent_on() -> None:
    """The publisher tries again, and everybody hears the event once."""
    world = World("tidings", line(3), seed=1, settings=SimulationSettings(check=True, disk_seconds=0.5))
    world.add_client("p", "b0")
    world.add_client("s", "b2")
    world.subscribe("s", "n", "x > 0", durable=True)
    world.run(4.0)
    world.publish("p", {"x": 1})
    world.run(4.4)
    world.simulation.crash("b0")
    assert world.applications["p"].receipts == []
    assert sequences(world, "s") == []
    world.run(6.0)
    world.simulation.restart("b0")
    world.run(20.0)
    assert len(world.applications["p"].receipts) == 1
    assert sequences(world, "s") == [1]


def test_all_brokers_crash_at_once_and_nothing_acknowledged_is_lost() -> None:
    world = three()
    world.subscribe("s", "n", "x > 0", durable=True)
    world.run(2.0)
    begin(world, cut("b1", "b2"))
    world.run(3.0)
    for x in (1, 2, 3):
        world.publish("p", {"x": x})
    world.run(4.0)
    assert len(world.applications["p"].receipts) == 3
    for broker in ("b0", "b1", "b2"):
        world.simulation.crash(broker)
    world.simulation.end(cut("b1", "b2"))
    world.run(5.0)
    for broker in ("b0", "b1", "b2"):
        world.simulation.restart(broker)
    world.run(20.0)
    assert sequences(world, "s") == [1, 2, 3]


def test_state_in_the_middle_does_not_grow_with_remote_subscribers() -> None:
    """Ten times the subscribers with the same filters: the same state at every other broker."""
    few, many = _state(subscribers=10), _state(subscribers=100)
    assert few == many


def _state(subscribers: int) -> dict[str, tuple[int, ...]]:
    world = World("tidings", star(5), seed=3)
    world.add_client("p", "b1")
    for number in range(subscribers):
        world.add_client(f"s{number}", "b4")
        durable = number % 2 == 0
        world.subscribe(f"s{number}", "n", f"x > {number % 10}", durable=durable, policy=Policy.DROP_NEWEST)
    world.run(3.0)
    for x in range(20):
        world.publish("p", {"x": x}, lifetime=FOREVER if x % 4 == 0 else 0.0)
    world.run(15.0)
    assert len(world.applications["s0"].received) == 19
    return {
        name: (
            node.slots["routing"].table_size(),
            node.slots["recovery"].size(),
            node.slots["recovery"].waiting(),
            node.slots["delivery"].figures()["entries"],
        )
        for name, node in world.nodes()
        if name != "b4"
    }


def test_a_plan_of_crashes_with_lost_disks_breaks_no_promise_of_safety() -> None:
    world = three(q="b2", t="b1")
    for client in ("s", "t"):
        world.subscribe(client, "n", "x > 0", durable=client == "s")
    crashes = tuple(
        Incident(kind=kind, at=at, until=at + 1.0, nodes=(node,))
        for kind, at, node in ((DISK_LOSS, 4.0, "b0"), (CRASH, 7.0, "b1"), (DISK_LOSS, 10.0, "b1"))
    )
    world.simulation.plan(FaultPlan(incidents=crashes))
    for step in range(60):
        client = "p" if step % 2 else "q"
        at = 2.0 + step / 5
        world.simulation.call_at(at, lambda c=client, s=step: world.publish(c, {"x": s}, lifetime=FOREVER))
    world.run(60.0)
    report = check(world.rows, t_sub=60.0, t_diff=60.0)
    for name in ("legality", "validity", "fifo", "lp1", "lp4"):
        assert report[name].holds, report[name].story


# -- looking -------------------------------------------------------------------------------------


def detach(world: World, client: str, name: str) -> None:
    """The application goes away without ending its durable subscription."""
    from tidings.protocol.inputs import ClientLeave

    ref = world.applications[client].refs.pop(name)
    world.simulation.input(client, ClientLeave(-1, ref))


def recovery(world: World, broker: str) -> Any:
    return world.simulation.hosts[broker].machine.slots["recovery"]  # type: ignore[attr-defined]


def figures(world: World, broker: str) -> dict[str, Any]:
    return dict(world.nodes())[broker].slots["delivery"].figures()


def entries(world: World) -> dict[str, int]:
    return {name: node.slots["delivery"].figures()["entries"] for name, node in world.nodes()}


def test_what_is_sent_over_a_broken_link_while_a_subscription_ends_is_not_remembered_as_told() -> None:
    """Found by a seed: the broker stood still, read the client's last word after the link had broken,
    and took for heard what it sent then. The subscription comes back under its name and hears it."""
    from tests.simulation._tidings import judge, play
    from tests.simulation.test_tidings_faults import KINDS, trouble

    judge(play(1455, faults=trouble(*KINDS), brokers=9, absences=True, begin=0.0))


def test_a_durable_subscriber_that_leaves_keeps_its_token_through_a_crash_of_its_broker() -> None:
    """Found by a seed: the broker crashed with the last acknowledgements, while the client was away."""
    from tests.simulation._tidings import judge, play
    from tests.simulation.test_tidings_faults import KINDS, trouble

    judge(play(1139, faults=trouble(*KINDS), brokers=3 + 1139 % 9, absences=True))


@pytest.mark.parametrize("system", ["intermediary", "tidings"])
def test_a_crash_right_after_a_new_filter_keeps_what_it_and_the_old_one_are_owed(system: str) -> None:
    """Found by a seed: the new filter was on the disk, and beside it how far the old one had come."""
    overlay = line(3) if system == "tidings" else OverlayGraph(("b0",), ())
    far, near = overlay.brokers[0], overlay.brokers[-1]
    world = World(system, overlay, seed=1, settings=SimulationSettings(check=True))
    for client, broker in {"p": far, "s": near}.items():
        world.add_client(client, broker)
    world.subscribe("s", "n", "x < 5", durable=True)
    world.run(2.0)
    for x in (9, 1):
        world.publish("p", {"x": x}, lifetime=FOREVER)
    world.run(4.0)
    detach(world, "s", "n")
    world.run(5.0)
    world.publish("p", {"x": 2})  # owed under the old filter, and wanted under the new one
    world.run(6.0)
    if system == "tidings":
        begin(world, cut("b0", "b1"))  # so that nothing is read before the crash
        world.run(7.0)
    world.subscribe("s", "n", "x < 3 OR x > 8", durable=True)
    received = len(world.applications["s"].received)
    while "n" not in world.applications["s"].refs:
        world.run(world.simulation.now + 0.0001)
    assert len(world.applications["s"].received) == received
    world.simulation.crash(near)
    world.run(8.0)
    world.simulation.restart(near)
    if system == "tidings":
        world.simulation.end(cut("b0", "b1"))
    world.run(30.0)
    assert sorted(sequences(world, "s")) == [1, 2, 3]
    assert len(set(sequences(world, "s"))) == 3


def test_an_event_that_is_owed_under_an_earlier_filter_outlives_a_crash_before_its_acknowledgement() -> None:
    """The cursor in the log of b0 forgot the earlier filter when it was live. After the crash the event was
    not asked for: it was published before the subscription took its new filter, and its lifetime was over."""
    world = three()
    world.run(1.0)
    world.subscribe("s", "n", "EXISTS x", durable=True)
    world.run(3.0)
    world.simulation.input("s", ClientLeave(world.next_call(), world.applications["s"].refs.pop("n")))
    world.run(3.5)
    world.publish("p", {"x": 1})
    world.run(4.0)
    delivery: Any = world.simulation.hosts["b2"].machine.slots["delivery"]  # type: ignore[attr-defined]
    for kind in (Ack, AckAll):  # its acknowledgements do not arrive
        delivery._handlers[kind] = lambda session, message, now: None
    world.subscribe("s", "n", "x > 0", durable=True)
    world.run(6.0)
    assert sequences(world, "s") == [1]
    for name in ("b2", "s"):  # and its client forgets it
        world.simulation.crash(name)
    world.run(6.5)
    for name in ("b2", "s"):
        world.simulation.restart(name)
    world.run(8.0)
    world.subscribe("s", "n", "x > 0", durable=True)
    world.run(30.0)
    assert sequences(world, "s") == [1, 1]
