"""structlog: each call of a handler is one entry, and entries of the handler itself carry the event's
identity."""

from __future__ import annotations

from typing import Any

import structlog

import tidings
from tidings import HandlerCall, middleware

log = structlog.get_logger()


async def bound(call: HandlerCall, call_next: middleware.CallNext) -> Any:
    """Bind the identity of the event to every entry that is written during the call."""
    with structlog.contextvars.bound_contextvars(event_id=call.event.id, source=call.event.source):
        return await call_next(call)


def watch(bus: tidings.Bus) -> None:
    bus.use(bound, middleware.logged(log))

    @bus.on("change < -3")
    async def fall(event: tidings.Event) -> None:
        log.info("fall", stock=event["StockName"])
