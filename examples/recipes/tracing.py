"""OpenTelemetry: one trace from the publisher through the brokers to the handler.

`publish` carries the context of the open span (`traceparent`); `middleware.traced` opens the handler's span
in it.
"""

from __future__ import annotations

from typing import Any

from opentelemetry import trace
from opentelemetry.trace import SpanKind, Tracer

import tidings
from tidings import middleware


async def publish(bus: tidings.Bus, tracer: Tracer, what: Any, topic: str) -> tidings.Receipt:
    """Publish in a span of its own."""
    attributes = {"messaging.system": "tidings", "messaging.destination.name": topic}
    with tracer.start_as_current_span(
        f"publish {topic}", kind=SpanKind.PRODUCER, attributes=attributes
    ) as span:
        receipt = await bus.publish(what, topic=topic)
        span.set_attribute("messaging.message.id", receipt.id)
        return receipt


def consume(bus: tidings.Bus, tracer: Tracer, topic: str) -> list[str]:
    """A handler in the trace of each event; the list gets the ids of its traces."""
    seen: list[str] = []
    bus.use(middleware.traced(tracer))

    @bus.on(topic=topic)
    async def handle(event: tidings.Event) -> None:
        context = trace.get_current_span().get_span_context()
        with tracer.start_as_current_span("work"):
            seen.append(f"{context.trace_id:032x}")

    return seen
