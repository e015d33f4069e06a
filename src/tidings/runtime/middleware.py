"""Middleware: coroutine functions around the call of a handler.

    async def timed(call: HandlerCall, call_next: CallNext) -> Any:
        began = perf_counter()
        try:
            return await call_next(call)
        finally:
            histogram.record(perf_counter() - began)

    bus.use(timed)

The first one that was added is the outermost. It may change the value that the handler gets
(`call.value`), end the call by raising, or return another result. Each attempt of a retry passes through
all of them.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from time import perf_counter
from typing import Any

import msgspec

from tidings.errors import MissingDependencyError, Reject, SettingsError, TidingsError, install_command
from tidings.model.event import Event
from tidings.model.typed import build_instance, lineage_of


class HandlerCall:
    """One call of a handler: the events, the value that the handler gets, and the attempt."""

    __slots__ = ("attempt", "events", "handler", "positions", "value")

    def __init__(
        self,
        handler: str,
        events: list[Event],
        value: Any,
        attempt: int,
        positions: dict[str, int] | None = None,
    ) -> None:
        self.handler = handler  # its name
        self.events = events  # one, or those of a batch
        self.value = value  # the event, an instance of the class subscribed to, or a list of these
        self.attempt = attempt  # 1 for the first
        self.positions = positions  # for `since=`, these events included; None with `concurrency` above 1

    @property
    def event(self) -> Event:
        """The event, of a batch its first."""
        return self.events[0]

    def __repr__(self) -> str:
        what = self.event if len(self.events) == 1 else f"{len(self.events)} events from {self.event}"
        return f"<attempt {self.attempt} of {self.handler} with {what}>"


running_call: ContextVar[HandlerCall] = ContextVar("running_call")


def current_call() -> HandlerCall:
    """The call that runs, inside a handler: its events, its attempt, and the `positions` to store together
    with its effects."""
    try:
        return running_call.get()
    except LookupError:
        raise SettingsError("no handler is being called", hint="call it inside a handler") from None


def instance_of(kind: type[Any], event: Event) -> Any:
    """The event as an instance of a class; an event without a type is read as this class."""
    return build_instance(
        kind, event if event.type else msgspec.structs.replace(event, type=lineage_of(kind))
    )


CallNext = Callable[[HandlerCall], Awaitable[Any]]
Middleware = Callable[[HandlerCall, CallNext], Awaitable[Any]]


def logged(logger: Any = None, *, level: int = logging.INFO) -> Middleware:
    """Middleware that logs each call with its duration, and each failure as a warning. `logger`: one of
    `logging`, or of structlog; it gets the handler, the event's identity and the attempt as fields."""
    to = logging.getLogger("tidings.handlers") if logger is None else logger
    is_standard = isinstance(to, logging.Logger | logging.LoggerAdapter)

    def write(level: int, words: str, fields: dict[str, Any]) -> None:
        if is_standard:
            text = " ".join(f"{name}={value}" for name, value in fields.items())
            to.log(level, "%s: %s", words, text, extra={"tidings": fields})
        else:
            to.log(level, words, **fields)

    async def log(call: HandlerCall, call_next: CallNext) -> Any:
        event = call.event
        fields: dict[str, Any] = {
            "handler": call.handler, "source": event.source, "id": event.id, "topic": event.topic,
            "events": len(call.events), "attempt": call.attempt,
        }  # fmt: skip
        began = perf_counter()
        try:
            result = await call_next(call)
        except Exception as error:
            fields |= {
                "seconds": round(perf_counter() - began, 6),
                "error": f"{type(error).__name__}: {error}",
            }
            write(logging.WARNING, "handler failed", fields)
            raise
        write(level, "handled", fields | {"seconds": round(perf_counter() - began, 6)})
        return result

    return log


def traced(tracer: Any = None) -> Middleware:
    """Middleware that opens an OpenTelemetry span for each call, in the trace of the span in which the event
    was published. The other events of a batch are links."""
    try:
        from opentelemetry import trace
    except ImportError:
        raise MissingDependencyError(
            "traced needs the package opentelemetry-api", hint=install_command("tidings[telemetry]")
        ) from None
    from tidings.runtime.telemetry import context_of

    used = trace.get_tracer("tidings") if tracer is None else tracer

    async def span(call: HandlerCall, call_next: CallNext) -> Any:
        event = call.event
        attributes: dict[str, Any] = {
            "messaging.system": "tidings", "messaging.operation.type": "process", "messaging.message.id":
            event.id, "messaging.consumer.group.name": call.handler, "messaging.batch.message_count":
            len(call.events),
        }  # fmt: skip
        if event.topic is not None:
            attributes["messaging.destination.name"] = event.topic
        links = [
            trace.Link(trace.get_current_span(context_of(other)).get_span_context())
            for other in call.events[1:]
        ]
        with used.start_as_current_span(
            f"process {call.handler}", context=context_of(event), kind=trace.SpanKind.CONSUMER,
            attributes=attributes, links=links,
        ):  # fmt: skip
            return await call_next(call)

    return span


def validated(kind: type[Any]) -> Middleware:
    """Middleware that hands the handler instances of a class (a dataclass, a msgspec Struct, a Pydantic
    model). An event that does not fit is rejected: it becomes a dead letter without a retry."""

    def instance(event: Event) -> Any:
        try:
            return instance_of(kind, event)
        except TidingsError as error:
            raise Reject(f"not a {kind.__name__}: {error}") from error
        except (ValueError, TypeError) as error:
            raise Reject(f"not a {kind.__name__}: {error}") from error

    async def validate(call: HandlerCall, call_next: CallNext) -> Any:
        made = [instance(event) for event in call.events]
        call.value = made if isinstance(call.value, list) else made[0]
        return await call_next(call)

    return validate
