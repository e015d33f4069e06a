"""Graphs to simulate on: overlays of brokers, and networks under them.

An *overlay* is which brokers are linked; a *network* is the hosts and wires beneath, with
latencies. The two are independent (Virgillito 2003, 3.3.1): brokers sit on hosts chosen at
random, and a link's latency is that of the shortest path between its hosts.
Every builder takes the random source that it draws from, so a seed names a graph.
"""

from __future__ import annotations

import heapq
import warnings
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, pairwise
from random import Random

import msgspec

from tidings.errors import SettingsError

Edge = tuple[str, str]


class OverlayGraph(msgspec.Struct, frozen=True):
    """Brokers and the links between them; each link once, lower name first."""

    brokers: tuple[str, ...]
    links: tuple[Edge, ...]

    def neighbours(self) -> dict[str, list[str]]:
        table: dict[str, list[str]] = {broker: [] for broker in self.brokers}
        for a, b in self.links:
            table[a].append(b)
            table[b].append(a)
        return table

    @property
    def is_tree(self) -> bool:
        return len(self.links) == len(self.brokers) - 1 and self.is_connected

    @property
    def is_connected(self) -> bool:
        return len(reachable(self.neighbours(), self.brokers[0])) == len(self.brokers)

    def diameter(self) -> int:
        table = self.neighbours()
        return max(max(hops_from(table, broker).values()) for broker in self.brokers)


def broker_names(count: int) -> tuple[str, ...]:
    if count < 1:
        raise SettingsError(f"a network of {count} brokers", hint="ask for one or more")
    return tuple(f"b{number}" for number in range(count))


def _overlay(brokers: Sequence[str], links: Iterable[Edge]) -> OverlayGraph:
    rank = {name: position for position, name in enumerate(brokers)}
    ordered = {(a, b) if rank[a] < rank[b] else (b, a) for a, b in links if a != b}
    return OverlayGraph(tuple(brokers), tuple(sorted(ordered, key=lambda e: (rank[e[0]], rank[e[1]]))))


def line(count: int) -> OverlayGraph:
    names = broker_names(count)
    return _overlay(names, pairwise(names))


def ring(count: int) -> OverlayGraph:
    names = broker_names(count)
    return _overlay(names, zip(names, (*names[1:], names[0]), strict=True))


def star(count: int) -> OverlayGraph:
    names = broker_names(count)
    return _overlay(names, ((names[0], other) for other in names[1:]))


def hierarchy(count: int, fan_out: int = 3) -> OverlayGraph:
    """A complete tree: broker k hangs under broker (k-1) // fan_out."""
    names = broker_names(count)
    return _overlay(names, ((names[(k - 1) // fan_out], names[k]) for k in range(1, count)))


def mesh(count: int) -> OverlayGraph:
    """Complete graph: every broker is linked with every other."""
    names = broker_names(count)
    return _overlay(names, combinations(names, 2))


def cliques(count: int, size: int = 4) -> OverlayGraph:
    """Fully meshed groups of `size`, their first members joined in a line."""
    names = broker_names(count)
    groups = [names[k : k + size] for k in range(0, count, size)]
    links = [pair for group in groups for pair in combinations(group, 2)]
    links += [(a[0], b[0]) for a, b in pairwise(groups)]
    return _overlay(names, links)


def random_tree(count: int, rng: Random, fan_out: int = 10) -> OverlayGraph:
    """Each broker joins at a random earlier one that has a free place (VIR4-10)."""
    if fan_out < 2 and count > 2:
        raise SettingsError(f"a fan-out of {fan_out} cannot join {count} brokers", hint="use 2 or more")
    names = broker_names(count)
    degree = dict.fromkeys(names, 0)
    free = [names[0]]
    links = []
    for name in names[1:]:
        at = rng.choice(free)
        links.append((at, name))
        degree[at] += 1
        degree[name] = 1
        if degree[at] >= fan_out:
            free.remove(at)
        if degree[name] < fan_out:
            free.append(name)
    return _overlay(names, links)


def random_graph(count: int, rng: Random, degree: float = 4.0) -> OverlayGraph:
    """A connected graph: a random tree, and random links up to the mean degree."""
    tree = random_tree(count, rng, fan_out=max(3, count))
    names = tree.brokers
    links = set(tree.links)
    wanted = min(int(count * degree / 2), count * (count - 1) // 2)
    while len(links) < wanted:
        a, b = sorted(rng.sample(range(count), 2))
        links.add((names[a], names[b]))
    return _overlay(names, links)


def no_links(count: int) -> OverlayGraph:
    """Peers without links: a peer can send to every peer that it knows."""
    return OverlayGraph(broker_names(count), ())


OVERLAYS: dict[str, Callable[[int, Random, int], OverlayGraph]] = {
    "tree": lambda count, rng, fan_out: random_tree(count, rng, fan_out),
    "line": lambda count, rng, fan_out: line(count),
    "ring": lambda count, rng, fan_out: ring(count),
    "star": lambda count, rng, fan_out: star(count),
    "hierarchy": lambda count, rng, fan_out: hierarchy(count, fan_out),
    "cliques": lambda count, rng, fan_out: cliques(count, fan_out),
    "mesh": lambda count, rng, fan_out: mesh(count),
    "random": lambda count, rng, fan_out: random_graph(count, rng, float(fan_out)),
}


def reachable(table: dict[str, list[str]], start: str) -> set[str]:
    return set(hops_from(table, start))


def hops_from(table: dict[str, list[str]], start: str) -> dict[str, int]:
    """Links between `start` and every broker it can reach."""
    hops = {start: 0}
    wave = [start]
    while wave:
        following = []
        for broker in wave:
            for other in table[broker]:
                if other not in hops:
                    hops[other] = hops[broker] + 1
                    following.append(other)
        wave = following
    return hops


def minimal_subtree(overlay: OverlayGraph, ends: Iterable[str]) -> set[Edge]:
    """The links of the smallest subtree of a tree that joins all `ends`."""
    wanted = set(ends)
    if not wanted:
        return set()
    table = overlay.neighbours()
    root = min(wanted)
    parent = {root: root}
    order = [root]
    for broker in order:
        for other in table[broker]:
            if other not in parent:
                parent[other] = broker
                order.append(other)
    kept: set[Edge] = set()
    needed = set(wanted)
    for broker in reversed(order):
        if broker in needed and broker != root:
            needed.add(parent[broker])
            kept.add((parent[broker], broker))
    known = set(overlay.links)
    return {edge if edge in known else (edge[1], edge[0]) for edge in kept}


def local_networks(overlay: OverlayGraph, size: int = 4) -> dict[str, str]:
    """Cut the brokers into connected groups of at most so many, near ones together; by broker, the group's
    name."""
    table = overlay.neighbours()
    found: dict[str, str] = {}
    for number, first in enumerate(overlay.brokers):
        if first in found:
            continue
        group = [first]
        for broker in group:
            found[broker] = f"lan{number}"
            free = [other for other in table[broker] if other not in found and other not in group]
            group += free[: size - len(group)]
    return found


class HostNetwork(msgspec.Struct, frozen=True):
    """Hosts 0…n-1 and wires with a latency in seconds."""

    hosts: int
    wires: tuple[tuple[int, int, float], ...]

    def latencies_from(self, host: int) -> list[float]:
        """Seconds from `host` to every host, by the shortest path."""
        return _dijkstra(self._table(), host)

    def _table(self) -> list[list[tuple[int, float]]]:
        table: list[list[tuple[int, float]]] = [[] for _ in range(self.hosts)]
        for a, b, seconds in self.wires:
            table[a].append((b, seconds))
            table[b].append((a, seconds))
        return table

    def latency_table(self, hosts: Sequence[int]) -> dict[int, list[float]]:
        table = self._table()
        return {host: _dijkstra(table, host) for host in sorted(set(hosts))}


def _dijkstra(table: list[list[tuple[int, float]]], start: int) -> list[float]:
    far = [float("inf")] * len(table)
    far[start] = 0.0
    queue = [(0.0, start)]
    while queue:
        at, host = heapq.heappop(queue)
        if at > far[host]:
            continue
        for other, seconds in table[host]:
            if at + seconds < far[other]:
                far[other] = at + seconds
                heapq.heappush(queue, (far[other], other))
    return far


def flat_network(hosts: int, rng: Random, degree: float = 4.0, wire_seconds: float = 0.02) -> HostNetwork:
    """A connected random network; each wire's latency is drawn around `wire_seconds`."""
    graph = random_graph(hosts, rng, degree)
    position = {name: number for number, name in enumerate(graph.brokers)}
    wires = tuple((position[a], position[b], wire_seconds * rng.uniform(0.5, 1.5)) for a, b in graph.links)
    return HostNetwork(hosts, wires)


class TransitStub(msgspec.Struct, frozen=True, kw_only=True):
    """The shape of a network in GT-ITM's transit-stub manner; latencies in seconds."""

    domain_hosts: int = 60  # hosts to one transit domain
    transit_share: float = 0.04  # of all hosts that are transit nodes
    stub_size: int = 8
    between_domains: float = 0.05
    inside_domain: float = 0.02
    gateway: float = 0.01  # from a stub to its transit node
    inside_stub: float = 0.003


def transit_stub(hosts: int, rng: Random, shape: TransitStub | None = None) -> HostNetwork:
    """Transit domains joined in a tree, each a small mesh, and stub domains that hang on them.

    The wires between transit domains are long and those inside a stub short, so that a network of
    more domains is a slower one; every stub reaches its transit node through one gateway.
    """
    shape = shape or TransitStub()
    domains = max(1, round(hosts / shape.domain_hosts))
    size = min(hosts, max(2, round(hosts * shape.transit_share / domains)))
    wires: list[tuple[int, int, float]] = []
    for domain in range(domains):
        wires += _transit_domain(domain, size, rng, shape)
    core = min(hosts, domains * size)
    for begin in range(core, hosts, shape.stub_size):
        stub = range(begin, min(hosts, begin + shape.stub_size))
        wires.append((rng.randrange(core), begin, shape.gateway * rng.uniform(0.5, 1.5)))
        wires += [
            (rng.randrange(begin, host), host, shape.inside_stub * rng.uniform(0.5, 1.5)) for host in stub[1:]
        ]
    return HostNetwork(hosts, tuple(wires))


def _transit_domain(domain: int, size: int, rng: Random, shape: TransitStub) -> list[tuple[int, int, float]]:
    """The wires of one transit domain, and its wire to an earlier one."""
    first = domain * size
    mesh = random_graph(size, rng, degree=min(3.0, size - 1))
    position = {name: first + number for number, name in enumerate(mesh.brokers)}
    wires = [(position[a], position[b], shape.inside_domain * rng.uniform(0.5, 1.5)) for a, b in mesh.links]
    if domain:
        there = rng.randrange(domain) * size + rng.randrange(size)
        wires.append((there, first + rng.randrange(size), shape.between_domains * rng.uniform(0.5, 1.5)))
    return wires


NETWORKS: dict[str, Callable[[int, Random], HostNetwork]] = {
    "transit-stub": lambda hosts, rng: transit_stub(hosts, rng),
    "flat": lambda hosts, rng: flat_network(hosts, rng),
}


def placed(overlay: OverlayGraph, network: HostNetwork, rng: Random) -> dict[str, int]:
    """A host for every broker, drawn at random; distinct while there are enough hosts."""
    hosts = list(range(network.hosts))
    if len(overlay.brokers) <= len(hosts):
        return dict(zip(overlay.brokers, rng.sample(hosts, len(overlay.brokers)), strict=True))
    return {broker: rng.choice(hosts) for broker in overlay.brokers}


def link_latencies(
    overlay: OverlayGraph, network: HostNetwork, positions: dict[str, int]
) -> dict[Edge, float]:
    """Seconds along each link of the overlay."""
    table = network.latency_table([positions[broker] for broker in overlay.brokers])
    return {(a, b): table[positions[a]][positions[b]] for a, b in overlay.links}


def __getattr__(name: str) -> type[OverlayGraph]:
    if name == "Overlay":
        warnings.warn(f"{__name__}.Overlay is OverlayGraph now", DeprecationWarning, stacklevel=2)
        return OverlayGraph
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
