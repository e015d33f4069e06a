"""Metrics of each batch of a flow: a JSON line each, and counters for Prometheus."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from tidings.errors import MissingDependencyError, SettingsError, install_command


class BatchMetrics(msgspec.Struct, kw_only=True):
    """One batch of one match."""

    flow: str
    match: str
    batch: int
    version: int  # of the subscriptions
    replayed: bool  # every sink had it already: a crash came between it and the checkpoint
    events: int
    matches: int  # pairs of an event and a subscription
    problems: int  # events that could not be read or matched
    seconds: float

    @property
    def events_per_second(self) -> float:
        return self.events / self.seconds if self.seconds > 0 else 0.0


BatchObserver = Callable[[BatchMetrics], None]


class JsonLinesMetrics:
    """Appends each batch to a file of JSON lines."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path

    def __call__(self, batch: BatchMetrics) -> None:
        line = {"time": round(time.time(), 3), **as_json(batch)}
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")


def as_json(batch: BatchMetrics) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(batch)
    found["seconds"] = round(batch.seconds, 6)
    found["events_per_second"] = round(batch.events_per_second, 1)
    return found


class PrometheusMetrics:
    """Counters by flow and match, served under `/metrics` on a port of this machine."""

    def __init__(self, port: int, *, address: str = "127.0.0.1") -> None:
        try:
            import prometheus_client as client
        except ImportError:
            raise MissingDependencyError(
                "metrics for Prometheus need prometheus-client", hint=install_command("tidings[server]")
            ) from None
        self.registry = client.CollectorRegistry()
        labels = ("flow", "match")

        def counter(name: str, says: str) -> Any:
            return client.Counter(f"tidings_flow_{name}", says, labels, registry=self.registry)

        self._batches = counter("batches", "Batches that were published.")
        self._events = counter("events", "Events that came.")
        self._matches = counter("matches", "Pairs of an event and a subscription.")
        self._problems = counter("problems", "Events that could not be read or matched.")
        self._seconds = client.Histogram(
            "tidings_flow_batch_seconds", "Seconds that a batch took.", labels, registry=self.registry
        )
        self._version = client.Gauge(
            "tidings_flow_subscriptions_version",
            "Version of the subscriptions.",
            labels,
            registry=self.registry,
        )
        try:
            self._server, self._thread = client.start_http_server(port, addr=address, registry=self.registry)
        except OSError as error:
            raise SettingsError(f"port {port} cannot be used: {error.strerror or error}") from None
        self.port = self._server.server_address[1]

    def __call__(self, batch: BatchMetrics) -> None:
        own = (batch.flow, batch.match)
        self._version.labels(*own).set(batch.version)
        if batch.replayed:
            return
        self._batches.labels(*own).inc()
        self._events.labels(*own).inc(batch.events)
        self._matches.labels(*own).inc(batch.matches)
        self._problems.labels(*own).inc(batch.problems)
        self._seconds.labels(*own).observe(batch.seconds)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
