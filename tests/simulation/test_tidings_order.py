"""Publishers that go from broker to broker: each source's events are told in order, each once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.simulation._tidings import PATIENCE, SETTLE, Run, listenings, play, published
from tests.simulation.test_tidings_faults import KINDS, trouble

from tidings.history.check import check
from tidings.language.evaluate import accepts
from tidings.model.event import FOREVER, make_event
from tidings.protocol.delivery.publisher_migration import PublisherMigration, PublisherStays
from tidings.protocol.inputs import ClientAsk, ClientLeave
from tidings.protocol.messages import CommitStaged, StageEvents
from tidings.protocol.recovery.messages import ReplayReplies, ReplayReply
from tidings.simulation.faults import ISOLATE_ONE, Incident
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import line
from tidings.simulation.world import World

Patch = pytest.MonkeyPatch


def four() -> World:
    """b0 - b1 - b2 - b3; p publishes at b0, s subscribes at b2."""
    world = World("tidings", line(4), seed=1, settings=SimulationSettings(check=True))
    world.add_client("p", "b0")
    world.add_client("s", "b2")
    return world


def numbers(world: World, client: str = "s") -> list[int]:
    return [int(id.rpartition("-")[2]) for _, id in world.received(client)]


def cut(a: str, b: str) -> Incident:
    return Incident(kind=ISOLATE_ONE, at=0.0, until=0.0, cut=((a, b), (b, a)))


def far_away(durable: bool) -> World:
    """The first events are held up on the way from b0 when their publisher is at b3 already."""
    world = four()
    world.subscribe("s", "n", "x > 0", durable=durable)
    world.run(2.0)
    world.publish("p", {"x": 1})
    world.run(4.0)
    world.simulation.begin(cut("b0", "b1"))
    world.run(5.0)
    for x in (2, 3):
        world.publish("p", {"x": x})
    world.run(6.0)
    assert len(world.applications["p"].receipts) == 3
    world.move("p", "b3")
    world.run(7.0)
    for x in (4, 5):
        world.publish("p", {"x": x})
    return world


@pytest.mark.parametrize("durable", [False, True])
def test_what_was_published_elsewhere_first_is_told_first(durable: bool) -> None:
    world = far_away(durable)
    world.run(12.0)
    assert len(world.applications["p"].receipts) == 5, "acknowledged, whatever others wait for"
    assert numbers(world) == [1]
    world.simulation.end(cut("b0", "b1"))
    world.run(25.0)
    assert numbers(world) == [1, 2, 3, 4, 5]


def test_a_batch_that_was_staged_comes_after_what_its_publisher_left_elsewhere() -> None:
    world = four()
    world.subscribe("s", "n", "x > 0", durable=True)
    world.run(4.0)
    world.simulation.begin(cut("b0", "b1"))
    world.run(5.0)
    world.publish("p", {"x": 1})
    world.run(6.0)
    world.move("p", "b3")
    world.run(7.0)
    batch = tuple(make_event({"x": x}, source="p", id=f"q-{x}") for x in (2, 3))
    for message in (StageEvents, CommitStaged):
        call = world.next_call()
        given = ("query", 0, 0, batch) if message is StageEvents else ("query", 0, 1)
        world._input("p", ClientAsk(call, message(call, *given)))
        world.run(world.simulation.now + 0.5)
    world.run(12.0)
    assert numbers(world) == [], "committed, and told to nobody before the first"
    world.simulation.end(cut("b0", "b1"))
    world.run(25.0)
    assert numbers(world) == [1, 2, 3]


def test_others_of_the_old_log_are_not_held_up() -> None:
    world = far_away(durable=True)
    world.add_client("q", "b1")
    world.run(8.0)
    world.publish("q", {"x": 1})
    world.run(12.0)
    assert [source for source, _ in world.received("s")] == ["p", "q"]


def test_a_publisher_that_goes_and_comes_back() -> None:
    world = four()
    world.subscribe("s", "n", "x > 0", durable=True)
    world.run(2.0)
    for x, broker in enumerate(["b3", "b0", "b1", "b0", "b3", "b2", "b0"], start=1):
        world.publish("p", {"x": x})
        world.run(world.simulation.now + 0.004)  # acknowledged, and hardly under way
        world.move("p", broker)
        world.run(world.simulation.now + 0.004)
    world.run(20.0)
    assert numbers(world) == list(range(1, 8))


def test_a_late_subscription_reads_the_logs_in_the_order_of_the_source() -> None:
    """What lives for ever is read from both logs; the page of the first is slow."""
    world = four()
    world.run(1.0)
    for x in (1, 2):
        world.publish("p", {"x": x}, lifetime=FOREVER)
    world.run(2.0)
    world.move("p", "b3")
    world.run(3.0)
    for x in (3, 4):
        world.publish("p", {"x": x}, lifetime=FOREVER)
    world.run(4.0)

    def is_of_b0(message: Any) -> bool:
        parts = message.parts if isinstance(message, ReplayReplies) else (message,)
        return any(isinstance(part, ReplayReply) and part.log.startswith("b0#") for part in parts)

    slowly(world, is_of_b0)
    world.subscribe("s", "n", "x > 0")
    world.run(20.0)
    assert numbers(world) == [1, 2, 3, 4]


def slowly(world: World, is_slow: Callable[[Any], bool], seconds: float = 3.0) -> None:
    """Some messages take their time."""
    send = world.simulation._send

    def late(host: Any, effect: Any) -> None:
        if is_slow(effect.message):
            world.simulation.call_at(world.simulation.now + seconds, lambda: send(host, effect))
        else:
            send(host, effect)

    world.simulation._send = late  # type: ignore[method-assign]


def test_a_subscriber_that_was_away_reads_in_the_order_of_the_source() -> None:
    world = four()
    world.subscribe("s", "n", "x > 0", durable=True, queue=2)
    world.run(2.0)
    world.simulation.input("s", ClientLeave(-1, world.applications["s"].refs.pop("n")))
    world.run(3.0)
    for x in range(1, 10):
        world.publish("p", {"x": x})
    world.run(4.0)
    world.move("p", "b3")
    world.run(5.0)
    for x in range(10, 20):
        world.publish("p", {"x": x})
    world.run(6.0)
    world.simulation.crash("b2")
    world.simulation.notice("b2")
    world.run(7.0)
    world.simulation.restart("b2")
    world.run(9.0)
    world.subscribe("s", "n", "x > 0", durable=True, queue=2)
    world.run(30.0)
    assert numbers(world) == list(range(1, 20))


def test_what_was_never_acknowledged_does_not_come_after_what_followed_it() -> None:
    """b0 has kept event 2 and could not say so; nobody knows, and b3 tells event 3 first."""
    world = four()
    world.subscribe("s", "n", "x > 0", durable=True)
    world.run(2.0)
    world.publish("p", {"x": 1})
    world.run(4.0)
    world.simulation.begin(cut("b0", "b1"))
    world.run(5.0)
    world.publish("p", {"x": 2})
    world.run(5.0026)  # on the disk; the answer is under way
    world.move("p", "b3")
    world.run(6.0)
    world.publish("p", {"x": 3})
    world.run(10.0)
    assert [failure.code for failure in world.applications["p"].failures] == ["unknown"]
    assert numbers(world) == [1, 3]
    world.simulation.end(cut("b0", "b1"))
    world.run(30.0)
    assert numbers(world) == [1, 3]
    assert [row.reason for row in world.rows if row.op == "drop"] == ["overtaken by a move"]


def test_order_is_given_up_after_a_while_and_counted() -> None:
    world = far_away(durable=True)
    world.run(120.0)
    assert numbers(world) == [1, 4, 5]
    node = world.simulation.hosts["b2"].machine
    assert node.slots["delivery"].figures()["order given up"] == 2  # type: ignore[attr-defined]


# -- seeds -----------------------------------------------------------------------------------------


def judge_moving(run: Run) -> None:
    """As every run of Tidings is judged, but for publishes whose outcome nobody knows."""
    world = run.world
    slow = run.over_at + PATIENCE / 2
    report = check(world.rows, t_sub=slow, t_diff=slow, contract="Tidings")
    broken = [name for name in report.broken if name != "gap_freedom"]
    assert not broken, f"{broken}: {[report[name].story for name in broken]}"
    acknowledged = {(r.source, r.id) for a in world.applications.values() for r in a.receipts}
    unknown = sum(f.code == "unknown" for a in world.applications.values() for f in a.failures)
    events = published(run.workload)
    assert len(acknowledged) + unknown == len(events)
    kept = {(source, int(id.rpartition("-")[2])) for source, id in acknowledged}
    for name, turns in listenings(run).items():
        delivered = [each for turn in turns for each in turn.received]
        assert len(delivered) == len(set(delivered)), f"{name} was told twice"
        assert all(in_order(turn.received) for turn in turns), f"{name} was told out of order"
        rows = [row for row in world.rows if row.subscription == name and row.op in ("sub", "usub")]
        if [row.op for row in rows] == ["sub"] and rows[0].time < SETTLE / 2 and run.begin >= SETTLE:
            wanted = turns[-1].asked.filter
            owed = {each for each in kept if accepts(wanted, events[each].event)}
            assert owed <= set(delivered), f"{name} never heard {sorted(owed - set(delivered))}"
    for name, node in world.nodes():
        figures = node.slots["delivery"].figures()
        assert node.slots["recovery"].waiting() == 0, f"{name}: something waits"
        assert (figures["waiting"], figures["reading"], figures["order given up"]) == (0, 0, 0), name


def in_order(delivered: list[tuple[str, int]]) -> bool:
    last: dict[str, int] = {}
    for source, number in delivered:
        if number <= last.get(source, 0):
            return False
        last[source] = number
    return True


def with_moves(seed: int) -> None:
    faults = trouble(*KINDS)
    judge_moving(play(seed, faults=faults, brokers=3 + seed % 9, absences=seed % 2 == 1, moving=True))


def test_publishers_move_and_nothing_goes_wrong() -> None:
    for seed in range(10):
        judge_moving(play(seed, moving=True))


# In 3255 and 3754 an event that no log holds overtook events of its source that waited in the log.
@pytest.mark.parametrize("seed", [*range(2000, 2024), 3255, 3754])
def test_publishers_move_amid_faults(seed: int) -> None:
    with_moves(seed)


@pytest.mark.soak
@pytest.mark.parametrize("hundred", range(21, 41))
def test_soak_publishers_move_amid_faults(hundred: int) -> None:
    for seed in range(100 * hundred, 100 * hundred + 100):
        with_moves(seed)


# -- defects ---------------------------------------------------------------------------------------


def nobody_waits(patch: Patch) -> None:
    patch.setattr(PublisherMigration, "must_wait", lambda self, stored, item: False)


def logs_forget_where_publishers_came_from(patch: Patch) -> None:
    patch.setattr(PublisherStays, "of", lambda self, source, offset: None)


def late_ones_are_told(patch: Patch) -> None:
    patch.setattr(PublisherMigration, "is_overtaken", lambda self, stored, item: False)


CASES: list[tuple[Callable[[Patch], None], Callable[[], None]]] = [
    (nobody_waits, lambda: test_what_was_published_elsewhere_first_is_told_first(True)),
    (
        logs_forget_where_publishers_came_from,
        test_a_late_subscription_reads_the_logs_in_the_order_of_the_source,
    ),
    (late_ones_are_told, test_what_was_never_acknowledged_does_not_come_after_what_followed_it),
]


@pytest.mark.parametrize(("defect", "check_of"), CASES, ids=[defect.__name__ for defect, _ in CASES])
def test_a_defect_is_caught(
    defect: Callable[[Patch], None], check_of: Callable[[], None], monkeypatch: Patch
) -> None:
    defect(monkeypatch)
    with pytest.raises(AssertionError):
        check_of()
