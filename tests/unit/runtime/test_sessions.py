"""Sessions by principal: which open, and which end together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tidings.errors import RefusedError
from tidings.runtime.sessions import PrincipalSessions


class Hours:
    """A clock that says what it was told."""

    def __init__(self) -> None:
        self.at = 100.0

    def now(self) -> float:
        return self.at


def principal(name: str, until: float | None = None) -> Any:
    return SimpleNamespace(name=name, proof=SimpleNamespace(until=until))


def test_a_proof_that_has_expired_opens_no_session() -> None:
    sessions = PrincipalSessions(None, Hours())  # type: ignore[arg-type]
    with pytest.raises(RefusedError, match="expired"):
        sessions.open(principal("late", until=100.0), lambda reason: None)
    assert len(sessions) == 0


def test_a_listener_that_fails_to_end_a_session_keeps_no_other_open() -> None:
    standing = {"one": 1, "two": 1}
    sessions = PrincipalSessions(lambda who: standing[who.name], Hours())  # type: ignore[arg-type]
    ended: list[str] = []

    def fails(reason: str) -> None:
        raise OSError("the socket is gone")

    sessions.open(principal("one"), fails)
    sessions.open(principal("two"), ended.append)
    standing.update(one=2, two=2)
    sessions.review()
    assert ended == ["the rights of this principal have changed"]
    assert len(sessions) == 0
