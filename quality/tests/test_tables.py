"""Qualities as rows."""

from __future__ import annotations

import msgspec
import pytest

from tidings.errors import InputError
from tidings_quality.model import QUALITY_COLUMNS, DataObject
from tidings_quality.running_example import HOLDER, apt_a

from ._tables import QualityRow, rows_of, with_quality


def bare() -> DataObject:
    top = apt_a()
    children = tuple(msgspec.structs.replace(child, quality={}) for child in top.children)
    return msgspec.structs.replace(top, quality={}, children=children)


def test_vir5_2_one_row_for_each_object_property_and_dimension() -> None:
    rows = list(rows_of([apt_a()], source="INPS", version="1"))
    assert len(rows) == 2 * 4 + 2 * 2  # two properties with four dimensions, two holders with two values each
    assert len({row[:5] for row in rows}) == len(rows)
    assert rows[-1] == QualityRow(HOLDER, "INPS", "SCNMNC74S70G230T", "Name", "currency", 0.7, "1", None)
    assert len(QualityRow._fields) == len(QUALITY_COLUMNS)


def test_rows_give_objects_their_quality_back() -> None:
    rows = list(rows_of([apt_a()], source="INPS", version="1"))
    assert with_quality([bare()], rows) == (apt_a(),)


def test_two_values_for_one_quality_are_refused() -> None:
    rows = list(rows_of([apt_a()], source="INPS", version="1"))
    with pytest.raises(InputError, match="two values"):
        with_quality([apt_a()], [*rows, rows[0]._replace(source="CoC")])
