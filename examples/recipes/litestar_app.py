"""Litestar: the bus in the lifespan, as a dependency, and server-sent events.

litestar --app litestar_app:app run
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from litestar import Litestar, get, post
from litestar.datastructures import State
from litestar.di import NamedDependency, Provide
from litestar.params import FromQuery, JSONBody
from litestar.response import ServerSentEvent, ServerSentEventMessage

import tidings


@dataclass
class Order:
    number: int
    total: float


@asynccontextmanager
async def lifespan(app: Litestar) -> AsyncGenerator[None, None]:
    async with tidings.connect(os.environ.get("TIDINGS")) as bus:
        app.state.bus = bus
        yield


async def the_bus(state: State) -> tidings.Bus:
    found: tidings.Bus = state.bus
    return found


@post("/orders", status_code=202)
async def create(data: JSONBody[Order], bus: NamedDependency[tidings.Bus]) -> dict[str, str]:
    receipt = await bus.publish(data, topic="orders")
    return {"id": receipt.id}


@get("/orders/events")
async def events(bus: NamedDependency[tidings.Bus], where: FromQuery[str] = "number >= 0") -> ServerSentEvent:
    news = await bus.subscribe(where, topic="orders")

    async def stream() -> AsyncIterator[ServerSentEventMessage]:
        try:
            async for event in news:
                yield ServerSentEventMessage(id=event.id, data=json.dumps(dict(event.attributes)))
        finally:
            await news.close()

    return ServerSentEvent(stream())


app = Litestar([create, events], lifespan=[lifespan], dependencies={"bus": Provide(the_bus)})
