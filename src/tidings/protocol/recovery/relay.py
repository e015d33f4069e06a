"""Requests toward a log and their answers: our own, and those of others that pass through here.

Rules
- A request goes to the upstream link of its log, and its `path` grows by one broker at each step. An
  answer goes back along the path and loses one. Brokers in between keep no state; the asking broker asks
  again when no answer comes.
- A broker hands a request on only when the far end of its upstream link knows all that is wanted
  here, the filter of the request among it. Else it drops the request: the next try may pass.
- Requests for the logs behind one link that come soon after one another share a message, and so do their
  answers: the first request of a link goes at once, and so does the one for the page after an answer with
  events; the others wait at most `ask_seconds`. An answer
  with events takes those along that wait; answers without events wait for the others that their link asked
  for, `gather_seconds` at most.
- A neighbour's own request for what it was sent is answered from what was sent last, where that is held.
- The log's broker answers from its disk. To `RangeRequest` with what the link wants that the request came
  from, and each broker on the way back leaves out what the next link does not want; to `ReplayRequest`
  with what the subscription's filter accepts and it has a right to.
- A log that is no more is answered as gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING

import msgspec

from tidings.availability.records import Append
from tidings.language.evaluate import accepts
from tidings.model.event import Event
from tidings.protocol import batches
from tidings.protocol.inputs import Feature, FetchFailed
from tidings.protocol.messages import Envelope, Message
from tidings.protocol.naming import broker_of
from tidings.protocol.reading import LogScan, ReadRequest, ReadResult
from tidings.protocol.recovery.messages import (
    RangeReply,
    RangeRequest,
    ReplayReplies,
    ReplayReply,
    ReplayRequest,
    ReplayRequests,
)
from tidings.protocol.slots import Ports

if TYPE_CHECKING:
    from tidings.protocol.recovery.acknowledged import AcknowledgedRecovery

Done = Callable[[ReadResult, float], None]
PARTS = "parts"  # timer, by link: answers that wait for one another leave
ASKS = "asks"  # timer, by link: requests that wait for one another leave


class _PendingRead:
    """A reading of one of our subscriptions that is not answered yet."""

    __slots__ = ("log", "pause", "then", "wanted")

    def __init__(self, log: str, wanted: ReadRequest, then: Done, pause: float) -> None:
        self.log = log
        self.wanted = wanted
        self.then = then
        self.pause = pause


class Relay:
    def __init__(self, ports: Ports, recovery: AcknowledgedRecovery) -> None:
        self._ports = ports
        self._recovery = recovery
        self._readings: dict[int, _PendingRead] = {}
        self._last_number = 0
        self._answers: dict[str, list[ReplayReply]] = {}  # by link: answers that wait for one another
        self._expected: dict[str, int] = {}  # by link: answers that it asked for since the last timer
        self._asks: dict[
            str, list[tuple[ReplayRequest, float]]
        ] = {}  # by link: requests that wait, and since when
        self._asked_at: dict[str, float] = {}  # by link: when the last ones left
        self.unreadable = 0  # requests that our disk failed

    @property
    def waiting(self) -> int:
        return len(self._readings)

    # -- what we ask -------------------------------------------------------------------------

    def ask(self, message: RangeRequest) -> None:
        """Send a request toward the log, when that is of use."""
        link = self._way(message.log)
        if link is not None:
            self._ports.send(link, message)

    def _way(self, log: str) -> str | None:
        """The link that a request for this log can take now."""
        upstream = self._recovery.upstream(log)
        return upstream if self._is_open(upstream) else None

    def _is_open(self, link: str | None) -> bool:
        """Can a link take requests now?"""
        is_up = link is not None and self._recovery.is_up(link)
        return is_up and self._ports.link_interest.agreed(str(link))

    def _ask_together(self, asks: Iterable[ReplayRequest], now: float) -> set[int]:
        """Send requests for the same link together; the numbers of those that could go."""
        going: set[int] = set()
        links: dict[str | None, list[ReplayRequest]] = {}
        for ask in asks:
            links.setdefault(self._recovery.upstream(ask.log), []).append(ask)
        for link, some in links.items():
            if link is None or not self._is_open(link):
                continue
            going.update([ask.number for ask in some])
            self._asks.setdefault(link, []).extend([(ask, now) for ask in some])
            soonest = self._asked_at.get(link, -inf) + self._recovery.settings.ask_seconds
            if soonest <= now:
                self._send_asks(link, now)
            else:
                self._recovery.timers.set_by((ASKS, link), soonest)
        return going

    def _send_asks(self, link: str, now: float) -> None:
        """Send the requests that wait for this link. Those of no use now are dropped, and tried again."""
        waiting = self._asks.pop(link, [])
        if not self._is_open(link):
            waiting = []
        upstream = self._recovery.upstream
        asks = [_aged(ask, now - since) for ask, since in waiting if upstream(ask.log) == link]
        self._recovery.timers.clear((ASKS, link))
        self._asked_at[link] = now
        most = self._ports.limits.requests_together
        for first in range(0, len(asks), most):
            part = tuple(asks[first : first + most])
            self._ports.send(link, part[0] if len(part) == 1 else ReplayRequests(part))

    def read(self, log: str, wanted: ReadRequest, then: Done, now: float) -> int:
        self._last_number += 1
        number = self._last_number
        self._readings[number] = _PendingRead(log, wanted, then, self._recovery.settings.patience_seconds)
        self._recovery.timers.set(("read", str(number)), now)
        return number

    def give_up(self, number: int) -> None:
        self._readings.pop(number, None)
        self._recovery.timers.clear(("read", str(number)))

    def retry(self, numbers: Iterable[int], now: float) -> None:
        due = {number: self._readings[number] for number in numbers}
        asks = [self._request(number, reading, now) for number, reading in due.items()]
        sent = self._ask_together(asks, now)
        settings = self._recovery.settings
        for number, reading in due.items():
            least = settings.answer_seconds if number in sent else settings.patience_seconds
            reading.pause = min(max(2 * reading.pause, least), settings.slow_seconds)
            self._recovery.timers.set(("read", str(number)), now + reading.pause)

    def _request(self, number: int, reading: _PendingRead, now: float) -> ReplayRequest:
        wanted, path = reading.wanted, (self._ports.name,)
        age = now - wanted.since
        return ReplayRequest(
            reading.log, number, wanted.filter, wanted.after, wanted.start, age, wanted.limit, path,
            wanted.superseding,
        )  # fmt: skip

    def link_up(self, link: str, now: float) -> None:
        for number, reading in self._readings.items():
            if self._recovery.upstream(reading.log) == link:
                reading.pause = self._recovery.settings.patience_seconds
                self._recovery.timers.set(("read", str(number)), now + reading.pause)

    def log_gone(self, log: str, now: float) -> None:
        for number, reading in list(self._readings.items()):
            if reading.log == log:
                self.give_up(number)
                reading.then(ReadResult(is_gone=True), now)

    # -- what comes along ----------------------------------------------------------------------

    def on_message(self, sender: str, message: Message, now: float) -> None:
        if isinstance(message, RangeRequest):
            if self._recovery.recall.answer(sender, message) or self._sent_again(sender, message, now):
                return
            if broker_of(message.log) == self._ports.name:
                self._answer_ask(sender, message, now)
            elif self._recovery.upstream(message.log) != sender:
                self.ask(RangeRequest(message.log, message.after, message.upto, self._longer(message.path)))
        elif isinstance(message, ReplayRequest):
            self._pass_together(sender, (message,), now)
        elif isinstance(message, ReplayRequests):
            self._pass_together(sender, message.asks, now)
        elif isinstance(message, ReplayReply):
            self._answered((message,), now)
        elif isinstance(message, ReplayReplies):
            self._answered(message.parts, now)
        elif isinstance(message, RangeReply) and message.path and message.path[-1] == self._ports.name:
            if len(message.path) > 1:
                self._pass_back(message, now)
            else:
                self._recovery.recall.filled(message, sender, now)
                self._filled(message, now)

    def _answered(self, parts: Sequence[ReplayReply], now: float) -> None:
        """Answers to our own requests, and to those of others, which go back together."""
        back: dict[str, list[ReplayReply]] = {}
        name = self._ports.name
        for part in parts:
            path = part.path
            if not path or path[-1] != name:
                continue
            if len(path) == 1:
                self._read(part, now)
                continue
            self._note_gone(part, now)
            to, envelopes = path[-2], part.envelopes
            if envelopes:
                takes = self._recovery.far_ends.is_too_much
                envelopes = tuple([e for e in envelopes if not takes(to, e, now)])
            back.setdefault(to, []).append(
                ReplayReply(
                    part.log, part.number, envelopes, part.upto, path[:-1], part.is_last, part.is_gone
                )
            )
        for to, some in back.items():
            self._send_back(to, some, now)

    def _sent_again(self, sender: str, ask: RangeRequest, now: float) -> bool:
        """A neighbour missed what we sent it: is all of that still in hand?"""
        resend = self._recovery.resend
        if resend is None or ask.path != (sender,) or ask.log not in self._recovery.views:
            return False
        fill = resend.answer(sender, ask, now)
        if fill is not None:
            self._ports.send(sender, fill)
        return fill is not None

    def _pass_together(self, sender: str, asks: Sequence[ReplayRequest], now: float) -> None:
        self._expected[sender] = self._expected.get(sender, 0) + len(asks)
        onward: list[ReplayRequest] = []
        views, name = self._recovery.views, self._ports.name
        for ask in asks:
            view = views.get(ask.log)
            upstream = self._recovery.upstream(ask.log) if view is None else view.upstream
            if upstream is None and broker_of(ask.log) == name:
                self._answer_replay(sender, ask, now)
            elif upstream != sender:
                longer = (*ask.path, name)
                onward.append(
                    ReplayRequest(
                        ask.log,
                        ask.number,
                        ask.filter,
                        ask.after,
                        ask.start,
                        ask.age,
                        ask.limit,
                        longer,
                        ask.superseding,
                    )
                )
        self._ask_together(onward, now)

    def _longer(self, path: tuple[str, ...]) -> tuple[str, ...]:
        return (*path, self._ports.name)

    def _pass_back(self, message: RangeReply, now: float) -> None:
        self._note_gone(message, now)
        path = message.path[:-1]
        to = path[-1]
        small = (e for e in message.envelopes if not self._recovery.far_ends.is_too_much(to, e, now))
        takes = self._recovery.reports.takes
        wanted = tuple(e for e in small if takes(to, e) and self._wants(to, e.event))
        reply = RangeReply(message.log, message.after, message.upto, wanted, path, message.is_gone)
        self._ports.send(to, reply)

    def _send_back(self, to: str, parts: Sequence[ReplayReply], now: float) -> None:
        """Send answers, with those that the link asked for too and that come soon. Events do not wait."""
        if not self._recovery.far_ends.takes(to, Feature.REPLAY_PARTS):
            for part in parts:
                self._ports.send(to, part)
            return
        waiting = self._answers.setdefault(to, [])
        waiting += parts
        if 0 < self._expected.get(to, 0) <= len(waiting) or any(part.envelopes for part in parts):
            self._expected[to] = max(0, self._expected.get(to, 0) - len(waiting))
            self._send_waiting(to)
        else:
            self._recovery.timers.set_by((PARTS, to), now + self._recovery.settings.gather_seconds)

    def _send_waiting(self, to: str) -> None:
        """Send the answers that wait for one another."""
        self._recovery.timers.clear((PARTS, to))
        waiting = self._answers.pop(to, [])
        if waiting:
            self._ports.send(to, waiting[0] if len(waiting) == 1 else ReplayReplies(tuple(waiting)))

    def on_timer(self, what: str, link: str, now: float) -> None:
        """Requests (`ASKS`) or answers (`PARTS`) of a link waited long enough."""
        if what == ASKS:
            self._send_asks(link, now)
        else:
            self._gathered_enough(link)

    def _gathered_enough(self, to: str) -> None:
        """Send the answers that waited long enough; those that have not come by now are not waited for."""
        self._expected[to] = 0
        self._send_waiting(to)

    def link_down(self, link: str) -> None:
        for by_link in (self._expected, self._answers, self._asks, self._asked_at):
            by_link.pop(link, None)
        self._recovery.timers.clear((PARTS, link))
        self._recovery.timers.clear((ASKS, link))

    def _note_gone(self, answer: RangeReply | ReplayReply, now: float) -> bool:
        """Does the log's broker say that the log is no more? A broker that passes this on heeds it too: it
        would announce the log again to the one that asked."""
        is_gone = answer.is_gone and answer.log != self._recovery.own().name
        if is_gone:
            self._recovery.gone(answer.log, now)
        return is_gone

    def _filled(self, fill: RangeReply, now: float) -> None:
        view = self._recovery.views.get(fill.log)
        if self._note_gone(fill, now):
            return
        if view is None or view.upstream is None:
            return
        if not fill.after <= view.known < fill.upto:
            return  # it came too late, or twice
        for envelope in fill.envelopes:
            if envelope.offset is not None and envelope.offset > view.known:
                view.waiting[envelope.offset] = (envelope, fill.after)
        view.filled(fill.after, fill.upto)
        self._recovery.pass_waiting(view, now)
        view.advance(fill.upto)
        self._recovery.timers.clear(("ask", view.name))
        self._recovery.pass_waiting(view, now)

    def _read(self, part: ReplayReply, now: float) -> None:
        reading = self._readings.get(part.number)
        if reading is None or reading.log != part.log:
            return  # it was answered before
        self.give_up(part.number)
        if part.envelopes:  # the request for the next page has nothing to wait for
            self._asked_at.pop(str(self._recovery.upstream(part.log)), None)
        self._note_gone(part, now)
        reading.then(ReadResult(part.envelopes, part.upto, part.is_last, part.is_gone), now)

    def _wants(self, link: str, event: Event) -> bool:
        return self._ports.link_interest.wants(link, event)

    # -- answers from our own log ----------------------------------------------------------------

    def _answer_ask(self, link: str, ask: RangeRequest, now: float) -> None:
        is_gone = ask.log != self._recovery.own().name

        def fill(found: tuple[Envelope, ...], upto: int, _: bool, _now: float) -> None:
            self._ports.send(link, RangeReply(ask.log, ask.after, upto, found, ask.path, is_gone))

        def is_wanted(record: Append, _now: float) -> bool:
            return self._wants(link, record.event)

        if is_gone:
            self._ports.send(link, RangeReply(ask.log, ask.after, ask.upto, (), ask.path, is_gone))
        else:
            page = batches.PageBuilder[Envelope](self._ports.limits)
            fits = partial(self._fits, link)
            is_owed = partial(self._recovery.reports.is_owed, link)
            scan = LogScan(ask.after, ask.upto, page, is_wanted, fits, fill, self._on_failed, is_owed)
            self._scan(scan, now)

    def _answer_replay(self, link: str, ask: ReplayRequest, now: float) -> None:
        is_gone = ask.log != self._recovery.own().name

        def part(found: tuple[Envelope, ...], upto: int, is_last: bool, at: float) -> None:
            back = ReplayReply(ask.log, ask.number, found, upto, ask.path, is_last, is_gone)
            self._send_back(link, (back,), at)

        if is_gone:
            part((), ask.after, True, now)
        else:
            limits = self._ports.limits
            page = batches.PageBuilder[Envelope](limits, min(ask.limit, limits.batch_count))
            fits = partial(self._fits, link)
            is_wanted, is_owed = partial(_has_right, ask), partial(_is_owed, ask)
            scan = LogScan(ask.after, None, page, is_wanted, fits, part, self._on_failed, is_owed)
            self._scan(scan, now)

    def _scan(self, scan: LogScan, now: float) -> None:
        self._ports.own_log.scan(scan, now)

    def _fits(self, link: str, envelope: Envelope, now: float) -> bool:
        return not self._recovery.far_ends.is_too_much(link, envelope, now)

    def _on_failed(self, failure: FetchFailed, now: float) -> None:
        """Our disk cannot be read there: no answer, and the broker that asked asks again."""
        self.unreadable += 1


def _aged(ask: ReplayRequest, waited: float) -> ReplayRequest:
    """The request after it waited for so many seconds."""
    return msgspec.structs.replace(ask, age=ask.age + waited) if waited else ask


def _has_right(ask: ReplayRequest, record: Append, now: float) -> bool:
    """May the subscription that asks hear this entry?"""
    if not accepts(ask.filter, record.event):
        return False
    began = now - ask.age
    is_owed = ask.start is not None and record.offset >= ask.start
    return is_owed or record.accepted >= began or record.ends_at > began


def _is_owed(ask: ReplayRequest, record: Append, now: float) -> bool:
    """Is the subscription that asks owed this entry, which a newer one has superseded?"""
    if ask.superseding:
        return False
    return record.accepted >= now - ask.age if ask.start is None else record.offset >= ask.start
