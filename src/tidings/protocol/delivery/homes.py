"""Delivery exactly once, with durable subscriptions that a new process continues at another broker of the network.

Its resume token was lost with the earlier process, so the broker asks the network where the subscription is. Rules
- The *home* of a durable subscription is the broker where it was opened first. A broker that does not know a
  subscription, and is shown no token for it, asks every other broker before it opens it (`HomeAsk`). Questions go
  toward a log of the broker that they are for, hop by hop; answers go back along their path.
- The home answers with the position in each log up to which everything was settled, and with the spans that were
  delivered beyond it. It ends its own delivery first (the newer link takes over), and keeps the subscription and
  everything that it is owed. The asking broker opens it as a guest, as it does for a client that shows a token.
- The home keeps the names of the brokers that it answered (`lent`). A listener that returns to the home is opened
  only after they have said what they delivered.
- A guest reports its positions to its home once a second, so that logs are not kept for what it has settled.
- When some broker does not answer within `home_seconds`, the subscription is refused, and nothing begins anew in
  silence. With `replay=False`, which waives earlier events, it begins here.
- A neighbour of release 0.1 does not know these messages, and one would end the link. A broker that is reached over
  it counts as one that does not hold the subscription, which begins anew then, as it did in that release.
- The identity holds the owner (`Hello.client`, as the gate wrote it): a question names one principal's subscription.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from tidings.availability.records import Record
from tidings.availability.told import Told
from tidings.errors import UnreachableError
from tidings.matching.matcher import Matcher
from tidings.model.subscription import Position, SubscriptionId
from tidings.protocol.delivery import rows
from tidings.protocol.delivery.exactly_once import ExactlyOnce
from tidings.protocol.delivery.held import Held, Member
from tidings.protocol.delivery.sessions import Session, identity
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.inputs import Input, LinkDown, LinkUp, Started
from tidings.protocol.messages import Hello, Message, Refused, Silence, Subscribe
from tidings.protocol.naming import UNKNOWN, broker_of
from tidings.protocol.slots import Ports

RETRY_SECONDS = 0.25  # between two questions to a broker that has not answered
REPORT_SECONDS = 1.0  # between two reports of a guest to its home
CROWD = "too many subscriptions are being looked for in the network; wait for the answers"


class HomeAsk(Message, frozen=True):
    """Does this broker hold this durable subscription? The first of the path is about to open it."""

    number: int
    subscriber: str
    name: str
    broker: str
    path: tuple[str, ...]


class HomeAnswer(Message, frozen=True):
    """The answer; `home` is the log of the subscription's home, empty when it is not known here."""

    number: int
    broker: str
    home: str
    after: dict[str, int]  # by log: everything up to here was settled
    told: bytes  # `Told.encode`
    digest: str  # of the filter
    age: float  # seconds since a client last subscribed to it there
    path: tuple[str, ...]


class GuestProgress(Message, frozen=True):
    """A guest to its home: everything up to these positions was settled."""

    subscriber: str
    name: str
    home: str
    after: dict[str, int]
    path: tuple[str, ...]


MESSAGES: tuple[type[Message], ...] = (HomeAsk, HomeAnswer, GuestProgress)


class Asking:
    """One question to the network, and the client that waits for its answer."""

    def __init__(self, session: Session, message: Subscribe, until: float) -> None:
        self.session = session
        self.message = message
        self.until = until
        self.ask_at = 0.0
        self.answers: dict[str, HomeAnswer] = {}  # by broker
        self.later: list[Message] = []  # about this subscription, from its client

    @property
    def found(self) -> HomeAnswer | None:
        """The answer of the home, or else of a guest: of the one that a client attended last."""
        answers = [each for each in self.answers.values() if each.home]
        return min(answers, key=lambda each: (broker_of(each.home) != each.broker, each.age), default=None)

    def after(self) -> dict[str, int]:
        merged = dict(self.message.after)
        for answer in self.answers.values():
            for log, offset in answer.after.items():
                merged[log] = max(offset, merged.get(log, offset))
        return merged

    def told(self) -> Told:
        merged = Told()
        for answer in self.answers.values():
            for span in rows.read_told(answer.told).spans if answer.told else ():
                merged.add(span.filter, span.log, span.start, span.stop)
        return merged


class Homed(ExactlyOnce):
    messages: ClassVar[tuple[type[Message], ...]] = (*ExactlyOnce.messages, *MESSAGES)

    def __init__(self, matcher: Matcher, settings: DeliverySettings | None = None) -> None:
        super().__init__(matcher, settings)
        self._askings: dict[int, Asking] = {}  # by number
        self._last_ask = 0
        self._report_at: float | None = None
        self._reported: dict[SubscriptionId, dict[str, int]] = {}
        self._earlier: set[str] = set()  # neighbours of release 0.1

    def bind(self, ports: Ports) -> None:
        super().bind(ports)
        self._last_ask = ports.rng.getrandbits(48)  # an answer to an earlier life is none to this one

    # -- asking ------------------------------------------------------------------------------------

    def _on_subscribe(self, session: Session, message: Subscribe, now: float) -> None:
        if not self._must_ask(session, message):
            super()._on_subscribe(session, message, now)
            return
        if (
            sum(asking.session is session for asking in self._askings.values())
            >= self.ports.limits.client.asked
        ):
            self.ports.send(session.address, Refused(message.call, "limit", CROWD))
            return
        self._last_ask += 1
        asking = self._askings[self._last_ask] = Asking(session, message, now + self._settings.home_seconds)
        self._ask(self._last_ask, asking, now)

    def _must_ask(self, session: Session, message: Subscribe) -> bool:
        if not message.options.durable or not message.named or message.options.group is not None:
            return False
        held = self._registry.helds.get(identity(session, message))
        if held is not None:
            return bool(held.lent)
        is_shown = message.ref in session.homes or message.after
        return not is_shown and bool(self._others())

    def _others(self, held: Held | None = None) -> set[str]:
        """The brokers to ask: of the whole network, or those that a home has answered."""
        if held is not None:
            return set(held.lent)
        known = {broker_of(log) for log in self.ports.recovery.logs()}
        return (known | set(self.ports.overlay.peers())) - {self.ports.name}

    def _silent(self, asking: Asking) -> set[str]:
        held = self._registry.helds.get(identity(asking.session, asking.message))
        return self._others(held) - asking.answers.keys()

    def _ask(self, number: int, asking: Asking, now: float) -> None:
        id = identity(asking.session, asking.message)
        for broker in sorted(self._silent(asking)):
            self._pass(HomeAsk(number, id.subscriber, id.name, broker, (self.ports.name,)), broker, None, now)
        asking.ask_at = now + RETRY_SECONDS
        if number in self._askings:
            self._review(number, now)

    def _review(self, number: int, now: float) -> None:
        """Open the subscription once everyone has answered, or refuse it when they have not in time."""
        asking = self._askings[number]
        silent = self._silent(asking)
        if silent and now < asking.until:
            return
        del self._askings[number]
        session, message = asking.session, asking.message
        if self._registry.sessions.get(session.address) is not session:
            return  # its client is gone
        refusal = self._refusal(asking, silent)
        if refusal is not None:
            self.ports.send(session.address, Refused(message.call, *refusal))
            return
        self._open_found(asking, now)
        for later in asking.later:
            self.on_message(session.address, later, now)

    def _refusal(self, asking: Asking, silent: set[str]) -> tuple[str, str] | None:
        message, found = asking.message, asking.found
        own = identity(asking.session, message).own
        is_here = identity(asking.session, message) in self._registry.helds
        if found is not None and not is_here and found.digest != message.filter.digest:
            reason = (
                f"subscription {own} is at broker {broker_of(found.home)} with another filter; "
                "change its filter there, or end it first"
            )
            return ("refused", reason)
        # A neighbour that never spoke to this life of ours is waited for, and keeps no subscription out.
        silent = silent - {UNKNOWN, *(() if found is None else (broker_of(found.home),))}
        if silent and message.options.replay and not message.after and (found is None or is_here):
            names = ", ".join(sorted(silent))
            reason = (
                f"subscription {own} may be at a broker that does not answer: {names}; "
                "try again when it is back, or subscribe with replay=False to begin here with new events"
            )
            return (UnreachableError.code, reason)
        return None

    def _open_found(self, asking: Asking, now: float) -> None:
        session, message, found = asking.session, asking.message, asking.found
        id = identity(session, message)
        held = self._registry.helds.get(id)
        after, told = asking.after(), asking.told()
        if held is not None:
            held.lent = ()
            self._registry.forward(held, after, told, now)
        elif found is not None:
            session.homes[message.ref] = found.home
            self._registry.memory.keep(id, told, now + self._settings.memory_seconds)  # `subscribe` takes it
            message = msgspec.structs.replace(message, after=after)
        super()._on_subscribe(session, message, now)

    def _opened(self, member: Member, call: int, is_resumed: bool, now: float) -> None:
        super()._opened(member, call, is_resumed, now)
        held = member.held
        if member.is_open and held.is_guest:
            for log, offset in self._positions(
                held
            ).items():  # a token from the start: it may go on elsewhere
                self.ports.send(member.address, Silence(member.ref, Position(log, offset)))
            self._report_later(now)

    # -- answering ---------------------------------------------------------------------------------

    def _positions(self, held: Held) -> dict[str, int]:
        """By log: everything up to there was settled."""
        own = {self._ledger.log: held.floor(self._ledger.end) - 1}
        known = self.ports.recovery.known
        return own | {log: lane.settled_upto(known(log)) for log, lane in held.lanes.items()}

    def _answer(self, sender: str, ask: HomeAsk, now: float) -> None:
        id = SubscriptionId(ask.subscriber, ask.name)
        held = self._registry.durables.get(id)
        answer = _unknown_at(self.ports.name, ask)
        records: list[Record] = []
        if held is not None:
            records = self._registry.close(held, "closed", "a newer link took over", now)
            told = held.remember(self._ledger.log, self._ledger.end, self.ports.recovery.known)
            answer = HomeAnswer(
                ask.number, self.ports.name, held.home or self._ledger.log, self._positions(held),
                told.encode(), held.filter.digest, now - held.attended, ask.path,
            )  # fmt: skip
            if held.is_guest:
                records += self._registry.end(held, now)
            else:
                records += self._registry.lend(held, ask.path[0])
        elif (remembered := self._registry.memory.look(id)) is not None:
            answer = msgspec.structs.replace(answer, told=remembered.encode())
        self._persist(records, now, lambda _: self.ports.send(sender, answer))

    # -- guests report to their homes ----------------------------------------------------------------

    def _report_later(self, now: float) -> None:
        if self._report_at is None:
            self._report_at = now + REPORT_SECONDS

    def _report(self, now: float) -> None:
        guests = [held for held in self._registry.durables.values() if held.is_guest]
        self._report_at = now + REPORT_SECONDS if guests else None
        reported, self._reported = self._reported, {}
        for held in guests:
            after = self._reported[held.id] = self._positions(held)
            if after != reported.get(held.id):
                path = (self.ports.name,)
                message = GuestProgress(held.id.subscriber, held.id.name, held.home, after, path)
                self._pass(message, broker_of(held.home), None, now)

    def _on_progress(self, message: GuestProgress, now: float) -> None:
        held = self._registry.durables.get(SubscriptionId(message.subscriber, message.name))
        if held is None or held.is_guest or held.has_members or message.home != self._ledger.log:
            return
        self._persist(self._registry.lend(held, message.path[0]), now)
        self._registry.forward(held, message.after, None, now)
        self.touched(held, now)

    def log_found(self, log: str, now: float) -> None:
        super().log_found(log, now)
        self._reported.clear()  # its broker may not have received the last report

    # -- on the way ----------------------------------------------------------------------------------

    def _pass(self, message: HomeAsk | GuestProgress, broker: str, sender: str | None, now: float) -> None:
        """Send toward a broker: over a link to it, or to one of its logs."""
        links = self.ports.overlay.links()
        link = broker if broker in links else self.ports.recovery.upstream(f"{broker}#")
        if link is None or link == sender or link not in links:
            return
        if link not in self._earlier:
            self.ports.send(link, message)
        elif isinstance(message, HomeAsk):
            self._on_answer(_unknown_at(broker, message), now)

    def on_message(self, sender: str, message: Message, now: float) -> None:
        if isinstance(message, HomeAsk | HomeAnswer | GuestProgress):
            if sender in self.ports.overlay.links():
                self._on_network(sender, message, now)
        elif not self._waits(sender, message):
            super().on_message(sender, message, now)

    def _on_network(self, sender: str, message: HomeAsk | HomeAnswer | GuestProgress, now: float) -> None:
        name = self.ports.name
        if isinstance(message, HomeAnswer):
            self._on_answer(message, now)
            return
        target = message.broker if isinstance(message, HomeAsk) else broker_of(message.home)
        if name in message.path:
            return
        if target != name:
            self._pass(msgspec.structs.replace(message, path=(*message.path, name)), target, sender, now)
        elif isinstance(message, HomeAsk):
            self._answer(sender, message, now)
        else:
            self._on_progress(message, now)

    def _on_answer(self, answer: HomeAnswer, now: float) -> None:
        if not answer.path or answer.path[-1] != self.ports.name:
            return
        if len(answer.path) > 1:
            back = answer.path[:-1]
            self.ports.send(back[-1], msgspec.structs.replace(answer, path=back))
        elif answer.number in self._askings:
            self._askings[answer.number].answers[answer.broker] = answer
            self._review(answer.number, now)

    def _waits(self, sender: str, message: Message) -> bool:
        """Is this about a subscription that is being asked for? Then it is handled once that is open."""
        if not self._askings or type(message) is Hello:
            return False
        ref = getattr(message, "ref", None)
        for asking in self._askings.values():
            if asking.session.address == sender and asking.message.ref == ref:
                if len(asking.later) < self.ports.limits.client.asked:
                    asking.later.append(message)
                return True
        return False

    # -- time ----------------------------------------------------------------------------------------

    def on_input(self, input: Input, now: float) -> None:
        super().on_input(input, now)
        if isinstance(input, LinkUp) and input.is_earlier:
            self._earlier.add(input.peer)
        elif isinstance(input, LinkDown):
            self._earlier.discard(input.peer)
            gone = [number for number, each in self._askings.items() if each.session.address == input.peer]
            for number in gone:
                del self._askings[number]
        elif isinstance(input, Started) and any(held.is_guest for held in self._registry.durables.values()):
            self._report_later(now)

    def on_timer(self, now: float) -> None:
        super().on_timer(now)
        for number, asking in list(self._askings.items()):
            if min(asking.ask_at, asking.until) <= now and number in self._askings:
                self._ask(number, asking, now)
        if self._report_at is not None and self._report_at <= now:
            self._report(now)

    def next_deadline(self) -> float | None:
        return _earliest(
            super().next_deadline(),
            self._report_at,
            *(min(a.ask_at, a.until) for a in self._askings.values()),
        )


def _unknown_at(broker: str, ask: HomeAsk) -> HomeAnswer:
    return HomeAnswer(ask.number, broker, "", {}, b"", "", 0.0, ask.path)


def _earliest(*times: float | None) -> float | None:
    return min((at for at in times if at is not None), default=None)
