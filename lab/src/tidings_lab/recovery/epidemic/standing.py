"""Standing of peers: those that waste others' work are ignored for a while.

Rules
- A strike is: a peer offered what it does not give when asked; asked again for what it was given often
  enough already; asked only for events that no broker can have lost; sent a digest that is over
  the bound. So many strikes and the peer is ignored for a while; then it may try again. Each time
  the while is twice as long: honest peers have bad luck where messages are lost, so the first is short.
  Strikes while a peer is ignored do not count: several requests are open at once, and they are of one bad
  moment.
- A peer with disbelieved offers may still ask, and the other way round. Else two honest peers of which one
  had bad luck would not answer one another, each find the other's offers empty, and never come out of it.
- An offer that was kept, late or not, clears what is held against the peer's offers, so that a slow peer is
  heard again; only time clears what is held against its requests, or a helpful liar would go on. One
  unanswered request is one strike however many events it named.
"""

from __future__ import annotations

from collections import OrderedDict

from tidings_lab.recovery.epidemic.messages import Id

MOST_PEERS = 10_000
MOST_GIVEN = 20_000  # that are remembered
OFFER, REQUEST = "offer", "request"  # what a strike is for
Charge = tuple[str, str]  # a peer, and for what
OFTEN = 5  # times that one peer is given one event before it is too often; of ten replies one may be lost


class PeerStanding:
    def __init__(self, strikes: int, ignore_seconds: float, longest_seconds: float) -> None:
        self._most = strikes
        self._first = ignore_seconds
        self._longest = longest_seconds  # also the time after which strikes are forgotten
        # By peer and what it is for:
        self._times: OrderedDict[Charge, tuple[int, float]] = OrderedDict()  # how often ignored, until when
        self._strikes: OrderedDict[Charge, tuple[int, float]] = OrderedDict()  # how many, the last when
        self._ignored: OrderedDict[Charge, float] = OrderedDict()  # until when
        self._given: OrderedDict[tuple[str, Id], int] = OrderedDict()
        self.ignored = 0  # messages that were not listened to
        self.banned = 0  # times that a peer was

    def is_ignored(self, peer: str, what: str, now: float) -> bool:
        until = self._ignored.get((peer, what))
        if until is None:
            return False
        if until <= now:
            del self._ignored[peer, what]
            return False
        self.ignored += 1
        return True

    def strike(self, peer: str, what: str, now: float) -> None:
        charge = (peer, what)
        if self._ignored.get(charge, now) > now:
            return  # for what was under way when it was found out
        count, last = self._strikes.pop(charge, (0, now))
        count = count + 1 if now - last <= self._longest else 1
        if count >= self._most:
            self.banned += 1
            times, before = self._times.pop(charge, (0, now))
            times = times if now - before <= self._longest else 0
            until = now + min(self._longest, self._first * 2**times)
            self._times[charge] = (times + 1, until)
            self._ignored[charge] = until
        else:
            self._strikes[charge] = (count, now)
        for table in (self._strikes, self._ignored, self._times):
            if len(table) > MOST_PEERS:
                table.popitem(last=False)

    def clear(self, peer: str) -> None:
        """The peer kept its offer."""
        for table in (self._strikes, self._times, self._ignored):
            table.pop((peer, OFFER), None)

    def give(self, peer: str, id: Id, now: float) -> bool:
        """May this peer have this event, again? False: it was given often enough."""
        key = (peer, id)
        count = self._given[key] = self._given.pop(key, 0) + 1
        if len(self._given) > MOST_GIVEN:
            self._given.popitem(last=False)
        return count <= OFTEN

    def offenders(self, now: float) -> set[str]:
        """Peers that are ignored now."""
        return {peer for (peer, _), until in self._ignored.items() if until > now}
