"""The HTTP gateway does what its OpenAPI document says, whatever is sent (schemathesis)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance
from tests.gateway.conftest import broker

# A schema cannot say what a filter or a topic is, so what it allows may be refused: that check is left out.
LISTEN = "/events"  # GET: a stream without an end, which no request can wait for


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A broker with its gateway, in a thread of its own."""
    ready, stop, found = threading.Event(), asyncio.Event(), []

    async def serve() -> None:
        async with broker(http="127.0.0.1:0", webhooks=("127.0.0.1",)) as service:
            assert service.gateways is not None
            found.append((asyncio.get_running_loop(), service.gateways.addresses["http"]))
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(60)
    loop, where = found[0]
    yield where
    loop.call_soon_threadsafe(stop.set)
    thread.join(30)


def checked(address: str, examples: int) -> None:
    schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
    tried = 0
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.method == "get" and operation.path == LISTEN:
            continue
        tried += 1

        @settings(
            max_examples=examples, deadline=None, database=None, derandomize=True,
            suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate],
        )  # fmt: skip
        def judge(case: schemathesis.Case) -> None:
            case.call_and_validate(timeout=120, excluded_checks=[positive_data_acceptance])

        given(case=operation.as_strategy())(judge)()
    assert tried >= 10


@pytest.mark.filterwarnings("ignore")
def test_every_answer_is_as_documented(address: str) -> None:
    checked(address, examples=8)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.filterwarnings("ignore")
def test_every_answer_is_as_documented_at_length(address: str) -> None:
    checked(address, examples=300)
