"""Attributes beyond the last slot of the compiled tables, and columns of Arrow in other time zones."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from tidings.language import accepts, parse_filter
from tidings.matching.columnar import slots
from tidings.matching.columnar.matcher import ColumnarMatcher
from tidings.matching.columnar.numpy_matcher import NumpyMatcher
from tidings.model.event import make_event

TEXTS = (
    "LIKE 'I%'",
    "LIKE '%BM'",
    "= 'IBM'",
    "< 'J'",
    "MATCHES 'IBM/#'",
    "IN ('IBM', 'x')",
    "REGEXP 'B'",
    "> 5",
)


@pytest.mark.parametrize("kind", [ColumnarMatcher, NumpyMatcher])
def test_a_text_without_a_slot_is_matched_as_any_other(kind: Any) -> None:
    matcher = kind()
    for number in range(slots.MAX_SLOTS // 4 + 8):  # each takes four slots
        matcher.add(parse_filter(f"a{number} IN (1, 'x', TRUE, TIMESTAMP '2026-01-01T00:00:00Z')"))
    filters = {matcher.add(parse_filter(f"name {text}")): parse_filter(f"name {text}") for text in TEXTS}
    while matcher.maintain(1000):
        pass
    assert matcher.slots.find("name", slots.STRING) < 0
    for value in ("IBM", "J", "", 7, True):
        event = make_event({"name": value}, source="s", id="1")
        wanted = [handle for handle, filter in filters.items() if accepts(filter, event)]
        assert list(matcher.match(event)) == wanted, value
        assert list(matcher.match_batch([event] * 40).handles) == wanted * 40, value


MOMENT = datetime(2026, 7, 1, 12, tzinfo=UTC)
OF_TIMES = (
    "STRING(at) = '2026-07-01T12:00:00Z'", "STRING(at) LIKE '%Z'", "LENGTH(STRING(at)) = 20",
    "RIGHT(STRING(at), 1) = 'Z'",
    "NOT (STRING(at) LIKE '%Z')", "at = TIMESTAMP '2026-07-01T12:00:00Z'",
)  # fmt: skip


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "+02:00"])
@pytest.mark.parametrize("text", OF_TIMES)
def test_a_timestamp_of_an_arrow_column_has_the_text_that_it_has_in_an_event(text: str, zone: str) -> None:
    filter, matcher = parse_filter(text), ColumnarMatcher()
    matcher.add(filter)
    batch = pa.RecordBatch.from_arrays([pa.array([MOMENT], pa.timestamp("us", zone))], names=["at"])
    wanted = accepts(filter, make_event({"at": MOMENT}, source="s", id="1"))
    assert (len(matcher.match_batch(batch).handles) == 1) is wanted
