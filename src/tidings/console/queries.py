"""Requests of pages beside the live stream: subscriptions, filters, the path of an event, and why not.

Each question is put to the brokers in the visitor's name (`BrokerNetwork`, `HttpSessions`), so each visitor
sees only permitted data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from tidings.console import filters
from tidings.console.acts import ConsoleActs
from tidings.console.bodies import read_object, text_of
from tidings.console.reports import Reports
from tidings.console.sessions import Visitor
from tidings.console.verdict import Verdicts
from tidings.console.watch import NetworkWatches
from tidings.errors import InputError, RefusedError
from tidings.gateway.http import where_of
from tidings.gateway.http_sessions import HttpSessions
from tidings.gateway.trials import FilterTrials
from tidings.language import parse_filter
from tidings.matching.explain import Explanation, explain_briefly
from tidings.model.event import FOREVER, Event, make_event
from tidings.model.textual import json_ready
from tidings.runtime.delivery_verdict import explain_elsewhere, why
from tidings.runtime.service import Service

MOST_SUBSCRIPTIONS = 1_000  # of each broker in one answer: those for which most waits
MOST_ENTRIES = 200  # of the log in one answer
MOST_RETAINED = 500  # retained messages in one answer
SCANNED_AT_ONCE = 1_000  # entries of the log in one page of a scan
SCANNED_AT_MOST = 20_000  # entries that one answer looks at; the next one goes on
OPTIONS = ("topic", "type", "id", "key")

Ask = Callable[[Request, Visitor], Awaitable[Response]]


class ConsoleQueries:
    def __init__(self, service: Service, watches: NetworkWatches) -> None:
        self._server = service.server
        self._guard = service.secured.guard
        self._trials = FilterTrials(self._guard, service.server.reading.fairness)
        self._watches = watches
        self._http_sessions = HttpSessions(service.server)
        self._reports = Reports(service.settings.console)
        self._verdicts = Verdicts(service, watches)
        self._acting = ConsoleActs(service, watches)

    def routes(self) -> list[tuple[str, str, Ask]]:
        return [
            ("GET", "/api/subscriptions", self._observed(self.subscriptions)),
            ("POST", "/api/filter", self.filter),
            ("GET", "/api/words", self._observed(self.words)),
            ("POST", "/api/explain", self.explain),
            ("POST", "/api/publish", self.publish),
            ("GET", "/api/trace", self._observed(self.trace)),
            ("GET", "/api/log", self.log),
            ("GET", "/api/retained", self.retained),
            ("GET", "/api/admin", self._acting.look),
            ("POST", "/api/admin", self._acting.act),
            ("GET", "/api/past", self._observed(self._acting.past, whole=True)),
            ("GET", "/api/verdict", self._observed(self._verdicts.answer, whole=True)),
            ("GET", "/api/flows", self._observed(self._reports.flows, whole=True)),
            ("GET", "/api/studies", self._observed(self._reports.studies, whole=True)),
            ("GET", "/api/pictures/{name:path}", self._observed(self._reports.picture, whole=True)),
            ("GET", "/api/quality", self._observed(self._reports.quality, whole=True)),
        ]

    async def close(self) -> None:
        await self._http_sessions.close()

    def _observed(self, ask: Ask, *, whole: bool = False) -> Ask:
        """Requires the right to observe; with `whole`, the right to observe all: figures of all tenants."""

        async def asked(request: Request, visitor: Visitor) -> Response:
            self._guard.observe(visitor.principal, request.url.path)
            if whole and not self._guard.observes_all(visitor.principal):
                raise RefusedError(
                    f"{request.url.path} shows what is everybody's",
                    hint="a rule for observe without a filter has to allow it",
                )
            return await ask(request, visitor)

        return asked

    # -- subscriptions ----------------------------------------------------------------------------

    async def subscriptions(self, request: Request, visitor: Visitor) -> Response:
        about: dict[str, Any] = {"limit": MOST_SUBSCRIPTIONS}
        if text := request.query_params.get("search"):
            about["search"] = text
        watch = await self._watches.of(visitor)
        await self._know_brokers(visitor)
        answers = await watch.network.ask("subscriptions", lambda name: about)
        paces = watch.paces()
        rows = [
            row
            | {
                "broker": name,
                "rate": watch.delivery_rates.get(row["subscription"], 0.0),
                "pace": paces.get(row["subscription"], 0.0),
            }
            for name, one in answers.items()
            for row in one.get("value", ())
        ]
        for row in rows:
            row["lag"] = sum(map(_lag, row.pop("logs").values()))
        problems = {name: one["problem"] for name, one in answers.items() if "problem" in one}
        return _json({"subscriptions": rows, "problems": problems, "most": MOST_SUBSCRIPTIONS})

    async def _know_brokers(self, visitor: Visitor) -> None:
        """For a visitor without an open live stream: find the brokers first."""
        watch = await self._watches.of(visitor)
        await watch.find_brokers()

    # -- filters ----------------------------------------------------------------------------------

    async def filter(self, request: Request, visitor: Visitor) -> Response:
        self._trials.authorize(visitor.principal, "filter")
        fields = await read_object(request)

        def work() -> dict[str, Any]:
            return filters.checked(text_of(fields, "filter"), text_of(fields, "dialect", "tidings"))

        return _encoded(await self._trials.answer(visitor.principal, where_of(request).peer, work))

    async def words(self, request: Request, visitor: Visitor) -> Response:
        del request
        watch = await self._watches.of(visitor)
        await self._know_brokers(visitor)
        answers = await watch.network.ask("subscriptions", lambda name: {"limit": 200})
        texts = {row["filter"] for one in answers.values() for row in one.get("value", ())}
        names: Counter[str] = Counter(watch.attributes)
        for text in texts:
            names.update(filters.names_in(text))
        return _json(filters.words(names, watch.topics, ()))

    async def explain(self, request: Request, visitor: Visitor) -> Response:
        self._trials.authorize(visitor.principal, "explain")
        fields = await read_object(request)

        def work() -> Explanation:
            attributes = fields.get("attributes")
            if not isinstance(attributes, dict):
                raise InputError("`attributes` is an object")
            filter = parse_filter(text_of(fields, "filter"), dialect=text_of(fields, "dialect", "tidings"))
            event = make_event(attributes, source="you", id="1", **_options(fields))
            return explain_briefly(event, filter)

        return _encoded(await self._trials.answer(visitor.principal, where_of(request).peer, work))

    # -- events -----------------------------------------------------------------------------------

    async def publish(self, request: Request, visitor: Visitor) -> Response:
        fields = await read_object(request)
        attributes = fields.get("attributes")
        if not isinstance(attributes, dict):
            raise InputError("`attributes` is an object", hint='{"change": -4.5}')
        async with self._http_sessions.of(visitor.principal, where_of(request).peer) as session:
            receipt = await session.bus.publish(attributes, **_options(fields), lifetime=_lifetime(fields))
        return _json({"id": receipt.id, "source": receipt.source, "position": receipt.position})

    async def trace(self, request: Request, visitor: Visitor) -> Response:
        query = request.query_params
        about = {name: query.get(name) for name in ("id", "source", "subscription") if query.get(name)}
        if "id" not in about:
            raise InputError("a trace needs the id of an event", hint="?id=…")
        watch = await self._watches.of(visitor)
        found = list((await watch.network.walk("trace", about)).values())
        for one in found:
            one.setdefault("steps", [])
        explain_elsewhere(found)
        wanted = about.get("subscription")
        return _json({"id": about["id"], "brokers": found, "verdict": why(found, wanted) if wanted else None})

    async def log(self, request: Request, visitor: Visitor) -> Response:
        """The newest of the events that are still available at this broker, by a filter."""
        text = request.query_params.get("filter") or None
        async with self._http_sessions.of(visitor.principal, where_of(request).peer) as session:
            first = await session.bus.read_log(text, after=0, limit=1)
            after = max(first.begin - 1, first.end - MOST_ENTRIES, 0)
            page = await session.bus.read_log(text, after=after, limit=MOST_ENTRIES)
        entries = [
            {"offset": one.offset, "accepted": one.accepted, "event": _shown(one.event)}
            for one in reversed(page.entries)
        ]
        return _json({"log": page.log, "begin": page.begin, "end": page.end, "entries": entries})

    async def retained(self, request: Request, visitor: Visitor) -> Response:
        """Retained messages of this broker's log: events that a newer one of the same key supersedes. The
        answer ends at `upto`; `?after=` goes on from there."""
        after = _offset(request.query_params.get("after", "0"))
        text = request.query_params.get("filter") or None
        rows: list[dict[str, Any]] = []
        async with self._http_sessions.of(visitor.principal, where_of(request).peer) as session:
            last = after + SCANNED_AT_MOST
            while True:
                page = await session.bus.read_log(text, after=after, limit=SCANNED_AT_ONCE)
                last = max(last, page.begin + SCANNED_AT_MOST)
                rows += [
                    {"offset": one.offset, "accepted": one.accepted, "event": _shown(one.event),
                     "key": one.event.key, "bytes": len(one.event.payload or b"")}
                    for one in page.entries if one.event.key is not None
                ]  # fmt: skip
                is_stuck, after = page.upto <= after, max(after, page.upto)
                if is_stuck or after >= min(page.end, last) or len(rows) >= MOST_RETAINED:
                    break
        return _json({"log": page.log, "end": page.end, "upto": after, "rows": rows})


def _offset(text: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise InputError(f"`after` is {text!r}", hint="an offset of the log")
    return int(text)


def _lag(cursor: dict[str, Any]) -> int:
    """Backlog of a subscription in a log; a live one has none."""
    return 0 if cursor["phase"] == "live" else max(0, int(cursor["known"]) - int(cursor["at"]))


def _options(fields: dict[str, Any]) -> dict[str, Any]:
    given = {name: text_of(fields, name, most=1_000) for name in OPTIONS if fields.get(name)}
    return {name: value for name, value in given.items() if value}


def _lifetime(fields: dict[str, Any]) -> float:
    value = fields.get("lifetime", 0)
    if value == "forever":
        return FOREVER
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1e12:
        raise InputError(f"lifetime is {value!r}", hint="seconds, or forever")
    return float(value)


def _shown(event: Event) -> dict[str, Any]:
    lifetime = "forever" if event.lifetime == FOREVER else event.lifetime
    delivered = {"id": event.id, "source": event.source, "topic": event.topic, "type": event.type}
    return {**delivered, "attributes": json_ready(event.attributes), "lifetime": lifetime}


def _json(value: Any) -> Response:
    return _encoded(msgspec.json.encode(value, enc_hook=str))


def _encoded(body: bytes) -> Response:
    return Response(body, media_type="application/json")
