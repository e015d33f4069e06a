"""Events of every size between brokers: what `publish` accepts is delivered, and what it does not accept is
refused.

All messages pass through the real codec with its frame limit; limits are small, so that they are met.
"""

from __future__ import annotations

from typing import Any

import pytest

from tidings.language import parse_filter
from tidings.model.event import Event
from tidings.protocol import messages as msg
from tidings.protocol.effects import CallResult
from tidings.protocol.inputs import ClientAsk
from tidings.protocol.limits import ResourceLimits
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import line
from tidings.simulation.world import World
from tidings.systems import Site, find_system
from tidings.wire.codec import Codec

LIMITS = ResourceLimits(
    frame_bytes=64 << 10, envelope_bytes=4 << 10, batch_bytes=8 << 10, page_bytes=8 << 10, page_count=64,
    batch_count=64, delivery_bytes=32 << 10,
)  # fmt: skip


def world_of(system: str = "tidings", brokers: int = 2, limits: ResourceLimits = LIMITS) -> World:
    overlay = line(brokers)
    site = Site(name="b0", neighbours=("b1",), brokers=overlay.brokers, links=overlay.links)
    slots = find_system(system).strategies(site)
    declared = tuple(message for slot in slots.values() for message in slot.messages)
    codec = Codec(declared, max_frame_bytes=limits.frame_bytes)
    world = World(system, overlay, settings=SimulationSettings(check=True, codec=codec), limits=limits)
    world.simulation.plan_rough()
    world.run(1.0)
    return world


def largest(world: World, client: str, **fields: Any) -> int:
    """The largest payload that fits the publish limit."""
    machine: Any = world.simulation.hosts[client].machine
    probe = Event(client, f"{machine.incarnation}-1000", {"x": 1000}, payload=b"", **fields)
    return LIMITS.event_bytes - len(msg.msgspec.msgpack.encode(probe)) - 8  # type: ignore[attr-defined]


@pytest.mark.parametrize(("size", "count"), [(100, 250), (700, 250), (7_000, 100), (50_000, 20)])
def test_a_durable_subscriber_behind_a_restarted_broker_hears_everything(size: int, count: int) -> None:
    world = world_of()
    world.add_client("p", "b0")
    world.add_client("s", "b1")
    world.run(2.0)
    world.subscribe("s", "mine", "EXISTS x", durable=True)
    world.run(4.0)
    world.simulation.crash("b1")
    world.simulation.notice("b1")
    world.run(6.0)
    for number in range(count):
        world.publish("p", {"x": number}, payload=b"y" * size)
    world.run(15.0)
    assert len(world.applications["p"].receipts) == count
    world.simulation.restart("b1")
    world.run(60.0)
    received = [notify.event["x"] for notify in world.applications["s"].received]
    assert received == list(range(count))


def test_reading_the_log_returns_whatever_the_events_weigh() -> None:
    world = world_of(brokers=1, system="intermediary")
    world.add_client("p", "b0")
    world.run(2.0)
    for number in range(60):
        world.publish("p", {"x": number}, payload=b"y" * 2_000, lifetime=1000.0)
    world.run(4.0)
    answers: list[msg.LogRead] = []
    hear = world.simulation.on_client_effect
    assert hear is not None

    def note(client: str, effect: Any) -> None:
        if type(effect) is CallResult and isinstance(effect.value, msg.LogRead):
            answers.append(effect.value)
        else:
            hear(client, effect)

    world.simulation.on_client_effect = note
    after, found = 0, 0
    for call in range(9000, 9100):
        world.simulation.input("p", ClientAsk(call, msg.ReadLog(call, parse_filter("TRUE"), after, 256)))
        world.run(world.simulation.now + 1.0)
        page = answers[-1]
        found, after = found + len(page.entries), page.upto
        if after >= page.end:
            break
    assert found == 60
    assert len(answers) > 10, "each page is bounded by bytes"


@pytest.mark.parametrize("system", ["tidings", "siena", "network-of-servers"])
def test_the_largest_event_that_is_accepted_is_delivered_near_and_far(system: str) -> None:
    world = world_of(system, brokers=3)
    world.add_client("p", "b0")
    for host, broker in enumerate(("b0", "b2")):
        world.add_client(f"s{host}", broker)
    world.run(2.0)
    for host in range(2):
        world.subscribe(f"s{host}", "mine", "EXISTS x")
    world.run(4.0)
    world.publish("p", {"x": 1}, payload=b"y" * largest(world, "p"))
    world.run(10.0)
    assert len(world.applications["p"].receipts) == 1
    assert [len(world.received(f"s{host}")) for host in range(2)] == [1, 1]


@pytest.mark.parametrize("system", ["tidings", "siena", "tidings-group", "epidemic-push"])
def test_an_event_over_the_limit_is_refused_at_publish_with_the_limit_named(system: str) -> None:
    """Also by a client that does not know the limit of its broker."""
    limits = ResourceLimits(frame_bytes=256 << 10, envelope_bytes=4 << 10, batch_bytes=8 << 10)
    world = World(system, line(2), limits=limits)
    world.add_client("p", "b0")
    world.run(5.0)
    machine: Any = world.simulation.hosts["p"].machine
    machine._event_bytes = 1 << 30
    world.publish("p", {"x": 1}, payload=b"y" * limits.frame_bytes)
    world.publish("p", {"x": 2})
    world.run(10.0)
    refused = world.applications["p"].failures
    assert [failed.code for failed in refused] == ["too large"]
    most = limits.datagram_event_bytes if system == "epidemic-push" else limits.event_bytes
    assert f"{most} at most" in refused[0].reason
    assert len(world.applications["p"].receipts) == 1, "the next one is accepted"


def test_interest_that_one_frame_does_not_hold_passes_in_parts() -> None:
    """Ten times as many filters as fit a frame are told to the neighbour, whole, and again after
    a restart."""
    world = world_of()
    world.add_client("p", "b0")
    world.add_client("s", "b1")
    world.run(2.0)
    many = ", ".join(f"'{'v' * 200}{number}'" for number in range(20))
    for number in range(60):
        world.subscribe("s", f"n{number}", f"x = {number} AND (name IN ({many}) OR EXISTS x)", durable=True)
    world.run(10.0)
    world.simulation.crash("b0")
    world.simulation.notice("b0")
    world.run(12.0)
    world.simulation.restart("b0")
    world.run(20.0)
    for number in range(60):
        world.publish("p", {"x": number})
    world.run(40.0)
    assert sorted(n.event["x"] for n in world.applications["s"].received) == list(range(60))
