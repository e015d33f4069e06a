"""From codes on the wire to errors: each code gives the class that defines it."""

from __future__ import annotations

import pytest

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
