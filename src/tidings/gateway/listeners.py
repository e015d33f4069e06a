"""The gateways of one broker: those that its settings open.

service = Service(settings, doors=Gateways)
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import nullcontext
from pathlib import Path
from typing import Protocol

from tidings.errors import ExtensionError, SettingsError, needing
from tidings.extensions import blaming, call, offered, package_of
from tidings.gateway.authentication import GatewayAuthenticator
from tidings.gateway.origins import Addresses
from tidings.runtime.service import Service

log = logging.getLogger("tidings.broker")

GROUP = "tidings.gateways"
OWN = ("http", "mqtt", "mqtt over websocket")


class Gateway(Protocol):
    @property
    def address(self) -> str: ...

    async def start(self) -> None: ...

    async def close(self) -> None: ...


class Gateways:
    """Opens and closes them together."""

    def __init__(self, service: Service) -> None:
        self.addresses: dict[str, str] = {}
        self._service = service
        self._open: list[tuple[str, Gateway]] = []
        guard = service.secured.guard
        self.prover = GatewayAuthenticator(
            service.secured.authenticator,
            service.server.clock.now,
            lambda: guard.version,
            service.secured.refreshed,
            service.secured.key_of,
        )

    async def start(self) -> None:
        try:
            for name, gateway in self._chosen():
                with blaming(GROUP, name) if name in offered(GROUP, OWN) else nullcontext():
                    await gateway.start()
                    self._open.append((name, gateway))
                    if not isinstance(address := gateway.address, str):
                        raise TypeError(f"address is {address!r}, no text")
                if address:
                    self.addresses[name] = address
        except BaseException:
            await self.close()
            raise

    def _chosen(self) -> list[tuple[str, Gateway]]:
        settings, server = self._service.settings, self._service.server
        subscription = self._service.tls
        folder = Path(settings.store) if settings.store else None
        limits = settings.resources
        chosen: list[tuple[str, Gateway]] = []
        if settings.gateway.http:
            with needing("the HTTP gateway"):
                from tidings.gateway.http import HttpListener
            guard = self._service.secured.guard
            http = HttpListener(server, self.prover, folder, settings.gateway, subscription, limits, guard)
            self._service.administration.webhooks = http.webhooks
            chosen.append(("http", http))
        if settings.gateway.mqtt or settings.gateway.mqtt_websocket:
            with needing("the MQTT gateway"):
                from tidings.gateway.mqtt.listener import MqttListener

            scope = self._service.secured.guard.group_scope
            listener = MqttListener(
                server, self.prover, scope, settings.gateway.mqtt, folder, subscription, limits.client
            )
            chosen.append(("mqtt", listener))
            if settings.gateway.mqtt_websocket:
                with needing("the MQTT gateway over WebSocket"):
                    from tidings.gateway.mqtt.websocket import MqttWebSocketListener

                given = settings.gateway
                where = Addresses(given.mqtt_websocket, given.hosts, given.origins)
                chosen.append(
                    ("mqtt over websocket", MqttWebSocketListener(server, listener, where, subscription))
                )
        for name, table in settings.gateway.extensions.items():
            if name not in offered(GROUP, OWN):
                known = ", ".join(offered(GROUP, OWN)) or "none"
                raise SettingsError(
                    f"gateway.extensions.{name}: no extension offers it", hint=f"installed: {known}"
                )
            chosen.append((name, call(GROUP, name, self._service, self.prover, table, gives=Gateway)))
        return chosen

    async def close(self) -> None:
        opened, self._open = self._open, []
        for name, gateway in reversed(opened):
            if name in offered(GROUP, OWN):
                await self._close_extension(name, gateway)
            else:
                await gateway.close()
        self.prover.close()

    async def _close_extension(self, name: str, gateway: Gateway) -> None:
        """Close a gateway of another package, within `drain_seconds`. Its error is logged: the broker ends
        whatever the gateway does."""
        seconds = self._service.settings.drain_seconds

        async def close() -> None:
            with blaming(GROUP, name):
                await gateway.close()

        closing = asyncio.create_task(close())
        await asyncio.wait({closing}, timeout=seconds)
        if not closing.done():
            closing.cancel()
            package = package_of(GROUP, name)
            said = "package %s offers gateway %r, which was not closed within drain_seconds (%g); it is left"
            log.error(said, package, name, seconds)
        elif isinstance(error := closing.exception(), ExtensionError):
            log.error("%s", error.message)
        elif error is not None:
            raise error
