"""The campaign behind `make soak`: everything that takes long, part by part, and a table of what was held.

    python scripts/soak.py                    every part; what has passed on this code is not run again
    python scripts/soak.py seeds chaos        some parts
    python scripts/soak.py --list             the parts, and about how long each takes on two cores
    python scripts/soak.py --share 0.01       a hundredth of the size, to see that it works

A part passes when its tests pass. What they held (events, faults, inputs, kills; lost, doubled, leaked) is added up in
`artefacts/soak/soak.json`, with a page beside it. A part that was stopped is run anew; the part `seeds` goes on where
it was stopped, since it is a sweep on Spark.
"""

from __future__ import annotations

import argparse
import html
import json
import os
import subprocess
import sys
import time
from collections import Counter
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from tidings.pipeline.sweeps import sweep  # noqa: E402

FOLDER = ROOT / "artefacts" / "soak"
SEEDS = 10_000


class Part(NamedTuple):
    name: str
    what: str
    tests: tuple[str, ...]
    minutes: float  # on two cores, about
    sizes: tuple[tuple[str, int], ...] = ()  # environment variables that `--share` makes smaller


PARTS = (
    Part("seeds", f"{SEEDS:,} simulated seeds over every system, at least ten faults each, on Spark", (), 20),
    Part("simulation", "the other long simulations", ("tests/simulation", "tests/scenarios", "tests/papers"), 60),
    Part("chaos", "five broker processes until a million publishes are acknowledged", ("tests/chaos/test_network.py",), 40, (("TIDINGS_CHAOS_ACKNOWLEDGED", 1_000_000),)),
    Part("power", "power cuts: 200 kills in the middle of commits", ("tests/chaos/test_store_kill.py", "tests/chaos/test_embedded_kill.py"), 20),
    Part("rot", "every byte of a segment flipped", ("tests/chaos/test_store_rot.py",), 10),
    Part("fuzz", "every parser fuzzed, by coverage", ("tests/fuzz", "tests/gateway/test_schema.py"), 60, (("TIDINGS_FUZZ_SECONDS", 300),)),
    Part("rights", "a million permission triples", ("tests/properties/test_security_permissions.py",), 5),
    Part("properties", "the other properties, many more examples", ("tests/properties",), 30),
    Part("processes", "memory, half-open connections, lossy UDP, peers", ("tests/chaos/test_memory.py", "tests/chaos/test_broker_process.py", "tests/chaos/test_udp_loss.py", "tests/unit/runtime"), 30, (("TIDINGS_UDP_EVENTS", 100_000),)),
    Part("spark", "50 kills of workers, drivers and brokers in mid-batch; long Spark tests", ("tests/pipeline", "tests/meeting"), 90, (("TIDINGS_KILLS", 50),)),
    Part("studies", "long tests of the studies", ("tests/unit/studies",), 30),
    Part("defects", "seeded defects that the suite has to notice", ("tests/mutation",), 60),
)  # fmt: skip


def code() -> str:
    """What is judged: a digest of everything that a part depends on."""
    digest = blake2b(digest_size=8)
    for folder in ("src", "tests"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()


# -- running


def run(part: Part, share: float) -> dict[str, Any]:
    began = time.monotonic()
    held = run_seeds(share) if part.name == "seeds" else run_tests(part, share)
    return {
        "part": part.name,
        "what": part.what,
        "code": code(),
        "share": share,
        "seconds": round(time.monotonic() - began),
        **held,
    }


def run_seeds(share: float) -> dict[str, Any]:
    from rich.progress import Progress
    from tests.simulation._campaign import campaign_seed

    from tidings.pipeline.session import session

    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    spark = session(config={"spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"]}, quick=True)
    count = max(1, int(SEEDS * share))
    with Progress() as shown:
        task = shown.add_task("seeds", total=count)
        told = time.monotonic()

        def advance(finished: int) -> None:
            nonlocal told
            shown.advance(task, finished)
            if not shown.console.is_terminal and time.monotonic() > told + 60:
                told = time.monotonic()
                print(f"       {shown.tasks[task].completed:,.0f} of {count:,} seeds", flush=True)

        done = sweep(
            campaign_seed, [(number,) for number in range(count)], folder=FOLDER / "seeds", spark=spark,
            progress=advance,
        )  # fmt: skip
    spark.stop()
    bad = [each.point[0] for each in done if each.error is not None or each.result["broken"]]
    faults = sum(each.result["faults"] for each in done if each.result is not None)
    return {
        "passed": not bad,
        "held": {"seeds": count, "faults": faults, "broken": len(bad)},
        "bad seeds": bad[:50],
    }


def run_tests(part: Part, share: float) -> dict[str, Any]:
    told = FOLDER / f"{part.name}.figures"
    told.unlink(missing_ok=True)
    sizes = {name: str(max(1, int(size * share))) for name, size in part.sizes}
    log = FOLDER / f"{part.name}.log"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-s",
        "-m",
        "soak",
        "--timeout",
        "0",
        "-p",
        "no:cacheprovider",
        *part.tests,
    ]
    with log.open("w") as out:
        done = subprocess.run(
            command,
            cwd=ROOT,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **sizes, "TIDINGS_FIGURES": str(told), "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
            check=False,
        )  # fmt: skip
    lines = log.read_text().strip().splitlines() or [""]
    return {
        "passed": done.returncode == 0,
        "held": added_up(told),
        "said": lines[-1],
        "log": str(log.relative_to(ROOT)),
    }


def added_up(told: Path) -> dict[str, float]:
    held: Counter[str] = Counter()
    if told.exists():
        for line in told.read_text().splitlines():
            held.update({name: value for name, value in json.loads(line).items() if name != "test"})
    return dict(held)


# -- what is kept


def kept() -> dict[str, dict[str, Any]]:
    file = FOLDER / "soak.json"
    return {each["part"]: each for each in json.loads(file.read_text())["parts"]} if file.exists() else {}


def keep(results: dict[str, dict[str, Any]]) -> None:
    ordered = [results[part.name] for part in PARTS if part.name in results]
    (FOLDER / "soak.json").write_text(json.dumps({"parts": ordered}, indent=1) + "\n")
    rows = "".join(
        "<tr class={}><td>{}<td>{}<td>{}<td>{} s<td>{}".format(
            "good" if each["passed"] else "bad",
            html.escape(each["part"]),
            html.escape(each["what"]),
            "passed" if each["passed"] else "FAILED",
            each["seconds"],
            html.escape(
                ", ".join(f"{name} {value:,}" for name, value in each["held"].items()) or each.get("said", "")
            ),
        )
        for each in ordered
    )
    style = "body{font:16px system-ui;margin:2rem auto;max-width:70rem}td,th{text-align:left;padding:.4rem 1rem;border-bottom:1px solid #8884}.bad{color:#b00020}"
    (FOLDER / "index.html").write_text(
        f"<!doctype html><meta charset=utf-8><title>Soak</title><style>{style}</style><h1>What was held</h1>"
        f"<table><tr><th>part<th>what<th>verdict<th>time<th>held{rows}</table>\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help="all, when none is named")
    parser.add_argument("--list", action="store_true", help="name the parts")
    parser.add_argument("--share", type=float, default=1.0, help="of the full size")
    parser.add_argument("--again", action="store_true", help="also what has passed on this code")
    wanted = parser.parse_args()
    names = [part.name for part in PARTS]
    if unknown := set(wanted.parts) - set(names):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    if wanted.list:
        for part in PARTS:
            print(f"{part.name:<12} {part.minutes:>3.0f} min  {part.what}")
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    results, now = kept(), code()
    chosen = [part for part in PARTS if part.name in (wanted.parts or names)]
    left = [
        part for part in chosen
        if wanted.again or (known := results.get(part.name)) is None
        or not known["passed"] or known["code"] != now or known["share"] < wanted.share
    ]  # fmt: skip
    for number, part in enumerate(left):
        rest = sum(each.minutes for each in left[number:]) * wanted.share
        print(
            f"{time.strftime('%H:%M')}  {part.name}: {part.what} (about {rest:.0f} minutes left)", flush=True
        )
        found = run(part, wanted.share)
        results = {**kept(), part.name: found}  # another campaign may have finished parts meanwhile
        keep(results)
        print(
            f"       {'passed' if results[part.name]['passed'] else 'FAILED'}: {results[part.name]['held']}",
            flush=True,
        )
    failed = [name for name in results if not results[name]["passed"]]
    print(
        f"{FOLDER.relative_to(ROOT)}/soak.json: "
        + (f"FAILED: {', '.join(failed)}" if failed else "everything held")
    )
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
