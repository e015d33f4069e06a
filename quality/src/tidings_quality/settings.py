"""The settings of an organisation's service, from a TOML file.

name = "INPS"
schema = "schema.json"          # relative to this file, as all paths are
listen = "127.0.0.1:8801"
state = "inps.db"               # without it, all state ends with the process
token = "..."                   # what local users show; without one, only this machine is let in

[peers.CoC]
url = "http://127.0.0.1:8803"
token = "..."                   # what we show CoC and CoC shows us
classes = ["Enterprise/Holder"] # of ours that CoC may hear of; without it, all
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from tidings.errors import SettingsError
from tidings.runtime.settings import TlsSettings, host_of, is_loopback
from tidings.security.reading import read_toml
from tidings_quality.external import REDUCTIONS
from tidings_quality.interface import DISPATCHERS, INBOX
from tidings_quality.model import is_within
from tidings_quality.schema import Schema, read_schema
from tidings_quality.state import REMEMBER


class PeerOrganisation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Another organisation, and what it may hear of us."""

    url: str
    token: str = ""
    classes: tuple[str, ...] | None = None  # None: all


class OrganisationSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    name: str
    schema: Schema
    listen: str = "127.0.0.1:0"
    state: str = ""
    token: str = ""
    interpreter: str = "quality"
    dispatchers: tuple[str, ...] = (INBOX, *DISPATCHERS)  # which ones users may choose
    targets: tuple[str, ...] = ()  # hosts that these may send to, * is a wildcard; none: nowhere
    reduce: str = "covering"  # covering, union or identical
    remember: int = REMEMBER  # identities of events
    confirm_seconds: float = 60.0  # between asking producers whether they still know what they were told
    peers: dict[str, PeerOrganisation] = {}
    tls: TlsSettings = TlsSettings()  # certificate and key to show, authority to trust
    plain: bool = False  # True: tokens may cross the network unencrypted, since another layer encrypts them

    def permits(self, organisation: str, data_class: str) -> bool:
        """May it hear of changes in this class of ours?"""
        peer = self.peers.get(organisation)
        return peer is not None and (
            peer.classes is None or any(is_within(data_class, allowed) for allowed in peer.classes)
        )

    def check(self) -> OrganisationSettings:
        self.schema.organisation(self.name)
        for name, peer in self.peers.items():
            self.schema.organisation(name)
            _check_url(name, peer.url, is_plain=self.plain)
            for path in peer.classes or ():
                self.schema.data_class(path)
        if self.name in self.peers:
            raise SettingsError(f"{self.name} is a peer of itself")
        if not is_loopback(host_of(self.listen)) and not self.tls.certificate and not self.plain:
            raise SettingsError(
                f"{self.listen} is open to others, and there is no TLS",
                hint="give it tls.certificate and tls.key (see `tidings certs`), or listen at 127.0.0.1",
            )
        if self.reduce not in REDUCTIONS:
            raise SettingsError(f"reduce is {self.reduce!r}", hint=f"there are: {', '.join(REDUCTIONS)}")
        return self


def _check_url(name: str, url: str, *, is_plain: bool) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError(f"the url of {name} is {url!r}", hint="http:// or https://")
    if parts.scheme == "http" and not is_loopback(parts.hostname) and not is_plain:
        raise SettingsError(
            f"the url of {name} is {url}: our token would cross the network unencrypted", hint="use https://"
        )


def _beside(file: Path, paths: Any) -> Any:
    """Paths that are relative to the file; what is no path stays, for the check of types."""
    if not isinstance(paths, dict):
        return paths
    return {
        name: str(file.parent / path) if path and isinstance(path, str) else path
        for name, path in paths.items()
    }


def read_settings(path: Path | str) -> OrganisationSettings:
    """From a TOML file; paths in it are relative to it."""
    file = Path(path)
    given = read_toml(file)
    if not isinstance(given.get("schema"), str):
        raise SettingsError(f"{file} names no schema", hint='schema = "schema.json"')
    try:
        schema = read_schema((file.parent / given.pop("schema")).read_bytes())
    except (OSError, ValueError) as error:  # no such file, or a name that no file can have
        raise SettingsError(f"the schema of {file} cannot be read: {error}") from None
    given = {**given, "schema": schema, "tls": _beside(file, given.get("tls", {}))}
    if given.get("state"):
        given |= _beside(file, {"state": given["state"]})
    try:
        return msgspec.convert(given, OrganisationSettings).check()
    except msgspec.ValidationError as error:
        raise SettingsError(f"{file}: {error}") from None
