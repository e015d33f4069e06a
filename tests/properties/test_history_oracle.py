"""The checker against the plain oracle on random histories, good and bad; and against itself on
an engine that shuffles, partitions and sends everything as bytes.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties._history_oracle import Oracle
from tests.properties._sharded import ShardedEngine

from tidings.history.check import check, check_tables
from tidings.history.contracts import Contract
from tidings.history.facts import facts_of
from tidings.history.properties import PROPERTIES
from tidings.history.schema import Row
from tidings.matching.small import SmallMatcher

EVERYTHING = frozenset(PROPERTIES)
PROCESSES = ["p", "q"]
NAMES = ["one", "two"]
BROKERS = ["b1", "b2"]
FILTERS = ["x = 1", "x > 1", "x IN (1, 2)", "TRUE"]

times = st.integers(0, 20).map(float)
outcomes = st.sampled_from(["ok"] * 6 + ["refused", "unknown"])


@st.composite
def operations(draw: st.DrawFn) -> list[Row]:
    """Subscriptions and their ends, at most one a process and instant (halves: between the others)."""
    rows = []
    for process in PROCESSES:
        moments = draw(st.lists(st.integers(0, 40), max_size=6, unique=True))
        for moment in moments:
            op = draw(st.sampled_from(["sub", "sub", "usub", "usub", "crash"]))
            name = None if op == "crash" else draw(st.sampled_from(NAMES))
            rows.append(
                Row(
                    time=moment / 2,
                    process=process,
                    op=op,
                    subscription=name,
                    filter=draw(st.sampled_from(FILTERS)) if op == "sub" else None,
                    outcome=None if op == "crash" else draw(outcomes),
                )
            )
    return rows


@st.composite
def histories(draw: st.DrawFn) -> list[Row]:
    rows = draw(operations())
    count = draw(st.integers(0, 4))
    for number in range(count):
        expires = draw(st.none() | times)
        rows.append(
            Row(
                time=draw(times),
                process="s",
                op="pub",
                event=f"e{number}",
                source="s",
                sequence=number,
                attributes={"x": draw(st.sampled_from([1, 2, 3, "text"]))},
                lifetime=draw(st.sampled_from([0.0, 0.0, 2.0, 5.0, float("inf")])),
                key=draw(st.sampled_from([None, None, None, "k"])),
                expires=expires,
                outcome=draw(outcomes),
            )
        )
    for _ in range(draw(st.integers(0, 2))):
        broker = draw(st.sampled_from(BROKERS))
        op = draw(st.sampled_from(["crash", "suspect"]))
        process = broker if op == "crash" else draw(st.sampled_from(PROCESSES))
        rows.append(Row(time=draw(times), process=process, op=op, from_=broker if op == "suspect" else None))
    for _ in range(draw(st.integers(0, 6))):
        row = Row(
            time=draw(times),
            process=draw(st.sampled_from(PROCESSES)),
            op=draw(st.sampled_from(["ntfy"] * 7 + ["drop", "nack"])),
            subscription=draw(st.sampled_from(NAMES)),
            event=f"e{draw(st.integers(0, 4))}",
            source="s",
            broker=draw(st.sampled_from([None, *BROKERS])),
        )
        rows.append(row)
        if row.op == "drop":
            rows[-1] = Row(**{**_fields(row), "reason": "drop oldest"})
        elif row.op == "ntfy" and draw(st.booleans()):
            rows[-1] = Row(**{**_fields(row), "reason": draw(st.sampled_from([None, "redelivery"]))})
            again = {"reason": "redelivery", "time": draw(times), "process": draw(st.sampled_from(PROCESSES))}
            rows.append(Row(**{**_fields(row), **again}))
    return rows


def _fields(row: Row) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__struct_fields__}


delays = st.sampled_from([0.0, 0.5, 1.0, 3.0])


cases = (histories(), st.sampled_from(["subscription", "process"]), delays, delays)


@settings(max_examples=250)
@given(*cases)
def test_the_checker_and_the_oracle_agree(
    rows: list[Row], receiver: str, t_sub: float, t_diff: float
) -> None:
    agree(rows, receiver, t_sub, t_diff)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@settings(max_examples=50_000)
@given(*cases)
def test_the_checker_and_the_oracle_agree_for_long(
    rows: list[Row], receiver: str, t_sub: float, t_diff: float
) -> None:
    agree(rows, receiver, t_sub, t_diff)


def agree(rows: list[Row], subscriber: str, t_sub: float, t_diff: float) -> None:
    contract = Contract("test", EVERYTHING, subscriber)
    report = check(rows, contract=contract, t_sub=t_sub, t_diff=t_diff)
    oracle = Oracle(rows, subscriber)
    for name in ("legality", "validity", "minimality", "lp1", "lp4"):
        assert report[name].holds is getattr(oracle, name)(), (name, report[name].story)
    assert report["liveness"].holds is oracle.liveness(t_sub, t_diff), report["liveness"].story
    if not _durable(rows):
        assert report["completeness"].holds is oracle.completeness(t_sub, t_diff), report[
            "completeness"
        ].story
        seen = oracle.largest_delay()
        measured = check(rows, contract=contract)["completeness"]
        assert measured.holds is oracle.completeness(seen, seen), (seen, measured.story)


def _durable(rows: list[Row]) -> bool:
    """Does a subscription come again after a crash, or without an end? Then it stood all along,
    which the oracle does not know of; unit tests have that case."""
    ends: dict[tuple[str, str | None], bool] = {}
    for row in sorted(rows, key=lambda row: row.time):
        if row.outcome == "refused" or row.op not in ("sub", "usub", "crash"):
            continue
        if row.op == "crash":
            ends.update({key: True for key in ends if key[0] == row.process and not ends[key]})
            continue
        key = (row.process, row.subscription)
        if row.op == "sub" and key in ends:
            return True
        if row.op == "sub":
            ends[key] = False
        elif row.outcome == "ok":
            ends.pop(key, None)
    return False


@settings(max_examples=60)
@given(histories(), st.integers(0, 1000))
def test_pieces_on_many_machines_give_the_same_report(rows: list[Row], seed: int) -> None:
    times_given: dict[str, Any] = {"t_sub": 0.5, "t_diff": 1.0, "contract": "everything"}
    here = check(rows, **times_given)
    assert check(rows, **times_given, matcher=SmallMatcher) == here
    there = check_tables(ShardedEngine(facts_of(rows), seed), **times_given)
    assert here == there


@settings(max_examples=60)
@given(histories())
def test_runs_in_one_file_do_not_touch(rows: list[Row]) -> None:
    """Two runs in one history are broken where one of them is."""
    twice = [*(Row(**{**_fields(row), "run": "a"}) for row in rows), *FINE]
    alone = check(rows, t_sub=1, t_diff=1)
    assert check(twice, t_sub=1, t_diff=1).broken == alone.broken
    assert check(twice).broken == check(rows).broken


FINE = [
    Row(run="b", time=1.0, process="p", op="sub", subscription="one", filter="TRUE"),
    Row(run="b", time=2.0, process="s", op="pub", event="e0", source="s", attributes={"x": 1}),
    Row(run="b", time=19.0, process="p", op="ntfy", subscription="one", event="e0", source="s"),
]
