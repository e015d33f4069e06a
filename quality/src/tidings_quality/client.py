"""Client of an organisation's service, for users and the quality factory. Blocking, so that Spark can use it.

with OrganisationClient("http://127.0.0.1:8801") as inps:
    inps.subscribe("ON Enterprise/Holder WHERE name.accuracy <= medium", user="anna", name="names")
    for number, event in inps.listen("anna.names"):
        ...
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
import msgspec

from tidings.errors import InputError, RefusedError, UnreachableError
from tidings.model.decoding import UNREADABLE
from tidings.model.event import Event
from tidings_quality.model import QualityChange
from tidings_quality.schema import Schema, read_schema
from tidings_quality.state import unpacked

POLL_SECONDS = 20.0


def local_token() -> str:
    """Token of an organisation's users, from the environment: never from arguments, which others can see."""
    file = os.environ.get("TIDINGS_QUALITY_TOKEN_FILE")
    if "TIDINGS_QUALITY_TOKEN" not in os.environ and file:
        return Path(file).read_text(encoding="utf-8").partition("\n")[0]
    return os.environ.get("TIDINGS_QUALITY_TOKEN", "")


class OrganisationClient:
    """One organisation's service; `token` is what its users show."""

    def __init__(self, url: str, *, token: str = "", timeout: float = 30.0, verify: Any = True) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._url = url
        secure = url.startswith("https")  # without TLS there is no certificate to verify or to load
        self._http = httpx.Client(
            base_url=url, headers=headers, timeout=timeout, verify=verify if secure else False
        )

    def __enter__(self) -> OrganisationClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def publish(self, changes: Sequence[QualityChange]) -> int:
        """Tell of changes in the organisation's own data; how many were new. May be repeated freely."""
        return int(self._request("POST", "/changes", list(changes))["new"])

    def subscribe(
        self,
        wanted: Any,
        *,
        user: str,
        name: str,
        dispatcher: str = "inbox",
        target: str = "",
        wait: float = 5.0,
    ) -> dict[str, Any]:
        """Subscribe, or go on with the subscription of that name. `pending`: producers that do not know yet;
        `refused`: those that will tell no change, and why."""
        requested = {
            "subscription": wanted,
            "user": user,
            "name": name,
            "dispatcher": dispatcher,
            "target": target,
        }
        found: dict[str, Any] = self._request("POST", "/subscriptions", requested, wait=wait)
        return found

    def unsubscribe(self, id: str) -> None:
        self._request("DELETE", f"/subscriptions/{id}")

    def notifications(
        self, id: str, *, after: int = 0, limit: int = 100, wait: float = 0.0
    ) -> list[tuple[int, Event]]:
        """Waiting notifications of a subscription, with their numbers.

        They wait on until they are acknowledged.
        """
        found = self._request(
            "GET", f"/subscriptions/{id}/notifications", after=after, limit=limit, wait=wait
        )
        return [
            (one["number"], unpacked(msgspec.json.encode(one["event"]))) for one in found["notifications"]
        ]

    def acknowledge(self, id: str, upto: int) -> None:
        self._request("POST", f"/subscriptions/{id}/ack", {"upto": upto})

    def listen(self, id: str, *, after: int = 0) -> Iterator[tuple[int, Event]]:
        """Every notification from now on; one is acknowledged when the next is asked for."""
        while True:
            for number, event in self.notifications(id, after=after, wait=POLL_SECONDS):
                yield number, event
                self.acknowledge(id, number)
                after = number

    def tables(self) -> dict[str, Any]:
        found: dict[str, Any] = self._request("GET", "/tables")
        return found

    def schema(self) -> Schema:
        return read_schema(msgspec.json.encode(self._request("GET", "/schema")))

    def _request(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        content = None if body is None else msgspec.json.encode(body)
        try:
            answer = self._http.request(method, path, content=content, params=query or None)
        except httpx.HTTPError as error:
            raise UnreachableError(
                f"no organisation answers at {self._url}: {error}",
                hint="is its `tidings quality serve` running?",
            ) from None
        if answer.is_success:
            return msgspec.json.decode(answer.content) if answer.content else None
        raise _error(answer)


def _error(answer: httpx.Response) -> Exception:
    try:
        stated = msgspec.json.decode(answer.content)
        detail, hint = str(stated["detail"]), stated.get("hint")
    except (*UNREADABLE, KeyError, TypeError):
        detail, hint = f"the service answers {answer.status_code}", None
    if answer.status_code in (401, 403):
        return RefusedError(detail, hint=hint)
    if answer.status_code < 500:
        return InputError(detail, hint=hint)
    return UnreachableError(detail, hint=hint)
