"""The properties once more, as slowly and plainly as the seeds state them: loops over all rows.

Subscribers' own operations never share an instant here, so intervals need no rule for ties.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from tidings.history.schema import Row
from tidings.language import parse_filter
from tidings.language.evaluate import accepts
from tidings.model.event import Event


class Span(NamedTuple):
    process: str
    subscription: str | None
    filter: str
    start: float
    end: float
    sure: bool
    sure_end: float
    left: str  # the operation that ended it; none did: empty


def spans(rows: list[Row]) -> Iterator[Span]:
    operations = [r for r in rows if r.op in ("sub", "usub", "crash") and r.outcome != "refused"]
    for sub in operations:
        if sub.op != "sub":
            continue
        later = [
            r
            for r in operations
            if r.process == sub.process
            and r.time > sub.time
            and (r.op == "crash" or r.subscription == sub.subscription)
        ]
        last = [r for r in later if not (r.op == "usub" and r.outcome == "unknown")]
        ends = [r.time for r in last]
        doubts = [r.time for r in later if r.op == "usub" and r.outcome == "unknown"]
        end = min(ends, default=math.inf)
        assert sub.filter is not None
        yield Span(
            sub.process,
            sub.subscription,
            sub.filter,
            sub.time,
            end,
            sub.outcome != "unknown",
            min([end, *doubts]),
            min(last, key=lambda r: r.time).op if last else "",
        )


def matches(filter: str, pub: Row) -> bool:
    event = Event(source=str(pub.source), id=str(pub.event), body=pub.attributes or {})
    return accepts(parse_filter(filter), event)


class Oracle:
    def __init__(self, rows: list[Row], subscriber: str) -> None:
        self.rows = rows
        self.receiver = subscriber
        self.spans = list(spans(rows))
        self.told = [r for r in rows if r.op == "ntfy"]
        self.pubs = {r.event: r for r in rows if r.op == "pub"}  # one row for each event here

    def around(self, ntfy: Row, *, own: bool) -> bool:
        """Is it in an interval (of its own subscription, or any of the process) that accepts it?"""
        pub = self.pubs.get(ntfy.event)
        return any(
            span.process == ntfy.process
            and (not own or span.subscription == ntfy.subscription)
            and span.start <= ntfy.time <= span.end
            and (pub is None or matches(span.filter, pub))
            for span in self.spans
        )

    def legality(self) -> bool:
        return all(self.around(ntfy, own=True) for ntfy in self.told)

    def lp4(self) -> bool:
        return all(self.around(ntfy, own=False) for ntfy in self.told)

    def is_valid(self, ntfy: Row) -> bool:
        pub = self.pubs.get(ntfy.event)
        return pub is not None and pub.outcome != "refused" and pub.time <= ntfy.time

    def validity(self) -> bool:
        return all(self.is_valid(ntfy) for ntfy in self.told)

    def key(self, row: Any) -> Any:
        return getattr(row, self.receiver)

    def minimality(self) -> bool:
        keys = [(self.key(r), r.event) for r in self.told if not self.is_asked_for(r)]
        return len(keys) == len(set(keys))

    def is_asked_for(self, ntfy: Row) -> bool:
        """Is it a redelivery, as the rest of the history shows?"""
        same = [r for r in self.told if (self.key(r), r.event) == (self.key(ntfy), ntfy.event)]
        same.sort(key=lambda r: (r.time, r.reason == "redelivery", r.process, r.subscription, r.broker or ""))
        at = next(number for number, r in enumerate(same) if r is ntfy)
        if ntfy.reason != "redelivery" or at == 0:
            return False
        return self._may_be_uncommitted(same[at - 1], ntfy)

    def _may_be_uncommitted(self, first: Row, again: Row) -> bool:
        for row in self.rows:
            is_same = row.op == "nack" and row.event == first.event and self.key(row) == self.key(first)
            if is_same and first.time <= row.time <= again.time:
                return True
        last = again.time if first.process == again.process else math.inf
        for row in self.rows:
            is_crash = row.op == "crash" and (row.process == first.broker or not first.broker)
            own = (
                row.op == "suspect"
                and row.process == first.process
                and (row.from_ or "") == (first.broker or "")
            )
            if (is_crash or own) and first.time <= row.time <= last:
                return True
        own_spans = [
            s for s in self.spans
            if (s.process, s.subscription) == (first.process, first.subscription)
            and s.start <= first.time <= s.end
        ]  # fmt: skip
        if not own_spans:
            return False
        span = max(own_spans, key=lambda s: s.start)
        if span.left in ("sub", "crash"):
            return span.end <= last
        return not span.left and first.process != again.process

    def claims(self) -> Iterator[tuple[Row, Span]]:
        for pub in self.pubs.values():
            for span in self.spans:
                if pub.outcome == "ok" and span.sure and matches(span.filter, pub):
                    excused = any(
                        r.op in ("drop", "dead")
                        and r.event == pub.event
                        and r.subscription == span.subscription
                        for r in self.rows
                    )
                    if not excused:
                        yield pub, span

    def ends(self, pub: Row) -> float:
        newer = [
            p.time
            for p in self.pubs.values()
            if pub.key is not None and p.key == pub.key and p.outcome != "refused" and _after(p, pub)
        ]
        return min([*newer, math.inf if pub.expires is None else pub.expires])

    def received(self, pub: Row, span: Span, *, lawfully: bool) -> bool:
        return any(
            ntfy.event == pub.event
            and self.key(ntfy) == self.key(span)
            and (not lawfully or (self.around(ntfy, own=True) and self.is_valid(ntfy)))
            for ntfy in self.told
        )

    def liveness(self, t_sub: float, t_diff: float) -> bool:
        return all(
            self.received(pub, span, lawfully=False)
            for pub, span in self.claims()
            if self._p3(pub, span, t_sub, t_diff) or self._p3a(pub, span, t_sub, t_diff)
        )

    def _p3(self, pub: Row, span: Span, t_sub: float, t_diff: float) -> bool:
        stable = span.start + t_sub <= pub.time and pub.time not in (span.start, span.sure_end)
        return stable and pub.time + t_diff <= min(span.sure_end, self.ends(pub))

    def _p3a(self, pub: Row, span: Span, t_sub: float, t_diff: float) -> bool:
        lifetime = pub.lifetime or 0.0
        low = max(pub.time + t_diff, span.start + t_sub)
        stored = lifetime > 0 and pub.time < span.sure_end
        return stored and low <= min(pub.time + lifetime, span.sure_end, self.ends(pub))

    def completeness(self, t_sub: float, t_diff: float) -> bool:
        return all(
            self.received(pub, span, lawfully=True)
            for pub, span in self.claims()
            if self._has_room(pub, span, t_sub, t_diff)
        )

    def _has_room(self, pub: Row, span: Span, t_sub: float, t_diff: float) -> bool:
        was_on = span.start < pub.time and span.start + t_sub <= pub.time
        last = math.inf if was_on else pub.time + (pub.lifetime or 0.0)
        low = max(pub.time, span.start + t_sub)
        high = min(last, span.sure_end, self.ends(pub))
        return high > low and high - low >= t_diff

    def largest_delay(self) -> float:
        delays = [
            ntfy.time - max(self.pubs[ntfy.event].time, span.start)
            for ntfy in self.told
            if self.around(ntfy, own=True) and self.is_valid(ntfy) and not self.is_asked_for(ntfy)
            for span in [self._latest(ntfy)]
        ]
        return max(delays, default=0.0)

    def _latest(self, ntfy: Row) -> Span:
        holding = [
            s
            for s in self.spans
            if (s.process, s.subscription) == (ntfy.process, ntfy.subscription)
            and s.start <= ntfy.time <= s.end
        ]
        return max(holding, key=lambda span: span.start)

    def lp1(self) -> bool:
        return not any(depth < 0 for depth in self._depths())

    def _depths(self) -> Iterator[int]:
        for process, name in {(r.process, r.subscription) for r in self.rows if r.op == "usub"}:
            depth = 0
            for r in sorted(self.rows, key=lambda r: r.time):
                if r.process != process or r.outcome == "refused":
                    continue
                if r.op == "crash":
                    depth = 0
                elif r.subscription == name and r.op == "sub":
                    depth += 1
                elif r.subscription == name and r.op == "usub" and r.outcome == "ok":
                    depth -= 1
                    yield depth
                    depth = max(depth, 0)


def _after(one: Row, other: Row) -> bool:
    return (one.time, one.sequence, one.source, one.event) > (
        other.time,
        other.sequence,
        other.source,
        other.event,
    )
