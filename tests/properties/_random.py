"""Random events, expressions and filters over a small world, so that things meet often.

Half of the values are drawn from this world, half from `_edges` (of those again half are edges), so a
quarter of the values and half of the shapes of dotted names are edges.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st
from tests.properties import _edges

from tidings.model import constraint as c
from tidings.model import expression as e
from tidings.model.event import LINEAGE, Event, make_event
from tidings.model.filter import Conjunction, Filter
from tidings.model.value import INT_MAX, INT_MIN, kind_of, sort_key

NAMES = ("a", "b", "c", "d.e")
TYPES = ("Cat", "Dog", "Animal")
NUMBERS = (0, 1, 2, -1, 1.0, 1.5, -0.0, 2**53 + 1, 2.0**53, INT_MAX, INT_MIN, 2.0**63, 1e308)
TEXTS = ("", "a", "ab", "abc", "b", "a%b", "1", "true", "a/b", "A", "a\nb", "é")
TIMES = (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC))
TOPICS = ("a", "a/b", "a/b/c", "b", "/")
TOPIC_PATTERNS = ("a/+", "#", "a/#", "+/b", "+", "a", "+/#")
LIKES = ("a%", "%b", "a_c", "%", "ab", "a\\%b", "_", "%b%", "")
REGEXPS = ("a", "^a", "b$", "^$", "a.b", "[0-9]")

ONE_ARGUMENT = (
    "LENGTH", "UPPER", "ABS", "INT", "STRING", "BOOL", "FLOOR", "FLOAT", "DECIMAL", "TIMESTAMP", "ROUND",
    "IS_INT",
)  # fmt: skip


def _can_be_written(call: e.Call) -> bool:
    """TIMESTAMP of a literal text is a constant to the parser, which refuses a text that is no moment."""
    (argument,) = call.arguments
    is_text = isinstance(argument, e.Literal) and isinstance(argument.value, str)
    return not (is_text and call.function == "TIMESTAMP")


_small_world = st.one_of(
    st.booleans(),
    st.sampled_from(NUMBERS),
    st.sampled_from(TEXTS),
    st.sampled_from(TIMES),
    _edges.converted_texts,
)
values = _edges.weighed(_edges.values, _small_world)
names = st.sampled_from(NAMES)


@st.composite
def events(draw: st.DrawFn) -> Event:
    stored: dict[str, Any] = {}
    for name in NAMES:
        if draw(st.booleans()):
            value = draw(st.one_of(values, st.sampled_from((float("inf"), float("nan"), None))))
            _edges.placed(stored, name, value, draw(_edges.shapes))
    return make_event(
        stored,
        source="s",
        id="1",
        topic=draw(st.none() | st.sampled_from(TOPICS)),
        type=draw(st.sampled_from(((), ("Cat", "Animal"), ("Dog",), ("Animal",)))),
        time=draw(st.none() | st.sampled_from(TIMES)),
    )


def _operands() -> st.SearchStrategy[e.Expression]:
    plain = st.one_of(
        values.map(e.Literal), names.map(e.Attribute), st.sampled_from(("topic", "type")).map(e.Attribute)
    )
    return st.recursive(plain, _computed, max_leaves=3)


def _computed(inner: st.SearchStrategy[e.Expression]) -> st.SearchStrategy[e.Expression]:
    return st.one_of(
        st.builds(e.Arithmetic, st.sampled_from("+-*/%"), inner, inner),
        st.builds(e.Negate, inner),
        st.builds(
            e.Call,
            st.sampled_from(ONE_ARGUMENT),
            st.tuples(inner),
        ).filter(_can_be_written),
        st.builds(e.Call, st.sampled_from(("LEFT", "MOD", "COALESCE", "LEAST")), st.tuples(inner, inner)),
    )


operands = _operands()
_negated = st.booleans()


def _conditions() -> st.SearchStrategy[e.Expression]:
    simple = st.one_of(
        st.builds(e.Compare, st.sampled_from(("=", "!=", "<", "<=", ">", ">=")), operands, operands),
        st.builds(e.Compare, st.sampled_from(("=", "!=", "<", ">=")), names.map(e.Attribute),
            values.map(e.Literal)),
        st.builds(e.In, operands, st.lists(operands, min_size=1, max_size=3).map(tuple), _negated),
        st.builds(e.Between, operands, operands, operands, _negated),
        st.builds(e.Compare, st.sampled_from(("=", "!=")), st.just(e.Attribute("topic")),
            st.sampled_from(TOPIC_PATTERNS).map(e.Literal)),
        st.builds(e.LikeTest, operands, st.sampled_from(LIKES), _negated),
        st.builds(e.RegexpTest, operands, st.sampled_from(REGEXPS), _negated),
        st.builds(e.TopicTest, operands, st.sampled_from(TOPIC_PATTERNS), _negated),
        st.builds(e.ExistsTest, names),
        st.builds(e.NullTest, operands, _negated),
        st.builds(e.TypeTest, st.sampled_from(TYPES), _negated),
        operands,
    )  # fmt: skip
    return st.recursive(simple, _logic, max_leaves=5)


def _logic(inner: st.SearchStrategy[e.Expression]) -> st.SearchStrategy[e.Expression]:
    return st.one_of(
        st.builds(e.Not, inner),
        st.builds(e.And, inner, inner),
        st.builds(e.Or, inner, inner),
        st.builds(e.Xor, inner, inner),
    )


conditions = _conditions()


@st.composite
def _ranges(draw: st.DrawFn) -> c.Range:
    ordered = values.filter(lambda value: type(value) is not bool)
    low = draw(ordered)
    high = draw(st.none() | ordered.filter(lambda value: kind_of(value) is kind_of(low)))
    if high is None:
        return c.Range(
            draw(names), *draw(st.sampled_from(((low, None), (None, low)))), draw(_negated), draw(_negated)
        )
    low, high = sorted((low, high), key=sort_key)
    return c.Range(draw(names), low, high, draw(_negated), draw(_negated))


constraints: st.SearchStrategy[Any] = st.one_of(
    st.builds(c.Equals, names, values),
    st.builds(c.OneOf, names, st.lists(values, min_size=2, max_size=4).map(tuple)),
    st.builds(c.NotOneOf, names, st.lists(values, min_size=1, max_size=2).map(tuple)),
    _ranges(),
    st.builds(c.Prefix, names, st.sampled_from(TEXTS)),
    st.builds(c.Like, names, st.sampled_from(LIKES), _negated),
    st.builds(c.Regexp, names, st.sampled_from(REGEXPS), _negated),
    st.builds(c.Exists, st.sampled_from((*NAMES, "topic", LINEAGE))),
    st.builds(c.Missing, st.sampled_from((*NAMES, "topic", LINEAGE))),
    st.builds(c.TopicIs, st.sampled_from(("topic", "a")), st.sampled_from(TOPIC_PATTERNS), _negated),
    st.builds(c.IsA.of, st.sampled_from(TYPES), _negated),
)

conjunctions = st.builds(
    Conjunction, st.lists(constraints, max_size=3).map(tuple), st.lists(conditions, max_size=1).map(tuple)
)
filters = st.builds(Filter, st.just(""), st.lists(conjunctions, max_size=3).map(tuple))
