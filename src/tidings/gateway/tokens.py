"""Positions and resume tokens as text: the ids of a stream's events, and what a client gives back as `since`.

Rules
- A position is `log:offset`. In a log's name `%`, `,` and control characters are percent-encoded.
- A token names a position for each log, separated by commas: the client has everything of each log up to
  there. The order of a log is the order of its deliveries, so the id of one event confirms all that a stream
  sent before it.
- A token has a bounded number (`ResourceLimits.token_logs`) of logs; beyond it the log that was silent for
  longest goes, and a client that returns is sent events of that log again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote

from tidings.errors import InputError
from tidings.model.subscription import Position

_PLAIN = " !\"#$&'()*+/:;<=>?@[\\]^`{|}"  # left as they are, beside letters, digits and -._~


def position_text(position: Position | None) -> str:
    return "" if position is None else f"{quote(position.log, safe=_PLAIN)}:{position.offset}"


def read_token(text: Any) -> dict[str, int]:
    """The positions by log. Raises `InputError`."""
    token: dict[str, int] = {}
    for part in str(text).split(","):
        log, colon, offset = part.rpartition(":")
        if not colon or not offset.isdecimal() or not offset.isascii() or len(offset) > 19:
            raise InputError(
                f"{str(text)[:200]!r} is no position", hint="give back the id of an event, log:offset"
            )
        token[unquote(log)] = int(offset)
    return token


class StreamToken:
    """The token of one stream, as the events go out."""

    def __init__(self, since: Mapping[str, int], most_logs: int) -> None:
        self._upto = dict(since)
        self._most_logs = most_logs

    def after(self, position: Position) -> str:
        """The token of a client that has this event, and all before it."""
        self._upto.pop(position.log, None)  # the log that spoke last stands last
        self._upto[position.log] = position.offset
        while len(self._upto) > self._most_logs:
            del self._upto[next(iter(self._upto))]
        return ",".join(position_text(Position(log, offset)) for log, offset in self._upto.items())
