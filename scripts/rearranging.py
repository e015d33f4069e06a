"""Eight broker processes on this machine, a skewed workload, and the overlay before and after.

    python scripts/rearranging.py --folder pictures

The same subscriptions and events twice, on brokers of the system `fewer-hops`: with `rearrange = false` their
links stay as they are; then they swap links by the hops that this saves. Two pictures show the overlay,
brokers coloured by what they want; the last line is JSON with the hops per event, as the brokers counted
them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import tidings
from tidings.runtime.cluster import Cluster

BROKERS = 8
HOT = ("b2", "b6", "b7", "b8")  # want the left of the square, where most events are; far apart at first
SHARE = 0.8  # of the events that are there
PAUSE = 1.5  # seconds for subscriptions to be known everywhere, and for swaps


def boxes(broker: str, rng: Random) -> list[str]:
    """Interest of a broker's clients: three boxes on its side of the square."""
    left = 0.0 if broker in HOT else 0.5
    found = []
    for _ in range(3):
        x, y = left + rng.uniform(0.0, 0.2), rng.uniform(0.0, 0.4)
        found.append(f"x BETWEEN {x:.3f} AND {x + 0.28:.3f} AND y BETWEEN {y:.3f} AND {y + 0.5:.3f}")
    return found


def event(rng: Random) -> dict[str, float]:
    side = 0.0 if rng.random() < SHARE else 0.5
    return {"x": side + rng.uniform(0.0, 0.5), "y": rng.random()}


async def figures(buses: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: await bus.inquire() for name, bus in buses.items()}


async def run(rearrange: bool, events: int, seed: int) -> dict[str, Any]:
    """One cluster: links, hops per event and swaps at the end."""
    rng = Random(seed)
    settings = {"system": "fewer-hops", "rearrange": rearrange}
    async with Cluster(BROKERS, fields=settings) as cluster, AsyncExitStack() as stack:
        buses: dict[str, Any] = {}
        for member in cluster.members:
            bus = tidings.connect(member.address, name=f"at-{member.name}")
            buses[member.name] = await stack.enter_async_context(bus)
        for number in range(3):
            for name, bus in buses.items():
                wanted = boxes(name, Random(f"{seed}/{name}"))[number]
                await stack.enter_async_context(bus.subscribe(wanted, policy="drop oldest"))
                for _ in range(3):
                    await rng.choice(list(buses.values())).publish(event(rng))
            await asyncio.sleep(PAUSE)
        before = await figures(buses)
        for _ in range(events):
            await rng.choice(list(buses.values())).publish(event(rng))
        await asyncio.sleep(PAUSE)
        after = await figures(buses)
    crossed = sum(after[name]["events over links"] - before[name]["events over links"] for name in buses)
    return {
        "rearranged": rearrange,
        "links": sorted({tuple(sorted((name, peer))) for name in after for peer in after[name]["links"]}),
        "hops": crossed / events,
        "swaps": sum(after[name].get("swaps done", 0) for name in after),
    }


def draw(found: dict[str, Any], path: Path) -> None:
    """The overlay as a tree from b1 down."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    table: dict[str, list[str]] = {}
    for a, b in found["links"]:
        table.setdefault(a, []).append(b)
        table.setdefault(b, []).append(a)
    positions: dict[str, tuple[float, float]] = {}
    across = iter(range(BROKERS))

    def place(broker: str, depth: int) -> float:
        below = [other for other in sorted(table.get(broker, ())) if other not in seen]
        seen.update(below)
        xs = [place(other, depth + 1) for other in below]
        x = sum(xs) / len(xs) if xs else float(next(across))
        positions[broker] = (x, -depth)
        return x

    seen = {"b1"}
    place("b1", 0)
    figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    for a, b in found["links"]:
        axes.plot(*zip(positions[a], positions[b], strict=True), color="0.6", zorder=1)
    for broker, (x, y) in positions.items():
        axes.scatter(x, y, s=500, color="tab:red" if broker in HOT else "tab:blue", zorder=2)
        axes.text(x, y, broker, ha="center", va="center", color="white")
    when = "after" if found["rearranged"] else "before"
    axes.set_title(f"{when}: {found['hops']:.2f} hops per event")
    axes.axis("off")
    figure.savefig(path)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("pictures"))
    parser.add_argument("--events", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-pictures", action="store_true")
    stated = parser.parse_args()
    stated.folder.mkdir(parents=True, exist_ok=True)
    results = []
    for name, rearrange in (("before", False), ("after", True)):
        print(f"{name}: eight brokers, {stated.events} events ...", flush=True)
        found = asyncio.run(run(rearrange, stated.events, stated.seed))
        results.append(found)
        if not stated.no_pictures:
            draw(found, stated.folder / f"overlay-{name}.svg")
            draw(found, stated.folder / f"overlay-{name}.png")
    fall = results[1]["hops"] / results[0]["hops"] - 1
    print(json.dumps({"runs": results, "change": round(fall, 3)}))


if __name__ == "__main__":
    main()
