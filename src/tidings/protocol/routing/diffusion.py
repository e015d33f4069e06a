"""Propagation of filters over a tree: the interest behind each link.

Each broker holds the filters that it heard over each link and those of its own clients. Over a
link it tells what concerns the far end: the filters that came from other links and clients, reduced by the
link's outlet. One `Diffusion` carries subscriptions and another carries advertisements.

With `acknowledged`, changes are numbered per session of a link and repeated whole until the far
end has seen them, so that a lossy link cannot leave two brokers with different tables.

With `remembers`, a link that breaks keeps what was heard over it, and no interest is forgotten because a
broker in the middle restarted: a broker that has not yet heard all of its other links in this life says so
(`whole` False), and then its words only add to what it wanted before. A link that was never heard whole wants
everything (`is_unknown`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

import msgspec

from tidings.model.filter import Filter
from tidings.model.packed import pack, unpack
from tidings.protocol.messages import Message
from tidings.protocol.routing.outlets import OUTLETS, FilterOutlet
from tidings.protocol.slots import Sender

LOCAL = ""  # the source of our own clients' filters; no link has this name
OURS_ALONE = (LOCAL,)


class Interest(Message, frozen=True, tag="Interest"):
    """Interest of the sender over this link, or advertisements behind it."""

    cut_field: ClassVar[str] = "add"
    fills_frame: ClassVar[bool] = True  # the previous version joins no parts

    what: str  # subscriptions | advertisements
    add: tuple[Filter, ...]
    remove: tuple[str, ...]  # digests
    reset: bool = False  # True: forget what you heard before
    session: str = ""
    number: int = 0  # 0: changes are not numbered
    whole: bool = True  # False: the sender may want more than it knows of
    part: int = 0  # of a message that one frame would not hold: which part, from 0 ...
    of: int = 1  # ... of how many; the receiver joins them before it handles any

    def in_parts(self, slices: Iterable[Any]) -> Iterator[Message]:
        cut = list(slices)
        for position, add in enumerate(cut):
            yield msgspec.structs.replace(self, add=add, part=position, of=len(cut))


class InterestAck(Message, frozen=True, tag="InterestSeen"):
    what: str
    session: str
    number: int


class _LinkExchange:
    """The acknowledged exchange over one link."""

    def __init__(self) -> None:
        self.session = ""
        self.number = 0  # the last one sent
        self.seen = 0  # the last one that the far end has
        self.received_session = ""
        self.received_number = 0
        self.whole = False  # the far end was told, in this session, all that there is
        self.sent_at: dict[str, int] = {}  # digest -> the number under which it was told in this session
        self.parts: dict[int, Interest] = {}  # of one message that is not complete

    def joined(self, part: Interest) -> Interest | None:
        """The whole message, when this was the last part of it that was missing."""
        first = next(iter(self.parts.values()), part)
        if (first.session, first.number, first.of) != (part.session, part.number, part.of):
            self.parts.clear()
        self.parts[part.part] = part
        if len(self.parts) < part.of:
            return None
        add = tuple(f for position in sorted(self.parts) for f in self.parts[position].add)
        self.parts.clear()
        return msgspec.structs.replace(part, add=add, part=0, of=1)


class Diffusion:
    def __init__(
        self,
        what: str,
        *,
        reduce: str = "covering",
        acknowledged: bool = False,
        remembers: bool = False,
        dated: bool = False,
        gate: Callable[[str, Filter], bool] | None = None,
        repeat_seconds: float = 1.0,
    ) -> None:
        self.what = what
        self.acknowledged = acknowledged
        self.remembers = remembers
        self.dated = dated  # True: note under which number each filter was told
        self.peers: Callable[[], tuple[str, ...]] = tuple  # every link that there should be
        self._complete_links: set[str] = set()  # links that said all that they want, in this life
        self.repeat_seconds = repeat_seconds
        self._filters: dict[str, bytes | Filter] = {}  # packed: most are looked at when a link comes or goes
        self.sources: dict[str, tuple[str, ...]] = {}  # digest -> where it is wanted, in order
        self.outlets: dict[str, FilterOutlet] = {}
        self._make_outlet = OUTLETS[reduce]
        self._gate = gate
        self._again: dict[str, int] = {}  # how many of our clients want it, when it is more than one
        self._talks: dict[str, _LinkExchange] = {}
        self._behind: dict[str, tuple[int, tuple[Filter, ...]]] = {}  # by link, as of that version
        self._repeat_at: dict[str, float] = {}  # by link: when to say again what the far end has not seen
        self.version = 0  # grows with every change, so that what was checked need not be checked again
        self.on_change: Callable[[Filter, str, bool], None] | None = None  # filter, source, came or went

    # -- what is wanted ------------------------------------------------------------------

    def local_added(self, filter: Filter) -> None:
        digest = filter.digest
        if LOCAL in self.sources.get(digest, ()):
            self._again[digest] = self._again.get(digest, 1) + 1
        else:
            self._source_added(filter, LOCAL)

    def local_removed(self, filter: Filter) -> None:
        digest = filter.digest
        left = self._again.pop(digest, 1) - 1
        if left > 1:
            self._again[digest] = left
        elif not left:
            self._source_removed(digest, LOCAL)

    def filter(self, digest: str) -> Filter:
        """The wanted filter of this digest."""
        return unpack(self._filters[digest])

    def is_local(self, digest: str) -> bool:
        """Does a client here want it?"""
        return LOCAL in self.sources.get(digest, ())

    def behind(self, link: str) -> tuple[Filter, ...]:
        """Filters heard over a link."""
        version, found = self._behind.get(link, (-1, ()))
        if version != self.version:
            found = tuple(self.filter(digest) for digest, sources in self.sources.items() if link in sources)
            self._behind[link] = (self.version, found)
        return found

    def _source_added(self, filter: Filter, source: str) -> None:
        digest = filter.digest
        sources = self.sources.get(digest, ())
        if source in sources:
            return
        if not sources:
            self._filters[digest] = pack(filter)
        self.sources[digest] = (*sources, source) if sources or source != LOCAL else OURS_ALONE
        self.version += 1
        if self.on_change is not None:
            self.on_change(filter, source, True)
        self._review(digest, filter)

    def _source_removed(self, digest: str, source: str) -> None:
        sources = self.sources.get(digest, ())
        if source not in sources:
            return
        self.sources[digest] = tuple(other for other in sources if other != source)
        self.version += 1
        filter = self.filter(digest)
        if self.on_change is not None:
            self.on_change(filter, source, False)
        self._review(digest, filter)
        if not self.sources[digest]:
            del self.sources[digest], self._filters[digest]

    def _review(self, digest: str, filter: Filter) -> None:
        for link, outlet in self.outlets.items():
            self._review_one(digest, filter, link, outlet)

    def _review_one(self, digest: str, filter: Filter, link: str, outlet: FilterOutlet) -> None:
        sources = self.sources[digest]
        concerns = (len(sources) > 1 or (len(sources) == 1 and link not in sources)) and (
            self._gate is None or self._gate(link, filter)
        )
        if concerns and digest not in outlet:
            outlet.add(filter)
        elif not concerns and digest in outlet:
            outlet.remove(digest)

    def review_link(self, link: str) -> None:
        """The gate of a link has changed."""
        outlet = self.outlets.get(link)
        if outlet is not None:
            self.version += 1
            for digest in list(self.sources):
                self._review_one(digest, self.filter(digest), link, outlet)

    # -- links ---------------------------------------------------------------------------

    def link_up(self, link: str, session: str) -> None:
        """Open a link, new or again: its far end knows no filter of ours yet."""
        self.version += 1
        talk = self._talks.setdefault(link, _LinkExchange())
        talk.session, talk.number, talk.seen, talk.whole = session, 0, -1, False
        talk.sent_at.clear()
        if link not in self.outlets:
            self.outlets[link] = self._make_outlet()
            self.review_link(link)
        self.outlets[link].forget()

    def link_down(self, link: str) -> None:
        """The link is gone, and what was wanted behind it."""
        self.version += 1
        self.outlets.pop(link, None)
        self._talks.pop(link, None)
        self._behind.pop(link, None)
        self._repeat_at.pop(link, None)
        for digest in [d for d, sources in self.sources.items() if link in sources]:
            self._source_removed(digest, link)

    def quiet(self, link: str) -> None:
        """The link is down for now: stop talking, keep what was heard."""
        self._repeat_at.pop(link, None)

    # -- talking -------------------------------------------------------------------------

    def flush(self, send: Sender, links: tuple[str, ...], now: float) -> None:
        """Send what has changed."""
        for link in links:
            outlet = self.outlets.get(link)
            if outlet is None:
                continue
            talk = self._talks[link]
            whole = self.is_whole(link)
            if whole and not talk.whole and talk.number and self.remembers:
                self.announce_all(send, link, now)
                continue
            changes = outlet.changes()
            first = talk.seen < 0 and talk.number == 0
            if changes or (first and self.acknowledged):
                self.version += 1
                talk.number += 1
                talk.whole = whole
                self._date(talk, outlet)
                number = talk.number if self.acknowledged else 0
                send(link, Interest(self.what, *changes, first, talk.session, number, whole))
                if self.acknowledged:
                    self._repeat_at[link] = now + self.repeat_seconds

    def _date(self, talk: _LinkExchange, outlet: FilterOutlet) -> None:
        if self.dated:
            talk.sent_at = {digest: talk.sent_at.get(digest, talk.number) for digest in outlet.announced}

    def announced_by(self, link: str, session: str, number: int) -> tuple[Filter, ...]:
        """Filters that the far end knows, in this session, when it has seen this number and no later one."""
        talk, outlet = self._talks.get(link), self.outlets.get(link)
        if talk is None or outlet is None or talk.session != session:
            return ()
        announced = outlet.announced
        return tuple(announced[d] for d, at in talk.sent_at.items() if at <= number and d in announced)

    def last_received(self, link: str) -> tuple[str, int]:
        """The session and the number of what was last heard over a link."""
        talk = self._talks.get(link)
        return ("", 0) if talk is None else (talk.received_session, talk.received_number)

    def is_whole(self, link: str) -> bool:
        """Do we know all that is to be told there?"""
        return not self.remembers or all(
            other in self._complete_links for other in self.peers() if other != link
        )

    def is_unknown(self, link: str) -> bool:
        """Is the interest behind this link unknown? Then it counts as everything."""
        return self.remembers and link not in self._complete_links

    def agreed(self, link: str) -> bool:
        """Has the far end seen all that it was told?"""
        talk = self._talks.get(link)
        return talk is not None and 0 < talk.number <= talk.seen

    def receive(self, link: str, message: Interest, send: Sender) -> None:
        """Take in what the far end of a link told."""
        if message.of > 1:
            joined = self._talks.setdefault(link, _LinkExchange()).joined(message)
            if joined is None:
                return
            message = joined
        if self.acknowledged:
            talk = self._talks.setdefault(link, _LinkExchange())
            if not self._is_next(talk, message):
                send(link, InterestAck(self.what, message.session, self._received_number(talk, message)))
                return
            talk.received_session, talk.received_number = message.session, message.number
            send(link, InterestAck(self.what, message.session, message.number))
        for filter in message.add:
            self._source_added(filter, link)
        if not message.whole:
            return
        self._complete_links.add(link)
        for digest in message.remove:
            self._source_removed(digest, link)
        if message.reset:
            kept = {filter.digest for filter in message.add}
            for digest in [d for d, s in self.sources.items() if link in s and d not in kept]:
                self._source_removed(digest, link)

    def _is_next(self, talk: _LinkExchange, message: Interest) -> bool:
        if message.session != talk.received_session:
            return message.reset
        return message.number > talk.received_number and (
            message.reset or message.number == talk.received_number + 1
        )

    def _received_number(self, talk: _LinkExchange, message: Interest) -> int:
        return talk.received_number if message.session == talk.received_session else 0

    def seen(self, link: str, message: InterestAck) -> None:
        talk = self._talks.get(link)
        if talk is not None and message.session == talk.session:
            talk.seen = max(talk.seen, message.number)
            if talk.seen >= talk.number:
                self._repeat_at.pop(link, None)

    def next_deadline(self) -> float | None:
        return min(self._repeat_at.values()) if self._repeat_at else None

    def repeat(self, send: Sender, links: tuple[str, ...], now: float) -> None:
        """Say again, whole, what the far end has not seen."""
        for link in links:
            if self._repeat_at.get(link, now + 1.0) <= now:
                self.announce_all(send, link, now)

    def announce_all(self, send: Sender, link: str, now: float) -> None:
        """Say everything, under a new number."""
        talk, outlet = self._talks[link], self.outlets[link]
        outlet.changes()
        talk.number += 1
        talk.whole = self.is_whole(link)
        self._date(talk, outlet)
        self._repeat_at[link] = now + self.repeat_seconds
        announced = tuple(outlet.announced.values())
        send(link, Interest(self.what, announced, (), True, talk.session, talk.number, talk.whole))

    def check(self) -> None:
        for digest, sources in self.sources.items():
            assert sources, "a filter without a subscription"
            assert digest in self._filters
        for link, outlet in self.outlets.items():
            for digest in outlet.announced:
                merged = digest not in outlet  # a union may be equal to what the far end itself wants
                assert merged or set(self.sources[digest]) - {link}, f"{link} was announced its own interest"
