"""Tidings: content-based publish/subscribe. Each matching event, exactly once.

    async with tidings.connect() as bus:
        async with bus.subscribe("StockName = 'IBM' AND change < -3") as news:
            await bus.publish({"StockName": "IBM", "change": -4.5}, lifetime=60)
            async for event in news: ...

Names are imported when they are first used, so that `import tidings` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tidings._version import __version__

if TYPE_CHECKING:
    from tidings import errors, testing
    from tidings.errors import (
        ClosedError,
        DeadlockError,
        EventError,
        FilterError,
        FilterLimitError,
        FilterSyntaxError,
        HistoryError,
        ImpossibleFilterError,
        PublishBufferFullError,
        RefusedError,
        Reject,
        ReplyError,
        SchemaError,
        SettingsError,
        SlowConsumerError,
        StoreError,
        StoreFullError,
        TidingsError,
        TimedOutError,
        TlsError,
        TooLargeError,
        UnansweredError,
        UnknownOutcomeError,
        UnreachableError,
    )
    from tidings.gateway import outbox
    from tidings.language import parse_filter
    from tidings.language.build import attr, is_a, topic
    from tidings.matching.explain import explain
    from tidings.model.event import FOREVER, Event, make_event
    from tidings.model.filter import Filter
    from tidings.model.subscription import Notification, Policy, Position, SubscriptionId
    from tidings.model.typed import derived
    from tidings.protocol.effects import Receipt
    from tidings.runtime import blocking, middleware, notebook
    from tidings.runtime.blocking import BlockingBus, BlockingListener
    from tidings.runtime.blocking import connect as open
    from tidings.runtime.broker import ConnectionState
    from tidings.runtime.bus import Bus
    from tidings.runtime.connect import connect
    from tidings.runtime.handlers import Backoff, EventHandler
    from tidings.runtime.listener import Listener
    from tidings.runtime.middleware import HandlerCall, current_call

_PLACES = {
    "errors": "tidings.errors",
    "testing": "tidings.testing",
    "blocking": "tidings.runtime.blocking",
    "middleware": "tidings.runtime.middleware",
    "notebook": "tidings.runtime.notebook",
    "outbox": "tidings.gateway.outbox",
    "ClosedError": "tidings.errors:ClosedError",
    "DeadlockError": "tidings.errors:DeadlockError",
    "EventError": "tidings.errors:EventError",
    "FilterError": "tidings.errors:FilterError",
    "FilterLimitError": "tidings.errors:FilterLimitError",
    "FilterSyntaxError": "tidings.errors:FilterSyntaxError",
    "HistoryError": "tidings.errors:HistoryError",
    "ImpossibleFilterError": "tidings.errors:ImpossibleFilterError",
    "RefusedError": "tidings.errors:RefusedError",
    "ReplyError": "tidings.errors:ReplyError",
    "Reject": "tidings.errors:Reject",
    "PublishBufferFullError": "tidings.errors:PublishBufferFullError",
    "SchemaError": "tidings.errors:SchemaError",
    "SettingsError": "tidings.errors:SettingsError",
    "SlowConsumerError": "tidings.errors:SlowConsumerError",
    "StoreError": "tidings.errors:StoreError",
    "StoreFullError": "tidings.errors:StoreFullError",
    "TidingsError": "tidings.errors:TidingsError",
    "TimedOutError": "tidings.errors:TimedOutError",
    "TlsError": "tidings.errors:TlsError",
    "TooLargeError": "tidings.errors:TooLargeError",
    "UnansweredError": "tidings.errors:UnansweredError",
    "UnknownOutcomeError": "tidings.errors:UnknownOutcomeError",
    "UnreachableError": "tidings.errors:UnreachableError",
    "parse_filter": "tidings.language:parse_filter",
    "attr": "tidings.language.build:attr",
    "is_a": "tidings.language.build:is_a",
    "topic": "tidings.language.build:topic",
    "explain": "tidings.matching.explain:explain",
    "FOREVER": "tidings.model.event:FOREVER",
    "Event": "tidings.model.event:Event",
    "make_event": "tidings.model.event:make_event",
    "Filter": "tidings.model.filter:Filter",
    "Notification": "tidings.model.subscription:Notification",
    "Policy": "tidings.model.subscription:Policy",
    "Position": "tidings.model.subscription:Position",
    "SubscriptionId": "tidings.model.subscription:SubscriptionId",
    "derived": "tidings.model.typed:derived",
    "Receipt": "tidings.protocol.effects:Receipt",
    "BlockingBus": "tidings.runtime.blocking:BlockingBus",
    "BlockingListener": "tidings.runtime.blocking:BlockingListener",
    "open": "tidings.runtime.blocking:connect",
    "Bus": "tidings.runtime.bus:Bus",
    "ConnectionState": "tidings.runtime.broker:ConnectionState",
    "connect": "tidings.runtime.connect:connect",
    "Listener": "tidings.runtime.listener:Listener",
    "Backoff": "tidings.runtime.handlers:Backoff",
    "EventHandler": "tidings.runtime.handlers:EventHandler",
    "HandlerCall": "tidings.runtime.middleware:HandlerCall",
    "current_call": "tidings.runtime.middleware:current_call",
}

__all__ = [
    "FOREVER", "Backoff", "BlockingBus", "BlockingListener", "Bus", "ClosedError", "ConnectionState",
    "DeadlockError", "Event", "EventError", "EventHandler", "Filter", "FilterError", "FilterLimitError",
    "FilterSyntaxError", "HandlerCall", "HistoryError", "ImpossibleFilterError", "Listener",
    "Notification", "Policy", "Position", "PublishBufferFullError", "Receipt", "RefusedError", "Reject",
    "ReplyError", "SchemaError", "SettingsError", "SlowConsumerError", "StoreError", "StoreFullError",
    "SubscriptionId", "TidingsError", "TimedOutError", "TlsError", "TooLargeError", "UnansweredError",
    "UnknownOutcomeError", "UnreachableError", "__version__", "attr", "blocking", "connect", "current_call",
    "derived", "errors", "explain", "is_a", "make_event", "middleware", "notebook", "open", "outbox",
    "parse_filter", "testing", "topic",
]  # fmt: skip


_GUESSES = {"Subscription": "Listener", "Client": "Bus", "Broker": "connect"}  # the words of other libraries


def __getattr__(name: str) -> Any:
    position = _PLACES.get(name)
    if position is None:
        meant = _GUESSES.get(name)
        hint = f" (did you mean tidings.{meant}?)" if meant else ""
        raise AttributeError(f"module 'tidings' has no attribute {name!r}{hint}")
    module, _, attribute = position.partition(":")
    value = import_module(module)
    if attribute:
        value = getattr(value, attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
