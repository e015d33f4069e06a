"""What a page sends: one JSON object, and not a large one."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec
from starlette.requests import Request

from tidings.errors import InputError
from tidings.gateway.problems import Problem

MOST_BYTES = 1 << 20


async def read_object(request: Request) -> dict[str, Any]:
    """The body. Raises `InputError` or `Problem`."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > MOST_BYTES:
            raise Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body of more than {MOST_BYTES} bytes")
        parts.append(part)
    try:
        read = msgspec.json.decode(b"".join(parts))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"the body is no JSON: {error}") from None
    if not isinstance(read, dict):
        raise InputError("the body is no JSON object")
    return read


def text_of(said: dict[str, Any], name: str, default: str = "", *, most: int = 100_000) -> str:
    value = said.get(name, default)
    if not isinstance(value, str) or len(value) > most:
        raise InputError(f"`{name}` is a text of at most {most} characters")
    return value
