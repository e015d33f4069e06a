"""The one sentence on why a subscription did not receive an event, from the answers of several brokers."""

from __future__ import annotations

from typing import Any

import pytest

from tidings.runtime.delivery_verdict import why


def answers(
    *, reach: float | None, steps: list[dict[str, Any]], events: int | None = 3
) -> list[dict[str, Any]]:
    """b1 saw the event, and b2 holds the subscription."""
    b1 = {"broker": "b1", "steps": steps, "links": {"b2": {}}, "wanted": {"links": {"b2": True}}}
    held = {"is_here": True, "accepts": True, "why": "not seen"}
    b2 = {"broker": "b2", "steps": [], "subscription": held, "links": {"b1": {}}}
    return [b1, b2 | {"ring": {"events": events, "seconds": reach}}]


PUBLISHED = {"what": "published", "peer": "p", "ago": 300.0}
SENT = {"what": "sent", "peer": "b2", "ago": 290.0}


@pytest.mark.parametrize("reach", [47.0, None])
@pytest.mark.parametrize("steps", [[PUBLISHED], [PUBLISHED, SENT]])
def test_a_broker_that_restarted_no_longer_remembers(
    reach: float | None, steps: list[dict[str, Any]]
) -> None:
    """Found by a user: `it never came`, about an event that its subscriber had received."""
    found = why(answers(reach=reach, steps=steps), "ann/live")
    assert found.startswith("b2 no longer remembers: ")
    assert "never came" not in found


def test_a_broker_whose_memory_goes_back_that_far_did_not_get_it() -> None:
    found = why(answers(reach=400.0, steps=[PUBLISHED]), "ann/live")
    assert found.startswith("it never came to b2, which holds ann/live: b1 did not send it to b2;")


def test_of_a_memory_that_may_not_be_seen_nothing_is_concluded() -> None:
    assert why(answers(reach=None, events=None, steps=[PUBLISHED]), "ann/live").startswith("it never came")
