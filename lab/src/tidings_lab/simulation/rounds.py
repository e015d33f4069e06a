"""Gossip in synchronous rounds over arrays: for populations that no event-driven simulator holds.

    plan = damulticast(chain(10, 100, 1000))        # T0, T1, T2 of Baehni et al. 2004, section 6.1
    run = disseminate(plan, seed=1, loss=0.15)      # an event of the lowest topic
    run.reached()                                    # by group, of those that live: [0.9, 1.0, 1.0]

Rules
- Every process has fixed tables: other processes, drawn without repetition by a hash of the process and the
  seed of the views. They are the same for every event and take no memory; `GossipPlan.entries` says how many
  entries real processes would hold.
- In each round those who heard the event in the round before send to their tables, once (infect and die).
- A message is lost by chance. A process that crashed at the start stays in all tables (`crashed`, Figure 4 of
  the paper); or each receiver looks crashed to each sender by chance (`apparent`, Figure 5).
- Every draw is a hash of what it is for, so that the compiled kernel and the one in NumPy agree bit for bit.
- The paper leaves two choices: fan-outs are floor(ln S + c), which its Table 2 betrays (E-D10), and the
  publisher is a link by election like every process (4.3) unless `forced`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tidings.errors import SettingsError
from tidings.matching.columnar.jit import has_numba
from tidings_lab.simulation.rounds_numpy import chances_of, rows_of
from tidings_lab.simulation.rounds_parts import (
    ACROSS,
    ARRIVED,
    ARRIVED_ACROSS,
    CRASHED,
    ENTRY,
    EVERYONE,
    FIRST,
    INSIDE,
    MOST_TABLE,
    NAMINGS,
    NEVER,
    PUBLISHER,
    ROLE,
    Arena,
    GossipDraws,
    GossipState,
    Ints,
)

MOST_LINKS = 4096  # that entry processes name for one event


class TopicGroup(msgspec.Struct, frozen=True):
    """The processes that are interested in one topic.

    Supertopics are named by their place in the hierarchy.
    """

    size: int
    supers: tuple[int, ...] = ()


Hierarchy = tuple[TopicGroup, ...]


def chain(*sizes: int) -> Hierarchy:
    """T0 (the root), T1, …: each the supertopic of the next."""
    return tuple(TopicGroup(size, (position - 1,) if position else ()) for position, size in enumerate(sizes))


def above(hierarchy: Hierarchy, group: int) -> list[int]:
    """The groups that an event of this group's topic is for: itself and all its supertopics."""
    found = [group]
    for each in found:
        found += [up for up in hierarchy[each].supers if up not in found]
    return found


class Scheme(msgspec.Struct, frozen=True, kw_only=True):
    """The constants of daMulticast (section 4.3), and what goes beyond it."""

    c: float = 5.0  # of the fan-out ln S + c
    g: float = 5.0  # links that elect themselves, on average
    a: float = 1.0  # entries of its supertopic table that a link sends to, on average
    z: int = 3  # entries of a supertopic table
    exact: bool = False  # a link sends to exactly `a` entries
    forced: bool = False  # the publisher is always a link (as in Figure 2)
    named: bool = (
        False  # the entry process names links for `g` turns; in each exactly `a` entries are sent to
    )
    own: int = 1  # of these turns, the first ones that it takes itself, to different entries
    stagger: int = 3  # rounds between one named link and the next: later ones find the group reached
    success: float = 1.0  # chance that a message arrives, to make up for: the fan-out is (ln S + c) / success

    def fan_out(self, size: int) -> int:
        """Entries of the topic table in a group of this size; all are sent to."""
        return fan_out(size, self.c, self.success)


def fan_out(size: int, c: float, success: float = 1.0) -> int:
    """floor(ln S + c), or (ln S + c) / success rounded when loss is made up for; never more than
    there are."""
    if size < 1:
        raise SettingsError(f"a group of {size} processes", hint="leave the group out, or give it a process")
    wanted = math.log(size) + c
    count = math.floor(wanted) if success >= 1.0 else round(wanted / success)
    return max(0, min(count, size - 1, MOST_TABLE - 1))


class GossipPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Possible senders and receivers under one algorithm."""

    algorithm: str
    arena: Any  # Arena
    groups: tuple[tuple[int, int], ...]  # by topic group: its first process and the one after its last
    entries: tuple[int, ...]  # by topic group: table entries that one of its processes holds
    published: int  # the topic group that the event is of
    wanted: tuple[int, ...]  # the topic groups that it is for
    most_delay: int = 0
    scheme: Scheme = Scheme()
    places: Any = None  # by process: its topic group, where groups are no ranges

    @property
    def processes(self) -> int:
        return int(self.arena.starts[-1])

    def in_group(self, group: int) -> Any:
        """Picks the group's processes out of an array."""
        if self.places is not None:
            return np.flatnonzero(self.places == group)
        return slice(*self.groups[group])

    def someone(self, seed: int) -> int:
        """A process of the topic that is published, drawn by the seed."""
        begin, end = self.groups[self.published]
        draw = chances_of(rows_of(_key(seed, "publisher"), 0, np.zeros(1, np.int64)), 0)[0]
        position = begin + int(draw * (end - begin))
        return (
            int(np.flatnonzero(self.places == self.published)[position - begin])
            if self.places is not None
            else position
        )


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """One table of the processes of a class, and when they send to it."""

    start: int
    size: int
    fan: int
    delay: int = 0
    kind: int = INSIDE
    role: int = EVERYONE
    exact: int = 0
    elect: float = 1.0
    each: float = 1.0
    direct: bool = True


def arena_of(
    starts: Sequence[int], sections: Sequence[Sequence[Section]], members: Sequence[int] = ()
) -> Arena:
    """Arrays from classes: `starts` has one more number, that of all processes."""
    flat = [section for of_class in sections for section in of_class]
    table = [[s.start, s.size, s.fan, s.delay, s.kind, s.role, s.exact] for s in flat]
    return Arena(
        starts=np.asarray(starts, np.int64),
        first=np.cumsum([0, *(len(of_class) for of_class in sections)]).astype(np.int64),
        sections=np.asarray(table, np.int64).reshape(len(flat), 7),
        chances=np.asarray([[s.elect, s.each] for s in flat], np.float64).reshape(len(flat), 2),
        direct=np.asarray([s.direct for s in flat], np.bool_),
        members=np.asarray(members, np.int64),
    )


def _starts(hierarchy: Hierarchy) -> list[int]:
    return [0, *np.cumsum([group.size for group in hierarchy]).tolist()]


def _ranges(starts: Sequence[int]) -> tuple[tuple[int, int], ...]:
    return tuple(pairwise(starts))


# -- the algorithms ----------------------------------------------------------------------------


def damulticast(hierarchy: Hierarchy, scheme: Scheme | None = None, *, published: int = -1) -> GossipPlan:
    """Gossip inside groups; links hand the event up to each supertopic (Baehni et al. 2004, 4.3)."""
    scheme = scheme or Scheme()
    starts = _starts(hierarchy)
    sections = []
    for position, group in enumerate(hierarchy):
        own = Section(start=starts[position], size=group.size, fan=scheme.fan_out(group.size))
        elect = min(1.0, scheme.g / group.size)
        ups = [
            Section(
                start=starts[up], size=hierarchy[up].size, fan=scheme.z, kind=ACROSS,
                exact=round(scheme.a) if scheme.exact else 0, elect=elect,
                each=1.0 if scheme.exact else min(1.0, scheme.a / min(scheme.z, hierarchy[up].size)),
            )
            for up in group.supers
        ]  # fmt: skip
        sections.append([own, *ups])
    published = published % len(hierarchy)
    return GossipPlan(
        algorithm="daMulticast", arena=arena_of(starts, sections), groups=_ranges(starts), scheme=scheme,
        entries=tuple(sum(min(s.fan, s.size) for s in of_class) for of_class in sections),
        published=published,
        wanted=tuple(above(hierarchy, published)),
    )  # fmt: skip


def gossip_broadcast(hierarchy: Hierarchy, *, c: float = 5.0, published: int = -1) -> GossipPlan:
    """Every process gossips every event with all others (5.5, approach a)."""
    starts = _starts(hierarchy)
    everyone = Section(start=0, size=starts[-1], fan=fan_out(starts[-1], c))
    published = published % len(hierarchy)
    return GossipPlan(
        algorithm="gossip broadcast", arena=arena_of(starts, [[everyone]] * len(hierarchy)),
        published=published,
        groups=_ranges(starts), entries=(everyone.fan,) * len(hierarchy),
        wanted=tuple(above(hierarchy, published)),
    )  # fmt: skip


def publisher_groups(hierarchy: Hierarchy, *, c: float = 5.0, published: int = -1) -> GossipPlan:
    """Figure 1, pattern 1: one group for the publishers of a topic; who subscribed to a supertopic joins it
    too.

    An event is gossiped in one group. Processes hold a table for every group they are in: their own topic's
    and all subtopics'. For ranges of processes, the groups above the published one must be next to one
    another.
    """
    starts = _starts(hierarchy)
    published = published % len(hierarchy)
    wanted = sorted(above(hierarchy, published))
    if wanted != list(range(wanted[0], wanted[-1] + 1)):
        raise SettingsError(
            "the published topic and its supertopics are not next to one another in the hierarchy",
            hint="order the groups so that they are, as `chain` does",
        )
    size = starts[wanted[-1] + 1] - starts[wanted[0]]
    own = Section(start=starts[wanted[0]], size=size, fan=fan_out(size, c))
    sections = [[own] if position in wanted else [] for position in range(len(hierarchy))]
    joined = [
        [g for g in range(len(hierarchy)) if position in above(hierarchy, g)]
        for position in range(len(hierarchy))
    ]
    members = [sum(hierarchy[up].size for up in above(hierarchy, g)) for g in range(len(hierarchy))]
    return GossipPlan(
        algorithm="gossip multicast, publisher groups", arena=arena_of(starts, sections), published=published,
        groups=_ranges(starts), entries=tuple(sum(fan_out(members[g], c) for g in own) for own in joined),
        wanted=tuple(wanted),
    )  # fmt: skip


def subscriber_groups(hierarchy: Hierarchy, *, c: float = 5.0, published: int = -1) -> GossipPlan:
    """Figure 1, pattern 2: one group for the subscribers of a topic; a publisher gossips in every
    supertopic's group as well, so it holds a table for each."""
    starts = _starts(hierarchy)
    published = published % len(hierarchy)
    sections = []
    for position, group in enumerate(hierarchy):
        own = Section(start=starts[position], size=group.size, fan=fan_out(group.size, c))
        ups = [
            Section(start=starts[up], size=hierarchy[up].size, fan=max(1, fan_out(hierarchy[up].size, c)),
                    kind=ACROSS, role=PUBLISHER)
            for up in above(hierarchy, position)[1:]
        ]  # fmt: skip
        sections.append([own, *ups])
    return GossipPlan(
        algorithm="gossip multicast, subscriber groups", arena=arena_of(starts, sections),
        published=published,
        groups=_ranges(starts), entries=tuple(sum(s.fan for s in of_class) for of_class in sections),
        wanted=tuple(above(hierarchy, published)),
    )  # fmt: skip


def hierarchical_broadcast(
    hierarchy: Hierarchy, *, clusters: int, c1: float = 5.0, c2: float = 5.0, published: int = -1,
    first: bool = True
) -> GossipPlan:  # fmt: skip
    """Approach c: N clusters of m processes, blind to topics. The first process of a cluster that hears the
    event hands it to ln N + c2 processes of other clusters; every process gossips in its cluster (5.5.2).

    No process can tell that it is the first. With `first=False` every process that hears from outside its
    cluster hands on."""
    starts = _starts(hierarchy)
    count = starts[-1]
    bounds = [count * position // clusters for position in range(clusters + 1)]
    positions = scattered(hierarchy)
    across = max(1, math.floor(math.log(clusters) + c2)) if clusters > 1 else 0
    sections = []
    for begin, end in _ranges(bounds):
        own = Section(start=begin, size=end - begin, fan=fan_out(end - begin, c1))
        others = Section(start=0, size=count, fan=min(across, count - 1), kind=ACROSS,
                         role=FIRST if first else ENTRY)  # fmt: skip
        sections.append([own, others] if across else [own])
    published = published % len(hierarchy)
    return GossipPlan(
        algorithm="hierarchical gossip broadcast", arena=arena_of(bounds, sections), published=published,
        groups=_ranges(starts), entries=(sections[0][0].fan + across,) * len(hierarchy), places=positions,
        wanted=tuple(above(hierarchy, published)),
    )  # fmt: skip


def scattered(hierarchy: Hierarchy) -> Ints:
    """By process: its topic group, spread over all processes with no regard to where they stand."""
    groups = np.repeat(np.arange(len(hierarchy)), [group.size for group in hierarchy])
    order = np.argsort(rows_of(_key(0, "scatter"), 0, np.arange(groups.size, dtype=np.int64)), kind="stable")
    return groups[order].astype(np.int64)


# -- running -----------------------------------------------------------------------------------


class GossipRun(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one dissemination."""

    plan: GossipPlan
    received: Any  # by process: the round in which it heard, NEVER or CRASHED
    copies: Any  # by process: copies that reached it; empty when they were not counted
    inside: int  # messages that were sent within groups
    across: int  # between groups
    arrived: int
    arrived_across: int  # of those sent between groups
    rounds: int
    namings: int

    @property
    def sent(self) -> int:
        return self.inside + self.across

    def reached(self) -> list[float]:
        """By topic group: the part of its live processes that heard; not a number where none lives."""
        return [self.reached_of(group) for group in range(len(self.plan.groups))]

    def reached_of(self, group: int) -> float:
        received = self.received[self.plan.in_group(group)]
        alive = int((received != CRASHED).sum())
        return float((received < CRASHED).sum() / alive) if alive else math.nan

    def last_round(self, group: int) -> int | None:
        """Round in which the last of the group's processes heard; None when none did."""
        received = self.received[self.plan.in_group(group)]
        received = received[received < CRASHED]
        return int(received.max()) if received.size else None

    def parasites(self) -> int:
        """Copies that reached processes whose topic is not among those that the event is for."""
        if not self.copies.size:
            raise SettingsError("copies were not counted", hint="call disseminate with count=True")
        return sum(
            int(self.copies[self.plan.in_group(group)].sum())
            for group in range(len(self.plan.groups))
            if group not in self.plan.wanted
        )

    @property
    def payloads_per_delivery(self) -> float:
        """Messages that carried the event, for each process that heard it."""
        return self.sent / max(1, int((self.received < CRASHED).sum()) - 1)


def disseminate(
    plan: GossipPlan,
    *,
    seed: int,
    loss: float = 0.0,
    crashed: float = 0.0,
    apparent: float = 0.0,
    views: int = 0,
    publisher: int | None = None,
    count: bool = False,
    kernel: str = "",
) -> GossipRun:
    """Publish one event. `views` is the seed of the tables, `kernel` is `numba`, `numpy` or what there is."""
    size, scheme = plan.processes, plan.scheme
    publisher = plan.someone(seed) if publisher is None else publisher
    received = np.full(size, NEVER, np.uint8)
    if crashed > 0.0:
        draws = chances_of(rows_of(_key(seed, "crashes"), 0, np.arange(size, dtype=np.int64)), 0)
        received[draws < crashed] = CRASHED
        received[publisher] = NEVER
    named = scheme.named
    branded = named or bool((plan.arena.sections[:, ROLE] == ENTRY).any())
    state = GossipState(
        received=received,
        queue=np.empty(size, np.int32),
        copies=np.zeros(size if count else 0, np.uint16),
        brands=np.zeros(size if branded else 0, np.uint8),
        marks=np.zeros(size if branded else 0, np.uint8),
        links=np.zeros((MOST_LINKS if named else 0, 5), np.int64),
        counts=np.zeros(7, np.int64),
    )
    draws_ = GossipDraws(
        views=_key(views, "views"), event=_key(seed, "event"), reach=1.0 - loss, apparent=apparent,
        publisher=publisher, most_delay=plan.most_delay, names=round(scheme.g) if named else 0,
        own=min(scheme.own, round(scheme.g)),
        amount=max(1, round(scheme.a)), stagger=scheme.stagger, forced=scheme.forced,
        mixed=branded and not named,
    )  # fmt: skip
    rounds = _kernel(kernel)(plan.arena, state, draws_)
    counts = state.counts
    return GossipRun(
        plan=plan, received=received, copies=state.copies, inside=int(counts[INSIDE]),
        across=int(counts[ACROSS]),
        arrived=int(counts[ARRIVED]), arrived_across=int(counts[ARRIVED_ACROSS]), rounds=int(rounds),
        namings=int(counts[NAMINGS]),
    )  # fmt: skip


def _kernel(name: str) -> Any:
    if name not in ("", "numba", "numpy"):
        raise SettingsError(f"no kernel is called {name!r}", hint="there are: numba, numpy")
    if name == "numba" or (name == "" and has_numba()):
        from tidings_lab.simulation.rounds_numba import spread as compiled

        return compiled
    from tidings_lab.simulation.rounds_numpy import spread

    return spread


def _key(seed: int, purpose: str) -> np.uint64:
    """A word that is the same for the same seed and purpose, in every process."""
    from hashlib import blake2b

    digest = blake2b(f"{seed}/{purpose}".encode(), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little"))


def bytes_per_process(plan: GossipPlan) -> float:
    """Bytes that one dissemination holds in memory for each process, without tables: they are hashes."""
    kept = 1 + 4 + (2 if plan.scheme.named else 0)
    return kept + (8 if plan.places is not None else 0)


Floats = NDArray[np.float64]
