"""Make the data of the price alerts: users with filters, and prices. A seed makes it again."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

SYMBOLS = 2000
FILES = 8


def users(count: int, seed: int) -> pa.Table:
    """Each user watches one symbol: a fall below or a rise above a price, or a large move."""
    rng = np.random.default_rng([seed, 1])
    symbol = rng.integers(0, SYMBOLS, count)
    bound = np.round(rng.normal(100, 25, count), 2)
    kind = rng.integers(0, 3, count)
    texts = [
        (f"symbol = 'S{s}' AND price < {b - 40:.2f}",
         f"symbol = 'S{s}' AND price > {b + 40:.2f}",
         f"symbol = 'S{s}' AND (change > 4.5 OR change < -4.5) AND volume >= 5000")[k]
        for s, b, k in zip(symbol.tolist(), bound.tolist(), kind.tolist(), strict=True)
    ]  # fmt: skip
    names = [f"user{n}" for n in range(count)]
    return pa.table({"id": [f"{name}/alert" for name in names], "subscriber": names, "filter": texts})


def prices(count: int, seed: int) -> pa.Table:
    rng = np.random.default_rng([seed, 2])
    return pa.table(
        {
            "id": [f"tick-{n}" for n in range(count)],
            "symbol": [f"S{s}" for s in rng.integers(0, SYMBOLS, count)],
            "price": np.round(rng.normal(100, 25, count), 2),
            "change": np.round(rng.normal(0, 2, count), 3),
            "volume": rng.integers(1, 10_000, count),
        }
    )


def make(folder: Path, *, user_count: int, price_count: int, seed: int = 1) -> None:
    for name in ("users", "prices"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    parquet.write_table(users(user_count, seed), folder / "users" / "users.parquet")
    ticks = prices(price_count, seed)
    size = -(-price_count // FILES)
    for number in range(FILES):
        parquet.write_table(ticks.slice(number * size, size), folder / "prices" / f"prices-{number}.parquet")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--prices", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--to", type=Path, default=Path(__file__).parent / "data")
    wanted = parser.parse_args()
    make(wanted.to, user_count=wanted.users, price_count=wanted.prices, seed=wanted.seed)
    print(f"{wanted.users:,} users and {wanted.prices:,} prices are in {wanted.to}")
