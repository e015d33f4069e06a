"""Defects of ours in schemas, serialisers and coverage by a union that an attacker found."""

from __future__ import annotations

from tests.mutation._suites import SCHEMAS, Defect

SCHEMA_DEFECTS = (
    # breaking changes inside alternatives are not found
    Defect("model/schema_changes.py", "            elif found and all(found):\n", "            elif False:\n",
        by=SCHEMAS),
    # nor those of `allOf`, nor beside alternatives
    Defect("model/schema_changes.py", "        for part in parts:\n            yield from self.breaks(",
        "        for part in ():\n            yield from self.breaks(", by=SCHEMAS),
    Defect("model/schema_changes.py", "        yield from self._own(views, new, depth)\n",
        "        if not groups:\n            yield from self._own(views, new, depth)\n", by=SCHEMAS),
    # a pair that breaks nothing because of one that breaks is remembered
    Defect("model/schema_changes.py",
        "                if not self._known[other]:\n", "                if False:\n",
        by=SCHEMAS),
    # a keyword that is not checked is attached; `oneOf` is `anyOf`; a reference hides what is beside it
    Defect("model/schema_keywords.py",
        "        elif not of_class and not (\n", "        elif False and not (\n",
        by=SCHEMAS),
    Defect("model/schema_checking.py", "            if count != 1:\n", "            if count < 1:\n",
        by=SCHEMAS),
    Defect("model/schema_keywords.py", "        if len(schema) > 1 and not CHECKED.isdisjoint(",
        "        if False and not CHECKED.isdisjoint(", by=SCHEMAS),
    # a witness is not tried: another filter accepts it
    Defect("algebra/gaps.py", "        if holding is None:\n", "        if True:\n",
        by=("tests/properties/test_algebra_subsumption.py",)),
    # a text is read as another kind, a field by another name
    Defect("model/serialisers.py", "    return type(given) is type(found) and bool(given == found)\n",
        "    return type(given) is str or bool(given == found)\n",
        by=("tests/unit/model/test_serialisers.py",)),
    Defect("model/serialisers.py", "            elif lacks and item is not None:", "            elif False:",
        by=("tests/unit/model/test_serialisers.py",)),
    # infinity is a decimal
    Defect("model/schema_bounds.py", "    if form == \"decimal\" and view", "    if False and view",
        by=SCHEMAS),
)  # fmt: skip
