"""The people of the broker alerts: users who state what they want, and a market that publishes prices.

    python examples/broker_alerts/people.py --users 1000 --prices 500
    python examples/broker_alerts/people.py --hear 3

A user states a filter by publishing it, under a key of its own, to live forever; and hears its alerts by
subscribing to its own topic. A seed makes everything again.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Iterator

import tidings
from tidings.model.event import FOREVER, Event, make_event

BROKERS = "tidings://127.0.0.1:7117,tidings://127.0.0.1:7118"
SYMBOLS = 50  # at least
USERS_EACH = 200  # users of a symbol, where there are many: a price is then told to some hundred of them
PART = 2_000  # events that are staged together


def symbols(users: int) -> int:
    return max(SYMBOLS, users // USERS_EACH)


def wishes(users: int, seed: int) -> Iterator[Event]:
    """What each user wants to hear of."""
    rng, known = random.Random(f"{seed} users"), symbols(users)
    for number in range(users):
        user = f"user{number}"
        filter = f"symbol = 'S{rng.randrange(known)}' AND price > {rng.uniform(50, 150):.2f}"
        yield make_event(
            {"name": "alert", "filter": filter},
            source=user, id="alert-1", topic="subscriptions/prices", key=f"{user}/alert", lifetime=FOREVER,
        )  # fmt: skip


def prices(count: int, seed: int, users: int = 0) -> Iterator[Event]:
    rng, known = random.Random(f"{seed} prices"), symbols(users)
    for number in range(count):
        symbol = f"S{rng.randrange(known)}"
        yield make_event(
            {"symbol": symbol, "price": round(rng.gauss(100, 25), 2)},
            source="market", id=f"tick{number}", topic=f"prices/{symbol}", lifetime=3600.0,
        )  # fmt: skip


async def publish(bus: tidings.Bus, name: str, events: Iterator[Event]) -> int:
    """In large parts: a million users are stated in seconds, not in a million round trips."""
    count = batch = 0
    part: list[Event] = []
    for event in events:
        part.append(event)
        if len(part) == PART:
            count, batch, part = count + len(part), await _commit(bus, name, batch, part), []
    await _commit(bus, name, batch, part)
    return count + len(part)


async def _commit(bus: tidings.Bus, name: str, batch: int, part: list[Event]) -> int:
    await bus.stage(name, batch, 0, part)
    await bus.commit_staged(name, batch, 1)
    return batch + 1


async def listen(bus: tidings.Bus, user: str, patience: float = 1.0) -> None:
    """Print what the user was told, until a second passes without news. Who comes after the fact is told from
    the log, which is read for it: with a million users give the first news more patience."""
    async with bus.subscribe(topic=f"alerts/{user}") as alerts:
        try:
            while True:
                event = await alerts.get(timeout=patience)
                patience = 1.0
                print(f"{user}: {event['symbol']} at {event['price']}", flush=True)
        except TimeoutError:
            return


async def main(brokers: str, users: int, count: int, hear: int, seed: int, patience: float) -> None:
    first, *rest = brokers.split(",")
    if hear:
        for number in range(hear):
            async with tidings.connect(first, name=f"user{number}") as bus:
                await listen(bus, f"user{number}", patience)
        return
    async with (
        tidings.connect(first, name="people") as one,
        tidings.connect((rest or [first])[0], name="market") as two,
    ):
        print(await publish(one, f"users {seed}", wishes(users, seed)), "users stated what they want")
        print(await publish(two, f"prices {seed}", prices(count, seed, users)), "prices were published")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", default=BROKERS)
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--prices", type=int, default=500)
    parser.add_argument("--hear", type=int, default=0, help="print what the first users were told")
    parser.add_argument("--patience", type=float, default=1.0, help="seconds to wait for the first alert")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    asyncio.run(main(given.brokers, given.users, given.prices, given.hear, given.seed, given.patience))
