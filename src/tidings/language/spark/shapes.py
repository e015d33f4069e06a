"""Types of Spark as shapes: a word for a plain type, a mapping for a struct, an `ArrayShape` for an array.

Read from text (`array<struct<sku: string, price: decimal(10,2)>>`) or from Spark's own type objects.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from tidings.errors import FilterError

Shape: TypeAlias = Any  # str | dict[str, Shape] | ArrayShape
_TOKEN = re.compile(r"`(?:[^`]|``)*`|[<>,:]|[^\s<>,:()`]+(?:\s*\([\d,\s]*\))?|[()]")


class ArrayShape(msgspec.Struct, frozen=True):
    """Array of elements of one shape."""

    element: Shape


def shape_of(declared: Any) -> Shape:
    """The shape of a declared type: text, a mapping of names to types, or a type of Spark."""
    if isinstance(declared, str):
        return _Reading(declared).whole()
    if isinstance(declared, Mapping):
        return {name: shape_of(each) for name, each in declared.items()}
    if hasattr(declared, "elementType"):
        return ArrayShape(shape_of(declared.elementType))
    if hasattr(declared, "fields"):
        return {field.name: shape_of(field.dataType) for field in declared.fields}
    return str(declared.simpleString()).lower()


class _Reading:
    """Text of a type, token by token. A type that is neither array nor struct stays a word."""

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        self.tokens = _TOKEN.findall(self.text)
        self.next = 0

    def whole(self) -> Shape:
        if not self.text.lower().startswith(("array", "struct")):
            return self.text.lower()
        shape = self.type()
        if self.next != len(self.tokens):
            raise self.wrong()
        return shape

    def wrong(self) -> FilterError:
        return FilterError(
            f"{self.text!r} is no type of Spark",
            hint="write it as Spark does, for example array<struct<sku: string, price: decimal(10,2)>>",
        )

    def take(self, wanted: str | None = None) -> str:
        if self.next >= len(self.tokens):
            raise self.wrong()
        token: str = self.tokens[self.next]
        self.next += 1
        if wanted is not None and token != wanted:
            raise self.wrong()
        return token

    def peek(self) -> str:
        return self.tokens[self.next] if self.next < len(self.tokens) else ""

    def type(self) -> Shape:
        word = self.take().lower()
        if word == "array":
            self.take("<")
            shape: Shape = ArrayShape(self.type())
            self.take(">")
            return shape
        if word == "struct":
            return self.struct()
        if self.peek() == "<":  # a map: no attribute's
            while self.take() != ">":
                word += "<…>"
        return word.replace(" ", "")

    def struct(self) -> Shape:
        self.take("<")
        fields: dict[str, Shape] = {}
        while self.peek() != ">":
            name = self.take()
            if name.startswith("`"):
                name = name[1:-1].replace("``", "`")
            if self.peek() == ":":
                self.take()
            fields[name] = self.type()
            if self.peek() == ",":
                self.take()
        self.take(">")
        return fields


__all__ = ["ArrayShape", "Shape", "shape_of"]
