"""From the codes that travel to the errors that users see, and words for unknown options."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from difflib import get_close_matches
from typing import TypeVar

from tidings import errors
from tidings.errors import SettingsError, TidingsError

T = TypeVar("T")


def _by_code(root: type[TidingsError]) -> dict[str, type[TidingsError]]:
    found = {root.code: root} if "code" in vars(root) else {}  # a subclass without its own code is no answer
    for error in root.__subclasses__():
        if error is not errors.FilterSyntaxError:  # it says where, which a code does not
            found |= _by_code(error)
    return found


_ERRORS = _by_code(TidingsError)


def error_of(code: str, reason: str, id: str = "") -> TidingsError:
    error = _ERRORS.get(code, errors.RefusedError)(reason)
    if isinstance(error, errors.UnknownOutcomeError):
        error.id = id
    return error


async def in_short(call: Awaitable[T]) -> T:
    """The result of a call inside the library. Its error leaves without the frames below: the message says
    what is wrong and what to do, and thirty lines of ours above it hide that. A cause keeps its frames."""
    try:
        return await call
    except TidingsError as raised:
        error = raised.with_traceback(None)
    raise error


def refuse_unknown(unknown: Iterable[str], known: Iterable[str], what: str) -> None:
    """An unknown option is an error that names the nearest one."""
    for name in unknown:
        near = get_close_matches(name, list(known), n=1)
        hint = f"did you mean {near[0]}=?" if near else f"there are: {', '.join(sorted(known))}"
        raise SettingsError(f"{what} has no option {name!r}", hint=hint)
