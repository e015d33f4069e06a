"""Loss report: events that a subscription does not get, counted by reason and told to its members.

Rules
- A loss has a name: a queue policy, a bound, an expiry. It is counted, recorded in the history and told.
- Members are told at once, but not oftener than progress is flushed. A member that opens the subscription is
  told then.
"""

from __future__ import annotations

from typing import Protocol

from tidings.history.schema import drop_row
from tidings.model.event import Event
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.delivery.subscription_state import SubscriptionState
from tidings.protocol.effects import Record
from tidings.protocol.messages import Lost
from tidings.protocol.slots import Ports

OVER_BUDGET = "over the work budget"
ENDED = "superseded or expired"


class Touched(Protocol):
    def touched(self, held: SubscriptionState, now: float) -> None: ...


class LossReport:
    def __init__(self, ports: Ports, settings: DeliverySettings, hooks: Touched) -> None:
        self._ports = ports
        self._settings = settings
        self._hooks = hooks
        self.lost = 0  # by a policy or a bound
        self.over_budget = 0  # filters that were unknown for an event (`language/work.py`)

    def count_lost(self, held: SubscriptionState, event: Event, reason: str, now: float) -> None:
        """An event was lost by the policy or bound of that name."""
        held.count_lost(str(reason))
        self.lost += 1
        if self._ports.recording:
            self._ports.emit(Record(drop_row(now, self._ports.name, held.id, event, str(reason))))
        self.tell(held, now)

    def count_over_budget(self, held: SubscriptionState, now: float) -> None:
        """The filter was over its work budget for an event, which the subscription therefore does not get."""
        held.count_lost(OVER_BUDGET)
        self.over_budget += 1
        self.tell(held, now)

    def count_gone(self, held: SubscriptionState, now: float) -> None:
        """An owed event ended before it could be read from the log."""
        held.count_lost(ENDED)
        self.tell(held, now)

    def tell(self, held: SubscriptionState, now: float) -> None:
        """Tell the members of losses that they do not know of, now or with the next flush."""
        losses = held.losses
        if losses is None or not held.members:
            return
        if losses.told_at is not None and now < losses.told_at + self._settings.flush_seconds:
            losses.has_news = True
            self._hooks.touched(held, now)
            return
        losses.told_at = now
        losses.has_news = False
        for member in held.members:
            self._ports.send(member.address, Lost(member.ref, dict(losses.by_reason)))
