"""The way in: `tidings.connect`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tidings.errors import SettingsError
from tidings.history.recorder import Recorder
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.runtime.broker import EmbeddedBroker
from tidings.runtime.bus import Bus
from tidings.runtime.clock import Clock
from tidings.runtime.failures import refuse_unknown

NAME = "local"  # of a client that was given none
_KNOWN = ("path", "name", "record", "seed", "clock", *DeliverySettings.__struct_fields__)


def connect(
    address: str | None = None,
    /,
    *,
    path: str | os.PathLike[str] | None = None,
    name: str = NAME,
    record: Recorder | Path | str | None = None,
    seed: int | None = None,
    clock: Clock | None = None,
    **settings: Any,
) -> Bus:
    """A bus with a broker in this process: `async with tidings.connect() as bus`.

    `path` is a directory for what is to survive the process; without it everything lives in memory.
    `name` says who this client is: with the name of a subscription, the subscription's identity.
    `record` writes a history (a file name, or a recorder). `seed` makes a run repeatable, and `clock`
    gives tests a time of their own. Further options are those of `DeliverySettings`.
    """
    _refuse_address(address)
    unknown = {key: 1 for key in settings if key not in DeliverySettings.__struct_fields__}
    refuse_unknown(unknown, _KNOWN, "connect")
    if not name:
        raise SettingsError("a client's name cannot be empty")
    broker = EmbeddedBroker(
        path, record=record, seed=seed, clock=clock, settings=DeliverySettings(**settings)
    )
    return Bus(broker, name)


def _refuse_address(address: str | None) -> None:
    if address is None:
        return
    scheme, found, _ = str(address).partition("://")
    if found:
        raise SettingsError(
            f"no broker can be reached by {scheme}:// yet", hint="connect() has a broker in this process"
        )
    raise SettingsError(
        f"{address!r} is no broker's address",
        hint=f"for a store in that directory: connect(path={address!r})",
    )
