"""Is there a string inside these intervals that fits these patterns?

Rules
- LIKE patterns and topic patterns are read as small automata and decided exactly, by walking
  their product with the intervals breadth first: the first accepting state is a witness.
- Characters that no pattern and no bound tells apart are represented by one of them.
- A regular expression is read when it is a literal, with or without ^ and $; any other one is
  opaque: what is known of it is the literal text that it must begin with, what it says of a
  witness, and that it excludes its own negation.
- Past the budget of steps the answer is None: unknown, never a guess.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from tidings.algebra.intervals import BOTTOM, TOP, Intervals, some_value, values_of
from tidings.model.pattern import escape_like, like_matches, like_parts, regexp_matches
from tidings.model.topic import topic_matches
from tidings.model.value import Kind

LIKE, TOPIC, REGEXP = "like", "topic", "regexp"
BUDGET = 20_000  # steps of the walk; more decides longer patterns and costs about 1 µs each
WITNESSES = 32  # strings tried on opaque patterns before giving up

_ONE, _MANY, _LEVEL = "", "%%", "++"  # tokens that are no single character: any one, any text, one level
_META = frozenset("\\.+*?()|[]{}^$")
_LAST_CODE = 0x10FFFF


class Pattern(NamedTuple):
    """A LIKE, topic or regular expression, or its negation, as a set of strings."""

    kind: str
    text: str
    negated: bool = False

    def accepts(self, text: str) -> bool:
        test = {LIKE: like_matches, TOPIC: topic_matches, REGEXP: regexp_matches}[self.kind]
        return test(self.text, text) is not self.negated

    def negation(self) -> Pattern:
        return self._replace(negated=not self.negated)


@lru_cache(maxsize=16384)
def decide_empty(intervals: Intervals, patterns: tuple[Pattern, ...]) -> bool | None:
    """True: no such string. False: there is one. None: not known."""
    found, complete = _search(intervals, patterns)
    return False if found is not None else True if complete else None


def some_string(intervals: Intervals, patterns: tuple[Pattern, ...]) -> str | None:
    """A string inside the intervals that fits the patterns; None when none was found."""
    return _search(intervals, patterns)[0]


def _search(intervals: Intervals, patterns: tuple[Pattern, ...]) -> tuple[str | None, bool]:
    """Such a string, and whether there is none when none was found."""
    if any(pattern.negation() in patterns for pattern in patterns):
        return None, True
    finite = values_of(Kind.STRING, intervals)
    if finite is not None:
        return next((str(text) for text in finite if _fits(str(text), patterns)), None), True
    for text in _guesses(intervals, patterns):
        if _inside(text, intervals) and _fits(text, patterns):
            return text, False
    readable = tuple(pattern for pattern in patterns if pattern.kind != REGEXP)
    wanted = 1 if len(readable) == len(patterns) else WITNESSES
    found, complete = _walk(intervals, readable, wanted)
    return next((text for text in found if _fits(text, patterns)), None), complete and not found


def literal_regexp(pattern: str) -> str | None:
    """The LIKE pattern of a regular expression that is a literal with or without ^ and $."""
    start, end = pattern.startswith("^"), pattern.endswith("$")
    body = pattern[start : len(pattern) - end]
    if _META.intersection(body) or len(pattern) < start + end:
        return None
    return ("" if start else "%") + escape_like(body) + ("" if end else "%")


def regexp_prefix(pattern: str) -> str:
    """Literal text with which every match must begin; "" when unknown."""
    if not pattern.startswith("^") or "|" in pattern:
        return ""
    position = 1
    while position < len(pattern) and pattern[position] not in _META:
        position += 1
    if position < len(pattern) and pattern[position] in "*?{":
        position -= 1  # the last character may be repeated no times
    return pattern[1:position]


class _PatternMachine(NamedTuple):
    """Tokens in a row; a state is the set of places reached, as bits, and what was read at first."""

    tokens: tuple[str, ...]
    accepting: int
    rootless: bool  # a topic pattern with + never fits the root topic "/"
    negated: bool

    def start(self) -> tuple[int, int]:
        return (self._closed(1), 0)

    def step(self, state: tuple[int, int], ch: str) -> tuple[int, int]:
        mask, read = state
        reached, position = 0, 0
        while mask:
            if mask & 1 and position < len(self.tokens):
                token = self.tokens[position]
                if token == _MANY or (token == _LEVEL and ch != "/"):
                    reached |= 1 << position
                elif token in (_ONE, ch):
                    reached |= 2 << position
            mask >>= 1
            position += 1
        return (self._closed(reached), 1 if read == 0 and ch == "/" else 2)

    def _closed(self, mask: int) -> int:
        for position, token in enumerate(self.tokens):
            if mask >> position & 1 and token in (_MANY, _LEVEL):
                mask |= 2 << position
        return mask

    def accepts(self, state: tuple[int, int]) -> bool:
        hit = bool(state[0] & self.accepting) and not (self.rootless and state[1] == 1)
        return hit is not self.negated

    def is_dead(self, state: tuple[int, int]) -> bool:
        return not self.negated and state[0] == 0


@lru_cache(maxsize=4096)
def _machine(pattern: Pattern) -> _PatternMachine:
    if pattern.kind == TOPIC:
        return _topic_machine(pattern)
    tokens: list[str] = []
    for position, part in enumerate(like_parts(pattern.text)):
        if position:
            tokens.append(_MANY)
        tokens.extend(_ONE if ch is None else ch for ch in part)
    return _PatternMachine(tuple(tokens), 1 << len(tokens), False, pattern.negated)


def _topic_machine(pattern: Pattern) -> _PatternMachine:
    levels = pattern.text.split("/")
    below = levels[-1] == "#"
    tokens: list[str] = []
    for position, level in enumerate(levels[: len(levels) - below]):
        if position:
            tokens.append("/")
        tokens.extend([_LEVEL] if level == "+" else level)
    accepting = 1 << len(tokens)
    if below:  # the topic itself, or anything below it
        tokens += ["/", _MANY]
        accepting |= 1 << len(tokens)
    return _PatternMachine(tuple(tokens), accepting, True, pattern.negated)


class _TextBounds(NamedTuple):
    """Follows how the text read so far compares with each bound of the intervals."""

    intervals: Intervals
    bounds: tuple[str, ...]

    def start(self) -> tuple[int, ...]:
        return (0,) * len(self.bounds)

    def step(self, state: tuple[int, ...], ch: str) -> tuple[int, ...]:
        return tuple(_compared(bound, at, ch) for bound, at in zip(self.bounds, state, strict=True))

    def accepts(self, state: tuple[int, ...]) -> bool:
        position = sum(at == _ABOVE or at == len(bound) for bound, at in zip(self.bounds, state, strict=True))
        lowest = (
            (0, self.bounds[position - 1], 0) if position else BOTTOM
        )  # the greatest bound not above the text
        return any(start <= lowest < end for start, end in self.intervals)


_BELOW, _ABOVE = -1, -2


def _compared(bound: str, at: int, ch: str) -> int:
    """`at` characters are equal so far, or the comparison is decided."""
    if at < 0:
        return at
    if at == len(bound):
        return _ABOVE
    if ch == bound[at]:
        return at + 1
    return _BELOW if ch < bound[at] else _ABOVE


def _walk(intervals: Intervals, patterns: tuple[Pattern, ...], wanted: int) -> tuple[list[str], bool]:
    """Accepted strings, shortest first, and whether the whole product was walked."""
    machines = tuple(_machine(pattern) for pattern in patterns)
    edges = {cut[1] for interval in intervals for cut in interval if cut not in (BOTTOM, TOP)}
    bounds = _TextBounds(intervals, tuple(sorted(edges)))
    letters = _letters(machines, bounds)
    begin = (bounds.start(), tuple(machine.start() for machine in machines))
    seen, queue, found = {begin}, deque([("", begin)]), []
    budget = BUDGET
    while queue:
        text, (position, states) = queue.popleft()
        if bounds.accepts(position) and all(m.accepts(s) for m, s in zip(machines, states, strict=True)):
            found.append(text)
            if len(found) >= wanted:
                return found, False
        for ch in letters:
            stepped = tuple(m.step(s, ch) for m, s in zip(machines, states, strict=True))
            if any(m.is_dead(s) for m, s in zip(machines, stepped, strict=True)):
                continue
            after = (bounds.step(position, ch), stepped)
            if after not in seen:
                seen.add(after)
                queue.append((text + ch, after))
        budget -= len(letters)
        if budget < 0:
            return found, False
    return found, True


def _letters(machines: tuple[_PatternMachine, ...], bounds: _TextBounds) -> list[str]:
    """Each character that is named somewhere, and one for each gap between them."""
    named = {token for machine in machines for token in machine.tokens if len(token) == 1}
    named.update(ch for bound in bounds.bounds for ch in bound)
    named.add("/")
    codes = sorted(ord(ch) for ch in named)
    result: list[str] = []
    previous = -1
    for code in [*codes, _LAST_CODE + 1]:
        result.extend(_between_codes(previous, code))
        if code <= _LAST_CODE:
            result.append(chr(code))
        previous = code
    return result


def _between_codes(low: int, high: int) -> Iterator[str]:
    readable = range(max(low + 1, 0x61), min(high, 0x7B))  # a letter a-z makes a readable witness
    for code in [*readable[:1], low + 1, 0xE000]:
        if low < code < high and not 0xD800 <= code < 0xE000:
            yield chr(code)
            return


def _guesses(intervals: Intervals, patterns: tuple[Pattern, ...]) -> Iterator[str]:
    """Plain strings that often do: the least of each interval, the shortest of each pattern."""
    for interval in intervals:
        yield str(some_value(Kind.STRING, interval))
    for pattern in patterns:
        if pattern.kind == REGEXP:
            yield regexp_prefix(pattern.text) or pattern.text
        elif not pattern.negated:
            shortest = [
                t if len(t) == 1 else "x" if t in (_ONE, _LEVEL) else "" for t in _machine(pattern).tokens
            ]
            yield "".join(shortest)


def _inside(text: str, intervals: Intervals) -> bool:
    cut = (0, text, 0) if text else BOTTOM
    return any(start <= cut < end for start, end in intervals)


def _fits(text: str, patterns: tuple[Pattern, ...]) -> bool:
    return all(pattern.accepts(text) for pattern in patterns)
