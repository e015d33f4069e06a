"""Expressions: what a filter text says, as a tree of values, before any meaning is given.

The same tree serves both dialects; `language.evaluate` and `language.cesql` give it meaning.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec


class _Node(msgspec.Struct, frozen=True, gc=False):
    pass


class Literal(_Node, frozen=True, tag="lit"):
    value: Any  # a Value; Any, since msgspec takes no union of str and datetime


class Attribute(_Node, frozen=True, tag="attr"):
    name: str  # dotted


class Not(_Node, frozen=True, tag="not"):
    operand: Expression


class Negate(_Node, frozen=True, tag="neg"):
    operand: Expression


class And(_Node, frozen=True, tag="and"):
    left: Expression
    right: Expression


class Or(_Node, frozen=True, tag="or"):
    left: Expression
    right: Expression


class Xor(_Node, frozen=True, tag="xor"):
    left: Expression
    right: Expression


class Compare(_Node, frozen=True, tag="cmp"):
    op: str  # = != < <= > >=   (<> is read as !=)
    left: Expression
    right: Expression


class Arithmetic(_Node, frozen=True, tag="math"):
    op: str  # + - * / %
    left: Expression
    right: Expression


class In(_Node, frozen=True, tag="in"):
    operand: Expression
    items: tuple[Expression, ...]
    negated: bool = False


class Between(_Node, frozen=True, tag="between"):
    operand: Expression
    low: Expression
    high: Expression
    negated: bool = False


class LikeTest(_Node, frozen=True, tag="like"):
    operand: Expression
    pattern: str
    negated: bool = False


class RegexpTest(_Node, frozen=True, tag="regexp"):
    operand: Expression
    pattern: str
    negated: bool = False


class TopicTest(_Node, frozen=True, tag="topic"):
    operand: Expression
    pattern: str
    negated: bool = False


class ExistsTest(_Node, frozen=True, tag="exists"):
    name: str


class NullTest(_Node, frozen=True, tag="null"):
    operand: Expression
    negated: bool = False


class TypeTest(_Node, frozen=True, tag="isa"):
    name: str
    negated: bool = False


class Call(_Node, frozen=True, tag="call"):
    function: str  # upper case
    arguments: tuple[Expression, ...]


Expression: TypeAlias = (
    Literal | Attribute | Not | Negate | And | Or | Xor | Compare | Arithmetic | In | Between
    | LikeTest | RegexpTest | TopicTest | ExistsTest | NullTest | TypeTest | Call
)  # fmt: skip
