"""From what users hand over to events, filters and back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial, reduce
from operator import and_
from sys import modules
from typing import Any, get_origin

from msgspec.structs import replace

from tidings.algebra import can_match
from tidings.errors import EventError, FilterError
from tidings.language.build import Condition, as_filter, is_a, topic
from tidings.language.doubts import doubts_of, refuse_doubtful
from tidings.language.parser import parse
from tidings.model.event import UNNUMBERED, Event, checked_event, has_plain_attributes, make_event
from tidings.model.expression import ExistsTest
from tidings.model.fields import check_readable, is_typed_mapping, required_values
from tidings.model.filter import EVERYTHING, TIDINGS, Filter
from tidings.model.schemas import SCHEMAS
from tidings.model.serialisers import SERIALISERS
from tidings.model.typed import build_instance, event_fields, is_event_class, is_typed, lineage_of
from tidings.runtime.offered_serialisers import register_offered
from tidings.runtime.telemetry import carried

log = logging.getLogger("tidings.filters")
SERIALISERS.look_for_more = register_offered


def event_from(
    what: Any, options: dict[str, Any], source: str, *, schemas: bool = True
) -> tuple[Event, bool]:
    """The event, and whether the client is to number it. `schemas`: does it have to fit those of this process
    here? A gateway leaves that to the broker, which asks about rights first."""
    attributes = what
    if what is not None and type(what) is not dict:
        if isinstance(what, Event):
            return _event_again(what, options), False
        if not isinstance(what, Mapping):
            attributes = _fields_of(what, options)
    is_numbered = "id" not in options or options["id"] is None
    if is_numbered:
        options["id"] = UNNUMBERED
    if "source" not in options or options["source"] is None:
        options["source"] = source
    if "content_type" in options and options["content_type"] is not None:
        attributes = _serialised(attributes, options)
    if "opentelemetry" in modules:
        attributes = carried(attributes)
    event = make_event(attributes, **options)
    if schemas and SCHEMAS.active:
        SCHEMAS.check(event)
    return event, is_numbered


class EventFactory:
    """Makes the events that one client publishes.

    The checked envelope of the last options is kept: an event with the same options and with plain attributes
    is a copy of it with another body. Only options that are texts are kept, since equal texts are the same
    option.
    """

    __slots__ = ("_envelope", "_options", "_schemas", "_source")

    def __init__(self, source: str, *, schemas: bool = True) -> None:
        self._source = source
        self._schemas = schemas  # do events have to fit those of this process? See `event_from`
        self._options: dict[str, Any] | None = None
        self._envelope: Any = None  # of these options

    def make(self, what: Any, options: dict[str, Any]) -> tuple[Event, bool]:
        """The event, and whether the client is to number it."""
        if (
            type(what) is dict
            and (options == self._options or _has_texts_alone(options))
            and has_plain_attributes(what, ascii=True)
            and "opentelemetry" not in modules
            and not SCHEMAS.active
        ):
            if options != self._options:
                self._envelope, self._options = (
                    event_from(None, {**options}, self._source, schemas=self._schemas)[0],
                    options,
                )
            return replace(self._envelope, body={**what}), True
        return event_from(what, options, self._source, schemas=self._schemas)

    def make_all(self, many: Iterable[Any], options: Mapping[str, Any]) -> tuple[list[Event], list[bool]]:
        """The events of one call, whose options hold for each of them, and whether the client is to number
        each."""
        has_extras = options.get("content_type") is not None or "opentelemetry" in modules or SCHEMAS.active

        def made(what: Any) -> Event:
            return event_from(what, {**options}, self._source, schemas=self._schemas)[0]

        many = list(many)
        if has_extras or dict not in map(type, many):
            events = [made(what) for what in many]
        else:
            envelope = made(None)
            events = [
                replace(envelope, body={**what})
                if type(what) is dict and has_plain_attributes(what, ascii=True)
                else made(what)
                for what in many
            ]
        return events, [event.id is UNNUMBERED for event in events]


def _has_texts_alone(options: Mapping[str, Any]) -> bool:
    """Do these options give every plain event the same envelope, and can equal options be known as such?"""
    is_shared = "id" not in options and "content_type" not in options
    return is_shared and all(type(value) is str for value in options.values())


def _serialised(attributes: Mapping[str, Any] | None, options: dict[str, Any]) -> Mapping[str, Any] | None:
    """The attributes beside a payload of a registered content type: the one is made from the other."""
    content_type, payload = options["content_type"], options.get("payload")
    if payload is None:
        if attributes is not None and SERIALISERS.find(content_type) is not None:
            options["payload"] = SERIALISERS.encode(attributes, content_type)
        return attributes
    return SERIALISERS.attributes_of(payload, content_type) if attributes is None else attributes


def _fields_of(what: Any, options: dict[str, Any]) -> Mapping[str, Any]:
    """The attributes of a typed instance; its lineage is the event's type unless the options name one."""
    if not is_typed(what):
        raise EventError(
            f"a {type(what).__name__} cannot be published",
            hint="publish a mapping, a dataclass, a Struct, a Pydantic model, an attrs object or an Event",
        )
    lineage, attributes = event_fields(what)
    options.setdefault("type", lineage)
    return attributes


def _event_again(event: Event, options: dict[str, Any]) -> Event:
    """A whole event is published as it is; only how it is kept can be said beside it."""
    given = {name: value for name, value in options.items() if value is not None}
    extra = given.keys() - {"lifetime", "key", "expires"}
    if extra:
        raise EventError(f"an Event has its own {sorted(extra)[0]}", hint="publish its attributes instead")
    return checked_event(event, **given)


def filter_from(
    wants: tuple[Any, ...],
    *,
    topic_pattern: str | None = None,
    type_name: str | type | None = None,
    dialect: str = TIDINGS,
    strict: bool = False,
) -> tuple[Filter, Callable[[Event], Any] | None]:
    """The filter that joins all that is wanted, and how events become what the subscriber wants to
    see (None: they stay events)."""
    if isinstance(type_name, type):
        wants, type_name = (*wants, type_name), None
    classes = list(dict.fromkeys(want for want in wants if isinstance(want, type)))
    others = [want for want in wants if want is not None and not isinstance(want, type)]
    conditions = [condition for wanted in classes for condition in _conditions_of(wanted)]
    if type_name is not None:
        conditions.append(is_a(type_name))
    if topic_pattern is not None:
        conditions.append(topic(topic_pattern))
    made = [as_filter(_pattern(want), dialect=dialect) for want in others]
    filter = _joined(made, conditions)
    read = _reading(classes)
    if strict or topic_pattern is not None or not all(isinstance(want, Filter) for want in others):
        _warn_or_refuse(filter, classes[0] if others and classes else None, strict=strict)
    return filter, read


def _warn_or_refuse(filter: Filter, cls: type | None, *, strict: bool) -> None:
    """Warn of a filter that was surely not meant so, by itself or beside a class; `strict` refuses it. One
    without any conjunction is refused by the broker."""
    matches = can_match(filter)
    if strict:
        refuse_doubtful(filter, can_match=matches)
    doubts = doubts_of(filter, can_match=matches)
    if cls is not None:
        from tidings.runtime.class_doubts import class_doubts, class_kinds, known_names

        beside = class_doubts(filter, cls)
        owned = {name for doubt in beside if doubt.code == "envelope" for name in doubt.about}
        kinds = class_kinds(filter, cls)
        doubts = doubts_of(filter, known=known_names(filter, cls), kinds=kinds, can_match=matches)
        doubts = [doubt for doubt in doubts if owned.isdisjoint(doubt.about)]
        named = {name for doubt in doubts for name in doubt.about}
        doubts += [doubt for doubt in beside if named.isdisjoint(doubt.about)]
    for warning in doubts:
        if not filter.is_never_true:
            log.warning("subscription %r: %s", filter.text, warning)


def _conditions_of(wanted: type) -> list[Condition]:
    """The type by its name; of a TypedDict, whose mappings carry no type, the keys that it requires."""
    if not is_event_class(wanted):
        raise FilterError(
            f"{wanted.__name__} is no event type",
            hint="use a dataclass, a msgspec Struct, a Pydantic model, an attrs class or a TypedDict",
        )
    try:
        check_readable(wanted)
    except (TypeError, RuntimeError) as error:  # the latter: an enumeration beyond 64 bits
        raise FilterError(
            f"no event can be read as a {wanted.__name__}: {error}",
            hint="change that type, or subscribe with a filter and read event.attributes",
        ) from error
    if is_typed_mapping(wanted):
        return [Condition(ExistsTest(name)) for name in required_values(wanted)]
    return [is_a(lineage_of(wanted)[0])]


def _reading(classes: list[type]) -> Callable[[Event], Any] | None:
    if not classes:
        return None
    if len(classes) > 1:
        raise FilterError("a subscription reads events as one class", hint="subscribe to a common ancestor")
    return partial(build_instance, classes[0])


def _pattern(want: Any) -> Any:
    if is_event_class(get_origin(want)):  # no type of its own: objects do not say their parameters
        raise FilterError(
            f"{want} has parameters", hint="subscribe to a subclass, as `class Orders(Page[Order])`"
        )
    if not isinstance(want, Mapping):
        return want
    from tidings.language.eventbridge import from_pattern

    return from_pattern(want)


def _joined(made: list[Filter], conditions: list[Condition]) -> Filter:
    if not conditions and len(made) < 2:
        return made[0] if made else EVERYTHING
    for one in made:
        if one.dialect != TIDINGS:
            raise FilterError(
                f"a filter in the dialect {one.dialect!r} cannot be joined with others",
                hint="write all of it in one text",
            )
        conditions.append(Condition(parse(one.text)))
    return reduce(and_, conditions).filter()
