"""A simulated system: brokers of one composition, clients with their applications, a history.

The application of every simulated client is the simplest one: it takes each notification at once
and commits it. The history (`rows`) and the counters of the simulation record the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import msgspec

from tidings.errors import SettingsError
from tidings.history.schema import Row
from tidings.language import parse_filter
from tidings.model.event import make_event
from tidings.model.subscription import DeliveryOptions, Notification, Policy
from tidings.protocol import effects as fx
from tidings.protocol import inputs as ins
from tidings.protocol.client import Client
from tidings.protocol.limits import DEFAULT_LIMITS, ResourceLimits
from tidings.protocol.node import Node
from tidings.simulation.failover_clients import BrokerLifetimes, roamer
from tidings.simulation.parts import SimulatedMachine
from tidings.simulation.simulator import Simulation, SimulationSettings
from tidings.simulation.topology import Edge, OverlayGraph
from tidings.simulation.workloads import (
    AdvertiseStep,
    PublishStep,
    Step,
    SubscribeStep,
    UnadvertiseStep,
    UnsubscribeStep,
    Workload,
)
from tidings.store.memory import MemoryStore
from tidings.systems import Site, find_system

WINDOW = 64  # notifications on their way to a client at most


class Application(msgspec.Struct):
    """Notifications that the application of one client has received."""

    refs: dict[str, int] = {}  # subscription name -> ref
    calls: dict[int, str] = {}  # call -> the subscription that it opens
    leaving: set[int] = set()  # calls whose subscription is to end as soon as it is open
    received: list[Notification] = []
    received_refs: list[int] = []  # of the subscriptions of `received`
    failures: list[fx.CallFailed] = []
    receipts: list[fx.Receipt] = []


class World:
    """Everything of one simulated run."""

    def __init__(
        self,
        system: str,
        overlay: OverlayGraph,
        *,
        seed: int = 1,
        settings: SimulationSettings | None = None,
        latencies: dict[Edge, float] | None = None,
        options: dict[str, Any] | None = None,
        record: bool = True,
        on_row: Callable[[Row], None] | None = None,
        limits: ResourceLimits = DEFAULT_LIMITS,
        frames: Mapping[str, int] | None = None,  # by broker: its frame limit, where it differs
        wrap: Callable[[Node], SimulatedMachine] | None = None,
    ) -> None:
        self.system = find_system(system)
        self.overlay = overlay
        if settings is not None and settings.check and not __debug__:
            raise SettingsError(
                "invariants are assertions, which `python -O` leaves out",
                hint="run it without -O and PYTHONOPTIMIZE, or without the check of every step",
            )
        self.simulation = (BrokerLifetimes if self.system.roams else Simulation)(seed, settings)
        self.rows: list[Row] = []
        self.applications: dict[str, Application] = {}
        self._calls = 0
        self._options = options or {}
        self.limits = limits
        self._frames = frames or {}
        self._wrap = wrap  # wraps each node, in each of its lives
        self._record = record
        self._sources: dict[str, int] = {}
        if record:
            self.simulation.on_row = on_row or self.rows.append
        self.simulation.on_client_effect = self._client_effect
        self.latencies = latencies or {}
        self.system.check_overlay(overlay.brokers, overlay.links)
        self._build_brokers(self.latencies)

    # -- building ------------------------------------------------------------------------

    def _build_brokers(self, latencies: dict[Edge, float]) -> None:
        neighbours = self.overlay.neighbours()
        for name in self.overlay.brokers:
            self.add_broker(name, tuple(neighbours[name]))
        for a, b in self.overlay.links:
            self.simulation.connect(a, b, latencies.get((a, b)))

    def add_broker(self, name: str, neighbours: tuple[str, ...] = ()) -> None:
        """A broker or peer begins now; its links, if any, are made by `simulation.connect`."""
        site = Site(
            name=name,
            neighbours=neighbours,
            brokers=self.overlay.brokers,
            links=self.overlay.links,
            options=self._options,
            recording=self._record,
            limits=self.limits if name not in self._frames else self.limits.fitted(self._frames[name]),
        )
        self.simulation.add(name, self._builder(site), disk=MemoryStore())

    def _builder(self, site: Site) -> Callable[[], SimulatedMachine]:
        lives = iter(range(1_000_000))

        def build() -> SimulatedMachine:
            node = self.system.build(site, self.simulation.rng(f"{site.name}/{next(lives)}"))
            return node if self._wrap is None else self._wrap(node)

        return build

    def add_client(self, name: str, broker: str) -> None:
        if broker not in self.simulation.hosts:
            raise SettingsError(f"client {name!r} is at {broker!r}, and there is no such broker")
        rng = self.simulation.rng(name)
        self.applications[name] = Application()
        build: Callable[[], SimulatedMachine] = partial(
            Client, name, broker, rng=rng, recording=self._record, limits=self.limits
        )
        if self.system.roams:
            build = partial(
                roamer,
                name,
                broker,
                self.overlay.brokers,
                self._options,
                rng,
                self._record,
                self.limits,
                self.system.reports_received(self._options) if self.system.reports_received else None,
            )
        self.simulation.add(name, build, broker=False)
        self.simulation.connect(name, broker)

    def move(self, client: str, broker: str) -> None:
        """The client goes to another broker."""
        simulation = self.simulation
        for a, b in [pair for pair in simulation.links if client in pair]:
            simulation.disconnect(a, b)
        simulation.connect(client, broker)

    def load(self, workload: Workload) -> None:
        """Bring in the clients, and schedule everything that they do."""
        for client, broker in workload.clients.items():
            self.add_client(client, broker)
        for step in workload.steps:
            self.simulation.call_at(step.at, partial(self.do, step))

    # -- what applications do --------------------------------------------------------------

    def do(self, step: Step) -> None:
        """Let a client's application run an operation now."""
        match step:
            case SubscribeStep():
                self.subscribe(step.client, step.name, step.filter, durable=step.durable)
            case UnsubscribeStep():
                self.unsubscribe(step.client, step.name)
            case PublishStep():
                self.publish(
                    step.client, step.attributes, topic=step.topic, type=step.type,
                    lifetime=step.lifetime, key=step.key,
                )  # fmt: skip
            case AdvertiseStep():
                self._input(
                    step.client, ins.ClientAdvertise(self.next_call(), step.name, parse_filter(step.filter))
                )
            case UnadvertiseStep():
                self._input(step.client, ins.ClientUnadvertise(self.next_call(), step.name))

    def subscribe(self, client: str, name: str, filter: str, **options: Any) -> None:
        options.setdefault("policy", Policy.DROP_NEWEST)
        options.setdefault("queue", 100_000)
        window, auto = options.pop("window", WINDOW), options.pop("auto", True)
        call = self.next_call()
        self.applications[client].calls[call] = name
        wanted = parse_filter(filter)
        self._input(
            client,
            ins.ClientSubscribe(call, wanted, name, DeliveryOptions(**options), window=window, auto=auto),
        )

    def take(self, client: str, name: str, most: int = 1) -> None:
        """Have an application take events of a subscription that was opened with `auto=False`."""
        ref = self.applications[client].refs[name]
        self._input(client, ins.ClientTake(self.next_call(), ref, most=most))

    def unsubscribe(self, client: str, name: str) -> None:
        application = self.applications[client]
        opening = [call for call, opens in application.calls.items() if opens == name]
        if opening:  # the broker has not answered yet
            application.leaving.add(opening[-1])
        elif name in application.refs:
            self._leave(client, application.refs.pop(name))

    def _leave(self, client: str, ref: int) -> None:
        self._input(client, ins.ClientLeave(self.next_call(), ref, end=True))

    def publish(self, client: str, attributes: dict[str, Any], **fields: Any) -> None:
        event = make_event(attributes, source=client, id="-", **fields)
        self._input(client, ins.ClientPublish(self.next_call(), event, number=True))

    def next_call(self) -> int:
        """A number for the next call of any application."""
        self._calls += 1
        return self._calls

    def _input(self, client: str, item: Any) -> None:
        self.simulation.input(client, item)

    # -- what applications receive ------------------------------------------------------------

    def _client_effect(self, client: str, effect: Any) -> None:
        application = self.applications[client]
        if type(effect) is fx.Notify:
            application.received += effect.notifications
            application.received_refs += [effect.ref] * len(effect.notifications)
        elif type(effect) is fx.CallResult:
            if isinstance(effect.value, fx.SubscriptionOpened):
                self._opened(client, effect.call, effect.value.ref)
            elif isinstance(effect.value, fx.Receipt):
                application.receipts.append(effect.value)
        elif type(effect) is fx.CallFailed:
            application.calls.pop(effect.call, None)
            application.failures.append(effect)

    def _opened(self, client: str, call: int, ref: int) -> None:
        application = self.applications[client]
        name = application.calls.pop(call)
        if call in application.leaving:
            application.leaving.remove(call)
            self._leave(client, ref)
        else:
            application.refs[name] = ref

    # -- running and looking -----------------------------------------------------------------

    def run(self, until: float, progress: Callable[[float, int], None] | None = None) -> None:
        self.simulation.run(until, progress)

    def received(self, client: str) -> list[tuple[str, str]]:
        """The identities of the events that a client's application was told, in order."""
        return [each.event.identity for each in self.applications[client].received]

    def nodes(self) -> Iterable[tuple[str, Any]]:
        return ((name, self.simulation.hosts[name].machine) for name in self.overlay.brokers)
