"""Expressions: what a filter text says, as a tree of values, before any meaning is given.

The same tree serves both dialects; `language.evaluate` and `language.cesql` give it meaning.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec


class ExpressionNode(msgspec.Struct, frozen=True, gc=False):
    """The base of all of them."""


class Literal(ExpressionNode, frozen=True, tag="lit"):
    value: Any  # a Value; Any, since msgspec takes no union of str and datetime


class Attribute(ExpressionNode, frozen=True, tag="attr"):
    name: str  # dotted


class Not(ExpressionNode, frozen=True, tag="not"):
    operand: Expression


class Negate(ExpressionNode, frozen=True, tag="neg"):
    operand: Expression


class And(ExpressionNode, frozen=True, tag="and"):
    left: Expression
    right: Expression


class Or(ExpressionNode, frozen=True, tag="or"):
    left: Expression
    right: Expression


class Xor(ExpressionNode, frozen=True, tag="xor"):
    left: Expression
    right: Expression


class Compare(ExpressionNode, frozen=True, tag="cmp"):
    op: str  # = != < <= > >=   (<> is read as !=)
    left: Expression
    right: Expression


class Arithmetic(ExpressionNode, frozen=True, tag="math"):
    op: str  # + - * / %
    left: Expression
    right: Expression


class In(ExpressionNode, frozen=True, tag="in"):
    operand: Expression
    items: tuple[Expression, ...]
    negated: bool = False


class Between(ExpressionNode, frozen=True, tag="between"):
    operand: Expression
    low: Expression
    high: Expression
    negated: bool = False


class LikeTest(ExpressionNode, frozen=True, tag="like"):
    operand: Expression
    pattern: str
    negated: bool = False


class RegexpTest(ExpressionNode, frozen=True, tag="regexp"):
    operand: Expression
    pattern: str
    negated: bool = False


class TopicTest(ExpressionNode, frozen=True, tag="topic"):
    operand: Expression
    pattern: str
    negated: bool = False


class ExistsTest(ExpressionNode, frozen=True, tag="exists"):
    name: str


class NullTest(ExpressionNode, frozen=True, tag="null"):
    operand: Expression
    negated: bool = False


class TypeTest(ExpressionNode, frozen=True, tag="isa"):
    name: str
    negated: bool = False


class Call(ExpressionNode, frozen=True, tag="call"):
    function: str  # upper case
    arguments: tuple[Expression, ...]


class AnyOf(ExpressionNode, frozen=True, tag="any"):
    condition: Expression  # of one element of a list


class AllOf(ExpressionNode, frozen=True, tag="all"):
    condition: Expression  # of every element of a list


Expression: TypeAlias = (
    Literal | Attribute | Not | Negate | And | Or | Xor | Compare | Arithmetic | In | Between
    | LikeTest | RegexpTest | TopicTest | ExistsTest | NullTest | TypeTest | Call | AnyOf | AllOf
)  # fmt: skip
