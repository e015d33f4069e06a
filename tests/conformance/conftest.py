"""Every conformance test runs in every house."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conformance._houses import HOUSES, House, entered


@pytest.fixture(params=list(HOUSES))
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    with entered(request.param, tmp_path) as house:
        yield house
