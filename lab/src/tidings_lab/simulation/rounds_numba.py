# mypy: ignore-errors
# (types of kernels are inferred by Numba when it compiles them)
"""One dissemination in synchronous rounds, compiled. The rules are those of `rounds.py`; imported only with
Numba.

`rounds_numpy.py` does the same with NumPy and gives the same answer, bit for bit: every draw is a hash of
what it is for, and the sends of a round happen in the order in which their senders heard the event.
"""

from __future__ import annotations

import numpy as np
from numba import njit

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
    KIND,
    LAST_ROUND,
    LINK_DRAWS,
    LINKS,
    MOST_TABLE,
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
)

compiled = njit(cache=True, nogil=True, boundscheck=False)

G = np.uint64(0x9E3779B97F4A7C15)
M1 = np.uint64(0xBF58476D1CE4E5B9)
M2 = np.uint64(0x94D049BB133111EB)
S30, S27, S31, S32, S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(32), np.uint64(11)
UNIT = 1.0 / 9007199254740992.0


@compiled
def mixed(x):
    x = (x ^ (x >> S30)) * M1
    x = (x ^ (x >> S27)) * M2
    return x ^ (x >> S31)


@compiled
def drawn(row, j):
    return mixed(row + np.uint64(j + 1) * G)


@compiled
def section_key(key, section):
    return mixed(key + np.uint64(section + 1) * G)


@compiled
def process_row(section, process):
    return mixed(section + np.uint64(process + 1) * G)


@compiled
def row_of(key, section, process):
    return process_row(section_key(key, section), process)


@compiled
def chance(row, j):
    return np.float64(drawn(row, j) >> S11) * UNIT


@compiled
def choose(row, pool, count, chosen):
    """Floyd: `count` different numbers below `pool`; how many there are."""
    if count >= pool:
        for j in range(pool):
            chosen[j] = j
        return pool
    for j in range(count):
        top = pool - count + j
        t = np.int64(((drawn(row, j) >> S32) * np.uint64(top + 1)) >> S32)
        for before in range(j):
            if chosen[before] == t:
                t = top
                break
        chosen[j] = t
    return count


@compiled
def class_at(starts, process):
    low, high = 0, starts.size - 1
    while high - low > 1:
        middle = (low + high) >> 1
        if starts[middle] <= process:
            low = middle
        else:
            high = middle
    return low


@compiled
def fill_table(row, process, start, size, fan, is_direct, members, chosen):
    """Other processes, fixed by the row; how many."""
    if is_direct:
        inside = start <= process < start + size
        count = choose(row, size - 1 if inside else size, fan, chosen)
        for j in range(count):
            other = start + chosen[j]
            chosen[j] = other + 1 if inside and other >= process else other
        return count
    count = choose(row, size, fan, chosen)
    for j in range(count):
        chosen[j] = members[start + chosen[j]]
    return count


@compiled
def table(arena, key, section, process, chosen):
    """The process's table for a section; how many entries it has."""
    start, size, fan = (
        arena.sections[section, START],
        arena.sections[section, SIZE],
        arena.sections[section, FAN],
    )
    row = row_of(key, section, process)
    return fill_table(row, process, start, size, fan, arena.direct[section], arena.members, chosen)


@compiled
def picked_from(chosen, count, row, amount, spare):
    """Leave `amount` of the first `count` in `chosen`; how many there are."""
    taken = choose(row, count, amount, spare)
    for j in range(taken):
        spare[j] = chosen[spare[j]]
    for j in range(taken):
        chosen[j] = spare[j]
    return taken


@compiled
def arrive(state, target, brand, turn, size):
    """A copy reaches a live process; how many have heard now."""
    state.counts[ARRIVED] += 1
    if state.copies.size:
        state.copies[target] += 1
    if brand and state.marks[target]:
        for k in range(state.counts[LINKS]):
            link = state.links[k]
            if link[WHO] == target and link[NAMING] == brand and link[RECEIVED] < 0:
                link[RECEIVED] = turn
    if state.received[target] != NEVER:
        return size
    state.received[target] = turn
    state.queue[size] = target
    if state.brands.size:
        state.brands[target] = brand
    return size + 1


@compiled
def name_links(arena, state, draws, process, turn, chosen, spare):
    """An entry process names itself, and members of its topic table, as links of its group."""
    cls = class_at(arena.starts, process)
    own, counts = arena.first[cls], state.counts
    if arena.first[cls + 1] - own < 2 or counts[NAMINGS] >= 250:
        return
    if counts[LINKS] + draws.names > state.links.shape[0]:
        return
    counts[NAMINGS] += 1
    state.brands[process] = counts[NAMINGS]
    known = table(arena, draws.views, own, process, chosen)
    others = draws.names - draws.own
    known = picked_from(chosen, known, row_of(draws.event, NAME_DRAWS, process), others, spare)
    for order in range(known + draws.own):
        link = state.links[counts[LINKS]]
        link[WHO] = process if order < draws.own else chosen[order - draws.own]
        link[NAMING], link[ORDER], link[DONE] = counts[NAMINGS], order, 0
        link[RECEIVED] = turn if order < draws.own else -1
        state.marks[link[WHO]] = 1
        counts[LINKS] += 1


@compiled
def act_section(arena, state, draws, leaders, cls, s, begin, end, turn, size, chosen, spare):
    """The processes queue[begin:end], all of one class, send to their tables of one section; how many have
    heard now. Everything that the loop touches is a local: this is where the time goes."""
    received, queue, brands = state.received, state.queue, state.brands
    start, pool, fan, is_direct = (
        arena.sections[s, START], arena.sections[s, SIZE], arena.sections[s, FAN], arena.direct[s],
    )  # fmt: skip
    kind, role, exact = arena.sections[s, KIND], arena.sections[s, ROLE], arena.sections[s, EXACT]
    elect, each = arena.chances[s, 0], arena.chances[s, 1]
    views, event = section_key(draws.views, s), section_key(draws.event, s)
    picks = section_key(draws.event, PICK_DRAWS + s)
    members, publisher, forced = arena.members, draws.publisher, draws.forced
    reach, apparent = draws.reach, draws.apparent
    is_plain = state.copies.size == 0 and state.marks.size == 0
    sent = arrived = 0
    before = state.counts[ARRIVED]
    for at in range(begin, end):
        process = np.int64(queue[at])
        if (role == PUBLISHER and process != publisher) or (role == FIRST and leaders[cls] != process):
            continue
        if role == ENTRY and brands[process]:
            continue
        row = process_row(event, process)
        if elect < 1.0 and not (forced and process == publisher) and chance(row, 0) >= elect:
            continue
        count = fill_table(process_row(views, process), process, start, pool, fan, is_direct, members, chosen)
        if exact:
            count = picked_from(chosen, count, process_row(picks, process), exact, spare)
        brand = 0
        if brands.size and kind != ACROSS:
            brand = np.int64(brands[process]) if draws.names else 1
        for j in range(count):
            target = chosen[j]
            if target == process or (each < 1.0 and chance(row, 1 + 4 * j) >= each):
                continue
            if apparent > 0.0 and chance(row, 2 + 4 * j) < apparent:
                continue
            sent += 1
            if received[target] == CRASHED or (reach < 1.0 and chance(row, 3 + 4 * j) >= reach):
                continue
            if not is_plain:
                size = arrive(state, target, brand, turn + 1, size)
                continue
            arrived += 1
            if received[target] == NEVER:
                received[target] = turn + 1
                queue[size] = target
                size += 1
    state.counts[kind] += sent
    state.counts[ARRIVED] += arrived
    if kind == ACROSS:
        state.counts[ARRIVED_ACROSS] += state.counts[ARRIVED] - before
    return size


@compiled
def act_as_link(arena, state, draws, k, turn, size, chosen, spare):
    """A named link sends to its supertopic tables; the first process that it reaches is an entry process and
    names links."""
    link = state.links[k]
    process = link[WHO]
    cls = class_at(arena.starts, process)
    for s in range(arena.first[cls] + 1, arena.first[cls + 1]):
        row = row_of(draws.event, LINK_DRAWS + s, process * 256 + link[NAMING])
        count = table(arena, draws.views, s, process, chosen)
        turns = draws.own if link[ORDER] < draws.own else 1
        before = link[ORDER] * draws.amount if turns > 1 else 0
        count = picked_from(chosen, count, row, turns * draws.amount, spare)
        targets = chosen[:count].copy()
        for j in range(before, min(count, before + draws.amount)):
            target = targets[j]
            if draws.apparent > 0.0 and chance(row, 1002 + 4 * j) < draws.apparent:
                continue
            state.counts[ACROSS] += 1
            if state.received[target] == CRASHED or chance(row, 1003 + 4 * j) >= draws.reach:
                continue
            state.counts[ARRIVED_ACROSS] += 1
            reached = size
            size = arrive(state, target, 0, turn + 1, size)
            if size > reached:
                name_links(arena, state, draws, target, turn + 1, chosen, spare)
    return size


@compiled
def act_stretch(arena, state, draws, leaders, kind, begin, end, delay, turn, size, chosen, spare):
    """The sends of one kind of a stretch of the queue, process by process; how many have heard now."""
    while begin < end:
        cls = class_at(arena.starts, state.queue[begin])
        first, last = arena.first[cls], arena.first[cls + 1]
        wanted = 0
        for s in range(first, last):
            wanted += (kind == BOTH or arena.sections[s, KIND] == kind) and arena.sections[s, DELAY] == delay
        stop = begin + 1
        if wanted < 2:  # neighbours of the same class need not go one by one
            while stop < end and arena.starts[cls] <= state.queue[stop] < arena.starts[cls + 1]:
                stop += 1
        for s in range(first, last):
            if (kind == BOTH or arena.sections[s, KIND] == kind) and arena.sections[s, DELAY] == delay:
                size = act_section(
                    arena, state, draws, leaders, cls, s, begin, stop, turn, size, chosen, spare
                )
        begin = stop
    return size


@compiled
def spread(arena, state, draws):
    """Fills the state; how many rounds there were."""
    chosen, spare = np.empty(MOST_TABLE, np.int64), np.empty(MOST_TABLE, np.int64)
    leaders = np.full(arena.starts.size, -1, np.int64)
    bounds = np.zeros(LAST_ROUND + 2, np.int64)
    state.received[draws.publisher], state.queue[0], size, turn = 0, draws.publisher, 1, 0
    if draws.names:
        name_links(arena, state, draws, draws.publisher, 0, chosen, spare)
    while turn < LAST_ROUND:
        bounds[turn + 1] = size
        for at in range(bounds[turn], bounds[turn + 1]):
            cls = class_at(arena.starts, state.queue[at])
            if leaders[cls] < 0:
                leaders[cls] = state.queue[at]
        for delay in range(min(draws.most_delay, turn), -1, -1):
            begin, end = bounds[turn - delay], bounds[turn - delay + 1]
            for kind in range(1 if draws.names or draws.mixed else 2):
                size = act_stretch(
                    arena,
                    state,
                    draws,
                    leaders,
                    BOTH if draws.mixed else kind,
                    begin,
                    end,
                    delay,
                    turn,
                    size,
                    chosen,
                    spare,
                )
        for k in range(state.counts[LINKS]):
            link = state.links[k]
            if (
                not link[DONE]
                and link[RECEIVED] >= 0
                and link[RECEIVED] + link[ORDER] * draws.stagger <= turn
            ):
                link[DONE] = 1
                size = act_as_link(arena, state, draws, k, turn, size, chosen, spare)
        turn += 1
        if size == bounds[turn] and not is_waiting(bounds, turn, draws.most_delay, state, size):
            break
    state.counts[REACHED] = size
    return turn


@compiled
def is_waiting(bounds, turn, most_delay, state, size):
    """Is a message still to be sent, though no new process has heard?"""
    if bounds[max(0, turn - most_delay)] < size:
        return True
    due = 0
    for k in range(state.counts[LINKS]):
        due += state.links[k, RECEIVED] >= 0 and not state.links[k, DONE]
    return due > 0
