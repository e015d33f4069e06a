"""The CloudEvents Subscriptions API: standing subscriptions that send their events to a sink by HTTP.

Rules
- A subscription is durable: the broker keeps its events until the sink has taken them.
- It belongs to the principal that made it (by tenant and name); no other principal sees, changes or deletes
  it.
- It sends as long as that principal stands: not while the user is disabled or gone, and with a token until
  that expires. Then its events are kept; a PUT with another token renews it.
- A sink's host has to be allowed by the operator (`gateway.webhooks`): a broker does not send to
  arbitrary addresses.
- Changes of one subscription happen one after the other. One that is refused leaves it as it is, and sending.
- A subscription is on disk (a JSON file in the store's directory) before the answer; secrets are never shown.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable
from fnmatch import fnmatchcase
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

import msgspec

from tidings.errors import InputError, RefusedError, StoreError
from tidings.gateway.dialects import read_filters, warnings_of
from tidings.gateway.http_sessions import client_name
from tidings.gateway.problems import Problem
from tidings.gateway.webhooks import Credential, Sink, WebhookWorker
from tidings.model.decoding import UNREADABLE
from tidings.model.filter import Filter
from tidings.protocol.client_bounds import NAME, CheckedBound, EncodedBound, TextBound, check_message, declare
from tidings.protocol.limits import DEFAULT_LIMITS, ResourceLimits
from tidings.runtime.local_clients import LocalClientHost, LocalClients
from tidings.security.principal import Principal

FILE = "webhooks.json"
FIELDS = (
    "id",
    "source",
    "types",
    "config",
    "filters",
    "sink",
    "sinkcredential",
    "protocol",
    "protocolsettings",
)
SETTINGS = ("mode", "secret", "headers", "max_deliveries")
MOST_OF_ONE = 1000  # subscriptions of one principal


class StoredWebhookSubscription(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One subscription as the file holds it."""

    id: str
    owner: Principal
    sink: str
    source: str | None = None
    types: list[str] = []
    config: dict[str, Any] = {}
    filters: list[Any] = []
    protocol: str = "HTTP"
    protocolsettings: dict[str, Any] = {}
    sinkcredential: dict[str, Any] = {}


declare(
    StoredWebhookSubscription,
    {
        "id": NAME, "owner": CheckedBound("authentication"), "sink": TextBound("sink"), "source": NAME,
        "types": EncodedBound("config"),
        "config": EncodedBound("config"), "filters": EncodedBound("filter"), "protocol": NAME,
        "protocolsettings": EncodedBound("config"), "sinkcredential": EncodedBound("config"),
    },
)  # fmt: skip


class WebhookSubscriptions:
    """All of them, with the workers that deliver."""

    def __init__(
        self,
        host: LocalClientHost,
        folder: Path | None,
        allowed: tuple[str, ...],
        refreshed: Callable[[Any], Any] = lambda principal: principal,  # as it stands now; raises
        limits: ResourceLimits = DEFAULT_LIMITS,
    ) -> None:
        self._limits = limits
        self._host = host
        self._refreshed = refreshed
        self._file = None if folder is None else folder / FILE
        self._allowed = allowed
        self._kept: dict[str, StoredWebhookSubscription] = {}
        self._webhooks: dict[str, WebhookWorker] = {}
        self._writing = asyncio.Lock()
        self._changing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by id

    async def start(self) -> None:
        """Go on with what the file holds."""
        if self._file is None or not self._file.exists():
            return
        try:
            listed = msgspec.json.decode(self._file.read_bytes(), type=list[StoredWebhookSubscription])
        except (OSError, *UNREADABLE) as error:
            raise StoreError(
                f"{self._file} cannot be read: {error}", hint="restore it, or move it away to begin without"
            ) from None
        for kept in listed:
            self._kept[kept.id] = kept
            webhook = self._webhooks[kept.id] = self._webhook(kept)
            webhook.begin()  # a principal that does not stand keeps no other one from beginning

    async def close(self) -> None:
        for webhook in self._webhooks.values():
            await webhook.close()

    # -- the four verbs ---------------------------------------------------------------------------

    async def create(self, principal: Any, requested: dict[str, Any]) -> dict[str, Any]:
        if sum(_is_of(kept, principal) for kept in self._kept.values()) >= MOST_OF_ONE:
            raise RefusedError(f"{MOST_OF_ONE} subscriptions are yours already", hint="delete some first")
        if "id" in requested:
            raise InputError("the id is given by the broker", hint="leave it out")
        kept = self._read(requested, secrets.token_urlsafe(12), principal)
        webhook = self._webhook(kept)
        await webhook.start()
        self._webhooks[kept.id], self._kept[kept.id] = webhook, kept
        await self._write()
        return self._show(kept)

    def of(self, principal: Any) -> list[dict[str, Any]]:
        return [self._show(kept) for kept in self._kept.values() if _is_of(kept, principal)]

    def shown(self, principal: Any, id: str) -> dict[str, Any]:
        return self._show(self._find(principal, id))

    async def update(self, principal: Any, id: str, requested: dict[str, Any]) -> dict[str, Any]:
        """Put a whole subscription in the place of another; what waits for it is kept."""
        self._find(principal, id)
        if requested.get("id", id) != id:
            raise InputError("the id of a subscription cannot change")
        kept = self._read({**requested, "id": id}, id, principal)
        async with self._change(id):
            self._find(principal, id)  # it may have been deleted meanwhile
            before, webhook = self._webhooks.get(id), self._webhook(kept)
            await self._start_for(webhook, before)
            self._webhooks[id], self._kept[id] = webhook, kept
            try:
                if before is not None:
                    await before.close()
            finally:
                await self._write()
            return self._show(kept)

    async def delete(self, principal: Any, id: str) -> None:
        self._find(principal, id)
        async with self._change(id):
            self._find(principal, id)
            webhook = self._webhooks.pop(id, None)
            if webhook is not None:
                await webhook.end()
            del self._kept[id]
            await self._write()

    # -- for operators ----------------------------------------------------------------------------

    def administered(self) -> list[dict[str, Any]]:
        """All of them, with their owners; no secret."""
        return [{**self._show(kept), "owner": kept.owner.name} for kept in self._kept.values()]

    async def end(self, id: str) -> bool:
        """End one, whoever owns it; False: there is none."""
        kept = self._kept.get(id)
        if kept is not None:
            await self.delete(kept.owner, id)
        return kept is not None

    def _change(self, id: str) -> asyncio.Lock:
        return self._changing.setdefault(id, asyncio.Lock())

    def _find(self, principal: Any, id: str) -> StoredWebhookSubscription:
        kept = self._kept.get(id)
        if kept is None or not _is_of(kept, principal):
            raise Problem(HTTPStatus.NOT_FOUND, f"no subscription of yours has the id {id!r}")
        return kept

    # -- reading and showing ----------------------------------------------------------------------

    def _read(self, requested: dict[str, Any], id: str, principal: Any) -> StoredWebhookSubscription:
        for name in requested:
            if name not in FIELDS:
                raise InputError(f"a subscription has no {name!r}", hint=f"it may have {', '.join(FIELDS)}")
        try:
            kept = msgspec.convert(
                {**requested, "id": id, "owner": msgspec.to_builtins(principal)}, StoredWebhookSubscription
            )
        except msgspec.ValidationError as error:
            raise InputError(f"the subscription is not well formed: {error}") from None
        try:
            check_message(kept, self._limits.client)
        except RefusedError as error:
            raise InputError(
                "the subscription" + error.message.removeprefix("StoredWebhookSubscription"), hint=error.hint
            ) from None
        if kept.protocol.upper() != "HTTP":
            raise InputError(f"protocol {kept.protocol!r} is not offered", hint="HTTP")
        _check_settings(kept.protocolsettings)
        Credential.read(kept.sinkcredential)
        self._check_sink(kept.sink)
        filter_of(kept)
        return kept

    def _check_sink(self, sink: str) -> None:
        try:
            parts = urlsplit(sink)
            host = parts.hostname or ""
            _ = parts.port
        except ValueError:
            host, parts = "", urlsplit("")
        if parts.scheme not in ("http", "https") or not host or parts.username or parts.fragment:
            raise InputError(f"the sink {sink!r} is no address that HTTP can reach", hint="https://host/path")
        if not any(fnmatchcase(host, pattern) for pattern in self._allowed):
            raise RefusedError(
                f"this broker does not send to {host}",
                hint="the operator allows hosts in gateway.webhooks",
            )

    def _show(self, kept: StoredWebhookSubscription) -> dict[str, Any]:
        shown: dict[str, Any] = msgspec.to_builtins(kept)
        for secret in ("owner", "sinkcredential"):
            shown.pop(secret, None)
        shown.setdefault("protocol", "HTTP")
        shown["dialect"] = filter_of(kept).dialect  # that gives its expressions their meaning
        if warnings := warnings_of(kept.filters):
            shown["warnings"] = warnings
        settings = {k: v for k, v in kept.protocolsettings.items() if k not in ("secret", "headers")}
        shown.pop("protocolsettings", None)
        if settings:
            shown["protocolsettings"] = settings
        webhook = self._webhooks.get(kept.id)
        if webhook is not None:
            shown["status"] = webhook.status()
        return shown

    # -- delivering, and the file -----------------------------------------------------------------

    @staticmethod
    async def _start_for(webhook: WebhookWorker, before: WebhookWorker | None) -> None:
        """Start it in the place of another one, which goes on when it is refused."""
        if before is not None:
            before.hold()
        try:
            await webhook.start()
        except BaseException:
            if before is not None:
                before.release()
            raise

    def _webhook(self, kept: StoredWebhookSubscription) -> WebhookWorker:
        settings = kept.protocolsettings
        sink = Sink(
            address=kept.sink,
            mode=settings.get("mode", "binary"),
            secret=settings.get("secret", ""),
            headers=settings.get("headers", {}),
            credential=Credential.read(kept.sinkcredential),
        )
        name = client_name(kept.owner, f"webhook/{kept.id}")
        return WebhookWorker(
            name,
            lambda: LocalClients(self._host, self._refreshed(kept.owner)).bus(name),
            filter_of(kept),
            sink,
            max_deliveries=settings.get("max_deliveries", 5),
            answer_bytes=self._limits.answer_bytes,
        )

    async def _write(self) -> None:
        if self._file is None:
            return
        async with self._writing:
            written = msgspec.json.encode(list(self._kept.values()))
            await asyncio.to_thread(replace_file, self._file, written)


def _is_of(kept: StoredWebhookSubscription, principal: Any) -> bool:
    return bool(kept.owner.owner == principal.owner)


def filter_of(kept: StoredWebhookSubscription) -> Filter:
    """The filter that `source`, `types` and `filters` form together."""
    parts = list(kept.filters)
    if kept.source is not None:
        parts.append({"exact": {"source": kept.source}})
    if kept.types:
        parts.append({"any": [{"exact": {"type": name}} for name in kept.types]})
    return read_filters(parts)


def _check_settings(settings: dict[str, Any]) -> None:
    for name in settings:
        if name not in SETTINGS:
            raise InputError(
                f"protocolsettings have no {name!r}", hint=f"they may have {', '.join(SETTINGS)}"
            )
    if settings.get("mode", "binary") not in ("binary", "structured"):
        raise InputError(f"mode is {settings['mode']!r}", hint="binary or structured")
    if not isinstance(settings.get("secret", ""), str):
        raise InputError("secret is a text")
    headers = settings.get("headers", {})
    if not isinstance(headers, dict) or not all(
        isinstance(v, str)
        and v.isprintable()
        and v.isascii()
        and k.replace("-", "").isalnum()
        and k.isascii()
        for k, v in headers.items()
    ):
        raise InputError("headers are names with texts")
    deliveries = settings.get("max_deliveries", 5)
    if type(deliveries) is not int or not 1 <= deliveries <= 1000:
        raise InputError(f"max_deliveries is {deliveries!r}", hint="1 to 1000")


def replace_file(file: Path, written: bytes) -> None:
    """Write the file atomically and synced; readable by its owner alone."""
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_suffix(".new")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as out:
        out.write(written)
        out.flush()
        os.fsync(out.fileno())
    new.replace(file)
