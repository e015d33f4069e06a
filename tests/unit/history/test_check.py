"""The checker's door: contracts, reports, JSON, files, and what it refuses."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.unit.history.play import Play

from tidings.errors import HistoryError
from tidings.history.acceptance import FilterIndex, event_of
from tidings.history.check import check
from tidings.history.contracts import contract_of, known_contracts
from tidings.history.files import write_history
from tidings.history.properties import PROPERTIES
from tidings.history.schema import Row
from tidings.model.event import make_event

OF_THE_MAP = (
    *("legality", "validity", "liveness", "completeness", "minimality", "lp1", "lp2", "lp3", "lp4"),
    *("fifo", "gap_freedom", "view_agreement", "no_parasites"),
)


def late() -> Play:
    return (
        Play()
        .sub(1, "alice", "x > 0", "alice/news")
        .pub(2, "e")
        .told(3, "alice", "e", "alice/news")
        .usub(11.9, "alice", "alice/news")
        .told(12.5, "alice", "e", "alice/news")
    )


def test_every_property_of_the_map_has_a_verdict_in_its_order() -> None:
    assert tuple(PROPERTIES) == OF_THE_MAP
    assert tuple(late().check().verdicts) == OF_THE_MAP
    assert all(each.says.endswith(".") and each.seed for each in PROPERTIES.values())


def test_the_json_form() -> None:
    found = late().check().to_json()
    assert found["properties"]["validity"] == {
        "holds": True,
        "counterexample": None,
        "violations": 0,
        "reason": None,
    }
    legality = found["properties"]["legality"]
    assert legality["holds"] is False
    assert legality["counterexample"] == {
        "story": "At 12.5 s alice (subscription alice/news) received e of press, but had unsubscribed at "
        "11.9 s.",
        "time": 12.5,
        "process": "alice",
        "subscription": "alice/news",
        "source": "press",
        "event": "e",
        "start": 1.0,
        "end": 11.9,
        "accepted": None,
    }
    assert found["properties"]["liveness"]["holds"] is None
    assert "t_sub and t_diff" in found["properties"]["liveness"]["reason"]
    json.dumps(found, allow_nan=False)


def test_infinite_ends_are_null_in_json() -> None:
    report = Play().sub(1, "p", "x = 1").pub(2, "e").check(t_sub=0, t_diff=0)
    json.dumps(report.to_json(), allow_nan=False)
    assert report.to_json()["properties"]["completeness"]["counterexample"]["end"] is None


def test_the_report_speaks_for_itself() -> None:
    report = late().check()
    assert not report.holds
    assert report.broken == ["legality", "minimality", "lp4"]
    assert str(report.story).startswith("At 12.5 s alice")
    fine = late().without(4).check()
    assert (fine.holds, fine.broken, fine.story) == (True, [], None)


def test_a_history_of_nothing_breaks_nothing() -> None:
    assert check([]).holds
    assert check([], contract="everything", t_sub=1, t_diff=1)["view_agreement"].holds is None


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_files_are_judged_like_rows(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"run.{ending}"
    write_history(path, late().rows)
    assert check(path) == check(str(path)) == late().check()


def test_contracts_are_those_of_the_systems() -> None:
    systems = {
        "Tidings",
        "Intermediary",
        "Network of servers",
        "TIB/RV",
        "Scribe",
        "Gryphon",
        "SIENA",
        "Hermes",
    }
    systems |= {"SOCBR", "pbSOCBR", "Epidemic", "UARC", "daMulticast", "Gossip broadcast", "Gossip multicast"}
    systems |= {"Hierarchical gossip", "PMcast", "QNS"}
    assert systems <= known_contracts().keys()
    for contract in known_contracts().values():
        assert contract.properties >= {"legality", "validity"}
        of_the_intermediary = contract.system in ("Intermediary", "everything")
        assert ({"lp2", "lp3"} <= contract.properties) == of_the_intermediary
        assert (contract.receiver == "process") == (contract.system == "Intermediary")
    assert contract_of("siena").system == "SIENA"
    assert contract_of("network-of-servers").system == "Network of servers"
    assert len({contract_of(name).system for name in known_contracts()}) == len(known_contracts())


def test_an_unknown_contract_is_told_with_the_nearest() -> None:
    with pytest.raises(HistoryError, match="did you mean Gryphon"):
        check([], contract="Gryphn")


def test_best_effort_promises_safety_alone() -> None:
    report = Play().sub(1, "p", "x = 1").pub(5, "e").check(contract="SIENA", t_sub=1, t_diff=1)
    assert report["completeness"].holds is None
    assert report["legality"].holds is True


@pytest.mark.parametrize("value", [-1, math.nan, math.inf])
def test_times_must_be_seconds(value: float) -> None:
    with pytest.raises(HistoryError, match="t_sub"):
        check([], t_sub=value, t_diff=1)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (Row(time=1, process="p", op="pub"), "row 1 (pub): it names no event"),
        (Row(time=1, process="p", op="ntfy", subscription="s"), "row 1 (ntfy): it names no event"),
        (Row(time=1, process="p", op="drop", event="e"), "row 1 (drop): it has no reason"),
        (Row(time=1, process="p", op="view", view=1), "row 1 (view): it has no view number or no members"),
        (Row(time=math.nan, process="p", op="crash"), "row 1 (crash): its time is nan"),
        (Row(time=1, process="p", op="pub", event="e", lifetime=-1), "row 1 (pub): its lifetime is -1"),
    ],
)
def test_rows_that_cannot_be_judged_are_named(row: Row, problem: str) -> None:
    with pytest.raises(HistoryError) as caught:
        check([row])
    assert problem in str(caught.value)


def test_a_filter_that_does_not_parse_is_told() -> None:
    with pytest.raises(HistoryError, match="x <"):
        Play().sub(1, "p", "x <").pub(2, "e").check()


def test_filters_see_all_of_an_event() -> None:
    """Nested attributes, timestamps, the event's own time, topic and types; both dialects."""
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    event = {"name": {"accuracy": 0.5}, "at": noon}
    more = {"topic": "a/b", "type": ("Quote", "Thing"), "time": noon}
    wanted = [
        "name.accuracy = 0.5",
        "at = TIMESTAMP '2026-01-01T12:00:00Z'",
        "time = TIMESTAMP '2026-01-01T12:00:00Z'",
        "topic MATCHES 'a/+'",
        "type IS A 'Thing'",
        "type = 'Quote'",
        "source = 'press'",
        "NOT EXISTS price",
    ]
    for number, text in enumerate(wanted):
        play = Play().sub(0, "p", text).pub(1, f"e{number}", event, **more)
        assert play.check(t_sub=0, t_diff=0)["completeness"].holds is False, text
        play.told(1.5, "p", f"e{number}")
        assert play.check(t_sub=0, t_diff=0).broken == [], text
    play = Play().sub(0, "p", "Price = '5'", dialect="cesql").pub(1, "e", {"price": 5}).told(2, "p", "e")
    assert play.check().broken == []
    play = Play().sub(0, "p", "Price = '5'").pub(1, "e", {"price": 5}).told(2, "p", "e")
    assert play.check().broken == ["legality", "lp4"]


def test_the_index_of_filters_keeps_kinds_apart() -> None:
    texts = ["a = 1", "a = TRUE", "a IN (1, 'x')", "a > 0", "b = 2 OR a = 1", "b = 2 OR a > 5", "FALSE"]
    index = FilterIndex([(text, "tidings") for text in texts])

    def accepting(**attributes: object) -> list[str]:
        return [texts[n] for n in index.accepting(make_event(attributes, source="s", id="1"))]

    assert accepting(a=1) == ["a = 1", "a IN (1, 'x')", "a > 0", "b = 2 OR a = 1"]
    assert accepting(a=1.0) == ["a = 1", "a IN (1, 'x')", "a > 0", "b = 2 OR a = 1"]
    assert accepting(a=True) == ["a = TRUE"]
    assert accepting(a="x") == ["a IN (1, 'x')"]
    assert accepting(a=9, b=2) == ["a > 0", "b = 2 OR a = 1", "b = 2 OR a > 5"]
    assert accepting() == []


def test_an_event_is_rebuilt_as_filters_saw_it() -> None:
    noon = datetime(2026, 1, 1, tzinfo=UTC)
    event = make_event({"a": {"b": 1}}, source="s", id="1", topic="t", type="T", time=noon)
    assert event_of("s", "1", {"a": {"b": 1}, "time": noon}, "t", ("T",)).view == event.view
