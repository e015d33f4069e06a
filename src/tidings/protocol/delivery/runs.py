"""Publishes that came together: what asks nothing of the log is taken in, matched and told as one.

The same as `Intake.publish` for each of them, one after the other. Rules
- A run is of one source, in the order of its numbers. In it stretches of events that the same
  subscriptions accept are told in one message to each of those; so is their acknowledgement one message.
- An event that a durable subscription is owed, that somebody holds the log for, that another broker wants, or
  that must wait for an earlier one of its source goes its own way, between the stretches before and behind it.
- The matches are those of the beginning. A subscription may end meanwhile (nobody begins): then it is no
  longer under its handle.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidings.model.event import Event
from tidings.protocol.delivery.arrival import Arrival
from tidings.protocol.delivery.courier import Courier
from tidings.protocol.delivery.holding import Holding
from tidings.protocol.delivery.intake import Intake
from tidings.protocol.delivery.registry import Registry
from tidings.protocol.delivery.sessions import Session
from tidings.protocol.messages import Message, Publish, PublishedAll
from tidings.protocol.slots import Ports


class Tickets:
    """The publishes of a run that find no room at once."""

    __slots__ = ("_now", "_number", "_run", "found")

    def __init__(self, number: int, run: list[Publish], now: float) -> None:
        self._number = number
        self._run = run
        self._now = now
        self.found: dict[int, Arrival] = {}  # by place in the run

    def __call__(self, place: int) -> Arrival:
        """Of the event in that place."""
        arrival = self.found.get(place)
        if arrival is None:
            publish = self._run[place]
            arrival = self.found[place] = Arrival(
                publish.event, self._number + place, publish.sequence, self._now
            )
        return arrival


class Runs:
    def __init__(
        self, ports: Ports, intake: Intake, registry: Registry, courier: Courier, holding: Holding
    ) -> None:
        self._ports = ports
        self._holding = holding
        self._intake = intake
        self._registry = registry
        self._courier = courier

    def publish(self, session: Session, messages: Sequence[Message], at: int, now: float) -> int:
        """Take in the publish in this place and those behind it that are alike; the place after them."""
        intake = self._intake
        run = intake.alike(session, messages, at)
        if len(run) < 2:
            first = messages[at]
            assert isinstance(first, Publish)
            intake.publish(session, first, now)
            return at + 1
        events = [publish.event for publish in run]
        matches = self._registry.match_all(events)
        is_plain = self._plain(events, matches, now)
        source, place, count = events[0].source, 0, len(run)
        while place < count:
            if is_plain[place] and not intake.waits(source):
                begin, place = place, place + 1
                while place < count and is_plain[place]:
                    place += 1
                self._tell(session, run[begin:place], events[begin:place], matches[begin:place], now)
            else:
                intake.publish(session, run[place], now)
                place += 1
        return at + count

    def _plain(self, events: list[Event], matches: list[Sequence[int]], now: float) -> Sequence[bool]:
        """Which of them concern nobody but transient subscriptions of this broker?"""
        stays = self._ports.events.staying(events, now)
        if self._holding.is_held:
            wants = self._holding.wants
            stays = [stay and not wants(event) for stay, event in zip(stays, events, strict=True)]
        if not self._registry.has_durables:
            return stays
        by_handle = self._registry.by_handle
        return [
            stay and not any(by_handle[handle].durable for handle in handles)
            for stay, handles in zip(stays, matches, strict=True)
        ]

    def _tell(
        self,
        session: Session,
        run: list[Publish],
        events: list[Event],
        matches: list[Sequence[int]],
        now: float,
    ) -> None:
        number = self._intake.take(session, run, now)
        self._registry.report_over_budget(events, now)
        tickets = Tickets(number, run, now)
        begin, count = 0, len(run)
        held_by, offer_all = self._registry.by_handle.__getitem__, self._courier.offer_all
        offer_one, most = self._courier.offer_one, self._ports.limits.deliveries_together
        while begin < count:
            handles, end = matches[begin], begin + 1
            while end < count and matches[end] == handles:
                end += 1
            if end - begin == 1 and len(handles) == 1:  # by content most are wanted by few
                held = held_by(handles[0])
                if held is not None:
                    offer_one(held, events[begin], tickets, begin, now)
            elif handles:
                if (end - begin) * len(handles) > most:
                    end = begin + max(1, most // len(handles))
                helds = [held for handle in handles if (held := held_by(handle)) is not None]
                offer_all(helds, tuple(events[begin:end]), tickets, begin, now)
            begin = end
        self._answer(session, run, tickets.found)

    def _answer(self, session: Session, run: list[Publish], tickets: dict[int, Arrival]) -> None:
        begin = 0
        for place, arrival in sorted(tickets.items()):
            arrival.told = True
            if arrival.blocked:
                self._intake.told(session, run[place].call, arrival)
                self._say(session, run[begin:place])
                begin = place + 1
        self._say(session, run[begin:])

    def _say(self, session: Session, run: list[Publish]) -> None:
        if run:
            self._ports.send(session.address, PublishedAll(run[0].call, len(run)))
