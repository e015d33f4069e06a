"""Child of the outbox tests: an application that writes orders, or a relay.

python _outbox_child.py app DATABASE FIRST LAST     prints each order that is committed
python _outbox_child.py relay DATABASE BROKER       prints `ready`, then relays
"""

from __future__ import annotations

import sys

import sqlalchemy as sa

import tidings
from tidings import outbox as ob
from tidings.runtime.connection import NetworkSettings

METADATA = sa.MetaData()
ORDERS = sa.Table("orders", METADATA, sa.Column("number", sa.Integer, primary_key=True, autoincrement=False))
OUTBOX = ob.Outbox(METADATA, source="shop")
QUICK = NetworkSettings(retry_seconds=0.02, slow_retry_seconds=0.3)


def engine_of(database: str) -> sa.Engine:
    waits = {"timeout": 120} if database.startswith("sqlite") else {}
    return sa.create_engine(database, connect_args=waits)


def app(database: str, first: int, last: int) -> None:
    engine = engine_of(database)
    for number in range(first, last):
        with engine.begin() as connection:
            connection.execute(ORDERS.insert().values(number=number))
            connection.execute(OUTBOX.insert({"order": number}, topic="orders"))
            if number % 7 == 3:
                connection.rollback()
                continue
        print(number, flush=True)


def relay(database: str, broker: str) -> None:
    with tidings.open(broker, name="relay", network=QUICK, call_timeout=2.0) as bus:
        print("ready", flush=True)
        ob.OutboxRelay(engine_of(database), OUTBOX, bus, batch=16).run(poll=0.01, retry=0.01)


if __name__ == "__main__":
    kind, *words = sys.argv[1:]
    if kind == "app":
        app(words[0], int(words[1]), int(words[2]))
    else:
        relay(words[0], words[1])
