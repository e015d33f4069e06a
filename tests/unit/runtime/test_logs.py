"""Logs as text: names that come from clients neither end a line nor speak to the terminal."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import tidings
from tidings.runtime.logs import JsonLines, TextLines
from tidings.runtime.middleware import HandlerCall, logged
from tidings.security.audit import AuditEntry

DOCS = Path(__file__).parents[3] / "docs"


def line(message: str, exc_info: Any = None) -> str:
    record = logging.LogRecord("tidings.test", logging.WARNING, "", 0, "client %s", (message,), exc_info)
    return TextLines("%(levelname)s %(message)s").format(record)


def test_control_characters_are_escaped_in_text() -> None:
    assert line("a\nFORGED\x1b[31m\x9b\x7f") == r"WARNING client a\x0aFORGED\x1b[31m\x9b\x7f"


def test_a_traceback_keeps_its_lines() -> None:
    try:
        raise ValueError("\x1b[31m")
    except ValueError:
        text = line("ann", sys.exc_info())
    assert "\x1b" not in text
    assert text.splitlines()[1].startswith("Traceback")


def documented(page: str, head: str) -> list[str]:
    """Names in the first column of the table with this head."""
    _, table = (DOCS / page).read_text().split(f"| {head} | content |\n|---|---|\n")
    return re.findall(r"^\| `(\w+)` \|", table.split("\n\n")[0], re.M)


def test_the_documented_log_fields_are_those_that_are_written(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(call: HandlerCall) -> None:
        raise ValueError("no")

    event = tidings.make_event({"price": 2}, source="market", id="q1")
    call = HandlerCall("alerts", [event], event, 1)
    with caplog.at_level(logging.INFO, logger="tidings.handlers"), pytest.raises(ValueError, match="no"):
        asyncio.run(logged()(call, fail))
    written = json.loads(JsonLines("b1").format(caplog.records[0]))
    page = (DOCS / "operating.md").read_text()
    assert [*written, "error"] == [*documented("operating.md", "log field")[:5], "tidings", "error"]
    assert all(f"`{name}`" in page for name in written["tidings"])


def test_the_documented_audit_fields_are_those_of_entries() -> None:
    assert documented("security.md", "audit field") == list(AuditEntry.__struct_fields__)
