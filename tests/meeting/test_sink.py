"""Publishing as Spark's tasks and driver do, without Spark: once, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
from tests.meeting._brokers import Brokers  # noqa: E402
from tests.meeting._schema import schema  # noqa: E402

from tidings.errors import EventError, InputError, RefusedError, SettingsError  # noqa: E402
from tidings.model.event import FOREVER  # noqa: E402
from tidings.pipeline.broker import options, sink  # noqa: E402
from tidings.pipeline.broker.format import TidingsDataSource  # noqa: E402
from tidings.pipeline.broker.lines import close_lines  # noqa: E402


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Brokers]:
    with Brokers(tmp_path, 1) as brokers:
        yield brokers


class Context:
    """What a task of Spark's knows of itself."""

    partition, attempt, query, batch = 0, 0, "q-1", 0

    def partitionId(self) -> int:
        return self.partition

    def attemptNumber(self) -> int:
        return self.attempt

    def getLocalProperty(self, name: str) -> str:
        return {sink.QUERY_ID: self.query, sink.BATCH_ID: str(self.batch)}[name]


@pytest.fixture
def context(monkeypatch: pytest.MonkeyPatch) -> Context:
    import pyspark

    made = Context()
    monkeypatch.setattr(pyspark.TaskContext, "get", staticmethod(lambda: made))
    return made


def rows(*numbers: int, **more: Any) -> Iterator[Any]:
    yield pa.RecordBatch.from_pylist([{"n": n, **more} for n in numbers])


def writer(one: Brokers, **more: str) -> sink.BrokerStreamWriter:
    given = {"broker": one.all, "checkpointLocation": "/somewhere", "lifetime": "60", **more}
    return sink.BrokerStreamWriter(options.writing(given))


def heard(one: Brokers, name: str = "late") -> list[Any]:
    bus = one.bus(0, name)
    page = bus.read_log(limit=4096)
    return [entry.event for entry in page.entries]


def test_nothing_is_heard_before_the_commit_and_a_commit_counts_once(one: Brokers, context: Context) -> None:
    made = writer(one, topic="out/put", partEvents="2")
    message = made.write(rows(1, 2, 3))
    assert heard(one) == []
    for _ in range(2):
        made.commit([message], 0)
    events = heard(one)
    assert [event["n"] for event in events] == [1, 2, 3]
    assert {event.topic for event in events} == {"out/put"}
    assert {event.lifetime for event in events} == {60.0}
    assert len({event.identity for event in events}) == 3


def test_only_the_attempt_that_counted_is_published(one: Brokers, context: Context) -> None:
    made = writer(one)
    made.write(rows(1, 2, 3))  # this attempt is lost, and its parts with it
    context.attempt = 1
    again = made.write(rows(1, 2))
    context.partition, context.attempt = 1, 0
    other = made.write(rows(7))
    made.commit([again, other, None], 0)
    assert [event["n"] for event in heard(one)] == [1, 2, 7]


def test_a_lost_checkpoint_is_refused(one: Brokers, context: Context) -> None:
    made = writer(one)
    made.commit([made.write(rows(1))], 0)
    context.query = "q-2"
    message = made.write(rows(1))
    with pytest.raises(InputError, match="was another query before: its checkpoint was lost"):
        made.commit([message], 0)
    assert len(heard(one)) == 1
    bold = writer(one, onLostCheckpoint="go on")
    bold.commit([bold.write(rows(5))], 0)
    assert [event["n"] for event in heard(one, "later")] == [1, 5]
    context.query = "q-1"
    with pytest.raises(InputError, match="was another query before"):
        made.commit([made.write(rows(6))], 1)


def test_a_broker_that_should_know_the_query_and_does_not_is_refused(one: Brokers, context: Context) -> None:
    made = writer(one)
    made.commit([made.write(rows(1))], 0)
    one.stop(0)
    one.start(0, folder="empty")  # the disk was replaced
    close_lines()
    context.batch = 1
    message = made.write(rows(2))
    with pytest.raises(InputError, match="its disk was lost, or it is another broker"):
        made.commit([message], 1)


def test_a_restarted_broker_commits_what_was_staged_before(one: Brokers, context: Context) -> None:
    made = writer(one)
    message = made.write(rows(1, 2))
    one.stop(0)
    one.start(0)
    made.commit([message], 0)
    made.commit([message], 0)
    assert [event["n"] for event in heard(one)] == [1, 2]


def test_rows_say_what_events_are(one: Brokers, context: Context) -> None:
    made = writer(one)
    made.commit(
        [
            made.write(
                rows(
                    1,
                    id="x",
                    source="elsewhere",
                    topic="own",
                    type=["Trade", "Event"],
                    _lifetime=FOREVER,
                    _key="k",
                    _rest='{"more": 5}',
                    venue={"city": "Rome", "open": None},
                    none=None,
                    _log="l",
                    _offset=7,
                )
            )
        ],
        0,
    )
    (event,) = heard(one)
    assert event.identity == ("elsewhere", "x")
    assert (event.topic, event.type, event.lifetime, event.key) == ("own", ("Trade", "Event"), FOREVER, "k")
    assert event.attributes == {"n": 1, "more": 5, "venue": {"city": "Rome"}}


def sources(*pairs: tuple[str, str | None]) -> Iterator[Any]:
    """Rows with ids, each with its source."""
    found = [{"n": n, "id": id, "source": source} for n, (id, source) in enumerate(pairs)]
    yield pa.RecordBatch.from_pylist(found)


def test_an_id_without_a_source_is_refused_before_any_row(one: Brokers) -> None:
    given = {"broker": one.all, "checkpointLocation": "/somewhere"}
    rows_of_trades = schema("id string, symbol string, price double")
    with pytest.raises(InputError, match="a column 'id' and no column 'source'") as refused:
        TidingsDataSource(given).streamWriter(rows_of_trades, overwrite=False)
    assert "`row` makes an identity for each row" in str(refused.value)
    with pytest.raises(InputError, match="a column 'id' and no column 'source'"):
        TidingsDataSource({"broker": one.all}).writer(rows_of_trades, overwrite=False)
    for identity in ("row", "columns"):
        sure = TidingsDataSource({**given, "identity": identity})
        assert sure.streamWriter(rows_of_trades, overwrite=False)
    assert TidingsDataSource(given).streamWriter(schema("id string, source string"), overwrite=False)
    assert TidingsDataSource(given).streamWriter(schema("symbol string"), overwrite=False)


def test_ids_of_many_sources_are_published_each_under_identity_row(one: Brokers, context: Context) -> None:
    """Found by an attack from outside: two publishers that both number from 0 lost every second alert."""
    made = writer(one, identity="row")
    trades = made.write(sources(("0", "nyse"), ("0", "xetra")))
    context.partition = 1
    made.commit([trades, made.write(rows(1, id="0"))], 0)
    context.batch = 1
    made.commit([made.write(rows(2, id="0"))], 1)
    events = heard(one)
    assert [event["event"] for event in events] == ["0"] * 4
    assert [event.get("event_source") for event in events] == ["nyse", "xetra", None, None]
    assert len({event.identity for event in events}) == 4


def test_a_stream_that_reads_its_own_events_is_refused(one: Brokers, context: Context) -> None:
    """Found by a user: alerts that the filter of their source accepts became alerts again, without end."""
    made = writer(one, identity="row")
    made.commit([made.write(rows(1, id="trade"))], 0)
    (alert,) = heard(one)
    context.batch = 1
    with pytest.raises(InputError, match=r"row 1 of partition 0 is the event .* this query published itself"):
        made.write(rows(1, id=alert.id, source=alert.source))
    made.write(rows(1, id="trade"))  # another event, and one without an id
    made.write(rows(1, id=None))
    bold = writer(one, identity="row", onLoop="go on")
    bold.commit([bold.write(rows(2, id=alert.id))], 1)
    context.query, context.batch = "q-2", 0  # alerts of alerts, by a query of their own
    other = writer(one, identity="row", writer="other")
    other.commit([other.write(rows(3, id=alert.id))], 0)
    assert [event["n"] for event in heard(one, "later")] == [1, 2, 3]


def test_identity_columns_takes_the_id_under_the_clients_name(one: Brokers, context: Context) -> None:
    made = writer(one, identity="columns")
    first = made.write(rows(1, id="a"))
    context.partition = 1
    made.commit([first, made.write(sources(("b", None)))], 0)
    assert [event.identity for event in heard(one)] == [("spark", "a"), ("spark", "b")]


def test_a_row_with_an_id_and_no_source_is_told(one: Brokers, context: Context) -> None:
    with pytest.raises(EventError, match="row 2 of partition 0 is no event: it has the id 'b' and no source"):
        writer(one).write(sources(("a", "nyse"), ("b", None)))


def test_two_different_events_of_one_identity_in_a_batch_are_refused(one: Brokers, context: Context) -> None:
    made = writer(one)
    first = made.write(sources(("a", "s"), ("b", "s")))
    context.partition = 1
    second = made.write(sources(("c", "s"), ("a", "s")))  # the number of the row differs
    with pytest.raises(RefusedError, match="two different events with the id 'a' of the source 's'"):
        made.commit([first, second], 0)
    assert heard(one) == []
    same = made.write(sources(("a", "s"), ("b", "s")))  # as of partition 0: the same rows
    made.commit([first, same], 0)
    assert [event.id for event in heard(one, "later")] == ["a", "b"]


@pytest.mark.parametrize(
    ("columns", "identity", "problem"),
    [
        ("id string, event string", "row", "which identity = 'row' would keep as 'event'"),
        ("source string, event_source string", "row", "would keep as 'event_source'"),
        ("symbol string", "columns", "the rows have no column 'id'"),
        ("symbol string", "rows", "identity cannot be 'rows'"),
    ],
)
def test_identities_that_cannot_be_are_refused(columns: str, identity: str, problem: str) -> None:
    given = {"broker": "a:1", "checkpointLocation": "/somewhere", "identity": identity}
    with pytest.raises((InputError, SettingsError), match=problem):
        TidingsDataSource(given).streamWriter(schema(columns), overwrite=False)


def test_a_row_that_is_no_event_is_told_with_its_place(one: Brokers, context: Context) -> None:
    made = writer(one)
    with pytest.raises(EventError, match=r"row 2 of partition 0 is no event: .*topic"):
        made.write(iter([pa.RecordBatch.from_pylist([{"topic": "fine"}, {"topic": "no//topic"}])]))


def test_a_batch_job_under_a_name_publishes_once(one: Brokers, context: Context) -> None:
    given = {"broker": one.all, "job": "load-1", "lifetime": "60"}
    for _ in range(2):
        made = sink.BrokerBatchWriter(options.writing(given))
        made.commit([made.write(rows(1, 2))])
    other = sink.BrokerBatchWriter(options.writing({"broker": one.all, "lifetime": "60"}))
    other.commit([other.write(rows(3))])
    assert [event["n"] for event in heard(one)] == [1, 2, 3]


def test_jobs_whose_names_begin_alike_publish_rows_of_their_own(one: Brokers, context: Context) -> None:
    """Found by an attack from outside: their rows had the same ids, and those of the second were dropped."""
    for day in (1, 2):
        made = sink.BrokerBatchWriter(
            options.writing({"broker": one.all, "job": f"load-{day}", "lifetime": "60"})
        )
        made.commit([made.write(rows(day))])
    assert [event["n"] for event in heard(one)] == [1, 2]


def test_an_old_copy_of_a_checkpoint_is_refused(one: Brokers, context: Context) -> None:
    made = writer(one)
    for batch in range(3):
        context.batch = batch
        made.commit([made.write(rows(batch))], batch)
    made.commit([made.write(rows(2))], 2)  # as Spark repeats the last batch after a crash
    context.batch = 1
    message = made.write(rows(1, 100))
    with pytest.raises(InputError, match="published batch 2 before, and Spark repeats batch 1"):
        made.commit([message], 1)
    writer(one, onLostCheckpoint="go on").commit([message], 1)
    assert [event["n"] for event in heard(one)] == [0, 1, 2]


def test_a_map_is_a_mapping(one: Brokers, context: Context) -> None:
    made = writer(one)
    names = pa.map_(pa.string(), pa.int64())
    inside = pa.struct([("m", names), ("l", pa.list_(names))])
    value = {"m": [("b", 2)], "l": [[("c", 3)], None]}
    columns = [pa.array([[("a", 1)], None], names), pa.array([value, None], inside)]
    made.commit([made.write(iter([pa.RecordBatch.from_arrays(columns, ["m", "s"])]))], 0)
    first, second = heard(one)
    assert first.attributes == {"m": {"a": 1}, "s": {"m": {"b": 2}, "l": [{"c": 3}, None]}}
    assert second.attributes == {}


def test_settings_of_a_sink_are_checked() -> None:
    with pytest.raises(SettingsError, match="a sink publishes at one broker, and 2 are named"):
        options.writing({"brokers": "a:1,b:2"})
    with pytest.raises(SettingsError, match="lifetime is 'long'"):
        options.writing({"broker": "a:1", "lifetime": "long"})
    with pytest.raises(SettingsError, match="needs a name, by which the broker knows a lost checkpoint"):
        sink.BrokerStreamWriter(options.writing({"broker": "a:1"}))
