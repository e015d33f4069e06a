"""Failure detection in the manner of SWIM, with timeouts that follow our own health (Lifeguard).

Rules
- A probe is a `Ping`; when no `KeepaliveAck` comes in time, some others are asked to ping for us; when no
  answer comes that way either, the member is *suspected*, and after a while without a refutation, *gone*.
- A member that hears that it is suspected answers with a higher incarnation.
- Suspicion, death and refutation travel as *news* on every message, each a bounded number of times. A peer
  that hears of a suspicion against a member of its own tables probes it too and believes only itself: with
  partial views a refutation may not reach every peer that heard the suspicion.
- Only so many probes may be open for news of a doubt to make another, and so many for others; more are left
  out. Without a bound, news of doubts makes probes, probes in a crowd make doubts, and the load feeds itself.
- A suspected member is probed again in every period, so that a few lost messages condemn no member.
- Missed answers may be our own fault: each one lowers our health, each answer raises it, and all timeouts
  are multiplied by (1 + missed health).
- Answers that come late, even when they are waited for no more, tell of crowding: of too much work for us,
  for the network or for others. Then rounds slow down (`pace`), since more probes and shuffles would make it
  worse. Loss and deaths do not: they make no answer late. And a late answer was not lost: a crowd that took
  itself for a lossy network would send more copies of everything.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

ALIVE, SUSPECT, GONE = "alive", "suspect", "gone"

News = tuple[str, str, int]  # what, of whom, incarnation


class ProbeSettings(msgspec.Struct, frozen=True, kw_only=True):
    timeout: float = 0.25  # seconds for a direct answer
    suspicion: float = 3.0  # seconds until a suspected member is taken for gone
    helpers: int = 3
    most_open: int = 6  # own probes beside which news makes no more, and as many for others
    most_health: int = 8
    news_times: int = 8  # how often each piece of news is told
    news_at_once: int = 8
    graves: int = 1000  # members that are remembered as gone
    window: int = 40  # probes of which the share of answers is taken
    lateness: float = 0.2  # weight of one answer in the time that answers take
    slowest: float = 9.0  # how many times longer a round may take at most
    remembered: int = 200  # probes whose answers are known however late they come


class _Suspicion(msgspec.Struct, frozen=True):
    """A member that is suspected, or taken for gone."""

    incarnation: int
    since: float
    until: float = 0.0


class _Gossip(msgspec.Struct):
    """A piece of news, and how often it is still to be told."""

    what: str
    incarnation: int
    times: int


class _PendingProbe(msgspec.Struct):
    target: str
    until: float
    is_indirect: bool = False
    asked_by: tuple[str, int] | None = None  # we ping for another peer, which used this number


class Prober:
    """The state of failure detection of one peer; it says what to send through `ping` and `ask`."""

    def __init__(
        self, settings: ProbeSettings, *, ping: Callable[[str, int], None],
        ask: Callable[[str, int, str], None],
        pong: Callable[[str, int], None], helpers: Callable[[int, str], tuple[str, ...]],
        incarnation_of: Callable[[str], int], is_known: Callable[[str], bool], lost: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.settings = settings
        self.incarnation = 0
        self.health = 0  # 0 is best
        self._outcomes: dict[int, bool] = {}  # of the last direct probes, by number: was there an answer?
        self.delay = 0.0  # seconds that a direct answer takes, smoothed
        self._sent: dict[int, tuple[str, float]] = {}  # by number: the peer we asked, and when
        self.suspects: dict[str, _Suspicion] = {}
        self.graves: dict[str, _Suspicion] = {}
        self._probes: dict[int, _PendingProbe] = {}
        self._number = 0
        self._news: dict[str, _Gossip] = {}  # by name
        self._ping, self._request, self._pong, self._helpers, self._lost = ping, ask, pong, helpers, lost
        self._incarnation_of, self._is_known = incarnation_of, is_known

    def _patience(self, now: float, seconds: float) -> float:
        return now + seconds * (1 + self.health)

    def pace(self) -> float:
        """Factor by which rounds are slowed: it grows as more answers come too late."""
        return min(self.settings.slowest, max(1.0, self.delay / (3 * self.settings.timeout)))

    # -- probing ------------------------------------------------------------------------------

    def probe(self, target: str, now: float, asked_by: tuple[str, int] | None = None) -> None:
        alike = self._open(for_others=asked_by is not None)
        if target in alike if asked_by is None else len(alike) >= self.settings.most_open:
            return
        self._number += 1
        self._probes[self._number] = _PendingProbe(
            target, self._patience(now, self.settings.timeout), False, asked_by
        )
        if asked_by is None:  # of those for others we would see the answers alone
            self._sent[self._number] = (target, now)
            if len(self._sent) > self.settings.remembered:
                del self._sent[next(iter(self._sent))]
        self._ping(target, self._number)

    def _open(self, *, for_others: bool) -> list[str]:
        return [p.target for p in self._probes.values() if (p.asked_by is not None) == for_others]

    def answered(self, number: int, by: str, now: float) -> None:
        requested, at = self._sent.get(number, ("", now))
        if requested == by:
            del self._sent[number]
            self.delay += self.settings.lateness * (now - at - self.delay)
            self._observe(number, is_answered=True)
        probe = self._probes.pop(number, None)
        if probe is None:
            return
        if probe.asked_by is not None:
            self._pong(*probe.asked_by)
            return
        self.health = max(0, self.health - 1)

    def _observe(self, number: int, *, is_answered: bool) -> None:
        self._outcomes[number] = is_answered
        while len(self._outcomes) > self.settings.window:
            del self._outcomes[next(iter(self._outcomes))]

    def loss(self) -> float:
        """A probe is two messages; those to the dead count as lost, as they do for gossip. Few probes show
        little: four more are added, two of them answered (Agresti and Coull), so that no peer trusts an
        unmeasured network."""
        share = (sum(self._outcomes.values()) + 2) / (len(self._outcomes) + 4)
        return float(1.0 - share**0.5)

    def probe_suspects(self, now: float) -> None:
        for name in self.suspects:
            self.probe(name, now)

    def seen(self, name: str) -> None:
        """A member that sends is alive."""
        self.suspects.pop(name, None)
        self.graves.pop(name, None)

    def on_timer(self, now: float) -> None:
        for number, probe in list(self._probes.items()):
            if probe.until <= now:
                self._missed(number, probe, now)
        for name, suspicion in list(self.suspects.items()):
            if suspicion.until <= now:
                self.bury(name, suspicion.incarnation, now)

    def _missed(self, number: int, probe: _PendingProbe, now: float) -> None:
        if probe.asked_by is not None:
            del self._probes[number]
        elif not probe.is_indirect:
            probe.is_indirect = True
            self._observe(number, is_answered=False)
            probe.until = self._patience(now, 2 * self.settings.timeout)
            for helper in self._helpers(self.settings.helpers, probe.target):
                self._request(helper, number, probe.target)
        else:
            del self._probes[number]
            self.health = min(self.settings.most_health, self.health + 1)
            self.suspect(probe.target, self._incarnation_of(probe.target), now)

    def next_deadline(self) -> float | None:
        times = [probe.until for probe in self._probes.values()]
        return min([*times, *(suspicion.until for suspicion in self.suspects.values())], default=None)

    # -- news ---------------------------------------------------------------------------------

    def announce(self, what: str, name: str, incarnation: int) -> None:
        self._news[name] = _Gossip(what, incarnation, self.settings.news_times)

    def take_news(self) -> tuple[News, ...]:
        """For the next message: what was told least often first."""
        order = sorted(self._news.items(), key=lambda pair: -pair[1].times)
        taken = []
        for name, item in order[: self.settings.news_at_once]:
            taken.append((item.what, name, item.incarnation))
            item.times -= 1
            if not item.times:
                del self._news[name]
        return tuple(taken)

    def receive(self, own: str, news: tuple[News, ...], now: float) -> None:
        for what, name, incarnation in news:
            if name == own:
                if what != ALIVE and incarnation >= self.incarnation:
                    self.incarnation = incarnation + 1
                    self.health = min(self.settings.most_health, self.health + 1)
                    self.announce(ALIVE, own, self.incarnation)
            elif what != ALIVE:
                is_crowded = len(self._open(for_others=False)) >= self.settings.most_open
                if incarnation >= self._incarnation_of(name) and self._is_known(name) and not is_crowded:
                    self.probe(name, now)
            elif self.refuted(name, incarnation, now=now, last_seen=now - 1e9):
                self.announce(ALIVE, name, incarnation)

    def suspect(self, name: str, incarnation: int, now: float) -> None:
        if name in self.suspects or name in self.graves or incarnation < self._incarnation_of(name):
            return
        self.suspects[name] = _Suspicion(incarnation, now, self._patience(now, self.settings.suspicion))
        self.announce(SUSPECT, name, incarnation)

    def bury(self, name: str, incarnation: int, now: float) -> None:
        if name in self.graves or incarnation < self._incarnation_of(name):
            return
        self.suspects.pop(name, None)
        self.graves[name] = _Suspicion(incarnation, now)
        while len(self.graves) > self.settings.graves:
            del self.graves[next(iter(self.graves))]
        self.announce(GONE, name, incarnation)
        self._lost(name)

    def refuted(self, name: str, incarnation: int, *, now: float, last_seen: float) -> bool:
        """A peer says that a member lived at `last_seen`: was it suspected, and is it no more?"""
        suspicion = self.suspects.get(name) or self.graves.get(name)
        if suspicion is None or (incarnation <= suspicion.incarnation and last_seen <= suspicion.since):
            return False
        self.seen(name)
        return True

    def is_gone(self, name: str) -> bool:
        return name in self.graves
