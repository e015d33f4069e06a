"""Advertisements of a client: what it may publish, and which statements the broker has not answered.

An advertisement ends with its link, so on a new link the client sends all of them again; waiting calls are
answered then. A broker that quenches says which of them have no subscriber. An event that only those cover is
held back, unless it lives longer than the moment: a later subscriber may want it.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidings.language.evaluate import accepts
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.protocol import inputs as ins
from tidings.protocol.messages import Advertise, Quench, Unadvertise


class Advertising:
    """Advertisements of one client."""

    def __init__(self) -> None:
        self._filters: dict[str, Filter] = {}  # by name
        self._calls: dict[int, str] = {}  # by call that the broker has not answered: the name
        self.unwanted: set[str] = set()  # digests of filters, as the broker said

    def advertise(self, input: ins.ClientAdvertise) -> Advertise:
        """Message to the broker."""
        self._filters[input.name] = input.filter
        self._calls[input.call] = input.name
        return Advertise(input.call, input.name, input.filter)

    def unadvertise(self, input: ins.ClientUnadvertise, *, is_up: bool) -> Unadvertise | None:
        """Withdraw one; None: no message is due."""
        if self._filters.pop(input.name, None) is None or not is_up:
            return None
        self._calls[input.call] = input.name
        return Unadvertise(input.call, input.name)

    def is_answered(self, call: int) -> bool:
        """The broker answered; False: it was not about this."""
        return self._calls.pop(call, None) is not None

    def is_refused(self, call: int) -> bool:
        """The broker said no; False: it was not about this."""
        name = self._calls.pop(call, None)
        if name is not None:
            self._filters.pop(name, None)
        return name is not None

    def quench(self, message: Quench, now: float) -> None:
        """Record the broker's word on whether a subscriber wants it."""
        if message.unwanted:
            self.unwanted.add(message.digest)
        else:
            self.unwanted.discard(message.digest)

    def is_quenched(self, event: Event) -> bool:
        """Is the event without a subscriber, as far as the broker said?"""
        if not self.unwanted or event.lifetime:
            return False
        covering = {filter.digest for filter in self._filters.values() if accepts(filter, event)}
        return bool(covering) and covering <= self.unwanted

    def again(self) -> Iterator[Advertise]:
        """On a new link: the broker forgot what was said on the old one."""
        self.unwanted.clear()
        for name, filter in self._filters.items():
            yield Advertise(0, name, filter)

    def waiting(self) -> list[int]:
        """The calls that wait, in order; they wait no more."""
        calls = sorted(self._calls)
        self._calls.clear()
        return calls
