"""Text patterns: LIKE by segments, regular expressions by RE2. Neither backtracks.

Both are linear in the text times the pattern; a pattern's weight says how often the text is gone through at
most (`language/work.py` keeps a budget of it).

LIKE: `%` is any text, `_` one character, a backslash takes the next `%` or `_` literally.
"""

from __future__ import annotations

import re
from functools import lru_cache
from threading import Lock
from typing import Any

from tidings.errors import FilterError, FilterLimitError

REMEMBERED_PATTERN = 256  # characters; what a longer one is cut into is not remembered, it would be megabytes


def like_parts(pattern: str) -> tuple[tuple[str | None, ...], ...]:
    """The pattern cut at its `%`: segments of characters, None standing for `_`."""
    return _known_parts(pattern) if len(pattern) <= REMEMBERED_PATTERN else _like_parts(pattern)


def _like_parts(pattern: str) -> tuple[tuple[str | None, ...], ...]:
    segments: list[tuple[str | None, ...]] = []
    current: list[str | None] = []
    position = 0
    while position < len(pattern):
        ch = pattern[position]
        if ch == "\\" and position + 1 < len(pattern) and pattern[position + 1] in "%_":
            current.append(pattern[position + 1])
            position += 1
        elif ch == "%":
            segments.append(tuple(current))
            current = []
        elif ch == "_":
            current.append(None)
        else:
            current.append(ch)
        position += 1
    segments.append(tuple(current))
    return tuple(segments)


_known_parts = lru_cache(maxsize=65536)(_like_parts)


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


@lru_cache(maxsize=4096)
def _like_segments(pattern: str) -> tuple[str, ...] | None:
    """The literal texts between the `%`; None when there is a `_` among them."""
    parts = like_parts(pattern)
    if any(ch is None for part in parts for ch in part):
        return None
    return tuple("".join(ch or "" for ch in part) for part in parts)


@lru_cache(maxsize=1024)
def _like_program(pattern: str) -> Any:
    body = ".*".join(
        "".join("." if ch is None else _re2().escape(ch) for ch in part) for part in like_parts(pattern)
    )
    return _compiled(f"(?s:{body})")


def like_matches(pattern: str, text: str) -> bool:
    """Does the whole text fit the LIKE pattern? At most text times pattern."""
    segments = _like_segments(pattern)
    if segments is None:
        return _like_program(pattern).fullmatch(text) is not None
    first, last = segments[0], segments[-1]
    if len(segments) == 1:
        return text == first
    if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
        return False
    position, end = len(first), len(text) - len(last)
    for segment in segments[1:-1]:  # each as early as it can be: what follows has the most room then
        position = text.find(segment, position, end)
        if position < 0:
            return False
        position += len(segment)
    return True


@lru_cache(maxsize=4096)
def like_weight(pattern: str) -> int:
    """Most passes over a text; 0 for a plain text and for a prefix."""
    if like_literal(pattern) is not None or like_is_prefix(pattern):
        return 0
    return len(pattern)


WEIGHT_OF_ANY = 10  # `.` and what is not in a class: RE2 has so many steps for the lengths of UTF-8
WEIGHT_OF_CLASS = 2
WEIGHT_OF_UNICODE = 512  # \\p{..}: hundreds of ranges
MOST_WEIGHT = 1 << 17  # of an expression; compiling a larger one takes long
_COUNT = re.compile(r"\{(\d*)(,?)(\d*)\}", re.ASCII)


@lru_cache(maxsize=4096)
def regexp_weight(pattern: str) -> int:
    """About how many steps of RE2's program the expression becomes: counted repetitions multiply."""
    sums, last = [0], [0]  # by open group: the weight so far, and that of what stood last
    position = 0
    while position < len(pattern):
        position, weight, kind = _regexp_atom(pattern, position)
        if kind == "(":
            sums.append(0)
            last.append(0)
        elif kind == ")":
            if len(sums) > 1:
                inner = sums.pop()
                last.pop()
                sums[-1] += inner
                last[-1] = inner
        elif kind == "{":
            sums[-1] += last[-1] * (weight - 1)
            last[-1] *= weight
        elif weight:
            sums[-1] += weight
            last[-1] = weight
        sums[-1] = min(sums[-1], MOST_WEIGHT + 1)
    return max(1, min(sum(sums), MOST_WEIGHT + 1))


def _regexp_atom(pattern: str, position: int) -> tuple[int, int, str]:
    """What stands there: where the next begins, its weight (of `{m,n}`: how often), and its kind."""
    ch = pattern[position]
    if ch == "\\" and position + 1 < len(pattern):
        if pattern.startswith("\\Q", position):
            end = pattern.find("\\E", position)
            end = len(pattern) if end < 0 else end
            return min(end + 2, len(pattern)), max(1, end - position - 2), "text"
        named = pattern[position + 1]
        weight = WEIGHT_OF_UNICODE if named in "pP" else WEIGHT_OF_ANY if named in "DWSC" else 1
        after = position + 2
        if named in "pPx":  # \\pL, \\p{Greek}, \\x{10ffff}
            is_long = pattern.startswith("{", after)
            after = max(after, pattern.find("}", after)) + 1 if is_long else after + 1
        return after, weight, "escape"
    if ch == "[":
        return _regexp_class(pattern, position)
    if ch == "{" and (count := _COUNT.match(pattern, position)):
        low = int(count[1] or 0)
        high = int(count[3]) if count[3] else low + bool(count[2])
        return count.end(), max(1, low, high), "{"
    weight = {".": WEIGHT_OF_ANY, "*": 0, "+": 0, "?": 0, "|": 1, "^": 1, "$": 1}.get(ch, 1)
    return position + 1, 0 if ch in "()" else weight, ch if ch in "()" else "text"


def _regexp_class(pattern: str, position: int) -> tuple[int, int, str]:
    negated = pattern.startswith("[^", position)
    end = position + 1 + negated
    end += pattern.startswith("]", end)  # first in a class it stands for itself
    weight = WEIGHT_OF_ANY if negated else WEIGHT_OF_CLASS
    while end < len(pattern) and pattern[end] != "]":
        if pattern.startswith("[:", end):
            weight = max(weight, WEIGHT_OF_ANY) if pattern.startswith("[:^", end) else weight
            end = max(end, pattern.find(":]", end)) + 2
        elif pattern[end] == "\\":
            named = pattern[end + 1 : end + 2]
            if named in ("p", "P"):
                weight = max(weight, WEIGHT_OF_UNICODE)
            elif named in ("D", "W", "S"):
                weight = max(weight, WEIGHT_OF_ANY)
            end += 2
        else:
            weight += not pattern[end].isascii()
            end += 1
    return end + 1, weight, "class"


def _re2() -> Any:
    import re2  # costs some milliseconds; most filters never need it

    return re2


SMALL_PROGRAM = 64 << 10  # bytes that RE2 may use for a short expression ...
PROGRAM_OF_WEIGHT = 2 << 10  # ... and more for each step of a longer one
LARGE_PROGRAM = 8 << 20


CACHED_PROGRAMS = 96 << 20  # bytes that all remembered programs may use together


class _Programs:
    """Compiled expressions, the newest; bounded by the bytes that RE2 may use for them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._programs: dict[str, Any] = {}
        self._sizes: dict[str, int] = {}  # the memory of each, the oldest first
        self._lock = Lock()
        self.bytes = 0

    def get(self, pattern: str) -> Any:
        program = self._programs.get(pattern)
        return self._add(pattern) if program is None else program

    def _add(self, pattern: str) -> Any:
        program, size = _compile(pattern)
        with self._lock:
            if pattern not in self._sizes:
                self.bytes += size
                self._sizes[pattern], self._programs[pattern] = size, program
            while self.bytes > self._most and len(self._sizes) > 1:
                oldest = next(iter(self._sizes))
                self.bytes -= self._sizes.pop(oldest)
                del self._programs[oldest]
        return program

    def __len__(self) -> int:
        return len(self._sizes)


_programs = _Programs(CACHED_PROGRAMS)
_compiled = _programs.get


def _compile(pattern: str) -> tuple[Any, int]:
    """The expression as RE2 has it, and the memory that it may use, which grows with its size."""
    re2 = _re2()
    small = min(LARGE_PROGRAM, SMALL_PROGRAM + PROGRAM_OF_WEIGHT * regexp_weight(pattern))
    for memory in (small, LARGE_PROGRAM):
        options = re2.Options()
        options.log_errors = False
        options.max_mem = memory
        try:
            return re2.compile(pattern, options), memory
        except re2.error as error:
            reason = error.args[0] if error.args else "not understood"
    text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
    raise FilterError(
        f"regular expression {pattern!r}: {text}",
        hint="the syntax is RE2's: no look-around, no back-references",
    )


def compiled_weight(pattern: str) -> int:
    """About how much work compiling the expression is: its steps, and its text."""
    return regexp_weight(pattern) + len(pattern)


def check_regexp(pattern: str) -> str:
    """The pattern itself, or a `FilterError` from RE2. An overweight pattern is not compiled at all."""
    if regexp_weight(pattern) > MOST_WEIGHT:
        raise FilterLimitError(
            f"the regular expression {pattern[:40]!r}... has more than {MOST_WEIGHT} steps",
            hint="use smaller counts in {m,n}, or fewer alternatives",
        )
    _compiled(pattern)
    return pattern


def regexp_matches(pattern: str, text: str) -> bool:
    """Is there a match anywhere in the text (RE2: linear time)?"""
    return _compiled(pattern).search(text) is not None
