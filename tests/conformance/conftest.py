"""Every conformance test runs in every house."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conformance._houses import HOUSES, House, close_keepers, entered


@pytest.fixture(scope="session")
def broker_processes() -> Iterator[None]:
    """Processes that keep brokers: started when a test first needs them, ended with the session."""
    yield
    close_keepers()


@pytest.fixture(params=list(HOUSES))
def house(request: pytest.FixtureRequest, tmp_path: Path, broker_processes: None) -> Iterator[House]:
    with entered(request.param, tmp_path) as house:
        yield house
