"""Structured logs on standard error: text for people, or one JSON object a line for programs.

Every module logs under `tidings.`; an application that embeds Tidings configures that as any other logger.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

from tidings.runtime.settings import LogSettings

ROOT = "tidings"
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def set_up(settings: LogSettings, broker: str) -> None:
    """Send what `tidings` logs to standard error, in the form that was chosen."""
    logger = logging.getLogger(ROOT)
    for old in list(logger.handlers):
        if isinstance(old, _Handler):
            logger.removeHandler(old)
    handler = _Handler(sys.stderr)
    handler.setFormatter(JsonLines(broker) if settings.format == "json" else _text(broker))
    logger.addHandler(handler)
    logger.setLevel(settings.level.upper())
    logger.propagate = False


class _Handler(logging.StreamHandler[Any]):
    """Ours, so that it can be told from what an embedding application added."""


def _text(broker: str) -> logging.Formatter:
    return TextLines(f"%(asctime)s %(levelname)-7s {broker.replace('%', '%%')}: %(message)s")


_ESCAPED = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}
_ESCAPED_LINES = {code: text for code, text in _ESCAPED.items() if code not in (0x09, 0x0A)}


class TextLines(logging.Formatter):
    """Lines for people. Control characters are escaped: names come from clients, and one could end a line or
    speak to the terminal. Only a traceback has several lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the library's name
        return super().formatMessage(record).translate(_ESCAPED)

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the library's name
        return super().formatException(ei).translate(_ESCAPED_LINES)


class JsonLines(logging.Formatter):
    """One object a line: time, level, broker, logger, message, and what was given as `extra`."""

    def __init__(self, broker: str) -> None:
        super().__init__()
        self._broker = broker

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        entry: dict[str, Any] = {
            "time": moment.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "broker": self._broker,
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False, default=str)
