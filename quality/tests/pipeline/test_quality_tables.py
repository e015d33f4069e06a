"""Qualities as a table of Spark, by way of Parquet."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tidings.errors import InputError
from tidings_quality.running_example import apt_a

from .._tables import from_frame, rows_of, to_frame, with_quality

pytestmark = pytest.mark.spark


def test_vir5_2_objects_keep_their_quality_through_a_table(spark: Any, tmp_path: Path) -> None:
    moment = datetime(2026, 11, 15, 12, tzinfo=UTC)
    rows = rows_of([apt_a()], source="INPS", version="7", time=moment)
    to_frame(spark, rows).coalesce(1).write.parquet(str(tmp_path / "quality"))
    read = spark.read.parquet(str(tmp_path / "quality"))
    assert with_quality([apt_a()], from_frame(read)) == (apt_a(),)
    with pytest.raises(InputError, match="no column 'version'"):
        next(from_frame(read.drop("version")))
