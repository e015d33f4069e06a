"""JSON Schemas of users: the check and the comparison of versions, beside the package jsonschema."""

from __future__ import annotations

from typing import Any

import jsonschema
from hypothesis import assume, given
from hypothesis import strategies as st

from tidings.errors import SchemaError
from tidings.model.schema_changes import breaking_changes
from tidings.model.schema_checking import problems
from tidings.model.schema_keywords import check_keywords

NAMES = ("a", "b")
SCALARS = (None, True, False, 0, 1, 2, 3, 1.0, 2.5, "", "a", "b", "ab")
VALUES = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(NAMES), inner, max_size=2)
    ),
    max_leaves=5,
)
KINDS = ("integer", "number", "string", "boolean", "null", "array", "object")
COUNTS = st.integers(0, 2)
SOME_NAMES = st.lists(st.sampled_from(NAMES), max_size=2, unique=True)


def _words(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    parts = st.lists(inner, min_size=1, max_size=3)
    by_pattern = st.dictionaries(st.sampled_from(("^a", "b$")), inner, max_size=2)
    word = st.one_of(
        st.fixed_dictionaries({"type": st.sampled_from(KINDS)}),
        st.fixed_dictionaries({"type": st.lists(st.sampled_from(KINDS), min_size=1, unique=True)}),
        st.fixed_dictionaries({"enum": st.lists(st.sampled_from(SCALARS), max_size=3)}),
        st.fixed_dictionaries({"const": st.sampled_from(SCALARS)}),
        *(
            st.fixed_dictionaries({name: COUNTS})
            for name in (
                "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength",
                "minItems", "maxItems", "minProperties", "maxProperties",
            )
        ),
        st.fixed_dictionaries({"multipleOf": st.integers(1, 3)}),
        st.fixed_dictionaries({"pattern": st.sampled_from(("^a", "b"))}),
        st.fixed_dictionaries({"uniqueItems": st.booleans()}),
        st.fixed_dictionaries({"required": SOME_NAMES}),
        st.fixed_dictionaries({"properties": st.fixed_dictionaries(dict.fromkeys(NAMES, inner))}),
        st.fixed_dictionaries({"patternProperties": by_pattern}),
        st.fixed_dictionaries({"dependentRequired": st.dictionaries(st.sampled_from(NAMES), SOME_NAMES)}),
        st.fixed_dictionaries({"dependentSchemas": st.dictionaries(st.just("a"), inner)}),
        st.fixed_dictionaries(
            {"contains": inner}, optional={"minContains": COUNTS, "maxContains": COUNTS}
        ),
        st.fixed_dictionaries({"prefixItems": parts}, optional={"items": inner}),
        *(st.fixed_dictionaries({name: parts}) for name in ("allOf", "anyOf", "oneOf")),
        *(
            st.fixed_dictionaries({name: inner})
            for name in ("additionalProperties", "propertyNames", "items", "not")
        ),
        st.fixed_dictionaries({"if": inner}, optional={"then": inner, "else": inner}),
        st.just({"$ref": "#/$defs/P"}),
    )  # fmt: skip
    return st.lists(word, min_size=1, max_size=3).map(
        lambda found: {k: v for one in found for k, v in one.items()}
    )


PARTS = st.recursive(st.one_of(st.booleans(), _words(st.booleans())), _words, max_leaves=6)
SCHEMAS = st.builds(
    lambda part, other: {"properties": {"f": part}, "$defs": {"P": other}}, PARTS, PARTS
).filter(lambda schema: _ends(schema))


def _ends(schema: dict[str, Any]) -> bool:
    try:
        check_keywords(schema, of_class=False)
    except SchemaError as error:
        if "refers to itself" in error.message or " without " in error.message:
            return False
        raise
    return True


@given(SCHEMAS, st.lists(VALUES, min_size=1, max_size=8))
def test_a_value_fits_as_jsonschema_has_it(schema: dict[str, Any], values: list[Any]) -> None:
    judge = jsonschema.Draft202012Validator(schema)
    for value in values:
        found = list(problems({"f": value}, schema))
        assert (not found) == judge.is_valid({"f": value}), (value, found)


def _narrower(schema: Any, draw: st.DrawFn) -> Any:
    """The schema with a word more, less or other, somewhere in it."""
    if not isinstance(schema, dict) or draw(st.integers(0, 2)) == 0:
        other = draw(_words(st.booleans()))
        return {**schema, **other} if isinstance(schema, dict) else other
    word = draw(st.sampled_from(sorted(schema))) if schema else "type"
    found = schema.get(word)
    if draw(st.integers(0, 4)) == 0:
        return {name: value for name, value in schema.items() if name != word}
    if isinstance(found, dict) and word in ("properties", "patternProperties", "dependentSchemas"):
        if not found:
            return schema
        name = draw(st.sampled_from(sorted(found)))
        return {**schema, word: {**found, name: _narrower(found[name], draw)}}
    if isinstance(found, list) and word in ("allOf", "anyOf", "oneOf", "prefixItems"):
        number = draw(st.integers(0, len(found) - 1))
        return {**schema, word: [*found[:number], _narrower(found[number], draw), *found[number + 1 :]]}
    if isinstance(found, dict) and word not in ("dependentRequired",):
        return {**schema, word: _narrower(found, draw)}
    return schema


@st.composite
def _versions(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    old = draw(SCHEMAS)
    if draw(st.booleans()):
        return old, draw(SCHEMAS)
    new = dict(old)
    for _ in range(draw(st.integers(1, 2))):
        if draw(st.integers(0, 3)):
            new["properties"] = {"f": _narrower(new["properties"]["f"], draw)}
        else:
            new["$defs"] = {"P": _narrower(new["$defs"]["P"], draw)}
    assume(_ends(new))
    return old, new


@given(_versions(), st.lists(VALUES, min_size=4, max_size=12))
def test_a_version_that_takes_less_breaks(
    versions: tuple[dict[str, Any], dict[str, Any]], values: list[Any]
) -> None:
    old, new = versions
    if breaking_changes(old, new):
        return
    before, after = (jsonschema.Draft202012Validator(each) for each in versions)
    for value in (*SCALARS, [], {}, *values):
        assert not before.is_valid({"f": value}) or after.is_valid({"f": value}), value


@given(SCHEMAS.filter(lambda schema: "oneOf" not in str(schema)))
def test_a_version_does_not_break_itself(schema: dict[str, Any]) -> None:
    again = {**schema, "$defs": dict(schema["$defs"])}
    assert breaking_changes(schema, again) == []
