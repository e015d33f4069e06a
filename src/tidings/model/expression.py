"""Expressions: what a filter text says, as a tree of values, before any meaning is given.

The same tree serves both dialects; `language.evaluate` and `language.cesql` give it meaning.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec


class Node(msgspec.Struct, frozen=True, gc=False):
    """The base of all of them."""


class Literal(Node, frozen=True, tag="lit"):
    value: Any  # a Value; Any, since msgspec takes no union of str and datetime


class Attribute(Node, frozen=True, tag="attr"):
    name: str  # dotted


class Not(Node, frozen=True, tag="not"):
    operand: Expression


class Negate(Node, frozen=True, tag="neg"):
    operand: Expression


class And(Node, frozen=True, tag="and"):
    left: Expression
    right: Expression


class Or(Node, frozen=True, tag="or"):
    left: Expression
    right: Expression


class Xor(Node, frozen=True, tag="xor"):
    left: Expression
    right: Expression


class Compare(Node, frozen=True, tag="cmp"):
    op: str  # = != < <= > >=   (<> is read as !=)
    left: Expression
    right: Expression


class Arithmetic(Node, frozen=True, tag="math"):
    op: str  # + - * / %
    left: Expression
    right: Expression


class In(Node, frozen=True, tag="in"):
    operand: Expression
    items: tuple[Expression, ...]
    negated: bool = False


class Between(Node, frozen=True, tag="between"):
    operand: Expression
    low: Expression
    high: Expression
    negated: bool = False


class LikeTest(Node, frozen=True, tag="like"):
    operand: Expression
    pattern: str
    negated: bool = False


class RegexpTest(Node, frozen=True, tag="regexp"):
    operand: Expression
    pattern: str
    negated: bool = False


class TopicTest(Node, frozen=True, tag="topic"):
    operand: Expression
    pattern: str
    negated: bool = False


class ExistsTest(Node, frozen=True, tag="exists"):
    name: str


class NullTest(Node, frozen=True, tag="null"):
    operand: Expression
    negated: bool = False


class TypeTest(Node, frozen=True, tag="isa"):
    name: str
    negated: bool = False


class Call(Node, frozen=True, tag="call"):
    function: str  # upper case
    arguments: tuple[Expression, ...]


Expression: TypeAlias = (
    Literal | Attribute | Not | Negate | And | Or | Xor | Compare | Arithmetic | In | Between
    | LikeTest | RegexpTest | TopicTest | ExistsTest | NullTest | TypeTest | Call
)  # fmt: skip
