"""The settings of a broker: one frozen value, from a TOML file, the environment and the command line.

Rules
- Later words win: defaults, then the file, then the environment (`TIDINGS_NETWORK_PEER_TIMEOUT_SECONDS` is
  `peer_timeout_seconds` of the table `[network]`), then what was said on the command line.
- An unknown key or variable is an error that names the nearest one. A contradiction is an error.
- Settings hold no secret: passwords and keys stand in files of their own, which settings name.
- The comment behind a field is its documentation; `tidings settings` prints it.
"""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import msgspec

from tidings.errors import SettingsError
from tidings.language.limits import Limits
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.limits import ResourceLimits
from tidings.runtime.connection import NetworkSettings
from tidings.runtime.dialling import parse_addresses, port_of
from tidings.runtime.settings_checks import check_addresses, check_files, check_numbers, check_options
from tidings.security.reading import checked_table, read_toml, refuse_unknown
from tidings.systems import NO_LINKS, find_system, systems

log = logging.getLogger(__name__)
PREFIX = "TIDINGS_"
DRAIN_MOST = 10.0  # seconds; a process manager waits no longer
LOOPBACK = ("127.0.0.1", "::1", "localhost")

# Variables that begin like ours and are no settings of a broker: other commands read them, and
# container platforms make the last kind for a service that is called tidings.
OTHER_VARIABLES = re.compile(
    r"TIDINGS_(TRACEBACK|PYTHON|BROKER|NAME|USER|PASSWORD|PASSWORD_FILE|TOKEN|TOKEN_FILE|AUTHORITY"
    r"|CERTIFICATE|KEY|SERVICE_(HOST|PORT\w*)|PORT(_\d+_\w+)?)"
)


class TlsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Paths of PEM files; all empty: no TLS, which only loopback allows."""

    certificate: str = ""  # file: certificate of this broker with its chain
    key: str = ""  # file: its private key
    authority: str = ""  # file: trusted authority of the certificates of other brokers and of clients
    revoked: str = ""  # file: revoked certificates, one serial number a line, or the authority's CRL


class SecuritySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Authentication and permissions of clients."""

    users: str = ""  # users file: users, rights and quotas; empty: only `anonymous` admits clients
    audit: str = ""  # file of the audit as JSON lines; empty: the audit goes to the log
    anonymous: bool = False  # admits all clients of this machine; only for `broker --dev` and `cluster up`
    plain: bool = False  # permits listening beyond this machine without TLS, behind a proxy that has it


class LogSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Logs of the broker."""

    level: str = "info"  # `debug`, `info`, `warning` or `error`
    format: str = "text"  # `text` for people, `json` for programs: one object a line
    file: str = ""  # file to append to, opened again on SIGHUP; empty: standard error


class RetentionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Caps on what durable subscriptions may keep, whatever they ask for; 0: none."""

    subscription_seconds: float = 0.0  # maximum age of an event that waits for a durable subscription
    subscription_events: int = 0  # maximum number of such events; beyond it the oldest is dropped
    warn_free_bytes: int = 128 << 20  # less free disk space makes the broker not ready; 0: never


class TraceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of the ring that `tidings trace` reads."""

    events: int = 10_000  # entries of the trace, one or two per event, about 500 bytes each; 0: no trace
    spans: bool = False  # OpenTelemetry spans of events with a `traceparent`; OTEL_* set the target
    history_seconds: float = 0.0  # recorded window for the console's verdict; 0: none; a row per delivery


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Doors for other protocols; empty: closed."""

    http: str = ""  # host:port to publish and subscribe by HTTP, CloudEvents and WebSocket; empty: none
    webhooks: tuple[str, ...] = ()  # hosts that webhooks may call, `*` is a wildcard; empty: none
    mqtt: str = ""  # host:port of MQTT 3.1.1 and 5; empty: none
    mqtt_websocket: str = ""  # host:port of MQTT over WebSocket; empty: none
    hosts: tuple[str, ...] = ()  # further host names that web listeners answer to (DNS rebinding protection)
    origins: tuple[
        str, ...
    ] = ()  # origins of other sites' pages that may call (https://app.example), `*` is a wildcard
    extensions: dict[str, Any] = {}  # by name, the settings of gateways that installed extensions provide


class ConsoleSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The web console; what it shows beside brokers is read from these places."""

    listen: str = ""  # host:port of the console; empty: none
    refresh_seconds: float = 1.0  # interval of queries to all brokers; less costs them more
    flows: tuple[str, ...] = ()  # metrics of Spark flows: files of JSON lines, or http://host:port/metrics
    studies: str = ""  # directory with the output of `tidings study run --json` and its plots
    quality: tuple[str, ...] = ()  # data quality reports as JSON: files, or directories of them


class GroupTable(msgspec.Struct, frozen=True, kw_only=True):
    """A group of brokers with one log (docs/distributors.md)."""

    name: str = ""  # name of the replicated group and of its log; empty: no group
    members: tuple[str, ...] = ()  # names of the founding brokers: the first start waits for all of them
    beat_seconds: float = 0.5  # interval of heartbeats among the members
    suspect_seconds: float = 2.0  # silence after which a majority continues without a member
    keep_seconds: float = 60.0  # minimum time that an event stays in the log, for clients that fail over
    orphan_seconds: float = 3600.0  # how long events for subscribers of a failed member are kept


class BrokerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings of `tidings broker`."""

    name: str = ""  # name of this broker, unique in its network; empty: the `host:port` that it listens on
    listen: str = "127.0.0.1:7117"  # host:port for clients and brokers; port 0: a free port
    advertise: str = ""  # host:port at which others reach this broker, when it is not `listen` (0.0.0.0, say)
    join: tuple[str, ...] = ()  # addresses of brokers to link with; the links must form a tree
    system: str = "tidings"  # routing and recovery, the same in the whole network; see `tidings systems`
    rearrange: bool = True  # in systems that swap links: false keeps the links of this broker
    heal_seconds: float = 0.0  # absence after which the tree heals without a neighbour; 0: never
    store: str = ""  # directory, nats://…/NAME or an extension's address of the log; empty: memory
    datagrams: bool = False  # events travel between brokers by UDP, unencrypted; recovery repairs losses
    peers: tuple[str, ...] = ()  # name=host:port of brokers reached by datagram that are no neighbours
    archive: str = ""  # directory of archived events, for subscriptions with `since="forever"`; empty: none
    schemas: str = ""  # file of `tidings schema`: publishes that do not fit are refused; empty: none
    http: str = ""  # host:port of /metrics, /healthz and /readyz; empty: none
    processes: int = 1  # broker processes that share one address on this machine; see docs/brokers.md
    drain_seconds: float = 5.0  # time to finish after SIGTERM; at most 10
    group: GroupTable = GroupTable()  # see `[group]`
    options: dict[
        str, Any
    ] = {}  # options of `system`, as `tidings systems NAME` lists them; a table, or JSON
    network: NetworkSettings = NetworkSettings()  # see `[network]`
    delivery: DeliverySettings = DeliverySettings(allow_block=False, names_log=True)  # see the bus, above
    limits: Limits = Limits()  # see the limits of a filter, above
    resources: ResourceLimits = ResourceLimits()  # see `[resources]`
    retention: RetentionSettings = RetentionSettings()  # see `[retention]`
    security: SecuritySettings = SecuritySettings()  # see `[security]`
    tls: TlsSettings = TlsSettings()  # see `[tls]`
    log: LogSettings = LogSettings()  # see `[log]`
    trace: TraceSettings = TraceSettings()  # see `[trace]`
    gateway: GatewaySettings = GatewaySettings()  # see `[gateway]`
    console: ConsoleSettings = ConsoleSettings()  # see `[console]`


class SettingInfo(NamedTuple):
    """One knob, for people."""

    name: str  # table.key
    value: Any
    default: Any
    note: str
    variable: str


# Not for files and the environment: the composition's own choice, or that of development.
HIDDEN = {
    ("delivery", "names_log"),
    ("delivery", "shared_log"),
    ("delivery", "allow_block"),
    ("delivery", "identities"),
    ("resources", "frame_bytes"),  # `network.max_frame_bytes` says it
    ("resources", "link_frame_bytes"),  # the same in all brokers of a network
    ("security", "anonymous"),  # said by `tidings broker --dev` and `tidings cluster up` alone
}

# Old names that are still read: (table, old name) -> new name.
RENAMED = {
    ("console", "look_seconds"): "refresh_seconds",
    ("delivery", "guest_seconds"): "remote_subscription_seconds",
    ("network", "broker_buffer"): "broker_buffer_bytes",
    ("network", "client_buffer"): "client_buffer_bytes",
    ("network", "dead_seconds"): "peer_timeout_seconds",
    ("network", "handshake_frame"): "handshake_frame_bytes",
    ("network", "max_frame"): "max_frame_bytes",
}

GROUP_SYSTEM = "tidings-group"

# Settings that take effect without a restart.
LIVE = ("security.users", "security.audit", "tls.revoked", "tls.certificate", "tls.key", "tls.authority")


def read_settings(
    file: Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    fields: Mapping[str, Any] | None = None,
    checked: bool = True,
) -> BrokerSettings:
    """The settings that file, environment and command line give together."""
    table: dict[str, Any] = {}
    if file is not None:
        table = read_toml(file)
        _move_old_tables(table, str(file))
    _check_keys(BrokerSettings, table, str(file))
    for path, value in _from_environment(environment or {}):
        _put(table, path, value)
    for name, value in (fields or {}).items():
        _put(table, tuple(name.split(".")), value)
    _move_old_tables(table, "the settings")
    settings = _converted(table, str(file) if file else "the settings")
    if checked:
        check_settings(settings)
    resolved = _resolved(settings, file.parent if file is not None else None)
    if checked:
        check_files(resolved)
    return resolved


def _move_old_tables(table: dict[str, Any], where: str) -> None:
    """Read tables and settings under their old names, with a warning that gives the new one."""
    for (name, old), new in RENAMED.items():
        inner = table.get(name)
        if isinstance(inner, dict) and old in inner:
            log.warning("%s: %s.%s is %s.%s now", where, name, old, name, new)
            inner.setdefault(new, inner.pop(old))
            inner.pop(old, None)
    if "gossip" in table:
        log.warning("%s: [gossip] is [options.gossip] now", where)
        table["options"] = {"gossip": table.pop("gossip"), **table.get("options", {})}


def said_by(environment: Mapping[str, str]) -> dict[str, Any]:
    """The settings that an environment gives, by their dotted names. Raises `SettingsError`."""
    return {".".join(path): value for path, value in _from_environment(environment)}


def _tables(kind: type) -> dict[str, type]:
    """The nested tables of a settings type."""
    hints = _hints(kind)
    return {
        name: hint
        for name, hint in hints.items()
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct)
    }


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _check_keys(kind: type, table: Mapping[str, Any], where: str, path: tuple[str, ...] = ()) -> None:
    position = f"{where}: [{'.'.join(path)}]" if path else where
    known = [name for name in kind.__struct_fields__ if (*path, name) not in HIDDEN]  # type: ignore[attr-defined]
    refuse_unknown(table, known, position)
    for name, inner in _tables(kind).items():
        if name in table:
            _check_keys(inner, checked_table(table[name], f"{position}: {name}"), where, (*path, name))


def _from_environment(environment: Mapping[str, str]) -> Iterator[tuple[tuple[str, ...], Any]]:
    known = {variable_of(path): (path, hint) for path, hint in _leaves(BrokerSettings)}
    ours = {name: value for name, value in environment.items() if name.startswith(PREFIX)}
    for (table, old), new in RENAMED.items():
        before, now = variable_of((table, old)), variable_of((table, new))
        if before in ours:
            log.warning("the environment: %s is %s now", before, now)
            ours.setdefault(now, ours.pop(before))
            ours.pop(before, None)
    refuse_unknown(
        (name for name in ours if not OTHER_VARIABLES.fullmatch(name)), known, "the environment: a broker"
    )
    for name, text in ours.items():
        if name in known:
            path, hint = known[name]
            yield path, _from_text(text, hint, name)


def _from_text(text: str, hint: Any, variable: str) -> Any:
    if hint is str:
        return text
    if hint == dict[str, Any]:
        try:
            return msgspec.json.decode(text, type=dict[str, Any])
        except msgspec.MsgspecError as error:
            raise SettingsError(f"{variable} is no JSON object: {error}") from None
    if hint == tuple[str, ...]:
        return [part.strip() for part in text.split(",") if part.strip()]
    try:
        return msgspec.convert(text, hint, strict=False)
    except msgspec.ValidationError:
        raise SettingsError(f"{variable} is no {getattr(hint, '__name__', hint)}") from None


def _leaves(kind: type, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    tables = _tables(kind)
    for name, hint in _hints(kind).items():
        if (*path, name) in HIDDEN:
            continue
        if name in tables:
            yield from _leaves(hint, (*path, name))
        else:
            yield (*path, name), hint


def variable_of(path: tuple[str, ...]) -> str:
    return PREFIX + "_".join(path).upper()


def _put(table: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        table = table.setdefault(name, {})
    table[path[-1]] = value


def _converted(table: Mapping[str, Any], where: str) -> BrokerSettings:
    base = BrokerSettings()
    try:
        settings: BrokerSettings = _over(base, table)
        return settings
    except msgspec.ValidationError as error:
        reason, _, position = str(error).partition(" - at `$.")
        raise SettingsError(f"{where}: {position.rstrip('`')}: {reason[:1].lower()}{reason[1:]}") from None


def _over(base: Any, table: Mapping[str, Any], path: str = "") -> Any:
    """The base with what the table says: so nested defaults of ours stay where it is silent."""
    kind: type = type(base)
    tables, hints = _tables(kind), _hints(kind)
    given: dict[str, Any] = {}
    for name, value in table.items():
        if name in tables:
            given[name] = _over(getattr(base, name), value, f"{path}{name}.")
        else:
            given[name] = _typed(value, hints[name], path + name)
    return msgspec.structs.replace(base, **given)


def _typed(value: Any, hint: Any, name: str) -> Any:
    try:
        return msgspec.convert(value, hint)
    except msgspec.ValidationError as error:
        raise msgspec.ValidationError(f"{str(error).partition(' - at')[0]} - at `$.{name}`") from None


# -- what must not be ------------------------------------------------------------------------------


def check_settings(settings: BrokerSettings) -> None:
    """Refuse what contradicts itself; each message says what to do."""
    _check_choices(settings)
    check_addresses(settings)
    _check_gateways(settings)
    _check_system(settings)
    network = settings.network
    if network.keepalive_seconds * 2 > network.peer_timeout_seconds:
        raise SettingsError(
            f"network.peer_timeout_seconds ({network.peer_timeout_seconds:g}) is less than two of "
            "keepalive_seconds",
            hint="a peer that pings in time must not count as dead",
        )
    if not 0 <= settings.drain_seconds <= DRAIN_MOST:
        raise SettingsError(f"drain_seconds is {settings.drain_seconds:g}", hint=f"0 to {DRAIN_MOST:g}")
    numbers = [path for path, hint in _leaves(BrokerSettings) if hint in (int, float)]
    check_numbers((".".join(path), _value_at(settings, path)) for path in numbers)


def _check_choices(settings: BrokerSettings) -> None:
    if find_system(settings.system).graph == NO_LINKS and settings.join:
        raise SettingsError(f"{settings.system} is one broker and joins no other", hint="leave `join` out")
    for value, choices, name in (
        (settings.log.level, ("debug", "info", "warning", "error"), "log.level"),
        (settings.log.format, ("text", "json"), "log.format"),
    ):
        if value not in choices:
            raise SettingsError(f"{name} is {value!r}", hint=f"one of {', '.join(choices)}")


def _check_gateways(settings: BrokerSettings) -> None:
    tls, security = settings.tls, settings.security
    if bool(tls.certificate) != bool(tls.key):
        there, missing = ("certificate", "key") if tls.certificate else ("key", "certificate")
        raise SettingsError(
            f"tls.{there} is given and tls.{missing} is not: TLS needs both",
            hint="make them with `tidings certs`",
        )
    if tls.revoked and not tls.authority:
        raise SettingsError(
            "tls.revoked takes certificates back, and there is no tls.authority that gives any",
            hint="name the authority's certificate in tls.authority",
        )
    gateway = settings.gateway
    gateways = (settings.listen, gateway.http, gateway.mqtt, gateway.mqtt_websocket, settings.console.listen)
    outside = any(not is_loopback(host_of(address)) for address in gateways if address)
    if security.anonymous:
        _check_development(settings, gateways)
    if outside and not tls.certificate and not security.plain:
        raise SettingsError(
            f"{settings.listen} is open to others, and there is no TLS",
            hint="give it tls.certificate and tls.key (see `tidings certs`), or listen at 127.0.0.1",
        )
    if not security.users and not security.anonymous and not tls.authority:
        raise SettingsError(
            "no client could connect: there is no users file",
            hint="write one (see docs/security.md) and name it in security.users; "
            "for development: `tidings broker --dev`",
        )
    _check_join(settings)


def _check_join(settings: BrokerSettings) -> None:
    for text in settings.join:
        parse_addresses(text)
    if settings.join and not settings.tls.certificate and not settings.security.anonymous:
        raise SettingsError(
            "brokers join one another by certificates, and this one has none",
            hint="make them with `tidings certs` and give --certs DIR; to develop: `tidings broker --dev`",
        )


def _check_development(settings: BrokerSettings, gateways: tuple[str, ...]) -> None:
    """A broker that lets every client in stays on this machine and has neither users nor TLS."""
    for gateway in (*gateways, settings.http):
        if gateway and not is_loopback(host_of(gateway)):
            raise SettingsError(
                f"a development broker admits every client, and {gateway} is open to others",
                hint="listen at 127.0.0.1; or leave out --dev and give the broker a users file and TLS",
            )
    if settings.security.users or settings.tls.certificate:
        what = "a users file" if settings.security.users else "TLS"
        raise SettingsError(
            f"a development broker admits every client, and has {what} too",
            hint="leave out --dev, or the users file and TLS",
        )


def _check_group(settings: BrokerSettings) -> None:
    group = settings.group
    if not group.name:
        if group.members:
            raise SettingsError("group.members are named, and no group", hint="give it a name: --group NAME")
        return
    if settings.system not in ("tidings", GROUP_SYSTEM) or settings.datagrams or settings.heal_seconds:
        raise SettingsError(
            "a group has a system of its own", hint="leave out `system`, `datagrams` and `heal_seconds`"
        )
    if not group.members and not settings.join:
        raise SettingsError(
            f"group {group.name!r} has no members to begin with",
            hint="name those who found it, this one among them: --members d1,d2,d3; or join a member: --join",
        )
    if group.suspect_seconds < 2 * group.beat_seconds:
        raise SettingsError(
            "group.suspect_seconds is less than two of beat_seconds",
            hint="a member that beats in time is alive",
        )


def _check_system(settings: BrokerSettings) -> None:
    _check_group(settings)
    system = find_system(settings.system)
    if not system.networked:
        names = ", ".join(each.name for each in systems() if each.networked)
        raise SettingsError(f"{system.name} runs in simulations alone", hint=f"brokers can be: {names}")
    system.check_processes()
    sends = settings.datagrams or system.datagrams
    if sends and not is_loopback(host_of(settings.listen)) and not settings.security.plain:
        raise SettingsError(
            f"datagrams are neither encrypted nor signed, and {settings.listen} is open to others",
            hint="use links alone (system = tidings, datagrams = false); or run the brokers in a "
            "network that "
            "is closed to others, and say so with security.plain",
        )
    check_options(settings, system.options)
    peers_of(settings)


def peers_of(settings: BrokerSettings) -> dict[str, str]:
    """By name, the address of each broker in `peers`."""
    found = {}
    for text in settings.peers:
        name, equals, address = text.partition("=")
        if not (name and equals and port_of(address.rpartition(":")[2]) is not None):
            raise SettingsError(f"peers has {text!r}", hint="write name=host:port")
        found[name] = address
    return found


def host_of(address: str) -> str:
    host = address.rpartition(":")[0] or address
    return host.strip("[]")


def is_loopback(host: str) -> bool:
    return host in LOOPBACK or host.startswith("127.")


def _resolved(settings: BrokerSettings, folder: Path | None) -> BrokerSettings:
    """Paths in a file are relative to the file."""
    if folder is None:
        return settings

    def absolute(path: str) -> str:
        is_relative = path and "://" not in path and not Path(path).is_absolute()
        return str(folder / path) if is_relative else path

    tls, security, console = settings.tls, settings.security, settings.console
    return msgspec.structs.replace(
        settings,
        store=absolute(settings.store),
        schemas=absolute(settings.schemas),
        console=msgspec.structs.replace(
            console,
            flows=tuple(flow if "://" in flow else absolute(flow) for flow in console.flows),
            studies=absolute(console.studies),
            quality=tuple(map(absolute, console.quality)),
        ),
        tls=TlsSettings(
            certificate=absolute(tls.certificate),
            key=absolute(tls.key),
            authority=absolute(tls.authority),
            revoked=absolute(tls.revoked),
        ),
        security=msgspec.structs.replace(
            security, users=absolute(security.users), audit=absolute(security.audit)
        ),
        log=msgspec.structs.replace(settings.log, file=absolute(settings.log.file)),
    )


# -- for people -------------------------------------------------------------------------------------

_FIELD = re.compile(r"^    (\w+): [^=]+ = .+?(?:  # (.*))?$", re.MULTILINE)


@cache
def _notes(kind: type) -> dict[str, str]:
    """The comment behind each field, as the source says."""
    return dict(_FIELD.findall(inspect.getsource(kind)))


def described(settings: BrokerSettings) -> Iterator[SettingInfo]:
    """Every knob with its value, default, meaning and variable."""
    default = BrokerSettings()
    for path, _ in _leaves(BrokerSettings):
        owner: type = type(_value_at(default, path[:-1]))
        note = _notes(owner).get(path[-1], "")
        yield SettingInfo(
            ".".join(path), _value_at(settings, path), _value_at(default, path), note, variable_of(path)
        )


def changed(old: BrokerSettings, new: BrokerSettings) -> list[str]:
    """The names of what differs."""
    return [
        ".".join(path) for path, _ in _leaves(BrokerSettings) if _value_at(old, path) != _value_at(new, path)
    ]


def _value_at(settings: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        settings = getattr(settings, name)
    return settings
