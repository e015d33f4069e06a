"""The Rating Service as a process of a third party: reports come in, trust goes out, over HTTP and JSON.

  GET  /trust      {"trust": {source: 0..1}, "standings": [{"source", "trust", "rank", ...}]}
  POST /reports    {"id", "observations": [{"source", "declared", "borne_out"}]} -> {"new": true|false}
  GET  /health     {"reports": number}

Rules
- A report that was acknowledged is on the disk (when there is a file), and is counted once.
- With a token, reports need it (`Authorization: Bearer ...`); trust needs none.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from tidings.errors import InputError, RefusedError, UnreachableError
from tidings.model.decoding import UNREADABLE
from tidings_quality.rating import Observation, RatingReport, Ratings

MOST_BYTES = 32 * 2**20  # of a report


def rating_app(ratings: Ratings, *, token: str = "") -> Any:
    """The service as an ASGI application."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    from tidings.gateway.problems import Problem, whole_body

    async def trust(request: Request) -> JSONResponse:
        del request  # open to all callers
        standings = [msgspec.to_builtins(each) for each in ratings.standings()]
        return JSONResponse({"trust": ratings.table(), "standings": standings})

    async def reports(request: Request) -> JSONResponse:
        shown = request.headers.get("authorization", "").removeprefix("Bearer ")
        if token and not hmac.compare_digest(shown.encode(), token.encode()):
            return JSONResponse({"error": "the token is missing or wrong"}, 401)
        try:
            report = msgspec.json.decode(await whole_body(request, MOST_BYTES), type=RatingReport)
            return JSONResponse({"new": ratings.report(report)})
        except Problem as problem:
            return JSONResponse({"error": str(problem)}, problem.status)
        except (*UNREADABLE, InputError) as error:
            return JSONResponse({"error": str(error)}, 400)

    async def health(request: Request) -> JSONResponse:
        del request
        return JSONResponse({"reports": ratings.reports})

    return Starlette(
        routes=[
            Route("/trust", trust),
            Route("/reports", reports, methods=["POST"]),
            Route("/health", health),
        ]
    )


async def serve_ratings(
    listen: str, file: Path | None = None, *, token: str = "", ready: Any = print
) -> None:
    """Serve until the task is cancelled; `ready` hears the address."""
    import asyncio

    from tidings.gateway.serving import Serving

    serving = Serving(rating_app(Ratings(file), token=token), listen)
    await serving.start()
    ready(serving.address)
    try:
        await asyncio.Event().wait()
    finally:
        await serving.close()


class RatingClient:
    """Interface of the service, as the broker uses it."""

    def __init__(self, url: str, *, token: str = "", timeout_seconds: float = 10.0) -> None:
        self._url, self._token, self._timeout = url.rstrip("/"), token, timeout_seconds

    def trust(self) -> dict[str, float]:
        found: dict[str, float] = self._call("GET", "/trust")["trust"]
        return found

    def standings(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._call("GET", "/trust")["standings"]
        return found

    def report(self, observations: Sequence[Observation], id: str | None = None) -> bool:
        """Tell what was observed; False when the service knew it. The same id may be sent again."""
        body = msgspec.json.encode(RatingReport(id or uuid4().hex, tuple(observations)))
        return bool(self._call("POST", "/reports", body)["new"])

    def _call(self, method: str, path: str, body: bytes | None = None) -> dict[str, Any]:
        import httpx

        headers = {"authorization": f"Bearer {self._token}"} if self._token else {}
        try:
            answer = httpx.request(
                method, self._url + path, content=body, headers=headers, timeout=self._timeout
            )
        except httpx.HTTPError as error:
            raise UnreachableError(
                f"the rating service at {self._url} does not answer: {error}",
                hint="tidings quality rate --serve HOST:PORT runs one",
            ) from None
        found: dict[str, Any] = answer.json() if "json" in answer.headers.get("content-type", "") else {}
        if answer.status_code >= 400:
            raise RefusedError(f"the rating service at {self._url}: {found.get('error', answer.status_code)}")
        return found
