"""Defects of ours in bodies, classes and filters on lists that attackers found."""

from __future__ import annotations

from tests.mutation._suites import Defect

NESTED = ("tests/unit/model/test_nested_classes.py",)
ELEMENTS = ("tests/unit/matching/columnar/test_elements.py",)

BODIES = (
    # each element satisfies one of two ALL, but not all of them the same one
    Defect("matching/columnar/elements.py",
        "        number = filed[entry.first] if entry.is_for_every else 0\n",
        "        number = 0\n", by=ELEMENTS),
    # models inside dataclasses and Structs, and roots, are dead letters
    Defect("model/fields.py",
        "    if isinstance(plain, type) and is_model(plain):",
        "    if False:",
        by=NESTED),
    Defect("model/body.py",
        "    if fields is not None and is_root_model(type(value)):",
        "    if False:",
        by=NESTED),
    Defect("model/fields.py",
        "fields[\"root\"] if is_root_model(cls) and \"root\" in fields else fields",
        "fields",
        by=NESTED),
    # TypedDicts of typing_extensions are none
    Defect("model/fields.py",
        "    return is_typeddict(cls) or (\n",
        "    return is_typeddict(cls) or False and (\n",
        by=NESTED),
    # infinities in lists do not read back
    Defect("cli/events.py",
        "    if isinstance(value, list):\n        return [_restored",
        "    if False:\n        return [_restored",
        by=("tests/unit/cli/test_filter.py",)),
)  # fmt: skip
