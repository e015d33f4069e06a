"""Checks of a filter while a user writes it: errors with their place, its meaning, and completions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from tidings.algebra import can_match
from tidings.errors import FilterError, FilterSyntaxError
from tidings.language import parse_filter, print_filter
from tidings.language.functions import FUNCTIONS
from tidings.language.lexer import KEYWORDS, NAME, tokenise
from tidings.model.event import RESERVED
from tidings.model.filter import Filter

_WORD = re.compile(r"[\w.`]+|'[^']*'?|\S")
MOST_PRINTED = 1 << 17  # characters of a normal form, estimated: its conjunctions times the text
COMMON = ("IS A", "IS NOT A", "IS NULL", "IS NOT NULL", "NOT IN", "NOT LIKE", "NOT BETWEEN")


def checked(text: str, dialect: str) -> dict[str, Any]:
    """Analysis of a filter, which a page shows beside the text while a user writes it."""
    try:
        filter = parse_filter(text, dialect=dialect)
    except FilterError as error:
        return {"ok": False, "problem": problem_of(error, text)}
    return {
        "ok": True,
        "normal": _normal(filter, text),
        "ways": len(filter.conjunctions),
        "constraints": sum(len(way.constraints) for way in filter.conjunctions),
        "residuals": sum(len(way.residuals) for way in filter.conjunctions),
        "is_always_true": filter.is_always_true,
        "is_never_true": can_match(filter) is False,
        "names": names_in(text),
    }


def _normal(filter: Filter, text: str) -> str:
    """The normal form as text; the filter as written where many conjunctions could repeat a long one."""
    if not filter.conjunctions:
        return ""
    return print_filter(filter) if len(filter.conjunctions) * len(text) <= MOST_PRINTED else text


def problem_of(error: FilterError, text: str) -> dict[str, Any]:
    """With the piece of text to underline, from `offset` to `end`."""
    offset, end = 0, len(text)
    reported: dict[str, Any] = {"detail": error.message, "hint": error.hint or "", "code": error.code}
    if isinstance(error, FilterSyntaxError):
        offset = min(error.offset, len(text))
        word = _WORD.match(text, offset)
        end = word.end() if word else len(text)
        reported |= {"detail": error.problem, "line": error.line, "column": error.column}
        reported |= {"expected": list(error.expected), "suggestion": error.suggestion or ""}
    if offset >= end:  # at the end of the text: underline what stands before it
        offset = max(0, len(text.rstrip()) - 1)
    return reported | {"offset": offset, "end": max(end, offset + 1)}


def names_in(text: str) -> list[str]:
    """The attributes that a filter speaks of."""
    try:
        tokens = tokenise(text)
    except FilterError:
        return []
    names = zip(tokens.kinds, tokens.values, [*tokens.kinds[1:], ""], strict=True)
    return sorted({value for kind, value, after in names if kind == NAME and after != "("})


def words(attributes: Iterable[str], topics: Iterable[str], types: Iterable[str]) -> dict[str, Any]:
    """The vocabulary for completion."""
    return {
        "keywords": sorted(KEYWORDS | set(COMMON)),
        "functions": [
            {
                "name": each.name,
                "takes": [*each.takes, *([each.rest + "…"] if each.rest else [])],
                "returns": each.returns,
            }
            for each in FUNCTIONS.values()
        ],
        "attributes": sorted({*attributes, *RESERVED}),
        "topics": sorted(topics),
        "types": sorted(types),
    }
