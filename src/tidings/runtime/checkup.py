"""Checks of a broker's surroundings for `tidings doctor`: each has a finding and, where needed, what to do.

Rules
- A check changes nothing and opens no store: the broker may run.
- `PROBLEM` keeps a broker from working as its settings say, `WARNING` may do so later, `OK` needs nothing.
- A check that cannot look says so as a warning; it never counts as fine.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import importlib.util
import os
import resource
import shutil
import socket
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tidings._version import __version__
from tidings.errors import TidingsError, install_command
from tidings.runtime import tls
from tidings.runtime.dialling import parse_addresses
from tidings.runtime.secured import load_revoked, load_users
from tidings.runtime.settings import BrokerSettings, TlsSettings

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

OK, WARNING, PROBLEM = "ok", "warning", "problem"
EXPIRES_SOON = timedelta(days=30)
FEW_DESCRIPTORS = 65_536
CLOCK_SECONDS = 1.0  # between two machines; more shifts lifetimes and histories
REACH_SECONDS = 3.0
TIME_ERROR = 5  # of adjtimex: the clock is not synchronized
PACKAGES = {"rocksdict": "store", "uvloop": "server", "prometheus_client": "server", "cryptography": "server"}


class Finding(NamedTuple):
    """Result of one check."""

    check: str
    state: str
    finding: str
    do: str = ""


def look_at_machine() -> Iterator[Finding]:
    """Versions, limits and the clock of this machine."""
    python = ".".join(map(str, sys.version_info[:3]))
    yield Finding("versions", OK, f"tidings {__version__}, Python {python}")
    for package, extra in PACKAGES.items():
        if importlib.util.find_spec(package) is None:
            yield Finding(
                "versions", WARNING, f"{package} is not installed", install_command(f"tidings[{extra}]")
            )
    yield _limits()
    yield _clock()


def _limits() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    text = f"{hard} open files (now {soft}; a broker raises it to the hard limit)"
    if hard != resource.RLIM_INFINITY and hard < FEW_DESCRIPTORS:
        return Finding("limits", WARNING, text, f"set LimitNOFILE={FEW_DESCRIPTORS} or more in its unit")
    return Finding("limits", OK, text)


def _clock() -> Finding:
    try:
        state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(256))
    except (AttributeError, OSError):
        return Finding("clock", WARNING, "this system does not say whether its clock is synchronized")
    if state == TIME_ERROR:
        return Finding(
            "clock",
            WARNING,
            "the clock is not synchronized",
            "run chrony or systemd-timesyncd on this machine",
        )
    return Finding("clock", OK, "the clock is synchronized")


def look_at_settings(settings: BrokerSettings) -> Iterator[Finding]:
    """Files and addresses that the settings name."""
    name = settings.name or settings.listen
    yield Finding("settings", OK, f"broker {name} listens at {settings.listen}")
    yield from _tried("users", lambda: [_users(settings)])
    yield from _tried("certificates", lambda: certificates(settings))
    yield from _tried("disk", lambda: disk(settings))
    yield from _tried("files", lambda: _files(settings))
    yield from _ports(settings)


def _tried(check: str, look: Callable[[], Iterable[Finding]]) -> list[Finding]:
    try:
        return list(look())
    except TidingsError as error:
        return [Finding(check, PROBLEM, error.message, error.hint or "")]
    except OSError as error:
        return [Finding(check, PROBLEM, str(error), "let the user of the broker read it")]


def _users(settings: BrokerSettings) -> Finding:
    users = load_users(settings.security)
    if settings.security.anonymous:
        return Finding(
            "users", WARNING, "anybody on this machine may do everything", "use it for development only"
        )
    file = settings.security.users
    if file and Path(file).stat().st_mode & 0o044:
        return Finding("users", WARNING, f"{file} can be read by others", f"chmod 600 {file}")
    if not any(str(rule.action) == "admin" for rule in users.permissions.rules):
        return Finding("users", WARNING, "no rule allows admin", 'add one: who, action = "admin"')
    return Finding("users", OK, f"{len(users.users)} users, {len(users.permissions.rules)} rules")


def certificates(settings: BrokerSettings, now: datetime | None = None) -> Iterator[Finding]:
    """The broker's certificate and that of its authority: usable together, and for how long."""
    given = settings.tls
    if not given.certificate:
        yield Finding("certificates", OK, "no TLS: it listens on this machine alone")
        return
    tls.listening(given)
    load_revoked(given)
    from cryptography import x509

    own = x509.load_pem_x509_certificate(Path(given.certificate).read_bytes())
    yield from _name_of(own, settings)
    if given.authority:
        yield from _issuer_of(own, given)
    for file in filter(None, (given.certificate, given.authority)):
        certificate = x509.load_pem_x509_certificate(Path(file).read_bytes())
        left = certificate.not_valid_after_utc - (now or datetime.now(UTC))
        until = f"{file} is valid until {certificate.not_valid_after_utc:%Y-%m-%d}"
        if left < timedelta(0):
            yield Finding("certificates", PROBLEM, f"{file} has expired", "renew it, then SIGHUP the broker")
        elif left < EXPIRES_SOON:
            yield Finding("certificates", WARNING, until, "renew it, then SIGHUP the broker")
        else:
            yield Finding("certificates", OK, until)


def _name_of(certificate: Certificate, settings: BrokerSettings) -> Iterator[Finding]:
    from cryptography.x509.oid import NameOID

    names = [str(each.value) for each in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if settings.name and names and settings.name not in names:
        yield Finding(
            "certificates",
            PROBLEM,
            f"{settings.tls.certificate} is the certificate of {names[0]}, "
            f"and this broker is {settings.name}",
            f"tidings certs broker DIR {settings.name}",
        )


def _issuer_of(certificate: Certificate, given: TlsSettings) -> Iterator[Finding]:
    """Whether the authority, or one of the chain in the broker's file, issued the certificate."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature

    chain = x509.load_pem_x509_certificates(Path(given.certificate).read_bytes())[1:]
    for each in (*chain, *x509.load_pem_x509_certificates(Path(given.authority).read_bytes())):
        try:
            certificate.verify_directly_issued_by(each)
        except (ValueError, TypeError, InvalidSignature):
            continue
        return
    yield Finding(
        "certificates",
        PROBLEM,
        f"{given.certificate} was not issued by {given.authority}: other brokers will refuse it",
        "name the authority that issued it, or let that one issue a new certificate",
    )


def _files(settings: BrokerSettings) -> Iterator[Finding]:
    """The files of the audit and of the log: can they be written?"""
    for setting, name in (("security.audit", settings.security.audit), ("log.file", settings.log.file)):
        if not name:
            continue
        path = Path(name).absolute()
        if path.exists():
            is_writable = path.is_file() and os.access(path, os.W_OK)
        else:
            is_writable = path.parent.is_dir() and os.access(path.parent, os.W_OK | os.X_OK)
        if not is_writable:
            do = "make its directory, and let the user of the broker write there"
            yield Finding("files", PROBLEM, f"{name} ({setting}) cannot be written", do)
        else:
            yield Finding("files", OK, f"{name} ({setting}) can be written")


def disk(settings: BrokerSettings) -> Iterator[Finding]:
    """The directory of the store: is it there, may it be written, is there room?"""
    if not settings.store:
        yield Finding(
            "disk", WARNING, "no store: events are lost when the broker ends", "give it --store DIR"
        )
        return
    if "://" in settings.store:
        yield Finding("disk", OK, f"the store is {settings.store}")
        return
    folder = Path(settings.store)
    there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        yield Finding("disk", PROBLEM, f"{there} cannot be written", "let the user of the broker write it")
        return
    if folder.is_dir() and (mode := stat.S_IMODE(folder.stat().st_mode)) & 0o077:
        text = f"{folder} is open to other users of this machine ({mode:o})"
        yield Finding("disk", WARNING, text, f"chmod 700 {folder}")
    usage = shutil.disk_usage(there)
    if not usage.total:
        do = "name a directory of a disk"
        yield Finding("disk", PROBLEM, f"{there} is no disk: a store cannot be made there", do)
        return
    free = usage.free
    text = f"{free >> 20} MiB are free for {folder}"
    if free < max(settings.retention.warn_free_bytes, 1):
        yield Finding("disk", PROBLEM, text, "make room; tidings admin pins says who pins the log")
    elif os.statvfs(there).f_favail in range(1, 1_000):
        yield Finding("disk", WARNING, f"few inodes are free for {folder}", "remove files of that disk")
    else:
        yield Finding("disk", OK, text)


def _ports(settings: BrokerSettings) -> Iterator[Finding]:
    """Every address that the broker listens at: can it be had?"""
    gateway = settings.gateway
    for setting, text in (
        ("listen", settings.listen),
        ("http", settings.http),
        ("gateway.http", gateway.http),
        ("gateway.mqtt", gateway.mqtt),
        ("gateway.mqtt_websocket", gateway.mqtt_websocket),
        ("console.listen", settings.console.listen),
    ):
        if text:
            yield _port(setting, text)


def _port(setting: str, text: str) -> Finding:
    address = parse_addresses(text if text.rpartition(":")[0] else f"127.0.0.1{text}")[0]
    if not address.port:
        return Finding("address", OK, f"{text} ({setting}): any free port")
    with socket.socket(socket.AF_INET6 if ":" in address.host else socket.AF_INET) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((address.host, address.port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                what = "something listens there (this broker, if it runs)"
                return Finding("address", OK, f"{text} ({setting}): {what}")
            do = "choose another address, or let the user of the broker listen there"
            return Finding("address", PROBLEM, f"{text} ({setting}): {error.strerror or error}", do)
    return Finding("address", OK, f"{text} ({setting}): it is free")


async def look_at_neighbours(settings: BrokerSettings) -> list[Finding]:
    """Can each broker of `join` be reached?"""

    async def reach(text: str) -> Finding:
        address = parse_addresses(text)[0]
        try:
            async with asyncio.timeout(REACH_SECONDS):
                _, writer = await asyncio.open_connection(address.host, address.port)
            writer.close()
        except (OSError, TimeoutError) as error:
            why = getattr(error, "strerror", None) or str(error) or f"no answer within {REACH_SECONDS:g} s"
            return Finding(
                "neighbours", PROBLEM, f"{text} cannot be reached: {why}", "start it, or open the firewall"
            )
        return Finding("neighbours", OK, f"{text} can be reached")

    return await asyncio.gather(*map(reach, settings.join))


def look_at_brokers(answers: list[dict[str, Any]], now: datetime) -> Iterator[Finding]:
    """What the running brokers of a network say of themselves."""
    for one in answers:
        name = one["broker"]
        if "problem" in one:
            yield Finding("brokers", PROBLEM, f"{name} does not answer: {one['problem']}", "look at its log")
            continue
        for problem in one.get("problems", {}).values():
            yield Finding("brokers", PROBLEM, f"{name}: {problem}", "start that broker, or mend the link")
        for neighbour in one.get("unlinked", {}).values():
            do = "start that broker; with overlay.heal_seconds its neighbours replace it"
            yield Finding("brokers", PROBLEM, f"{name}: {neighbour['problem']}", do)
        if one.get("disk full"):
            yield Finding("brokers", PROBLEM, f"{name}: its disk is full", "tidings admin pins says for whom")
        if one.get("time") is not None:
            apart = abs((datetime.fromisoformat(one["time"]) - now).total_seconds())
            if apart > CLOCK_SECONDS:
                yield Finding(
                    "clock", WARNING, f"the clock of {name} is {apart:.1f} s apart", "synchronize both clocks"
                )
        yield Finding("brokers", OK, f"{name} answers, version {one.get('version', 'before 0.2')}")
    versions = {str(one["version"]) for one in answers if "version" in one}
    if len(versions) > 1:
        yield Finding(
            "versions", WARNING, f"brokers have versions {', '.join(sorted(versions))}", "finish the upgrade"
        )
