"""The way in: `tidings.connect`."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any, Unpack, overload

from tidings.errors import SettingsError
from tidings.history.recorder import Recorder
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.runtime.broker import BrokerInterface, EmbeddedBroker
from tidings.runtime.bus import Bus
from tidings.runtime.clock import RuntimeClock
from tidings.runtime.failures import refuse_unknown
from tidings.runtime.options import EmbeddedOptions, OnState, RemoteOptions

NAME = "local"  # of a client that was given none
_COMMON = ("name", "record", "seed", "on_connected", "on_disconnected", "call_timeout")
_REMOTE = (*_COMMON, "timeout", "patience", "tenant", "credentials", "tls", "network")
_KNOWN = (*_COMMON, "path", "clock", *DeliverySettings.__struct_fields__)
_EMBEDDED = ("call_timeout", *DeliverySettings.__struct_fields__)  # options that are no parameters
_RENAMED = {"guest_seconds": "remote_subscription_seconds"}  # old option -> new


@overload
def connect(address: None = None, /, **settings: Unpack[EmbeddedOptions]) -> Bus: ...
@overload
def connect(address: str, /, **settings: Unpack[RemoteOptions]) -> Bus: ...


def connect(
    address: str | None = None,
    /,
    *,
    path: str | os.PathLike[str] | None = None,
    name: str | None = None,
    record: Recorder | Path | str | None = None,
    seed: int | None = None,
    clock: RuntimeClock | None = None,
    on_connected: OnState | None = None,
    on_disconnected: OnState | None = None,
    **settings: Any,
) -> Bus:
    """A bus: `async with tidings.connect() as bus`, with a broker in this process, or, given an address
    such as `tidings://host:port` (several are divided by commas), with a remote broker.

    `path` is a directory for what is to survive the process; without it everything lives in memory.
    `name` says who this client is: with the name of a subscription, the subscription's identity. It is the
    name in the credentials by default (of a certificate: its own), else `local`.
    `record` writes a history (a file name, or a recorder). `seed` makes a run repeatable, and `clock`
    gives tests a time of their own. `on_connected` and `on_disconnected` are called with the new state of
    the connection, whose `broker` and `reason` say more; `Bus.state` has the same.

    `call_timeout` is how many seconds a call waits for its answer when it names no `timeout=` itself: 30 with
    a remote broker, and no limit (None) with one in this process. Further options are those of
    `DeliverySettings`; of a remote broker `timeout` (seconds for the first connection), `patience` (seconds
    for a broker to come back before another address is tried), `tenant`, `credentials`, `tls` (an SSL
    context; by default of the files that TIDINGS_AUTHORITY, TIDINGS_CERTIFICATE and TIDINGS_KEY name, and
    then the certificate is the credentials where none are given) and `network`.
    """
    if address is not None:
        _show_certificate(str(address), settings)
    if name is None:
        name = getattr(settings.get("credentials"), "name", "") or NAME
    if not name:
        raise SettingsError("a client's name cannot be empty")
    if address is not None:
        broker = _remote(address, settings, path=path, record=record, seed=seed, clock=clock)
    else:
        broker = _embedded(settings, path=path, record=record, seed=seed, clock=clock)
    bus = Bus(broker, name)
    if on_connected is not None:
        bus.on_connected(on_connected)
    if on_disconnected is not None:
        bus.on_disconnected(on_disconnected)
    return bus


def _show_certificate(address: str, options: dict[str, Any]) -> None:
    """The certificate of the environment, which TLS shows to the broker, proves its name: where no other
    credentials are given, and for `CertificateCredentials()` without a name."""
    from tidings.runtime.environment import certificate_name
    from tidings.security.credentials import CertificateCredentials

    if options.get("tls") is not None or not os.environ.get("TIDINGS_CERTIFICATE"):
        return
    credentials = options.get("credentials")
    is_unnamed = isinstance(credentials, CertificateCredentials) and not credentials.name
    if is_unnamed or (credentials is None and "tidings+tls://" in address):
        options["credentials"] = CertificateCredentials(certificate_name(os.environ))


def _embedded(options: dict[str, Any], *, path: Any, **common: Any) -> BrokerInterface:
    for old, new in _RENAMED.items():
        if old in options:
            warnings.warn(f"connect({old}=…) is connect({new}=…) now", DeprecationWarning, stacklevel=3)
            options.setdefault(new, options.pop(old))
    refuse_unknown({key: 1 for key in options if key not in _EMBEDDED}, _KNOWN, "connect")
    call_timeout = options.pop("call_timeout", None)
    return EmbeddedBroker(path, call_timeout=call_timeout, settings=DeliverySettings(**options), **common)


def _remote(address: str, options: dict[str, Any], *, path: Any, **common: Any) -> BrokerInterface:
    from tidings.runtime.dialling import PORT, parse_addresses
    from tidings.runtime.environment import tls_context
    from tidings.runtime.remote import RemoteBroker, RemoteSettings

    if ":" not in str(address):
        raise SettingsError(
            f"{address!r} is no broker's address",
            hint=f"write host:port, as in tidings://{address}:{PORT}; for a store in that directory: "
            f"connect(path={address!r})",
        )
    if path is not None:
        raise SettingsError("a broker elsewhere has its own store", hint="leave path= out")
    refuse_unknown({key: 1 for key in options if key not in _REMOTE}, _REMOTE, "connect")
    addresses = parse_addresses(str(address))
    if options.get("tls") is None:
        options["tls"] = tls_context(os.environ, str(address))
    own = {key: options.pop(key) for key in RemoteSettings.__struct_fields__ if key in options}
    return RemoteBroker(addresses, settings=RemoteSettings(**own), **options, **common)
