"""Lazy push: ids first, payload on demand, link by link.

Beside the events themselves a broker announces, a few times each, what went over a link. A broker that was
reached by the announcement and not by the event asks for it, and sends it on as if it had come over the link:
so a loss near the publisher is repaired once for all that are behind it, and no pattern has to wait for its
turn. Not in the paper; in the manner of Plumtree's lazy links.

One announcement is enough: a broker that was reached by it asks until the event is there, or until it has
asked often enough. The request and the reply can be lost too, and by then the announcements may be over.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidings.protocol.effects import Channel
from tidings.protocol.inputs import Input, LinkDown
from tidings.protocol.messages import Envelope, Message
from tidings.protocol.slots import Ports
from tidings_lab.recovery.epidemic.base import Epidemic
from tidings_lab.recovery.epidemic.messages import Id, LazyAnnounce, Mark, PushWant, Recovered, id_of
from tidings_lab.recovery.epidemic.push import by_source
from tidings_lab.recovery.epidemic.requests import Requests
from tidings_lab.recovery.epidemic.standing import OFFER

MOST_AT_ONCE = 64  # events that are asked for in one message


class LazyPush(Epidemic):
    name = "lazy push"

    def bind(self, ports: Ports) -> None:
        super().bind(ports)
        self.requests = Requests(self.patience, self.received, self.standing)
        self._to_announce: dict[str, dict[Id, int]] = {}  # by link: how often each is still to be announced
        self._tries: dict[Id, int] = {}  # what was announced and is not here: how often it was asked for

    def on_input(self, input: Input, now: float) -> None:
        if isinstance(input, LinkDown):
            self._to_announce.pop(input.peer, None)

    def outgoing(self, envelopes: Sequence[Envelope], link: str, now: float) -> Sequence[Envelope]:
        for envelope in envelopes if self.settings.announcements else ():
            if (id := id_of(envelope.headers)) is not None:
                self._to_announce.setdefault(link, {})[id] = self.settings.announcements
                self.pace.begin(now)
        return envelopes

    def next_deadline(self) -> float | None:
        due, again = self.pace.due, self.requests.due
        return due if again is None or (due is not None and due < again) else again

    def on_timer(self, now: float) -> None:
        self._ask_again(now)
        super().on_timer(now)

    def round(self, now: float) -> None:
        for link in list(self._to_announce):
            waiting = self._to_announce.pop(link)
            left = {id: times - 1 for id, times in waiting.items() if times > 1}
            if left:
                self._to_announce[link] = left
            cached = [each for id in waiting if (each := self.cache.get(id)) is not None]
            if cached and link in self.links():
                self.count["gossip"] += 1
                self.ports.send(link, LazyAnnounce(by_source(cached, now)), self.channel)
        if self._to_announce:
            self.pace.next(now)
        else:
            self.pace.rest()

    def on_message(self, sender: str, message: Message, now: float) -> None:
        if isinstance(message, Recovered):
            self.take(sender, message, now)
        elif isinstance(message, LazyAnnounce):
            self._on_announce(sender, message, now)
        elif self.may_ask(sender, now) and isinstance(message, PushWant):
            self.give_wanted(sender, message, now)

    def _on_announce(self, sender: str, message: LazyAnnounce, now: float) -> None:
        self._ask_again(now)
        most = self.settings.most_lost
        if self.standing.is_ignored(sender, OFFER, now):
            most //= 10  # perhaps it is only slow: what it has is asked for when it is heard again
        room = most - len(self.requests)
        missing = [
            (source, number)
            for source, numbers in message.offered.items()
            for number, _ in numbers
            if (source, number) not in self.received and (source, number) not in self.requests
        ]
        self._request(sender, missing[: max(0, room)], now)

    def _ask_again(self, now: float) -> None:
        """Requested events that did not come. A peer that is ignored is not asked until it is heard again."""
        for peer, ids in self.requests.review(now):
            self._request(peer, ids, now)
        if len(self._tries) > 2 * len(self.requests):  # the rest has come
            self._tries = {id: tries for id, tries in self._tries.items() if id in self.requests}

    def _request(self, peer: str, ids: Sequence[Id], now: float) -> None:
        """Some of these at once: each is answered by a datagram, and more than a receiver can hold are lost.
        An unsent request is no try: an honest peer may be ignored for longer than all tries take."""
        wanted: list[Id] = []
        is_sent = not self.standing.is_ignored(peer, OFFER, now)
        for id in ids[:MOST_AT_ONCE]:
            tries = self._tries.get(id, 0)
            if tries < self.settings.give_up:
                self._tries[id] = tries + is_sent
                wanted.append(id)
            else:
                del self._tries[id]
                self.losses.given_up += 1
        if len(ids) > MOST_AT_ONCE:
            self.requests.note(peer, ids[MOST_AT_ONCE:], now, is_sent=False)
        if not wanted:
            return
        self.requests.note(peer, wanted, now, is_sent=is_sent)
        if not is_sent:
            return
        self.count["asked"] += len(wanted)
        numbers: dict[str, tuple[int, ...]] = {}
        for source, number in wanted:
            numbers[source] = (*numbers.get(source, ()), number)
        self.ports.send(peer, PushWant(numbers), Channel.DATAGRAM)

    def was_impatient(self, id: Id) -> bool:
        return id in self.requests

    def was_asked_for(self, mark: Mark) -> bool:
        return self.requests.take(mark.id)

    def bring_back(self, sender: str, envelope: Envelope, mark: Mark, since: float, now: float) -> None:
        self._tries.pop(mark.id, None)
        self.ports.events.arrived((envelope,), sender, now)
