"""A broker with its gateways, in this process, on free ports."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tidings.gateway.listeners import Gateways
from tidings.protocol.limits import ResourceLimits
from tidings.runtime.connection import NetworkSettings
from tidings.runtime.service import Service
from tidings.runtime.settings import BrokerSettings, GatewaySettings, SecuritySettings
from tidings.security.scram import make_key

USERS = f"""
[users.ann]
password = "{make_key("a", iterations=4096)}"
filter = "level < 5"
[users.market]
password = "{make_key("m", iterations=4096)}"
names = ["/quotes*"]
[users.slow]
password = "{make_key("s", iterations=4096)}"
quota = {{ bytes_per_second = 20_000, burst_bytes = 20_000 }}
[users.idle]
password = "{make_key("i", iterations=4096)}"
[[allow]]
who = "ann"
action = "subscribe"
filter = "topic = 'quotes/#'"
[[allow]]
who = ["market", "slow"]
action = ["publish", "subscribe"]
"""


@asynccontextmanager
async def broker(
    folder: Path | None = None,
    *,
    users: bool = False,
    network: NetworkSettings | None = None,
    resources: ResourceLimits | None = None,
    **gateway: Any,
) -> AsyncIterator[Service]:
    """A broker that lets anybody in from this machine, or by the users file above."""
    security = SecuritySettings(anonymous=True)
    if users:
        assert folder is not None
        (folder / "users.toml").write_text(USERS)
        security = SecuritySettings(users=str(folder / "users.toml"))
    settings = BrokerSettings(
        name="b1",
        listen="127.0.0.1:0",
        store=str(folder / "store") if folder is not None else "",
        security=security,
        gateway=GatewaySettings(**gateway),
        network=network or NetworkSettings(),
        resources=resources or ResourceLimits(),
    )
    async with Service(settings, gateways=Gateways) as service:
        yield service
