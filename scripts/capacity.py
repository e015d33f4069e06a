"""The capacity model of docs/scaling.md: predictions from measured costs, and checks of them.

    python scripts/capacity.py                                  # the table for 10^3 to 10^9 subscriptions
    python scripts/capacity.py --check here                     # costs at three sizes on this machine
    python scripts/capacity.py --check simulation --brokers 100,1000

Rules
- A check calibrates on the smaller sizes and predicts the largest; it prints both, and never adjusts.
- CPU is the loop's own time, memory the resident set: other work on the machine changes them little.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import time
from random import Random

import msgspec


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """Measured costs; docs/scaling.md names the source of each."""

    subscription_bytes: float = 3_700  # at its broker, over TCP
    interest_bytes: float = 900  # of a filter that no other covers, at each further broker that knows it
    cursor_bytes: float = 350  # of one subscription over one log
    publish_us: float = 15.0  # CPU of the broker for an event without matches, in batches
    delivery_us: float = 47.0  # CPU of the broker for a delivery to a connection of its own
    hop_us: float = 22.0  # CPU of one broker for one event that it forwards over one link
    event_bytes: float = 300.0  # on a link and in the log, beside the payload
    core_share: float = 0.7  # of a core that a broker may be busy with


COSTS = Costs()


def subtree_shares(overlay: object) -> list[float]:
    """For each link of a tree: the share of brokers on one side."""
    links: dict[str, list[str]] = {}
    for one, other in overlay.links:  # type: ignore[attr-defined]
        links.setdefault(one, []).append(other)
        links.setdefault(other, []).append(one)
    root = overlay.brokers[0]  # type: ignore[attr-defined]
    order, parent = [root], {root: ""}
    for broker in order:
        for other in links.get(broker, []):
            if other != parent[broker]:
                parent[other] = broker
                order.append(other)
    size = dict.fromkeys(order, 1)
    for broker in reversed(order[1:]):
        size[parent[broker]] += size[broker]
    return [size[broker] / len(order) for broker in order[1:]]


def hops_over(shares: list[float], targets: float) -> float:
    """Links that an event crosses, from a random broker to so many random ones: a link with the share `a` on
    one side is crossed when the publisher and some target are apart."""
    return sum(a * (1 - a**targets) + (1 - a) * (1 - (1 - a) ** targets) for a in shares)


def predict(
    subscriptions: float, brokers: int, rate: float, matches: float, distinct: float
) -> dict[str, float]:
    """Needs of one broker of so many: `rate` events a second in all, `matches` deliveries of each, and
    `distinct` filters that no other covers as a share of all."""
    own = subscriptions / brokers
    targets = min(matches, brokers)
    hops = 0.0 if brokers == 1 else hops_over(balanced_shares(brokers), targets)
    memory = own * (COSTS.subscription_bytes + brokers * COSTS.cursor_bytes)
    memory += (subscriptions - own) * distinct * COSTS.interest_bytes
    cpu = rate / brokers * COSTS.publish_us + rate * matches / brokers * COSTS.delivery_us
    cpu += rate * hops / brokers * COSTS.hop_us * 2  # one end sends, one receives
    return {
        "subscriptions": subscriptions,
        "brokers": brokers,
        "memory_gb": round(memory / 1e9, 2),
        "cores": round(cpu / 1e6 / COSTS.core_share, 2),
        "hops": round(hops, 1),
        "link_mbit": round(rate * hops / max(1, brokers - 1) * (COSTS.event_bytes + 200) * 8 / 1e6, 3),
    }


def balanced_shares(brokers: int, children: int = 9) -> list[float]:
    """The same for a balanced tree, whose links are known without a simulation."""
    size = [1] * brokers
    for number in range(brokers - 1, 0, -1):
        size[(number - 1) // children] += size[number]
    return [behind / brokers for behind in size[1:]]


# -- checks ----------------------------------------------------------------------------------------------


async def cost_of(subscriptions: int) -> dict[str, float]:
    """Memory and CPU of one embedded broker with so many subscriptions of prices by symbol."""
    import tidings

    rng, base = Random(7), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with tidings.connect() as bus:
        for number in range(subscriptions):
            filter = f"symbol = 'S{rng.randrange(subscriptions)}' AND price < {rng.randrange(1, 100)}"
            await bus.subscribe(filter, name=f"n{number}").open()
        memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) * 1024
        events = [
            {"symbol": f"S{rng.randrange(subscriptions)}", "price": rng.random() * 100} for _ in range(4000)
        ]
        await bus.publish_many(events[:1000])
        began = time.thread_time()  # kernels compile in a thread of their own
        await bus.publish_many(events[1000:])
        return {
            "subscriptions": subscriptions,
            "megabytes": round(memory / 1e6, 1),
            "us_per_event": round((time.thread_time() - began) / 3000 * 1e6, 1),
        }


def check_here(sizes: list[int]) -> None:
    rows = []
    for size in sizes:
        command = [sys.executable, __file__, "--cost", str(size)]
        rows.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        print(json.dumps(rows[-1]), flush=True)
    first, *_, before, last = rows
    steps = (last["subscriptions"] - before["subscriptions"]) / (
        before["subscriptions"] - first["subscriptions"]
    )
    grown = before["megabytes"] + steps * (before["megabytes"] - first["megabytes"])
    predicted = {"megabytes": round(grown, 1), "us_per_event": before["us_per_event"]}  # each matches as many
    print(json.dumps({"predicted": predicted, "measured": {name: last[name] for name in predicted}}))


def check_simulation(sizes: list[int], subscriptions: int, events: int) -> None:
    from tidings.simulation.topology import random_tree

    for brokers in sizes:
        command = [
            sys.executable,
            "-m",
            "tidings",
            "simulate",
            "tidings",
            "--brokers",
            str(brokers),
            "--json",
        ]
        command += ["--subscriptions", str(subscriptions), "--events", str(events), "--seed", "1"]
        began = time.monotonic()
        done = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        matches = done["delivered"] / done["published"]
        shares = subtree_shares(random_tree(brokers, Random(1)))
        row = {
            "brokers": brokers,
            "matches": round(matches, 2),
            "hops": round(done["messages"]["Forward"] / done["published"], 2),
            "predicted_hops": round(hops_over(shares, matches), 2),
            "predicted_balanced": round(hops_over(balanced_shares(brokers), matches), 2),
            "cursors": subscriptions * (brokers - 1),
            "replay_messages": sum(n for name, n in done["messages"].items() if name.startswith("Replay")),
            "interest_messages": done["messages"]["Interest"],
            "holds": done["properties"]["completeness"]["holds"],
            "seconds": round(time.monotonic() - began),
        }
        print(json.dumps(row), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", choices=["here", "simulation"])
    parser.add_argument("--sizes", default="8000,16000,32000")
    parser.add_argument("--brokers", default="100,1000")
    parser.add_argument("--subscriptions", type=int, default=50)
    parser.add_argument("--events", type=int, default=200)
    parser.add_argument("--cost", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.cost:
        print(json.dumps(asyncio.run(cost_of(given.cost))))
    elif given.check == "here":
        check_here([int(size) for size in given.sizes.split(",")])
    elif given.check == "simulation":
        check_simulation([int(size) for size in given.brokers.split(",")], given.subscriptions, given.events)
    else:
        for subscriptions in (1e3, 1e5, 1e6, 1e7, 1e8, 1e9):
            for brokers in (1, 10, 100, 1_000, 10_000):
                print(json.dumps(predict(subscriptions, brokers, rate=1e4, matches=3, distinct=0.01)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
