"""Values of settings that no broker can work with: refused when they are read, each with its name.

Rules
- An address is host:port. A port of 0 is any free one.
- A number is 0 or more and no NaN; those of `LEAST` have a least value.
- A file that is read at the start is there.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

from tidings.errors import SettingsError
from tidings.runtime.dialling import MOST_PORT, port_of

if TYPE_CHECKING:
    from tidings.runtime.settings import BrokerSettings

LEAST = {
    "processes": (1, "1 is one broker, without others beside it"),
    "network.max_frame_bytes": (
        16_384,
        "a frame has to hold the largest event: 16 MiB by default",
    ),
}


def check_addresses(settings: BrokerSettings) -> None:
    gateway = settings.gateway
    for name, address in (
        ("listen", settings.listen),
        ("advertise", settings.advertise),
        ("http", settings.http),
        ("gateway.http", gateway.http),
        ("gateway.mqtt", gateway.mqtt),
        ("gateway.mqtt_websocket", gateway.mqtt_websocket),
        ("console.listen", settings.console.listen),
    ):
        _, colon, port = address.rpartition(":")
        if address and not (colon and port_of(port) is not None):
            raise SettingsError(
                f"{name} is {address!r}",
                hint=f"write host:port, with a port from 0 to {MOST_PORT}",
            )


def check_numbers(numbers: Iterable[tuple[str, float]]) -> None:
    for name, value in numbers:
        least, why = LEAST.get(name, (0, ""))
        if isnan(value) or value < least:
            raise SettingsError(f"{name} is {value:g}", hint=f"{least} or more" + (f": {why}" if why else ""))


def check_options(settings: BrokerSettings, known: tuple[str, ...]) -> None:
    for name in settings.options:
        if name not in known:
            there = f"its options: {', '.join(known)}" if known else "it has none: leave [options] out"
            raise SettingsError(f"options.{name}: {settings.system} has no such option", hint=there)


def check_files(settings: BrokerSettings) -> None:
    """Files that the broker reads at its start, after their paths are resolved."""
    for name, path in (("schemas", settings.schemas),):
        if path and not Path(path).is_file():
            raise SettingsError(f"{name}: there is no file {path}", hint="write it, or leave the setting out")
