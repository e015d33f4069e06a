"""OpenTelemetry spans of a broker: one for each publish, forward and delivery of a traced event.

Rules
- Only events that carry a sampled `traceparent` make spans, as the CloudEvents extension for distributed
  tracing has it (`telemetry.py` puts it in). All spans of an event are children of its publisher's span, so a
  trace shows the brokers that it passed and the subscribers that it reached.
- Names and attributes are those of the messaging conventions of OpenTelemetry: `messaging.system` is
  `tidings`.
- The tap watches messages and changes nothing. Another event costs one look at its attributes.
- A publish whose acknowledgement does not come ends with its client's link; at most `OPEN_SPANS` are open.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidings.errors import MissingDependencyError, install_command
from tidings.model.event import Event
from tidings.protocol.messages import (
    BROKER_MESSAGES,
    CLIENT_MESSAGES,
    Deliver,
    DeliverAll,
    Message,
    Publish,
    Published,
    PublishedAll,
    Refused,
)
from tidings.runtime.telemetry import context_of

OPEN_SPANS = 10_000
TRACEPARENT = "traceparent"
SAMPLED = "1"  # the last sign of a sampled `traceparent`, whose flags are 01
_CLIENTS, _BROKERS = frozenset(CLIENT_MESSAGES), frozenset(BROKER_MESSAGES)  # of these others carry events


def exporting(broker: str) -> Any:
    """A provider that exports by OTLP over HTTP, where the OTEL_* variables say. Raises
    `MissingDependencyError`."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise MissingDependencyError(
            f"trace.spans needs {error.name}", hint=install_command("tidings[telemetry]")
        ) from None
    about = {"service.name": "tidings", "service.instance.id": broker}
    provider = TracerProvider(resource=Resource.create(about))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


class SpanTap:
    """Makes spans of the messages of one broker. `provider` makes tracers and exports them."""

    def __init__(self, provider: Any) -> None:
        from opentelemetry.trace import SpanKind

        self._provider, self._kinds = provider, SpanKind
        self._tracer = provider.get_tracer("tidings.broker")
        self._open: dict[str, dict[int, Any]] = {}  # by link and call: publishes that are not answered
        self._count = 0

    # -- watching ----------------------------------------------------------------------------------

    def came(self, peer: str, message: Message, now: float) -> None:
        if type(message) is Publish:
            if _is_traced(message.event) and self._count < OPEN_SPANS:
                self._open.setdefault(peer, {})[message.call] = self._span("receive", peer, message.event)
                self._count += 1
        elif type(message) not in _CLIENTS:
            self._passed("receive", peer, message)

    def came_all(self, peer: str, messages: list[Message], now: float) -> None:
        for message in messages:
            self.came(peer, message, now)

    def publishes_came(self, batches: list[tuple[str, list[Message]]], now: float) -> None:
        for peer, messages in batches:
            self.came_all(peer, messages, now)

    def went(self, peer: str, message: Message, now: float) -> None:
        kind = type(message)
        if kind is Deliver or kind is DeliverAll:
            self._passed("send", peer, message)
        elif kind is Published or kind is Refused:
            self._answered(peer, message.call)  # type: ignore[attr-defined]
        elif kind is PublishedAll:
            for call in range(message.call, message.call + message.count):  # type: ignore[attr-defined]
                self._answered(peer, call)
        elif kind not in _BROKERS:
            self._passed("send", peer, message)

    def gone(self, peer: str) -> None:
        for call in list(self._open.get(peer, ())):
            self._answered(peer, call)

    # -- spans -------------------------------------------------------------------------------------

    def _passed(self, operation: str, peer: str, message: Message) -> None:
        for event in _events_of(message):
            if _is_traced(event):
                self._span(operation, peer, event).end()

    def _span(self, operation: str, peer: str, event: Event) -> Any:
        kind = self._kinds.CONSUMER if operation == "receive" else self._kinds.PRODUCER
        return self._tracer.start_span(
            f"{operation} {event.topic or 'event'}",
            context=context_of(event),
            kind=kind,
            attributes={
                "messaging.system": "tidings",
                "messaging.operation.type": operation,
                "messaging.message.id": event.id,
                "messaging.destination.name": event.topic or "",
                "tidings.source": event.source,
                "tidings.peer": peer,
            },
        )

    def _answered(self, peer: str, call: int) -> None:
        calls = self._open.get(peer)
        span = None if calls is None else calls.pop(call, None)
        if span is not None:
            self._count -= 1
            span.end()
            if not calls:
                del self._open[peer]

    def close(self) -> None:
        """End what is open, and export the rest."""
        for peer in list(self._open):
            self.gone(peer)
        self._provider.shutdown()


def _is_traced(event: Event) -> bool:
    given = event.shared_attributes.get(TRACEPARENT)
    return isinstance(given, str) and given.endswith(SAMPLED)


def _events_of(message: Message) -> Iterator[Event]:
    """The events of a delivery, or of a message between brokers."""
    if isinstance(message, Deliver):
        yield message.event
    elif isinstance(message, DeliverAll):
        yield from message.events
    else:
        envelope = getattr(message, "envelope", None)
        for each in (*getattr(message, "envelopes", ()), *(() if envelope is None else (envelope,))):
            yield each.event
