"""Epidemic recovery on subscription forwarding (Costa et al. 2003): one system for each style; and beside
them Gryphon's replication of subscriptions, for brokers that are away rather than links that lose.

The option `gossip` is a table of the knobs in `EpidemicSettings`. With the option `datagrams` events and
gossip travel by datagram, as replies always do; tables take the links, and are acknowledged there.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from tidings.errors import SettingsError
from tidings.protocol.effects import Channel
from tidings.protocol.overlay.joined import JoinedOverlay
from tidings.protocol.routing.covering import SubscriptionForwarding
from tidings.systems.brokers import broker_slots, event_channel, plain_delivery
from tidings.systems.system import TREE, Site, System
from tidings_lab.recovery.epidemic import settings as styles
from tidings_lab.recovery.epidemic.base import Epidemic
from tidings_lab.recovery.epidemic.lazy import LazyPush
from tidings_lab.recovery.epidemic.pull import CombinedPull, PublisherPull, RandomPull, SubscriberPull
from tidings_lab.recovery.epidemic.push import Push
from tidings_lab.recovery.epidemic.settings import EpidemicSettings
from tidings_lab.recovery.replicated import ReplicationSettings, SubscriptionReplication

STYLES: dict[str, type[Epidemic]] = {
    styles.COMBINED: CombinedPull,
    styles.PUSH: Push,
    styles.SUBSCRIBER: SubscriberPull,
    styles.PUBLISHER: PublisherPull,
    styles.RANDOM: RandomPull,
    styles.LAZY: LazyPush,
}


def gossip_settings(style: str, options: dict[str, Any]) -> EpidemicSettings:
    """The knobs that a site gives, over the defaults."""
    try:
        return msgspec.convert({**options, "style": style}, EpidemicSettings)
    except msgspec.ValidationError as error:
        raise SettingsError(f"gossip: {error}") from None


def _epidemic(style: str, site: Site) -> dict[str, Any]:
    options = site.options.get("gossip", {})
    known = set(EpidemicSettings.__struct_fields__) - {"style", "datagrams"}
    for name in options:
        if name not in known:
            raise SettingsError(f"gossip has no knob {name!r}", hint=f"there are: {', '.join(sorted(known))}")
    channel = event_channel(site)
    settings = gossip_settings(style, {**options, "datagrams": channel is Channel.DATAGRAM})
    is_on = settings.enabled
    routing = SubscriptionForwarding(acknowledged=True, numbered=not is_on, channel=channel)
    slots = {
        **broker_slots(site, routing),
        "overlay": JoinedOverlay(site.neighbours, site.parent()),
        "delivery": plain_delivery(**{**site.options.get("delivery", {}), "allow_block": False}),
    }
    return {**slots, "recovery": STYLES[style](settings)} if is_on else slots


def _replicated(site: Site) -> dict[str, Any]:
    settings = msgspec.convert(site.options.get("replication", {}), ReplicationSettings)
    routing = SubscriptionForwarding(acknowledged=True)
    return {
        **broker_slots(site, routing),
        "overlay": JoinedOverlay(site.neighbours, site.parent()),
        "recovery": SubscriptionReplication(settings),
    }


def _system(name: str, style: str, promise: str) -> System:
    return System(
        name=name,
        contract="Epidemic",
        model="content",
        promise=promise,
        graph=TREE,
        strategies=partial(_epidemic, style),
        options=("gossip", "delivery", "datagrams"),
        networked=True,
        datagrams=True,
    )


SYSTEMS: tuple[System, ...] = (
    _system("epidemic", styles.COMBINED, "at most once; what is lost comes back with high probability"),
    _system("epidemic-push", styles.PUSH, "the same, also for the last event before silence"),
    _system("epidemic-subscriber-pull", styles.SUBSCRIBER, "the same where several brokers share a pattern"),
    _system("epidemic-publisher-pull", styles.PUBLISHER, "the same while the way to the publisher holds it"),
    _system("epidemic-random-pull", styles.RANDOM, "the same by chance: the baseline"),
    _system("epidemic-lazy-push", styles.LAZY, "the same, repaired link by link"),
    System(
        name="subscription-replication",
        contract="Epidemic",
        model="content",
        promise="at most once; neighbours keep a broker's events while it is away",
        graph=TREE,
        strategies=_replicated,
        options=("replication",),
        networked=True,
    ),
)
