"""The last minutes at this broker as a history, for those who judge a network while it runs.

Rules
- It is what the broker saw, by watching messages on their way: a publish counts from its arrival, a
  subscription from its answer, a notification when it leaves to the subscriber. Records of the node itself
  (drops, by policy) are in it too.
- It changes no state, and is bounded by time and by rows.
- A client that goes without a word leaves its subscriptions detached: it may come back under its name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tidings.errors import InputError
from tidings.history.jsonlines import to_lines
from tidings.history.schema import (
    OK,
    REFUSED,
    UNKNOWN,
    Outcome,
    Row,
    nack_row,
    ntfy_row,
    pub_row,
    sub_row,
    usub_row,
)
from tidings.history.window import HistoryWindow
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.subscription import SubscriptionId
from tidings.protocol.messages import (
    Closed,
    Deliver,
    DeliverAll,
    Message,
    Publish,
    Published,
    PublishedAll,
    Refused,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Unsubscribed,
)
from tidings.runtime.driver import Tap

MOST_ROWS = 200_000  # a few hundred bytes each
MOST_AT_ONCE = 4_000  # rows in one answer
MOST_PENDING = 10_000  # publishes of one client without an answer


class _ClientActivity:
    """Calls of a client that are under way."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.published: dict[int, tuple[float, Event, int]] = {}  # by call
        self.requests: dict[int, Filter] = {}  # by ref: subscriptions without an answer
        self.leaving: dict[int, bool] = {}  # by ref: whether it ends for good
        self.open: dict[int, str] = {}  # by ref


class RecentHistory:
    """A tap and a recorder (`driver.Tap`, `history.Recorder`)."""

    def __init__(self, broker: str, seconds: float, now: Callable[[], float]) -> None:
        self._broker, self._now = broker, now
        self._began = now()  # tells this life of the broker apart from others
        self._window = HistoryWindow(seconds, MOST_ROWS)
        self._clients: dict[str, _ClientActivity] = {}
        self._sent: dict[tuple[str, str], int] = {}  # by subscription and log: the last offset that was sent

    # -- recording --------------------------------------------------------------------------------

    def record(self, row: Row) -> None:
        self._window.add(row)

    def close(self) -> None:
        """No work: it ends with the broker."""

    def _client(self, peer: str) -> _ClientActivity:
        client = self._clients.get(peer)
        if client is None:
            client = self._clients[peer] = _ClientActivity(peer.rpartition("#")[0])
        return client

    # -- watching ---------------------------------------------------------------------------------

    def came_all(self, peer: str, messages: Sequence[Message], now: float) -> None:
        for message in messages:
            self.came(peer, message, now)

    def publishes_came(self, batches: list[tuple[str, list[Message]]], now: float) -> None:
        for peer, messages in batches:
            self.came_all(peer, messages, now)

    def came(self, peer: str, message: Message, now: float) -> None:
        kind = type(message)
        if kind is Publish:
            client = self._client(peer)
            if len(client.published) < MOST_PENDING:
                client.published[message.call] = (now, message.event, message.sequence)  # type: ignore[attr-defined]
        elif kind is Subscribe:
            self._client(peer).requests[message.ref] = message.filter  # type: ignore[attr-defined]
        elif kind is Unsubscribe:
            self._client(peer).leaving[message.ref] = message.end  # type: ignore[attr-defined]

    def went(self, peer: str, message: Message, now: float) -> None:
        match message:
            case Deliver():
                self._delivered(peer, message, message.event, now)
            case DeliverAll():
                for one in message.one_by_one():
                    self._delivered(peer, one, one.event, now)
            case Published():
                self._answered(peer, message.call, OK)
            case PublishedAll():
                for call in range(message.call, message.call + message.count):
                    self._answered(peer, call, OK)
            case Refused():
                self._answered(peer, message.call, REFUSED)
            case Subscribed():
                self._subscribed(peer, message, now)
            case Unsubscribed():
                self._left(peer, message.ref, now, ends=self._client(peer).leaving.pop(message.ref, True))
            case Closed():
                self._left(peer, message.ref, now, ends=True)

    def gone(self, peer: str) -> None:
        client = self._clients.get(peer)
        if client is None:
            return
        for call in list(client.published):
            self._answered(peer, call, UNKNOWN)
        for ref in list(client.open):
            self._left(peer, ref, self._now(), ends=False)
        del self._clients[peer]

    def _answered(self, peer: str, call: int, outcome: Outcome) -> None:
        client = self._client(peer)
        issued = client.published.pop(call, None)
        if issued is not None:
            time, event, sequence = issued
            self.record(
                pub_row(time, client.name, event, sequence=sequence, outcome=outcome, broker=self._broker)
            )

    def _subscribed(self, peer: str, answer: Subscribed, now: float) -> None:
        client = self._client(peer)
        filter = client.requests.pop(answer.ref, None)
        name = str(SubscriptionId(answer.subscriber, answer.name))
        if filter is not None:
            client.open[answer.ref] = name
            self.record(sub_row(now, client.name, name, filter, broker=self._broker))

    def _left(self, peer: str, ref: int, now: float, *, ends: bool) -> None:
        client = self._client(peer)
        name = client.open.pop(ref, None)
        if name is not None:
            self.record(usub_row(now, client.name, name, detach=not ends, broker=self._broker))
            if ends:
                for key in [key for key in self._sent if key[0] == name]:
                    del self._sent[key]

    def _delivered(self, peer: str, one: Deliver, event: Event, now: float) -> None:
        client = self._client(peer)
        name = client.open.get(one.ref)
        if name is not None:
            again = one.attempt > 1 or one.again
            if self._was_sent(name, one) and again:  # it was given back, or its link broke
                self.record(nack_row(now, client.name, name, event))
            row = ntfy_row(now, client.name, name, event, position=one.position, redelivery=again)
            self.record(row)

    def _was_sent(self, name: str, one: Deliver) -> bool:
        """Did this life of the broker send it before, as far as its place in the log shows?"""
        position = one.position
        if position is None:
            return True
        last = self._sent.get((name, position.log), 0)
        self._sent[name, position.log] = max(last, position.offset)
        return position.offset <= last

    # -- answering --------------------------------------------------------------------------------

    def answer(self, about: dict[str, Any]) -> dict[str, Any]:
        """The inquiry `history`: rows beyond the number `after`, in pieces."""
        after = about.get("after", 0)
        if type(after) is not int or after < 0:
            raise InputError("`after` is the number of a row")
        now = self._now()
        self._window.trim(now)
        rows, upto = self._window.since(after, MOST_AT_ONCE)
        return {
            "now": now,
            "began": self._began,
            "seconds": self._window.seconds,
            "rows": to_lines(rows),
            "upto": upto,
            "is_last": len(rows) < MOST_AT_ONCE,
            "is_cut": self._window.is_cut,
        }


class _BatchRows:
    def __init__(self, taps: Sequence[Tap]) -> None:
        self._taps = taps

    def came(self, peer: str, message: Message, now: float) -> None:
        for tap in self._taps:
            tap.came(peer, message, now)

    def came_all(self, peer: str, messages: list[Message], now: float) -> None:
        for tap in self._taps:
            tap.came_all(peer, messages, now)

    def publishes_came(self, batches: list[tuple[str, list[Message]]], now: float) -> None:
        for tap in self._taps:
            tap.publishes_came(batches, now)

    def went(self, peer: str, message: Message, now: float) -> None:
        for tap in self._taps:
            tap.went(peer, message, now)

    def gone(self, peer: str) -> None:
        for tap in self._taps:
            tap.gone(peer)


def together(*taps: Tap | None) -> Tap | None:
    """Several watchers as one."""
    given = [tap for tap in taps if tap is not None]
    return _BatchRows(given) if len(given) > 1 else given[0] if given else None
