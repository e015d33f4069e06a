"""Filter text to Filter and back, and what it means.

`parse_filter` is the usual way in; `parse` and `normalise` are its two steps. `print_filter` and
`print_expression` lead back to text. `evaluate` gives an expression its value, `accepts` a filter
its answer.
"""

from __future__ import annotations

from tidings.language.evaluate import accepts, evaluate
from tidings.language.limits import DEFAULT_LIMITS, Limits
from tidings.language.normalise import normalise
from tidings.language.parser import parse
from tidings.language.printer import print_constraint, print_expression, print_filter, print_value
from tidings.language.text import parse_filter, read_filter

__all__ = [
    "DEFAULT_LIMITS", "Limits", "accepts", "evaluate", "normalise", "parse", "parse_filter",
    "print_constraint", "print_expression", "print_filter", "print_value", "read_filter",
]  # fmt: skip
