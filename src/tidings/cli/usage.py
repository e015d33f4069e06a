"""Options and pieces of help that commands share."""

from __future__ import annotations

from enum import StrEnum


class Dialect(StrEnum):
    """Dialect of a filter's text."""

    TIDINGS = "tidings"
    CESQL = "cesql"


JSON_HELP = "Print JSON for programs instead of text for people."


def examples(*commands: str) -> str:
    """An epilogue that shows how the command is called, one example a line."""
    from rich.markup import escape

    return "\n".join(["Examples:", *(f"$ {escape(command)}" for command in commands)])
