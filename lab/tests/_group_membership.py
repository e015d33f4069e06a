"""Section 3 of Mathur et al. 1995 on a recorded run of a group: who was up, who was in whose view, who had
which event.

Rules
- The predicates are the report's. DOWN: the last of `crash` and `restart` rows of a process is a `crash`. UP:
  it is not down and installed a view. JOINED_p(q): q is in the last view that p installed since it is up.
  RCV: an `avail` or `recv` row.
- "Eventually" is judged at the end of the run, for what happened at least `grace` seconds before.
- A restarted process is another process (3.1): nothing that an earlier life was owed is owed to the next one.
- Views of one number share all or nothing, and the views of majorities make one sequence: `view_agreement`
  judges the first (as corrected, E-U1), `total_order` the second.
- Publish guarantee 2 as corrected (E-U2): whoever was down in between owes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from tidings.history.schema import AVAIL, CRASH, RECV, RESTART, VIEW, Row
from tidings.history.story import seconds

GRACE = 20.0  # seconds for something to come about


class GroupRun:
    """What the rows say of the processes of one group."""

    def __init__(self, rows: Sequence[Row], grace: float = GRACE) -> None:
        self.rows = sorted(rows, key=lambda row: row.time)
        self.grace = grace
        self.end = self.rows[-1].time if self.rows else 0.0
        self.views: dict[str, list[Row]] = {}
        self.lives: dict[str, list[Row]] = {}
        self.received: dict[tuple[str, str], list[Row]] = {}  # by event
        for row in self.rows:
            if row.op == VIEW:
                self.views.setdefault(row.process, []).append(row)
            elif row.op in (CRASH, RESTART):
                self.lives.setdefault(row.process, []).append(row)
            elif row.op in (AVAIL, RECV):
                self.received.setdefault((str(row.source), str(row.event)), []).append(row)

    def down_since(self, process: str) -> float | None:
        """None: it is up at the end."""
        last = self.lives.get(process, [])[-1:]
        return last[0].time if last and last[0].op == CRASH else None

    def up_since(self, process: str, at: float = float("inf")) -> float:
        """When the life began that it had then."""
        starts = [row.time for row in self.lives.get(process, []) if row.op == RESTART and row.time <= at]
        return starts[-1] if starts else 0.0

    def was_down(self, process: str, start: float) -> bool:
        return any(row.op == CRASH and row.time >= start for row in self.lives.get(process, []))

    def stayed(self, process: str, start: float) -> bool:
        """No view that anybody installed from then on was without it: else it joined again, as a newcomer
        does."""
        later = (row for rows in self.views.values() for row in rows if row.time >= start)
        return all(process in (row.members or ()) for row in later)

    def up(self) -> list[str]:
        return [process for process in sorted(self.views) if self.down_since(process) is None]

    def view_of(self, process: str) -> Row | None:
        since = self.up_since(process)
        views = [row for row in self.views[process] if row.time >= since]
        return views[-1] if views else None

    def members_of(self, process: str) -> tuple[str, ...]:
        view = self.view_of(process)
        return () if view is None else view.members or ()


def failures(run: GroupRun) -> Iterator[str]:
    """If q crashes, then eventually p removes q from its view, or p crashes."""
    for q in sorted(run.views):
        down = run.down_since(q)
        if down is None or run.end - down < run.grace:
            continue
        for p in run.up():
            if q in run.members_of(p):
                yield f"{q} crashed at {seconds(down)}, and is in the last view of {p}."


def joins(run: GroupRun) -> Iterator[str]:
    """If q is up, then eventually p adds q to its view, or p crashes; a process that came back is up again
    soon."""
    for q in run.up():
        if run.end - run.up_since(q) < run.grace:
            continue
        for p in run.up():
            if q not in run.members_of(p) and run.end - run.up_since(p) >= run.grace:
                yield f"{q} is up since {seconds(run.up_since(q))}, and not in the last view of {p}."


def reciprocity(run: GroupRun) -> Iterator[str]:
    """If q is not in the view of p and does not crash, then eventually p is not in that of q."""
    for p in run.up():
        view = run.view_of(p)
        if view is None or run.end - view.time < run.grace:
            continue
        for q in run.up():
            if q not in run.members_of(p) and p in run.members_of(q):
                yield f"{q} is not in the last view of {p}, but {p} is in that of {q}."


def total_order(run: GroupRun) -> Iterator[str]:
    """Views of majorities make one sequence, in which each shares somebody with the next."""
    by_number: dict[int, set[str]] = {}
    for rows in run.views.values():
        for row in rows:
            by_number.setdefault(row.view or 0, set()).update(row.members or ())
    for (one, members), (other, others) in pairwise(sorted(by_number.items())):
        if not members & others:
            yield f"Views {one} and {other} share nobody: they are not of majorities of one group."


def multicast(run: GroupRun) -> Iterator[str]:
    """If d receives an event and stays up, then eventually each d' that was in its view then, and stays up,
    does."""
    for (source, event), rows in run.received.items():
        have = {row.process for row in rows}
        for row in rows:
            for other in _owing(run, row):
                if other not in have:
                    delivered = f"{row.process} had {event} of {source} at {seconds(row.time)}"
                    yield f"{delivered}, and {other}, which was in its view, never."


def _owing(run: GroupRun, row: Row) -> list[str]:
    """Who must have, in the end, the event that this process received."""
    process, time = row.process, row.time
    if process not in run.views or run.end - time < run.grace or run.was_down(process, time):
        return []
    seen = [view for view in run.views[process] if run.up_since(process, time) <= view.time <= time]
    return [
        other
        for other in (seen[-1].members or () if seen else ())
        if other in run.views
        and not run.was_down(other, time)
        and run.up_since(other) <= seen[-1].time
        and run.stayed(other, time)
    ]


def sender_order(run: GroupRun) -> Iterator[str]:
    """Events of one life of a publisher reach each distributor in the order of their numbers."""
    last: dict[tuple[str, str, str], int] = {}
    for row in run.rows:
        if row.op == CRASH:  # its next life begins anew
            last = {key: mark for key, mark in last.items() if key[0] != row.process}
        if row.op != RECV:
            continue
        life, _, number = str(row.event).rpartition("-")
        if not number.isdecimal():
            continue
        key = (row.process, str(row.source), life)
        before = last.get(key, 0)
        if int(number) <= before:
            yield (
                f"At {seconds(row.time)} {row.process} received {row.event} of {row.source} after "
                f"number {before}."
            )
        last[key] = max(before, int(number))


CHECKS = {
    "failures": failures,
    "joins": joins,
    "reciprocity": reciprocity,
    "total_order": total_order,
    "multicast": multicast,
    "sender_order": sender_order,
}


def check_group(rows: Sequence[Row], *, grace: float = GRACE) -> dict[str, str | None]:
    """By name of the property: its first counterexample, or None when it holds."""
    run = GroupRun(rows, grace)
    return {name: next(iter(found(run)), None) for name, found in CHECKS.items()}
