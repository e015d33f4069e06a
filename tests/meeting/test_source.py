"""Reading brokers' logs as Spark does, without Spark: offsets, holds, filters, and what is told when
something is gone."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
pytest.importorskip("pyarrow", reason="pyarrow is not installed")
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from tests.meeting import _schema
from tests.meeting._brokers import Brokers, leave_hole

import tidings
from tidings.errors import FilterError, InputError, RefusedError, SettingsError, UnreachableError
from tidings.pipeline.broker import options, reading
from tidings.pipeline.broker.columns import Columns, inferred
from tidings.pipeline.broker.lines import close_lines
from tidings.pipeline.broker.reading import state_of
from tidings.pipeline.broker.source import BrokerBatchReader, BrokerStreamReader, within

SCHEMA = "id string, n bigint, price double, _log string, _offset bigint"


def schema(text: str = SCHEMA) -> Any:
    return _schema.schema(text)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Brokers]:
    with Brokers(tmp_path, 2) as brokers:
        yield brokers


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Brokers]:
    with Brokers(tmp_path, 1) as brokers:
        yield brokers


def rows(reader: Any, parts: Any) -> list[dict[str, Any]]:
    return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]


def stream(brokers: str, **more: str) -> BrokerStreamReader:
    return BrokerStreamReader(options.reading({"brokers": brokers, "reader": "r", **more}), schema())


def batch(brokers: str, text: str = SCHEMA, **more: str) -> BrokerBatchReader:
    return BrokerBatchReader(options.reading({"brokers": brokers, **more}), schema(text))


def step(
    reader: BrokerStreamReader, start: dict[str, Any], limit: Any = None
) -> tuple[dict[str, Any], list[int]]:
    """One batch, as Spark runs it: the offsets go through the checkpoint as text."""
    end = json.loads(json.dumps(reader.latestOffset(start, limit or ReadAllAvailable())))
    read = rows(reader, reader.partitions(start, end))
    return end, sorted(row["n"] for row in read)


def test_a_batch_reads_what_all_brokers_hold_and_the_filter_accepts(two: Brokers) -> None:
    ann, bob = two.bus(0, "ann"), two.bus(1, "bob")
    for n in range(10):
        (ann if n % 2 else bob).publish({"n": n, "price": n / 2}, lifetime=60)
    reader = batch(two.all, filter="n >= 3 AND price < 4.5")
    assert sorted(row["n"] for row in rows(reader, reader.partitions())) == [3, 4, 5, 6, 7, 8]
    cut = batch(two.all, partitions="3")
    assert len(cut.partitions()) == 6
    assert sorted(row["n"] for row in rows(cut, cut.partitions())) == list(range(10))


def test_a_log_that_two_addresses_lead_to_is_read_once(one: Brokers) -> None:
    one.bus(0, "ann").publish_many([{"n": n} for n in range(5)], lifetime=60)
    same = one.all.replace("127.0.0.1", "localhost")
    assert same != one.all
    reader = batch(f"{one.all},{same}")
    assert sorted(row["n"] for row in rows(reader, reader.partitions())) == list(range(5))
    streamed = stream(f"{one.all},{same}", startingOffsets="earliest")
    assert step(streamed, streamed.initialOffset())[1] == list(range(5))


def test_a_batch_between_offsets_reads_that_span(one: Brokers) -> None:
    ann = one.bus(0, "ann")
    for n in range(6):
        ann.publish({"n": n}, lifetime=60)
    log = state_of(options.reading({"brokers": one.all}).brokers[0]).log
    reader = batch(one.all, startingOffsets=json.dumps({log: 2}), endingOffsets=json.dumps({log: 4}))
    assert [row["n"] for row in rows(reader, reader.partitions())] == [2, 3]
    with pytest.raises(SettingsError, match="which none of the brokers has"):
        batch(one.all, startingOffsets='{"nowhere": 2}').partitions()
    with pytest.raises(SettingsError, match="startingOffsets is 'soon'"):
        batch(one.all, startingOffsets="soon").partitions()


def test_a_stream_hears_what_has_no_lifetime_because_it_holds_the_logs(two: Brokers) -> None:
    ann, bob = two.bus(0, "ann"), two.bus(1, "bob")
    ann.publish({"n": 100})
    reader = stream(two.all, filter="n < 50")
    start = reader.initialOffset()
    for n in (1, 2, 60):
        ann.publish({"n": n})
    bob.publish({"n": 3})
    end, first = step(reader, start)
    assert first == [1, 2, 3]
    assert step(reader, start)[1] == [1, 2, 3], "a batch that is repeated reads the same"
    reader.commit(end)
    bob.publish({"n": 4})
    again = stream(two.all, filter="n < 50")  # the query was restarted
    end, second = step(again, end)
    assert second == [4]
    assert again.latestOffset(end, ReadAllAvailable()) == end


def test_a_stream_hears_a_burst_as_it_hears_events_that_come_alone(one: Brokers) -> None:
    reader = stream(one.all, filter="n < 150")
    start = reader.initialOffset()

    async def burst() -> None:
        async with tidings.connect(one.addresses[0], name="ann") as ann:
            await asyncio.gather(*(ann.publish({"n": n}) for n in range(200)))

    one.call(burst())
    assert step(reader, start)[1] == list(range(150))


def test_what_was_committed_is_forgotten_by_the_broker(one: Brokers) -> None:
    ann = one.bus(0, "ann")
    reader = stream(one.all)
    start = reader.initialOffset()
    for n in range(5):
        ann.publish({"n": n})
    end, _ = step(reader, start)
    reader.commit(end)
    ann.publish({"n": 5}, lifetime=60)
    while state_of(options.reading({"brokers": one.all}).brokers[0]).begin < 6:
        pass
    assert step(reader, end)[1] == [5]


def test_a_batch_is_no_larger_than_was_admitted(two: Brokers) -> None:
    ann, bob = two.bus(0, "ann"), two.bus(1, "bob")
    reader = stream(two.all, maxEventsPerBatch="4")
    assert reader.getDefaultReadLimit() == ReadMaxRows(4)
    at = reader.initialOffset()
    for n in range(9):
        (ann if n < 7 else bob).publish({"n": n}, lifetime=60)
    read: list[int] = []
    for _ in range(10):
        end, some = step(reader, at, reader.getDefaultReadLimit())
        assert len(some) <= 4
        read += some
        at = end
    assert sorted(read) == list(range(9))


@pytest.mark.parametrize(
    ("most", "ends"), [(10, {"a": 3, "b": 4}), (3, {"a": 2, "b": 1}), (1, {"a": 1, "b": 0})]
)
def test_logs_share_what_is_admitted(most: int, ends: dict[str, int]) -> None:
    assert within({"a": 0}, {"a": 3, "b": 4}, most) == ends


def test_a_run_that_ends_with_what_is_there_does_not_read_what_comes_later(one: Brokers) -> None:
    ann = one.bus(0, "ann")
    reader = stream(one.all)
    start = reader.initialOffset()
    ann.publish({"n": 1})
    reader.prepareForTriggerAvailableNow()
    ann.publish({"n": 2})
    end, read = step(reader, start)
    assert read == [1]
    assert reader.latestOffset(end, ReadAllAvailable()) == end


def test_a_lost_checkpoint_is_refused_and_the_options_say_how_to_go_on(one: Brokers) -> None:
    ann = one.bus(0, "ann")
    reader = stream(one.all)
    start = reader.initialOffset()
    assert stream(one.all).initialOffset() == start, "until it has begun, beginning again is no loss"
    ann.publish({"n": 1}, lifetime=60)
    end, _ = step(reader, start)
    reader.commit(end)
    ann.publish({"n": 2})
    lost = stream(one.all)
    with pytest.raises(InputError, match=r"has read from .* before, and this query has no checkpoint"):
        step(lost, lost.initialOffset())
    resumed = stream(one.all, onLostCheckpoint="resume")
    assert step(resumed, resumed.initialOffset())[1] == [2]
    anew = stream(one.all, onLostCheckpoint="restart")
    assert step(anew, anew.initialOffset())[1] == [1, 2]


@pytest.mark.parametrize("more", [{}, {"startingOffsets": "latest"}, {"onLostCheckpoint": "restart"}])
def test_a_first_batch_that_was_cut_short_is_read_again_with_its_checkpoint(
    one: Brokers, more: dict[str, str]
) -> None:
    """Found by an attack from outside: a query killed in its first batch did not start again."""
    ann = one.bus(0, "ann")
    ann.publish({"n": 1}, lifetime=60)
    before = [] if more.get("startingOffsets") == "latest" else [1]
    reader = stream(one.all, **more)
    start = reader.initialOffset()
    for n in (2, 3):
        ann.publish({"n": n})
    assert reader.initialOffset() == start, "Spark asks again when it plans the batch"
    end, first = step(reader, start)
    assert first == [*before, 2, 3]
    ann.publish({"n": 4})
    for _ in range(2):  # killed now, and killed again: the checkpoint has the end, and that no batch is done
        again = stream(one.all, **more)
        read = rows(again, again.partitions(again.initialOffset(), end))
        assert sorted(row["n"] for row in read) == first
    again.commit(end)
    assert step(again, end)[1] == [4]


@pytest.mark.parametrize("allowed", [True, False], ids=["pages", "node"])
def test_a_batch_that_is_repeated_has_what_newer_events_superseded(
    one: Brokers, allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by an attack from outside: matching events with a key were gone when the batch came again."""
    if not allowed:
        monkeypatch.setattr(reading, "_packed", lambda line, span: reading._through_node(line, span))
    ann = one.bus(0, "ann")
    reader, old = stream(one.all, filter="n > 100"), stream(one.all, reader="old", superseding="true")
    start, start_of_old = reader.initialOffset(), old.initialOffset()
    for n in (101, 102, 103):
        ann.publish({"n": n}, lifetime=60, key="IBM")
    end, first = step(reader, start)
    assert first == [101, 102, 103]
    ann.publish({"n": 50}, lifetime=60, key="IBM")
    assert sorted(row["n"] for row in rows(reader, reader.partitions(start, end))) == first
    assert step(old, start_of_old)[1] == [50]
    assert rows(batch(one.all), batch(one.all).partitions())[0]["n"] == 50, "a batch read has the newest"
    reader.commit(end)
    assert step(reader, end)[1] == []


def test_a_first_batch_of_a_restarted_reader_is_read_again_from_where_it_began(one: Brokers) -> None:
    ann = one.bus(0, "ann")
    reader = stream(one.all)
    start = reader.initialOffset()
    ann.publish({"n": 1}, lifetime=60)
    end, _ = step(reader, start)
    reader.commit(end)
    anew = stream(one.all, onLostCheckpoint="restart")
    ann.publish({"n": 2})
    end, first = step(anew, anew.initialOffset())
    assert first == [1, 2]
    again = stream(one.all)  # the option is taken away again, as one does after a restart
    assert sorted(row["n"] for row in rows(again, again.partitions(again.initialOffset(), end))) == first


def test_a_first_batch_that_no_hold_keeps_any_more_is_told(one: Brokers) -> None:
    reader = stream(one.all)
    start = reader.initialOffset()
    ann = one.bus(0, "ann")
    ann.publish({"n": 1})
    end, _ = step(reader, start)
    one.bus(0, "spark").end_hold("r")
    for _ in range(2):
        again = stream(one.all)
        with pytest.raises(InputError, match="what came after offset 0 may be gone"):
            again.partitions(again.initialOffset(), end)
    bold = stream(one.all, onTrimmed="go on")
    assert len(bold.partitions(bold.initialOffset(), end)) == 1


def test_a_hold_that_is_gone_is_told_with_what_is_gone(one: Brokers) -> None:
    ann = one.bus(0, "ann")
    reader = stream(one.all)
    start = reader.initialOffset()
    ann.publish({"n": 1})
    end, _ = step(reader, start)
    one.bus(0, "spark").end_hold("r")
    for n in (2, 3):
        ann.publish({"n": n})
    ann.publish({"n": 4}, lifetime=60)
    for _ in range(2):  # asking again does not hide it
        with pytest.raises(
            InputError, match=r"no hold keeps the log .* any more: what came after offset 1 may be gone"
        ):
            stream(one.all).latestOffset(end, ReadAllAvailable())
    assert step(stream(one.all, onTrimmed="go on"), end)[1] == [4]


def test_offsets_that_were_trimmed_are_told(one: Brokers) -> None:
    ann = one.bus(0, "ann")
    for n in range(3):
        ann.publish({"n": n}, lifetime=60, key="last")
    log = state_of(options.reading({"brokers": one.all}).brokers[0]).log
    starting = {"startingOffsets": json.dumps({log: 1})}
    with pytest.raises(InputError, match="offsets 2 to 2 are gone"):
        batch(one.all, **starting).partitions()
    reader = batch(one.all, **starting, onTrimmed="go on")
    assert [row["n"] for row in rows(reader, reader.partitions())] == [2]


def test_a_broker_that_lost_its_disk_is_told(two: Brokers) -> None:
    ann = two.bus(0, "ann")
    reader = stream(two.all)
    start = reader.initialOffset()
    ann.publish({"n": 1})
    end, _ = step(reader, start)
    with pytest.raises(InputError, match=r"no broker that was named has the log b2#"):
        stream(two.addresses[0]).latestOffset(end, ReadAllAvailable())
    left = stream(two.addresses[0], onMissingLog="go on")
    ann.publish({"n": 2})
    assert step(left, end)[1] == [2]


def test_a_broker_that_is_down_fails_within_the_time_out(one: Brokers) -> None:
    reader = stream(one.all, timeout="1")
    start = reader.initialOffset()
    one.stop(0)
    with pytest.raises(UnreachableError, match="did not answer within 1 s"):
        reader.latestOffset(start, ReadAllAvailable())
    close_lines()
    with pytest.raises(UnreachableError, match="no broker answered at"):
        reader.latestOffset(start, ReadAllAvailable())
    one.start(0)
    close_lines()
    assert reader.latestOffset(start, ReadAllAvailable())["logs"] == start["logs"]


def test_a_broker_that_takes_the_connection_and_says_nothing_fails_within_the_time_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"tidings://127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(UnreachableError, match=f"no broker answered at {address}"):
            stream(address, timeout="0.3").initialOffset()


def test_another_readers_checkpoint_is_refused(one: Brokers) -> None:
    start = stream(one.all).initialOffset()
    with pytest.raises(InputError, match="the checkpoint is of the reader 'r', not of 'other'"):
        stream(one.all, reader="other").latestOffset(start, ReadAllAvailable())


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "no broker is named"),
        ({"brokers": "h:1", "pasword": "x"}, "unknown option 'pasword'"),
        ({"brokers": "h:1", "password": "x"}, "would be seen in plans and logs"),
        ({"brokers": "h:1", "maxEventsPerBatch": "none"}, "maxEventsPerBatch is 'none'"),
        ({"brokers": "h:1", "onTrimmed": "shrug"}, "onTrimmed cannot be 'shrug'"),
        ({"brokers": "h:1", "timeout": "0"}, "timeout is '0'"),
    ],
    ids=["none", "misspelt", "secret", "number", "choice", "seconds"],
)
def test_wrong_options_are_told(given: dict[str, str], problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        options.reading(given)


def test_a_stream_needs_a_reader_and_a_filter_that_can_be_read() -> None:
    with pytest.raises(SettingsError, match="a stream needs a name at the brokers"):
        BrokerStreamReader(options.reading({"brokers": "h:1"}), schema())
    with pytest.raises(FilterError):
        stream("h:1", filter="price >")


# -- columns ---------------------------------------------------------------------------------------


def test_a_value_that_does_not_fit_is_told_or_goes_to_the_rest(one: Brokers) -> None:
    ann = one.bus(0, "ann")
    ann.publish({"n": 1, "price": 2}, lifetime=60)
    ann.publish({"n": "one", "price": True, "more": "x"}, lifetime=60)
    plain = batch(one.all)
    with pytest.raises(InputError, match="n = 'one', which does not fit the column's type int64"):
        rows(plain, plain.partitions())
    careful = batch(one.all, "n bigint, price double, _rest string")
    read = rows(careful, careful.partitions())
    assert read[0] == {"n": 1, "price": 2.0, "_rest": None}
    assert (read[1]["n"], read[1]["price"]) == (None, None)
    assert json.loads(read[1]["_rest"]) == {"n": "one", "price": True, "more": "x"}


@pytest.mark.parametrize(
    ("column", "value"),
    [("bigint", 2.5), ("int", 2.5), ("double", 2**53 + 1), ("float", 1e300), ("binary", "x")],
)
def test_a_value_that_would_change_in_its_column_does_not_fit(
    one: Brokers, column: str, value: object
) -> None:
    one.bus(0, "ann").publish({"v": value}, lifetime=60)
    plain = batch(one.all, f"v {column}")
    with pytest.raises(InputError, match=r"v = .*, which does not fit the column's type"):
        rows(plain, plain.partitions())
    careful = batch(one.all, f"v {column}, _rest string")
    (read,) = rows(careful, careful.partitions())
    assert (read["v"], json.loads(read["_rest"])) == (None, {"v": value})


def test_whole_numbers_and_wider_columns_fit(one: Brokers) -> None:
    ann = one.bus(0, "ann")
    ann.publish_many([{"a": 2.0, "b": 3, "c": 0.1}, {"a": 5, "b": 0.5, "c": 7}], lifetime=60)
    for more in ("", ", _rest string"):
        read = batch(one.all, f"a bigint, b double, c float{more}")
        found = rows(read, read.partitions())
        assert [(row["a"], row["b"], round(row["c"], 6)) for row in found] == [(2, 3.0, 0.1), (5, 0.5, 7.0)]
        assert all(row.get("_rest") is None for row in found)


def test_the_schema_of_a_sample_has_every_attribute_and_the_rest(one: Brokers) -> None:
    from datetime import UTC, datetime

    ann = one.bus(0, "ann")
    at = datetime(2026, 1, 2, tzinfo=UTC)
    ann.publish(
        {"n": 1, "ok": True, "venue": {"city": "Rome"}}, lifetime=60, topic="a/b", type="Trade", time=at
    )
    ann.publish({"n": 1.5, "word": "w", "at": at, "venue": {"open": False}}, lifetime=60)
    from tidings.pipeline.broker.format import TidingsDataSource

    text = TidingsDataSource({"brokers": one.all}).schema()
    assert "`n` double, `ok` boolean, `venue` struct<`city`: string, `open`: boolean>" in text
    reader = batch(one.all, text)
    first, second = rows(reader, reader.partitions())
    assert (first["topic"], first["type"], first["time"]) == ("a/b", ["Trade"], at)
    assert (first["venue"], second["venue"]) == (
        {"city": "Rome", "open": None},
        {"city": None, "open": False},
    )
    assert (second["n"], second["at"], second["_rest"], second["_offset"]) == (1.5, at, None, 2)
    assert inferred([]).startswith("id string, source string")


@pytest.mark.parametrize(
    ("text", "problem"),
    [("_ofset bigint", "no column is called '_ofset'"), ("topic bigint", "the column 'topic' is string")],
    ids=["unknown", "type"],
)
def test_columns_that_cannot_be_are_refused(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        Columns(schema(text))


def test_a_stream_passes_the_hole_of_a_restored_log_in_one_step(one: Brokers, tmp_path: Path) -> None:
    one.bus(0, "ann").publish({"n": 1}, lifetime=60)
    reader = stream(one.all, startingOffsets="earliest", maxEventsPerBatch="4")
    end, read = step(reader, reader.initialOffset(), reader.getDefaultReadLimit())
    assert read == [1]
    leave_hole(one, tmp_path)
    again = stream(one.all, maxEventsPerBatch="4")
    for _ in range(10):
        one.bus(0, "ann").publish({"n": 2}, lifetime=60)
    for size in (4, 4, 2):
        end, read = step(again, end, again.getDefaultReadLimit())
        assert read == [2] * size


def test_a_stream_that_has_read_more_than_there_is_says_so(one: Brokers) -> None:
    one.bus(0, "ann").publish({"n": 1}, lifetime=60)
    reader = stream(one.all)
    read = reader.initialOffset()
    (log,) = read["logs"]
    with pytest.raises(RefusedError, match="ends at 1, and 3 is behind it"):
        reader.latestOffset({**read, "logs": {log: 3}}, ReadAllAvailable())
