"""Defects that seeds of the wide world found, each by the smallest run that shows it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.simulation._wide import run

from tidings.protocol import inputs as ins
from tidings.simulation import faults as fault
from tidings.simulation.faults import FaultPlan, Incident
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import line
from tidings.simulation.world import World


def two(**settings: float) -> World:
    """A durable subscriber at b1, a publisher at b0."""
    world = World("tidings", line(2), settings=SimulationSettings(check=True, **settings))
    world.add_client("d", "b1")
    world.add_client("p", "b0")
    world.run(1.0)
    world.subscribe("d", "n", "EXISTS x", durable=True)
    world.run(3.0)
    return world


def incident(
    kind: str, at: float, until: float, *nodes: str, cut: tuple[tuple[str, str], ...] = ()
) -> Incident:
    return Incident(kind=kind, at=at, until=until, nodes=nodes, cut=cut)


def test_a_publish_that_a_failed_disk_lost_is_not_acknowledged_when_it_is_sent_again() -> None:
    world = two()
    stop = incident(fault.STOP, 3.1, 5.0, "b0")
    world.simulation.plan(FaultPlan(incidents=(stop, incident(fault.SYNC_FAILURE, 4.5, 7.0, "b0"))))
    world.run(3.2)
    world.publish("p", {"x": 1})
    world.run(30.0)
    application = world.applications["p"]
    assert not application.receipts
    assert [failed.code for failed in application.failures] in (["unknown"], ["store"])


def test_a_durable_subscription_outlives_a_listener_whom_a_failed_disk_refuses() -> None:
    """The broker ended the subscription with the refused listener, and confirmed events that were
    owed to it."""
    world = two()
    leave = ins.ClientLeave(world.next_call(), world.applications["d"].refs.pop("n"))
    world.simulation.input("d", leave)
    world.run(3.5)
    world.publish("p", {"x": 1})
    world.simulation.plan(FaultPlan(incidents=(incident(fault.SYNC_FAILURE, 3.4, 8.0, "b1"),)))
    world.subscribe("d", "n", "EXISTS x", durable=True)
    world.run(7.0)
    assert [failed.code for failed in world.applications["d"].failures] == ["store"]
    assert not world.received("d")
    world.run(9.0)
    world.subscribe("d", "n", "EXISTS x", durable=True)
    world.run(20.0)
    assert [id.rpartition("-")[2] for _, id in world.received("d")] == ["1"]


@pytest.mark.parametrize("by", [0.0, -3600.0])
def test_a_log_that_replaces_a_lost_one_is_owed_whole_whatever_the_clock_of_its_reader_says(
    by: float,
) -> None:
    """A subscription seemed younger than events of the new log, since its broker's clock was set back."""
    world = two()
    simulation = world.simulation
    world.publish("p", {"x": 1})
    world.run(4.0)
    for name in ("b0", "b1"):
        simulation.crash(name)
    world.run(5.0)
    simulation.restart("b0", keep_disk=False)
    world.run(6.0)
    world.publish("p", {"x": 2})
    world.run(20.0)
    simulation.hosts["b1"].clock.set_wall(by)
    simulation.restart("b1")
    world.run(60.0)
    assert [id.rpartition("-")[2] for _, id in world.received("d")] == ["1", "2"]


@pytest.mark.parametrize("by", [0.0, -3600.0])
def test_a_first_page_that_comes_after_a_restart_holds_all_that_is_owed(by: float) -> None:
    """A subscription that had read nothing yet had its rights judged by its age, which a clock made too
    small."""
    world = two()
    world.add_client("e", "b1")
    cut = incident(fault.ISOLATE_ONE, 3.1, 30.0, cut=(("b0", "b1"), ("b1", "b0")))
    world.simulation.plan(FaultPlan(incidents=(cut,)))
    world.run(4.0)
    world.subscribe("e", "n", "EXISTS x", durable=True)
    world.run(5.0)
    world.publish("p", {"x": 1})
    world.run(6.0)
    world.simulation.crash("b1")
    world.run(20.0)
    world.simulation.hosts["b1"].clock.set_wall(by)
    world.simulation.restart("b1")
    world.run(60.0)
    assert [len(world.received(client)) for client in ("d", "e")] == [1, 1]


@pytest.mark.parametrize("is_read", [False, True])
def test_a_log_that_is_no_more_is_not_announced_by_a_broker_that_passed_that_on(is_read: bool) -> None:
    """It announced the log again to the broker that had asked, which then read anew what waited there.
    `is_read`: a subscription asked, not the broker that lacks an event."""
    world = World("tidings", line(3), settings=SimulationSettings(check=True))
    simulation = world.simulation
    world.add_client("d", "b2")
    world.add_client("p", "b0")
    world.run(1.0)
    world.subscribe("d", "n", "EXISTS x", durable=True, queue=1)
    world.run(5.0)
    simulation.disconnect("d", "b2")
    world.run(6.0)
    for x in (1, 2):
        world.publish("p", {"x": x}, lifetime=600.0)
    world.run(7.0)
    cut = incident(fault.ISOLATE_ONE, 7.0, 9.0, cut=(("b1", "b2"), ("b2", "b1")))
    simulation.plan(FaultPlan(incidents=(cut,)))
    world.run(8.0)
    world.publish("p", {"x": 3}, lifetime=600.0)  # b2 lacks it: b1 goes on to announce the log
    world.run(8.5)
    simulation.crash("b0")
    between: Any = simulation.hosts["b1"].machine
    recovery = between.slots["recovery"]
    recovery._inquire = lambda *lost: None
    if is_read:
        recovery._relay.ask = lambda *lost: None
        world.add_client("e", "b2")
    world.run(9.5)
    if is_read:
        world.subscribe("e", "n", "EXISTS x", durable=True, replay=True)
    simulation.restart("b0", keep_disk=False)
    world.run(15.0)
    world.publish("p", {"x": 4})
    world.run(20.0)
    simulation.connect("d", "b2")
    world.run(40.0)
    assert [each.event["x"] for each in world.applications["d"].received] == [1, 4]


def test_slow_links_that_overlap_end_with_their_incidents() -> None:
    """Their factors were multiplied: what was sent meanwhile was on its way for minutes, all else
    behind it."""
    world = two()
    slow = Incident(kind=fault.SLOW_LINK, at=3.1, until=5.0, cut=(("b0", "b1"),), amount=40.0)
    world.simulation.plan(FaultPlan(incidents=(slow, slow, slow)))
    world.run(4.0)
    world.publish("p", {"x": 1})
    world.run(7.0)
    assert len(world.received("d")) == 1


@pytest.mark.parametrize(
    ("system", "seed"),
    [
        ("tidings", 35),  # a token was dropped with a subscription that the broker ended
        ("tidings", 37),  # a log that began on an empty disk, and a neighbour that had not spoken
        ("tidings", 145),
        ("tidings", 169),
        ("tidings", 50),  # a broker confirmed for durable subscriptions after its disk had failed
        ("tidings", 80),
        ("tidings", 184),  # a publish that a failed disk lost was answered by its number
        ("tidings", 2144),  # a durable subscription was ended with a listener whom a failed disk refused
        ("tidings", 1910),  # events of a new log seemed older than a subscription, whose clock was set back
        ("tidings", 1355),
        ("tidings", 718),  # a member of a group that was refused forgot what it had committed
        ("tidings-group", 99),  # a coordinator forgot after its restart how young its log was
        ("tidings-group", 36),  # a member whose disk was full showed a page without what it had committed
        ("tidings-group", 197),  # an entry was committed that one disk had
        ("tidings-group", 237),  # the answer to a proposal that was committed before was lost with its link
        ("tidings-group", 240),
        ("tidings-group", 138),  # a short page of a copy was taken for the end of the log
        ("tidings-group", 369),  # a coordinator waited for a number whose event was committed by another way
        ("tidings-group", 774),  # a publisher went on at another member; the earlier event was placed behind
        ("tidings-group", 843),  # a coordinator with an empty disk led the view of its earlier life
        ("tidings-group", 894),  # a member that its view named by an earlier life said that it had caught up
        ("tidings-group", 2522),  # a publish under way was refused by a member whose disk had failed
        ("tidings-group", 474),  # a publish was refused as too large that another member had accepted
        ("tidings-group", 1062),
        ("tidings-group", 1113),  # another log was committed further than the best one, which held as much
        ("tidings-group", 9195),  # a member took back committed entries: its source had restarted with fewer
        ("tidings", 634),  # a transient subscription that ended released what the log kept for a durable one
        ("tidings-group", 42039),  # opened while the disk was full, ended since, and opened again by the disk
    ],
)
def test_seeds_that_found_a_defect_hold(system: str, seed: int) -> None:
    seen = run(seed, system=system, keyed=False, returning=False)
    assert not seen.broken, seen.broken


@pytest.mark.parametrize("seed", [2966, 5767, 6076, 8927, 6520])
def test_seeds_of_the_campaign_that_found_a_defect_hold(seed: int) -> None:
    """A broker between told an empty log that no superseded event is needed before it knew; another announced
    a log whose end it had passed on."""
    seen = run(seed)
    assert not seen.broken, seen.broken


@pytest.mark.parametrize("seed", [82525, 82375, 82168])
def test_seeds_with_keys_that_found_a_defect_hold(seed: int) -> None:
    """An event that no log holds ended a later one of its key; one that arrived live ended a newer one that
    was read before it."""
    seen = run(seed, system="tidings", returning=False)
    assert not seen.broken, seen.broken
