"""Expressions and filters as Spark SQL, node by node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidings.errors import FilterError
from tidings.language.lists import names_in, prefixes
from tidings.language.spark.columns import Column, leaf, members
from tidings.language.spark.functions import call
from tidings.language.spark.numbers import arithmetic, compare, negated
from tidings.language.spark.regexp import java_regexp, literal_regexp
from tidings.language.spark.shapes import ArrayShape, Shape
from tidings.language.spark.text import (
    ABSENT,
    ARRAY,
    BIGINT,
    BOOLEAN,
    DOUBLE,
    LINEAGE_TYPE,
    NULL,
    OPAQUE,
    STRING,
    UNKNOWN,
    Binder,
    Sql,
    condition,
    joined,
    literal,
    quoted,
)
from tidings.language.work import BUDGET, Work, has_work, work_of
from tidings.model import constraint as c
from tidings.model import expression as e
from tidings.model.event import LINEAGE
from tidings.model.filter import TIDINGS, Conjunction, Filter
from tidings.model.pattern import like_parts
from tidings.model.topic import ROOT, is_pattern


class SqlWriter:
    """Writes for one set of columns."""

    def __init__(self, columns: dict[str, Column]) -> None:
        self.columns = columns
        self.binder = Binder(columns)

    def filter(self, filter: Filter) -> str:
        if filter.dialect != TIDINGS:
            raise FilterError(
                f"a filter of the dialect {filter.dialect!r} has no form in Spark SQL",
                hint="Spark has neither its casts nor its list of errors; use the dialect 'tidings'",
            )
        light = [self.conjunction(part) for part in filter.conjunctions if not has_work(part)]
        heavy = [self.conjunction(part) for part in filter.conjunctions if has_work(part)]
        if heavy:
            light.append(self.within_budget(work_of(filter), joined("OR", heavy, "FALSE"), UNKNOWN))
        return joined("OR", light, "FALSE")

    def within_budget(self, work: Work, text: str, over: str) -> str:
        """The condition, or another where it would cost more than the budget (`language/work.py`)."""
        most = BUDGET + 1  # enough to be over, and no product of two such overflows
        costs = []
        for name, weight, *lists in work:
            sizes = self.sizes(name, lists, most)
            if sizes is not None:
                product = f"{min(weight, most)}L"
                for number, size in enumerate(sizes):
                    product = f"{product} * {size}" if not number else f"least({product}, {most}L) * {size}"
                costs.append(product)
        if not costs:
            return text
        return f"IF({' + '.join(costs)} > {BUDGET}L, {over}, {text})"

    def sizes(self, name: str, lists: list[str], most: int) -> list[str] | None:
        """The sizes that a weight is multiplied with: of a text, and of lists; None when it costs nothing."""
        found: dict[str, str] = {}
        is_inside = not name
        for first in lists:
            for position in prefixes(first):
                column = self.columns.get(position)
                if column is not None and column.type == ARRAY:
                    has_name = name == position or name.startswith(f"{position}.")
                    is_inside = is_inside or has_name
                    size = self.list_extent(column.text, column.items, texts=has_name)
                    found[position] = f"least(coalesce({size}, {0 if has_name else 1}), {most})"
                    break
        if not is_inside:
            operand = self.attribute(e.Attribute(name))
            if operand.type != STRING:
                return None
            found[""] = f"least(coalesce(length({operand.text}), 0), {most})"  # least passes over NULL
        return list(found.values())

    def list_extent(self, text: str, element: Shape, *, texts: bool) -> str:
        """Elements of a list at every depth, and the characters of its texts."""
        one = self.binder.name()
        if isinstance(element, ArrayShape):
            parts = [self.list_extent(one, element.element, texts=texts)]
        elif isinstance(element, dict):
            columns = [column for _, column in members(one, element, "")]
            parts = [f"IF({self.value_of(column)} IS NULL, 0L, 1L)" for column in columns]
            parts += [part for column in columns if (part := self.value_extent(column, texts=texts))]
        else:
            part = self.value_extent(leaf(one, element), texts=texts)
            parts = [part] if part else []
        if not parts:
            return f"CAST(array_size({text}) AS BIGINT)"
        sum, item = self.binder.name(), self.binder.name()
        inside = " + ".join(f"coalesce({part}, 0L)" for part in parts)
        return (
            f"(array_size({text}) + aggregate(transform({text}, {one} -> {inside}), 0L, "
            f"({sum}, {item}) -> {sum} + {item}))"
        )

    def value_extent(self, column: Column, *, texts: bool) -> str | None:
        if column.type == ARRAY:
            return self.list_extent(column.text, column.items, texts=texts)
        return f"CAST(length({column.text}) AS BIGINT)" if texts and column.type == STRING else None

    def conjunction(self, part: Conjunction) -> str:
        conditions = [self.constraint(constraint) for constraint in part.constraints]
        return joined("AND", conditions + [self.truth(residual) for residual in part.residuals], "TRUE")

    def truth(self, node: e.Expression) -> str:
        """The expression as a condition; what is no boolean is unknown."""
        sql = self.sql(node)
        return sql.text if sql.type == BOOLEAN else UNKNOWN

    def sql(self, node: e.Expression) -> Sql:
        return _NODES[type(node)](self, node)

    # constraints

    def constraint(self, constraint: c.Constraint) -> str:
        if isinstance(constraint, c.Prefix):
            operand = self.attribute(e.Attribute(constraint.attribute))
            return (
                f"startswith({operand.text}, {quoted(constraint.prefix)})"
                if operand.type == STRING
                else UNKNOWN
            )
        return self.truth(_as_expression(constraint))

    # values

    def literal(self, node: e.Literal) -> Sql:
        return literal(node.value)

    def attribute(self, node: e.Attribute) -> Sql:
        column = self.columns.get(node.name)
        if column is None:
            lineage = self.columns.get(LINEAGE) if node.name == "type" else None
            return Sql(f"get({lineage.text}, 0)", STRING) if lineage else ABSENT
        column = column.checked(node.name)
        if column.type in (LINEAGE_TYPE, ARRAY, OPAQUE):
            return ABSENT
        return Sql(self.value_of(column), column.type)

    def value_of(self, column: Column) -> str:
        """The column's value; NaN is NULL."""
        return f"nanvl({column.text}, CAST(NULL AS DOUBLE))" if column.type == DOUBLE else column.text

    def call(self, node: e.Call) -> Sql:
        if node.function == "LENGTH" and isinstance(node.arguments[0], e.Attribute):
            column = self.columns.get(node.arguments[0].name)
            if column is not None and column.type == ARRAY:
                return Sql(f"CAST(array_size({column.text}) AS BIGINT)", BIGINT)
        return call(node.function, [self.sql(argument) for argument in node.arguments], self.binder)

    def negate(self, node: e.Negate) -> Sql:
        return negated(self.sql(node.operand))

    def arithmetic(self, node: e.Arithmetic) -> Sql:
        return arithmetic(node.op, self.sql(node.left), self.sql(node.right), self.binder)

    # logic

    def negation(self, node: e.Not) -> Sql:
        return condition(f"(NOT {self.truth(node.operand)})")

    def logic(self, node: e.And | e.Or | e.Xor) -> Sql:
        word = {e.And: "AND", e.Or: "OR", e.Xor: "<>"}[type(node)]
        return condition(f"({self.truth(node.left)} {word} {self.truth(node.right)})")

    # conditions

    def compare(self, node: e.Compare) -> Sql:
        if node.op in ("=", "!="):
            for one, other in ((node.left, node.right), (node.right, node.left)):
                if _is_topic(one) and isinstance(other, e.Literal) and _is_wild(other.value):
                    return self.topic(e.TopicTest(one, other.value, node.op == "!="))
        return condition(compare(node.op, self.sql(node.left), self.sql(node.right), self.binder))

    def among(self, node: e.In) -> Sql:
        operand = self.sql(node.operand)
        if _is_topic(node.operand):
            text = joined(
                "OR", [self.truth(e.Compare("=", node.operand, item)) for item in node.items], "FALSE"
            )
            return _denied(text, node.negated)
        items = [self.sql(item) for item in node.items]
        if operand.type in (STRING, BIGINT) and all(
            item.literal and item.type == operand.type for item in items
        ):
            text = f"({operand.text} IN ({', '.join(item.text for item in items)}))"
        else:
            text = self.bound(
                node.operand, lambda one: joined("OR", [self.equal(one, item) for item in items], "FALSE")
            )
        return _denied(text, node.negated)

    def equal(self, one: Sql, other: Sql) -> str:
        return compare("=", one, other, self.binder)

    def between(self, node: e.Between) -> Sql:
        low, high = self.sql(node.low), self.sql(node.high)

        def within(operand: Sql) -> str:
            return (
                f"({compare('>=', operand, low, self.binder)} AND "
                f"{compare('<=', operand, high, self.binder)})"
            )

        return _denied(self.bound(node.operand, within), node.negated)

    def bound(self, node: e.Expression, body: Callable[[Sql], str]) -> str:
        """`body` of an operand that it may write many times: bound unless it is a name or a constant."""
        operand = self.sql(node)
        if isinstance(node, (e.Attribute, e.Literal)) or operand.type == NULL:
            return body(operand)
        return self.binder.bind([operand], lambda values: body(values[0]))

    def text_test(self, node: e.LikeTest | e.RegexpTest | e.TopicTest, test: str) -> Sql:
        operand = self.sql(node.operand)
        return (
            _denied(f"({operand.text} {test})", node.negated)
            if operand.type == STRING
            else condition(UNKNOWN)
        )

    def like(self, node: e.LikeTest) -> Sql:
        return self.text_test(node, f"LIKE {quoted(_like(node.pattern))} ESCAPE {quoted(chr(92))}")

    def regexp(self, node: e.RegexpTest) -> Sql:
        return self.text_test(node, f"RLIKE {quoted(java_regexp(node.pattern))}")

    def topic(self, node: e.TopicTest) -> Sql:
        return self.text_test(node, f"RLIKE {quoted(_topic_regexp(node.pattern))}")

    def exists(self, node: e.ExistsTest) -> Sql:
        return condition(self.present(node.name))

    def present(self, name: str) -> str:
        column = self.columns.get(name)
        if column is not None and column.type == LINEAGE_TYPE:
            return f"coalesce(size({column.text}) > 0, FALSE)"
        if column is not None and column.type in (ARRAY, OPAQUE):
            return f"({column.text} IS NOT NULL)"
        attribute = self.attribute(e.Attribute(name))
        return "FALSE" if attribute.type == NULL else f"({attribute.text} IS NOT NULL)"

    def null(self, node: e.NullTest) -> Sql:
        if isinstance(node.operand, e.Attribute):
            return _denied(self.present(node.operand.name), not node.negated)
        operand = self.sql(node.operand)
        return _denied(f"({operand.text} IS NULL)" if operand.type != NULL else "TRUE", node.negated)

    def type_test(self, node: e.TypeTest) -> Sql:
        column = self.columns.get(LINEAGE)
        if column is None:
            return condition(UNKNOWN)
        found = f"IF(size({column.text}) > 0, array_contains({column.text}, {quoted(node.name)}), {UNKNOWN})"
        return _denied(found, node.negated)

    def ranging(self, node: e.AnyOf | e.AllOf) -> Sql:
        """ANY(c) is NOT ALL(NOT c): `forall` has three values in every setting, `exists` in one."""
        first = next(names_in(node.condition))
        if isinstance(node, e.AllOf):
            return condition(self.every(first, lambda: self.truth(node.condition)))
        return condition(f"(NOT {self.every(first, lambda: f'(NOT {self.truth(node.condition)})')})")

    def every(self, first: str, body: Callable[[], str]) -> str:
        """`body` true for each element of the list that the name leads to; `body` itself without a list."""
        for position in prefixes(first):
            column = self.columns.get(position)
            if column is not None and column.type == ARRAY:
                below = [name for name in self.columns if name.startswith(f"{position}.")]
                if below:
                    raise FilterError(
                        f"the column {position!r} is a list, and {below[0]!r} is another column",
                        hint="rename one of the two",
                    )
                return self.elements(column.text, column.items, position, lambda: self.every(first, body))
        return body()

    def elements(self, text: str, element: Shape, position: str, body: Callable[[], str]) -> str:
        """`body` for each element in the place of its list. An absent list is a list of one NULL: to the
        condition it is the same, and so the condition is written once."""
        one = self.binder.name()
        if isinstance(element, ArrayShape):
            inside = self.elements(one, element.element, position, body)
        else:
            outside = self.columns
            kept = {name: column for name, column in outside.items() if name != position}
            self.columns = kept | dict(members(one, element, position))
            inside = body()
            self.columns = outside
        return f"forall(coalesce({text}, array(NULL)), {one} -> {inside})"


_NODES: dict[type, Callable[[SqlWriter, Any], Sql]] = {
    e.Literal: SqlWriter.literal, e.Attribute: SqlWriter.attribute, e.Not: SqlWriter.negation,
    e.Negate: SqlWriter.negate,
    e.And: SqlWriter.logic, e.Or: SqlWriter.logic, e.Xor: SqlWriter.logic, e.Compare: SqlWriter.compare,
    e.Arithmetic: SqlWriter.arithmetic, e.In: SqlWriter.among, e.Between: SqlWriter.between,
    e.LikeTest: SqlWriter.like,
    e.RegexpTest: SqlWriter.regexp, e.TopicTest: SqlWriter.topic, e.ExistsTest: SqlWriter.exists,
    e.NullTest: SqlWriter.null,
    e.TypeTest: SqlWriter.type_test, e.Call: SqlWriter.call, e.AnyOf: SqlWriter.ranging,
    e.AllOf: SqlWriter.ranging,
}  # fmt: skip


def _denied(text: str, negated: bool) -> Sql:
    return condition(f"(NOT {text})" if negated else text)


def _is_topic(node: e.Expression) -> bool:
    return isinstance(node, e.Attribute) and node.name == "topic"


def _is_wild(value: object) -> bool:
    return isinstance(value, str) and is_pattern(value)


def _like(pattern: str) -> str:
    """The pattern with every literal character of its own escaped: Spark allows no stray backslash."""
    parts = like_parts(pattern)
    return "%".join(
        "".join("_" if ch is None else f"\\{ch}" if ch in "%_\\" else ch for ch in part) for part in parts
    )


def _topic_regexp(pattern: str) -> str:
    """A topic pattern as a regular expression; the root falls under `#` and itself alone."""
    if pattern == "#":
        return ""
    if pattern == ROOT:
        return r"\A/\z"
    levels = pattern.split("/")
    below = levels[-1] == "#"
    wanted = levels[:-1] if below else levels
    written = "/".join(r"[^/]*" if level == "+" else literal_regexp(level) for level in wanted)
    return rf"\A(?!/\z){written}" + (r"(?:/[\x00-\x{10ffff}]*)?\z" if below else r"\z")


def _as_expression(constraint: c.Constraint) -> e.Expression:
    """The condition that a constraint stands for."""
    attribute = e.Attribute(constraint.attribute)
    if isinstance(constraint, c.Equals):
        return e.Compare("=", attribute, e.Literal(constraint.value))
    if isinstance(constraint, (c.OneOf, c.NotOneOf)):
        items = tuple(e.Literal(value) for value in constraint.values)
        return e.In(attribute, items, isinstance(constraint, c.NotOneOf))
    if isinstance(constraint, c.Range):
        return _range(attribute, constraint)
    if isinstance(constraint, c.Like):
        return e.LikeTest(attribute, constraint.pattern, constraint.negated)
    if isinstance(constraint, c.Regexp):
        return e.RegexpTest(attribute, constraint.pattern, constraint.negated)
    if isinstance(constraint, c.TopicIs):
        return e.TopicTest(attribute, constraint.pattern, constraint.negated)
    if isinstance(constraint, c.IsA):
        return e.TypeTest(constraint.name, constraint.negated)
    return e.NullTest(attribute, isinstance(constraint, c.Exists))


def _range(attribute: e.Attribute, constraint: c.Range) -> e.Expression:
    low = e.Compare(">" if constraint.low_open else ">=", attribute, e.Literal(constraint.low))
    high = e.Compare("<" if constraint.high_open else "<=", attribute, e.Literal(constraint.high))
    if constraint.low is None:
        return high
    return low if constraint.high is None else e.And(low, high)
