"""The broker's benchmark: its generator against a real broker process, its plan against our codec."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tidings.errors import InputError, TidingsError
from tidings.language import accepts, parse_filter
from tidings.model.event import make_event
from tidings.protocol.messages import AckMode
from tidings_bench.broker import WORKS, brokers, run
from tidings_bench.broker.generators import compiler, load_ours
from tidings_bench.broker.plan import (
    CALL,
    CHANGE,
    ID,
    PAYLOAD,
    SEQUENCE,
    SYMBOL,
    TEXT,
    LoadPlan,
    content_filter,
    content_subscribers,
    publish_pieces,
    topic_subscribers,
)
from tidings_bench.broker.rows import BROKER_CPU, DELIVERED, OURS, better, compared
from tidings_bench.broker.slow import LITTLE, UNBOUNDED, deaf
from tidings_bench.broker.works import ROUNDS, measured, trouble

needs_compiler = pytest.mark.skipif(compiler() is None, reason="the load generator needs a C compiler")


@needs_compiler
def test_every_event_reaches_who_wants_it_once_and_in_order(tmp_path: Path) -> None:
    with brokers.ours(tmp_path) as broker:
        plan = LoadPlan(broker.port, content_subscribers(40, 4, 10), 2, symbols=4, bands=10)
        found = load_ours(plan, tmp_path, [broker.pid], count=2000, window=50, drain=30)
    assert trouble(found) == ""
    assert found["sent"] == found["received"] == found["acked"] == 2000
    assert found["broker_cpu_s"] > 0
    assert 0 < found["lat_p50_us"] <= found["lat_p99_us"] <= found["lat_max_us"]


@needs_compiler
def test_kept_publishes_are_acknowledged_by_a_broker_with_a_store(tmp_path: Path) -> None:
    with brokers.ours(tmp_path, store=True) as broker:
        plan = LoadPlan(broker.port, topic_subscribers(3), 4, AckMode.KEPT)
        found = load_ours(plan, tmp_path, [broker.pid], count=100, inflight=1, drain=30)
    assert trouble(found) == ""
    assert (found["acked"], found["received"]) == (100, 300)


@needs_compiler
def test_a_refused_publish_is_no_acknowledged_one(tmp_path: Path) -> None:
    with brokers.ours(tmp_path) as broker:
        found = load_ours(
            LoadPlan(broker.port, [], 1, AckMode.KEPT), tmp_path, [broker.pid], count=3, inflight=1, drain=30
        )
    assert (found["acked"], found["ack_errors"]) == (0, 3)
    assert trouble(found) == "3 ack_errors"


def test_a_publish_is_cut_at_each_of_its_fields() -> None:
    content = publish_pieces("p", "i", AckMode.AUTO, with_content=True)
    assert [kind for kind, _ in content if kind != TEXT] == [CALL, ID, SYMBOL, CHANGE, PAYLOAD, SEQUENCE]
    topic = publish_pieces("p", "i", AckMode.AUTO, with_content=False)
    assert [kind for kind, _ in topic if kind != TEXT] == [CALL, ID, PAYLOAD, SEQUENCE]


def test_every_event_of_the_content_work_is_wanted_by_one_subscriber() -> None:
    filters = [parse_filter(content_filter(symbol, band, 10)) for symbol in range(3) for band in range(10)]
    for symbol in range(3):
        for change in (-10.0, -8.0, -0.01, 0.0, 1.99, 2.0, 9.99):
            event = make_event({"symbol": symbol, "change": change}, source="p", id="1")
            assert sum(accepts(filter, event) for filter in filters) == 1


def test_a_ratio_above_one_is_better_whatever_the_unit() -> None:
    assert better(200.0, 100.0, DELIVERED) == 2.0
    assert better(10.0, 20.0, BROKER_CPU) == 2.0
    assert better(10.0, 0.0, DELIVERED) is None
    rows = list(compared("topic", 1, BROKER_CPU, {OURS: 10.0, "slow": 40.0, "fast": 20.0}))
    assert [(row["engine"], row["figure"], row["ratio_to_best_peer"]) for row in rows] == [
        (OURS, 10.0, 2.0),
        ("slow", 40.0, 0.5),
        ("fast", 20.0, 1.0),
        (f"{OURS} : slow", 4.0, None),
        (f"{OURS} : fast", 2.0, None),
    ]


def test_an_unknown_work_is_refused_with_those_that_exist() -> None:
    with pytest.raises(InputError, match="no work of this benchmark") as refused:
        list(run(only="content,hats"))
    assert all(name in str(refused.value.hint) for name in WORKS)


@needs_compiler
def test_who_does_not_read_takes_nothing_from_others(tmp_path: Path) -> None:
    with (
        brokers.ours(tmp_path) as broker,
        closing(deaf(broker.port, "d1", UNBOUNDED)),
        closing(deaf(broker.port, "d2", LITTLE)),
    ):
        plan = LoadPlan(broker.port, topic_subscribers(3))
        found = load_ours(plan, tmp_path, [broker.pid], count=3000, window=50, drain=30)
    assert trouble(found) == ""
    assert found["received"] == 9000


def test_engines_take_turns_and_the_median_of_their_rounds_counts() -> None:
    order: list[str] = []
    rates = {"ours": iter((5.0, 1.0, 3.0)), "peer": iter((9.0, 7.0, 8.0)), "broken": iter((1.0, 2.0, 3.0))}

    def measure(engine: str) -> Callable[[Path], dict[str, Any]]:
        def one(folder: Path) -> dict[str, Any]:
            order.append(engine)
            rate = next(rates[engine])
            if engine == "broken" and rate == 2.0:
                raise TidingsError("it ended")
            return {"rate": rate, "name": engine, "lost": 1 if (engine, rate) == ("peer", 9.0) else 0}

        return one

    failed: list[tuple[str, str]] = []
    token = ROUNDS.set(3)
    try:
        found = measured({engine: measure(engine) for engine in rates}, failed)
    finally:
        ROUNDS.reset(token)
    assert order == ["ours", "peer", "broken"] * 2 + ["ours", "peer"]
    assert found["ours"] == {"rate": 3.0, "name": "ours", "lost": 0}
    assert found["peer"]["rate"] == 7.5  # the round that lost an event does not count
    assert failed == [("peer", "1 lost"), ("broken", "it ended")]
