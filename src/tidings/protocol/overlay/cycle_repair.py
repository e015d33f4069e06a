"""Finding the cycle that two joins closed together, and the link in it that has to go.

Each join alone is checked (`joined.py`); two at the same moment, far apart, are not seen by either. Then
the logs in the cycle are heard from two sides, and the broker that notices sends a question up both ways
(`CycleQuery`). The two questions meet where the ways do, and with them all links of the cycle. Rules
- The youngest link of the cycle goes, and no other. Both ends of a link date it, the later date counts;
  so the answer is the same for every asking broker and every log, and of several cycles that share links
  what remains hangs together (it is the spanning tree of the oldest links).
- An end of that link is told along the way that the question took (`CutLink`); it tells the other end
  (`LinkUndone`), and both forget one another. What came over the link comes by the other way then.
- When a question reaches a broker that does not hear the log, that broker says so to the sender.
- A question may reach a broker whose link toward the log is down: the far end may have undone that link, and
  its word (`LinkUndone`) is lost. The broker then says that it hears no log over this link any more, and
  takes the logs from the link that tells of them first: another one, and then the old link is undone here
  too, or the same one when it is up again.
- A question is remembered for a while only, and few are; a broker that hears a log from two sides again asks
  again.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tidings.protocol.messages import Message
from tidings.protocol.naming import broker_of
from tidings.protocol.slots import Ports

PAUSE_SECONDS = 0.5  # between two questions of one broker; a cycle is found as soon, and is harmless
KEPT_SECONDS = 30.0  # that the first of two questions is remembered
MOST_KEPT = 256


class DatedLink(msgspec.Struct, frozen=True, array_like=True, order=True):
    """A link, with the later of the two times at which its ends wrote it down."""

    since: float
    one: str  # the smaller name
    other: str


class CycleQuery(Message, frozen=True, tag="Circle"):
    """Goes toward a log, along both ways on which it is heard."""

    log: str
    finder: str
    number: int
    path: tuple[str, ...]  # from the finder to the sender
    since: float  # when the sender wrote down the link that this travels on
    youngest: DatedLink | None = None  # of the links before


class CutLink(Message, frozen=True, tag="Cut"):
    """Goes back along the way of a question to an end of the link that has to go."""

    link: DatedLink
    path: tuple[str, ...]  # brokers that it still has to pass; the last one first


class LinkUndone(Message, frozen=True, tag="Uncoupled"):
    """The sender has undone the link that this comes on."""


MESSAGES: tuple[type[Message], ...] = (CycleQuery, CutLink, LinkUndone)


def dated(since: float, one: str, other: str) -> DatedLink:
    return DatedLink(since, min(one, other), max(one, other))


class CycleRepair:
    """`since` says when a neighbour was written down, `cut` undoes the link to one."""

    def __init__(
        self, ports: Ports, since: Callable[[str], float], cut: Callable[[str, float], None]
    ) -> None:
        self._ports = ports
        self._since = since
        self._cut = cut
        self._asked_at = float("-inf")
        self._last_number = 0
        self._kept: dict[tuple[str, int], tuple[float, str, CycleQuery, DatedLink]] = {}

    def suspect(self, log: str, one: str, other: str, now: float) -> None:
        """A log is heard over two links."""
        if now < self._asked_at + PAUSE_SECONDS:
            return
        self._asked_at = now
        self._last_number += 1
        for link in (one, other):
            query = CycleQuery(
                log, self._ports.name, self._last_number, (self._ports.name,), self._since(link)
            )
            self._ports.send(link, query)

    def on_cycle_query(self, sender: str, query: CycleQuery, now: float) -> None:
        name = self._ports.name
        if name in query.path or not query.path or query.path[-1] != sender:
            return  # it went round
        link = dated(max(query.since, self._since(sender)), sender, name)
        youngest = link if query.youngest is None else max(query.youngest, link)
        first = self._kept.get((query.finder, query.number))
        if first is not None and first[1] != sender:
            del self._kept[query.finder, query.number]
            self._decide(first[2], first[3], query, youngest, now)
            return
        self._keep(sender, query, youngest, now)
        if broker_of(query.log) == name:
            return
        upstream = self._ports.log_paths.trace(query.log, sender, self._ports.neighbours.links(), now)
        if upstream is not None and upstream != sender:
            path = (*query.path, name)
            onward = CycleQuery(
                query.log, query.finder, query.number, path, self._since(upstream), youngest
            )  # fmt: skip
            self._ports.send(upstream, onward)

    def _keep(self, sender: str, query: CycleQuery, youngest: DatedLink, now: float) -> None:
        for old in [key for key, (at, *_) in self._kept.items() if at < now - KEPT_SECONDS]:
            del self._kept[old]
        if len(self._kept) < MOST_KEPT:
            self._kept[query.finder, query.number] = (now, sender, query, youngest)

    def _decide(
        self, one: CycleQuery, youngest: DatedLink, other: CycleQuery, young: DatedLink, now: float
    ) -> None:
        """Both ways have come together here."""
        link, query = max((youngest, one), (young, other), key=lambda each: each[0])
        self.on_cut(CutLink(link, query.path[::-1]), now)

    def on_cut(self, cut: CutLink, now: float) -> None:
        name, link = self._ports.name, cut.link
        if name in (link.one, link.other):
            peer = link.other if name == link.one else link.one
            if self._since(peer) <= link.since:  # else it is another link, younger than the question
                self._cut(peer, now)
        elif cut.path and cut.path[0] in self._ports.neighbours.links():
            self._ports.send(cut.path[0], CutLink(link, cut.path[1:]))
