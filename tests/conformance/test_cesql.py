"""The public conformance cases of CloudEvents SQL 1.0, as they are shared beside the repository.

Form of a case: `expression`, an optional `event` or `eventOverrides`, an optional `result`, an
optional `error` (absent: none is expected).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tidings.cli.events import event_of
from tidings.errors import FilterError
from tidings.language.cesql import evaluate, event_attributes
from tidings.language.parser import parse

ROOT = Path(__file__).parents[2]
PLACES = [ROOT / ".." / "shared/conformance/cesql", ROOT / "../.." / "shared/conformance/cesql"]
DIRECTORY = next((place for place in PLACES if place.is_dir()), None)
pytestmark = pytest.mark.skipif(
    DIRECTORY is None,
    reason="the cases of CloudEvents SQL (shared/conformance/cesql) are not beside this repository",
)
ANY_EVENT = {
    "specversion": "1.0",
    "id": "any",
    "source": "https://example.com/any",
    "type": "com.example.any",
}


def cases() -> list[Any]:
    if DIRECTORY is None:
        return []
    found = []
    for path in sorted(DIRECTORY.glob("*.yaml")):
        for number, case in enumerate(yaml.safe_load(path.read_text())["tests"]):
            found.append(pytest.param(case, id=f"{path.stem}-{number}-{case['name']}"))
    return found


def attributes(given: dict[str, Any]) -> Any:
    return given


def event_of_ours(given: dict[str, Any]) -> Any:
    """What the bus, `match` and `filter eval` see of it."""
    return event_attributes(event_of(given))


def answer(case: dict[str, Any], seen: Callable[[dict[str, Any]], Any]) -> tuple[Any, list[str]]:
    event = case.get("event") or ANY_EVENT | case.get("eventOverrides", {})
    try:
        expression = parse(str(case["expression"]), dialect="cesql")
    except FilterError:
        return False, ["parse"]
    return evaluate(expression, seen(event))


def test_the_cases_are_there() -> None:
    assert DIRECTORY is not None
    assert len(list(DIRECTORY.glob("*.yaml"))) >= 11
    assert len(cases()) > 100


@pytest.mark.parametrize("seen", [attributes, event_of_ours])
@pytest.mark.parametrize("case", cases())
def test_case(case: dict[str, Any], seen: Callable[[dict[str, Any]], Any]) -> None:
    value, errors = answer(case, seen)
    assert errors == ([case["error"]] if "error" in case else [])
    if "result" in case:
        assert value == case["result"]
        assert type(value) is type(case["result"])
