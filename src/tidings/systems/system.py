"""Definition of a system: one strategy in each slot, its promises, and the overlays that it supports."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import msgspec

from tidings.errors import SettingsError, require
from tidings.protocol.limits import DEFAULT_LIMITS, ResourceLimits
from tidings.protocol.messages import Message
from tidings.protocol.node import Node
from tidings.protocol.slots import Strategy
from tidings.systems.strategy_checks import check_results, check_strategy

NO_LINKS, ANY_GRAPH, TREE = "none", "any graph", "tree"
MESH = "every broker with every other"
PEERS = "peers"  # no links: a peer can send to every peer that it knows


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """Position of a broker in its network: the input of its construction."""

    name: str
    neighbours: tuple[str, ...] = ()
    brokers: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    options: dict[str, Any] = {}  # a system's own knobs
    recording: bool = False
    stable: bool = True  # its disk survives it
    limits: ResourceLimits = DEFAULT_LIMITS

    def parent(self) -> str | None:
        """The neighbour toward the first broker, for hierarchies."""
        table: dict[str, list[str]] = {broker: [] for broker in self.brokers}
        for a, b in self.links:
            table[a].append(b)
            table[b].append(a)
        parents: dict[str, str | None] = {self.brokers[0]: None} if self.brokers else {}
        order = list(parents)
        for broker in order:
            for other in table[broker]:
                if other not in parents:
                    parents[other] = broker
                    order.append(other)
        return parents.get(self.name)


class Choice(msgspec.Struct, frozen=True):
    """Advice for choosing a system."""

    source: str = ""  # the document, and the section in it
    take: str = ""  # the case for it: "take it when ..."
    price: str = ""
    page: str = ""  # of the docs, that explains its kind
    command: str = ""  # that runs it as processes, if it is not `TIDINGS_SYSTEM=NAME tidings broker`


class System(msgspec.Struct, frozen=True, kw_only=True):
    """A composition with what it promises."""

    name: str
    model: str  # of subscription
    promise: str  # recovery and delivery, in words
    graph: str  # what overlays it works on
    strategies: Callable[[Site], dict[str, Any]]
    contract: str  # the set of properties that it is judged by
    options: tuple[str, ...] = ()  # knobs that it takes
    networked: bool = False  # can its brokers be processes, which join one another?
    roams: bool = False  # do its clients look for another broker by themselves?
    datagrams: bool = False  # does it send any, with any options?
    # of systems with clients that report their deliveries: from the options to that message, or None
    reports_received: Callable[[dict[str, Any]], Callable[..., Message] | None] | None = None
    needs: tuple[str, ...] = ()  # optional modules that its brokers import; it is listed without them
    choice: Choice = Choice()

    def build(self, site: Site, rng: Random) -> Node:
        """A broker of this system."""
        for option in site.options:
            if option not in self.options:
                known = ", ".join(self.options) or "none"
                raise SettingsError(f"{self.name} has no option {option!r}", hint=f"its options: {known}")
        for module in self.needs:
            require(module, f"the system {self.name}")
        slots = self.strategies(site)
        for strategy in slots.values():
            kind: Any = type(strategy)
            check_strategy(kind, has_links=self.graph not in (NO_LINKS, PEERS))
            check_results(strategy)
        return Node(
            site.name, rng=rng, recording=site.recording, stable=site.stable, limits=site.limits,
            event_bytes=self.event_bytes(site), **slots,
        )  # fmt: skip

    def event_bytes(self, site: Site) -> int:
        """The largest event that a broker of this system accepts: where events travel by datagram, one has to
        hold it."""
        by_datagram = self.datagrams or self.graph == PEERS or bool(site.options.get("datagrams"))
        return site.limits.datagram_event_bytes if by_datagram else site.limits.event_bytes

    def check_overlay(self, brokers: Iterable[str], links: Iterable[tuple[str, str]]) -> None:
        count, wires = len(list(brokers)), len(list(links))
        if self.graph == NO_LINKS and count > 1:
            raise SettingsError(f"{self.name} is one broker, not {count}", hint="use --brokers 1")
        if self.graph == TREE and wires != count - 1:
            raise SettingsError(
                f"{self.name} needs an overlay without cycles; this one has {count} brokers and "
                f"{wires} links",
                hint="use a tree, a line, a star or a hierarchy",
            )

    def check_processes(self) -> None:
        """Refuse a system that is declared for processes and whose brokers would never find one another."""
        overlay = self.strategies(Site(name="b0", brokers=("b0",))).get("overlay")  # as a process is built
        joins = getattr(overlay, "joins", overlay is not None)
        if not self.networked or self.graph in (NO_LINKS, PEERS) or joins:
            return
        kind = type(overlay)
        which = "none" if overlay is None else f"{kind.__qualname__} of {kind.__module__}"
        raise SettingsError(
            f"{self.name} is declared with networked=True, and its overlay ({which}) never links brokers "
            "that are processes: it knows the neighbours of a simulation alone",
            hint="give it an overlay that joins, as JoinedOverlay does: "
            "broker_slots(site, routing) | {'overlay': JoinedOverlay(site.neighbours)}",
        )

    def slots(self) -> dict[str, Strategy]:
        """The strategy in each slot of a broker that has one neighbour."""
        site = Site(name="b0", neighbours=("b1",), brokers=("b0", "b1"), links=(("b0", "b1"),))
        return self.strategies(site)

    def composition(self) -> list[tuple[str, str, str]]:
        """(slot, strategy, its description) for each slot in use."""
        return [(kind, strategy.name, _about(strategy)) for kind, strategy in self.slots().items()]

    def row(self) -> dict[str, str]:
        """The system's line in the table of systems."""
        named = {kind: strategy.name for kind, strategy in self.slots().items()}
        return {
            "system": self.name,
            "subscription model": self.model,
            "assignment": named.get("assignment", "itself"),
            "routing": named.get("routing", "none"),
            "overlay": f"{named['overlay']}, {self.graph}" if "overlay" in named else "none",
            "recovery": named.get("recovery", "none"),
            "promise": self.promise,
        }


def _about(strategy: Strategy) -> str:
    """The first sentence of its class, or of its file."""
    kind = type(strategy)
    delivered = vars(kind).get("__doc__") or sys.modules[kind.__module__].__doc__ or ""
    return " ".join(delivered.split("\n\n")[0].split())
