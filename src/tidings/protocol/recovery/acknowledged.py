"""Acknowledged recovery: knowledge and silence away from a log, requests toward it.

In the manner of Gryphon (Bhola et al. 2002). The publisher's broker alone keeps an event, in its
log, until every link that wants it has acknowledged it. Rules
- An event says which one was sent before it on the link. So a broker notices what is missing, lets
  the events behind wait, and asks for the range; asking goes on, with pauses that grow, until
  it is filled. Events of one log pass each broker in order, and once.
- Where events are lost often (`resends`), a broker holds what it sent last, and answers its neighbours itself
  (`resend.py`).
- The last event of all may be lost too: a range that a link does not confirm soon is announced again
  (`Knowledge`).
- A broker in the middle keeps numbers only: how far each log is known here, and what each
  link has. It asks and answers for itself alone; requests of others pass through it.
- A request goes up a link only when the far end knows all that is wanted here (`LinkInterest.agreed`), so
  that what is sent from then on is complete for the asking broker.
- A broker that begins takes each log from where its neighbour answers for it; what its durable
  subscriptions miss they read (`delivery`).
- A broker that lost its disk begins another log. Names and clocks do not say which of two logs is the present
  one: a broker that hears of a second log asks the log's broker whether the first one is gone (an
  `RangeRequest` for an empty range), and takes the second one, which is told again until it is confirmed,
  when the answer says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import inf

from tidings.model.event import Event
from tidings.protocol.inputs import Input, Joined, LinkDown, LinkUp, Parted, Started
from tidings.protocol.messages import Envelope, Message
from tidings.protocol.naming import UNKNOWN, broker_of
from tidings.protocol.reading import SUPERSEDED, ReadRequest, ReadResult
from tidings.protocol.recovery.far_ends import FarEnds
from tidings.protocol.recovery.logs import ORPHAN, EventChain, LinkProgress, LogView
from tidings.protocol.recovery.messages import (
    PREVIOUS,
    AckProgress,
    Knowledge,
    LogAck,
    LogKnowledge,
    LogsUnreachable,
    RangeReply,
    RangeRequest,
    ReplayReplies,
    ReplayReply,
    ReplayRequest,
    ReplayRequests,
)
from tidings.protocol.recovery.progress_reports import ProgressReports
from tidings.protocol.recovery.recall import ALONE, ASK, NAMED, Recall
from tidings.protocol.recovery.relay import ASKS, PARTS, Relay
from tidings.protocol.recovery.resend import Resend
from tidings.protocol.recovery.rollback import Rollback
from tidings.protocol.recovery.settings import AcknowledgedSettings
from tidings.protocol.recovery.timers import Timers
from tidings.protocol.slots import Ports, Recovery


class AcknowledgedRecovery(Recovery):
    name = "acknowledged"
    messages = (
        Knowledge, AckProgress, LogsUnreachable, RangeRequest, RangeReply, ReplayRequest, ReplayRequests,
        ReplayReply, ReplayReplies,
    )  # fmt: skip
    headers = frozenset({PREVIOUS, SUPERSEDED})
    is_blind = True

    def __init__(
        self,
        settings: AcknowledgedSettings | None = None,
        *,
        recalls: bool = False,  # True: neighbours are kept on the disk alone, and may know more of them
        is_joining: bool = False,
    ) -> None:
        self.settings = settings or AcknowledgedSettings()
        self._recalls = recalls
        self._is_joining = is_joining
        self.timers = Timers()
        self.views: dict[str, LogView] = {}  # by log, ours too
        self._own: LogView | None = None
        self._up: dict[str, None] = {}  # links, in the order in which they came
        self._pauses: dict[str, float] = {}  # by link: until it is told again
        self._to_confirm: dict[str, None] = {}  # logs with news to send toward them
        self.resend: Resend | None = None
        self._gone: dict[str, None] = {}  # logs that their brokers said are no more
        self._inquired: dict[str, float] = {}  # by log: when its broker was last asked about it
        self._chain = EventChain()

    def bind(self, ports: Ports) -> None:
        super().bind(ports)
        if self.settings.resends:
            self.resend = Resend(self.settings.resends, ports.limits.batch_count)
        self.far_ends = FarEnds(ports)
        self.recall = Recall(ports, self, is_joining=self._is_joining)
        self.rollback, self.reports = Rollback(ports, self), ProgressReports(ports, self)
        self._relay = Relay(ports, self)

    # -- inputs ------------------------------------------------------------------------------

    def on_input(self, input: Input, now: float) -> None:
        if isinstance(input, Started):
            self.rollback.load(input.state, now)
            self.recall.load(input.state, recalls=self._recalls)
        elif isinstance(input, Joined) and input.is_dialled:
            self.recall.dialled(input.peer)
        elif isinstance(input, LinkUp) and input.peer in self.peers():
            self.far_ends.link_up(input)
            self._link_up(input.peer, now)
        elif isinstance(input, LinkDown):
            self._link_down(input.peer)
            for view in list(self.views.values()):
                if broker_of(view.name) == input.peer and self.is_up(view.upstream):
                    self._received_from_two(view.name, input.peer, str(view.upstream), now)
        elif isinstance(input, Parted):
            self._part(input, now)

    def _link_down(self, link: str) -> None:
        self._up.pop(link, None)
        if self.resend is not None:
            self.resend.forget(link)
        for what in ("tell", "confirm"):
            self.timers.clear((what, link))
        self._relay.link_down(link)

    def _part(self, parted: Parted, now: float) -> None:
        """A neighbour is gone for good, and with it every log that was heard from it; or it is not gone,
        and they are heard by another way soon, from where they are known."""
        peer = parted.peer
        self._link_down(peer)
        views = [view for view in self.views.values() if view.upstream == peer]
        if parted.is_elsewhere:
            self._orphan(views, now)
        for view in list(self.views.values()):
            if view.upstream == peer:
                self.forget(view.name, now)
            else:
                view.progress_by_link.pop(peer, None)
        self.recall.part(peer, now)
        self._needs_less(now)

    def _orphan(self, views: list[LogView], now: float) -> None:
        """These logs do not come by this link any more; tell the links that had them from us."""
        links, logs = {view.upstream for view in views}, tuple(view.name for view in views)
        for view in views:
            view.upstream, view.reported = ORPHAN, None
            self.timers.set(("orphan", view.name), now + self.settings.orphan_seconds)
        for link in self._up if views else ():
            if link not in links:
                self.ports.send(link, LogsUnreachable(logs))

    def trace(self, log: str, requester: str, links: Collection[str], now: float) -> str | None:
        upstream = self.upstream(log)
        if upstream in links:
            return upstream
        if upstream:
            self.elsewhere(upstream, now)
        else:
            self.ports.send(requester, LogsUnreachable((log,)))
        return None

    def marks(self, link: str) -> dict[str, int] | None:
        if any(view.upstream == ORPHAN or view.gap() is not None for view in self.views.values()):
            return None
        return {view.name: view.known for view in self.views.values() if view.upstream == link}

    def is_settled(self, marks: Mapping[str, int]) -> bool:
        return all(
            self.reports.acked(self.views[log]) >= upto for log, upto in marks.items() if log in self.views
        )

    def elsewhere(self, peer: str, now: float) -> None:
        self._orphan([view for view in self.views.values() if view.upstream == peer], now)

    def _receive_unknown_log(self, link: str, message: LogsUnreachable, now: float) -> None:
        self.recall.named(link, message.logs, now)
        views = [self.views[log] for log in message.logs if log in self.views]
        self._orphan([view for view in views if view.upstream == link], now)
        if any(view.is_sent_to(link) and view.link_progress(link).is_behind for view in views):
            self.timers.set(("tell", link), now)

    def own(self) -> LogView:
        """The view of our own log; it is named when the disk was read."""
        if self._own is None:
            log, upto = self.ports.own_log.position
            self._own = self.views[log] = LogView(log, None, upto)
        return self._own

    def _link_up(self, link: str, now: float) -> None:
        self._up[link] = None
        if self.resend is not None:
            self.resend.forget(link)
        self.own()
        for view in self.views.values():
            if view.upstream != link:
                view.link_progress(link).restart(view.known)
            else:
                view.reported = None
                self._look_for_gap(view, now)
        self._pauses[link] = self.settings.doubt_seconds
        self.timers.set(("tell", link), now)
        self._relay.link_up(link, now)
        self.recall.link_up(link, now)

    @property
    def is_unsure(self) -> bool:
        return self.recall.is_unsure

    def is_sure(self, now: float) -> None:
        """All neighbours are known: what was kept for one more need not be."""
        for view in self.views.values():
            view.progress_by_link.pop(UNKNOWN, None)
        self.ports.link_interest.ways_changed(now)
        self._needs_less(now)

    def _needs_less(self, now: float) -> None:
        """There are fewer neighbours for which logs are kept."""
        self._acked_more(self.own(), now)
        self.progressed(now)

    def peers(self) -> tuple[str, ...]:
        return self.ports.neighbours.peers()

    def is_up(self, link: str | None) -> bool:
        return link in self._up

    def knows_log_of(self, broker: str) -> bool:
        return any(broker_of(log) == broker for log in self.logs())

    def upstream(self, log: str) -> str | None:
        """The link toward the broker of a log; None when it is not known."""
        if log in self.views:
            return self.views[log].upstream
        broker = broker_of(log)
        for other in self.views.values():
            if broker_of(other.name) == broker:
                return other.upstream
        return None

    # -- events ------------------------------------------------------------------------------

    def keeps(self, event: Event) -> bool:
        return bool(self.peers()) and self.ports.link_interest.wanted_elsewhere(event)

    def observe(self, envelopes: Sequence[Envelope], came_from: str | None, now: float) -> Sequence[Envelope]:
        first, last = envelopes[0].offset, envelopes[-1].offset
        if came_from is None:
            for envelope in envelopes:
                self.own().advance(envelope.offset or 0)
            return envelopes
        view = self.views.get(envelopes[0].origin)
        if view is None or first is None or last is None:
            return ()  # the log went in the same step
        assert view.known < first <= last <= view.admitted, f"{view.name}: {first} twice"
        view.advance(last)
        return envelopes

    def outgoing(self, envelopes: Sequence[Envelope], link: str, now: float) -> Sequence[Envelope]:
        envelopes = self.far_ends.taken(link, envelopes, now)
        for envelope in envelopes:
            if SUPERSEDED in envelope.headers:
                envelopes = [each for each in envelopes if self.reports.takes(link, each)]
                break
        if not envelopes:
            return ()
        last, view = envelopes[-1].offset or 0, self.views[envelopes[0].origin]
        progress = view.link_progress(link)
        if last > progress.due:
            progress.due = last
        if link not in self._up:
            return ()
        previous, progress.last = progress.last, last
        for envelope in envelopes:
            if envelope.event.key is not None:
                progress.keyed = envelope.offset or 0
        self._pauses[link] = self.settings.doubt_seconds
        self.timers.set_by(("tell", link), now + self.settings.doubt_seconds)
        leaving = self._chain.after(previous, envelopes)
        if self.resend is not None:
            self.resend.note(link, leaving, now)
        return leaving

    def admit(self, envelopes: Sequence[Envelope], came_from: str, now: float) -> Sequence[Envelope]:
        ready: list[Envelope] = []
        log, view = "", None  # of the event before
        for envelope in envelopes:
            if envelope.origin != log:
                if view is not None:
                    self._look_for_gap(view, now)
                log, view = envelope.origin, self.views.get(envelope.origin)
                if view is not None and view.upstream != came_from:
                    view = None
                elif view is not None:
                    self._confirm_later(view, now)
            offset = envelope.offset
            if view is None or offset is None or offset <= view.admitted:
                continue  # of a log that was not announced yet: it will be, and then this is asked for
            if view.waiting or envelope.headers[PREVIOUS] > view.admitted:
                ready += view.admit(envelope, offset, self.settings.waiting)
            else:
                view.admitted, view.last = offset, max(view.last, offset)
                ready += (envelope,)
        if view is not None:
            self._look_for_gap(view, now)
        return ready

    def pass_waiting(self, view: LogView, now: float) -> None:
        """Pass on the waiting events that lack no earlier one, then see what is missing."""
        assert view.upstream is not None
        ready = view.admit_waiting()
        if ready:
            self.ports.events.arrived(ready, view.upstream, now)
        self._look_for_gap(view, now)

    def _look_for_gap(self, view: LogView, now: float) -> None:
        name = ("ask", view.name)
        if view.gap() is None:
            self.timers.clear(name)
            view.pause = 0.0
        elif not self.timers.is_set(name):
            view.pause = 0.0
            self.timers.set(name, now + self.settings.patience_seconds)

    # -- messages ----------------------------------------------------------------------------

    def on_message(self, sender: str, message: Message, now: float) -> None:
        if sender not in self._up:
            return
        if isinstance(message, Knowledge):
            from_there = [news.log for news in message.news if self._receive_knowledge(sender, news, now)]
            self.recall.note_links(from_there, sender)
        elif isinstance(message, AckProgress):
            self._receive_progress(sender, message, now)
        elif isinstance(message, LogsUnreachable):
            self._receive_unknown_log(sender, message, now)
        else:
            self._relay.on_message(sender, message, now)

    def _receive_knowledge(self, link: str, news: LogKnowledge, now: float) -> bool:
        """A link says how far a log is; False: the log does not come over this link."""
        view = self.views.get(news.log) or self._learn(link, news, now)
        if view is None or not self._is_way(view, link, news, now):
            return False
        view.last = max(view.last, news.last)
        if view.known >= news.last:
            view.advance(news.upto)
        view.reported = None  # the announcing neighbour wants an answer
        self._confirm_later(view, now)
        self.pass_waiting(view, now)
        return True

    def _is_way(self, view: LogView, link: str, news: LogKnowledge, now: float) -> bool:
        """Does the log come over this link?"""
        if view.upstream == ORPHAN:
            view.upstream = link
            view.progress_by_link.pop(link, None)
            view.last = max(view.last, news.base)  # what we lack of what came before is asked for
            self.timers.clear(("orphan", view.name))
            self._announce(view, now)
        elif view.upstream is not None and view.upstream != link:
            self._received_from_two(news.log, view.upstream, link, now)
            return view.upstream == link
        if broker_of(news.log) != link and not self.is_up(broker_of(news.log)):
            self._received_from_two(news.log, broker_of(news.log), link, now)
        return view.upstream == link

    def _received_from_two(self, log: str, upstream: str, other: str, now: float) -> None:
        self.ports.topology.received_from_two(log, upstream, other, now)

    def _learn(self, link: str, news: LogKnowledge, now: float) -> LogView | None:
        """A log that is new here: take it from where the neighbour answers for it."""
        broker = broker_of(news.log)
        if broker == self.ports.name:
            return None
        others = [name for name in self.views if name.startswith(broker) and broker_of(name) == broker]
        for other in others:
            self._inquire(other, link, now)
        if others:
            return None  # told again, and taken as soon as the other one is known to be gone
        self._gone.pop(news.log, None)
        view = self.views[news.log] = LogView(news.log, link, news.base)
        self._announce(view, now)
        self.ports.log_readers.log_found(news.log, now)
        self.recall.found(broker, now)
        return view

    def _announce(self, view: LogView, now: float) -> None:
        """A log comes over a new link: tell the other links."""
        for other in self._up:
            if other != view.upstream:
                view.link_progress(other)
                self.timers.set(("tell", other), now)

    def _inquire(self, log: str, link: str | None, now: float) -> None:
        """Ask the broker of a log whether it still has it: by this link, or by the one toward that broker."""
        if self._inquired.get(log, -inf) + self.settings.retry_seconds > now:
            return
        self._inquired.pop(log, None)
        self._inquired[log] = now
        if len(self._inquired) > self.settings.gone:
            del self._inquired[next(iter(self._inquired))]
        inquiry = RangeRequest(log, 0, 0, (self.ports.name,))
        if link is None:
            self._relay.ask(inquiry)
        else:
            self.ports.send(link, inquiry)

    def gone(self, log: str, now: float) -> None:
        """The log's broker said that it has another log now."""
        self._gone[log] = None
        if len(self._gone) > self.settings.gone:
            del self._gone[next(iter(self._gone))]
        self.forget(log, now)

    def is_gone(self, log: str) -> bool:
        return log in self._gone

    def forget(self, log: str, now: float) -> None:
        """Drop a log and every reading of it. A subscription may read a log that this broker never knew: a
        token from another broker names it."""
        self.views.pop(log, None)
        for what in ("ask", "orphan"):
            self.timers.clear((what, log))
        self._relay.log_gone(log, now)
        self.ports.log_readers.log_gone(log, is_replaced=log in self._gone)

    def _receive_progress(self, link: str, message: AckProgress, now: float) -> None:
        for had in message.had:
            view = self.views.get(had.log)
            if view is None or view.upstream == link:
                continue
            progress = view.link_progress(link)
            is_less = self.reports.note(view, progress, had)
            if self.reports.is_unknown(view, progress, had):
                self._confirm_later(view, now)
            if is_less:
                self._acked_more(view, now)
        progress_of = list(self._link_progress(link))
        if not any(progress.is_behind for progress in progress_of):
            self.timers.clear(("tell", link))
            self._pauses[link] = self.settings.doubt_seconds
            if any(progress.owes for progress in progress_of):
                self.timers.set(("tell", link), now + self.settings.poll_seconds)

    def is_log_unsure(self, now: float) -> bool:
        return self.rollback.is_unsure(now)

    def _link_progress(self, link: str) -> list[LinkProgress]:
        return [view.link_progress(link) for view in self.views.values() if view.is_sent_to(link)]

    def _acked_more(self, view: LogView, now: float) -> None:
        if view.upstream is None:
            self.ports.own_log.unpinned()
        elif view.reported is None or self.reports.acked(view) > view.reported[1]:
            self._confirm_later(view, now)

    # -- confirming --------------------------------------------------------------------------

    def is_pinned(self, offset: int) -> bool:
        progress_of = self.own().progress_by_link
        return any(link not in progress_of or progress_of[link].wants(offset) for link in self.peers())

    def keepers(self, offset: int) -> Sequence[str]:
        progress_of = self.own().progress_by_link
        return [link for link in self.peers() if link not in progress_of or progress_of[link].wants(offset)]

    def needs_superseded(self, offset: int) -> bool:
        return self.reports.pins_superseded(offset)

    def progressed(self, now: float) -> None:
        for view in self.views.values():
            if self.reports.is_news(view):
                self._confirm_later(view, now)

    def _confirm_later(self, view: LogView, now: float) -> None:
        assert view.upstream is not None
        if view.upstream in self._up:
            self._to_confirm[view.name] = None
            self.timers.set_by(("confirm", view.upstream), now + self.settings.confirm_seconds)

    def _confirm(self, link: str) -> None:
        had = []
        waiting, self._to_confirm = self._to_confirm, {}
        for name in waiting:
            view = self.views.get(name)
            if view is not None and view.upstream != link:
                self._to_confirm[name] = None
            elif view is not None and (state := self.reports.make(view)) != view.reported:
                view.reported = state
                had.append(LogAck(name, *state))
        if had:
            self.ports.send(link, AckProgress(tuple(had)))

    # -- the timer ---------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        return self.timers.next()

    def on_timer(self, now: float) -> None:
        readings: list[int] = []
        for what, recipient in self.timers.due(now):
            if what == "tell":
                self._announce_to(recipient, now)
            elif what == "confirm":
                self._confirm(recipient)
            elif what in (PARTS, ASKS):
                self._relay.on_timer(what, recipient, now)
            elif what == "ask":
                self._request(self.views[recipient], now)
            elif what == "orphan":
                self.recall.unheard(broker_of(recipient))
                self.forget(recipient, now)
            elif what == ASK:
                self.recall.ask(recipient, now)
            elif what == NAMED:
                self.recall.found(recipient, now)
            elif what == ALONE:
                self.recall.stop_joining(now)
            else:
                readings.append(int(recipient))
        self._relay.retry(readings, now)

    def _announce_to(self, link: str, now: float) -> None:
        """Say what the far end does not have, as far as we know."""
        views = [view for view in self.views.values() if view.is_sent_to(link)]
        behind = [view for view in views if view.link_progress(link).is_behind]
        owing = [view for view in views if view.link_progress(link).owes]
        announcing = behind or owing
        if not announcing:
            return
        self.ports.send(link, Knowledge(tuple(view.news(link) for view in announcing)))
        pause = self._pauses[link]
        self._pauses[link] = min(2 * pause, self.settings.slow_seconds)
        self.timers.set(("tell", link), now + (pause if behind else self.settings.poll_seconds))

    def _request(self, view: LogView, now: float) -> None:
        upto = view.gap()
        if upto is None:
            return
        self._relay.ask(RangeRequest(view.name, view.known, upto, (self.ports.name,)))
        settings = self.settings
        view.pause = min(max(2 * view.pause, settings.retry_seconds), settings.slow_seconds)
        self.timers.set(("ask", view.name), now + view.pause)

    # -- for delivery ------------------------------------------------------------------------

    def has_log(self, log: str) -> bool:
        return log in self.views and self.views[log].upstream is not None

    def logs(self) -> tuple[str, ...]:
        return tuple(view.name for view in self.views.values() if view.upstream is not None)

    def known(self, log: str) -> int:
        view = self.views.get(log)
        return 0 if view is None else view.known

    def hurry(self, log: str, offset: int, now: float) -> None:
        view = self.views.get(log)
        if view is None and log not in self._gone and broker_of(log) != self.ports.name:
            self._inquire(log, None, now)
        if view is None or view.known >= offset or view.hurried_at + self.settings.retry_seconds > now:
            return
        view.hurried_at = now
        self._relay.ask(RangeRequest(log, view.known, offset, (self.ports.name,)))

    def read(
        self, log: str, wanted: ReadRequest, then: Callable[[ReadResult, float], None], now: float
    ) -> int:
        if not self.has_log(log):
            self.hurry(log, wanted.after + 1, now)  # its broker may have lost that disk
            return 0
        return self._relay.read(log, wanted, then, now)

    def give_up(self, reading: int) -> None:
        self._relay.give_up(reading)

    # -- for people and for tests --------------------------------------------------------------

    def waiting(self) -> int:
        """Events that wait for earlier ones, and readings that wait for an answer."""
        return sum(len(view.waiting) for view in self.views.values()) + self._relay.waiting

    def size(self) -> int:
        """Numbers kept for others: it must not grow with remote subscribers."""
        return sum(1 + len(view.progress_by_link) for view in self.views.values())

    def check(self) -> None:
        for name, view in self.views.items():
            assert view.name == name
            view.check()
            if view.gap() is not None:
                assert self.timers.is_set(("ask", name)), f"{name}: a gap without a request"
        for link in self._up:
            if any(progress.is_behind for progress in self._link_progress(link)):
                assert self.timers.is_set(("tell", link)), f"{link}: behind, and no announcement is due"
