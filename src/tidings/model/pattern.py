"""Text patterns in linear time: LIKE by segments, regular expressions by RE2.

LIKE: `%` is any text, `_` one character, a backslash takes the next `%` or `_` literally.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from tidings.errors import FilterError


@lru_cache(maxsize=65536)
def like_parts(pattern: str) -> tuple[tuple[str | None, ...], ...]:
    """The pattern cut at its `%`: segments of characters, None standing for `_`."""
    segments: list[tuple[str | None, ...]] = []
    current: list[str | None] = []
    place = 0
    while place < len(pattern):
        ch = pattern[place]
        if ch == "\\" and place + 1 < len(pattern) and pattern[place + 1] in "%_":
            current.append(pattern[place + 1])
            place += 1
        elif ch == "%":
            segments.append(tuple(current))
            current = []
        elif ch == "_":
            current.append(None)
        else:
            current.append(ch)
        place += 1
    segments.append(tuple(current))
    return tuple(segments)


def like_prefix(pattern: str) -> str:
    """The literal text with which every match of the pattern begins."""
    first = like_parts(pattern)[0]
    text: list[str] = []
    for ch in first:
        if ch is None:
            break
        text.append(ch)
    return "".join(text)


def like_is_prefix(pattern: str) -> bool:
    """True for 'abc%': a literal followed by one %."""
    parts = like_parts(pattern)
    return len(parts) == 2 and not parts[1] and None not in parts[0]


def like_literal(pattern: str) -> str | None:
    """The text itself when the pattern has no wildcard, else None."""
    parts = like_parts(pattern)
    return None if len(parts) > 1 or None in parts[0] else "".join(ch or "" for ch in parts[0])


def escape_like(text: str) -> str:
    """`text` as a LIKE pattern that means just that text."""
    return text.replace("%", "\\%").replace("_", "\\_")


@lru_cache(maxsize=65536)
def _like_program(pattern: str) -> Any:
    body = ".*".join(
        "".join("." if ch is None else _re2().escape(ch) for ch in part) for part in like_parts(pattern)
    )
    return _compiled(f"(?s:{body})")


def like_matches(pattern: str, text: str) -> bool:
    """Does the whole text fit the LIKE pattern? Linear in the text."""
    parts = like_parts(pattern)
    if len(parts) == 1 and None not in parts[0]:
        return text == like_literal(pattern)
    return _like_program(pattern).fullmatch(text) is not None


def _re2() -> Any:
    import re2  # costs some milliseconds; most filters never need it

    return re2


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> Any:
    re2 = _re2()
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 8 << 20
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else "not understood"
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise FilterError(
            f"regular expression {pattern!r}: {text}",
            hint="the syntax is RE2's: no look-around, no back-references",
        ) from None


def check_regexp(pattern: str) -> str:
    """The pattern itself, or a `FilterError` from RE2."""
    _compiled(pattern)
    return pattern


def regexp_matches(pattern: str, text: str) -> bool:
    """Is there a match anywhere in the text (RE2: linear time)?"""
    return _compiled(pattern).search(text) is not None
