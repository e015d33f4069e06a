"""One dissemination in synchronous rounds with NumPy alone: the answers of `rounds_numba.py`, bit for bit.

Senders are taken in the order in which they heard, some thousands at a time; within such a part all sends
are drawn at once and then put in order. Named links are few and go one by one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidings_lab.simulation.rounds_parts import (
    ACROSS,
    ARRIVED,
    ARRIVED_ACROSS,
    BOTH,
    CRASHED,
    DELAY,
    DONE,
    ENTRY,
    EXACT,
    FAN,
    FIRST,
    INSIDE,
    KIND,
    LAST_ROUND,
    LINK_DRAWS,
    LINKS,
    NAME_DRAWS,
    NAMING,
    NAMINGS,
    NEVER,
    ORDER,
    PICK_DRAWS,
    PUBLISHER,
    REACHED,
    RECEIVED,
    ROLE,
    SIZE,
    START,
    WHO,
    Arena,
    GossipDraws,
    GossipState,
    Ints,
)

Words = NDArray[np.uint64]
Floats = NDArray[np.float64]

G = np.uint64(0x9E3779B97F4A7C15)
M1 = np.uint64(0xBF58476D1CE4E5B9)
M2 = np.uint64(0x94D049BB133111EB)
S30, S27, S31, S32, S11 = (np.uint64(shift) for shift in (30, 27, 31, 32, 11))
UNIT = 1.0 / 9007199254740992.0
PART = 20_000  # senders at a time


def mixed(x: Words) -> Words:
    x = (x ^ (x >> S30)) * M1
    x = (x ^ (x >> S27)) * M2
    result: Words = x ^ (x >> S31)
    return result


def rows_of(key: np.uint64, section: int, processes: Ints) -> Words:
    """The random word of each process for a section; further draws hang on it."""
    begun = mixed(np.full(1, key, np.uint64) + np.full(1, section + 1, np.uint64) * G)
    return mixed(begun + (processes + 1).astype(np.uint64) * G)


def drawn(rows: Words, j: int | Ints) -> Words:
    positions = np.atleast_1d(np.asarray(j, np.int64) + 1).astype(np.uint64)
    return mixed(rows + positions * G)


def chances_of(rows: Words, j: int | Ints) -> Floats:
    return (drawn(rows, j) >> S11).astype(np.float64) * UNIT


def choose(rows: Words, pool: int, count: int) -> Ints:
    """Floyd, for each row: different numbers below `pool`."""
    if count >= pool:
        return np.broadcast_to(np.arange(pool, dtype=np.int64), (rows.size, pool)).copy()
    chosen = np.empty((rows.size, count), np.int64)
    for j in range(count):
        top = pool - count + j
        t = (((drawn(rows, j) >> S32) * np.uint64(top + 1)) >> S32).astype(np.int64)
        taken = (chosen[:, :j] == t[:, None]).any(axis=1)
        chosen[:, j] = np.where(taken, top, t)
    return chosen


def tables(arena: Arena, key: np.uint64, section: int, processes: Ints) -> Ints:
    """The tables of processes of one class for a section."""
    start, size, fan = (int(arena.sections[section, column]) for column in (START, SIZE, FAN))
    rows = rows_of(key, section, processes)
    if not arena.direct[section]:
        return arena.members[start + choose(rows, size, fan)]
    inside = (start <= processes) & (processes < start + size)
    if not inside.any():
        return start + choose(rows, size, fan)
    others = start + choose(rows, size - 1, fan)  # a class is wholly inside a pool, or wholly outside
    return np.where(others >= processes[:, None], others + 1, others)


def picked_from(chosen: Ints, rows: Words, amount: int) -> Ints:
    picks = choose(rows, chosen.shape[1], amount)
    found: Ints = np.take_along_axis(chosen, picks, axis=1)
    return found


def arrive(state: GossipState, targets: Ints, brands: Ints, turn: int, size: int) -> int:
    """Copies reach live processes, in this order; how many have heard now."""
    state.counts[ARRIVED] += targets.size
    if state.copies.size:
        np.add.at(state.copies, targets, 1)
    if state.marks.size:
        for at in np.flatnonzero((state.marks[targets] != 0) & (brands > 0)):
            for link in state.links[: state.counts[LINKS]]:
                if link[WHO] == targets[at] and link[NAMING] == brands[at] and link[RECEIVED] < 0:
                    link[RECEIVED] = turn
    new = np.flatnonzero(state.received[targets] == NEVER)
    if not new.size:
        return size
    found, positions = np.unique(targets[new], return_index=True)
    order = np.argsort(positions)
    found, positions = found[order], new[positions[order]]
    state.received[found] = turn
    state.queue[size : size + found.size] = found
    if state.brands.size:
        state.brands[found] = brands[positions]
    return int(size + found.size)


def name_links(arena: Arena, state: GossipState, draws: GossipDraws, process: int, turn: int) -> None:
    """An entry process names itself, and members of its topic table, as links of its group."""
    cls = int(np.searchsorted(arena.starts, process, "right")) - 1
    own, counts = int(arena.first[cls]), state.counts
    if arena.first[cls + 1] - own < 2 or counts[NAMINGS] >= 250:
        return
    if counts[LINKS] + draws.names > state.links.shape[0]:
        return
    counts[NAMINGS] += 1
    state.brands[process] = counts[NAMINGS]
    one = np.array([process], np.int64)
    known = tables(arena, draws.views, own, one)
    known = picked_from(known, rows_of(draws.event, NAME_DRAWS, one), draws.names - draws.own)
    for order, who in enumerate([process] * draws.own + [*known[0]]):
        state.links[counts[LINKS]] = (who, counts[NAMINGS], order, turn if order < draws.own else -1, 0)
        state.marks[who] = 1
        counts[LINKS] += 1


Sends = tuple[Ints, Ints, Ints, Ints, Ints]  # place in the queue, section, entry, target, brand


def _acted(
    arena: Arena, state: GossipState, draws: GossipDraws, positions: Ints, processes: Ints, s: int
) -> Sends:  # fmt: skip
    """Messages that processes of one class send for one section, and those that reach a live process."""
    kind, exact = int(arena.sections[s, KIND]), int(arena.sections[s, EXACT])
    elect, each = arena.chances[s]
    rows = rows_of(draws.event, s, processes)
    if elect < 1.0:
        kept = chances_of(rows, 0) < elect
        if draws.forced:
            kept |= processes == draws.publisher
        positions, processes, rows = positions[kept], processes[kept], rows[kept]
    chosen = tables(arena, draws.views, s, processes)
    if exact:
        chosen = picked_from(chosen, rows_of(draws.event, PICK_DRAWS + s, processes), exact)
    entries = np.arange(chosen.shape[1], dtype=np.int64)[None, :]
    sent = chosen != processes[:, None]
    wide = rows[:, None]
    if each < 1.0:
        sent &= chances_of(wide, 1 + 4 * entries) < each
    if draws.apparent > 0.0:
        sent &= chances_of(wide, 2 + 4 * entries) >= draws.apparent
    state.counts[kind] += int(sent.sum())
    arrived = sent & (state.received[chosen] != CRASHED)
    if draws.reach < 1.0:
        arrived &= chances_of(wide, 3 + 4 * entries) < draws.reach
    at, entry = np.nonzero(arrived)
    if kind == ACROSS:
        state.counts[ARRIVED_ACROSS] += at.size
    brands = 0 * at
    if state.brands.size and kind != ACROSS:
        brands = state.brands[processes[at]].astype(np.int64) if draws.names else brands + 1
    return positions[at], np.full(at.size, s, np.int64), entry, chosen[at, entry], brands


def _act_as_link(arena: Arena, state: GossipState, draws: GossipDraws, k: int, turn: int, size: int) -> int:
    process, naming = int(state.links[k, WHO]), int(state.links[k, NAMING])
    cls = int(np.searchsorted(arena.starts, process, "right")) - 1
    for s in range(int(arena.first[cls]) + 1, int(arena.first[cls + 1])):
        rows = rows_of(draws.event, LINK_DRAWS + s, np.array([process * 256 + naming], np.int64))
        chosen = tables(arena, draws.views, s, np.array([process], np.int64))
        order = int(state.links[k, ORDER])
        turns = draws.own if order < draws.own else 1
        before = order * draws.amount if turns > 1 else 0
        picked = picked_from(chosen, rows, turns * draws.amount)[0]
        for j in range(before, min(picked.size, before + draws.amount)):
            target = picked[j]
            if draws.apparent > 0.0 and chances_of(rows, 1002 + 4 * j)[0] < draws.apparent:
                continue
            state.counts[ACROSS] += 1
            if state.received[target] == CRASHED or chances_of(rows, 1003 + 4 * j)[0] >= draws.reach:
                continue
            state.counts[ARRIVED_ACROSS] += 1
            reached = size
            size = arrive(state, np.array([target]), np.zeros(1, np.int64), turn + 1, size)
            if size > reached:
                name_links(arena, state, draws, int(target), turn + 1)
    return size


def _acting(
    arena: Arena, state: GossipState, draws: GossipDraws, processes: Ints, leaders: Ints, s: int, cls: int
) -> NDArray[np.bool_]:
    role = arena.sections[s, ROLE]
    if role == ENTRY:
        return np.asarray(state.brands[processes] == 0, np.bool_)
    only = {PUBLISHER: draws.publisher, FIRST: leaders[cls]}.get(role)
    found: NDArray[np.bool_] = np.ones(processes.size, np.bool_) if only is None else processes == only
    return found


def _part(
    arena: Arena, state: GossipState, draws: GossipDraws, leaders: Ints, kind: int, begin: int, end: int,
    delay: int,
    turn: int, size: int,
) -> int:  # fmt: skip
    """The sends of one kind of a stretch of the queue."""
    processes = state.queue[begin:end].astype(np.int64)
    positions = np.arange(begin, end, dtype=np.int64)
    classes = np.searchsorted(arena.starts, processes, "right") - 1
    found: list[Sends] = []
    for cls in np.unique(classes):
        mine = classes == cls
        for s in range(int(arena.first[cls]), int(arena.first[cls + 1])):
            if arena.sections[s, DELAY] != delay or kind not in (BOTH, arena.sections[s, KIND]):
                continue
            acting = mine & _acting(arena, state, draws, processes, leaders, s, int(cls))
            if acting.any():
                found.append(_acted(arena, state, draws, positions[acting], processes[acting], s))
    if not found:
        return size
    position, section, entry, target, brand = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.lexsort((entry, section, position))
    return arrive(state, target[order], brand[order], turn + 1, size)


def spread(arena: Arena, state: GossipState, draws: GossipDraws) -> int:
    """Fills the state; how many rounds there were."""
    leaders = np.full(arena.starts.size, -1, np.int64)
    bounds = [0]
    state.received[draws.publisher], state.queue[0], size, turn = 0, draws.publisher, 1, 0
    if draws.names:
        name_links(arena, state, draws, draws.publisher, 0)
    while turn < LAST_ROUND:
        bounds.append(size)
        fresh = state.queue[bounds[turn] : size].astype(np.int64)
        classes = np.searchsorted(arena.starts, fresh, "right") - 1
        for cls, at in zip(*np.unique(classes, return_index=True), strict=True):
            if leaders[cls] < 0:
                leaders[cls] = fresh[at]
        for delay in range(min(draws.most_delay, turn), -1, -1):
            upto = bounds[turn - delay + 1]
            for kind in (BOTH,) if draws.mixed else (INSIDE,) if draws.names else (INSIDE, ACROSS):
                for begin in range(bounds[turn - delay], upto, PART):
                    end = min(begin + PART, upto)
                    size = _part(arena, state, draws, leaders, kind, begin, end, delay, turn, size)
        for k in range(int(state.counts[LINKS])):
            link = state.links[k]
            if (
                not link[DONE]
                and link[RECEIVED] >= 0
                and link[RECEIVED] + link[ORDER] * draws.stagger <= turn
            ):
                link[DONE] = 1
                size = _act_as_link(arena, state, draws, k, turn, size)
        turn += 1
        links = state.links[: state.counts[LINKS]]
        is_waiting = bounds[max(0, turn - draws.most_delay)] < size or bool(
            ((links[:, RECEIVED] >= 0) & (links[:, DONE] == 0)).any()
        )
        if size == bounds[turn] and not is_waiting:
            break
    state.counts[REACHED] = size
    return turn
