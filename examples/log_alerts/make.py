"""Make the data of the log alerts: what teams ask for, and logs with a broken line among them."""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet

TEAMS = {
    "payments": "topic MATCHES 'shop/payments/#' AND severity >= 4",
    "search": "topic MATCHES 'shop/search/+/query' AND severity >= 5",
    "on-call": "severity >= 6",
    "security": "text LIKE '%denied%' OR topic MATCHES 'auth/#' AND severity >= 3",
    "database": "host IN ('db-1', 'db-2') AND severity >= 4 AND NOT text LIKE '%checkpoint%'",
}
TOPICS = ("shop/payments/card", "shop/payments/refund", "shop/search/eu/query", "auth/login", "infra/disk")
TEXTS = ("request took long", "access denied", "checkpoint complete", "connection reset", "disk is full")


def lines(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    made = [
        json.dumps(
            {
                "id": f"line-{number}",
                "topic": rng.choice(TOPICS),
                "severity": min(7, int(rng.expovariate(0.5))),
                "host": f"{rng.choice(('web', 'db'))}-{rng.randrange(1, 4)}",
                "text": rng.choice(TEXTS),
            }
        )
        for number in range(count)
    ]
    made[count // 2] = '{"id": "torn", "topic": "shop/pay'  # logs are like that
    return made


def make(folder: Path, *, line_count: int, seed: int = 1) -> None:
    for name in ("teams", "logs"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    table = pa.table({"id": list(TEAMS), "subscriber": list(TEAMS), "filter": list(TEAMS.values())})
    parquet.write_table(table, folder / "teams" / "teams.parquet")
    (folder / "logs" / f"logs-{seed}.jsonl").write_text("\n".join(lines(line_count, seed)) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1, help="another seed adds another file of logs")
    parser.add_argument("--to", type=Path, default=Path(__file__).parent / "data")
    wanted = parser.parse_args()
    make(wanted.to, line_count=wanted.lines, seed=wanted.seed)
    print(f"{wanted.lines:,} lines are in {wanted.to}")
