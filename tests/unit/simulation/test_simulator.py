"""The driver: time, order, links, disks and every fault, with machines that do nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.simulation._toys import Ping, Stage, record

from tidings.history.schema import Row
from tidings.protocol import effects as fx
from tidings.protocol import inputs as ins
from tidings.simulation import faults as fault
from tidings.simulation.faults import FaultPlan, Incident, Rates
from tidings.wire.codec import Codec

MANY = tuple(range(400))


def incident(kind: str, at: float, until: float, *nodes: str, **more: Any) -> Incident:
    return Incident(kind=kind, at=at, until=until, nodes=nodes, **more)


def cut(*pairs: str) -> dict[str, Any]:
    return {"cut": tuple((a, b) for a, b in pairs)}


# -- time and order ------------------------------------------------------------------------------


def test_a_message_takes_the_latency_of_its_link() -> None:
    stage = Stage(link_seconds=0.25)
    stage.send("a", "b", 1, at=1.0)
    stage.run(5)
    assert stage.arrivals("b") == [(1.25, 1)]
    assert stage.simulation.now == 5
    assert stage.simulation.sent == {"Ping": 1}


def test_a_link_is_first_in_first_out_and_same_moments_keep_their_order() -> None:
    stage = Stage("abc", ("ab", "bc"))
    stage.send("a", "b", *MANY)
    stage.send("c", "b", *MANY)
    stage.run(1)
    assert stage.got("b") == [*MANY, *MANY]


def test_a_slower_message_before_holds_back_the_faster_one_behind() -> None:
    stage = Stage()
    stage.simulation.plan(FaultPlan(incidents=(incident(fault.SLOW_LINK, 0, 1, amount=50.0, **cut("ab")),)))
    stage.send("a", "b", 1, at=0.9)
    stage.send("a", "b", 2, at=1.1)
    stage.run(5)
    assert stage.arrivals("b") == [(pytest.approx(1.4), 1), (pytest.approx(1.4), 2)]


def test_nobody_hears_what_is_sent_where_no_link_is() -> None:
    stage = Stage("abc", ("ab",))
    stage.send("a", "c", 1)
    stage.send("a", "nobody", 2)
    stage.run(1)
    assert stage.got("c") == []


def test_a_datagram_needs_no_link() -> None:
    stage = Stage("abc", ("ab",))
    stage.do("a", fx.Send("c", Ping(7), fx.Channel.DATAGRAM))
    stage.run(1)
    assert stage.got("c") == [7]


def test_the_deadline_wakes_a_machine_once() -> None:
    stage = Stage()
    stage.toy("a").deadline = 3.0
    stage.do("a")
    stage.do("a", at=1.0)
    stage.run(10)
    assert [at for at, i in stage.logs["a"] if isinstance(i, ins.TimerFired)] == [3.0]


def test_an_earlier_deadline_takes_the_place_of_a_later_one() -> None:
    stage = Stage()
    stage.toy("a").deadline = 8.0
    stage.do("a")
    stage.run(1)
    stage.toy("a").deadline = 2.0
    stage.do("a")
    stage.run(10)
    assert [at for at, i in stage.logs["a"] if isinstance(i, ins.TimerFired)] == [2.0]


def test_invariants_are_checked_after_every_step_when_asked_for() -> None:
    for wanted in (True, False):
        stage = Stage(check=wanted)
        stage.send("a", "b", 1, 2)
        stage.run(1)
        assert bool(stage.toy("b").checked) is wanted


def test_one_seed_one_run() -> None:
    def run(seed: int) -> list[tuple[float, int]]:
        stage = Stage(seed=seed)
        stage.simulation.plan(FaultPlan(Rates(0.2, 0.2, 0.2, 0.2)))
        stage.send("a", "b", *MANY)
        stage.run(5)
        return stage.arrivals("b")

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_processing_delays_line_up_at_a_busy_machine() -> None:
    stage = Stage(processing=lambda item: 0.1 if isinstance(item, ins.Received) else 0.0)
    stage.run(0.001)
    stage.send("a", "b", 1, 2, 3, at=1.0)
    stage.run(5)
    assert [at for at, _ in stage.arrivals("b")] == pytest.approx([1.11, 1.21, 1.31])


def test_bandwidth_spreads_messages_out() -> None:
    stage = Stage(bytes_per_second=100.0)
    stage.do("a", *(fx.Send("b", Ping(n, "x" * 90)) for n in (1, 2)), at=1.0)
    stage.run(20)
    (first, _), (second, _) = stage.arrivals("b")
    assert first > 1.9
    assert second - first == pytest.approx(first - 1.01)
    assert stage.simulation.bytes_sent > 180


def test_through_the_codec_a_message_comes_out_as_it_went_in() -> None:
    stage = Stage(codec=Codec([Ping]))
    stage.send("a", "b", 5)
    stage.run(1)
    assert stage.got("b") == [5]
    assert stage.simulation.bytes_sent > 0


# -- rates ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", fault.RATES)
def test_each_rate_fires_and_only_until_its_end(name: str) -> None:
    stage = Stage(codec=Codec([Ping]))
    stage.simulation.plan(FaultPlan(Rates(**{name: 0.3}), rates_until=10.0))
    stage.send("a", "b", *MANY)
    stage.run(9)
    got = stage.got("b")
    fired = stage.simulation.fired[name]
    assert 80 < fired < 160
    assert set(stage.simulation.fired) == {name}
    if name in (fault.LOSS, fault.CORRUPTION):
        assert got == sorted(set(got))
        assert len(got) == len(MANY) - fired
    elif name == fault.DUPLICATION:
        assert len(got) == len(MANY) + fired
        assert set(got) == set(MANY)
    else:
        assert sorted(got) == list(MANY)
        assert got != list(MANY)
    stage.send("a", "b", *MANY, at=11.0)
    stage.run(20)
    assert stage.simulation.fired[name] == fired
    assert stage.got("b")[-len(MANY) :] == list(MANY)


def test_damage_that_the_codec_lets_pass_is_an_error_of_the_run() -> None:
    class Blind(Codec):
        def decode(self, frame: Any) -> Any:
            return Ping(0)

    stage = Stage(codec=Blind([Ping]))
    stage.simulation.plan(FaultPlan(Rates(corruption=1.0)))
    stage.send("a", "b", 1)
    with pytest.raises(AssertionError, match="went unnoticed in Ping"):
        stage.run(1)


def test_rates_spare_the_links_of_clients() -> None:
    stage = Stage()
    stage.simulation.hosts["b"].is_broker = False
    stage.simulation.plan(FaultPlan(Rates(loss=1.0)))
    stage.send("a", "b", *MANY)
    stage.run(1)
    assert stage.got("b") == list(MANY)


# -- disks, crashes, stops -----------------------------------------------------------------------


def offsets(stage: Stage) -> list[int]:
    """What the last start found on the disk of a."""
    started = [i for _, i in stage.logs["a"] if isinstance(i, ins.Started)][-1]
    return [entry.offset for entry in started.state.entries]


def test_what_is_persisted_is_reported_and_there_after_a_crash() -> None:
    stage = Stage(disk_seconds=0.5)
    stage.do("a", fx.Persist(1, (record(1),)))
    stage.run(1)
    assert "Persisted" in stage.kinds("a")
    stage.simulation.crash("a")
    stage.simulation.restart("a")
    stage.run(2)
    assert offsets(stage) == [1]


def test_a_crash_loses_what_was_not_synced() -> None:
    stage = Stage(disk_seconds=0.5)
    stage.do("a", fx.Persist(1, (record(1),)))
    stage.run(0.4)
    assert stage.simulation.crash("a")
    assert not stage.simulation.crash("a"), "it is down already"
    stage.simulation.restart("a")
    stage.run(2)
    assert "Persisted" not in stage.kinds("a")
    assert offsets(stage) == []


def test_restart_without_its_disk_finds_nothing() -> None:
    stage = Stage()
    stage.do("a", fx.Persist(1, (record(1),)))
    stage.simulation.plan(FaultPlan(incidents=(incident(fault.DISK_LOSS, 1, 2, "a"),)))
    stage.run(5)
    assert offsets(stage) == []
    assert stage.simulation.fired == {fault.DISK_LOSS: 1}


def test_a_fetch_reads_what_was_persisted() -> None:
    stage = Stage()
    stage.do("a", fx.Persist(1, (record(1), record(2))))
    stage.run(1)
    stage.do("a", fx.Fetch(9, 2, 10, 1000))
    stage.run(2)
    (fetched,) = [i for _, i in stage.logs["a"] if isinstance(i, ins.Fetched)]
    assert (fetched.request, [entry.offset for entry in fetched.records]) == (9, [2])


def test_peers_notice_a_crash_and_a_restart() -> None:
    stage = Stage(detect_seconds=0.3)
    stage.simulation.plan(FaultPlan(incidents=(incident(fault.CRASH, 1, 3, "a"),)))
    stage.send("b", "a", 1, at=2.0)
    stage.send("b", "a", 2, at=4.0)
    stage.run(6)
    changes = [
        (at, type(i).__name__) for at, i in stage.logs["b"] if isinstance(i, ins.LinkDown | ins.LinkUp)
    ]
    assert changes[1:] == [(1.3, "LinkDown"), (3.3, "LinkUp")]
    assert stage.got("a") == [2]


def test_a_dead_machine_does_nothing_and_its_heir_hears_nothing_of_it() -> None:
    stage = Stage(detect_seconds=5)
    stage.simulation.crash("a")
    stage.send("b", "a", 1)
    stage.do("a", fx.Persist(1, (record(1),)))
    stage.run(0.5)
    stage.send("b", "a", 2)
    stage.simulation.restart("a")
    stage.run(1)
    assert stage.got("a") == []
    assert offsets(stage) == []


def test_a_quick_restart_still_breaks_connections() -> None:
    stage = Stage(detect_seconds=1.0)
    stage.run(1)
    stage.simulation.crash("a")
    stage.simulation.restart("a")
    stage.run(5)
    assert [kind for kind in stage.kinds("b") if kind.startswith("Link")] == ["LinkUp", "LinkDown", "LinkUp"]


def test_a_stopped_machine_goes_on_where_it_was() -> None:
    stage = Stage(detect_seconds=10)
    stage.simulation.plan(FaultPlan(incidents=(incident(fault.STOP, 1, 3, "b"),)))
    stage.send("a", "b", 1, 2, at=1.5)
    stage.run(6)
    assert stage.arrivals("b") == [(3.0, 1), (3.0, 2)]
    assert "Started" not in stage.kinds("b")[2:]


def test_two_stops_at_once_need_two_ends() -> None:
    stage = Stage(detect_seconds=10)
    stage.simulation.stop("b")
    stage.simulation.stop("b")
    stage.simulation.resume("b")
    stage.send("a", "b", 1)
    stage.run(1)
    assert stage.got("b") == []
    stage.simulation.resume("b")
    stage.run(2)
    assert stage.got("b") == [1]


def test_a_stopped_machine_does_not_remember_after_a_crash() -> None:
    stage = Stage(detect_seconds=10)
    stage.simulation.stop("b")
    stage.send("a", "b", 1)
    stage.run(1)
    stage.simulation.crash("b")
    stage.simulation.resume("b")
    stage.simulation.restart("b")
    stage.run(2)
    assert stage.got("b") == []


# -- partitions, slow links, clocks ---------------------------------------------------------------


def test_a_partition_cuts_both_ways_is_noticed_and_heals() -> None:
    stage = Stage(detect_seconds=0.3)
    both = incident(fault.PARTITION_HALVES, 1, 3, **cut("ab", "ba"))
    stage.simulation.plan(FaultPlan(incidents=(both,)))
    for number, at in ((1, 0.5), (2, 0.995), (3, 1.1), (4, 2.0), (5, 4.0)):
        stage.send("a", "b", number, at=at)
        stage.send("b", "a", number, at=at)
    stage.run(6)
    assert stage.got("b") == stage.got("a") == [1, 5], "what was in flight is lost too"
    changes = [
        (at, type(i).__name__) for at, i in stage.logs["a"] if isinstance(i, ins.LinkDown | ins.LinkUp)
    ]
    assert changes[1:] == [(1.3, "LinkDown"), (3.3, "LinkUp")]


def test_a_one_way_cut_lets_the_other_way_through_until_it_is_noticed() -> None:
    stage = Stage(detect_seconds=0.3)
    stage.simulation.plan(FaultPlan(incidents=(incident(fault.PARTITION_ONE_WAY, 1, 3, **cut("ab")),)))
    stage.send("a", "b", 1, at=1.1)
    stage.send("b", "a", 2, at=1.1)
    stage.run(6)
    assert stage.got("b") == []
    assert stage.got("a") == [2]
    assert "LinkDown" in stage.kinds("b")


def test_overlapping_cuts_end_one_by_one() -> None:
    stage = Stage(detect_seconds=0.1)
    plan = FaultPlan(
        incidents=(
            incident(fault.ISOLATE_ONE, 1, 3, **cut("ab", "ba")),
            incident(fault.PARTITION_RING, 2, 5, **cut("ab", "ba")),
        )
    )
    stage.simulation.plan(plan)
    stage.send("a", "b", 1, at=4.0)
    stage.send("a", "b", 2, at=6.0)
    stage.run(8)
    assert stage.got("b") == [2]
    assert stage.simulation.fired == {fault.ISOLATE_ONE: 1, fault.PARTITION_RING: 1}


def test_a_cut_between_strangers_does_not_count() -> None:
    stage = Stage("abc", ("ab",))
    stage.simulation.plan(FaultPlan(incidents=(incident(fault.ISOLATE_ONE, 1, 2, **cut("ac", "ca")),)))
    stage.run(3)
    assert not stage.simulation.fired


def test_a_slow_link_is_slow_for_a_while() -> None:
    stage = Stage(link_seconds=0.1)
    stage.simulation.plan(FaultPlan(incidents=(incident(fault.SLOW_LINK, 1, 3, amount=10.0, **cut("ab")),)))
    stage.send("a", "b", 1, at=1.5)
    stage.send("a", "b", 2, at=4.0)
    stage.run(6)
    assert stage.arrivals("b") == [(pytest.approx(2.5), 1), (pytest.approx(4.1), 2)]


def test_a_skewed_clock_moves_the_machine_not_the_world() -> None:
    stage = Stage()
    stage.simulation.plan(FaultPlan(incidents=(incident(fault.CLOCK_SKEW, 1, 2, "a", amount=100.0),)))
    rows: list[Row] = []
    stage.simulation.on_row = rows.append
    stage.do("a", fx.Record(Row(time=103.0, process="a", op="pub")), at=3.0)
    stage.run(5)
    assert stage.logs["a"][-1][0] == 103.0
    assert [row.time for row in rows] == [3.0], "a history has one clock"
    stage.toy("a").deadline = 110.0
    stage.do("a")
    stage.run(20)
    assert stage.logs["a"][-1][0] == 110.0
    assert stage.simulation.now == 20


# -- links that machines ask for -------------------------------------------------------------------


def test_connect_disconnect_and_probe() -> None:
    stage = Stage("abc", ("ab",))
    stage.do("a", fx.OpenLink("c"), fx.ProbePeer("c"), fx.ProbePeer("nobody"))
    stage.run(1)
    assert stage.kinds("c")[-1] == "LinkUp"
    probed = {i.peer: i.distance for _, i in stage.logs["a"] if isinstance(i, ins.Probed)}
    assert probed == {"c": pytest.approx(0.02), "nobody": None}
    stage.send("a", "c", 1)
    stage.run(2)
    stage.do("a", fx.CloseLink("c"))
    stage.send("a", "c", 2)
    stage.run(3)
    assert stage.got("c") == [1]
    assert stage.kinds("c")[-1] == "LinkDown"


def test_progress_is_told_on_long_runs() -> None:
    stage = Stage()
    stage.send("a", "b", *range(20_000))
    delivered: list[int] = []
    stage.simulation.run(5, lambda now, steps: delivered.append(steps))
    assert delivered == [10_000, 20_000]


def test_run_until_quiet_stops_as_soon_as_it_may() -> None:
    stage = Stage()
    stage.send("a", "b", 1, at=1.0)
    stage.send("a", "b", 2, at=5.0)
    assert stage.simulation.run_until_quiet(10, lambda: bool(stage.got("b")))
    assert stage.simulation.now < 2
    assert not stage.simulation.run_until_quiet(3, lambda: len(stage.got("b")) == 2)
    assert stage.simulation.run_until_quiet(10)
