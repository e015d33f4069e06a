"""The functions of the filter language: one table for both dialects.

Rules
- A function says what it takes and returns; the evaluators check or cast the arguments to that.
- Dialect `tidings`: an unknown argument, or one of another kind, makes the result unknown.
  Only COALESCE looks at unknown arguments.
- Dialect `cesql`: arguments are cast, errors are listed, a value always comes back.
- A function that fails returns a `Failure` value: unknown in `tidings`; in `cesql` its error name
  beside the substitute that the specification gives.
- `run` is the meaning in `tidings`; `cesql` the one there, None where CESQL has no such function.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any

import msgspec

from tidings.model.value import INT_MAX, INT_MIN, Kind, kind_of, utc

INT32_MIN = -(2**31)
INT32_MAX = 2**31 - 1

STRING = "string"
INTEGER = "integer"
NUMBER = "number"  # integer or float; `tidings` only
BOOLEAN = "boolean"
TIME = "time"
ANY = "any"

# Letters with case pairs of Unicode 14 or later: the tables of Python, Java and ICU differ there.
NEWER_LETTERS = (
    "\u2c2f\u2c5f\ua7c0\ua7c1\ua7cb-\ua7cf\ua7d0-\ua7dc\u019b\u0264\u1c89\u1c8a\U00010570-\U000105bc"
    "\U00010d50-\U00010d85\U00016ea0-\U00016ed3"
)
# RFC 3339 with a zone; offsets as far as Java knows them.
TIME_TEXT = (
    r"(?!0000)[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])[T "
    r"](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
    r"(?:\.[0-9]{1,9})?(?:Z|[+-](?:(?:0[0-9]|1[0-7]):[0-5][0-9]|18:00))"
)
# The characters of Unicode's White_Space property; str.strip() would take four control characters too.
WHITESPACE = (
    "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)

_INTEGER_TEXT = re.compile(r"[+-]?[0-9]+", re.ASCII)
_FLOAT_TEXT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_NEWER = re.compile(f"[{NEWER_LETTERS}]")
_TIME = re.compile(TIME_TEXT, re.ASCII)
_LONGEST_NUMBER = 400  # digits; a longer text is hardly a number


class Failure(msgspec.Struct, frozen=True):
    """Result of a failed function: CESQL's name for the error, and its substitute value."""

    error: str
    value: Any


class Function(msgspec.Struct, frozen=True):
    name: str
    takes: tuple[str, ...]
    returns: str
    run: Callable[..., Any]
    cesql: Callable[..., Any] | None = None
    optional: int = 0  # how many of `takes`, from the end, may be left out
    rest: str | None = None  # what further arguments are, any number of them

    def takes_count(self, count: int) -> bool:
        """Can it be called with so many arguments?"""
        least = len(self.takes) - self.optional
        return count >= least and (self.rest is not None or count <= len(self.takes))

    @property
    def counts(self) -> str:
        """Number of arguments, in words."""
        least, most = len(self.takes) - self.optional, len(self.takes)
        if self.rest is not None:
            return f"{least} or more"
        return f"{least}" if least == most else f"{least} to {most}"

    def argument(self, position: int) -> str:
        """Type of the argument at this position, from 0."""
        if position < len(self.takes):
            return self.takes[position]
        assert self.rest is not None
        return self.rest


def _concat(*parts: str) -> str:
    return "".join(parts)


def _concat_ws(delimiter: str, *parts: str) -> str:
    return delimiter.join(parts)


LONG_TEXT = 256  # characters from which a function's answer is remembered


def _once(function: Callable[[str], Any]) -> Callable[[str], Any]:
    """The function with a cache of one result: many filters compute it of the same long text of an event, one
    after the other. The text is compared by identity, which is cheap."""
    last: tuple[str, Any] = ("", None)

    def remembering(text: str) -> Any:
        nonlocal last
        if len(text) < LONG_TEXT:
            return function(text)
        known = last
        if known[0] is not text:
            known = last = (text, function(text))
        return known[1]

    return remembering


def _trim(text: str) -> str:
    return text.strip(WHITESPACE)


def _lower(text: str) -> str | Failure:
    """In lower case; unknown where engines disagree about the case of a letter."""
    return Failure("functionEvaluation", text) if _NEWER.search(text) else text.lower()


def _upper(text: str) -> str | Failure:
    return Failure("functionEvaluation", text) if _NEWER.search(text) else text.upper()


def _timestamp(value: Any) -> datetime | Failure:
    """A moment from its text, as JSON carries it; fractions past a microsecond are cut off."""
    if type(value) is datetime:
        return value
    if type(value) is not str or not _TIME.fullmatch(value):
        return Failure("cast", 0)
    moment, zone = (value[:-1], "+00:00") if value.endswith("Z") else (value[:-6], value[-6:])
    try:
        whole, _, fraction = moment.partition(".")
        return utc(datetime.fromisoformat(f"{whole}.{fraction[:6]:0<6}{zone}"))
    except (ValueError, OverflowError):  # the 31st of June; a year that UTC does not have
        return Failure("cast", 0)


def _left(text: str, count: int) -> str | Failure:
    return text[:count] if count >= 0 else Failure("functionEvaluation", text)


def _right(text: str, count: int) -> str | Failure:
    if count < 0:
        return Failure("functionEvaluation", text)
    return text[max(0, len(text) - count) :]


def _substring(text: str, start: int, length: int | None = None) -> str | Failure:
    if length is not None and length < 0:
        return Failure("functionEvaluation", "")
    if start == 0:
        return ""
    if abs(start) > len(text):
        return Failure("functionEvaluation", "")
    begin = start - 1 if start > 0 else len(text) + start
    return text[begin:] if length is None else text[begin : begin + length]


def _absolute(number: float) -> float | Failure:
    result = abs(number)
    return Failure("math", INT_MAX) if type(result) is int and result > INT_MAX else result


def _absolute_32(number: int) -> int | Failure:
    return abs(number) if number > INT32_MIN else Failure("math", INT32_MAX)


def integer_of(value: Any, low: int, high: int) -> int | Failure:
    """A whole number between two bounds from a boolean, a number, or a text of digits."""
    if type(value) is str:
        if not _INTEGER_TEXT.fullmatch(value) or len(value) > _LONGEST_NUMBER:
            return Failure("cast", 0)
        value = int(value)
    elif type(value) is float or type(value) is Decimal:
        if not math.isfinite(value):
            return Failure("cast", 0)
        value = int(value)
    elif type(value) not in (int, bool):
        return Failure("cast", 0)
    return int(value) if low <= value <= high else Failure("cast", 0)


def boolean_of(value: Any) -> bool | Failure:
    """A truth value from a boolean, a number (0 is false), or the words true and false."""
    if type(value) is str:
        word = value.lower()
        return word == "true" if word in ("true", "false") else Failure("cast", False)
    if type(value) in (bool, int, float, Decimal):
        return bool(value)
    return Failure("cast", False)


def string_of(value: Any) -> str:
    """The text of any value: true and false, decimal digits, times as RFC 3339."""
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is datetime:
        text = value.isoformat()
        return text if value.utcoffset() else text.removesuffix("+00:00") + "Z"
    return str(value)


def as_double(value: Any) -> float:
    """The double nearest to a number: arithmetic takes decimals and wide integers so."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _int(value: Any) -> int | Failure:
    return integer_of(value, INT_MIN, INT_MAX)


def _int_32(value: Any) -> int | Failure:
    return integer_of(value, INT32_MIN, INT32_MAX)


def _float(value: Any) -> float | Failure:
    if type(value) is str:
        if not _FLOAT_TEXT.fullmatch(value) or len(value) > _LONGEST_NUMBER:
            return Failure("cast", 0)
    elif type(value) not in (bool, int, float, Decimal):
        return Failure("cast", 0)
    result = as_double(value) if type(value) is int else float(value)
    return result if math.isfinite(result) else Failure("cast", 0)


def _decimal(value: Any) -> Decimal | Failure:
    """An exact number from a text of digits, or from another number."""
    if type(value) is str:
        if not _FLOAT_TEXT.fullmatch(value) or len(value) > _LONGEST_NUMBER:
            return Failure("cast", 0)
        try:
            number = Decimal(value)
        except InvalidOperation:  # an exponent past 18 digits, which no decimal has
            return Failure("cast", 0)
        return number if abs(number.adjusted()) <= _LONGEST_NUMBER else Failure("cast", 0)
    if type(value) not in (int, float, Decimal) or (type(value) is float and not math.isfinite(value)):
        return Failure("cast", 0)
    return Decimal(value)


def _length(value: Any) -> int | Failure:
    """Characters of a text, or elements of a list."""
    return len(value) if type(value) in (str, tuple) else Failure("cast", 0)


def _is_int(value: Any) -> bool:
    return type(_int(value)) is int


def _is_int_32(value: Any) -> bool:
    return type(_int_32(value)) is int


def _is_bool(value: Any) -> bool:
    return type(boolean_of(value)) is bool


def _whole(number: float, rounded: Callable[[float], int]) -> int | Failure:
    if type(number) is float and not math.isfinite(number):
        return Failure("math", 0)
    result = rounded(number)
    return result if INT_MIN <= result <= INT_MAX else Failure("math", 0)


def _floor(number: float) -> int | Failure:
    return _whole(number, math.floor)


def _ceil(number: float) -> int | Failure:
    return _whole(number, math.ceil)


def _round(number: float) -> float:
    """To the nearest whole number, halves away from zero; a float stays a float."""
    if type(number) is int or not math.isfinite(number):
        return number
    return float(Decimal(number).to_integral_value(rounding=ROUND_HALF_UP))


def remainder(left: float, right: float) -> float | Failure:
    """The remainder of the division that rounds toward zero: it has the sign of `left`."""
    if right == 0 or (type(left) is float and math.isinf(left)):
        return Failure("math", 0)
    if type(left) is int and type(right) is int:
        result = abs(left) % abs(right)
        return -result if left < 0 else result
    try:
        return math.fmod(left, right)
    except OverflowError:  # an integer beyond every double
        return Failure("math", 0)


def _choose(values: tuple[Any, ...], better: Callable[[Any, Any], bool]) -> Any:
    kind = kind_of(values[0])
    if kind is Kind.BOOL or any(kind_of(value) is not kind for value in values):
        return Failure("cast", 0)
    best = values[0]
    for value in values[1:]:
        if better(value, best):
            best = value
    return best


def _least(*values: Any) -> Any:
    return _choose(values, lambda one, other: one < other)


def _greatest(*values: Any) -> Any:
    return _choose(values, lambda one, other: one > other)


def _coalesce(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


_TABLE = (
    Function("LENGTH", (STRING,), INTEGER, _length, len),
    Function("CONCAT", (), STRING, _concat, _concat, rest=STRING),
    Function("CONCAT_WS", (STRING,), STRING, _concat_ws, _concat_ws, rest=STRING),
    Function("LOWER", (STRING,), STRING, _once(_lower), _once(str.lower)),
    Function("UPPER", (STRING,), STRING, _once(_upper), _once(str.upper)),
    Function("TRIM", (STRING,), STRING, _once(_trim), _once(_trim)),
    Function("LEFT", (STRING, INTEGER), STRING, _left, _left),
    Function("RIGHT", (STRING, INTEGER), STRING, _right, _right),
    Function("SUBSTRING", (STRING, INTEGER, INTEGER), STRING, _substring, _substring, optional=1),
    Function("ABS", (NUMBER,), INTEGER, _absolute, _absolute_32),
    Function("INT", (ANY,), INTEGER, _int, _int_32),
    Function("BOOL", (ANY,), BOOLEAN, boolean_of, boolean_of),
    Function("STRING", (ANY,), STRING, string_of, string_of),
    Function("IS_INT", (ANY,), BOOLEAN, _is_int, _is_int_32),
    Function("IS_BOOL", (ANY,), BOOLEAN, _is_bool, _is_bool),
    Function("FLOAT", (ANY,), NUMBER, _float),
    Function("DECIMAL", (ANY,), NUMBER, _decimal),
    Function("TIMESTAMP", (ANY,), TIME, _timestamp),
    Function("FLOOR", (NUMBER,), INTEGER, _floor),
    Function("CEIL", (NUMBER,), INTEGER, _ceil),
    Function("ROUND", (NUMBER,), NUMBER, _round),
    Function("MOD", (NUMBER, NUMBER), NUMBER, remainder),
    Function("LEAST", (ANY,), ANY, _least, rest=ANY),
    Function("GREATEST", (ANY,), ANY, _greatest, rest=ANY),
    Function("COALESCE", (ANY,), ANY, _coalesce, rest=ANY),
)

FUNCTIONS: dict[str, Function] = {function.name: function for function in _TABLE}
SEES_UNKNOWN = frozenset({"COALESCE"})
