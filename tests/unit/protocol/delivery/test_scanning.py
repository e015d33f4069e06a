"""Reading the log with a costly filter happens in short steps."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.protocol._stage import Stage

from tidings.language import parse_filter
from tidings.protocol import messages as msg
from tidings.protocol.delivery.scanning import entries_at_once
from tidings.protocol.inputs import ClientAsk
from tidings.protocol.limits import DEFAULT_LIMITS

COSTLY = " OR ".join(f"x LIKE '%b%a{number}%'" for number in range(100))


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("TRUE", 256, 256), ("n = 1 AND x LIKE 'b%'", 256, 256), ("x LIKE '%b%'", 256, 256),
        (COSTLY, 2, 16), (" OR ".join(f"n + {number} < 5" for number in range(250)), 10, 30),
        ("x REGEXP '" + "(a|b){50}" * 20 + "'", 1, 16),
    ],
)  # fmt: skip
def test_a_costly_filter_looks_at_fewer_entries_in_a_step(text: str, least: int, most: int) -> None:
    assert least <= entries_at_once(parse_filter(text), DEFAULT_LIMITS.page_count) <= most


def test_a_page_is_read_in_steps_and_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    p, reader = stage.client("p"), stage.client("reader")
    for number in range(40):
        stage.published(p, {"n": number, "x": f"b a{number} "}, lifetime=1000.0)
    counts: list[int] = []
    disk: Any = stage.node._ports.disk
    fetch = disk.fetch

    def counted(first: int, count: int, *more: Any) -> None:
        counts.append(count)
        fetch(first, count, *more)

    monkeypatch.setattr(disk, "fetch", counted)
    pages = []
    for text in ("n >= 0", COSTLY):
        filter = parse_filter(text)
        call = stage.call()
        stage.hand(reader, ClientAsk(call, msg.ReadLog(call, filter, 0, 1000)))
        stage.settle()
        pages.append(stage.answers[call])
    assert counts[0] == DEFAULT_LIMITS.page_count
    assert max(counts[1:]) <= 16
    assert len(counts[1:]) >= 3
    assert [len(page.entries) for page in pages] == [40, 40]
