"""A broker of ours as a process of the benchmark: on loopback, open to all users of this machine.

    python -m tidings_bench.broker.serving FOLDER NAME [STORE [JOIN]]

It is `tidings broker` as an operator runs it, guard, quotas, audit and trace included; only its users file
lets anonymous clients do everything, with quotas that a thousand connections fit in.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tidings.runtime.process import run
from tidings.runtime.service import Service
from tidings.runtime.settings import BrokerSettings, LogSettings, SecuritySettings, TlsSettings

USERS = """
[[allow]]
who = "anonymous"
action = ["publish", "subscribe", "observe"]

[quota]
connections = 1000000
subscriptions = 10000000
constraints = 100000000
bytes_per_second = 10000000000
burst_bytes = 10000000000
stored_bytes = 1000000000000
"""


def main(words: list[str]) -> int:
    folder, name, store, join, *tls = [*words, "", ""][: max(4, len(words))]
    users = Path(folder) / f"{name}-users.toml"
    users.write_text(USERS, encoding="utf-8")
    audit = str(Path(folder) / f"{name}-audit.jsonl")
    # Made directly: settings from a file refuse an open broker beside a users file.
    settings = BrokerSettings(
        name=name,
        listen="127.0.0.1:0",
        store=store,
        join=(join,) if join else (),
        security=SecuritySettings(anonymous=True, users=str(users), audit=audit),
        tls=TlsSettings(**dict(zip(("certificate", "key", "authority"), tls, strict=False))),
        log=LogSettings(level="warning"),
    )
    return 0 if run(Service(settings).run()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
