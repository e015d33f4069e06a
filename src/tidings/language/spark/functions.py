"""Each function of the language in Spark SQL, with the same result for every argument."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias

from tidings.errors import FilterError
from tidings.language.functions import FUNCTIONS, NEWER_LETTERS, TIME_TEXT, WHITESPACE, Failure
from tidings.language.spark.numbers import INTEGER_END, NUMBERS, arithmetic, double, is_number
from tidings.language.spark.text import (
    ABSENT,
    BIGINT,
    BOOLEAN,
    DOUBLE,
    NULL,
    STRING,
    TIMESTAMP,
    Binder,
    Sql,
    condition,
    decimal_of,
    finite,
    known_false,
    known_true,
    literal,
    quoted,
    without,
)
from tidings.model.value import INT_MIN

Arguments: TypeAlias = list[Sql]
_LARGEST_INT = "2147483647L"  # Spark counts characters with 32 bits
_WHOLE = r"\A(?=.{1,400}\z)[+-]?[0-9]+\z"
_WHOLE_TIME = rf"\A{TIME_TEXT}\z"
_DECIMAL = r"\A(?=.{1,400}\z)[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\z"


def call(name: str, arguments: Arguments, binder: Binder) -> Sql:
    """The call in SQL; always unknown when an argument is absent or of another kind."""
    writer = _WRITERS.get(name)
    if writer is None:
        raise FilterError(f"there is no function {name} on Spark")
    if name != "COALESCE" and any(argument.type == NULL for argument in arguments):
        return ABSENT
    if name not in _TAKE_DECIMALS:  # every other function takes a decimal as its nearest double
        arguments = [Sql(double(one), DOUBLE) if decimal_of(one.type) else one for one in arguments]
    return writer(arguments, binder)


def _all(arguments: Arguments, wanted: str) -> bool:
    return all(argument.type == wanted for argument in arguments)


def _text_function(name: str, result: str = STRING) -> Callable[[Arguments, Binder], Sql]:
    def write(arguments: Arguments, _: Binder) -> Sql:
        if not _all(arguments, STRING):
            return ABSENT
        text = f"{name}({', '.join(argument.text for argument in arguments)})"
        return Sql(f"CAST({text} AS BIGINT)" if result == BIGINT else text, result)

    return write


def _cased(name: str) -> Callable[[Arguments, Binder], Sql]:
    """LOWER and UPPER: NULL for letters that are newer than some engine's tables."""

    def write(arguments: Arguments, binder: Binder) -> Sql:
        (text,) = arguments
        if text.type != STRING:
            return ABSENT

        def guarded(bound: Arguments) -> str:
            newer = quoted(f"[{_java_class(NEWER_LETTERS)}]")
            return f"IF({bound[0].text} RLIKE {newer}, NULL, {name}({bound[0].text}))"

        return Sql(binder.bind([text], guarded), STRING)

    return write


def _java_class(letters: str) -> str:
    return "".join(ch if ch == "-" else f"\\x{{{ord(ch):x}}}" for ch in letters)


def _timestamp(arguments: Arguments, binder: Binder) -> Sql:
    """From RFC 3339; NULL outside the years 1 to 9999 of UTC."""
    (value,) = arguments
    if value.type == TIMESTAMP:
        return value
    if value.type != STRING:
        return ABSENT
    read = Sql(f"try_cast(regexp_substr({value.text}, {quoted(_WHOLE_TIME)}) AS TIMESTAMP)", TIMESTAMP)

    def guarded(bound: Arguments) -> str:
        first, last = (literal(moment.replace(tzinfo=UTC)).text for moment in (datetime.min, datetime.max))
        return f"IF({bound[0].text} BETWEEN {first} AND {last}, {bound[0].text}, NULL)"

    return Sql(binder.bind([read], guarded), TIMESTAMP)


def _concat_ws(arguments: Arguments, binder: Binder) -> Sql:
    if not _all(arguments, STRING):
        return ABSENT
    delimiter, parts = arguments[0], arguments[1:]

    def joined(bound: Arguments) -> str:
        between = f", {bound[0].text}, ".join(part.text for part in parts)
        return f"concat(substring({bound[0].text}, 1, 0){', ' + between if between else ''})"

    return Sql(binder.bind([delimiter], joined), STRING)


def _trim(arguments: Arguments, _: Binder) -> Sql:
    (text,) = arguments
    return Sql(f"trim(BOTH {quoted(WHITESPACE)} FROM {text.text})", STRING) if text.type == STRING else ABSENT


def _end(side: str) -> Callable[[Arguments, Binder], Sql]:
    """LEFT and RIGHT: a count below 0 is unknown, one past the length takes all."""

    def write(arguments: Arguments, binder: Binder) -> Sql:
        text, count = arguments
        if text.type != STRING or count.type != BIGINT:
            return ABSENT

        def cut(bound: Arguments) -> str:
            taken = f"{side}({text.text}, CAST(least({bound[0].text}, {_LARGEST_INT}) AS INT))"
            return f"IF({bound[0].text} >= 0L, {taken}, NULL)"

        return Sql(binder.bind([count], cut), STRING)

    return write


def _substring(arguments: Arguments, binder: Binder) -> Sql:
    if arguments[0].type != STRING or not _all(arguments[1:], BIGINT):
        return ABSENT

    def cut(bound: Arguments) -> str:
        text, start = bound[0].text, bound[1].text
        nulls = " OR ".join(f"{one.text} IS NULL" for one in bound)
        short = f" OR {bound[2].text} < 0L" if len(bound) == 3 else ""
        length = f", CAST(least({bound[2].text}, {_LARGEST_INT}) AS INT)" if len(bound) == 3 else ""
        return (
            f"CASE WHEN {nulls}{short} THEN NULL WHEN {start} = 0L THEN '' "
            f"WHEN {start} > length({text}) OR {start} < -length({text}) THEN NULL "
            f"ELSE substring({text}, CAST({start} AS INT){length}) END"
        )

    return Sql(binder.bind(arguments, cut), STRING)


def _absolute(arguments: Arguments, _: Binder) -> Sql:
    (number,) = arguments
    if number.type == BIGINT:
        return Sql(f"abs({without(number.text, literal(INT_MIN).text)})", BIGINT)
    return Sql(f"abs({number.text})", DOUBLE) if number.type == DOUBLE else ABSENT


def _within_integers(number: Sql, binder: Binder, whole: str) -> str:
    """A double made whole, or NULL where no 64 bits hold it."""

    def guarded(bound: Arguments) -> str:
        text = bound[0].text
        return f"IF({text} >= -{INTEGER_END} AND {text} < {INTEGER_END}, {whole.format(text)}, NULL)"

    return binder.bind([number], guarded)


def _int(arguments: Arguments, binder: Binder) -> Sql:
    (value,) = arguments
    if value.type == BIGINT:
        return value
    if value.type == BOOLEAN:
        return Sql(f"CAST({value.text} AS BIGINT)", BIGINT)
    if value.type == DOUBLE:
        return Sql(_within_integers(value, binder, "CAST({} AS BIGINT)"), BIGINT)
    if value.type == STRING:
        return Sql(f"try_cast(regexp_substr({value.text}, {quoted(_WHOLE)}) AS BIGINT)", BIGINT)
    if decimal_of(value.type):
        return Sql(f"try_cast({_written(value)} AS BIGINT)", BIGINT)
    return ABSENT


def _written(value: Sql) -> str:
    """A decimal as text; a constant is written only where a comparison gives it a type."""
    if value.literal:
        raise FilterError(
            "DECIMAL of a constant has a form on Spark in comparisons and arithmetic alone",
            hint="compare the attribute with it",
        )
    return value.text


def _float(arguments: Arguments, _: Binder) -> Sql:
    (value,) = arguments
    if is_number(value):
        return Sql(finite(double(value)), DOUBLE)
    if value.type == BOOLEAN:
        return Sql(f"CAST(CAST({value.text} AS BIGINT) AS DOUBLE)", DOUBLE)
    if value.type == STRING:
        number = f"try_cast(regexp_substr({value.text}, {quoted(_DECIMAL)}) AS DOUBLE)"
        return Sql(finite(number), DOUBLE)
    return ABSENT


def _decimal(arguments: Arguments, _: Binder) -> Sql:
    (value,) = arguments
    if value.type == BIGINT or decimal_of(value.type):
        return value  # the same number
    if value.type == DOUBLE:
        return Sql(finite(value.text), DOUBLE)
    if value.type in (BOOLEAN, TIMESTAMP):
        return ABSENT
    if value.literal:
        number = FUNCTIONS["DECIMAL"].run(value.value)
        return ABSENT if isinstance(number, Failure) else literal(number)
    raise FilterError(
        f"DECIMAL of a {value.type} has no exact form on Spark",
        hint="match on executors (tidings.pipeline), which evaluates it, or compare with a plain number",
    )


def _bool(arguments: Arguments, _: Binder) -> Sql:
    (value,) = arguments
    if value.type == BOOLEAN:
        return value
    if decimal_of(value.type):
        return condition(f"({_written(value)} <> 0)")
    if value.type in NUMBERS:
        return condition(f"({value.text} <> {'0L' if value.type == BIGINT else '0.0D'})")
    if value.type == STRING:
        return condition(f"CASE lower({value.text}) WHEN 'true' THEN TRUE WHEN 'false' THEN FALSE END")
    return ABSENT


def _string(arguments: Arguments, _: Binder) -> Sql:
    (value,) = arguments
    if value.type in (DOUBLE, TIMESTAMP) or decimal_of(value.type):
        raise FilterError(
            f"STRING of a {value.type} has no exact form on Spark", hint="compare the value itself instead"
        )
    return Sql(f"CAST({value.text} AS STRING)", STRING)


def _is(
    cast: Callable[[Arguments, Binder], Sql], always: tuple[str, ...]
) -> Callable[[Arguments, Binder], Sql]:
    """IS_INT and IS_BOOL: is the cast known? Unknown for an absent value."""

    def write(arguments: Arguments, binder: Binder) -> Sql:
        (value,) = arguments
        if value.type in always or (DOUBLE in always and decimal_of(value.type)):
            return condition(known_true(value.text))
        if value.type == TIMESTAMP:
            return condition(known_false(value.text))

        def asked(bound: Arguments) -> str:
            return f"IF({bound[0].text} IS NULL, NULL, {cast(bound, binder).text} IS NOT NULL)"

        return condition(binder.bind([value], asked))

    return write


def _rounding(name: str) -> Callable[[Arguments, Binder], Sql]:
    def write(arguments: Arguments, binder: Binder) -> Sql:
        (number,) = arguments
        if number.type == BIGINT:
            return number
        return (
            Sql(_within_integers(number, binder, name + "({})"), BIGINT) if number.type == DOUBLE else ABSENT
        )

    return write


def _round(arguments: Arguments, _: Binder) -> Sql:
    (number,) = arguments
    if number.type == BIGINT:
        return number
    return Sql(f"round({number.text})", DOUBLE) if number.type == DOUBLE else ABSENT


def _mod(arguments: Arguments, binder: Binder) -> Sql:
    return arithmetic("%", arguments[0], arguments[1], binder)


def _one_type(name: str, arguments: Arguments) -> str | None:
    """The type that all share; None for two kinds. Integers beside doubles have no one type."""
    types = {argument.type for argument in arguments}
    if len(types) > 1 and all(map(is_number, arguments)):
        raise FilterError(
            f"{name} of a {' and a '.join(sorted(types))} has no exact form on Spark",
            hint="write 0.0 for 0, or FLOAT(...) around the integer",
        )
    for argument in arguments:
        if decimal_of(argument.type):
            _written(argument)
    return types.pop() if len(types) == 1 else None


def _extreme(name: str, function: str) -> Callable[[Arguments, Binder], Sql]:
    def write(arguments: Arguments, binder: Binder) -> Sql:
        shared = _one_type(name, arguments)
        if shared is None or shared == BOOLEAN:
            return ABSENT
        values = Sql(f"array({', '.join(argument.text for argument in arguments)})", shared)

        def chosen(bound: Arguments) -> str:
            text = bound[0].text
            return f"IF(exists({text}, {text}x -> {text}x IS NULL), NULL, {function}({text}))"

        return Sql(binder.bind([values], chosen), shared)

    return write


def _coalesce(arguments: Arguments, _: Binder) -> Sql:
    present = [argument for argument in arguments if argument.type != NULL]
    if not present:
        return ABSENT
    shared = _one_type("COALESCE", present)
    if shared is None:
        raise FilterError(
            "COALESCE of values of two kinds has no form on Spark", hint="give values of one kind"
        )
    return Sql(f"coalesce({', '.join(argument.text for argument in present)})", shared)


_TAKE_DECIMALS = frozenset(
    {"INT", "BOOL", "STRING", "FLOAT", "IS_INT", "IS_BOOL", "LEAST", "GREATEST", "COALESCE", "DECIMAL", "MOD"}
)
_WRITERS: dict[str, Callable[[Arguments, Binder], Sql]] = {
    "LENGTH": _text_function("length", BIGINT), "CONCAT": _text_function("concat"), "CONCAT_WS": _concat_ws,
    "LOWER": _cased("lower"), "UPPER": _cased("upper"), "TIMESTAMP": _timestamp, "TRIM": _trim,
    "LEFT": _end("left"),
    "RIGHT": _end("right"), "SUBSTRING": _substring, "ABS": _absolute, "INT": _int, "BOOL": _bool,
    "STRING": _string, "FLOAT": _float, "FLOOR": _rounding("floor"), "CEIL": _rounding("ceil"),
    "ROUND": _round,
    "IS_INT": _is(_int, (BOOLEAN, BIGINT)), "IS_BOOL": _is(_bool, (BOOLEAN, BIGINT, DOUBLE)), "MOD": _mod,
    "LEAST": _extreme("LEAST", "array_min"), "GREATEST": _extreme("GREATEST", "array_max"),
    "COALESCE": _coalesce,
    "DECIMAL": _decimal,
}  # fmt: skip
