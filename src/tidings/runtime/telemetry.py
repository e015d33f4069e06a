"""OpenTelemetry's context, carried in events when the application uses that package.

A publish inside a span puts the span's `traceparent` (and `tracestate`) among the event's
attributes, as the CloudEvents extension for distributed tracing has it; `context_of` gives the
context back at the other end. An application that has not imported OpenTelemetry pays no cost.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from tidings.errors import MissingDependencyError
from tidings.model.event import Event

NAMES = ("traceparent", "tracestate")


def carried(attributes: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The attributes, with the context of the span that is open now; what was given wins."""
    if "opentelemetry" not in sys.modules:
        return attributes
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    context: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(context)
    return {**context, **(attributes or {})} if context else attributes


def context_of(event: Event) -> Any:
    """The OpenTelemetry context that an event carries, to make a span its child."""
    try:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
    except ImportError:
        raise MissingDependencyError(
            "this needs the package opentelemetry-api", hint="pip install opentelemetry-api"
        ) from None
    carrier = {name: str(event[name]) for name in NAMES if event.get(name) is not None}
    return TraceContextTextMapPropagator().extract(carrier)
