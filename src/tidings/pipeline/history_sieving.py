"""Work of a worker in the sieve: a bucket of a history as arrays, and its suspects.

Rules
- Suspicion is cheap and complete: every violation by a property's own functions
  is suspected here. Legal rows may be suspected too; the properties judge them later.
- This pass is by event: every notification is placed in its interval, its event's content is put to
  the compiled matcher once, and unsettled claims are judged by the rules of delivery. The
  second one (`history_order.py`) is by receiver and source.
- Input that cannot be handled as arrays (a hash that two events share, attributes that are no JSON) makes the
  bucket give up with the reason; then everything is judged by the properties themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from tidings.errors import HistoryError, TidingsError
from tidings.history.acceptance import event_of
from tidings.history.attributes import from_json_values
from tidings.history.intervals import Interval
from tidings.history.jsonlines import attributes_from_text
from tidings.history.schema import OK, REDELIVERY, REFUSED
from tidings.pipeline.history_intervals import Claims, Flags, IntervalIndex, Numbers, Times, is_due, is_owed

DELIVERED, AGAIN, OPEN, SAID = 0, 1, 2, 3  # a notification, a redelivery, an unsettled claim, findings
OUTPUT: Final = (
    "kind tinyint, receiver bigint, source string, interval int, time double, published double, "
    "sequence bigint, data binary"
)
NAMES: Final = tuple(part.split()[0] for part in OUTPUT.split(", "))
MOST: Final = 5_000  # suspects, or claims in doubt, of one bucket: beyond it gives up
EVENTS_AT_ONCE: Final = 16_384

Suspect = tuple[str, str, str, str]  # run, process, subscription, source
Doubt = tuple[int, str, float, float, float, float]  # interval, source, published, lifetime, ends, available


@dataclass
class SieveRequest:
    """Targets of the sieve."""

    check: str
    receiver: str
    t_sub: float | None
    t_diff: float | None
    until: float
    late: bool  # liveness or completeness is promised
    order: bool  # FIFO is
    gaps: bool  # gap freedom is
    intervals: Any  # a broadcast of the intervals, encoded

    @property
    def streams(self) -> bool:
        return self.order or self.gaps


class Findings(msgspec.Struct, array_like=True):
    """Findings of a bucket; those of all buckets together decide what is judged again."""

    suspects: list[Suspect] = []
    doubts: list[Doubt] = []  # claims to be judged when the largest delay is known
    seen: dict[str, float] = {}  # the largest delay of each run
    gave_up: str = ""


class _SieveState:
    """The intervals of the check that this process works on."""

    check = ""
    groups: IntervalIndex | None = None


def groups_for(request: SieveRequest) -> IntervalIndex:
    if _SieveState.groups is None or _SieveState.check != request.check:
        decode = msgspec.msgpack.Decoder(Interval).decode
        _SieveState.groups, _SieveState.check = (
            IntervalIndex(map(decode, request.intervals.value), request.receiver),
            request.check,
        )
    return _SieveState.groups


def sieved(request: SieveRequest, batches: Iterable[Any]) -> Iterator[Any]:
    """The body of the first pass."""
    import pyarrow as pa

    stored = [batch for batch in batches if batch.num_rows]
    if not stored:
        return
    try:
        yield from RowBucket(request, pa.Table.from_batches(stored)).judged()
    except TidingsError as error:
        yield said(Findings(gave_up=str(error)))


class BucketEvents(NamedTuple):
    """The publications of a bucket, an entry for each event."""

    place: Any  # sorted
    rows: Any  # its first try, among the rows of publications
    published: Times
    promised: Times
    refused: Flags
    sequence: Numbers
    lifetime: Times
    ends: Times
    run: Numbers  # -1: that run has no subscription


class RowBucket:
    """The rows of some events, all of each."""

    def __init__(self, request: SieveRequest, table: Any) -> None:
        import pyarrow.compute as pc

        self.request = request
        self.groups = groups_for(request)
        op = table.column("op")
        self.tries = table.filter(pc.equal(op, "pub")).combine_chunks()
        self.notifications = table.filter(pc.equal(op, "ntfy")).combine_chunks()
        self.lost = table.filter(pc.is_in(op, _words("drop", "dead"))).combine_chunks()
        self.events = _events(self.tries, self.groups)
        self.matches = self._matches()
        self.found = Findings()

    def judged(self) -> Iterator[Any]:
        notifications = self._notifications()
        claims = self._unsettled(notifications)
        if claims is not None:
            yield from self._delivery(claims)
        if self.request.streams and notifications.rows.size:
            yield self._streamed(notifications)
        self.found.suspects = sorted(set(self.found.suspects))
        if max(len(self.found.suspects), len(self.found.doubts)) > MOST:
            self.found = Findings(gave_up=f"more than {MOST:,} suspects in one bucket")
        yield said(self.found)

    def _matches(self) -> Numbers:
        """Event and filter of each pair that match, as one rising number."""
        groups, found = self.groups, [np.zeros(0, np.int64)]
        for start, contents in _contents(self.tries, self.events):
            matches = groups.matcher.match_batch(contents)
            event = np.repeat(np.arange(start, start + len(contents)), np.diff(matches.offsets))
            found.append(event * groups.filters + np.asarray(matches.handles, np.int64))
        return np.concatenate(found)

    def _notifications(self) -> BucketNotifications:
        """The notifications without an error by themselves; the others are suspects."""
        groups, events = self.groups, self.events
        time = _floats(self.notifications.column("time"))
        group = _groups_of(self.notifications, groups)
        event, published = _at_events(self.notifications, self.tries, events)
        good = (group >= 0) & published
        interval, inside = np.zeros(len(group), np.int64), np.zeros(len(group), bool)
        interval[good], inside[good] = groups.place(group[good], time[good])
        good &= inside
        good[good] = ~events.refused[event[good]] & (events.published[event[good]] <= time[good])
        good[good] = _among(event[good] * groups.filters + groups.filter[interval[good]], self.matches)
        self._suspect(np.flatnonzero(~good))
        rows = np.flatnonzero(good)
        notifications = BucketNotifications(
            rows, event[rows], interval[rows], time[rows], _again(self.notifications)[rows]
        )
        self._doubled(notifications)
        self._delays(notifications)
        return notifications

    def _doubled(self, notifications: BucketNotifications) -> None:
        self._suspect(notifications.rows[notifications.again])  # the history has to bear each of them out
        once = np.flatnonzero(~notifications.again)
        key = (
            notifications.event[once] * self.groups.receivers
            + self.groups.subscriber[notifications.interval[once]]
        )
        order = np.argsort(key, kind="stable")
        equal = np.flatnonzero(key[order][1:] == key[order][:-1])
        self._suspect(notifications.rows[once[order[np.union1d(equal, equal + 1)]]])

    def _delays(self, notifications: BucketNotifications) -> None:
        once = ~notifications.again
        begun = np.maximum(
            self.events.published[notifications.event], self.groups.start[notifications.interval]
        )[once]
        delay, run = notifications.time[once] - begun, self.groups.run[notifications.interval[once]]
        for name, number in self.groups.runs.items() if len(run) else ():
            own = delay[run == number] if len(self.groups.runs) > 1 else delay
            if len(own):
                self.found.seen[name] = float(own.max())

    def _suspect(self, rows: Any) -> None:
        import pyarrow as pa

        if len(rows):
            some = self.notifications.select(["run", "process", "subscription", "source"]).take(
                pa.array(rows)
            )
            for run, process, subscription, source in zip(
                *(c.to_pylist() for c in some.columns), strict=True
            ):
                own = process if subscription is None else subscription
                self.found.suspects.append((run or "", process, own, source or ""))

    def _unsettled(self, notifications: BucketNotifications) -> Claims | None:
        """The claims on the bucket's events that no notification and no loss settles."""
        if not (self.request.late or self.request.gaps) or not len(self.matches):
            return None
        groups, events = self.groups, self.events
        event, filter = self.matches // groups.filters, self.matches % groups.filters
        owed = np.isfinite(events.promised[event]) & (events.run[event] >= 0)
        event, filter = event[owed], filter[owed]
        pair, interval = groups.claims(
            event, filter, events.run[event], events.published[event], events.lifetime[event]
        )
        event = event[pair]
        received = np.sort(notifications.event * groups.receivers + groups.subscriber[notifications.interval])
        open_ = ~_among(event * groups.receivers + groups.subscriber[interval], received)
        event, interval = event[open_], interval[open_]
        if self.lost.num_rows:
            lost = self._losses()
            open_ = ~_among(event * max(1, len(groups.owners)) + groups.owner[interval], lost)
            event, interval = event[open_], interval[open_]
        return claims_of(groups, events, event, interval)

    def _losses(self) -> Numbers:
        event, known = _at_events(self.lost, self.tries, self.events)
        runs, owners = self.lost.column("run").to_pylist(), _subscriptions(self.lost).to_pylist()
        owner = np.array(
            [self.groups.owners.get((run or "", own), -1) for run, own in zip(runs, owners, strict=True)]
        )
        both = known & (owner >= 0)
        return np.sort(event[both] * max(1, len(self.groups.owners)) + owner[both])

    def _delivery(self, claims: Claims) -> Iterator[Any]:
        request, groups = self.request, self.groups
        if request.late:
            doubtful = in_doubt(claims, request.t_sub or 0.0, request.t_diff or 0.0, request.until)
            sources = self._sources(claims.event[doubtful])
            some = claims.where(doubtful)
            if request.t_sub is None or request.t_diff is None:
                columns = (some.interval, sources, some.published, some.lifetime, some.ends, some.available)
                lists = [each if isinstance(each, list) else each.tolist() for each in columns]
                self.found.doubts.extend(zip(*lists, strict=True))
            else:
                names = [groups.names[number] for number in some.interval.tolist()]
                self.found.suspects.extend((*n, s) for n, s in zip(names, sources, strict=True))
        between = (claims.since + (request.t_sub or 0.0) < claims.published) & (claims.published < claims.end)
        if request.gaps and between.any():
            yield self._open(claims.where(between))

    def _sources(self, event: Numbers) -> list[str]:
        return [each or "" for each in self._source_column(event).to_pylist()]

    def _source_column(self, event: Numbers) -> Any:
        import pyarrow as pa

        return self.tries.column("source").take(pa.array(self.events.rows[event])).combine_chunks()

    def _open(self, claims: Claims) -> Any:
        sequence = self.events.sequence[claims.event]
        kind = np.full(len(claims.event), OPEN, np.int8)
        return _rows(
            kind, self.groups.subscriber[claims.interval], self._source_column(claims.event), claims.interval,
            claims.ends, claims.published, sequence,
        )  # fmt: skip

    def _streamed(self, notifications: BucketNotifications) -> Any:
        """Input of the second pass from the notifications."""
        import pyarrow as pa

        own = self.notifications.column("sequence").take(pa.array(notifications.rows))
        known = np.asarray(own.is_valid())
        sequence = np.where(known, _integers(own), self.events.sequence[notifications.event])
        kind = np.where(notifications.again, AGAIN, DELIVERED).astype(np.int8)
        return _rows(
            kind, self.groups.subscriber[notifications.interval], self._source_column(notifications.event),
            notifications.interval,
            notifications.time, self.events.published[notifications.event], sequence,
        )  # fmt: skip


class BucketNotifications(NamedTuple):
    rows: Any  # numbers of rows among the notifications
    event: Numbers
    interval: Numbers
    time: Times
    again: Flags  # a redelivery


def claims_of(groups: IntervalIndex, events: BucketEvents, event: Numbers, interval: Numbers) -> Claims:
    return Claims(
        event, interval,
        events.published[event], events.lifetime[event], events.ends[event], events.promised[event],
        groups.start[interval], groups.sure_end[interval], groups.since[interval],
    )  # fmt: skip


def in_doubt(claims: Claims, t_sub: float, t_diff: float, until: float) -> Flags:
    """May they be debts? With larger times fewer are, so a lower bound of the times will do."""
    return is_due(claims, t_sub, t_diff, until) | is_owed(claims, t_sub, t_diff, until)


def _events(tries: Any, groups: IntervalIndex) -> BucketEvents:
    """One publication from all tries: as `publications.published`."""
    more = tries.column("more").combine_chunks() if tries.num_rows else None
    if more is None:
        none, nothing = np.zeros(0), np.zeros(0, np.int64)
        return BucketEvents(nothing, nothing, none, none, np.zeros(0, bool), nothing, none, none, nothing)
    fields = {more.type[i].name: member for i, member in enumerate(more.flatten())}
    outcome = fields["outcome"].to_pylist()
    refused = np.array([each == REFUSED for each in outcome], bool)
    fine = np.array([each in (None, OK) for each in outcome], bool)
    time, position = _floats(tries.column("time")), _integers(tries.column("place"))
    order = np.lexsort((time, refused, position))
    begins = np.flatnonzero(np.r_[True, position[order][1:] != position[order][:-1]])
    first = order[begins]
    _check_same(tries, np.repeat(first, np.diff(np.r_[begins, len(order)])), tries, order)
    promised = np.minimum.reduceat(np.where(fine, time, np.inf)[order], begins)
    runs = [groups.runs.get(run or "", -1) for run in tries.column("run").to_pylist()]
    return BucketEvents(
        position[first], first, time[first], promised, refused[first],
        _integers(tries.column("sequence"), -1)[first],
        _floats(fields["lifetime"], 0.0)[first], _floats(fields["expires"], np.inf)[first],
        np.array(runs, np.int64)[first],
    )  # fmt: skip


def _contents(tries: Any, events: BucketEvents) -> Iterator[tuple[int, list[Any]]]:
    """The events as filters see them, some at a time, with the number of the first."""
    import pyarrow as pa

    for start in range(0, len(events.rows), EVENTS_AT_ONCE):
        some = tries.take(pa.array(events.rows[start : start + EVENTS_AT_ONCE]))
        more = some.column("more").combine_chunks()
        fields = {more.type[i].name: member.to_pylist() for i, member in enumerate(more.flatten())}
        columns = (some.column("source").to_pylist(), some.column("event").to_pylist(), fields["attributes"],
                   fields["topic"], fields["type"])  # fmt: skip
        yield start, [_content(*row) for row in zip(*columns, strict=True)]


def _content(source: str | None, id: str, text: str | None, topic: str | None, type: Any) -> Any:
    attributes = {} if text is None else from_json_values(attributes_from_text(text))
    return event_of(source or "", id, attributes, topic, tuple(type or ()))


def _at_events(rows: Any, tries: Any, events: BucketEvents) -> tuple[Numbers, Flags]:
    """For each row its event's number, and whether it was ever published."""
    position = _integers(rows.column("place"))
    at = np.searchsorted(events.place, position)
    at[at == len(events.place)] = 0
    known = events.place[at] == position if len(events.place) else np.zeros(len(position), bool)
    found = np.flatnonzero(known)
    _check_same(rows, found, tries, events.rows[at[found]])
    return at, known


def _check_same(one: Any, rows: Any, other: Any, others: Any) -> None:
    """Rows that were taken for rows of the same event are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for name in ("event", "source", "run"):
        left = pc.fill_null(one.column(name).take(pa.array(rows)), "")
        right = pc.fill_null(other.column(name).take(pa.array(others)), "")
        if len(rows) and not pc.all(pc.equal(left, right)).as_py():
            raise HistoryError("two events have one hash")


def _groups_of(delivered: Any, groups: IntervalIndex) -> Numbers:
    """The group of each notification; -1: its process never had such a subscription."""
    key = np.zeros(delivered.num_rows, np.int64)
    words = []
    for column in (delivered.column("run"), delivered.column("process"), _subscriptions(delivered)):
        coded = one(column).dictionary_encode()
        words.append([*coded.dictionary.to_pylist(), ""])  # a run that is null has no name
        code = coded.indices.fill_null(len(coded.dictionary)).to_numpy(zero_copy_only=False)
        key = key * len(words[-1]) + code
    each, inverse = np.unique(key, return_inverse=True)
    subscription, rest = each % len(words[2]), each // len(words[2])
    process, run = rest % len(words[1]), rest // len(words[1])
    names = zip(run.tolist(), process.tolist(), subscription.tolist(), strict=True)
    found = [groups.group_of.get((words[0][r], words[1][p], words[2][s]), -1) for r, p, s in names]
    return np.array(found, np.int64)[inverse] if found else key


def _subscriptions(rows: Any) -> Any:
    import pyarrow.compute as pc

    return pc.coalesce(rows.column("subscription"), rows.column("process"))


def _again(delivered: Any) -> Flags:
    import pyarrow.compute as pc

    found: Flags = np.asarray(pc.fill_null(pc.equal(delivered.column("reason"), REDELIVERY), False), bool)
    return found


def _among(keys: Numbers, rising: Numbers) -> Flags:
    """Which of the keys are in the sorted array?"""
    if not len(rising):
        return np.zeros(len(keys), bool)
    at = np.searchsorted(rising, keys)
    at[at == len(rising)] = 0
    found: Flags = rising[at] == keys
    return found


def one(column: Any) -> Any:
    """A column as one array."""
    import pyarrow as pa

    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _floats(column: Any, absent: float = 0.0) -> Times:
    return one(column).fill_null(absent).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _integers(column: Any, absent: int = 0) -> Numbers:
    return one(column).fill_null(absent).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _words(*words: str) -> Any:
    import pyarrow as pa

    return pa.array(words)


def _rows(
    kind: Any, subscriber: Any, source: Any, interval: Any, time: Any, published: Any, sequence: Any
) -> Any:
    import pyarrow as pa

    columns = [
        pa.array(kind), pa.array(subscriber), one(source).fill_null(""), pa.array(interval.astype(np.int32)),
        pa.array(time), pa.array(published), pa.array(sequence.astype(np.int64)),
        pa.nulls(len(kind), pa.binary()),
    ]  # fmt: skip
    return pa.RecordBatch.from_arrays(columns, names=list(NAMES))


def said(found: Findings) -> Any:
    """Findings as a row that travels through to the driver."""
    import pyarrow as pa

    types = [pa.int8(), pa.int64(), pa.string(), pa.int32(), pa.float64(), pa.float64(), pa.int64()]
    columns = [pa.array([SAID], pa.int8()), *(pa.nulls(1, kind) for kind in types[1:])]
    columns.append(pa.array([msgspec.msgpack.encode(found)], pa.binary()))
    return pa.RecordBatch.from_arrays(columns, names=list(NAMES))
