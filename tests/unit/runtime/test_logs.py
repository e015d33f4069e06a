"""Logs as text: names that come from clients neither end a line nor speak to the terminal."""

from __future__ import annotations

import logging
import sys
from typing import Any

from tidings.runtime.logs import TextLines


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
