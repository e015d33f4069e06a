"""One broker process of a unit (`tidings broker --processes`): the supervisor writes its task to standard
input.

It ends with the supervisor: standard input ends when that is gone, also after a crash.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec

from tidings.console.listeners import ConsoleGateways
from tidings.errors import TidingsError
from tidings.runtime.authority import with_revoked
from tidings.runtime.process import run
from tidings.runtime.server import Server
from tidings.runtime.service import Service
from tidings.runtime.settings import BrokerSettings, read_settings
from tidings.runtime.unit import UnitMember


def main() -> int:
    try:
        task = _read_task()
        service = _service(task)

        def ready(server: Server) -> None:
            threading.Thread(target=_watch, args=(server,), daemon=True).start()
            gateways = service.gateways.addresses if service.gateways is not None else {}
            http = service.http.address if service.http is not None else None
            line = {"broker": server.name, "address": server.address, "http": http, "gateways": gateways}
            print(json.dumps(line), flush=True)

        return 0 if run(service.run(ready)) else 1
    except (TidingsError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 3


def _service(task: dict[str, Any]) -> Service:
    unit = task["unit"] | {"secret": base64.b64decode(task["unit"]["secret"])}
    config = Path(task["config"]) if task["config"] else None
    certs = Path(task["certs"]) if task["certs"] else None

    def read() -> BrokerSettings:
        return with_revoked(
            lambda stated: read_settings(config, environment=os.environ, fields=stated), task["said"], certs
        )

    return Service(read(), again=read, gateways=ConsoleGateways, unit=msgspec.convert(unit, UnitMember))


def _read_task() -> dict[str, Any]:
    """One line of standard input, which stays open; not by `sys.stdin`, which would read ahead."""
    line = b""
    while not line.endswith(b"\n"):
        some = os.read(0, 65_536)
        if not some:
            raise OSError("the supervisor is gone")
        line += some
    task: dict[str, Any] = json.loads(line)
    return task


def _watch(server: Server) -> None:
    while os.read(0, 1024):
        continue
    server.stop_soon()


if __name__ == "__main__":
    sys.exit(main())
