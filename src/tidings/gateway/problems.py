"""Errors as HTTP says them: a status, and a JSON object that says what is wrong and what to do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from tidings.errors import InputError, TidingsError, UnknownOutcomeError
from tidings.model.decoding import MOST_JSON_TOKENS, UNREADABLE, is_crowded

TYPE = "application/problem+json"
BODY_SECONDS = 60.0  # for the whole body of a request
_BY_CODE = {
    "refused": HTTPStatus.FORBIDDEN,
    "unreachable": HTTPStatus.SERVICE_UNAVAILABLE,
    "unknown": HTTPStatus.SERVICE_UNAVAILABLE,
    "closed": HTTPStatus.SERVICE_UNAVAILABLE,
    "slow": HTTPStatus.TOO_MANY_REQUESTS,
    "full": HTTPStatus.INSUFFICIENT_STORAGE,
    "too large": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
}


class Problem(Exception):
    """Refuse a request with this status."""

    def __init__(
        self, status: HTTPStatus, detail: str, *, hint: str = "", headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.hint = hint
        self.headers = headers or {}


def status_of(error: TidingsError) -> HTTPStatus:
    default = HTTPStatus.BAD_REQUEST if isinstance(error, InputError) else HTTPStatus.INTERNAL_SERVER_ERROR
    return _BY_CODE.get(error.code, default)


def problem_document(error: TidingsError) -> dict[str, Any]:
    """The error as a JSON object."""
    fields = {"code": error.code, "detail": error.message}
    if isinstance(error, UnknownOutcomeError) and error.id:
        fields["id"] = error.id  # published again under it, it is the same event
    return fields | ({"hint": error.hint} if error.hint else {})


def response_of(error: TidingsError | Problem) -> Response:
    if isinstance(error, Problem):
        body = {"title": error.status.phrase, "status": int(error.status), "detail": error.detail}
        body |= {"hint": error.hint} if error.hint else {}
        return JSONResponse(body, int(error.status), headers=error.headers, media_type=TYPE)
    status = status_of(error)
    return JSONResponse(
        {"title": status.phrase, "status": int(status), **problem_document(error)},
        int(status),
        media_type=TYPE,
    )


async def unrouted(request: Request, error: Exception) -> Response:
    """Errors raised before any endpoint (no such path, no such method), in the same form as other
    problems."""
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    words = {
        HTTPStatus.NOT_FOUND: f"there is no {request.url.path}",
        HTTPStatus.METHOD_NOT_ALLOWED: f"{request.url.path} takes no {request.method}",
    }
    return response_of(Problem(status, words.get(status, error.detail), headers=dict(error.headers or {})))


Endpoint = Callable[[Request], Awaitable[Response]]


def answering(endpoint: Endpoint) -> Endpoint:
    """The endpoint, with its errors answered."""

    async def answer(request: Request) -> Response:
        try:
            _check_query(request)
            return await endpoint(request)
        except (TidingsError, Problem) as error:
            return response_of(error)

    answer.__name__ = getattr(endpoint, "__name__", "endpoint")
    return answer


def streaming(endpoint: Endpoint, allow: str = "GET") -> Endpoint:
    """The endpoint of a stream, for GET alone. Starlette routes HEAD to it too, and that would open the
    stream, take over its subscription and, with `ack=auto`, commit events that no client received."""

    async def answer(request: Request) -> Response:
        if request.method != "GET":
            words = f"{request.url.path} takes no {request.method}"
            raise Problem(HTTPStatus.METHOD_NOT_ALLOWED, words, headers={"Allow": allow})
        return await endpoint(request)

    return answering(answer)


def _check_query(request: Request) -> None:
    """Refuse what Starlette would replace by other characters, and a parameter that stands twice: of two
    values one would be passed over. Raises `InputError`."""
    try:
        unquote_to_bytes(request.scope["query_string"]).decode()
    except UnicodeDecodeError:
        raise InputError("the query is no UTF-8", hint="percent-encode the bytes of UTF-8") from None
    seen: set[str] = set()
    for name, _ in request.query_params.multi_items():
        if name in seen:
            raise InputError(f"the query has {name[:40]!r} more than once", hint="give each parameter once")
        seen.add(name)


async def whole_body(request: Request, most: int) -> bytes:
    """The body, of at most so many bytes and within `BODY_SECONDS`. Raises `Problem`."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        raise Problem(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"a body in the encoding {encoding[:40]!r} is not read",
            hint="send it without Content-Encoding",
            headers={"Accept-Encoding": "identity"},
        )
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body of more than {most} bytes")
                parts.append(part)
    except ClientDisconnect:
        raise Problem(HTTPStatus.BAD_REQUEST, "the client left before its body was whole") from None
    except TimeoutError:
        raise Problem(
            HTTPStatus.REQUEST_TIMEOUT, f"the body did not come within {BODY_SECONDS:g} s"
        ) from None
    return b"".join(parts)


def json_object(body: bytes) -> dict[str, Any]:
    """A body that is one JSON object. Raises `InputError`."""
    if is_crowded(body):
        raise InputError(f"the body has more than {MOST_JSON_TOKENS} names, values and signs")
    try:
        read = msgspec.json.decode(body)
    except UNREADABLE as error:
        raise InputError(f"the body is no JSON: {error}") from None
    if not isinstance(read, dict):
        raise InputError("the body is no JSON object")
    return read
