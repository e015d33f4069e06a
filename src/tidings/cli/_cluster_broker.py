"""One broker of `tidings cluster up`: on this machine alone, open to whoever is on it.

The only way to a broker that asks nobody who they are. It ends with the process that started it.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from tidings.cli._output import guarded


def main(name: str, listen: str, join: str, store: str, http: str) -> None:
    from tidings.cli.broker import run_service
    from tidings.runtime.service import Service
    from tidings.runtime.settings import read_settings

    said: dict[str, Any] = {"name": name, "listen": listen, "security.anonymous": True}
    said |= {"join": [join] if join else [], "store": store, "http": http, "log.level": "warning"}
    service = Service(read_settings(said=said))
    threading.Thread(target=_watch, args=(service,), daemon=True).start()
    run_service(service, as_json=True)


def _watch(service: Any) -> None:
    """Standard input ends when whoever started this is gone, however it went."""
    while os.read(0, 1024):  # not by `sys.stdin`, which a thread may not hold when the process ends
        continue
    service.server.stop_soon()


if __name__ == "__main__":
    sys.exit(guarded(lambda: main(*sys.argv[1:])))
