"""Tokens to an expression: precedence climbing, one function for each shape.

Rules
- AND binds tighter than OR, OR tighter than XOR (CESQL 1.0, section 3.4); then comparisons, sums,
  products, unary minus, as everywhere.
- Dialect `tidings` reads NOT as SQL does (`NOT a = 5` is `NOT (a = 5)`) and LIKE, IN and their kin as
  comparisons; dialect `cesql` as its specification says: NOT binds tightest, then LIKE and IN. With
  brackets the two read alike, and the printer always writes those.
- A chain of AND (OR, XOR) becomes a balanced tree, so that a long chain is not a deep expression.
- A sign before a number belongs to the number; so --10 is minus (-10).
- The parser assigns no meaning. Dialect `tidings` refuses meaningless expressions while the place is known:
  an unknown function, a topic compared with a broken pattern. CESQL reports those at evaluation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import datetime
from sys import intern

from tidings.errors import FilterError, FilterLimitError, FilterSyntaxError
from tidings.language.lexer import (
    CONTEXTUAL,
    END,
    NAME,
    NUMBER,
    STRING,
    name_of,
    string_of,
    tokenise,
)
from tidings.language.limits import DEFAULT_LIMITS, Limits, check_patterns, check_text, too_deep
from tidings.language.lists import names_in
from tidings.language.measure import check_size
from tidings.language.mistakes import check_call, check_dialect, shown, unexpected
from tidings.model.expression import (
    AllOf,
    And,
    AnyOf,
    Arithmetic,
    Attribute,
    Between,
    Call,
    Compare,
    ExistsTest,
    Expression,
    In,
    LikeTest,
    Literal,
    Negate,
    Not,
    NullTest,
    Or,
    RegexpTest,
    TopicTest,
    TypeTest,
    Xor,
)
from tidings.model.filter import CESQL, TIDINGS
from tidings.model.pattern import check_regexp, compiled_weight
from tidings.model.topic import check_pattern, is_pattern
from tidings.model.value import INT_MAX, INT_MIN, utc

_LOGIC: dict[str, type[And] | type[Or] | type[Xor]] = {"AND": And, "OR": Or, "XOR": Xor}
_RANGING: dict[str, type[AnyOf] | type[AllOf]] = {"ANY": AnyOf, "ALL": AllOf}
_TESTS = ("LIKE", "IN", "BETWEEN", "REGEXP", "MATCHES")
_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
_ARITHMETIC = {"+": 6, "-": 6, "*": 7, "/": 7, "%": 7}
_COMMON = {"XOR": 1, "OR": 2, "AND": 3} | dict.fromkeys(_COMPARISONS, 5) | _ARITHMETIC
_TIGHTEST = 9
_POWERS = {
    TIDINGS: _COMMON | dict.fromkeys((*_TESTS, "IS", "NOT"), 5),
    CESQL: _COMMON | dict.fromkeys((*_TESTS, "IS", "NOT"), 8),
}
_POWER_OF_NOT = {TIDINGS: 5, CESQL: _TIGHTEST}


def parse(text: str, *, dialect: str = TIDINGS, limits: Limits = DEFAULT_LIMITS) -> Expression:
    """The expression that a filter text says, or a `FilterSyntaxError` that shows the place."""
    check_dialect(dialect)
    check_text(text, limits)
    expression = _Parser(text, dialect, limits).whole()
    check_size(expression, limits)
    return expression


def balanced(node: type[And] | type[Or] | type[Xor], operands: Sequence[Expression]) -> Expression:
    """A chain of one associative operator as a tree of logarithmic depth, order kept."""
    if len(operands) == 1:
        return operands[0]
    middle = (len(operands) + 1) // 2
    return node(balanced(node, operands[:middle]), balanced(node, operands[middle:]))


class _Parser:
    def __init__(self, text: str, dialect: str, limits: Limits) -> None:
        self.text = text
        self.tokens = tokenise(text)
        self.kinds, self.values, self.offsets = self.tokens
        self.position = 0
        self.limits = limits
        self.strict = dialect == TIDINGS
        self.patterns: dict[str, int] = {}  # regular expressions so far, and the weight of each
        self.levels_left = 2 * limits.depth  # a printed NOT (...) takes two
        self.powers = _POWERS[dialect]
        self.power_of_not = _POWER_OF_NOT[dialect]
        self.words = CONTEXTUAL if dialect == CESQL else CONTEXTUAL - {"NULL"}  # names, where no operator is

    def whole(self) -> Expression:
        expression = self.expression(1)
        if self.kinds[self.position] != END:
            raise self.operator_expected()
        return expression

    def expression(self, lowest: int) -> Expression:
        """The longest expression with operators that all bind at least as tightly as `lowest`."""
        start = self.position
        left = self.operand()
        kinds, powers = self.kinds, self.powers
        while (power := powers.get(kinds[self.position], 0)) >= lowest:
            kind = kinds[self.position]
            if kind in _LOGIC:
                left = self.chain(kind, left, power)
                continue
            self.position += 1
            if kind in _COMPARISONS:
                middle = self.position
                left = Compare(kind, left, self.expression(power + 1))
                if self.strict and kind in ("=", "!="):
                    self.check_topic(left.left, left.right, middle)
                    self.check_topic(left.right, left.left, start)
            elif kind in _ARITHMETIC:
                left = Arithmetic(kind, left, self.expression(power + 1))
            else:
                left = self.test(kind, left)
        return left

    def chain(self, kind: str, first: Expression, power: int) -> Expression:
        operands = [first]
        while self.kinds[self.position] == kind:
            self.position += 1
            operands.append(self.expression(power + 1))
        return balanced(_LOGIC[kind], operands)

    def deeper(self, lowest: int) -> Expression:
        """An expression one level down; brackets beyond the budget never reach Python's stack."""
        if not self.levels_left:
            raise too_deep(self.limits)
        self.levels_left -= 1
        inner = self.expression(lowest)
        self.levels_left += 1
        return inner

    # operands

    def operand(self) -> Expression:
        position = self.position
        kind = self.kinds[position]
        self.position = position + 1
        if kind == NAME or kind in self.words:
            return self.named(position)
        if kind == STRING:
            return Literal(string_of(self.values[position]))
        if kind == NUMBER:
            return Literal(self.number(position, ""))
        if kind == "TRUE" or kind == "FALSE":
            return Literal(kind == "TRUE")
        if kind == "(":
            inner = self.deeper(1)
            self.take(")")
            return inner
        return self.prefixed(kind, position)

    def prefixed(self, kind: str, position: int) -> Expression:
        if kind == "NOT":
            return Not(self.deeper(self.power_of_not))
        if kind in ("-", "+") and self.kinds[position + 1] == NUMBER:
            self.position += 1
            return Literal(self.number(position + 1, kind))
        if kind == "-":
            return Negate(self.deeper(_TIGHTEST))
        if kind == "EXISTS":
            bracketed = self.kinds[self.position] == "("
            self.position += bracketed
            name = self.name()
            if bracketed:
                self.take(")")
            return ExistsTest(name)
        self.position = position
        raise self.operand_expected()

    def named(self, position: int) -> Expression:
        """An attribute, a function call, or TIMESTAMP '...'."""
        word, following = self.values[position], self.kinds[self.position]
        if following == "(" and "." not in word and "`" not in word:
            return self.call(word.upper(), position)
        if following == STRING and self.kinds[position] == "TIMESTAMP":
            return Literal(self.timestamp(self.string("a string")))
        return Attribute(intern(name_of(word)))

    def call(self, function: str, position: int) -> Expression:
        self.position += 1
        if self.strict and function in _RANGING:
            return self.ranging(function, position)
        arguments: list[Expression] = []
        if self.kinds[self.position] != ")":
            arguments = self.items()
        self.take(")")
        if function == "TIMESTAMP" and len(arguments) == 1:
            only = arguments[0]
            if isinstance(only, Literal) and isinstance(only.value, str):
                return Literal(self.timestamp(only.value, position))
        if self.strict:
            check_call(self.text, self.offsets[position], function, len(arguments))
        return Call(function, tuple(arguments))

    def ranging(self, word: str, position: int) -> Expression:
        """ANY(condition) or ALL(condition), over the list that the first name inside leads to."""
        condition = self.deeper(1)
        self.take(")")
        if next(names_in(condition), None) is None:
            raise FilterSyntaxError(
                f"{word} needs the name of a list", text=self.text, offset=self.offsets[position],
                hint=f"write {word}(lines.price > 100)",
            )  # fmt: skip
        return _RANGING[word](condition)

    def items(self, positions: list[int] | None = None) -> list[Expression]:
        """Expressions between commas; `positions` gets the token that each begins with."""
        items: list[Expression] = []
        while True:
            if positions is not None:
                positions.append(self.position)
            items.append(self.deeper(1))
            if self.kinds[self.position] != ",":
                return items
            self.position += 1

    # tests: what may follow an operand

    def test(self, kind: str, operand: Expression) -> Expression:
        negated = kind == "NOT"
        if negated:
            kind = self.kinds[self.position]
            if kind not in _TESTS:
                raise self.problem(_TESTS, words=_TESTS)
            self.position += 1
        if kind == "IS":
            return self.is_test(operand)
        if kind == "IN":
            if self.strict and (self.kinds[self.position] == NAME or self.kinds[self.position] in self.words):
                found = AnyOf(Compare("=", Attribute(self.name()), operand))
                return Not(found) if negated else found
            self.take("(")
            positions: list[int] = []
            items = self.items(positions)
            self.take(")")
            if self.strict:
                for item, position in zip(items, positions, strict=True):
                    self.check_topic(operand, item, position)
            return In(operand, tuple(items), negated)
        if kind == "BETWEEN":
            low = self.expression(6)
            self.take("AND")
            return Between(operand, low, self.expression(6), negated)
        if kind == "LIKE":
            return LikeTest(operand, self.string("a pattern in quotes"), negated)
        if kind == "REGEXP":
            return RegexpTest(operand, self.pattern(self.check_regexp), negated)
        return TopicTest(operand, self.pattern(check_pattern), negated)

    def is_test(self, operand: Expression) -> Expression:
        negated = self.kinds[self.position] == "NOT"
        self.position += negated
        position = self.position
        if self.kinds[position] == "NULL":
            self.position += 1
            return NullTest(operand, negated)
        if self.kinds[position] == NAME and self.values[position].upper() == "A":
            if operand != Attribute("type"):
                raise FilterSyntaxError(
                    "IS A follows the word type only", text=self.text, offset=self.offsets[position],
                    expected=("NULL",), suggestion="type IS A ...",
                )  # fmt: skip
            self.position += 1
            if self.kinds[self.position] == STRING:
                return TypeTest(self.string("a type's name"), negated)
            return TypeTest(self.name("the name of a type"), negated)
        raise self.problem(("NULL", "A"), words=("NULL",))

    # tokens

    def take(self, kind: str) -> None:
        if self.kinds[self.position] != kind:
            raise self.problem((kind,), words=(kind,))
        self.position += 1

    def name(self, what: str = "the name of an attribute") -> str:
        kind = self.kinds[self.position]
        if kind != NAME and kind not in self.words:
            raise self.problem((what,))
        self.position += 1
        return intern(name_of(self.values[self.position - 1]))

    def string(self, what: str) -> str:
        if self.kinds[self.position] != STRING:
            raise self.problem((what,))
        self.position += 1
        return string_of(self.values[self.position - 1])

    def pattern(self, check: Callable[[str], str]) -> str:
        """A string that `check` finds to be a pattern; its complaint is shown at the string."""
        position = self.position
        return self.checked(self.string("a pattern in quotes"), check, position)

    def check_regexp(self, pattern: str) -> str:
        """The pattern itself, compiled. The budget is looked at first: compiling is what it bounds."""
        self.patterns[pattern] = compiled_weight(pattern)
        check_patterns(sum(self.patterns.values()), self.limits)
        return check_regexp(pattern)

    def checked(self, pattern: str, check: Callable[[str], str], position: int) -> str:
        try:
            return check(pattern)
        except FilterLimitError:
            raise
        except FilterError as error:
            raise FilterSyntaxError(
                error.message, text=self.text, offset=self.offsets[position], hint=error.hint
            ) from None

    def check_topic(self, operand: Expression, other: Expression, position: int) -> None:
        """Refuse `topic = '+5'`: a text with a wildcard is a pattern there, and this is none."""
        is_topic = isinstance(operand, Attribute) and operand.name == "topic"
        value = other.value if is_topic and isinstance(other, Literal) else None
        if type(value) is str and is_pattern(value):
            self.checked(value, check_pattern, position)

    def number(self, position: int, sign: str) -> int | float:
        token = sign + self.values[position]
        if token.lstrip("+-").isdigit():
            value: int | float = int(token) if len(token) < 40 else INT_MAX + 1
            if INT_MIN <= value <= INT_MAX:
                return value
            problem = "a whole number outside 64 bits; write it with a decimal point"
        else:
            value = float(token)
            if math.isfinite(value):
                return value
            problem = "a number beyond what a double can hold"
        raise FilterSyntaxError(problem, text=self.text, offset=self.offsets[position])

    def timestamp(self, text: str, position: int | None = None) -> datetime:
        offset = self.offsets[self.position - 1 if position is None else position]
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            problem = f"{shown(text)!r} is no timestamp; write TIMESTAMP '2026-01-31T12:00:00Z'"
            raise FilterSyntaxError(problem, text=self.text, offset=offset) from None
        if moment.tzinfo is None:
            problem = f"the timestamp {shown(text)!r} has no time zone; end it with Z or +01:00"
            raise FilterSyntaxError(problem, text=self.text, offset=offset)
        try:
            return utc(moment)
        except OverflowError:
            problem = f"the timestamp {shown(text)!r} is outside the years 1 to 9999 in UTC"
            raise FilterSyntaxError(problem, text=self.text, offset=offset) from None

    # mistakes

    def problem(self, expected: tuple[str, ...], words: Sequence[str] = ()) -> FilterSyntaxError:
        return unexpected(self.text, self.tokens, self.position, expected, words)

    def operand_expected(self) -> FilterSyntaxError:
        expected = ("an attribute", "a value", "NOT", "EXISTS", "(")
        return self.problem(expected, words=("NOT", "EXISTS", "TRUE", "FALSE"))

    def operator_expected(self) -> FilterSyntaxError:
        expected = ("AND", "OR", "a comparison", "the end of the filter")
        words = ("AND", "OR", "XOR", "LIKE", "IN", "BETWEEN", "IS", "NOT", "REGEXP", "MATCHES")
        return self.problem(expected, words)
