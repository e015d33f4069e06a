"""Loss report: events that a subscription does not get, counted by reason and told to its members.

Rules
- A loss has a name: a queue policy, a bound, an expiry. It is counted, recorded in the history and told.
- Members are told at once, but not oftener than progress is flushed. A member that opens the subscription is
  told then.
- The counts of a transient subscription whose link broke go on when its client is back, so that a loss which
  the broken link did not carry is told, and none that the client knows is taken for a new one.
- The counts of a durable subscription are on the disk, in the row with its progress: a loss that a crash
  undoes is counted again. Its members are told what the disk has, so that no count goes back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from tidings.history.schema import drop_row
from tidings.language.evaluate import fails
from tidings.language.unexpected import FAILURES
from tidings.model.event import Event
from tidings.model.subscription import SubscriptionId
from tidings.protocol.delivery.sessions import Session
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.delivery.subscription_state import LossCounts, SubscriptionState
from tidings.protocol.effects import Record, Warn
from tidings.protocol.messages import Lost, Silence
from tidings.protocol.slots import Ports

if TYPE_CHECKING:
    from tidings.protocol.delivery.exactly_once import ExactlyOnce

OVER_BUDGET = "over the work budget"
FAILED = "the filter failed"
ENDED = "superseded or expired"


class CountsLeft:
    """Counts of transient subscriptions whose link broke, by incarnation of the client and subscription."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[tuple[str, SubscriptionId], LossCounts] = {}  # the oldest first

    def keep(self, session: Session) -> None:
        for member in session.members.values():
            state = member.subscription
            if state.losses is not None and not state.durable and state.options.group is None:
                self._kept[session.incarnation, state.id] = LossCounts(state.losses.by_reason)
        while len(self._kept) > self._most:
            del self._kept[next(iter(self._kept))]

    def take(self, session: Session, state: SubscriptionState) -> None:
        """The client is perhaps back."""
        losses = self._kept.pop((session.incarnation, state.id), None)
        if losses is not None:
            state.losses = losses


class LossReport:
    def __init__(self, ports: Ports, settings: DeliverySettings, hooks: ExactlyOnce) -> None:
        self._ports = ports
        self._settings = settings
        self._hooks = hooks
        self.unkept: dict[SubscriptionState, None] = {}  # durable, with counts that the disk does not have
        self._writing: dict[SubscriptionState, int] = {}  # writes of counts that are on their way to the disk
        self.lost = 0  # by a policy or a bound
        self.over_budget = 0  # filters that were unknown for an event (`language/work.py`)

    @property
    def figures(self) -> dict[str, int]:
        failed = FAILURES.count
        return {"lost": self.lost, "filters over budget": self.over_budget, "filters failed": failed}

    def count_lost(self, state: SubscriptionState, event: Event, reason: str, now: float) -> None:
        """An event was lost by the policy or bound of that name."""
        state.count_lost(str(reason))
        self.lost += 1
        if self._ports.recording:
            self._ports.emit(Record(drop_row(now, self._ports.name, state.id, event, str(reason))))
        self.notify(state, now)

    def count_over_budget(self, state: SubscriptionState, now: float) -> None:
        """The filter was over its work budget for an event, which the subscription therefore does not get."""
        state.count_lost(OVER_BUDGET)
        self.over_budget += 1
        self.notify(state, now)

    def count_all_over_budget(self, event: Event, now: float) -> None:
        """The same for each subscription whose filter was over its work budget for the event."""
        for state in self._ports.interest.over_budget(event):
            self.count_over_budget(state, now)

    def count_all_failed(self, states: Iterable[SubscriptionState], now: float) -> None:
        """The evaluation of filters failed for events since the last call, by a defect of ours: their
        subscriptions do not get these. Warned of once for each failing expression."""
        for failure in FAILURES.take():
            owners = [state for state in states if fails(state.filter, failure.view)]
            for state in owners:
                state.count_lost(FAILED)
                self.notify(state, now)
            names = ", ".join(f"{state.id.subscriber}/{state.id.name}" for state in owners[:3]) or "a link"
            text = (
                f"the filter of {names} failed for an event, which it therefore does not accept "
                f"({failure.error}); this is a defect of Tidings: please report it"
            )
            self._ports.emit(Warn(text))

    def count_gone(self, state: SubscriptionState, now: float) -> None:
        """An owed event ended before it could be read from the log."""
        state.count_lost(ENDED)
        self.notify(state, now)

    def notify(self, state: SubscriptionState, now: float) -> None:
        """Tell the members of losses that they do not know of, now or with the next flush."""
        losses = state.losses
        if losses is None:
            return
        if state.durable and self._ports.disk.stable:  # when the disk has the counts
            self.unkept[state] = None
            self._hooks.touched(state, now)
            return
        if not state.members:
            return
        if losses.notified_at is not None and now < losses.notified_at + self._settings.flush_seconds:
            losses.has_news = True
            self._hooks.touched(state, now)
            return
        losses.notified_at = now
        losses.has_news = False
        self._tell([(state, dict(losses.by_reason))], now)

    def take_unkept(self) -> Callable[[float], None] | None:
        """A flush writes the counts of durable subscriptions: tell their members when the disk has them."""
        unkept, self.unkept = self.unkept, {}
        for state in unkept:
            self._writing[state] = self._writing.get(state, 0) + 1
        return partial(self._on_kept, [(state, dict(state.lost)) for state in unkept]) if unkept else None

    def _on_kept(self, news: Sequence[tuple[SubscriptionState, dict[str, int]]], now: float) -> None:
        for state, _ in news:
            self._writing[state] -= 1
            if not self._writing[state]:
                del self._writing[state]
        self._tell(news, now)
        for state, _ in news:
            self.tell_silences(state)

    def _tell(self, news: Sequence[tuple[SubscriptionState, dict[str, int]]], now: float) -> None:
        for state, counts in news:
            for member in state.members:
                self._ports.send(member.address, Lost(member.ref, counts))

    def tell_silences(self, state: SubscriptionState) -> None:
        """Tell the members how far no event is for them: not over losses that the disk does not have, since
        no broker counts what is below a client's token."""
        if state.durable and state.members and state not in self.unkept and state not in self._writing:
            for position in state.silences():
                for member in state.members:
                    self._ports.send(member.address, Silence(member.ref, position))
