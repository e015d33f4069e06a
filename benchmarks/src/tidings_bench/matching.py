"""`tidings bench matching`: events a second against many subscriptions, peers in the same run.

Figures are per CPU second of one core, since machines are shared; a ratio compares with the best
peer on the same work and size in this run: single events with peers that take single events, columns
with all. A peer that is linear in its subscriptions and got
fewer of them is scaled to the full number, which its engine column says. Ours: `one by one` is an
`Event` in and an array of handles out; `columns` is an Arrow record batch in, offsets and handles
out. Cells are cut by a thousand events that are not measured.
"""

from __future__ import annotations

import gc
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeAlias

from tidings.errors import FilterError, InputError
from tidings.language import parse_filter
from tidings.matching.columnar.matcher import ColumnarMatcher
from tidings.model.event import Event, make_event
from tidings.model.filter import Filter
from tidings_bench.peers import MatchingPeer, peers
from tidings_bench.rich import QUICK_SIZES as QUICK_RICH
from tidings_bench.rich import RICH, rich_rows
from tidings_bench.rich import SIZES as RICH_SIZES
from tidings_bench.workloads import MatchingWorkload, events, filters, record_batch, workload
from tidings_lab.matching.boxes import BoxMatcher
from tidings_lab.matching.counting import CountingMatcher
from tidings_lab.matching.tree import TreeMatcher

Row: TypeAlias = dict[str, Any]

SIZES = (1_000, 10_000, 100_000, 1_000_000)
QUICK_SIZES = (1_000, 10_000)
WORKS = ("W1", "W2", "W3", "W4")
ADVERSARIES = ("W4hot", "W4shared", "W4unseen")
PLAIN, MIXED = "W2", "W4"
OURS = "tidings"
TURNS = 7
MEMORY, CHURN = "memory", "churn"
MEMORY_SIZES, QUICK_MEMORY = (100_000, 1_000_000), (20_000,)
SAMPLE = 1_000  # events that cells are cut by
SINGLE, BATCH = 3_000, 8_000
PEER_SECONDS = 1.0  # CPU seconds that a peer is measured for ...
PEER_ROUNDS = 3  # ... in so many turns, with the others between
CLASSICAL_MOST = 10_000  # subscriptions that the classical indexes are measured with


def run(
    *,
    quick: bool = False,
    only: str | None = None,
    subscriptions: str | None = None,
    events: str | None = None,
    plots: str | None = None,
) -> Iterator[Row]:
    """Rows of every workload and size, then memory and churn; or of the files given.

    `only`: some of the works, with commas between. `plots`: a folder for drawings.
    """
    if (subscriptions is None) is not (events is None):
        raise InputError("give --subscriptions and --events together")
    if subscriptions is not None and events is not None:
        yield from own_files(subscriptions, events)
        return
    chosen = chosen_works(only)
    rows: list[Row] = []
    kept: dict[str, ColumnarMatcher] = {}
    for size in QUICK_SIZES if quick else SIZES:
        for name in WORKS if size > max(QUICK_SIZES) else (*WORKS, *ADVERSARIES):
            for made in one_work(workload(name), size, kept) if name in chosen else ():
                rows.append(made)
                yield made
        yield from mixed_over_plain(kept, size)
        kept.clear()
    if plots is not None:
        from tidings_bench.plots import plot

        plot(rows, plots)
    for name in RICH:
        if name in chosen:
            yield from rich_rows(name, QUICK_RICH if quick else RICH_SIZES, rate, row)
    if MEMORY in chosen:
        yield from whole_brokers(QUICK_MEMORY if quick else MEMORY_SIZES)
    if CHURN in chosen:
        from tidings_bench.churn import churn

        yield from churn(10_000 if quick else 1_000_000, 3.0 if quick else 60.0)


def chosen_works(only: str | None) -> set[str]:
    known = (*WORKS, *ADVERSARIES, *RICH, MEMORY, CHURN)
    names = set(known) if only is None else {name.strip() for name in only.split(",")}
    for name in sorted(names.difference(known)):
        raise InputError(f"there is no work {name!r}", hint=f"there are {', '.join(known)}")
    return names


def whole_brokers(sizes: Sequence[int]) -> Iterator[Row]:
    """Bytes that a subscription takes of a whole broker process."""
    from tidings_bench.memory import memory

    for size in sizes:
        for broker, figure in memory(size):
            yield row(MEMORY, size, f"tidings, {broker}", figure, "bytes/subscription", None)


def mixed_over_plain(matchers: Mapping[str, ColumnarMatcher], size: int) -> Iterator[Row]:
    """Cost of an event in W4, as a multiple of its cost in W2: measured in turns, since other programs
    come and go, and the best of each."""
    if not {PLAIN, MIXED} <= matchers.keys():
        return
    single, batch = dict[str, float](), dict[str, float]()
    works = {name: (matchers[name], events(workload(name), SINGLE)) for name in (PLAIN, MIXED)}
    columns = {name: record_batch(workload(name), BATCH) for name in (PLAIN, MIXED)}
    for _ in range(TURNS):
        for name, (matcher, probes) in works.items():
            took = _cpu(lambda one=matcher.match, some=probes: list(map(one, some))) / len(probes)  # type: ignore[misc]
            single[name] = min(single.get(name, took), took)
            took = _cpu(lambda many=matcher.match_batch, some=columns[name]: many(some)) / BATCH  # type: ignore[misc]
            batch[name] = min(batch.get(name, took), took)
    for engine, costs in (("tidings, one by one", single), ("tidings, columns", batch)):
        yield row("W4 over W2", size, engine, costs[MIXED] / costs[PLAIN], "times the cost", None)


def _cpu(work: Callable[[], Any]) -> float:
    began = time.process_time()
    work()
    return max(time.process_time() - began, 1e-9)


def row(work: str, size: int, engine: str, figure: float, unit: str, best: float | None) -> Row:
    ratio = None if best is None else round(figure / best, 2)
    return {
        "work": work, "size": size, "engine": engine, "figure": round(figure, 2), "unit": unit,
        "ratio_to_best_peer": ratio,
    }  # fmt: skip


def rate(match: Callable[[Sequence[Any]], Any], some: Sequence[Any], seconds: float | None = None) -> float:
    """Events a CPU second; the best of a few rounds, on as many events as fit the time."""
    seconds = PEER_SECONDS if seconds is None else seconds
    count, best, spent = min(4, len(some)), 0.0, 0.0
    while spent < seconds:
        began = time.process_time()
        match(some[:count])
        took = max(time.process_time() - began, 1e-9)
        spent += took
        best = max(best, count / took)
        count = min(len(some), max(count, int(count * seconds / 4 / took)))
    return best


def one_work(
    made: MatchingWorkload, size: int, kept: dict[str, ColumnarMatcher] | None = None
) -> Iterator[Row]:
    """One workload at one size: ours, the peers, the classical indexes when few."""
    probes = events(made, SINGLE)
    sample = events(made, SAMPLE, start=50_000)
    few = size <= CLASSICAL_MOST or made.name == "W1"
    population = list(filters(made, size)) if few else list(filters(made, 1_000))
    matcher = ColumnarMatcher()
    began = time.process_time()
    matcher.load(population if few else filters(made, size), sample=sample)
    loaded = time.process_time() - began
    if kept is not None and made.name in (PLAIN, MIXED):
        kept[made.name] = matcher
    rivals = list(peers(population, matcher.table, boxes=made.name == "W1"))
    columns = record_batch(made, BATCH)
    figures = _in_turns([*_ours(matcher, size, columns), *rivals], probes, size)
    for label, figure in figures.items():
        yield row(made.name, size, label, figure.rate, "events/s", _best(figures, batch=figure.batch))
    found = matcher.match_batch(columns)
    yield row(made.name, size, "tidings", len(found.handles) / BATCH, "matches/event", None)
    stats = matcher.stats()
    yield row(made.name, size, "tidings", loaded / size * 1e6, "us/subscription to load", None)
    yield row(made.name, size, "tidings", stats["bytes"] / size, "bytes/subscription", None)
    if size <= CLASSICAL_MOST:
        yield from _classical(made, population, probes, _best(figures, batch=False))
    if made.name == "W2":
        yield from _threads_and_files(made, size, matcher, probes)


class Figure(NamedTuple):
    rate: float
    batch: bool  # many events at once


def _best(figures: Mapping[str, Figure], *, batch: bool) -> float | None:
    """The best peer's rate: of all for batches, of those that take single events for single events."""
    rates = [f.rate for label, f in figures.items() if (batch or not f.batch) and not label.startswith(OURS)]
    return max(rates, default=None)


def _ours(matcher: ColumnarMatcher, size: int, columns: Any) -> list[MatchingPeer]:
    """Our two ways in, as peers are."""
    return [
        MatchingPeer(f"{OURS}, one by one", lambda some: len(list(map(matcher.match, some))), False, size),
        MatchingPeer(
            f"{OURS}, columns", lambda some: len(matcher.match_batch(some)), True, size, lambda _: columns
        ),
    ]


def _in_turns(rivals: list[MatchingPeer], probes: list[Event], size: int) -> dict[str, Figure]:
    """The best rate of each over some rounds, in turns: other programs come and go."""
    best: dict[str, Figure] = {}
    prepared = {peer.name: peer.prepared(probes) for peer in rivals}
    for _ in range(PEER_ROUNDS):
        for peer in rivals:
            scale = peer.subscriptions / size
            label = peer.name if scale == 1 else f"{peer.name} (scaled from {peer.subscriptions})"
            reached = rate(peer.match, prepared[peer.name], PEER_SECONDS / PEER_ROUNDS) * scale
            figure = best.get(label)
            best[label] = Figure(max(figure.rate if figure else 0.0, reached), peer.batch)
    return best


def _classical(
    made: MatchingWorkload, population: list[Filter], probes: list[Event], best: float | None
) -> Iterator[Row]:
    kinds: list[Any] = [CountingMatcher, TreeMatcher]
    for kind in [*kinds, BoxMatcher] if made.name == "W1" else kinds:
        index = kind()
        for filter in population:
            index.add(filter)
        index.maintain(1)
        figure = rate(lambda some, match=index.match: list(map(match, some)), probes)  # type: ignore[misc]
        yield row(made.name, len(population), f"tidings, {index.stats()['engine']}", figure, "events/s", best)


def _threads_and_files(
    made: MatchingWorkload, size: int, matcher: ColumnarMatcher, probes: list[Event]
) -> Iterator[Row]:
    columns = record_batch(made, BATCH)
    for engine, work in (
        ("tidings, columns", lambda: matcher.match_batch(columns)),
        ("an idle loop", _idle()),
    ):
        figure = max(_two_threads(work) for _ in range(3))
        yield row(made.name, size, f"{engine}, two threads", figure, "times one thread", None)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "table"
        began = time.perf_counter()
        matcher.save(path)
        yield row(made.name, size, "tidings", (time.perf_counter() - began) * 1e3, "ms to save", None)
        began = time.perf_counter()
        opened = ColumnarMatcher.open(path, verify=False)
        opened.match(probes[0])
        yield row(made.name, size, "tidings", (time.perf_counter() - began) * 1e3, "ms to open", None)


def _idle() -> Callable[[], Any]:
    """A compiled loop that touches no memory: what two threads can reach on this machine, just now."""
    from numba import njit

    @njit(nogil=True)  # type: ignore[untyped-decorator]
    def count(upto: int) -> int:
        total = 1
        for step in range(upto):
            total = (total * 1103515245 + step) & 0x7FFFFFFF
        return total

    count(1)
    return lambda: count(30_000_000)


def _two_threads(work: Callable[[], Any]) -> float:
    """Speed-up of two threads over one."""
    work()
    return 2 * _wall(work, 1) / _wall(work, 2)


def _wall(work: Callable[[], Any], threads: int) -> float:
    """Wall seconds for every thread to do the work once."""
    gc.collect()
    some = [threading.Thread(target=work) for _ in range(threads)]
    began = time.perf_counter()
    for thread in some:
        thread.start()
    for thread in some:
        thread.join()
    return time.perf_counter() - began


def own_files(subscriptions: str, events: str) -> Iterator[Row]:
    """The same for anyone's files: lines {"id", "filter"}, and events as objects of attributes."""
    population = [_filter(value, where) for where, value in _objects(subscriptions)]
    probes = [
        make_event(value, source="bench", id=str(number))
        for number, (_, value) in enumerate(_objects(events), 1)
    ]
    matcher = ColumnarMatcher()
    matcher.load(population, sample=probes[::2])
    rivals = list(peers(population, matcher.table, boxes=False))
    figures = _in_turns(rivals, probes, len(population))
    best = _best(figures, batch=True)
    name, size = Path(subscriptions).name, len(population)
    single = rate(lambda some: [matcher.match(e) for e in some], probes)
    yield row(name, size, "tidings, one by one", single, "events/s", best)
    yield row(name, size, "tidings, batch", rate(matcher.match_batch, probes), "events/s", best)
    for label, figure in figures.items():
        yield row(name, size, label, figure.rate, "events/s", best)


def _objects(path: str) -> list[tuple[str, dict[str, Any]]]:
    """The objects of a file, one a line, each with where it stands."""
    found = []
    with Path(path).open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                found.append((f"{path}, line {number}", _object(line, f"{path}, line {number}")))
    if not found:
        raise InputError(f"{path} is empty", hint="it holds JSON objects, one a line")
    return found


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise InputError(f"{where}: no JSON: {error}") from None
    if not isinstance(value, dict):
        raise InputError(f"{where}: no JSON object")
    return value


def _filter(value: dict[str, Any], where: str) -> Filter:
    text = value.get("filter")
    if not isinstance(text, str):
        raise InputError(f'{where}: no "filter"', hint='a line is {"id": "a", "filter": "price > 3"}')
    try:
        return parse_filter(text)
    except FilterError as error:
        raise InputError(f"{where}: {error}") from None
