"""One broker of a development cluster: on this machine alone, open to all its users.

    python -m tidings.runtime.development '{"name": "b1", "listen": "127.0.0.1:0"}'

Only this module starts a broker without authentication. It ends with the process that started it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable

from tidings.errors import TidingsError
from tidings.runtime.process import run
from tidings.runtime.server import Server
from tidings.runtime.service import GatewaySet, Service
from tidings.runtime.settings import read_settings


def main(text: str, listeners: Callable[[Service], GatewaySet] | None = None) -> int:
    try:
        settings = read_settings(fields={"security.anonymous": True, **json.loads(text)})
        service = Service(settings, gateways=listeners)

        def ready(server: Server) -> None:
            threading.Thread(target=_watch, args=(server,), daemon=True).start()
            http = service.http.address if service.http is not None else None
            gateways = service.gateways.addresses if service.gateways is not None else {}
            line = {"broker": server.name, "address": server.address, "http": http, "gateways": gateways}
            print(json.dumps(line), flush=True)

        return 0 if run(service.run(ready)) else 1
    except (TidingsError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 3


def _watch(server: Server) -> None:
    """Stop the server when standard input ends: the process that started this one is gone, also after a
    crash."""
    while os.read(0, 1024):  # not by `sys.stdin`, which a thread may not hold when the process ends
        continue
    server.stop_soon()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
