"""Budgets of a filter: past one, a `FilterLimitError` names it.

They bound the work that a stranger's text can cause, so they are checked before the work is done.
"""

from __future__ import annotations

import msgspec

from tidings.errors import FilterError, FilterLimitError


class Limits(msgspec.Struct, frozen=True):
    """Limits on the cost of a filter."""

    text: int = 16 * 1024  # bytes of the filter's text in UTF-8
    depth: int = 32  # nested operators; a chain of AND, of OR or of XOR is one level
    constraints: int = 256  # conditions, as written
    conjunctions: int = 256  # conjunctions of the normal form
    steps: int = 1 << 14  # conditions copied to make the normal form: bounds its size
    patterns: int = 1 << 14  # size of all regular expressions, as RE2 compiles them; \p{..} counts 512


DEFAULT_LIMITS = Limits()


def check_text(text: str, limits: Limits) -> None:
    """Refuse a text that is too long, or that is no Unicode."""
    if text.isascii():
        size = len(text)
    else:
        try:
            size = len(text.encode())
        except UnicodeEncodeError as error:
            raise FilterError(f"the filter holds text that is not Unicode: {error.reason}") from None
    if size > limits.text:
        raise FilterLimitError(
            f"the filter's text is {size} bytes; the most is {limits.text} (limit `text`)",
            hint="split it into several subscriptions",
        )


def too_deep(limits: Limits) -> FilterLimitError:
    return FilterLimitError(
        f"the filter is nested more than {limits.depth} deep (limit `depth`)",
        hint="take out brackets that change nothing, or split the filter",
    )


def check_constraints(count: int, limits: Limits) -> None:
    if count > limits.constraints:
        raise FilterLimitError(
            f"the filter has {count} constraints; the most is {limits.constraints} (limit `constraints`)",
            hint="use IN (...) for many values of one attribute, or split the filter",
        )


def check_conjunctions(count: int, limits: Limits) -> None:
    if count > limits.conjunctions:
        raise FilterLimitError(
            f"the filter needs {count} conjunctions or more in normal form; "
            f"the most is {limits.conjunctions} (limit `conjunctions`)",
            hint="an OR inside an AND multiplies: use IN (...) or several subscriptions",
        )


def check_steps(count: int, limits: Limits) -> None:
    if count > limits.steps:
        raise FilterLimitError(
            f"the filter needs {count} steps or more to be brought into normal form; "
            f"the most is {limits.steps} (limit `steps`)",
            hint="an OR inside a long AND repeats the whole AND: use IN (...) or several subscriptions",
        )


def check_patterns(count: int, limits: Limits) -> None:
    if count > limits.patterns:
        raise FilterLimitError(
            f"the filter's regular expressions have {count} steps or more; "
            f"the most is {limits.patterns} (limit `patterns`)",
            hint="use smaller counts in {m,n}, fewer \\p{..}, or several subscriptions",
        )
