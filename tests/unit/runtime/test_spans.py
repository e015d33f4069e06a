"""Spans of a broker: children of the publisher's span, for traced events alone."""

from __future__ import annotations

import asyncio

import pytest

import tidings
from tidings.runtime import service as services
from tidings.runtime.service import Service
from tidings.runtime.settings import read_settings

sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="opentelemetry-sdk is not installed")
TRACE, SPAN = 0xABC, 0xDEF
SAMPLED = f"00-{TRACE:032x}-{SPAN:016x}-01"


def test_a_traced_event_leaves_spans_at_each_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    kept: dict[str, InMemorySpanExporter] = {}

    def exporting(broker: str) -> sdk.TracerProvider:
        provider, kept[broker] = sdk.TracerProvider(), InMemorySpanExporter()
        provider.add_span_processor(SimpleSpanProcessor(kept[broker]))
        return provider

    monkeypatch.setattr(services, "exporting", exporting)

    def settings(name: str, *join: str) -> Service:
        fields = {"name": name, "listen": "127.0.0.1:0", "security.anonymous": True, "trace.spans": True}
        return Service(read_settings(fields={**fields, "join": list(join)}))

    async def story() -> None:
        async with (
            asyncio.timeout(120),
            settings("b1") as one,
            settings("b2", one.server.address) as two,
            tidings.connect(one.server.address, name="p") as publisher,
            tidings.connect(two.server.address, name="s") as subscriber,
            subscriber.subscribe("n > 0") as news,
        ):
            await publisher.publish({"n": 1})
            await publisher.publish({"n": 2, "traceparent": SAMPLED[:-1] + "0"})
            await publisher.publish({"n": 3, "traceparent": SAMPLED}, topic="quotes", id="e3")
            while (await news.get(timeout=60))["n"] != 3:
                pass

    asyncio.run(story())
    shown = {
        broker: sorted(span.name for span in exporter.get_finished_spans())
        for broker, exporter in kept.items()
    }
    assert shown == {name: ["receive quotes", "send quotes"] for name in ("b1", "b2")}
    for exporter in kept.values():
        for span in exporter.get_finished_spans():
            assert (span.context.trace_id, span.parent.span_id) == (TRACE, SPAN)
            assert span.attributes["messaging.message.id"] == "e3"
