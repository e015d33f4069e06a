"""Pull with negative digests (Costa et al. 2003, 4.2 and Figure 3; COS-5, COS-6, COS-7).

A gap in the counters of a pattern is a loss. While there are losses, every round asks for those of one
pattern toward its other subscribers, or for those of one source back along the way that its events
came. A broker that holds some sends them, and takes them off the digest (E-C2). Without losses no message is
sent.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidings.protocol.effects import Channel
from tidings.protocol.messages import Envelope, Message
from tidings.protocol.slots import Ports
from tidings_lab.recovery.epidemic.base import Epidemic
from tidings_lab.recovery.epidemic.cache import CachedEvent
from tidings_lab.recovery.epidemic.digests import Entry, is_in, smaller, with_given, without
from tidings_lab.recovery.epidemic.heartbeats import Heartbeats
from tidings_lab.recovery.epidemic.messages import (
    MARK,
    TAGS_AT,
    Bloom,
    CounterBeat,
    Id,
    Loss,
    Mark,
    PatternPull,
    Recovered,
    SourcePull,
    tags_of,
)
from tidings_lab.recovery.epidemic.standing import REQUEST

SLACK = 64  # counters by which another broker may be ahead of us


class _Pull(Epidemic):
    uses_tags = True

    def bind(self, ports: Ports) -> None:
        super().bind(ports)
        seconds = self.settings.heartbeat_seconds
        self.beats = Heartbeats(ports, self.counters, self.links_wanting, seconds, self.uses_routes)
        self._is_beating = seconds > 0

    @property
    def files_events(self) -> bool:
        return self.settings.bloom or self.settings.heartbeat_seconds > 0

    def filed_under(self, envelope: Envelope) -> tuple[int, ...]:
        if not self.settings.bloom:
            return ()
        return tuple([pattern for pattern, _ in tags_of(envelope.headers[MARK])])

    def keep(self, envelope: Envelope, since: float, now: float, *, is_own: bool) -> None:
        if is_own and self._is_beating:
            self.beats.published(tags_of(envelope.headers[MARK]), now)
        super().keep(envelope, since, now, is_own=is_own)

    def way_back(self, source: str) -> tuple[str, ...]:
        """To a source, nearest first (E-C4)."""
        mark = self.received.source(source).mark
        route = [broker for broker in mark[TAGS_AT:] if type(broker) is str]  # tags are numbers
        if route and route[-1] == self.ports.name:
            route.pop()
        return tuple(reversed(route))

    def was_asked_for(self, mark: Mark) -> bool:
        is_lost = super().was_asked_for(mark)
        if is_lost:
            self.patience.answered()
        return is_lost

    # -- rounds ------------------------------------------------------------------------------

    def noticed_loss(self, now: float) -> None:
        if self.settings.at_once:
            self.pace.at_once(now)
        else:
            self.pace.begin(now)

    def round(self, now: float) -> None:
        if not self.losses.count:
            self.pace.rest()
            return
        self.count["rounds"] += 1
        self.pull(now)
        self.pace.next(now)

    def pull(self, now: float) -> None:
        """Ask for some of what is lost."""

    def pull_by_pattern(self, now: float, among: Sequence[int] = ()) -> None:
        """Ask the other subscribers of one lost pattern, drawn from `among`, or from all lost patterns."""
        settings = self.settings
        latest = self.losses.take_latest() if settings.at_once else None
        if latest is not None and (not among or latest[1] in among):
            pattern = latest[1]
        else:
            pattern = self.ports.rng.choice(among or self.losses.patterns())
        requested = self.losses.ask(now, self.patience.seconds, settings.most_entries, pattern=pattern)
        lost = {source: counters for (source, _), counters in requested.items()}
        if lost:
            bloom = smaller(lost) if settings.bloom else None
            message = PatternPull(self.ports.name, pattern, {} if bloom else lost, bloom)
            self.gossip(self.links_for(pattern), message)

    def pull_by_source(self, now: float) -> None:
        settings = self.settings
        latest = self.losses.take_latest() if settings.at_once else None
        source = latest[0] if latest else self.ports.rng.choice(self.losses.sources())
        requested = self.losses.ask(now, self.patience.seconds, settings.most_entries, source=source)
        lost = {pattern: counters for (_, pattern), counters in requested.items()}
        route = self.way_back(source)
        if lost and route:
            bloom = smaller(lost) if settings.bloom else None
            message = SourcePull(self.ports.name, source, {} if bloom else lost, route[1:], bloom)
            self.count["gossip"] += 1
            self.ports.send(route[0], message, Channel.DATAGRAM)

    def links_for(self, pattern: int) -> tuple[str, ...]:
        return self.links_wanting(pattern)

    # -- answering ---------------------------------------------------------------------------

    def on_message(self, sender: str, message: Message, now: float) -> None:
        if isinstance(message, PatternPull):
            self._on_pattern_pull(sender, message, now)
        elif isinstance(message, SourcePull):
            self._on_source_pull(message, now)
        elif isinstance(message, Recovered):
            self.take(sender, message, now)
        elif isinstance(message, CounterBeat):
            self._on_heartbeat(sender, message, now)

    def _on_pattern_pull(self, sender: str, pull: PatternPull, now: float) -> None:
        pattern = pull.pattern
        losses = [(source, pattern, c) for source, counters in pull.lost.items() for c in counters]
        if not self._may_pull(pull.initiator, losses, now):
            return
        if pull.bloom is not None:
            found = [
                (cached, (cached.mark.source, counter))
                for cached in self.cache.matching(pattern)
                for tag, counter in cached.mark.tags
                if tag == pattern
            ]
            given = self._give_perhaps(pull.initiator, pull.bloom, found, now)
            bloom = with_given(pull.bloom, given)
            onward = None if bloom is None else PatternPull(pull.initiator, pattern, {}, bloom)
        else:
            given = self._give_all(pull.initiator, [(loss, (loss[0], loss[2])) for loss in losses], now)
            lost = without(pull.lost, given) if given else pull.lost
            onward = PatternPull(pull.initiator, pattern, lost) if lost else None
        if onward is None:
            return
        is_member = self.wanted_here(pattern) is not None
        if not is_member or self.ports.rng.random() < self.settings.forward:  # E-C1
            self.gossip(self.links_for(pattern), onward, sender)

    def _on_source_pull(self, pull: SourcePull, now: float) -> None:
        source = pull.source
        losses = [(source, pattern, c) for pattern, counters in pull.lost.items() for c in counters]
        if not self._may_pull(pull.initiator, losses, now):
            return
        lost, bloom = pull.lost, pull.bloom
        if bloom is not None:
            found = [
                (cached, (tag[0], tag[1]))
                for cached in self.cache.all()
                if cached.mark.source == source
                for tag in cached.mark.tags
            ]
            bloom = with_given(bloom, self._give_perhaps(pull.initiator, bloom, found, now))
        else:
            given = self._give_all(pull.initiator, [(loss, loss[1:]) for loss in losses], now)
            lost = without(pull.lost, given) if given else pull.lost
        if pull.route and (lost or bloom is not None):
            self.count["gossip"] += 1
            onward = SourcePull(pull.initiator, source, lost, pull.route[1:], bloom)
            self.ports.send(pull.route[0], onward, Channel.DATAGRAM)

    def _give_all(self, peer: str, requested: list[tuple[Loss, Entry]], now: float) -> set[Entry]:
        """Send what is here of it; the entries that were answered. One event may answer several."""
        given: set[Entry] = set()
        sent: dict[Id, bool] = {}
        for loss, entry in requested:
            cached = self.cache.find(loss)
            if cached is None:
                continue
            if cached.mark.id not in sent:
                sent[cached.mark.id] = self.give(peer, cached, now)
            if sent[cached.mark.id]:
                given.add(entry)
        if sent and not given:
            self.standing.strike(peer, REQUEST, now)
        return given

    def _give_perhaps(
        self, peer: str, bloom: Bloom, cached: list[tuple[CachedEvent, Entry]], now: float
    ) -> set[Entry]:
        return {entry for each, entry in cached if is_in(bloom, entry) and self.give(peer, each, now)}

    def _may_pull(self, initiator: str, losses: list[Loss], now: float) -> bool:
        if not self.may_ask(initiator, now):
            return False
        verdicts = {self._is_false(loss) for loss in losses[: 2 * self.settings.most_entries]}
        if len(losses) > 2 * self.settings.most_entries or verdicts == {True}:
            self.standing.strike(initiator, REQUEST, now)
            return False
        return True

    def _is_false(self, loss: Loss) -> bool | None:
        """Is it certain that no broker has lost this? None: unknown."""
        source, pattern, counter = loss
        if source == self.counters.source:
            return counter > self.counters.last(pattern)
        if self.wanted_here(pattern) is None:
            return None  # what becomes of this pattern is not our affair
        expected = self.losses.expected(source, pattern)
        if expected is None:
            return not self.received.knows(source)
        return counter >= expected + SLACK

    # -- heartbeats --------------------------------------------------------------------------

    def _on_heartbeat(self, sender: str, beat: CounterBeat, now: float) -> None:
        route = (*beat.route, self.ports.name)
        if self.uses_routes:
            self.received.source(beat.source).mark = (beat.source, 0, 0, *route)
        if self.losses.receive(beat.source, beat.counters.items()):
            self.noticed_loss(now)
        self.beats.pass_on(CounterBeat(beat.source, beat.counters, route), sender, self.channel)

    def next_deadline(self) -> float | None:
        if not self._is_beating:
            return self.pace.due
        due, beat = self.pace.due, self.beats.due
        return due if beat is None or (due is not None and due < beat) else beat

    def on_timer(self, now: float) -> None:
        super().on_timer(now)
        if self._is_beating:
            self.beats.on_timer(now, self.channel)


class SubscriberPull(_Pull):
    name = "subscriber pull"

    def pull(self, now: float) -> None:
        self.pull_by_pattern(now)


class PublisherPull(_Pull):
    name = "publisher pull"
    uses_routes = True

    def pull(self, now: float) -> None:
        self.pull_by_source(now)


class CombinedPull(_Pull):
    name = "combined pull"
    uses_routes = True

    def pull(self, now: float) -> None:
        """Pull by source or by pattern, by chance; by source where no other broker wants any of the lost
        patterns.

        Only patterns that another broker wants are drawn: a round for any other pattern would reach no
        broker, and its losses would count as asked for until the patience is over."""
        shared = [pattern for pattern in self.losses.patterns() if self.links_for(pattern)]
        if not shared or self.ports.rng.random() < self.settings.by_source:
            self.pull_by_source(now)
        else:
            self.pull_by_pattern(now, shared)


class RandomPull(_Pull):
    """The baseline: gossip goes anywhere, not where the pattern is wanted."""

    name = "random pull"

    def pull(self, now: float) -> None:
        self.pull_by_pattern(now)

    def links_for(self, pattern: int) -> tuple[str, ...]:
        return self.links()
