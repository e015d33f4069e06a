"""Looking again, some time after a change: for what was on its way when a broker looked.

The thesis (Virgillito 2003, 4.3.2) looks once, when a subscription arrives, at what is known behind each link
then. Two brokers that come to want the same at the same moment have not heard of each other, so neither
looks; and neither ever would, since a zone that other brokers already want in full stays so when it grows.
Rules
- Each look remembers the interest behind each link. Some time after a change of ours there is one look more;
  a link is asked if what is wanted behind it has grown, as seen from our zone. A link that is new since then
  is compared with all that was known. When there is no news it costs no message.
- When a discovery got no answer, or a swap was refused or given up, its link is asked again, after a longer
  pause each time. So many looks follow a change and no more; another change begins them anew.
- The pause is drawn: two brokers that looked at the same moment would lock the same path from both ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce

from tidings.protocol.overlay.choosing import really_changed
from tidings.protocol.overlay.measures import Measure, Z, associativity

LOOKS = 4  # after a change: one in any case, the others when a look failed
LONGER = 2.0  # is the next pause


class RepeatedSearch:
    def __init__(
        self, measure: Measure, *, pause: float, weigh_hops: bool, draw: Callable[[], float]
    ) -> None:
        self._measure = measure
        self._first_pause = pause  # 0: the broker does not look again
        self._weigh_hops = weigh_hops
        self._draw = draw  # from 0 to 1
        self._seen: dict[str, Z] = {}  # behind each link, at the last look
        self._missed: set[str] = set()
        self._left = 0
        self._pause = pause
        self.due: float | None = None

    def begin(self, behind: Mapping[str, Z], now: float) -> None:
        """Our zone has changed, and we have looked at this."""
        if self._first_pause <= 0:
            return
        self._seen = dict(behind)
        self._missed.clear()
        self._left, self._pause, self.due = LOOKS, self._first_pause, None
        self._wait(now)

    def _wait(self, now: float) -> None:
        if self.due is None and self._left > 0:
            self._left -= 1
            self.due = now + self._pause * (1.0 + self._draw())
            self._pause *= LONGER

    def miss(self, link: str, now: float) -> None:
        """A look failed: the broker behind this link was not found, or could not be linked."""
        self._missed.add(link)
        self._wait(now)

    def again(self, zone: Z, behind: Mapping[str, Z]) -> list[str]:
        """The links that are worth asking now, though our zone is what it was."""
        known = reduce(self._measure.join, self._seen.values(), self._measure.empty)
        links = [
            link
            for link, there in behind.items()
            if link in self._missed or self._is_news(zone, self._seen.get(link, known), there)
        ]
        self._seen = dict(behind)
        self._missed.clear()
        self.due = None
        return links

    def _is_news(self, zone: Z, before: Z, there: Z) -> bool:
        if self._weigh_hops:
            return really_changed(self._measure, before, there)
        return associativity(self._measure, zone, there) > associativity(self._measure, zone, before)
