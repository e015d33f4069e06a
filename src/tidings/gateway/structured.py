"""CloudEvents that were written last: an event that goes to many streams is encoded once.

Rules
- Subscriptions of one broker are delivered the same event object, so an event is known by its identity as an
  object. The entry holds the event, and no other object can have that identity meanwhile.
- Entries have a bound in number and bytes; beyond it the oldest one goes. An event that is too large for the
  bound is encoded for each.
"""

from __future__ import annotations

from tidings.model.cloudevents import to_structured
from tidings.model.event import Event

MOST_EVENTS = 256
MOST_BYTES = 2**18


class StructuredEvents:
    def __init__(self) -> None:
        self._written: dict[int, tuple[Event, bytes]] = {}
        self._bytes = 0

    def write(self, event: Event) -> bytes:
        """The event as a CloudEvent in structured mode."""
        known = self._written.get(id(event))
        if known is not None:
            return known[1]
        body = to_structured(event)
        if len(body) <= MOST_BYTES:
            self._bytes += len(body)
            while self._written and (self._bytes > MOST_BYTES or len(self._written) >= MOST_EVENTS):
                _, oldest = self._written.pop(next(iter(self._written)))
                self._bytes -= len(oldest)
            self._written[id(event)] = event, body
        return body
