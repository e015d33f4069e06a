"""Structured logs on standard error or in a file: text for people, or one JSON object a line for programs.

Fields of a line of JSON have stable names: `time` (UTC, ISO 8601), `level`, `broker`, `logger`, `message`,
and `error` (a traceback) when there is one. Further fields may come; these stay.

Every module logs under `tidings.`; an application that embeds Tidings configures that as any other logger.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import msgspec

from tidings.errors import SettingsError
from tidings.runtime.settings import LogSettings

ROOT = "tidings"
FIELDS = ("time", "level", "broker", "logger", "message")  # of every line, in this order
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def set_up(settings: LogSettings, broker: str) -> None:
    """Send what `tidings` logs to standard error or a file, in the form that was chosen. A second call opens
    the file again: another program may have renamed it. Raises `SettingsError`."""
    logger = logging.getLogger(ROOT)
    handler = _Handler(_stream(settings.file))
    handler.is_file = bool(settings.file)
    for old in list(logger.handlers):
        if isinstance(old, _Handler):
            logger.removeHandler(old)
            old.close()
    handler.setFormatter(JsonLines(broker) if settings.format == "json" else _text(broker))
    logger.addHandler(handler)
    logger.setLevel(settings.level.upper())
    logger.propagate = False


def leave_file(settings: LogSettings, broker: str) -> None:
    """The broker has ended: close its file; later lines go to standard error."""
    if settings.file:
        set_up(msgspec.structs.replace(settings, file=""), broker)


def _stream(file: str) -> TextIO:
    if not file:
        return sys.stderr
    try:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        return Path(file).open("a", encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise SettingsError(f"the log cannot be written to {file}: {error.strerror}") from None


class _Handler(logging.StreamHandler[TextIO]):
    """Ours, so that it can be told from what an embedding application added."""

    is_file = False  # opened by us, and so closed by us

    def close(self) -> None:
        super().close()
        if self.is_file:
            self.stream.close()


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
        values = (moment.replace("+00:00", "Z"), record.levelname.lower(), self._broker, record.name)
        entry: dict[str, Any] = dict(zip(FIELDS, (*values, record.getMessage()), strict=True))
        entry |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False, default=str)
