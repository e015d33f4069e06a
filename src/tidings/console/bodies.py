"""Request bodies of pages: one JSON object of bounded size."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from tidings.errors import InputError
from tidings.gateway.problems import json_object, whole_body

MOST_BYTES = 1 << 20


async def read_object(request: Request) -> dict[str, Any]:
    """The body. Raises `InputError` or `Problem`."""
    return json_object(await whole_body(request, MOST_BYTES))


def text_of(fields: dict[str, Any], name: str, default: str = "", *, most: int = 100_000) -> str:
    value = fields.get(name, default)
    if not isinstance(value, str) or len(value) > most:
        raise InputError(f"`{name}` is a text of at most {most} characters")
    return value
