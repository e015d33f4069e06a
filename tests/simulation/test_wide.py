"""The wide world: what its seeds draw, that they replay, and that its observer says no."""

from __future__ import annotations

import os
import subprocess
import sys
from random import Random

import msgspec
import pytest
from tests.simulation._wide import run

from tidings.availability.records import Append, Forget, Put
from tidings.language import parse_filter
from tidings.model.event import FOREVER, Event
from tidings.protocol import effects as fx
from tidings.protocol.delivery.subscription_state import SubscriptionState
from tidings.protocol.proposals import PlacedEvent, Proposal
from tidings.protocol.recovery.group_log import TABLE
from tidings.runtime.client_ingress import ClientIngress
from tidings.security.principal import Principal, ProofMethod
from tidings.security.users import NO_USERS, parse_users
from tidings.simulation.topology import line, mesh
from tidings.simulation.wide.drawing import (
    GROUP,
    TIDINGS,
    DrawnPublish,
    draw,
    draw_limits,
    draw_size,
    is_disabled,
)
from tidings.simulation.wide.guarded import GuardedNode, GuardRules
from tidings.simulation.wide.hostile import KINDS, HostileClient
from tidings.simulation.wide.limit_meter import LimitMeter
from tidings.simulation.wide.observer import BrokenPromise, Observer
from tidings.simulation.wide.running import events_in, sized_event
from tidings.simulation.world import World
from tidings.wire.codec import Codec

PRINT = "from tests.simulation._wide import run; print(run(1).fingerprint, run(18).fingerprint)"


def test_a_seed_replays_byte_for_byte() -> None:
    """In this process, and in others that hash texts differently."""
    here = f"{run(1).fingerprint} {run(18).fingerprint}"
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        there = subprocess.run([sys.executable, "-c", PRINT], env=environment, capture_output=True, text=True,
            check=True)  # fmt: skip
        assert there.stdout.strip() == here
    assert run(3).fingerprint != run(1).fingerprint


def test_seeds_draw_both_systems_in_their_shares() -> None:
    systems = [draw(seed).system for seed in range(200)]
    assert systems.count(TIDINGS) >= 0.6 * 200
    assert systems.count(GROUP) >= 0.3 * 200


def test_sizes_reach_every_limit() -> None:
    rng = Random(1)
    limits = draw_limits(rng)
    sizes = [draw_size(limits, rng) for _ in range(2000)]
    assert max(sizes) == limits.event_bytes + 1
    assert sizes.count(limits.event_bytes) > 50
    assert sorted(sizes)[1000] < 300, "most are small"


@pytest.mark.parametrize("size", [200, 255, 256, 257, 300, 1000, 5000])
def test_an_event_is_exactly_as_large_as_was_drawn(size: int) -> None:
    event = sized_event(DrawnPublish(0.0, "p", {"x": 1}, size, FOREVER), "0123456789ab-17")
    assert size - 1 <= len(msgspec.msgpack.encode(event)) <= size


# -- the observer ----------------------------------------------------------------------------------


def observer(*, grouped: bool = False) -> Observer:
    world = World(GROUP if grouped else TIDINGS, mesh(3) if grouped else line(2))
    return Observer(world, LimitMeter(world.limits), grouped=grouped)


def published(watch: Observer, number: int = 1, lifetime: float = 0.0) -> Event:
    event = Event("p", str(number), {"x": number}, lifetime=lifetime)
    watch.published[event.identity] = event
    return event


def test_an_acknowledged_event_that_is_owed_is_in_some_log() -> None:
    watch = observer()
    watch.stands("d/n", parse_filter("x > 0"), "b1")
    event = published(watch)
    with pytest.raises(BrokenPromise, match="is in no log"):
        watch.acknowledged(event.identity)


def test_what_is_owed_is_not_forgotten() -> None:
    watch = observer()
    watch.stands("d/n", parse_filter("x > 0"), "b1")
    event = published(watch)
    watch.committed("b0", [Append(1, event, 0.0)])
    watch.acknowledged(event.identity)
    with pytest.raises(BrokenPromise, match="no copy is left"):
        watch.committed("b0", [Forget(1)])


def test_what_was_received_may_be_forgotten_and_is_not_received_again() -> None:
    watch = observer()
    watch.stands("d/n", parse_filter("x > 0"), "b1")
    event = published(watch)
    watch.committed("b0", [Append(1, event, 0.0)])
    watch.acknowledged(event.identity)
    assert watch.pending == 1
    watch.notified("d/n", event)
    assert watch.pending == 0
    watch.committed("b0", [Forget(1)])
    with pytest.raises(BrokenPromise, match="twice"):
        watch.notified("d/n", event)


def test_what_lives_forever_is_not_forgotten() -> None:
    watch = observer()
    event = published(watch, lifetime=FOREVER)
    watch.committed("b0", [Append(1, event, 0.0)])
    watch.acknowledged(event.identity)
    with pytest.raises(BrokenPromise, match="lives forever"):
        watch.committed("b0", [Forget(1)])


def test_a_replaced_disk_forgives_what_only_it_held() -> None:
    watch = observer()
    watch.stands("d/n", parse_filter("x > 0"), "b1")
    lost, kept = published(watch, 1), published(watch, 2)
    watch.committed("b0", [Append(1, lost, 0.0)])
    watch.committed("b1", [Append(1, kept, 0.0)])
    for event in (lost, kept):
        watch.acknowledged(event.identity)
    watch.replaced("b0")
    assert set(watch.owed) == {kept.identity}
    watch.replaced("b1")
    assert watch.pending == 0, "the subscription was on that disk"


def tail(offset: int, event: Event) -> Put:
    placed = PlacedEvent(offset, Proposal(event, "life", 1, is_own=True))
    return Put(TABLE, str(offset), msgspec.msgpack.encode(placed))


def test_what_a_group_commits_is_on_a_majority_of_disks() -> None:
    watch = observer(grouped=True)
    event = published(watch)
    watch.committed("b0", [tail(1, event)])
    watch._world.simulation.hosts["b0"].machine.slots["recovery"].committed = 1  # type: ignore[attr-defined]
    with pytest.raises(BrokenPromise, match="committed offset 1"):
        watch.stepped("b0", None, 0.0)
    watch = observer(grouped=True)
    watch.committed("b0", [tail(1, event)])
    watch.committed("b2", [tail(1, event)])
    watch._world.simulation.hosts["b0"].machine.slots["recovery"].committed = 1  # type: ignore[attr-defined]
    watch.stepped("b0", None, 0.0)


def test_one_offset_of_a_group_is_one_event() -> None:
    watch = observer(grouped=True)
    watch.committed("b0", [Append(1, published(watch, 1), 0.0)])
    with pytest.raises(BrokenPromise, match="elsewhere"):
        watch.committed("b1", [Append(1, published(watch, 2), 0.0)])


# -- hostile clients and rights ----------------------------------------------------------------------


def test_a_hostile_client_builds_every_message_and_most_are_well_formed() -> None:
    hostile = HostileClient("mallory", "b0", rng=Random(1), names=("d0", "jobs"), seen=lambda event: None)
    codec = Codec()
    built = [hostile._message() for _ in range(400)]
    assert {type(message) for message in built} == set(KINDS)
    plain = [message for message in built if "nan" not in repr(message)]
    assert len(plain) > 300
    assert [codec.decode(codec.encode(message)) for message in plain] == plain


def test_a_client_is_sent_what_its_principal_may_read_and_no_more() -> None:
    sent: list[tuple[str, int]] = []
    users = parse_users(
        """
        [users.p]
        [users.few]
        [[allow]]
        who = "p"
        action = "publish"
        [[allow]]
        who = "few"
        action = "subscribe"
        filter = "k = 0"
        """,
        read=lambda name: b"",
    )
    rules = GuardRules(users, ("b0", "b1"), ClientIngress)
    rules.sent = lambda principal, message: sent.extend(
        (principal.name, e.attributes["k"]) for e in events_in(message)
    )
    world = World(TIDINGS, line(2), wrap=lambda node: GuardedNode(node, rules))
    world.add_client("p", "b0")
    world.add_client("few", "b1")
    world.run(1.0)
    world.subscribe("few", "n", "EXISTS k", durable=True)
    world.subscribe("p", "n", "EXISTS k")
    world.run(2.0)
    for k in (0, 1, 0):
        world.publish("p", {"k": k})
    world.run(3.0)
    assert sent == [("few", 0), ("few", 0)]
    assert [failed.code for failed in world.applications["p"].failures] == ["refused"]
    rules.replace(NO_USERS)
    world.publish("p", {"k": 0})
    world.run(4.0)
    assert len(sent) == 2
    assert len(world.applications["p"].failures) == 2


def test_waiting_bytes_that_no_quota_counts_break_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SubscriptionState, "count_queued", lambda self, size: None)
    assert "bytes for a principal and counts" in run(1).broken


def test_a_disabled_user_that_is_let_in_breaks_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    seed = next(seed for seed in range(20) if is_disabled(draw(seed)))
    assert not run(seed).broken
    found = GuardRules.principal
    monkeypatch.setattr(
        GuardRules,
        "principal",
        lambda self, client: found(self, client) or Principal(client, ProofMethod.SCRAM),
    )
    assert "after it was disabled" in run(seed).broken


def test_a_read_of_more_than_a_page_breaks_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def unbounded(request: int, from_offset: int, limit: int, max_bytes: int) -> fx.Fetch:
        return fx.Fetch(request, from_offset, limit, 1 << 40)

    monkeypatch.setattr("tidings.protocol.disk.Fetch", unbounded)
    assert "asked its disk for" in run(1).broken
