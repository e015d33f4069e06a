"""Acts of operators in the console: lists of what others own, and what is done with it.

Each request goes to the brokers in the visitor's name as the inquiry `admin`: they ask for the right and
write the audit (`runtime/administration.py`). Nothing is decided here.
"""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from tidings.console.bodies import read_object, text_of
from tidings.console.sessions import Visitor
from tidings.console.watch import NetworkWatches
from tidings.errors import InputError
from tidings.runtime.service import Service

LOOKS = ("list", "letters", "pins", "inspect")
ACTS = ("end", "redeliver", "discard", "purge")
FIELDS = ("kind", "name", "filter", "numbers", "upto", "dry")
HOURS = 24.0
POINTS = 300  # rows of each broker's history in one answer


class ConsoleActs:
    def __init__(self, service: Service, watches: NetworkWatches) -> None:
        self._watches = watches
        self._guard = service.secured.guard

    async def look(self, request: Request, visitor: Visitor) -> Response:
        """A list of all brokers, or with `broker` of one."""
        query = dict(request.query_params)
        if query.get("do") not in LOOKS:
            raise InputError(f"nothing is shown by {query.get('do')!r}", hint=f"one of {', '.join(LOOKS)}")
        self._guard.administer(visitor.principal, str(query["do"]))
        about = {name: query[name] for name in ("do", "kind", "name") if query.get(name)}
        watch = await self._watches.of(visitor)
        await watch.find_brokers()
        if broker := query.get("broker"):
            return _json(await watch.network.one(broker, "admin", about))
        answers = await watch.network.ask("admin", lambda name: about)
        rows = [row | {"broker": name} for name, one in answers.items() for row in one.get("rows", ())]
        problems = {name: one["problem"] for name, one in answers.items() if "problem" in one}
        return _json({"rows": rows, "brokers": answers, "problems": problems})

    async def act(self, request: Request, visitor: Visitor) -> Response:
        """One act at one broker."""
        fields = await read_object(request)
        do = text_of(fields, "do")
        if do not in ACTS:
            raise InputError(f"no act is called {do!r}", hint=f"one of {', '.join(ACTS)}")
        watch = await self._watches.of(visitor)
        await watch.find_brokers()
        about: dict[str, Any] = {"do": do} | {name: fields[name] for name in FIELDS if name in fields}
        return _json(await watch.network.one(text_of(fields, "broker"), "admin", about))

    async def past(self, request: Request, visitor: Visitor) -> Response:
        """Figures of the last hours, by broker."""
        try:
            hours = float(request.query_params.get("hours", HOURS))
        except ValueError:
            hours = 0.0
        if not 0 < hours <= 24 * 365:
            raise InputError("`hours` is a number above 0")
        watch = await self._watches.of(visitor)
        about = {"seconds": 3600 * hours, "count": POINTS}
        answers = await watch.network.walk("past", about)
        rows = {name: one["rows"] for name, one in answers.items() if "rows" in one}
        problems = {name: one["problem"] for name, one in answers.items() if "problem" in one}
        return _json({"hours": hours, "brokers": rows, "problems": problems})


def _json(value: Any) -> Response:
    return Response(msgspec.json.encode(value, enc_hook=str), media_type="application/json")
