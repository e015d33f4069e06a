"""Local networks: which brokers hear one another's broadcasts, and who speaks for them outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tidings.errors import SettingsError

LAN_SIZE = 4


class Lan(msgspec.Struct, frozen=True):
    """Local network of one host: the scope of its broadcasts, and the routers."""

    name: str  # the scope of its broadcasts
    router: str  # the broker that speaks for this network
    routers: tuple[str, ...]  # of all networks, in a fixed order

    def others(self) -> tuple[str, ...]:
        return tuple(router for router in self.routers if router != self.router)


def lan_of(broker: str, brokers: Sequence[str], lans: Mapping[str, str] | None, size: int = LAN_SIZE) -> Lan:
    """The network of a broker: by name in `lans`, or so many neighbours in the list of all.

    The first is its router.
    """
    if size < 1:
        raise SettingsError(f"local networks of {size} hosts", hint="give 1 or more")
    placed = (
        {name: f"lan{position // size}" for position, name in enumerate(brokers)}
        if lans is None
        else dict(lans)
    )
    unplaced = [name for name in (*brokers, broker) if name not in placed]
    if unplaced:
        raise SettingsError(
            f"{unplaced[0]} is on no local network", hint="name the network of every broker in `lans`"
        )
    routers: dict[str, str] = {}
    for name in brokers:
        routers.setdefault(placed[name], name)
    return Lan(placed[broker], routers.get(placed[broker], broker), tuple(routers.values()) or (broker,))
