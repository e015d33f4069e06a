"""Prometheus metrics of a broker, made from its figures at each scrape.

Hardly anything is counted for metrics alone, so they are nearly free until they are scraped, and a
scrape costs the same however many subscriptions there are. A figure that is
not in the table is shown as a gauge under its own name: a new counter is never invisible.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from tidings._version import __version__
from tidings.errors import MissingDependencyError, install_command
from tidings.runtime.histogram import BOUNDS

Figures = Mapping[str, Any]
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metric(NamedTuple):
    name: str
    help: str
    is_counter: bool = False


# By the name of the figure; each is counted by a `Histogram`.
HISTOGRAMS = {
    "seconds to acknowledge": Metric(
        "publish_duration_seconds",
        "From a publish's arrival to its acknowledgement, of one publish among those under way.",
    ),
    "seconds to deliver": Metric(
        "delivery_duration_seconds",
        "From an event's arrival to its leaving to a subscriber, as the trace shows it.",
    ),
}


PINS = "log pins"  # the figure with who pins the oldest offset of the log
PIN = Metric(
    "tidings_log_pin_offset", "First offset that a subscription or hold still needs; the ten lowest."
)

# By the name of the figure.
KNOWN = {
    "published": Metric("events_published", "Events that clients of this broker published.", True),
    "duplicate publishes": Metric("duplicate_publishes", "Publishes that this broker knew already.", True),
    "kept": Metric("events_persisted", "Events that went to the log.", True),
    "refused for room": Metric("publishes_refused_disk_full", "Publishes that a full disk refused.", True),
    "disk full": Metric("disk_full", "1 while the disk has no room: publishes that need it are refused."),
    "group full": Metric(
        "group_full", "1 while too few disks of the group have room: publishes to it are refused."
    ),
    "audit lost": Metric("audit_entries_lost", "Audit entries that could not be written or held.", True),
    "delivered": Metric("deliveries", "Notifications that were sent to clients.", True),
    "lost": Metric("deliveries_dropped", "Notifications that a policy or a bound dropped.", True),
    "filters over budget": Metric(
        "filters_over_budget", "Filters that were unknown for an event, since they cost too much.", True
    ),
    "filters failed": Metric(
        "filters_failed", "Evaluations of filters that failed by a defect, and counted as unknown.", True
    ),
    "subscriptions": Metric("subscriptions", "Subscriptions that this broker holds."),
    "waiting": Metric("deliveries_pending", "Notifications that wait for their subscribers."),
    "reading": Metric("subscriptions_replaying", "Subscriptions that read the log behind the live events."),
    "entries": Metric("log_entries", "Events in this broker's log."),
    "forgotten": Metric("log_entries_removed", "Events that left the log.", True),
    "dead letters": Metric("dead_letters", "Events that subscriptions gave up on."),
    "dead letters dropped": Metric("dead_letters_dropped", "Dead letters beyond their bound.", True),
    "messages too large": Metric("messages_too_large", "Messages that no frame holds; none was sent.", True),
    "offsets skipped": Metric(
        "offsets_skipped", "Events of an earlier life that the store, put back to an older copy, lacks.", True
    ),
    "offsets repeated": Metric(
        "offsets_repeated", "Events delivered before a neighbour knew others under their offsets.", True
    ),
    "group caught up": Metric("group_caught_up", "1: this member's disk holds all that its group committed."),
    "unknown messages": Metric("unknown_messages", "Messages of an unknown type.", True),
    "connections": Metric("client_connections", "Clients of Tidings' own protocol that are connected."),
    "gateway connections": Metric(
        "gateway_connections", "Connections of MQTT clients, HTTP streams and WebSockets."
    ),
    "local clients": Metric(
        "local_clients", "Clients that gateways have in the broker, with those of absent MQTT sessions."
    ),
    "connections handed over": Metric(
        "connections_handed_over", "Connections that went to another process of the unit.", True
    ),
    "connections taken over": Metric(
        "connections_taken_over", "Connections that came from another process of the unit.", True
    ),
    "handshakes": Metric("handshakes_pending", "Connections that have not proved yet who they are."),
    "faults": Metric("message_errors", "Messages that the node failed at.", True),
    "unlinked": Metric("neighbours_unlinked", "Neighbours of this broker that it has no link to."),
    "withheld": Metric("deliveries_withheld", "Deliveries that the rules did not allow.", True),
    "store bytes": Metric("store_size_bytes", "Bytes of the store's files on disk."),
    "store free bytes": Metric("store_free_bytes", "Bytes that events may still use on that disk."),
    "log oldest offset": Metric("log_oldest_offset", "The first offset that the log still holds."),
    "log next offset": Metric("log_next_offset", "The offset that the next event gets."),
    "log oldest accepted": Metric(
        "log_oldest_timestamp_seconds", "When the oldest event of the log was published, since 1970."
    ),
    "given up over quota": Metric(
        "given_up_over_quota", "Events that durable subscriptions gave up over their quota.", True
    ),
    "order given up": Metric("order_given_up", "Events delivered without waiting for an earlier one.", True),
    "backlog recounts": Metric("backlog_recounts", "Recounts of what durable subscriptions wait for.", True),
    "identities given up": Metric("identities_given_up", "Publish identities forgotten for room.", True),
    "events over links": Metric("events_over_links", "Events that came from other brokers.", True),
    "handshakes refused": Metric("handshakes_refused", "Connections that were not authenticated.", True),
    "handshakes too slow": Metric("handshakes_too_slow", "Handshakes that took too long.", True),
    "handshakes evicted": Metric("handshakes_evicted", "Handshakes ended for newer ones.", True),
    "connections evicted": Metric("connections_evicted", "Connections ended for newer ones.", True),
    "connections refused": Metric("connections_refused", "Connections beyond a bound.", True),
    "turns cut short": Metric("turns_cut_short", "Times that a principal had to wait for others.", True),
    "ready": Metric("ready", "1 while /readyz answers 200."),
    "sessions": Metric("sessions", "Sessions of principals, on all listeners."),
    "refused by rule": Metric("authorization_refusals", "Requests that rules or quotas refused.", True),
}


def exposition(figures: Callable[[], Figures], broker: str) -> Callable[[], bytes]:
    """A function that gives the whole page."""
    try:
        import prometheus_client as prometheus
        from prometheus_client import core
    except ImportError:
        raise MissingDependencyError(
            "metrics need the package prometheus-client", hint=install_command("tidings[server]")
        ) from None

    class Collector:
        def collect(self) -> Iterator[Any]:
            shown = figures()
            for name, metric in HISTOGRAMS.items():
                if name in shown:
                    buckets = list(zip((*map(str, BOUNDS), "+Inf"), shown[name]["buckets"], strict=True))
                    histogram = core.HistogramMetricFamily(
                        f"tidings_{metric.name}", metric.help, labels=["broker"]
                    )
                    histogram.add_metric([broker], buckets, shown[name]["seconds"])
                    yield histogram
            info = core.GaugeMetricFamily(
                "tidings_build_info", "1, with the version of this broker.", labels=["broker", "version"]
            )
            info.add_metric([broker, __version__], 1)
            yield info
            if PINS in shown:
                pins = core.GaugeMetricFamily(PIN.name, PIN.help, labels=["broker", "kind", "name"])
                for pin in shown[PINS]:
                    pins.add_metric([broker, pin["kind"], pin["name"]], pin["offset"])
                yield pins
            for metric, value in metrics_of(shown):
                kind = core.CounterMetricFamily if metric.is_counter else core.GaugeMetricFamily
                family = kind(f"tidings_{metric.name}", metric.help, labels=["broker"])
                family.add_metric([broker], value)
                yield family

    registry = prometheus.CollectorRegistry()
    registry.register(Collector())
    prometheus.ProcessCollector(registry=registry)
    prometheus.PlatformCollector(registry=registry)
    return lambda: prometheus.generate_latest(registry)


def metrics_of(figures: Figures) -> Iterator[tuple[Metric, float]]:
    """Every number among the figures; of a list, or a table, how many it holds."""
    for name, value in figures.items():
        if isinstance(value, bool) or value is None or isinstance(value, str):
            continue
        if name in HISTOGRAMS or name == PINS:
            continue
        metric = KNOWN.get(name) or Metric(_plain(name), f"The broker's figure: {name}.")
        if isinstance(value, int | float):
            yield metric, float(value)
        elif isinstance(value, list | tuple | dict | set):
            yield metric, float(len(value))


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
