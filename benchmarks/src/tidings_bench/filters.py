"""Speed of reading filters: W2 texts to normal form, one core, no cache.

The peer, rule-engine, compiles the same filters in its own words in the same run, on fewer of them
(it is slow). Loading keeps every filter, and reports CPU seconds and the memory that they hold.
"""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from tidings.language.text import read_filter
from tidings.model.constraint import Constraint, Equals, Exists, OneOf, Prefix, Range
from tidings.model.filter import Filter
from tidings_bench.schema import BLOCK
from tidings_bench.workloads import Market, filters

Row: TypeAlias = dict[str, Any]

READING = "W2 filters read"
LOADING = "W2 filters loaded"
SAMPLE = 20_000
PEER_SAMPLE = 500
MILLION = 1_000_000


def run(count: int = MILLION, seed: int = 0, *, quick: bool = False) -> Iterator[Row]:
    """Rows for reading filters, ours and the peers', then for loading `count` of them (20,000 if quick)."""
    yield from reading(seed)
    yield from loading(min(count, SAMPLE) if quick else count, seed)


def reading(seed: int = 0, size: int = SAMPLE) -> list[Row]:
    """Filters read per CPU second, none kept."""
    sample = list(filters(_workload(seed), size, text=True))
    ours = _rate(read_filter, [filter.text for filter in sample])
    some = sample[:PEER_SAMPLE]
    peers = [(engine, _rate(compiler, rules)) for engine, compiler, rules in _peers(some)]
    best = max((rate for _, rate in peers), default=None)
    rows = [_row(READING, size, "tidings", ours, "filters/s", best)]
    return rows + [_row(READING, len(some), engine, rate, "filters/s", best) for engine, rate in peers]


def loading(count: int, seed: int = 0) -> list[Row]:
    """CPU seconds to read `count` filters and keep them, and the bytes that each one takes."""
    gc.collect()
    before = _resident()
    kept: list[Filter] = []
    seconds = 0.0
    for texts in _blocks(count, seed):
        began = time.process_time()
        kept.extend(map(read_filter, texts))
        seconds += time.process_time() - began
    gc.collect()
    each = (_resident() - before) / len(kept)
    return [
        _row(LOADING, len(kept), "tidings", seconds, "s", None),
        _row(LOADING, len(kept), "tidings", each, "bytes/filter", None),
    ]


def _workload(seed: int) -> Market:
    return Market("W2" if seed == 0 else f"W2 {seed}")


def _blocks(count: int, seed: int) -> Iterator[list[str]]:
    """Texts block by block, so that making them takes no lasting memory."""
    for block in _workload(seed).blocks(text=True):
        yield [filter.text for filter in block[:count]]
        count -= BLOCK
        if count <= 0:
            return


def _rate(read: Callable[[str], object], texts: list[str]) -> float:
    """Texts read per CPU second: the best of three rounds, as the machine is shared."""
    best = 0.0
    for _ in range(3):
        began = time.process_time()
        for text in texts:
            read(text)
        best = max(best, len(texts) / (time.process_time() - began))
    return best


def _row(work: str, size: int, engine: str, figure: float, unit: str, best_peer: float | None) -> Row:
    return {
        "work": work,
        "size": size,
        "engine": engine,
        "figure": round(figure, 1),
        "unit": unit,
        "ratio_to_best_peer": None if best_peer is None else round(figure / best_peer, 2),
    }


def _resident() -> int:
    """Bytes of memory that this process holds now; its peak, where the system tells no more."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _peers(some: list[Filter]) -> Iterator[tuple[str, Callable[[str], object], list[str]]]:
    """(engine, its compiler, the filters in its words), for each peer that is installed."""
    if find_spec("rule_engine"):
        import rule_engine

        yield "rule-engine", rule_engine.Rule, [in_rule_engine(filter) for filter in some]


def in_rule_engine(filter: Filter) -> str:
    """A W2 filter in rule-engine's words."""
    (only,) = filter.conjunctions
    return " and ".join(map(_in_rule_engine, only.constraints))


def _in_rule_engine(constraint: Constraint) -> str:
    match constraint:
        case Equals(attribute=name, value=value):
            return f"{name} == {_quoted(value)}"
        case OneOf(attribute=name, values=values):
            return f"{name} in [{', '.join(map(_quoted, values))}]"
        case Prefix(attribute=name, prefix=prefix):
            return f'{name} =~ "{prefix}"'
        case Exists(attribute=name):
            return f"{name} != null"
        case Range(attribute=name, low=low, high=high):
            lower = [] if low is None else [f"{name} {'>' if constraint.low_open else '>='} {low}"]
            upper = [] if high is None else [f"{name} {'<' if constraint.high_open else '<='} {high}"]
            return " and ".join(lower + upper)
    raise ValueError(f"W2 has no {type(constraint).__name__}")


def _quoted(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
