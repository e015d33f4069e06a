"""The sieve of history checks: the suspects' rows alone give the same report as the whole history.

Run here without Spark: the workers' functions are called on Arrow tables, in two buckets, and the plain
engine judges what is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.test_history_oracle import histories
from tests.unit.history.play import Play
from tests.unit.history.test_mutations import TABLE, good

from tidings.history.check import check, check_tables
from tidings.history.contracts import Contract, contract_of
from tidings.history.facts import LossFact, Notice, Operation, PublishAttempt, facts_of
from tidings.history.intervals import intervals_of
from tidings.history.owed import OwedDelivery
from tidings.history.parquet import arrow_schema
from tidings.history.plain import PlainEngine, grouped
from tidings.history.properties import delivery
from tidings.history.schema import Row, nack_row
from tidings.history.tables import PROCESS
from tidings.pipeline import history_sieve, history_sieving
from tidings.pipeline.history_intervals import Claims, is_due, is_owed
from tidings.pipeline.history_order import streamed
from tidings.pipeline.history_rows import KINDS, OPEN, PACKED
from tidings.pipeline.history_sieving import Findings, SieveRequest

TIMES = {"t_sub": 0.5, "t_diff": 0.5}
SIEVED = (PublishAttempt, Notice, LossFact)


class Broadcast:
    def __init__(self, value: list[bytes]) -> None:
        self.value = value


def narrow(rows: list[Row]) -> pa.Table:
    """The rows as `History.narrow` gives them."""
    schema = arrow_schema()
    kinds = {op: kind for kind in SIEVED for op in KINDS[kind]}
    opened = sorted({name for kind in SIEVED for name in OPEN[kind]})
    packed = sorted({name for kind in SIEVED for name in PACKED.get(kind, ())})
    columns: dict[str, list[Any]] = {name: [] for name in ("run", "time", "process", "op", *opened)}
    more: list[dict[str, Any] | None] = []
    positions: list[int] = []
    for row in rows:
        if row.op in kinds:
            for name, values in columns.items():
                values.append(getattr(row, name))
            stored = {name: getattr(row, name) for name in packed}
            stored["attributes"] = (
                None if row.attributes is None else msgspec.json.encode(row.attributes).decode()
            )
            more.append(stored if row.op == "pub" else None)
            positions.append(hash((row.run, row.source or "", row.event)))
    kind = pa.struct([schema.field(name).with_nullable(True) for name in packed])
    arrays = {name: pa.array(values, schema.field(name).type) for name, values in columns.items()}
    return pa.table({**arrays, "more": pa.array(more, kind), "place": pa.array(positions, pa.int64())})


def in_two(table: pa.Table, key: list[Any]) -> Iterable[list[Any]]:
    """Rows with equal keys are in one bucket; batches are small."""
    for bucket in (0, 1):
        chosen = pa.array([number for number, each in enumerate(key) if hash(each) % 2 == bucket], pa.int64())
        yield table.take(chosen).combine_chunks().to_batches(max_chunksize=3)


def asked_for(rows: list[Row], contract: Contract, t_sub: Any, t_diff: Any, until: Any) -> SieveRequest:
    operations = facts_of(rows)[Operation]
    intervals = [i for own in grouped(operations, PROCESS).values() for i in intervals_of(own)]
    promised = contract.properties
    return SieveRequest(
        check=str(id(rows)) + str(len(rows)) + str(hash(tuple(intervals))),
        receiver=contract.receiver,
        t_sub=t_sub,
        t_diff=t_diff,
        until=math.inf if until is None else until,
        late=bool(promised & {"liveness", "completeness"}),
        order="fifo" in promised,
        gaps="gap_freedom" in promised,
        intervals=Broadcast([msgspec.msgpack.encode(each) for each in intervals]),
    )


def sieved(rows: list[Row], request: SieveRequest) -> history_sieve.Sieved:
    table = narrow(rows)
    first = [
        batch
        for bucket in in_two(table, table.column("place").to_pylist())
        for batch in history_sieving.sieved(request, bucket)
    ]
    if request.streams and first:
        whole = pa.Table.from_batches(first)
        keys = list(
            zip(whole.column("receiver").to_pylist(), whole.column("source").to_pylist(), strict=True)
        )
        first = [batch for bucket in in_two(whole, keys) for batch in streamed(request, bucket)]
    found = [
        msgspec.msgpack.decode(data, type=Findings)
        for batch in first
        for data in batch.column("data").to_pylist()
        if data is not None
    ]
    return history_sieve._together(found, history_sieving.groups_for(request), request)


class OnlySuspects(PlainEngine):
    """As the engine on Spark does with what the sieve found."""

    def __init__(self, rows: list[Row], found: history_sieve.Sieved) -> None:
        assert found.suspects is not None
        self._found, self._suspects = found, found.suspects
        self._empty = {kind for kind, facts in facts_of(rows).items() if not facts}
        super().__init__(facts_of([row for row in rows if self._stays(row)]))

    def _stays(self, row: Row) -> bool:
        run, source = row.run, row.source or ""
        if row.op == "ntfy":
            return (run, row.process, row.subscription or row.process, source) in self._suspects
        if row.op in ("pub", "avail", "drop", "dead"):
            return row.key is not None or any((s[0], s[3]) == (run, source) for s in self._suspects)
        return True

    def probe(self, make: Callable[..., Any], *rest: Any, **more: Any) -> Any:
        return super().probe(history_sieve.Only(make, self._suspects), *rest, **more)

    def largest(self, table: Any, value: Any) -> dict[str, float]:
        found = super().largest(table, value)
        return {run: max(found.get(run, each), each) for run, each in self._found.seen.items()} | {
            run: each for run, each in found.items() if run not in self._found.seen
        }


def compare(rows: list[Row], contract: Contract, **times: Any) -> history_sieve.Sieved:
    rows = [msgspec.structs.replace(row, run=row.run or "") for row in rows]
    given_times = {"t_sub": None, "t_diff": None, "until": None, **times}
    found = sieved(rows, asked_for(rows, contract, **given_times))
    assert found.suspects is not None, found.words
    report = check_tables(OnlySuspects(rows, found), contract=contract, **times)
    assert report == check(rows, contract=contract, **times)
    return found


COVERED = history_sieve.COVERED
CONTRACTS = [Contract("all", COVERED), Contract("all", COVERED, "process")]


@pytest.mark.parametrize("contract", CONTRACTS, ids=["subscription", "process"])
@pytest.mark.parametrize("times", [{}, {"t_sub": 1.0, "t_diff": 2.0}, {"t_sub": 0.5, "until": 12.0}])
def test_random_histories(contract: Contract, times: dict[str, float]) -> None:
    @settings(max_examples=40, deadline=None)
    @given(histories())
    def judge(rows: list[Row]) -> None:
        compare(rows, contract, **times)

    judge()


@settings(max_examples=15, deadline=None)
@given(st.lists(histories(), min_size=2, max_size=4))
def test_runs_do_not_touch_one_another(drawn: list[list[Row]]) -> None:
    rows = [msgspec.structs.replace(row, run=f"r{n}") for n, run in enumerate(drawn) for row in run]
    compare(rows, CONTRACTS[0], t_sub=1.0, t_diff=2.0)


def test_mutations() -> None:
    """All of them as runs of one history: a suspect of one run is none of another."""
    rows = [msgspec.structs.replace(row, run=name) for name, play, _ in TABLE for row in play.rows]
    compare(rows, contract_of("Tidings"), **TIMES)


def test_nothing_is_suspicious_in_a_good_history() -> None:
    found = compare(good().rows, contract_of("Tidings"), **TIMES)
    assert found.suspects == frozenset()


def test_processes_that_share_a_name_are_suspected_together() -> None:
    """Told twice, once at each of two processes; neither is wrong by itself."""
    play = Play().sub(1.0, "p", "TRUE", name="s").sub(1.0, "q", "TRUE", name="s").pub(2.0, "e")
    play.told(3.0, "p", "e", name="s").told(3.0, "q", "e", name="s")
    found = compare(play.rows, contract_of("Tidings"), **TIMES)
    assert {(process, own) for _, process, own, _ in found.suspects or ()} == {("p", "s"), ("q", "s")}


@pytest.mark.parametrize("given_back", [True, False])
def test_a_redelivery_is_judged_beside_what_was_given_back(given_back: bool) -> None:
    play = Play().sub(1.0, "p", "TRUE").pub(2.0, "a").pub(2.1, "b").told(3.0, "p", "a").told(3.1, "p", "b")
    if given_back:
        play.row(nack_row, 3.5, "p", "p", "a")
    rows = play.told(4.0, "p", "a", redelivery=True).usub(5.0, "p").rows
    assert len(compare(rows, contract_of("Tidings"), **TIMES).suspects or ()) == 1
    assert check(rows, **TIMES).broken == ([] if given_back else ["minimality"])


def test_too_many_suspects_and_bad_rows_are_left_to_the_properties() -> None:
    request = asked_for(good().rows, contract_of("Tidings"), 0.5, 0.5, None)
    broken = [msgspec.structs.replace(row, run="") for row in good().rows]
    table = narrow(broken)
    more = table.column("more").to_pylist()
    spoilt = [None if each is None else {**each, "attributes": "[1"} for each in more]
    column = pa.array(spoilt, table.schema.field("more").type)
    table = table.set_column(table.schema.get_field_index("more"), "more", column)
    (stated,) = history_sieving.sieved(request, table.to_batches())
    found = msgspec.msgpack.decode(stated.column("data")[0].as_py(), type=Findings)
    assert "attributes are not" in found.gave_up
    assert history_sieve._together([found], history_sieving.groups_for(request), request).suspects is None


numbers = st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.5, 10.0])


@settings(max_examples=300, deadline=None)
@given(st.lists(numbers, min_size=6, max_size=6), numbers, numbers, st.sampled_from([5.0, math.inf]))
def test_the_rules_of_delivery_are_those_of_the_properties(
    values: list[float], t_sub: float, t_diff: float, until: float
) -> None:
    published, lifetime, ends, start, length, back = values
    claim = OwedDelivery(
        "r", "p", "s", "", "e", 1, published, lifetime, ends or math.inf, published, "", start,
        start + length, start - back,
    )  # fmt: skip
    columns = (0, 0, published, lifetime, claim.ends, published, start, claim.end, claim.since)
    claims = Claims(*(np.array([value]) for value in columns))
    assert bool(is_due(claims, t_sub, t_diff, until)[0]) == delivery.is_due(claim, t_sub, t_diff, until)
    assert bool(is_owed(claims, t_sub, t_diff, until)[0]) == delivery.is_owed(claim, t_sub, t_diff, until)
