"""Messages about a text that does not parse: the place, the expected token, the nearest word."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from tidings.errors import FilterError, FilterSyntaxError, UnknownFunctionError
from tidings.language.lexer import END, NAME, NUMBER, TokenLists
from tidings.model.filter import CESQL, TIDINGS

_LONGEST_WORD = 40
_BEFORE_AN_OPERAND = ("NOT", "EXISTS")
_AGGREGATES = ("SUM", "AVG", "MEAN", "COUNT", "MIN", "MAX", "STDDEV", "VARIANCE", "MEDIAN")
_NO_AGGREGATE = (
    "a filter looks at one event and has no aggregates: publish the result as a field of the event, such as "
    "`total`, and compare that"
)
_INSTEAD = {
    "COUNT": "; LENGTH counts the elements of a list",
    "MIN": "; the least of several values is LEAST",
    "MAX": "; the greatest of several values is GREATEST",
}


def nearest(word: str, words: Iterable[str]) -> str | None:
    """The one of `words` that a mistyped `word` most likely means."""
    if len(word) > _LONGEST_WORD:
        return None
    found = get_close_matches(word.upper(), list(words), n=1, cutoff=0.6)
    return found[0] if found else None


def check_dialect(dialect: str) -> None:
    if dialect not in (TIDINGS, CESQL):
        raise FilterError(f"there is no dialect {dialect!r}", hint=f"use {TIDINGS!r} or {CESQL!r}")


def check_call(text: str, offset: int, name: str, count: int) -> None:
    """Refuse a function that is not there, or that takes another number of arguments."""
    from tidings.language.functions import FUNCTIONS  # here: most filters call none

    function = FUNCTIONS.get(name)
    if function is None and name.upper() in _AGGREGATES:
        way_out = _NO_AGGREGATE + _INSTEAD.get(name.upper(), "")
        problem = f"there is no function {shown(name)}"
        raise UnknownFunctionError(problem, text=text, offset=offset, hint=way_out)
    if function is None:
        near = nearest(name, FUNCTIONS)
        hint = None if near else f"the functions are {', '.join(sorted(FUNCTIONS))}"
        problem = f"there is no function {shown(name)}"
        raise UnknownFunctionError(problem, text=text, offset=offset, suggestion=near, hint=hint)
    if not function.takes_count(count):
        problem = f"{name} does not take {count} argument{'' if count == 1 else 's'}"
        raise UnknownFunctionError(problem, text=text, offset=offset, hint=f"it takes {function.counts}")


def _habit(tokens: TokenLists, position: int) -> tuple[int, str] | None:
    """A habit from another language that explains the token at `position`: its start, and what to write."""
    kinds, values, _ = tokens
    word = values[0].upper() if kinds[0] == NAME else ""
    if position and word in ("WHERE", "SELECT"):
        return 0, f"a filter is the condition alone: leave out {word}"
    before = kinds[position - 1] if position else ""
    if kinds[position] == ")" and before == "(" and position > 1 and kinds[position - 2] == "IN":
        return position, "an empty list accepts nothing: name the values, or leave the condition out"
    if kinds[position] == "," and before == NUMBER and kinds[position + 1] == NUMBER:
        return position, f"write {values[position - 1]}{values[position + 1]}: a number has no separators"
    if kinds[position] == "+":
        return position, "a plus sign stands before numbers only: leave it out"
    return None


def unexpected(
    text: str, tokens: TokenLists, position: int, expected: tuple[str, ...], words: Sequence[str]
) -> FilterSyntaxError:
    """The error for the token at `position`; `words` are the keywords that could stand there."""
    kinds, values, offsets = tokens
    wanted = f"expected {_either(expected)}"
    if kinds[position] == END:
        return FilterSyntaxError(
            f"{wanted}, but the filter ends", text=text, offset=len(text.rstrip()), expected=expected
        )
    if kinds[position] == "NULL":
        problem = "NULL is no value to compare with"
        return FilterSyntaxError(
            problem, text=text, offset=offsets[position], expected=expected, suggestion="IS NULL"
        )
    habit = _habit(tokens, position)
    if habit:
        position, hint = habit
        problem = f"{wanted}, found {shown(values[position])}"
        return FilterSyntaxError(problem, text=text, offset=offsets[position], expected=expected, hint=hint)
    suggestion = nearest(values[position], words) if values[position].isalpha() else None
    if suggestion is None and position and kinds[position - 1] == NAME:
        mistyped = nearest(values[position - 1], _BEFORE_AN_OPERAND)
        if mistyped:
            position, suggestion = position - 1, mistyped
    problem = f"{wanted}, found {shown(values[position])}"
    return FilterSyntaxError(
        problem, text=text, offset=offsets[position], expected=expected, suggestion=suggestion
    )


def _either(choices: tuple[str, ...]) -> str:
    return choices[0] if len(choices) == 1 else f"{', '.join(choices[:-1])} or {choices[-1]}"


def shown(token: str) -> str:
    """A piece of the text, short enough for a message."""
    return token if len(token) <= 40 else token[:37] + "..."
