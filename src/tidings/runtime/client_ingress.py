"""The gate between one client's connection and the node: checks of messages in both directions.

Rules
- Only a client's messages come in, and the gate trusts no earlier check: every field by
  its bound (`protocol/client_bounds.py`), an event by the rules of events, a filter by parsing its text here.
  The normal form that the client sends does not count.
- The guard is asked about each publish, each subscribe, each advertisement and each delivery, unless it said
  that it refuses and changes no such message; that holds until its rules change. A delivery that it withholds
  is acknowledged in the client's place.
- Names of clients, consumer groups, queries and holds go to the node with the scope that the guard gives
  them, and come back without it. So the node never compares names of principals that are to be kept apart.
- Publishes that are not answered are counted, so that the connection can be read from less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC
from functools import lru_cache
from typing import Any

import msgspec

from tidings.errors import RefusedError, TidingsError, WireError
from tidings.language import DEFAULT_LIMITS, Limits, parse_filter
from tidings.model.event import TENANT_MARK, Event, checked_event, event_size, has_plain_attributes
from tidings.model.filter import EVERYTHING, Filter
from tidings.model.schemas import SCHEMAS
from tidings.model.subscription import (
    GROUPS,
    OWNER_MARK,
    DeliveryOptions,
    Subscription,
    SubscriptionId,
    unscoped,
)
from tidings.model.topic import check_topic
from tidings.protocol import messages as msg
from tidings.protocol.client_bounds import (
    FIELDS,
    WIDEST,
    check_message,
)
from tidings.protocol.limits import DEFAULT_LIMITS as DEFAULT_RESOURCES
from tidings.protocol.limits import ClientLimits
from tidings.runtime.messages import InquiryRefused, InquiryRequest
from tidings.runtime.narrowing import NARROWED, shown
from tidings.security.inboxes import BELOW, LENGTH, has_replies, in_inbox, named_inbox
from tidings.security.interfaces import Guard

Say = Callable[[msg.Message], None]

MOST_TOPICS = 1024  # of one client that are remembered as checked ...
REMEMBERED_TOPIC = 256  # ... when they are no longer than this
_known_topic = lru_cache(maxsize=4096)(check_topic)


def check_event(event: Event) -> Event:
    """The event itself, or its checked copy when it is not a plain one. Raises `EventError`."""
    if _is_plain(event):
        topic = event.topic
        if topic is not None:
            _known_topic(topic) if len(topic) <= REMEMBERED_TOPIC else check_topic(topic)
        return event
    return checked_event(event)


def _is_plain(event: Event) -> bool:
    """Is the event of the common kind, where only the topic can be wrong? A quick look, never a wrong yes."""
    if not (event.source and event.id and event.lifetime >= 0.0):
        return False
    if event.expires is not None or (event.time is not None and event.time.tzinfo is not UTC):
        return False
    return not event.rich and (not event.body or has_plain_attributes(event.body))


def _together(messages: list[msg.Message], bounds: ClientLimits) -> list[msg.Message]:
    """Acknowledgements of one subscription whose tags follow one another as one message, and so its credit,
    where nothing else came between them. All of it is settled before anything more is sent anyway."""
    found: list[msg.Message] = []
    ack: msg.AckAll | None = None
    credit: msg.Credit | None = None
    ack_at = credit_at = 0  # in `found`
    for message in messages:
        if type(message) is msg.AckAll:
            follows = ack is not None and ack.ref == message.ref and ack.tag + ack.count == message.tag
            if ack is not None and follows and ack.count + message.count <= bounds.tag_range:
                found[ack_at] = ack = msg.AckAll(ack.ref, ack.tag, ack.count + message.count)
                continue
            ack, ack_at = message, len(found)
        elif type(message) is msg.Credit:
            grows = (
                credit is not None and credit.ref == message.ref and min(credit.amount, message.amount) > 0
            )
            if credit is not None and grows and credit.amount + message.amount <= bounds.credit:
                found[credit_at] = credit = msg.Credit(credit.ref, credit.amount + message.amount)
                continue
            credit, credit_at = message, len(found)
        else:
            ack = credit = None
        found.append(message)
    return found


class ClientIngress:
    """Gate of one client's connection."""

    def __init__(
        self,
        client: str,
        principal: Any,
        guard: Guard[Any] | None,
        *,
        say: Say,
        hand_in: Say,
        beside: Callable[[msg.Message], bool] = lambda message: False,
        registered: Callable[[SubscriptionId], tuple[Subscription, float] | None] = lambda id: None,
        check_group: Callable[[str], None] = lambda group: None,
        limits: Limits = DEFAULT_LIMITS,
        bounds: ClientLimits = DEFAULT_RESOURCES.client,
    ) -> None:
        self.client = client
        self._bounds = bounds
        self._limits = limits
        self.unanswered: set[int] = set()  # calls of publishes
        self._holding: dict[int, list[str]] = {}  # by call of a hold that is not answered: its name
        self._storing: dict[int, int] = {}  # by call: bytes that count for a quota until it is answered
        self._topics: set[str] = set()  # that it published to, and that are topics
        self._principal = principal
        self._guard = guard
        self._say = say  # to the client
        self._hand_in = hand_in  # to the node, in the client's place
        self._beside = beside  # handles messages beside the protocol; False: unknown
        self._free_source: str | None = None  # its events need not be asked about ...
        self._free_at = -1  # ... at this version of the rules
        self._known: dict[int, tuple[SubscriptionId, bool]] = {}  # by ref: what the guard counts; durable?
        self._inboxes: dict[int, str] = {}  # by ref: topic of an inbox that it names in full
        self._shared: set[int] = set()  # refs of groups that other principals consume too
        self._subscription_of = registered  # what the node holds under an identity
        self._check_group = check_group  # refuses consumer groups that live elsewhere
        self.inbox = "" if guard is None else guard.inbox(principal)  # replies below it are for it alone
        self._client_scope, self._query_scope = guard.scopes(principal) if guard is not None else ("", "")
        self._opening: dict[int, int] = {}  # by call of a subscribe: its ref
        self._narrowed: dict[int, Filter] = {}  # by call: what the rights allow of a subscribe
        self._advertised: dict[str, Filter] = {}  # by name: what the guard counts
        self._checks: dict[type, Callable[[Any], msg.Message]] = {
            msg.Hello: self._hello,
            msg.Publish: self._publish,
            msg.Subscribe: self._subscribe,
            msg.Advertise: self._advertise,
            msg.Unadvertise: self._unadvertise,
            msg.StageEvents: self._stage,
            msg.ReadLog: self._read_log,
            msg.CommitStaged: self._commit,
            msg.AskCommitted: self._scoped,
            msg.CommitParts: self._commit,
            msg.HoldLog: self._hold_log,
            msg.EndHold: self._end_hold,
        }
        self._passes = frozenset(msg.CLIENT_MESSAGES) - self._checks.keys()
        self._watched: dict[type, Callable[[Any], msg.Message | None]] = {
            msg.Refused: self._refused,
            msg.Staged: self._staged,
            msg.LogHeld: self._log_held,
        }
        if guard is not None:
            self._watched |= {
                msg.Deliver: self._deliver,
                msg.Unsubscribed: self._unsubscribed,
                msg.Closed: self._unsubscribed,
                msg.LogRead: self._log_read,
                msg.Subscribed: self._subscribed,
                msg.Committed: self._committed,
            }

    # -- inward -----------------------------------------------------------------------------

    def inward(self, messages: list[msg.Message]) -> list[msg.Message]:
        """The messages that may pass to the node. Raises `WireError` for a message that no client sends."""
        allowed: list[msg.Message] = []
        guard, unanswered = self._guard, self.unanswered
        free = self._free_source if guard is None or self._free_at == guard.version else None
        if SCHEMAS.active:
            free = None  # each event is checked
        bounds = self._bounds
        longest, lineage = bounds.name, bounds.lineage
        most_tags, most_range, most_credit = bounds.tags, bounds.tag_range, bounds.credit
        ranges = 0  # acknowledgements of ranges
        most_headers, most_bytes, topics = bounds.headers, bounds.header_bytes, self._topics
        for message in messages:
            if type(message) is msg.Publish:  # the most common of all: as `_publish` does, without calls
                event = message.event
                body, headers, lineages = event.body, event.headers, event.type
                if (
                    (event.topic is None or event.topic in topics)
                    and event.source == free
                    and 0 < len(event.id) <= longest
                    and event.lifetime == 0.0
                    and event.key is None
                    and event.content_type is None
                    and event.expires is None
                    and not event.rich
                    and (event.time is None or event.time.tzinfo is UTC)
                    and (not headers or (event.size <= most_bytes and len(headers) <= most_headers))
                    and (not lineages or (len(lineages) <= lineage and max(map(len, lineages)) <= longest))
                    and (not body or has_plain_attributes(body))
                    and 0 <= message.sequence <= WIDEST
                    and -WIDEST <= message.call <= WIDEST
                ):
                    unanswered.add(message.call)
                    allowed.append(message)
                    continue
            elif type(message) is msg.Ack:  # with its bounds of `client_bounds.py`, as the next one
                tags = message.tags
                is_within = 0 < len(tags) <= most_tags and min(tags) >= 0 and max(tags) <= WIDEST
                if is_within and 0 <= message.ref <= WIDEST:
                    allowed.append(message)
                    continue
            elif type(message) is msg.AckAll:
                is_within = 0 <= message.tag <= WIDEST and 0 <= message.count <= most_range
                if is_within and 0 <= message.ref <= WIDEST:
                    allowed.append(message)
                    ranges += 1
                    continue
            elif (
                type(message) is msg.Credit
                and 0 <= message.ref <= WIDEST
                and -most_credit <= message.amount <= most_credit
            ):
                allowed.append(message)
                continue
            check = self._checks.get(type(message))
            if not self._is_within(message):
                continue
            if check is not None:
                try:
                    allowed.append(check(message))
                except WireError:
                    raise
                except TidingsError as error:
                    self._say(msg.Refused(message.call, error.code, str(error)))  # type: ignore[attr-defined]
            elif type(message) in self._passes:
                allowed.append(message)
            elif not self._beside(message):
                raise WireError(f"a client says no {msg.tag_of(type(message))}")
        return _together(allowed, bounds) if ranges > 1 else allowed

    def _is_within(self, message: msg.Message) -> bool:
        """Is each field within its bound? One that is not is refused, and without a call to refuse it by, the
        connection ends."""
        if type(message) not in FIELDS:
            return True  # no message of a client, as the caller finds
        try:
            check_message(message, self._bounds)
        except RefusedError as error:
            call = getattr(message, "call", None)
            if call is None or not -WIDEST <= call <= WIDEST:
                raise WireError(error.message) from None
            refusal = InquiryRefused if type(message) is InquiryRequest else msg.Refused
            self._say(refusal(call, error.code, str(error)))
            return False
        return True

    def _hello(self, hello: msg.Hello) -> msg.Hello:
        if hello.client != self.client:
            raise WireError(f"{self.client!r} says hello as {hello.client!r}")
        owner, memory = ("", 0) if self._guard is None else self._guard.memory(self._principal)
        client = self._client_scope + hello.client
        return msgspec.structs.replace(hello, client=client, owner=owner, memory=memory)

    def _publish(self, publish: msg.Publish) -> msg.Publish:
        event = check_event(publish.event)
        topic = event.topic
        if topic is not None and len(topic) <= REMEMBERED_TOPIC and len(self._topics) < MOST_TOPICS:
            self._topics.add(topic)
        if self._guard is None:
            self._free_source = event.source
        elif not self._is_free(event, self._guard):
            event = self._guard.publish(self._principal, event)
            self._count_storing(publish.call, (event,))
        if SCHEMAS.active:
            self._check_schemas(publish.call, (publish.event,))
        self.unanswered.add(publish.call)
        return publish if event is publish.event else msgspec.structs.replace(publish, event=event)

    def _check_schemas(self, call: int, events: Iterable[Event]) -> None:
        """Refuse events that do not fit. Rights come first: the refusal says what a schema holds."""
        try:
            for event in events:
                SCHEMAS.check(event)
        except TidingsError:
            self._stored(call)
            raise

    def _is_free(self, event: Event, guard: Guard[Any]) -> bool:
        """Can the guard neither refuse nor change it?"""
        if event.lifetime or event.key is not None:
            return False
        if self._free_source != event.source or self._free_at != guard.version:
            is_free = guard.publishes_all(self._principal, event.source)
            self._free_source = event.source if is_free else None
            self._free_at = guard.version
        return self._free_source is not None

    def _subscribe(self, subscribe: msg.Subscribe) -> msg.Subscribe:
        filter, options = self._parsed_wish(subscribe.filter, subscribe.name), subscribe.options
        if options.group is not None:
            self._check_group(options.group)
        if self._guard is not None:
            if subscribe.ref in self._known:
                raise RefusedError(f"the number {subscribe.ref} names an open subscription already")
            options, is_shared = self._scoped_options(subscribe, self._guard)
            options = self._guard.retained(options)
            id = _identity(self._client_scope + self.client, subscribe.name, options)
            if is_shared:
                self._check_shared(id, self._guard)
            wanted = filter
            filter = self._guard.subscribe(
                self._principal, id.subscriber, id.name, filter, durable=options.durable, whole=is_shared
            )
            if filter is not wanted and named_inbox(filter) is None:
                self._narrowed[subscribe.call] = filter
            self._known[subscribe.ref] = (id, options.durable)
            if (inbox := named_inbox(filter)) is not None:
                self._inboxes[subscribe.ref] = inbox
            if is_shared:
                self._shared.add(subscribe.ref)
            self._opening[subscribe.call] = subscribe.ref
        return msgspec.structs.replace(subscribe, filter=filter, options=options)

    def _parsed_wish(self, filter: Filter, name: str) -> Filter:
        """The filter of a request to receive events. Rights come first: parsing is work."""
        guard = self._guard
        if guard is not None and guard.receives_nothing(self._principal):
            guard.subscribe(self._principal, self.client, name, EVERYTHING)  # refuses, and notes it
        return _parsed(filter, self._limits)

    def _scoped_options(self, subscribe: msg.Subscribe, guard: Guard[Any]) -> tuple[DeliveryOptions, bool]:
        """The options with scoped names, and whether the group is one that several principals share."""
        options, scopes = subscribe.options, {}
        check_plain(subscribe.name)
        for field, name in (("group", options.group), ("dead_letters_of", options.dead_letters_of)):
            if name is not None:
                check_plain(name)
                scopes[field] = guard.group_scope(self._principal, name)
        if not scopes:
            return options, False
        named = {field: scope + getattr(options, field) for field, scope in scopes.items()}
        is_shared = "group" in scopes and OWNER_MARK not in scopes["group"]
        return msgspec.structs.replace(options, **named), is_shared

    def _check_shared(self, id: SubscriptionId, guard: Guard[Any]) -> None:
        """A member takes events for all members: one that may not hear them all would lose them
        to the rest."""
        registered = self._subscription_of(id)
        if registered is not None and not guard.may_receive(self._principal, registered[0].filter):
            raise RefusedError(
                f"the group {unscoped(id.name)!r} listens to more than you may receive",
                hint="a rule for the action subscribe has to allow all that its filter accepts",
            )

    def _scoped(self, message: Any) -> Any:
        check_plain(message.query)
        return msgspec.structs.replace(message, query=self._query_scope + message.query)

    def _commit(self, message: Any) -> Any:
        """A commit leaves a row on the disk, even of no parts: a principal without rights gets none."""
        if self._guard is not None:
            self._guard.stages(self._principal, message.query)
        return self._scoped(message)

    def _advertise(self, advertise: msg.Advertise) -> msg.Advertise:
        filter = _parsed(advertise.filter, self._limits)
        if self._guard is not None:
            earlier = self._advertised.get(advertise.name)
            filter = self._guard.advertise(self._principal, advertise.name, filter, earlier)
            self._advertised[advertise.name] = filter
        return msgspec.structs.replace(advertise, filter=filter)

    def _unadvertise(self, unadvertise: msg.Unadvertise) -> msg.Unadvertise:
        filter = self._advertised.pop(unadvertise.name, None)
        if filter is not None and self._guard is not None:
            self._guard.unadvertised(self._principal, filter)
        return unadvertise

    def _stage(self, stage: msg.StageEvents) -> msg.StageEvents:
        check_plain(stage.query)
        events = tuple(map(check_event, stage.events))
        if self._guard is not None:
            self._guard.stages(self._principal, stage.query)
            events = self._published_all(stage.call, events, self._guard)
        if SCHEMAS.active:
            self._check_schemas(stage.call, stage.events)
        return msgspec.structs.replace(stage, events=events, query=self._query_scope + stage.query)

    def _published_all(self, call: int, events: tuple[Event, ...], guard: Guard[Any]) -> tuple[Event, ...]:
        """Ask about each of many events; when one is refused, none counts."""
        let_in: list[Event] = []
        try:
            let_in.extend(guard.publish(self._principal, event) for event in events)
        finally:
            self._count_storing(call, let_in)
            if len(let_in) < len(events):
                self._stored(call)
        return tuple(let_in)

    def _count_storing(self, call: int, events: Iterable[Event]) -> None:
        """An event with a lifetime counts for its quota until the call is answered; then the log
        counts it."""
        size = sum(event_size(event) for event in events if event.lifetime > 0)
        if size:
            self._storing[call] = self._storing.get(call, 0) + size

    def _stored(self, call: int) -> None:
        size = self._storing.pop(call, 0)
        if size and self._guard is not None:
            self._guard.answered(self._principal, size)

    def _read_log(self, request: msg.ReadLog) -> msg.ReadLog:
        filter = self._parsed_wish(request.filter, "")
        if self._guard is not None:
            filter = self._guard.subscribe(self._principal, self.client, "", filter)
            self._guard.unsubscribed(self._principal, self.client, "")
        return msgspec.structs.replace(request, filter=filter)

    def _hold_log(self, request: msg.HoldLog) -> msg.HoldLog:
        """A hold is narrowed and counted by the guard like a durable subscription."""
        if not request.name:
            raise RefusedError("a hold has a name")
        check_plain(request.name)
        filter, name = self._parsed_wish(request.filter, request.name), self._query_scope + request.name
        if self._guard is not None:
            if request.releases:
                self._guard.releases(self._principal)
            filter = self._guard.hold(self._principal, name, filter)
            self._holding.setdefault(request.call, []).append(name)
        most = 0 if self._guard is None else self._guard.held_bytes(self._principal)
        return msgspec.structs.replace(request, filter=filter, name=name, most_bytes=most)

    def _end_hold(self, request: msg.EndHold) -> msg.EndHold:
        check_plain(request.name)
        name = self._query_scope + request.name
        if self._guard is not None:
            self._guard.unheld(self._principal, name)
        return msgspec.structs.replace(request, name=name)

    # -- outward ----------------------------------------------------------------------------

    def outlet(self, answered: Callable[[], None]) -> Say:
        """Function that takes the node's messages to the client; `answered` is called after each answer."""
        say, guard, principal, unanswered = self._say, self._guard, self._principal, self.unanswered
        storing = self._storing
        free_at = -1  # the version of the rules at which no delivery could be withheld

        def out(message: msg.Message) -> None:
            nonlocal free_at
            kind = type(message)
            if kind is msg.Published:
                unanswered.discard(message.call)  # type: ignore[attr-defined]
                if storing:
                    self._stored(message.call)  # type: ignore[attr-defined]
                say(message)
                answered()
                return
            if kind is msg.Deliver:
                event = message.event  # type: ignore[attr-defined]
                if guard is None or (
                    guard.version == free_at
                    and event.key is None
                    and (event.topic is None or event.topic[:LENGTH] != BELOW)
                ):
                    say(message)
                    return
                if guard.receives_all(principal):
                    free_at = guard.version
            elif kind is msg.DeliverAll:
                if guard is not None and guard.version != free_at and guard.receives_all(principal):
                    free_at = guard.version
                if guard is None or (guard.version == free_at and not has_replies(message.events)):  # type: ignore[attr-defined]
                    say(message)
                else:  # it looks at each event
                    for deliver in message.one_by_one():
                        out(deliver)
                return
            elif kind is msg.PublishedAll:
                first = message.call  # type: ignore[attr-defined]
                unanswered.difference_update(range(first, first + message.count))  # type: ignore[attr-defined]
                say(message)
                answered()
                return
            self._outward(message)
            answered()

        return out

    def _outward(self, message: msg.Message) -> None:
        watch = self._watched.get(type(message))
        let_out = message if watch is None else watch(message)
        if let_out is not None:
            self._say(let_out)

    def _staged(self, message: msg.Staged) -> msg.Message:
        self._stored(message.call)
        return message

    def _log_held(self, message: msg.LogHeld) -> msg.Message:
        self._hold_answered(message.call)
        return message

    def _hold_answered(self, call: int) -> None:
        for name in self._holding.pop(call, ()):
            if self._guard is not None:
                self._guard.hold_answered(name)

    def _refused(self, message: msg.Refused) -> msg.Message:
        self.unanswered.discard(message.call)
        self._hold_answered(message.call)
        self._stored(message.call)
        self._narrowed.pop(message.call, None)
        ref = self._opening.pop(message.call, None)
        if ref is not None:
            self._forget(ref)
        return message

    def _subscribed(self, message: msg.Subscribed) -> msg.Message:
        self._opening.pop(message.call, None)
        names = {"subscriber": unscoped(message.subscriber), "name": unscoped(message.name)}
        if (narrowed := self._narrowed.pop(message.call, None)) is not None:
            names["warning"], names["narrowed"] = message.warning or NARROWED, shown(narrowed)
        return msgspec.structs.replace(message, **names)

    def _committed(self, message: msg.Committed) -> msg.Message:
        return msgspec.structs.replace(message, query=message.query.removeprefix(self._query_scope))

    def _unsubscribed(self, message: msg.Unsubscribed | msg.Closed) -> msg.Message:
        self._forget(message.ref)
        return message

    def _deliver(self, message: msg.Deliver) -> msg.Message | None:
        assert self._guard is not None
        named = self._inboxes.get(message.ref) if self._inboxes else None
        event = self._guard.deliver(self._principal, message.event, named)
        if event is message.event:
            return message
        if event is None:  # another member of a shared group may hear it, but no reply
            is_shared = message.ref in self._shared and not in_inbox(message.event.topic)
            settled = msg.Nack if is_shared else msg.Ack
            self._hand_in(settled(message.ref, (message.tag,)))
            self._hand_in(msg.Credit(message.ref, 1))
            return None
        return msgspec.structs.replace(message, event=event)

    def _log_read(self, page: msg.LogRead) -> msg.Message:
        """Reading the log is a way out too."""
        assert self._guard is not None
        entries = []
        for entry in page.entries:
            event = self._guard.deliver(self._principal, entry.event)
            if event is not None:
                entries.append(msgspec.structs.replace(entry, event=event))
        return msgspec.structs.replace(page, entries=tuple(entries))

    def _forget(self, ref: int) -> None:
        """No client listens under this number any more; a durable subscription may stay."""
        known = self._known.pop(ref, None)
        self._inboxes.pop(ref, None)
        self._shared.discard(ref)
        if known is not None and self._guard is not None:
            id, durable = known
            ended = not (durable and self._subscription_of(id) is not None)
            self._guard.unsubscribed(self._principal, id.subscriber, id.name, durable=durable, ended=ended)

    def close(self) -> None:
        """The connection is gone."""
        for call in list(self._storing):
            self._stored(call)
        for call in list(self._holding):
            self._hold_answered(call)
        for ref in list(self._known):
            self._forget(ref)
        advertised, self._advertised = self._advertised, {}
        for filter in advertised.values():
            if self._guard is not None:
                self._guard.unadvertised(self._principal, filter)


def check_plain(name: str) -> None:
    """Refuse a name that could be taken for one with a scope."""
    if OWNER_MARK in name or TENANT_MARK in name:
        raise RefusedError(f"the name {name[:40]!r} holds a control character", hint="choose another name")


def _identity(client: str, name: str, options: DeliveryOptions) -> SubscriptionId:
    return SubscriptionId(client, name) if options.group is None else SubscriptionId(GROUPS, options.group)


def _parsed(filter: Filter, limits: Limits) -> Filter:
    return parse_filter(filter.text, dialect=filter.dialect, limits=limits)
