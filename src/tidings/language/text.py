"""Text to filter: the short way for plain filters, else parse and normalise; results are kept."""

from __future__ import annotations

from functools import lru_cache

from tidings.errors import FilterError
from tidings.language.limits import DEFAULT_LIMITS, Limits, check_text
from tidings.language.normalise import normalised
from tidings.language.parser import parse
from tidings.language.simple import plain
from tidings.model.filter import TIDINGS, Filter

_REMEMBERED = 8192
_REMEMBERED_TEXT = 512  # characters; the normal form of a longer filter may be large, and is not remembered


def read_filter(text: str, dialect: str = TIDINGS, limits: Limits = DEFAULT_LIMITS) -> Filter:
    """As `parse_filter`, without a memory: for loading many filters once."""
    check_text(text, limits)
    if dialect == TIDINGS:
        conjunctions = plain(text, limits)
        if conjunctions is not None:
            return Filter(text, conjunctions)
    return normalised(parse(text, dialect=dialect, limits=limits), text, dialect, limits)


_remembered = lru_cache(maxsize=_REMEMBERED)(read_filter)


def parse_filter(text: str, *, dialect: str = TIDINGS, limits: Limits = DEFAULT_LIMITS) -> Filter:
    """The filter that a text says, or a `FilterError` that says what is wrong with it."""
    if not isinstance(text, str):
        raise FilterError(f"a filter's text is a string, not {type(text).__name__}")
    if len(text) > _REMEMBERED_TEXT:
        return read_filter(text, dialect, limits)
    return _remembered(text, dialect, limits)
