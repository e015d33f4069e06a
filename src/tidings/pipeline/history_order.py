"""The second pass of the sieve: all that one receiver got from one source, in order.

A receiver is suspicious that got an event after a later one of its source, or has an unsettled claim
between two events that it got while its subscription stood. The rules of suspicion are those of
`history_sieving.py`; what that pass has found travels through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from tidings.pipeline.history_intervals import Flags, IntervalIndex
from tidings.pipeline.history_sieving import (
    DELIVERED,
    MOST,
    NAMES,
    OPEN,
    SAID,
    Findings,
    SieveRequest,
    Suspect,
    groups_for,
    one,
    said,
)


def streamed(request: SieveRequest, batches: Iterable[Any]) -> Iterator[Any]:
    """The body of the pass."""
    import pyarrow as pa
    import pyarrow.compute as pc

    stored = [batch for batch in batches if batch.num_rows]
    if not stored:
        return
    table = pa.Table.from_batches(stored)
    passing = table.filter(pc.equal(table.column("kind"), SAID))
    yield from passing.to_batches()
    rows = table.filter(pc.not_equal(table.column("kind"), SAID)).combine_chunks()
    found = Findings(suspects=sorted(set(_stream_suspects(request, rows))))
    yield said(found if len(found.suspects) <= MOST else Findings(gave_up=f"more than {MOST:,} suspects"))


def _stream_suspects(request: SieveRequest, rows: Any) -> Iterator[Suspect]:
    if not rows.num_rows:
        return
    coded = one(rows.column("source")).dictionary_encode()
    words, source = coded.dictionary.to_pylist(), coded.indices.to_numpy(zero_copy_only=False)
    batch = {name: one(rows.column(name)).to_numpy(zero_copy_only=False) for name in NAMES[3:7] + NAMES[:2]}
    rules: list[tuple[bool, Callable[..., Any]]] = [(request.order, _overtaken), (request.gaps, _left_out)]
    groups = groups_for(request)
    for wanted, rule in rules:
        if wanted:
            for at in np.flatnonzero(rule(groups, source, batch)).tolist():
                yield (*groups.names[int(batch["interval"][at])], words[int(source[at])])


def _overtaken(groups: IntervalIndex, source: Any, batch: dict[str, Any]) -> Flags:  # noqa: ARG001
    """Rows delivered after an event of their source that was published later."""
    rows = np.flatnonzero(batch["kind"] == DELIVERED)
    columns = [batch[name][rows] for name in ("sequence", "published", "time")] + [
        source[rows], batch["interval"][rows]
    ]  # fmt: skip
    order = np.lexsort(columns)
    sequence, published, _, stream, interval = (column[order] for column in columns)
    same = (stream[1:] == stream[:-1]) & (interval[1:] == interval[:-1])
    earlier = published[1:] < published[:-1]
    earlier |= (published[1:] == published[:-1]) & (sequence[1:] < sequence[:-1])
    found = np.zeros(len(source), bool)
    found[rows[order[1:][same & earlier]]] = True
    return found


def _left_out(groups: IntervalIndex, source: Any, batch: dict[str, Any]) -> Flags:
    """Unsettled claims with a delivery before and after them, while the subscription stood."""
    since = groups.since[batch["interval"]]
    found = np.zeros(len(source), bool)
    if not (batch["kind"] == OPEN).any():
        return found
    part = (batch["kind"] == OPEN) | (batch["published"] > since)
    rows = np.flatnonzero(part)
    columns = [
        batch["sequence"][rows],
        batch["published"][rows],
        since[rows],
        source[rows],
        batch["receiver"][rows],
    ]
    order = np.lexsort(columns)
    keys = [column[order] for column in columns[2:]]
    begins = np.r_[True, np.any([key[1:] != key[:-1] for key in keys], axis=0)]
    group = np.cumsum(begins) - 1
    received = batch["kind"][rows][order] != OPEN
    before = np.cumsum(received) - received
    first, size = np.flatnonzero(begins), np.bincount(group, received).astype(np.int64)
    delivered_before = before - before[first][group]
    between = ~received & (delivered_before > 0) & (delivered_before < size[group])
    found[rows[order[between]]] = True
    return found
