"""Answers to principals that observe a broker: each sees what its right to observe covers.

Rules
- A right to observe without a filter shows everything. With a filter, and to a tenant, it shows the events
  that it allows; of subscriptions the principal's own, and to a tenant those of the tenant.
- Counters over all principals are for those who see everything. Others get the broker's name, address and
  links, and counts of what they see.
- An answer never differs by what the principal may not see.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from tidings.errors import RefusedError
from tidings.model.event import TENANT_MARK, Event
from tidings.model.subscription import OWNER_MARK, Subscription, SubscriptionId
from tidings.runtime.archives import no_archive
from tidings.runtime.local_clients import absent
from tidings.security.interfaces import Guard

if TYPE_CHECKING:
    from tidings.protocol.node import Node
    from tidings.runtime.server import Server

COUNTED = 10_000  # subscriptions that are counted for one that does not see all


class ObservedScope(NamedTuple):
    """Rights of one principal to observe."""

    is_whole: bool
    event: Callable[[Event], bool]
    subscription: Callable[[SubscriptionId], bool]


WHOLE = ObservedScope(True, lambda event: True, lambda id: True)


def view_of(guard: Guard[Any] | None, principal: Any) -> ObservedScope:
    if guard is None or guard.observes_all(principal):
        return WHOLE
    return ObservedScope(
        False,
        lambda event: guard.sees_event(principal, event),
        lambda id: guard.sees_subscription(principal, id),
    )


def answers_of(server: Server, guard: Guard[Any] | None) -> dict[str, Callable[[dict[str, Any], Any], Any]]:
    """The inquiries that every broker answers."""

    def subscriptions(about: dict[str, Any], principal: Any) -> list[dict[str, Any]]:
        view = view_of(guard, principal)
        limit = limit_of(about, server.resources.described_subscriptions)
        wanted, longest = about.get("search"), server.resources.client.name
        if not isinstance(wanted, str | None) or len(wanted or "") > longest:
            raise RefusedError(f"a search is a text of at most {longest} characters (limit `name`)")
        sees = None if view.is_whole else view.subscription
        if wanted:
            sees = _found(server, view, wanted.casefold())
        return without_absent(server, server.node.describe(limit, sees))

    return {
        "figures": lambda about, principal: figures(server, server.figures, view_of(guard, principal)),
        "subscriptions": subscriptions,
        "archive": lambda about, principal: no_archive(server.node),
    }


def without_absent(server: Server, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of subscriptions whose `listeners` are those that a connection carries now: the client of an MQTT
    session stays attached while its device is away."""
    if away := absent(server._local_clients):
        held = server.node.inspect("consumers", away) or {}
        for row in rows:
            row["listeners"] = max(0, row["listeners"] - held.get(row["subscription"], 0))
    return rows


def _found(server: Server, view: ObservedScope, wanted: str) -> Callable[[SubscriptionId], bool]:
    """Subscriptions of an observer whose name, filter or broker has this text."""

    def is_found(id: SubscriptionId) -> bool:
        if not (view.is_whole or view.subscription(id)):
            return False
        known = server.node.subscription(id)
        text = "" if known is None else known[0].filter.text
        return wanted in f"{id.shown} {text} {server.name}".casefold()

    return is_found


def figures(server: Server, everything: Callable[[], dict[str, Any]], view: ObservedScope) -> dict[str, Any]:
    """A broker's figures, as far as they are the observer's business."""
    if view.is_whole:
        return everything()
    own = server.node.describe(COUNTED, view.subscription)
    return {
        "broker": server.name,
        "address": server.address,
        "links": server.links_at(),
        "subscriptions": len(own),
        "waiting": sum(row["waiting"] for row in own),
        "delivered": sum(row["delivered"] for row in own),
        "lost": sum(row["lost"] for row in own),
    }


def find_subscription(node: Node, name: str, view: ObservedScope) -> tuple[Subscription, float] | None:
    """The subscription of this name, as `subscriptions` shows it, if the observer may see it."""
    subscriber, _, own = name.rpartition("/")
    for text in (f"{subscriber}/{own}", *_scoped(subscriber, own)):
        first, _, last = text.rpartition("/")
        id = SubscriptionId(first, last)
        registered = node.subscription(id)
        if registered is not None and view.subscription(id):
            return registered
    return None


def _scoped(subscriber: str, own: str) -> list[str]:
    """Names that a shown name may stand for: its colons can be the marks of a scope."""
    marks = ((OWNER_MARK,), (TENANT_MARK,), (TENANT_MARK, OWNER_MARK))
    found = []
    for scope in marks:
        for is_name in (True, False):
            text = own if is_name else subscriber
            for mark in scope:
                text = text.replace(":", mark, 1)
            found.append(f"{subscriber}/{text}" if is_name else f"{text}/{own}")
    return found


def limit_of(about: dict[str, Any], most: int) -> int:
    """Number of subscriptions that an inquiry asks for. Raises `RefusedError`."""
    limit = about.get("limit", most)
    if type(limit) is not int or not 0 < limit <= most:
        raise RefusedError(f"a limit is a whole number from 1 to {most}")
    return limit
