"""One organisation's notification service: both layers over one state. No network is touched here.

Rules
- A change of our own data (`changed`) is matched for local users, and for other organisations: to those it
  goes along a diffusion tree. An event from another organisation (`notified`) is matched for local users and
  sent on to the branches that came with it. Either is one transaction, and an event that was here before is
  dropped.
- A subscription changes what producers have to know (`Merger`). Their confirmations are in the state; the
  difference has to be sent (`to_tell`), after a restart too.
- `on_work(what, who)` is called when there is work: `send` to an organisation, `tell` it our merge
  subscription, `dispatch` for a subscription. The work is in the state; the call is only a nudge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from tidings.errors import InputError, RefusedError
from tidings.model.event import Event
from tidings_quality.documents import typed
from tidings_quality.external import ExternalMatcher, Merger, objection
from tidings_quality.interface import LocalMatcher, UserRequest, checked, interpreter_of
from tidings_quality.model import QualityChange, change_of, is_within
from tidings_quality.routing.trees import Branch, build_tree, names_in
from tidings_quality.settings import OrganisationSettings
from tidings_quality.state import LocalSubscription, OrganisationState, packed
from tidings_quality.subscription import parse_subscription

SEND, TELL, DISPATCH = "send", "tell", "dispatch"


class ChangeSub(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A consumer's merge subscription has changed: from `base` on, this came and that went."""

    number: int
    base: int  # the number that the producer should have now
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    whole: bool = False  # True: `add` replaces all earlier subscriptions


class SubChanged(msgspec.Struct, frozen=True):
    """Answer of a producer."""

    number: int | None = None  # the one that it has instead of `base`: it has to be told everything
    refused: dict[str, str] = {}  # subscriptions that will hear no event here, and why


class QualityNotification(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An event and the branches to send it on to, as one organisation hands it to another."""

    event: Event
    below: tuple[Branch, ...] = ()


class OrganisationService:
    def __init__(self, settings: OrganisationSettings, state: OrganisationState) -> None:
        self.settings = settings
        self.name = settings.name
        self.state = state
        self.on_work: Callable[[str, str], None] = lambda _what, _who: None
        self._interpret = interpreter_of(settings.interpreter)
        self._local = LocalMatcher()
        self._merger = Merger(self.name, settings.schema, reduce=settings.reduce)
        self._external = ExternalMatcher(settings.permits)
        self._table: dict[str, LocalSubscription] = {}
        self._refused: dict[str, dict[str, str]] = {}  # by producer: what it will never tell us of, and why
        for one in state.subscriptions():
            self._put(one)
        for consumer in settings.peers:
            self._receive_merge(consumer, state.external(consumer)[1])

    # -- the internal interface layer ----------------------------------------------------------

    def subscribe(self, request: UserRequest) -> tuple[LocalSubscription, bool]:
        """A local user's subscription; True: it was there already, and goes on."""
        wanted = checked(request, self._interpret, self.settings)
        one = LocalSubscription(
            f"{request.user}.{request.name}", request.user, wanted.text, request.dispatcher, request.target
        )
        known = self._table.get(one.id)
        if known is not None:
            if known != one:
                raise RefusedError(
                    f"{request.user} has a subscription {request.name!r} already: {known.text}",
                    hint="end it first, or take another name",
                )
            return known, True
        self.state.add_subscription(one)
        self._put(one)
        self._notify_producers()
        return one, False

    def _put(self, one: LocalSubscription) -> None:
        wanted = parse_subscription(one.text)
        self._table[one.id] = one
        self._local.add(one.id, wanted)
        self._merger.add(wanted)

    def unsubscribe(self, id: str) -> None:
        one = self.subscription(id)
        self.state.remove_subscription(id)
        del self._table[id]
        self._local.remove(id)
        self._merger.remove(parse_subscription(one.text))
        self._notify_producers()
        self.on_work(DISPATCH, id)

    def subscription(self, id: str) -> LocalSubscription:
        if id not in self._table:
            raise InputError(f"no subscription is called {id!r}")
        return self._table[id]

    def subscriptions(self) -> list[LocalSubscription]:
        return list(self._table.values())

    def changed(self, changes: Sequence[QualityChange]) -> int:
        """Changes of our own data, from the quality factory; how many were new."""
        events = [self._checked_change(change).as_event() for change in changes]
        return self._take([QualityNotification(event) for event in events], ours=True)

    def _checked_change(self, change: QualityChange) -> QualityChange:
        if change.source != self.name:
            raise InputError(f"a change at {change.source!r} is told to {self.name}")
        stored = self.settings.schema.local_names(self.name, change.data_class)
        if change.property not in stored.values():
            raise InputError(f"{self.name} holds no {change.data_class}.{change.property}")
        values = typed(self.settings.schema, change.data_class, change.values)
        return msgspec.structs.replace(change, values=values)

    # -- the external diffusion layer ----------------------------------------------------------

    def notified(self, sender: str, notifications: Sequence[QualityNotification]) -> int:
        """Events from another organisation (its own, or sent on); how many were new."""
        for one in notifications:
            change = change_of(one.event)
            self.settings.schema.holding(change.source, change.data_class)
            if change.source == self.name:
                raise InputError(f"{sender} tells {self.name} of its own data")
            self._check_branches(one.below)
        return self._take(notifications, ours=False)

    def _check_branches(self, below: Sequence[Branch]) -> None:
        """Known organisations, each once, and those next to us within our reach."""
        names = list(islice(names_in(below), len(self.settings.schema.organisations) + 1))
        if len(set(names)) < len(names) or self.name in names:
            raise InputError("a diffusion tree in which an organisation stands twice")
        for name in names:
            self.settings.schema.organisation(name)
        for branch in below:
            if branch.name not in self.settings.peers:
                raise RefusedError(f"{self.name} does not know how to reach {branch.name}")

    def _take(self, notifications: Sequence[QualityNotification], *, ours: bool) -> int:
        work: dict[tuple[str, str], None] = {}
        new = 0
        with self.state.writing():
            for one in notifications:
                if not self.state.take(one.event):
                    continue
                new += 1
                body = packed(one.event)
                for id in self._local.match(one.event):
                    self.state.add_notification(id, body)
                    work[(DISPATCH, id)] = None
                branches = self.tree(one.event) if ours else one.below
                self.state.add_sendings(body, branches)
                work.update(dict.fromkeys((SEND, branch.name) for branch in branches))
        for what, who in work:
            self.on_work(what, who)
        return new

    def tree(self, event: Event) -> tuple[Branch, ...]:
        """The diffusion tree of an event of ours."""
        schema = self.settings.schema
        consumers = self._external.match(event)
        capability = schema.organisation(self.name).capability
        return build_tree(capability, consumers, lambda name: schema.organisation(name).capability)

    def sub_changed(self, consumer: str, change: ChangeSub) -> SubChanged:
        """A consumer's merge subscription changes. Filters that it has no right to are kept for its number,
        and never match."""
        number, texts = self.state.external(consumer)
        if not change.whole and change.base != number:
            return SubChanged(number)
        texts = set(change.add) if change.whole else (texts | set(change.add)) - set(change.remove)
        self.state.set_external(consumer, change.number, texts)
        return SubChanged(refused=self._receive_merge(consumer, texts))

    def _receive_merge(self, consumer: str, texts: set[str]) -> dict[str, str]:
        allowed = self.settings.peers[consumer].classes
        against = {text: objection(consumer, text, self.settings.schema, allowed) for text in sorted(texts)}
        self._external.change(consumer, {text for text, why in against.items() if why is None})
        return {text: why for text, why in against.items() if why is not None}

    def _notify_producers(self) -> None:
        for producer in self.settings.peers:
            if self.to_tell(producer) is not None:
                self.on_work(TELL, producer)

    def to_tell(self, producer: str, *, confirm: bool = False, known: int | None = None) -> ChangeSub | None:
        """Change to send to a producer; None: it knows. `confirm`: ask even so. `known`: the number that it
        has instead."""
        number, delivered = self.state.confirmed(producer)
        wanted = self._merger.merge_subscription(producer)
        if known is not None:
            return ChangeSub(max(number, known) + 1, known, tuple(sorted(wanted)), whole=True)
        if wanted == delivered:
            return ChangeSub(number, number) if confirm and number else None
        return ChangeSub(
            number + 1, number, tuple(sorted(wanted - delivered)), tuple(sorted(delivered - wanted))
        )

    def on_confirmed(
        self, producer: str, change: ChangeSub, refused: Mapping[str, str] | None = None
    ) -> None:
        """The producer has confirmed it, and says which of our subscriptions it refuses."""
        self._refused[producer] = dict(refused or {})
        delivered = self.state.confirmed(producer)[1]
        texts = set(change.add) if change.whole else (delivered | set(change.add)) - set(change.remove)
        self.state.set_confirmed(producer, change.number, texts)

    def producers(self, id: str) -> tuple[str, ...]:
        """The other organisations that a subscription concerns."""
        return self._merger.producers(parse_subscription(self.subscription(id).text))

    def unconfirmed(self, id: str) -> list[str]:
        """Producers that do not know of the subscription yet."""
        return [
            name
            for name in self.producers(id)
            if name in self.settings.peers and self.to_tell(name) is not None
        ]

    def refusals(self, id: str) -> dict[str, str]:
        """Producers that refuse what we told them for the class of a subscription, and why."""
        wanted = parse_subscription(self.subscription(id).text)
        return {
            producer: why
            for producer in self.producers(id)
            for text, why in self._refused.get(producer, {}).items()
            if is_within(parse_subscription(text).data_class, wanted.data_class)
            or is_within(wanted.data_class, parse_subscription(text).data_class)
        }

    def tables(self) -> dict[str, Any]:
        """All tables of both layers, for people."""
        return {
            "organisation": self.name,
            "local subscriptions": {one.id: one.text for one in self._table.values()},
            "merge subscriptions": self._merger.table(),
            "external merges": self._external.table(),
            "refused by": {producer: texts for producer, texts in self._refused.items() if texts},
            "figures": self.state.figures(),
        }
