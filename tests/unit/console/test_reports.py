"""What others left in files: read as far as it can be, and told where not."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tidings.console import reports
from tidings.console.quality import Report, organisations
from tidings.runtime.settings import ConsoleSettings

ROW = {"class": "Enterprise", "property": "name", "dimension": "accuracy", "value": 0.5}
JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)


def test_rows_of_objects_are_averaged() -> None:
    rows: list[Report] = [
        {**ROW, "source": "INPS", "object": "a"},
        {**ROW, "source": "INPS", "object": "b", "value": 1.0},
    ]
    found, strange = organisations([(rows, 1.0)])
    assert strange == 0
    assert found[0]["name"] == "INPS"
    assert found[0]["objects"] == 2
    assert found[0]["rows"] == [{"name": "Enterprise: name", "values": {"accuracy": 0.75}}]


def test_what_an_evaluation_prints_is_read() -> None:
    """The lines of `tidings quality evaluate --json`, run twice into one file: the last counts."""
    change = {"change": "Enterprise/Holder/17/name/accuracy", "value": 0.4, "before": 0.9}
    step = {"step": 1, "version": "1", "objects": 9, "changes": 1, "new": None, "replayed": False}
    quality = {"property": "name", "dimension": "accuracy", "mean": 0.5, "lowest": 0.1, "objects": 9}
    old = {"organisation": "CoC", "qualities": [{**quality, "mean": 1.0}]}
    new = {"organisation": "CoC", "qualities": [quality]}
    (found,), strange = organisations([([step, old, change, step, new], 1.0)])
    assert (found["name"], strange, found["objects"]) == ("CoC", 0, 9)
    assert found["rows"] == [{"name": "name", "values": {"accuracy": 0.5}}]
    assert [one["text"] for one in found["changes"]] == ["Enterprise/Holder/17/name/accuracy: 0.9 → 0.4"]


@given(
    st.dictionaries(
        st.sampled_from(["organisation", "rows", "source", "value", "property", "dimension"]), JSON
    )
)
def test_any_object_is_read_or_counted(report: dict[str, object]) -> None:
    found, strange = organisations([([report], 1.0)])
    assert isinstance(strange, int)
    json.dumps(found)


def test_the_tail_of_a_file_leaves_out_a_line_under_way(tmp_path: Path) -> None:
    file = tmp_path / "flow.jsonl"
    file.write_text('{"batch": 0}\n{"batch": 1}\n{"ba')
    assert [one["batch"] for one in reports._tail(file)] == [0, 1]


def test_only_the_tail_of_a_long_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "flow.jsonl"
    line = json.dumps({"batch": 1, "pad": "x" * 1000}) + "\n"
    file.write_text(line * 1000)
    read = reports._tail(file)
    assert 0 < len(read) <= reports.TAIL_BYTES // len(line)


def test_counters_become_batches() -> None:
    page = (
        "# TYPE tidings_flow_batches_total counter\n"
        'tidings_flow_batches_total{flow="f",match="m"} 4\n'
        "# TYPE tidings_flow_events_total counter\n"
        'tidings_flow_events_total{flow="f",match="m"} 90\n'
        "# TYPE tidings_flow_batch_seconds summary\n"
        'tidings_flow_batch_seconds_sum{flow="f",match="m"} 3\n'
    )
    (first,) = reports._scraped(page, {})
    assert (first["events"], first["seconds"], first["events_per_second"]) == (90.0, 3.0, 30.0)
    assert reports._scraped(page, {("f", "m"): first["sums"]}) == []  # nothing came since


def test_pictures_are_those_of_the_folder_alone(tmp_path: Path) -> None:
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies" / "a.svg").write_text("<svg/>")
    (tmp_path / "secret.svg").write_text("<svg/>")
    made = reports.Reports(ConsoleSettings(studies=str(tmp_path / "studies")))
    assert made._picture_of("plots/a.svg") == "a.svg"
    assert made._picture_of("../secret.svg") == ""
    assert [path.name for path in made._pictures()] == ["a.svg"]


def test_the_newest_report_of_a_study_is_shown(tmp_path: Path) -> None:
    import os

    for number, name in enumerate(("old", "new")):
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps({"study": "s", "claims": [{"id": name}], "plots": []}))
        os.utime(file, (number + 1, number + 1))
    (tmp_path / "bad.json").write_text("{")
    reported = reports.Reports(ConsoleSettings(studies=str(tmp_path)))._studies()
    assert [one["claims"] for one in reported["studies"]] == [[{"id": "new"}]]
    assert list(reported["problems"]) == ["bad.json"]
