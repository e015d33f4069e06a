"""Diffusion trees among organisations (Virgillito 2003, sections 5.4.2 and 5.4.3).

Rules
- Every organisation knows all others, and what each may produce (`produces`, filters by name; none:
  everything).
- A broker tells its merge subscription (its clients' filters, reduced by its outlet) to possible
  producers only: those whose `produces` overlaps a filter. It passes on no other broker's filters.
- A producer matches each event of its clients against the merge subscriptions that it was told, builds a
  tree over the takers by capability, and sends each child the event with the branches below it.
- Filters are acknowledged and repeated; events are sent once, by datagram: best effort. An event that
  comes twice is dropped, with its branches.
- A broker that starts says so to all; those that knew an earlier life send it all filters anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidings.algebra import overlaps
from tidings.errors import SettingsError
from tidings.matching.engine import THRESHOLD, MatchingEngine
from tidings.matching.matcher import Matcher
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.subscription import Subscription
from tidings.protocol.effects import Channel
from tidings.protocol.inputs import Input, Started
from tidings.protocol.interest import Match
from tidings.protocol.messages import Envelope, Message
from tidings.protocol.routing.diffusion import LOCAL, Diffusion, Interest, InterestAck
from tidings.protocol.routing.duplicates import NUMBER, Numbering, NumberWindow
from tidings.protocol.routing.one_by_one import OneByOne
from tidings.protocol.routing.outlets import OUTLETS
from tidings.protocol.slots import Ports
from tidings_quality.routing.trees import Branch, build_tree

CAPABILITY = 2  # others that an organisation sends to at a time, unless it is said otherwise
MAINTAIN_BUDGET = 4  # steps of the matcher's upkeep at once, some milliseconds
MAINTAIN_SECONDS = 0.05


class DiffuseEvent(Message, frozen=True, tag="Notify"):
    """An event, and the branches that the receiver has to send it on to."""

    envelope: Envelope
    below: tuple[Branch, ...] = ()


class DiffusionTrees(OneByOne):
    name = "diffusion trees"
    messages = (DiffuseEvent, Interest, InterestAck)
    headers = frozenset({NUMBER})

    def __init__(
        self,
        organisations: Sequence[str],
        *,
        produces: Mapping[str, Filter] | None = None,
        capability: Mapping[str, int] | None = None,
        reduce: str = "covering",
    ) -> None:
        if reduce not in OUTLETS:
            raise SettingsError(f"no reduction is called {reduce!r}", hint=f"there are: {', '.join(OUTLETS)}")
        self._organisations = tuple(organisations)
        self._produces = produces or {}
        self._capability = capability or {}
        self._subs = Diffusion("subscriptions", reduce=reduce, acknowledged=True, gate=self._gate)
        self._subs.on_change = self._changed
        self._matcher = MatchingEngine(routes=True)
        self._handles: dict[str, int] = {}  # digest -> handle, for filters of others
        self._takers: dict[int, tuple[str, ...]] = {}  # handle -> who wants it
        self._lives: dict[str, str] = {}  # by organisation: the life in which we last heard it
        self._seen = NumberWindow()
        self._maintain_at: float | None = None
        self._checked = -1

    def bind(self, ports: Ports) -> None:
        super().bind(ports)
        self._others = tuple(name for name in self._organisations if name != ports.name)
        self._restart()

    def _restart(self) -> None:
        self._incarnation = f"{self.ports.name}.{self.ports.rng.getrandbits(32):08x}"
        self._numbering = Numbering(self._incarnation)

    def matchers(self) -> tuple[Matcher, ...]:
        return (self._matcher,)

    # -- merge subscriptions ---------------------------------------------------------------

    def on_input(self, input: Input, now: float) -> None:
        if isinstance(input, Started):
            self._restart()
            for other in self._others:
                self._begin(other)
            self._flush(now)

    def _begin(self, other: str) -> None:
        self._subs.link_up(other, f"{self._incarnation}/{self.ports.rng.getrandbits(32):08x}")

    def _gate(self, organisation: str, filter: Filter) -> bool:
        """Is it ours, and may the producer produce events for it?"""
        if not self._subs.is_local(filter.digest):
            return False
        produced = self._produces.get(organisation)
        return produced is None or overlaps(produced, filter)

    def _changed(self, filter: Filter, source: str, _came: bool) -> None:
        """Keep the matcher to the filters of others."""
        if source == LOCAL:
            return
        digest = filter.digest
        takers = tuple(other for other in self._subs.sources[digest] if other != LOCAL)
        handle = self._handles.get(digest)
        if takers and handle is None:
            handle = self._handles[digest] = self._matcher.add(filter)
        elif handle is not None and not takers:
            del self._handles[digest], self._takers[handle]
            self._matcher.remove(handle)
        if takers and handle is not None:
            self._takers[handle] = takers

    def interest_added(self, subscription: Subscription, at: tuple[str, ...], now: float) -> None:
        self._subs.local_added(subscription.filter)
        self._flush(now)

    def interest_removed(self, subscription: Subscription, at: tuple[str, ...], now: float) -> None:
        self._subs.local_removed(subscription.filter)
        self._flush(now)

    def _send(self, to: str, message: Message, channel: Channel = Channel.LINK) -> None:
        del channel  # organisations are no neighbours on links: each sends straight to the other
        self.ports.send(to, message, Channel.DATAGRAM)

    def _flush(self, now: float) -> None:
        if len(self._handles) > THRESHOLD:
            self._maintain_at = now
        self._subs.flush(self._send, self._others, now)

    def on_message(self, sender: str, message: Message, now: float) -> None:
        if isinstance(message, DiffuseEvent):
            self._notified(sender, message, now)
        elif isinstance(message, Interest):
            self._receive(sender, message, now)
        else:
            assert isinstance(message, InterestAck)
            self._subs.seen(sender, message)

    def _receive(self, sender: str, message: Interest, now: float) -> None:
        life = message.session.partition("/")[0]
        known = self._lives.setdefault(sender, life)
        if known != life:
            self._lives[sender] = life
            self._begin(sender)
        self._subs.receive(sender, message, self._send)
        self._flush(now)

    def next_deadline(self) -> float | None:
        times = [at for at in (self._subs.next_deadline(), self._maintain_at) if at is not None]
        return min(times, default=None)

    def on_timer(self, now: float) -> None:
        if self._maintain_at is not None and self._maintain_at <= now:
            left = self._matcher.maintain(MAINTAIN_BUDGET)
            self._maintain_at = now + MAINTAIN_SECONDS if left else None
        self._subs.repeat(self._send, self._others, now)

    # -- events ----------------------------------------------------------------------------

    def takers(self, event: Event) -> list[str]:
        """Organisations with a merge subscription that accepts the event, each once, in order."""
        return sorted({taker for handle in self._matcher.match(event) for taker in self._takers[handle]})

    def capability(self, organisation: str) -> int:
        return self._capability.get(organisation, CAPABILITY)

    def forward_one(
        self, envelope: Envelope, at: tuple[str, ...] | None, came_from: str | None, now: float
    ) -> None:
        if came_from is not None:
            return  # its branches were sent when it came
        takers = self.takers(envelope.event)
        if takers:
            tree = build_tree(self.capability(self.ports.name), takers, self.capability)
            self._send_on(self._numbering.numbered(envelope), tree)

    def _notified(self, sender: str, message: DiffuseEvent, now: float) -> None:
        origin, number = message.envelope.headers[NUMBER]
        if not self._seen.is_new(origin, number):
            return
        self._send_on(message.envelope, message.below)
        self.ports.events.arrived((message.envelope,), sender, now)

    def _send_on(self, envelope: Envelope, branches: Sequence[Branch]) -> None:
        for branch in branches:
            self._send(branch.name, DiffuseEvent(envelope, branch.below))

    def staying(self, events: Sequence[Event], matches: Sequence[Match], now: float) -> Sequence[bool]:
        return [not self.takers(event) for event in events]

    def wanted_elsewhere(self, event: Event) -> bool:
        return bool(self.takers(event))

    def table_size(self) -> int:
        """Filters held for other organisations: the external merge table."""
        return sum(len(takers) for takers in self._takers.values())

    def check(self) -> None:
        if self._subs.version == self._checked:
            return
        self._checked = self._subs.version
        self._subs.check()
        assert self._handles.keys() == {
            digest for digest, sources in self._subs.sources.items() if set(sources) - {LOCAL}
        }, "matcher and table differ"
