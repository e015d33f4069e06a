"""From codes on the wire to errors: each code gives the class that defines it."""

from __future__ import annotations

import asyncio
import traceback

import pytest

import tidings
from tidings import errors
from tidings.runtime import failures
from tidings.security.attempts import TooManyAttempts


def test_a_subclass_without_a_code_of_its_own_never_answers_for_its_code() -> None:
    """Which modules were imported first must not decide: `TooManyAttempts` takes seconds, not a reason."""
    assert issubclass(TooManyAttempts, errors.RefusedError)
    assert failures._by_code(errors.TidingsError)["refused"] is errors.RefusedError


@pytest.mark.parametrize("code", sorted(failures._ERRORS))
def test_every_code_makes_an_error_with_its_reason(code: str) -> None:
    error = failures.error_of(code, "because")
    assert (error.code, error.message) == (code, "because")


def test_an_error_of_connect_shows_no_frames_below_the_bus() -> None:
    async def play() -> None:
        async with tidings.connect(path="nosuch://store"):
            raise AssertionError("it opened")

    with pytest.raises(errors.SettingsError, match="no store has addresses nosuch://") as raised:
        asyncio.run(play())
    functions = [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert functions[functions.index("play") :] == ["play", "__aenter__", "open", "in_short"]
