"""Flows as data: what is read, and that whatever is wrong is told with its place in the file."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from tidings.cli import main
from tidings.errors import SettingsError
from tidings.pipeline.flow_kinds import KINDS, FlowKind
from tidings.pipeline.flow_metrics import BatchMetrics, JsonLinesMetrics, PrometheusMetrics
from tidings.pipeline.flow_picture import arrows, as_mermaid, as_svg, as_text
from tidings.pipeline.flows import read_flow

FLOW = """\
name = "alerts"
checkpoint = "state"

[parameters]
data = "data"

[sources.prices]
kind = "parquet"
path = "${data}/prices"

[subscriptions.users]
kind = "parquet"
path = "${data}/users"

[matches.cheap]
events = "prices"
subscriptions = "users"
schedule = "slow"

[sinks.out]
kind = "parquet"
of = "cheap"
path = "out"

[sinks.bad]
kind = "console"
of = "cheap"
rows = "problems"

[schedules.slow]
every = "10 seconds"
"""
EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*/flow.toml"))


def written(folder: Path, text: str) -> Path:
    path = folder / "flow.toml"
    path.write_text(text)
    return path


def test_a_flow_is_read_with_paths_beside_its_file(tmp_path: Path) -> None:
    flow = read_flow(written(tmp_path, FLOW))
    assert flow.checkpoint == str(tmp_path / "state")
    assert flow.sources["prices"].settings.path == str(tmp_path / "data" / "prices")
    assert list(flow.sinks_of("cheap")) == ["out", "bad"]
    assert flow.every("cheap") == "10 seconds"


def test_parameters_are_filled_in(tmp_path: Path) -> None:
    flow = read_flow(written(tmp_path, FLOW), {"data": "/elsewhere"})
    assert flow.sources["prices"].settings.path == "/elsewhere/prices"
    remote = read_flow(written(tmp_path, FLOW), {"data": "hdfs://cluster/data"})
    assert remote.subscriptions["users"].settings.path == "hdfs://cluster/data/users"


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda path: path.parent.name)
def test_the_examples_can_be_read(file: Path) -> None:
    assert read_flow(file).matches


def test_the_page_shows_the_example_as_it_is() -> None:
    root = Path(__file__).parents[3]
    page = (root / "docs" / "flows.md").read_text()
    assert f"```toml\n{(root / 'examples/price_alerts/flow.toml').read_text()}```" in page


@pytest.mark.parametrize(
    ("old", "new", "place", "problem"),
    [
        ('name = "alerts"', 'nam = "alerts"', 1, "unknown key 'nam' (did you mean 'name'?)"),
        ('name = "alerts"', "name = 7", 1, "'name' is no text"),
        ('checkpoint = "state"\n', "", 1, "'checkpoint' is missing"),
        ('kind = "parquet"\npath = "${data}/prices"', 'kind = "parket"\npath = "x"', 8,
            "no kind of sources is called 'parket' (did you mean 'parquet'?)"),
        ('kind = "parquet"\npath = "${data}/prices"', 'path = "x"', 7, "'kind' is missing"),
        ('path = "${data}/prices"', 'pth = "x"', 9, "unknown key 'pth' (did you mean 'path'?)"),
        ('path = "${data}/prices"', "", 7, "there is no 'path'"),
        ('path = "${data}/prices"', 'path = "x"\nfiles_per_batch = "many"', 10,
            "'files_per_batch': Expected 'int', got 'str'"),
        ('path = "${data}/users"', 'path = "${dat}/users"', 13,
            "no parameter is called 'dat' (did you mean 'data'?)"),
        ('data = "data"', "data = 5", 4, "every parameter is a text"),
        ('events = "prices"', 'events = "price"', 16,
            "'events': there is no [sources.price] (did you mean 'prices'?)"),
        ('subscriptions = "users"', 'subscriptions = "usrs"', 17, "there is no [subscriptions.usrs]"),
        ('schedule = "slow"', 'schedule = "fast"', 18, "there is no [schedules.fast]"),
        ('schedule = "slow"', 'output = "heap"', 18, "'output': Invalid enum value 'heap'"),
        ('of = "cheap"\npath', 'of = "dear"\npath', 22, "there is no [matches.dear]"),
        ('of = "cheap"\npath = "out"', 'path = "out"', 20, "'of' is missing"),
        ('rows = "problems"', 'rows = "some"', 28, "'rows': Invalid enum value 'some'"),
        ('every = "10 seconds"', 'every = "soon"', 31, "'soon' is no time"),
        ("[schedules.slow]", "[matches.other]\nevents = 'prices'\nsubscriptions = 'users'\n[schedules.slow]",
            30, "no sink takes its rows"),
        ('kind = "console"\nof = "cheap"\nrows = "problems"', 'kind = "json"\nof = "cheap"\npath = "out"', 28,
            "is also the output of the sink 'out'"),
        ("[sources.prices]", '[sources."a b"]\nkind="csv"\npath="x"\n[sources.prices]', 7,
            "a name is made of letters"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line(
    tmp_path: Path, old: str, new: str, place: int, problem: str
) -> None:
    assert FLOW.count(old) == 1, old
    path = written(tmp_path, FLOW.replace(old, new))
    with pytest.raises(SettingsError) as caught:
        read_flow(path)
    assert problem in str(caught.value)
    assert f"flow.toml:{place}:" in str(caught.value)


def test_no_toml_is_told_with_line_and_column(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"flow\.toml is not TOML: .*line 7"):
        read_flow(written(tmp_path, FLOW.replace("[sources.prices]", "[sources.prices")))


def test_a_flow_without_sinks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"the flow has no \[sinks.NAME\]"):
        read_flow(written(tmp_path, FLOW[: FLOW.index("[sinks.out]")]))
    with pytest.raises(SettingsError, match="is a table with a name of its own"):
        read_flow(written(tmp_path, FLOW.replace("[sources.prices]", "[sources]")))


def test_an_unknown_parameter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="the flow has no parameter 'dta'"):
        read_flow(written(tmp_path, FLOW), {"dta": "x"})


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "flow.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match="not a text"):
        read_flow(tmp_path / "flow.toml")


def test_more_kinds_can_be_registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Ticker(msgspec.Struct, forbid_unknown_fields=True):
        symbol: str

    kind = FlowKind(Ticker, lambda spark, settings: None, lambda s: f"the ticker of {s.symbol}", ())
    monkeypatch.setitem(KINDS["sources"], "ticker", kind)
    text = FLOW.replace('kind = "parquet"\npath = "${data}/prices"', 'kind = "ticker"\nsymbol = "TID"')
    flow = read_flow(written(tmp_path, text))
    assert "the ticker of TID" in as_text(flow)


# The picture


def test_the_picture_shows_all_and_their_sizes(tmp_path: Path) -> None:
    (tmp_path / "data" / "users").mkdir(parents=True)
    parquet.write_table(
        pa.table({"id": ["a"] * 1000, "filter": ["x = 1"] * 1000}), tmp_path / "data" / "users" / "u.parquet"
    )
    flow = read_flow(written(tmp_path, FLOW))
    text = as_text(flow)
    for words in (
        "source prices",
        "1,000 rows, 1 files",
        "match cheap",
        "every 10 seconds",
        "sink out",
        "exactly once",
        "again after a crash",
        "0.4 MB",
    ):
        assert words in text, words
    assert len(list(arrows(flow))) == 4


def test_the_picture_as_mermaid_and_svg(tmp_path: Path) -> None:
    flow = read_flow(written(tmp_path, FLOW.replace('name = "alerts"', 'name = "a <b> & c"')))
    mermaid = as_mermaid(flow)
    assert mermaid.startswith("flowchart LR")
    assert "source-prices --> match-cheap" in mermaid
    picture = ElementTree.fromstring(as_svg(flow))
    assert len(picture.findall(".//{http://www.w3.org/2000/svg}rect")) == 5
    assert picture.findtext("{http://www.w3.org/2000/svg}title") == "flow a <b> & c"


# Metrics

BATCH = BatchMetrics(flow="f", match="m", batch=3, version=2, replayed=False, events=100, matches=40,
    problems=1, seconds=0.5)  # fmt: skip


def test_each_batch_is_a_line(tmp_path: Path) -> None:
    lines = JsonLinesMetrics(tmp_path / "deep" / "metrics.jsonl")
    lines(BATCH)
    lines(BATCH)
    [line, _] = [json.loads(text) for text in (tmp_path / "deep" / "metrics.jsonl").read_text().splitlines()]
    assert (line["batch"], line["events_per_second"], line["problems"]) == (3, 200.0, 1)


def test_prometheus_counts_what_was_published() -> None:
    from urllib.request import urlopen

    serving = PrometheusMetrics(0)
    try:
        serving(BATCH)
        serving(BATCH)
        serving(msgspec.structs.replace(BATCH, replayed=True))
        with urlopen(f"http://127.0.0.1:{serving.port}/metrics") as answer:
            text = answer.read().decode()
        with pytest.raises(SettingsError, match="cannot be used"):
            PrometheusMetrics(serving.port)
    finally:
        serving.close()
    assert 'tidings_flow_events_total{flow="f",match="m"} 200.0' in text
    assert 'tidings_flow_batches_total{flow="f",match="m"} 2.0' in text
    assert 'tidings_flow_subscriptions_version{flow="f",match="m"} 2.0' in text


# The command line


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(words)
    stated = capsys.readouterr()
    return code, stated.out, stated.err


def test_explain_from_the_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = str(written(tmp_path, FLOW))
    assert run(capsys, "pipeline", "explain", path)[:2] == (0, as_text(read_flow(path)) + "\n")
    code, out, _ = run(capsys, "pipeline", "explain", path, "--json", "--set", "data=/x")
    assert (code, json.loads(out)["parameters"]) == (0, {"data": "/x"})
    code, _, text = run(capsys, "pipeline", "explain", path, "--as", "oil")
    assert (code, "a picture cannot be 'oil'" in text) == (2, True)


def test_check_of_the_file_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = run(capsys, "pipeline", "check", str(written(tmp_path, FLOW)), "--static")
    assert (code, "the flow alerts is fine" in out) == (0, True)
    code, _, text = run(capsys, "pipeline", "check", str(written(tmp_path, FLOW + "\n[odd]\n")), "--static")
    assert (code, "unknown key 'odd'" in text) == (2, True)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("run", "{}", "--once", "--continuous"), "exclude one another"),
        (("run", "{}", "--set", "data"), "has no value"),
        (("run", "nowhere.toml"), "nowhere.toml"),
    ],
)
def test_wrong_words_are_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: Any, problem: str
) -> None:
    path = str(written(tmp_path, FLOW))
    code, _, stated = run(capsys, "pipeline", *(word.format(path) for word in words))
    assert code == 2
    assert problem in stated
