"""EventBridge-style JSON patterns, read and written.

A pattern names attributes (nested objects, or dotted names) with a list of alternatives each: a
value, or one of `prefix`, `suffix`, `equals-ignore-case`, `wildcard`, `numeric`, `exists`,
`anything-but`. All attributes must fit; `$or` lists patterns of which one must.

A pattern fits arrays too: `{"tags": ["red"]}` fits a value and a list with that value, and the members of one
object of a pattern fit one object of a list. The filter says so beside the condition for plain values: for
events that hold a list (`EXISTS `[]``), every leaf of the pattern is an ANY.

Differences of values follow Tidings: null is an absent attribute, so null means the same as
{"exists": false}; and `anything-but` accepts other values of the same kind as those it names, not
values of another kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from tidings.errors import FilterError
from tidings.language.build import Condition, Term, as_filter, attr, call
from tidings.language.limits import DEFAULT_LIMITS, Limits, check_text, too_deep
from tidings.language.mistakes import nearest
from tidings.language.parser import balanced
from tidings.language.printer import print_constraint, print_expression
from tidings.model.body import HAS_LIST
from tidings.model.constraint import Constraint, Equals, Exists, Like, Missing, NotOneOf, OneOf, Prefix, Range
from tidings.model.decoding import UNREADABLE
from tidings.model.expression import And, AnyOf, Attribute, Call, Compare, Expression, LikeTest, Literal, Or
from tidings.model.filter import TIDINGS, Conjunction, Filter
from tidings.model.pattern import escape_like, like_parts
from tidings.model.value import Kind

_SIGNS = {"<": Term.__lt__, "<=": Term.__le__, ">": Term.__gt__, ">=": Term.__ge__, "=": Term.__eq__}


def from_pattern(pattern: Mapping[str, Any] | str | bytes, *, limits: Limits = DEFAULT_LIMITS) -> Filter:
    """The filter of a pattern, given as a mapping or as JSON text."""
    if isinstance(pattern, str | bytes):
        check_text(pattern if isinstance(pattern, str) else pattern.decode("latin-1"), limits)
        try:
            pattern = msgspec.json.decode(pattern)
        except UNREADABLE as error:
            raise FilterError(f"the pattern is no JSON: {error}") from None
    plain, listed = _pattern(pattern, (), limits, lists=False), _pattern(pattern, (), limits, lists=True)
    return as_filter(plain | (attr(HAS_LIST).exists() & listed), limits=limits)


def _pattern(pattern: Any, path: tuple[str, ...], limits: Limits, *, lists: bool) -> Condition:
    """All members of one object, below the attributes in `path`."""
    if not isinstance(pattern, Mapping) or not pattern:
        raise _mistake(path, "needs an object with at least one member")
    if len(path) > limits.depth:
        raise too_deep(limits)
    parts: list[Condition] = []
    for name, rule in pattern.items():
        here = (*path, str(name))
        if name == "$or":
            if not isinstance(rule, list) or not rule:
                raise _mistake(here, "needs a list of patterns")
            parts.append(_any([_pattern(choice, path, limits, lists=lists) for choice in rule]))
        elif isinstance(rule, Mapping):
            inner = _pattern(rule, here, limits, lists=lists)
            parts.append(_ranged(inner) if lists and len(rule) > 1 and "$or" not in rule else inner)
        else:
            leaf = _alternatives(rule, here)
            parts.append(_ranged(leaf) if lists else leaf)
    return Condition(balanced(And, [part.expression for part in parts]))


def _ranged(condition: Condition) -> Condition:
    return Condition(AnyOf(condition.expression))


def _any(conditions: list[Condition]) -> Condition:
    return Condition(balanced(Or, [condition.expression for condition in conditions]))


def _alternatives(rules: Any, path: tuple[str, ...]) -> Condition:
    if not isinstance(rules, list) or not rules:
        raise _mistake(path, "needs a list of values or comparisons")
    attribute = attr(".".join(path))
    values = [rule for rule in rules if isinstance(rule, str | bool | int | float)]
    others = [rule for rule in rules if not isinstance(rule, str | bool | int | float)]
    conditions = [attribute.in_(values)] if len(values) > 1 else [attribute == value for value in values]
    conditions += [_rule(attribute, rule, path) for rule in others]
    return _any(conditions)


def _rule(attribute: Any, rule: Any, path: tuple[str, ...]) -> Condition:
    if rule is None:
        result: Condition = attribute.is_null()
        return result
    if not isinstance(rule, Mapping) or len(rule) != 1:
        raise _mistake(path, f"has {_shown(rule)}; a comparison is an object with one member")
    ((word, argument),) = rule.items()
    read = _RULES.get(word)
    if read is None:
        near = nearest(word, [name.upper() for name in _RULES])
        hint = f"did you mean {near.lower()}?" if near else f"there are {', '.join(_RULES)}"
        raise _mistake(path, f"has the comparison {word!r}", hint)
    condition = read(attribute, argument)
    if condition is None:
        raise _mistake(path, f"has {_shown(rule)}; {word} does not take that")
    return condition


def _prefix(attribute: Any, argument: Any) -> Condition | None:
    if isinstance(argument, str):
        return _condition(attribute.startswith(argument))
    folded = _ignoring_case(argument)
    return None if folded is None else call("LOWER", attribute).startswith(folded)


def _suffix(attribute: Any, argument: Any) -> Condition | None:
    if isinstance(argument, str):
        return _condition(attribute.endswith(argument))
    folded = _ignoring_case(argument)
    return None if folded is None else call("LOWER", attribute).endswith(folded)


def _ignoring_case(argument: Any) -> str | None:
    """The text of {"equals-ignore-case": text} inside a prefix or suffix."""
    if isinstance(argument, Mapping) and list(argument) == ["equals-ignore-case"]:
        text = argument["equals-ignore-case"]
        return text.lower() if isinstance(text, str) else None
    return None


def _equals_ignoring_case(attribute: Any, argument: Any) -> Condition | None:
    return call("LOWER", attribute) == argument.lower() if isinstance(argument, str) else None


def _wildcard(attribute: Any, argument: Any) -> Condition | None:
    """`*` is any text; a backslash takes the next `*` or backslash literally."""
    if not isinstance(argument, str):
        return None
    parts = _between_stars(argument)
    if any(part.endswith("\\") for part in parts[:-1]):  # LIKE would read that backslash with the %
        body = ".*".join(_quoted(part) for part in parts)
        return _condition(attribute.regexp(f"^(?s:{body})$"))
    return _condition(attribute.like("%".join(map(escape_like, parts))))


def _between_stars(wildcard: str) -> list[str]:
    """The literal parts of a wildcard."""
    parts = [""]
    position = 0
    while position < len(wildcard):
        ch = wildcard[position]
        if ch == "\\" and wildcard[position + 1 : position + 2] in ("*", "\\"):
            position += 1
            parts[-1] += wildcard[position]
        elif ch == "*":
            parts.append("")
        else:
            parts[-1] += ch
        position += 1
    return parts


def _quoted(text: str) -> str:
    return "".join(f"\\{ch}" if ch in r"\.+*?()|[]{}^$" else ch for ch in text)


def _numeric(attribute: Any, argument: Any) -> Condition | None:
    """[">", 0, "<=", 5]: signs and numbers in turn."""
    if not isinstance(argument, list) or len(argument) not in (2, 4):
        return None
    conditions: list[Condition] = []
    for sign, number in zip(argument[::2], argument[1::2], strict=True):
        if sign not in _SIGNS or type(number) not in (int, float):
            return None
        conditions.append(_SIGNS[sign](attribute, number))
    return Condition(balanced(And, [condition.expression for condition in conditions]))


def _exists(attribute: Any, argument: Any) -> Condition | None:
    if not isinstance(argument, bool):
        return None
    return _condition(attribute.exists() if argument else attribute.is_null())


def _anything_but(attribute: Any, argument: Any) -> Condition | None:
    if isinstance(argument, Mapping):
        return _nothing_like(attribute, argument)
    values = argument if isinstance(argument, list) else [argument]
    if not values or not all(isinstance(value, str | bool | int | float) for value in values):
        return None
    by_kind: dict[type, list[Any]] = {}
    for value in values:
        by_kind.setdefault(float if type(value) is int else type(value), []).append(value)
    return _any([attribute.not_in(g) if len(g) > 1 else attribute != g[0] for g in by_kind.values()])


def _nothing_like(attribute: Any, rule: Mapping[str, Any]) -> Condition | None:
    """{"anything-but": {"prefix": ...}}: one comparison, or a list of them, denied."""
    words = {"prefix": _prefix, "suffix": _suffix, "wildcard": _wildcard,
             "equals-ignore-case": _equals_ignoring_case}  # fmt: skip
    ((word, argument),) = rule.items() if len(rule) == 1 else (("", None),)
    if word not in words:
        return None
    found = [
        words[word](attribute, each) for each in (argument if isinstance(argument, list) else [argument])
    ]
    if not found or any(condition is None for condition in found):
        return None
    return Condition(balanced(And, [(~condition).expression for condition in found if condition is not None]))


def _condition(condition: Any) -> Condition:
    assert isinstance(condition, Condition)
    return condition


_RULES: dict[str, Callable[[Any, Any], Condition | None]] = {
    "prefix": _prefix,
    "suffix": _suffix,
    "equals-ignore-case": _equals_ignoring_case,
    "wildcard": _wildcard,
    "numeric": _numeric,
    "exists": _exists,
    "anything-but": _anything_but,
}


def to_pattern(filter: Filter) -> dict[str, Any]:
    """The pattern that accepts the same events, or a `FilterError` that names what it cannot say."""
    if filter.dialect != TIDINGS:
        raise FilterError(f"a filter of dialect {filter.dialect} has no pattern")
    if filter.is_never_true or filter.is_always_true:
        raise FilterError("a pattern cannot say always or never")
    plain = [c for c in filter.conjunctions if Exists(HAS_LIST) not in c.constraints] or filter.conjunctions
    written = [_written(conjunction) for conjunction in plain]
    patterns = [_nested(rules) for rules in _gathered(written)]
    return patterns[0] if len(patterns) == 1 else {"$or": patterns}


def _written(conjunction: Conjunction) -> dict[str, list[Any]]:
    """The rules of a conjunction by attribute."""
    found = [(c.attribute, _rules(c)) for c in conjunction.constraints]
    found += [_folded(residual) for residual in conjunction.residuals]
    rules = dict(found)
    if len(rules) < len(found):
        names = [name for name, _ in found]
        name = next(name for name in names if names.count(name) > 1)
        raise FilterError(
            f"a pattern has one place for {name!r}, and the filter has two conditions there",
            hint="keep it as a filter text",
        )
    return rules


def _gathered(written: list[dict[str, list[Any]]]) -> list[dict[str, list[Any]]]:
    """Conjunctions that differ in one attribute only, as one with the alternatives of both."""
    for name in sorted({name for rules in written for name in rules}):
        alike: dict[bytes, dict[str, list[Any]]] = {}
        for rules in written:
            rest = sorted((other, rule) for other, rule in rules.items() if other != name)
            first = alike.setdefault(msgspec.json.encode([name in rules, rest]), rules)
            if first is not rules and name in rules:
                first[name] = first[name] + rules[name]
        written = list(alike.values())
    return written


def _nested(rules: dict[str, list[Any]]) -> dict[str, Any]:
    """Rules of dotted names as nested objects."""
    pattern: dict[str, Any] = {}
    for name in sorted(rules):  # a parent comes before its children, and is seen by them
        *parents, last = name.split(".")
        position: Any = pattern
        for parent in parents:
            position = position.setdefault(parent, {})
            if not isinstance(position, dict):
                raise FilterError(f"a pattern cannot test both {parent!r} and {name!r}, which is inside it")
        if "$or" in (*parents, last):
            raise FilterError(f"a pattern cannot name the attribute {name!r}")
        position[last] = rules[name]
    return pattern


def _rules(constraint: Constraint) -> list[Any]:
    """The alternatives that say what a constraint says."""
    if isinstance(constraint, Equals | OneOf):
        values = [constraint.value] if isinstance(constraint, Equals) else list(constraint.values)
        return [_json(constraint, value) for value in values]
    if isinstance(constraint, NotOneOf):
        return [{"anything-but": [_json(constraint, value) for value in constraint.values]}]
    if isinstance(constraint, Range) and constraint.kind is Kind.NUMBER:
        return [{"numeric": _signs(constraint)}]
    if isinstance(constraint, Prefix):
        return [{"prefix": constraint.prefix}]
    if isinstance(constraint, Like):
        rule = _like_rule(constraint.pattern)
        if rule is not None:
            return [{"anything-but": rule}] if constraint.negated else [rule]
    if isinstance(constraint, Exists | Missing):
        return [{"exists": isinstance(constraint, Exists)}]
    raise _unwritable(print_constraint(constraint))


def _signs(constraint: Range) -> list[Any]:
    signs: list[Any] = []
    if constraint.low is not None:
        signs += [">" if constraint.low_open else ">=", constraint.low]
    if constraint.high is not None:
        signs += ["<" if constraint.high_open else "<=", constraint.high]
    return signs


def _like_rule(pattern: str) -> dict[str, Any] | None:
    """A LIKE pattern as prefix, suffix or wildcard; None when it uses `_`."""
    parts = like_parts(pattern)
    if any(ch is None for part in parts for ch in part):
        return None
    texts = ["".join(ch for ch in part if ch) for part in parts]
    if len(texts) == 2 and not texts[1]:
        return {"prefix": texts[0]}
    if len(texts) == 2 and not texts[0]:
        return {"suffix": texts[1]}
    return {"wildcard": "*".join(text.replace("\\", "\\\\").replace("*", "\\*") for text in texts)}


def _folded(residual: Expression) -> tuple[str, list[Any]]:
    """LOWER(name) compared with a text: the comparison that ignores case."""
    match residual:
        case Compare(
            op="=", left=Call(function="LOWER", arguments=(Attribute(name=name),)), right=Literal(value=text)
        ):
            if isinstance(text, str):
                return name, [{"equals-ignore-case": text}]
        case LikeTest(operand=Call(function="LOWER", arguments=(Attribute(name=name),)), negated=False):
            for word, text in (_like_rule(residual.pattern) or {}).items():
                if word in ("prefix", "suffix"):
                    return name, [{word: {"equals-ignore-case": text}}]
    raise _unwritable(print_expression(residual))


def _json(constraint: Constraint, value: Any) -> Any:
    if isinstance(value, datetime):
        raise _unwritable(print_constraint(constraint))
    return value


def _unwritable(condition: str) -> FilterError:
    return FilterError(f"a pattern cannot say {condition}", hint="keep it as a filter text")


def _mistake(path: tuple[str, ...], problem: str, hint: str | None = None) -> FilterError:
    where = f"the member {'.'.join(path)!r} of the pattern" if path else "the pattern"
    return FilterError(f"{where} {problem}", hint=hint)


def _shown(rule: Any) -> str:
    text = repr(rule)
    return text if len(text) <= 60 else text[:57] + "..."
