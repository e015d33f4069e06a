"""Spark's column texts without its Java: enough of them for these tests."""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import types as t

PLAIN = {
    "string": t.StringType(), "bigint": t.LongType(), "double": t.DoubleType(), "boolean": t.BooleanType(),
    "timestamp": t.TimestampType(), "binary": t.BinaryType(), "date": t.DateType(),
    "timestamp_ntz": t.TimestampNTZType(), "int": t.IntegerType(), "float": t.FloatType(),
}  # fmt: skip


def schema(text: str) -> t.StructType:
    """`id string, venue struct<city: string>` as a schema."""
    return t.StructType([_field(part) for part in _parts(text)])


def _parts(text: str) -> list[str]:
    parts, depth, begin = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and depth == 0:
            parts.append(text[begin:at])
            begin = at + 1
    return [part.strip() for part in (*parts, text[begin:])]


def _field(text: str) -> t.StructField:
    found = re.fullmatch(r"`?([\w.]+)`?:? (.+)", text)
    assert found, text
    return t.StructField(found[1], _type(found[2]))


def _type(text: str) -> Any:
    if text.startswith("struct<"):
        return schema(text[7:-1])
    if text.startswith("array<"):
        return t.ArrayType(_type(text[6:-1]))
    if text.startswith("decimal("):
        return t.DecimalType(*map(int, text[8:-1].split(",")))
    return PLAIN[text]
