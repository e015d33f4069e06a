"""Flows that run: the examples in small, restarts, clean stops, and bad input."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from tidings.cli import main
from tidings.errors import InputError, TidingsError
from tidings.language import parse_filter
from tidings.language.evaluate import accepts
from tidings.model.event import make_event
from tidings.pipeline.flow_metrics import BatchMetrics
from tidings.pipeline.flow_run import RunningFlow, check_flow
from tidings.pipeline.flows import read_flow

pytestmark = pytest.mark.spark
EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / name / "make.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_once(spark: Any, name: str, data: Path) -> list[BatchMetrics]:
    received: list[BatchMetrics] = []
    flow = read_flow(EXAMPLES / name / "flow.toml", {"data": str(data)})
    RunningFlow(flow, spark, observers=[received.append]).start(once=True).wait()
    return received


def alerts(data: Path) -> list[dict[str, Any]]:
    """What readers see: the files of published batches."""
    files = sorted((data / "alerts").glob("run=*/batch=*/*.parquet"))
    return [row for file in files for row in parquet.ParquetFile(file).read().to_pylist()]


def expected_prices(data: Path) -> dict[str, list[str]]:
    users = parquet.read_table(data / "users").to_pylist()
    filters = [(user["id"], parse_filter(user["filter"])) for user in users]
    found = {}
    for tick in parquet.read_table(data / "prices").to_pylist():
        event = make_event({k: v for k, v in tick.items() if k != "id"}, source="s", id=tick["id"])
        takers = [id for id, filter in filters if accepts(filter, event)]
        if takers:
            found[tick["id"]] = takers
    return found


def test_price_alerts_are_those_of_the_plain_matcher(spark: Any, tmp_path: Path) -> None:
    made = example("price_alerts")
    made.SYMBOLS = 20
    made.make(tmp_path, user_count=300, price_count=400)
    received = run_once(spark, "price_alerts", tmp_path)
    expected = expected_prices(tmp_path)
    assert len(expected) > 50
    assert {row["id"]: row["subscriptions"] for row in alerts(tmp_path)} == expected
    assert sum(batch.events for batch in received) == 400
    assert sum(batch.matches for batch in received) == sum(map(len, expected.values()))
    assert [batch.batch for batch in received] == [0, 1]  # four files each


def test_log_alerts_by_severity_and_topic_with_a_broken_line(spark: Any, tmp_path: Path) -> None:
    made = example("log_alerts")
    made.make(tmp_path, line_count=300)
    [batch] = run_once(spark, "log_alerts", tmp_path)
    expected = set()
    for line in made.lines(300, 1):
        try:
            values = json.loads(line)
        except ValueError:
            continue
        id, topic = values.pop("id"), values.pop("topic")
        event = make_event(values, source="s", id=id, topic=topic)
        expected |= {(id, team) for team, text in made.TEAMS.items() if accepts(parse_filter(text), event)}
    assert {team for _, team in expected} == set(made.TEAMS)
    rows = alerts(tmp_path)
    assert {(row["id"], row["subscription"]) for row in rows} == expected
    assert len(rows) == len(expected) == batch.matches
    assert (batch.events, batch.problems) == (300, 1)
    files = (tmp_path / "problems").glob("run=*/batch=*/*.json")
    [problem] = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert problem["problem"] == 'cannot be read: {"id": "torn", "topic": "shop/pay'


def small(folder: Path, *, users: int = 3) -> Path:
    """A flow of two prices and three users, in its own folder."""
    for name in ("prices", "users"):
        (folder / name).mkdir(exist_ok=True)
    add_prices(folder, "a", [1.0, 5.0])
    subscribe(folder, [f"price > {n}" for n in range(users)])
    path = folder / "flow.toml"
    path.write_text(
        'name = "small"\ncheckpoint = "state"\n'
        '[sources.prices]\nkind = "parquet"\npath = "prices"\ncolumns = "id string, price double"\n'
        '[subscriptions.users]\nkind = "parquet"\npath = "users"\n'
        '[matches.m]\nevents = "prices"\nsubscriptions = "users"\n'
        '[sinks.out]\nkind = "parquet"\nof = "m"\npath = "alerts"\n'
    )
    return path


def add_prices(folder: Path, name: str, prices: list[float]) -> None:
    table = pa.table({"id": [f"{name}{n}" for n in range(len(prices))], "price": prices})
    parquet.write_table(table, folder / f".{name}.parquet")
    (folder / f".{name}.parquet").rename(folder / "prices" / f"{name}.parquet")


def subscribe(folder: Path, filters: list[str]) -> None:
    table = pa.table({"id": [f"u{n}" for n in range(len(filters))], "filter": filters})
    parquet.write_table(table, folder / "users" / "users.parquet")


def go(spark: Any, path: Path) -> list[BatchMetrics]:
    received: list[BatchMetrics] = []
    RunningFlow(read_flow(path), spark, observers=[received.append]).start(once=True).wait()
    return received


def pairs(folder: Path) -> list[tuple[str, str]]:
    return sorted((row["id"], row["subscription"]) for row in alerts(folder))


FIRST = [("a0", "u0"), ("a1", "u0"), ("a1", "u1"), ("a1", "u2")]


def test_a_restart_goes_on_where_it_left_off_with_new_subscriptions(spark: Any, tmp_path: Path) -> None:
    path = small(tmp_path)
    go(spark, path)
    assert pairs(tmp_path) == FIRST
    assert go(spark, path) == []
    subscribe(tmp_path, ["price > 100"])
    add_prices(tmp_path, "b", [5.0, 200.0])
    [batch] = go(spark, path)
    assert (batch.batch, batch.events, batch.matches) == (1, 2, 1)
    assert pairs(tmp_path) == [*FIRST, ("b1", "u0")]


def test_a_batch_that_was_published_before_a_crash_is_not_written_again(spark: Any, tmp_path: Path) -> None:
    path = small(tmp_path)
    go(spark, path)
    for file in (tmp_path / "state" / "m" / "commits").iterdir():
        file.unlink()  # as if the driver had died after the sink and before the commit
    [batch] = go(spark, path)
    assert (batch.batch, batch.replayed) == (0, True)
    assert pairs(tmp_path) == FIRST


def test_a_lost_checkpoint_is_refused_where_its_output_is(spark: Any, tmp_path: Path) -> None:
    path = small(tmp_path)
    go(spark, path)
    (tmp_path / "state").rename(tmp_path / "lost")
    with pytest.raises(InputError, match="is lost or empty"):
        go(spark, path)
    assert pairs(tmp_path) == FIRST


def until(condition: Callable[[], Any]) -> None:
    tick = threading.Event()
    for _ in range(1200):
        if condition():
            return
        tick.wait(0.05)
    raise AssertionError("it never came")


def test_sigterm_stops_the_command_cleanly_between_batches(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = small(tmp_path)

    def stop_after_the_second_batch() -> None:
        until(lambda: len(alerts(tmp_path)) == len(FIRST))
        add_prices(tmp_path, "b", [50.0])
        until(lambda: len(alerts(tmp_path)) == len(FIRST) + 3)
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=stop_after_the_second_batch)
    thread.start()
    code = main(
        ["pipeline", "run", str(path), "--continuous", "--json", "--metrics", str(tmp_path / "m.jsonl")]
    )
    thread.join()
    stated = capsys.readouterr()
    assert code == 0
    assert [json.loads(line)["batch"] for line in stated.out.splitlines()] == [0, 1]
    assert len((tmp_path / "m.jsonl").read_text().splitlines()) == 2
    assert "has ended" in stated.err
    assert signal.getsignal(signal.SIGTERM) is before
    assert go(spark, path) == []


# Bad input


def test_a_torn_source_file_stops_the_flow_by_name(spark: Any, tmp_path: Path) -> None:
    path = small(tmp_path)
    (tmp_path / "prices" / "torn.parquet").write_bytes(b"PAR1 torn")
    with pytest.raises(InputError, match=r"the match 'm' stopped: .*torn\.parquet"):
        go(spark, path)
    assert alerts(tmp_path) == []  # nothing of the batch is there


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('columns = "id string, price double"', 'columns = "id strin"', "cannot be opened"),
        ('path = "prices"\ncolumns = "id string, price double"', 'path = "nowhere"', "cannot be opened"),
        ('subscriptions = "users"', 'subscriptions = "users"\nkeep = ["colour"]',
            "no column 'colour' to keep"),
        ("price double", "price map<string, double>", "map"),
        ('path = "users"', 'path = "nobody"', "nobody"),
        ('kind = "parquet"\npath = "prices"\ncolumns = "id string, price double"',
            'kind = "csv"\npath = "prices"', "needs its columns"),
    ],
)  # fmt: skip
def test_what_cannot_be_opened_is_told_before_the_start(
    spark: Any, tmp_path: Path, old: str, new: str, problem: str
) -> None:
    path = small(tmp_path)
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    with pytest.raises(TidingsError, match=problem.replace("(", r"\(")):
        check_flow(read_flow(path), spark)


def test_subscriptions_without_filters_are_told(spark: Any, tmp_path: Path) -> None:
    path = small(tmp_path)
    parquet.write_table(pa.table({"id": ["u0"]}), tmp_path / "users" / "users.parquet")
    with pytest.raises(InputError, match="filter"):
        check_flow(read_flow(path), spark)


def test_check_tells_rejects_and_what_looks_like_a_mistake(spark: Any, tmp_path: Path) -> None:
    path = small(tmp_path)
    subscribe(tmp_path, ["price > 1", "prise > 1", "price >"])
    notes = check_flow(read_flow(path), spark)
    assert notes[0] == "m: 2 subscriptions, 1 rejected"
    assert any("prise" in note for note in notes)
    assert any("u2" in note for note in notes)
