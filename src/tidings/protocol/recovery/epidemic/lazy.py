"""Lazy push: ids first, payload on demand, link by link.

Beside the events themselves a broker announces, a few times each, what went over a link. Who was
reached by the announcement and not by the event asks for it, and sends it on as if it had come
over the link: so a loss near the publisher is repaired once for all that are behind it, and no
pattern has to wait for its turn. Not in the paper; in the manner of Plumtree's lazy links.
"""

from __future__ import annotations

from tidings.protocol.effects import Channel
from tidings.protocol.inputs import Input, LinkDown
from tidings.protocol.messages import Envelope, Message
from tidings.protocol.recovery.epidemic.base import Epidemic
from tidings.protocol.recovery.epidemic.push import by_source
from tidings.protocol.recovery.epidemic.requests import Requests
from tidings.protocol.recovery.epidemic.words import Id, LazyAnnounce, Mark, PushWant, Recovered, id_of
from tidings.protocol.slots import Ports


class LazyPush(Epidemic):
    name = "lazy push"

    def bind(self, ports: Ports) -> None:
        super().bind(ports)
        self.requests = Requests(self.settings.patience_seconds, self.received, self.standing)
        self._to_tell: dict[str, dict[Id, int]] = {}  # by link: how often each is still to be announced

    def on_input(self, input: Input, now: float) -> None:
        if isinstance(input, LinkDown):
            self._to_tell.pop(input.peer, None)

    def outgoing(self, envelope: Envelope, link: str, now: float) -> Envelope | None:
        id = id_of(envelope.headers)
        if id is not None and self.settings.announcements:
            self._to_tell.setdefault(link, {})[id] = self.settings.announcements
            self.pace.begin(now)
        return envelope

    def round(self, now: float) -> None:
        self.requests.review(now)
        for link in list(self._to_tell):
            waiting = self._to_tell.pop(link)
            left = {id: times - 1 for id, times in waiting.items() if times > 1}
            if left:
                self._to_tell[link] = left
            held = [each for id in waiting if (each := self.cache.get(id)) is not None]
            if held and link in self.ports.overlay.links():
                self.count["gossip"] += 1
                self.ports.send(link, LazyAnnounce(by_source(held, now)), self.channel)
        if self._to_tell:
            self.pace.next(now)
        else:
            self.pace.rest()

    def on_message(self, sender: str, message: Message, now: float) -> None:
        if not self.may_speak(sender, now):
            return
        if isinstance(message, LazyAnnounce):
            self._on_announce(sender, message, now)
        elif isinstance(message, PushWant):
            self.give_wanted(sender, message, now)
        elif isinstance(message, Recovered):
            self.take(sender, message, now)

    def _on_announce(self, sender: str, message: LazyAnnounce, now: float) -> None:
        self.requests.review(now)
        wanted: dict[str, tuple[int, ...]] = {}
        for source, numbers in message.held.items():
            missing = [n for n, _ in numbers if (source, n) not in self.received]
            missing = [n for n in missing if (source, n) not in self.requests]
            if missing:
                wanted[source] = tuple(missing)
        if wanted:
            ids = [(source, number) for source, numbers in wanted.items() for number in numbers]
            self.count["asked"] += len(ids)
            self.requests.note(sender, ids, now)
            self.ports.send(sender, PushWant(wanted), Channel.DATAGRAM)

    def was_asked_for(self, mark: Mark) -> bool:
        return mark.id in self.requests

    def bring_back(self, sender: str, envelope: Envelope, mark: Mark, since: float, now: float) -> None:
        self.received.add(mark.id)
        self.ports.events.arrived(envelope, sender, now)
