"""Bounds, patterns and formats that the newer of two schemas has, and the older one had not, or wider."""

from __future__ import annotations

from collections.abc import Iterator

from tidings.model.schema_parts import BYTES, KIND_FORMS, Schema, form_of, is_multiple
from tidings.model.schema_views import SchemaView, values_of

_COUNTS = {
    "string": ("minLength", "maxLength"), "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}  # fmt: skip
_BESIDE = {
    "minimum": "exclusiveMinimum", "exclusiveMinimum": "minimum", "maximum": "exclusiveMaximum",
    "exclusiveMaximum": "maximum",
}  # fmt: skip
_LOWER, _UPPER = ("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")

Break = tuple[str, str]


def narrowed(view: SchemaView, new: Schema, was_by_kind: bool, by_kind: bool) -> Iterator[Break]:
    """The bounds of one value that an alternative of the old version may not keep."""
    if view.takes("number", "integer"):
        yield from _numbers(view, new)
    for kind, words in _COUNTS.items():
        for word in words if view.takes(kind) else ():
            if word in new and not _is_within(view, word, new[word]):
                yield "", f"has {word} {new[word]}, and had {_had(view, word)}"
    if view.takes("string"):
        if "pattern" in new and not view.has("pattern", new["pattern"]):
            yield "", f"has pattern {new['pattern']!r}, and had {_had(view, 'pattern')!r}"
        yield from _formats(view, new, was_by_kind, by_kind)
    form = form_of(new)
    if form == "decimal" and view.takes("number") and not _is_finite(view):
        yield "", "was any number, infinite ones and NaN too, and is decimal"


def _numbers(view: SchemaView, new: Schema) -> Iterator[Break]:
    for word in (*_LOWER, *_UPPER):
        if word in new and not _is_beyond(view, word, new[word]):
            yield "", f"has {word} {new[word]}, and had {_had(view, word)}"
    step = new.get("multipleOf")
    steps = [part["multipleOf"] for part in view.parts if "multipleOf" in part]
    if step is not None and not any(type(each) is type(step) and is_multiple(each, step) for each in steps):
        yield "", f"has multipleOf {step}, and had {steps[0] if steps else 'none'}"


def _is_beyond(view: SchemaView, word: str, bound: float) -> bool:
    """Does the old version keep this bound of numbers, by the same keyword or by its neighbour?"""
    sign = 1 if word in _LOWER else -1
    same, beside = view.strictest(word), view.strictest(_BESIDE[word])
    if same is not None and sign * same >= sign * bound:
        return True
    if beside is None:
        return False
    is_strict = word.startswith("exclusive")
    return bool(sign * beside > sign * bound or (not is_strict and beside == bound))


def _is_within(view: SchemaView, word: str, bound: int) -> bool:
    kept = view.strictest(word)
    if word.startswith("max"):
        return kept is not None and kept <= bound
    if word == "minProperties":
        kept = max(kept or 0, len(view.required))
    return bound == 0 or (kept is not None and kept >= bound)


def _is_finite(view: SchemaView) -> bool:
    """Does the old version refuse doubles that are not finite?"""
    bounds = [[view.strictest(word) for word in words] for words in (_LOWER, _UPPER)]
    return "decimal" in view.forms or all(any(each is not None for each in one) for one in bounds)


def _formats(view: SchemaView, new: Schema, was_by_kind: bool, by_kind: bool) -> Iterator[Break]:
    form, forms = form_of(new), view.forms
    had = forms[0] if forms else None
    if form is not None and form not in forms:
        yield "", f"was {had or 'any text'} and is {form}"
        return
    is_text = form is None and "string" in new.get("type", ()) and values_of(new) is None
    if by_kind and was_by_kind and is_text and any(map(_is_of_kind, forms)):
        yield "", f"was {had} and is any text"
    if by_kind and not was_by_kind and (is_text or (form is not None and _is_of_kind(form))):
        yield "", f"took the text of any value that JSON lacks, and takes {form or 'texts'} alone"
    if was_by_kind and not by_kind and BYTES in forms and not {"minLength", "maxLength"}.isdisjoint(new):
        yield "", "had bounds of bytes, and has bounds of their text"


def _is_of_kind(form: str) -> bool:
    return form in KIND_FORMS or form.startswith("uuid")


def _had(view: SchemaView, word: str) -> object:
    kept = view.strictest(word) if word != "pattern" else None
    if word == "pattern":
        kept = next((part["pattern"] for part in view.parts if "pattern" in part), None)
    return "none" if kept is None else kept


__all__ = ["narrowed"]
