"""Workloads from files: a published trace in JSON lines, in the schema of histories.

Rows `sub`, `usub` and `pub` are used, all others are passed over: a recorded history is a workload, too. A
row needs `time` (seconds), `process` (the client) and `op`; `sub` needs `subscription` and `filter`, `usub`
`subscription`, `pub` `attributes` (and `topic`, `type`, `lifetime`, `key` where there are any). `broker`
names the client's broker; clients without one, or whose broker the overlay does not have, are dealt out
evenly in the order in which they appear.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tidings.errors import SettingsError
from tidings.history.jsonlines import read_json_lines
from tidings.history.schema import PUB, SUB, USUB, Row
from tidings.simulation.workloads import PublishStep, Step, SubscribeStep, UnsubscribeStep, Workload

ENDINGS = (".jsonl", ".ndjson")


def is_trace(name: str) -> bool:
    """Is this the name of a file and not that of a generated workload?"""
    return name.endswith(ENDINGS)


def read_trace(path: Path, brokers: Sequence[str]) -> Workload:
    """The trace as a workload that begins at 0."""
    if not path.exists():
        raise SettingsError(f"there is no trace {path}", hint="name a file of JSON lines, or a workload")
    rows = [row for row in read_json_lines(path) if row.op in (SUB, USUB, PUB)]
    if not any(row.op == PUB for row in rows):
        raise SettingsError(f"{path} has no event", hint='a row with "op": "pub" publishes one')
    clients: dict[str, str] = {}
    for row in rows:
        if row.process not in clients:
            own = row.broker if row.broker in brokers else brokers[len(clients) % len(brokers)]
            clients[row.process] = str(own)
    start = min(row.time for row in rows)
    steps = sorted((_step(row, start, path) for row in rows), key=lambda step: step.at)
    return Workload(clients, tuple(steps))


def _step(row: Row, start: float, path: Path) -> Step:
    at = row.time - start
    if row.op == PUB:
        if row.attributes is None:
            raise SettingsError(
                f"{path}: an event of {row.process} has no attributes", hint="write {} for none"
            )
        return PublishStep(
            at=at, client=row.process, attributes=row.attributes, topic=row.topic, type=row.type or (),
            lifetime=row.lifetime or 0.0, key=row.key,
        )  # fmt: skip
    if row.subscription is None or (row.op == SUB and row.filter is None):
        raise SettingsError(
            f"{path}: a subscription of {row.process} has no name or no filter",
            hint="give it `subscription` and `filter`",
        )
    if row.op == SUB:
        return SubscribeStep(at=at, client=row.process, name=row.subscription, filter=str(row.filter))
    return UnsubscribeStep(at=at, client=row.process, name=row.subscription)
