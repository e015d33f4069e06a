"""Tables of other libraries that are handed to Spark by mistake get a hint."""

from __future__ import annotations

from typing import Any

import pytest

from tidings.errors import InputError
from tidings.pipeline.matching import match
from tidings.pipeline.tables import Table, spark_frame


class FromPandas:
    """A class that says it is pandas'; the package itself is not needed to be named."""


FromPandas.__module__ = "pandas.core.frame"
FromPandas.__name__ = "DataFrame"


def test_a_pandas_frame_gets_the_way_to_spark(tmp_path: Any) -> None:
    for call in (
        lambda: match(FromPandas(), "subscriptions"),
        lambda: spark_frame(FromPandas(), "events"),
        lambda: Table(tmp_path).publish(FromPandas()),
    ):
        with pytest.raises(InputError, match=r"cannot be a pandas DataFrame \(spark.createDataFrame"):
            call()


def test_anything_else_is_named() -> None:
    with pytest.raises(InputError, match=r"events cannot be a list .*createDataFrame"):
        match([{"price": 1}], "subscriptions")
