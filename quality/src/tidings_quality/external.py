"""The External Diffusion Layer: an organisation and the others (Virgillito 2003, section 5.4.4).

Parts, all of them without network and disk
- The Schema Mapper is `Schema.producers`.
- `Merger` keeps the merge subscriptions table: for each possible producer the local subscriptions, reduced.
  At a producer the sources of a subscription are meaningless, so they are left out there.
- `ExternalMatcher` keeps the external merge table, what consumers told us, and finds who has to hear an
  event. A consumer without the right to a class does not hear of it, even if it subscribed.
- The Tree Builder is `protocol.routing.trees.build_tree`; the Forwarder is in `sending`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from tidings.errors import InputError, SettingsError
from tidings.matching.engine import MatchingEngine
from tidings.model.event import Event
from tidings.protocol.routing.outlets import OUTLETS, FilterOutlet
from tidings_quality.model import is_within
from tidings_quality.schema import Schema
from tidings_quality.subscription import QualitySubscription, parse_subscription

REDUCTIONS = ("covering", "union", "identical")  # those that tell subscriptions as users wrote them


class Merger:
    """Merge subscriptions table: the subscriptions of our users that each producer has to know."""

    def __init__(self, organisation: str, schema: Schema, *, reduce: str = "covering") -> None:
        if reduce not in REDUCTIONS:
            raise SettingsError(
                f"no reduction is called {reduce!r}", hint=f"there are: {', '.join(REDUCTIONS)}"
            )
        self._organisation = organisation
        self._schema = schema
        self._reduce = reduce
        self._outlets: dict[str, FilterOutlet] = {}
        self._counts: Counter[tuple[str, str]] = Counter()  # producer, digest
        self._texts: dict[str, str] = {}  # digest -> text

    def producers(self, wanted: QualitySubscription) -> tuple[str, ...]:
        """The other organisations that can produce events for it."""
        names = self._schema.producers(wanted.data_class, wanted.sources)
        return tuple(name for name in names if name != self._organisation)

    def add(self, wanted: QualitySubscription) -> None:
        for producer, seen in self._seen_from(wanted):
            key = (producer, seen.filter.digest)
            self._counts[key] += 1
            if self._counts[key] == 1:
                self._texts[seen.filter.digest] = seen.text
                self._outlets.setdefault(producer, OUTLETS[self._reduce]()).add(seen.filter)

    def remove(self, wanted: QualitySubscription) -> None:
        for producer, seen in self._seen_from(wanted):
            key = (producer, seen.filter.digest)
            self._counts[key] -= 1
            if not self._counts[key]:
                del self._counts[key]
                self._outlets[producer].remove(seen.filter.digest)

    def _seen_from(self, wanted: QualitySubscription) -> list[tuple[str, QualitySubscription]]:
        pairs = ((producer, wanted.seen_from(producer)) for producer in self.producers(wanted))
        return [(producer, seen) for producer, seen in pairs if seen is not None]

    def merge_subscription(self, producer: str) -> set[str]:
        """Subscriptions that this producer has to know."""
        outlet = self._outlets.get(producer)
        return set() if outlet is None else {self._texts[digest] for digest in outlet.announced}

    def table(self) -> dict[str, list[str]]:
        """The merge subscriptions table."""
        return {producer: sorted(self.merge_subscription(producer)) for producer in sorted(self._outlets)}


class ExternalMatcher:
    """External merge table: finds the other organisations that have to hear an event of ours."""

    def __init__(self, permits: Callable[[str, str], bool]) -> None:
        self._permits = permits  # organisation, class
        self._engine = MatchingEngine()
        self._handles: dict[str, int] = {}  # digest -> handle
        self._consumers: dict[int, set[str]] = {}
        self._reported: dict[str, dict[str, str]] = {}  # consumer -> text -> digest

    def change(self, consumer: str, texts: set[str]) -> None:
        """The merge subscription of a consumer is this from now on."""
        known = self._reported.setdefault(consumer, {})
        for text in sorted(texts - known.keys()):
            known[text] = self._add(consumer, parse_subscription(text))
        for text in sorted(known.keys() - texts):
            digest = known.pop(text)
            if digest not in known.values():
                self._drop(consumer, digest)

    def _add(self, consumer: str, wanted: QualitySubscription) -> str:
        digest = wanted.filter.digest
        handle = self._handles.get(digest)
        if handle is None:
            handle = self._handles[digest] = self._engine.add(wanted.filter)
            self._consumers[handle] = set()
        self._consumers[handle].add(consumer)
        return digest

    def _drop(self, consumer: str, digest: str) -> None:
        handle = self._handles[digest]
        self._consumers[handle].discard(consumer)
        if not self._consumers[handle]:
            del self._handles[digest], self._consumers[handle]
            self._engine.remove(handle)

    def match(self, event: Event) -> list[str]:
        """The organisations, each once, in order."""
        found = {name for handle in self._engine.match(event) for name in self._consumers[handle]}
        return sorted(name for name in found if self._permits(name, event.type[0]))

    def table(self) -> dict[str, list[str]]:
        """The external merge table."""
        return {name: sorted(texts) for name, texts in sorted(self._reported.items()) if texts}


def objection(consumer: str, text: str, schema: Schema, allowed: Sequence[str] | None) -> str | None:
    """Reason why no event here can match a consumer's subscription; None: one can."""
    try:
        requested = parse_subscription(text).check(schema).data_class
    except InputError as error:
        return str(error)
    if allowed is None or any(is_within(requested, one) or is_within(one, requested) for one in allowed):
        return None
    return f"{consumer} may not receive changes of {requested}"
