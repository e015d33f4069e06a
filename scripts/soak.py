"""The campaign behind `make soak`: everything that takes long, part by part, and a table of what was held.

    python scripts/soak.py                    every part; what has passed on this code is not run again
    python scripts/soak.py seeds chaos        some parts
    python scripts/soak.py --list             the parts, and about how long each takes on two cores
    python scripts/soak.py --seed 17          examples drawn as in the campaign that printed this seed
    python scripts/soak.py --share 0.01       a hundredth of the size, to see that it works

A part passes when its tests pass. Their counts (events, faults, inputs, kills; lost, doubled, leaked) are
added up in `artefacts/soak/soak.json`, with a page beside it. A part that was stopped goes on where it was:
with the seeds, or the tests, that it had not finished on this code.

A finished part of full size is also written to `docs/campaign.json`, with the commit and a digest of the code
that it judges (`judged_code.py`): commit that file. A part counts as long as that code is unchanged, on any
machine; `make docs` puts the table into docs/reliability.md.
"""

from __future__ import annotations

import argparse
import html
import json
import os
import secrets
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT), str(ROOT / "scripts")]

from judged_code import digest  # noqa: E402
from tests.resume import passed, wanted  # noqa: E402

from tidings.pipeline.sweeps import Done, sweep  # noqa: E402

FOLDER = ROOT / "artefacts" / "soak"
RECORD = ROOT / "docs" / "campaign.json"  # parts of full size, kept with the code
SEEDS = 10_000
NOTHING_LEFT = 5  # what pytest says when every test is left out, because it has passed before
SAY_SECONDS = 60.0  # how often a part tells how far it is


class Part(NamedTuple):
    name: str
    what: str
    tests: tuple[str, ...]
    minutes: float  # on two cores, about
    sizes: tuple[tuple[str, int], ...] = ()  # environment variables that `--share` makes smaller
    judges: tuple[str, ...] = ()  # files or folders beside its tests and what they import ...
    loads: tuple[str, ...] = ()  # ... and modules that are found by their entry points
    starts_processes: bool = True  # then it judges the whole product

    def code(self) -> str:
        """Digest of the code that the part judges."""
        return digest((*self.tests, *self.judges), modules=self.loads, whole=self.starts_processes)


SYSTEMS = ("tidings_lab.systems", "tidings_lab.contracts")
EVERYTHING = ("src", "lab", "quality", "benchmarks", "tests")

PARTS = (
    Part("seeds",
        f"{SEEDS:,} simulated seeds, nine of ten of the wide world, ten faults in nearly each, on Spark", (),
        20, judges=("tests/simulation/_campaign.py",), loads=SYSTEMS, starts_processes=False),
    Part("simulation", "the other long simulations",
        ("tests/simulation", "tests/scenarios", "tests/papers", "tests/together", "lab/tests",
            "quality/tests"), 60, loads=SYSTEMS),
    Part("chaos",
        "five broker processes, with sizes, replaced and full disks and clock jumps, until a million "
        "publishes are acknowledged", ("tests/chaos/test_network.py",), 40,
        (("TIDINGS_CHAOS_ACKNOWLEDGED", 1_000_000),)),
    Part("upgrade",
        "trees and groups of the last release, upgraded and downgraded under load, by drain and by kill",
        ("tests/upgrade",), 60, (("TIDINGS_UPGRADE_ROUNDS", 20),)),
    Part("power", "power cuts: 700 kills in the middle of commits",
        ("tests/chaos/test_store_kill.py", "tests/chaos/test_embedded_kill.py"), 20),
    Part("rot", "every byte of a segment flipped", ("tests/chaos/test_store_rot.py",), 10,
        judges=("tests/chaos/_store_child.py",), starts_processes=False),
    Part("fuzz",
        "every parser fuzzed, by coverage: a million inputs each, ten millions before a login",
        ("tests/fuzz", "tests/gateway/test_schema.py"), 60,
        (("TIDINGS_FUZZ_INPUTS", 1_000_000),)),
    Part("rights", "a million permission triples", ("tests/properties/test_security_permissions.py",), 5,
        starts_processes=False),
    Part("properties", "the other properties, many more examples", ("tests/properties",), 30,
        starts_processes=False),
    Part("processes",
        "memory, half-open connections, lossy UDP, groups, lost brokers, peers, a hundred brokers in a "
        "browser", ("tests/chaos", "tests/browser", "tests/unit/runtime", "benchmarks/tests",
            "tests/gateway/test_mqtt_sessions.py"), 45,
        (("TIDINGS_UDP_EVENTS", 100_000),)),
    Part("spark", "50 kills of workers, drivers and brokers in mid-batch; long Spark tests",
        ("tests/pipeline", "tests/meeting", "tests/unit/cli"), 90, (("TIDINGS_KILLS", 50),)),
    Part("studies", "long tests of the studies", ("lab/tests/studies", "quality/tests/studies"), 30,
        judges=("lab/src/tidings_lab/studies",), loads=SYSTEMS, starts_processes=False),
    Part("defects", "every seeded defect, one test each; the suite has to notice 95 of 100",
        ("tests/mutation",), 120, judges=EVERYTHING),
)  # fmt: skip


# -- running


def run(part: Part, share: float, anew: bool) -> dict[str, Any]:
    began = time.monotonic()
    stored = run_seeds(share) if part.name == "seeds" else run_tests(part, share, anew)
    return {
        "part": part.name,
        "what": part.what,
        "code": part.code(),
        "commit": commit(),
        "share": share,
        "seconds": round(time.monotonic() - began),
        "seed": int(os.environ["TEST_SEED"]),
        **stored,
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
        delivered = time.monotonic()

        def advance(finished: int) -> None:
            nonlocal delivered
            shown.advance(task, finished)
            if not shown.console.is_terminal and time.monotonic() > delivered + SAY_SECONDS:
                delivered = time.monotonic()
                print(f"       {shown.tasks[task].completed:,.0f} of {count:,} seeds", flush=True)

        done = sweep(
            campaign_seed, [(number,) for number in range(count)], folder=FOLDER / "seeds", spark=spark,
            progress=advance,
        )  # fmt: skip
    spark.stop()
    return judged_seeds(done)


def judged_seeds(done: Sequence[Done]) -> dict[str, Any]:
    """Verdict and figures of seeds of the campaign. They pass when none is broken and faults acted in those
    of the wide world."""
    from tests.simulation._campaign import WIDE
    from tests.simulation._wide import are_troubled

    bad = [each.point[0] for each in done if each.error is not None or each.result["broken"]]
    results = [each.result for each in done if each.result is not None]
    wide = [result["faults"] for result in results if result["kind"] == WIDE]
    count, faults = len(done), sum(result["faults"] for result in results)
    met = Counter(f"met {name}" for result in results for name in result.get("met", ()))
    systems = Counter(str(result["system"]) for result in results)
    own = {name: systems[name] for name in ("tidings", "tidings-group")}
    return {
        "passed": not bad and are_troubled(wide),
        "held": {"seeds": count, **own, "faults": faults, "broken": len(bad), **dict(sorted(met.items()))},
        "bad seeds": bad[:50],
    }


def run_tests(part: Part, share: float, anew: bool) -> dict[str, Any]:
    sizes = {name: str(max(1, int(size * share))) for name, size in part.sizes}
    delivered, finished, log = (FOLDER / f"{part.name}.{kind}" for kind in ("figures", "passed", "log"))
    stamp = json.dumps({"code": part.code(), "sizes": sizes})
    if anew or not finished.exists() or finished.read_text().split("\n", 1)[0] != stamp:
        finished.write_text(stamp + "\n")
        delivered.unlink(missing_ok=True)
    keep_figures(delivered, passed(finished))
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
    ]
    command += ["-p", "tests.resume", *others_below(part), *part.tests]
    environment = {
        "TEST_SEED": os.environ["TEST_SEED"],
        "TIDINGS_FIGURES": str(delivered),
        "TIDINGS_PASSED": str(finished),
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
    }
    with log.open("a") as out:
        running = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **sizes, **environment},
        )
        try:
            ended = watched(running, finished)
        finally:
            running.terminate()
    lines = log.read_text().strip().splitlines() or [""]
    return {
        "passed": ended in (0, NOTHING_LEFT) and bool(passed(finished)),
        "held": {**added_up(delivered), "tests": len(passed(finished)),
            "left out": wanted(finished) - len(passed(finished))},
        "said": lines[-1],
        "log": str(log.relative_to(ROOT)),
    }  # fmt: skip


def watched(running: subprocess.Popen[bytes], finished: Path) -> int:
    """Wait for a part; say now and then how far it is."""
    while True:
        try:
            return running.wait(SAY_SECONDS)
        except subprocess.TimeoutExpired:
            print(f"       {len(passed(finished))} of {wanted(finished)} tests", flush=True)


def others_below(part: Part) -> list[str]:
    """Options that leave out what another part names and this one's folders hold."""
    named = {path for each in PARTS if each is not part for path in each.tests}
    return [
        f"--ignore={path}" for path in sorted(named) for mine in part.tests if path.startswith(f"{mine}/")
    ]


def keep_figures(delivered: Path, finished: set[str]) -> None:
    """Forget what tests told that were stopped afterwards: they tell it again."""
    if delivered.exists():
        rows = [line for line in delivered.read_text().splitlines() if json.loads(line)["test"] in finished]
        delivered.write_text("".join(f"{row}\n" for row in rows))


def added_up(delivered: Path) -> dict[str, float]:
    stored: Counter[str] = Counter()
    if delivered.exists():
        for line in delivered.read_text().splitlines():
            stored.update({name: value for name, value in json.loads(line).items() if name != "test"})
    return dict(stored)


def commit() -> str:
    """The commit that is checked out; a mark behind it: with changes that are not committed."""
    told = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--abbrev=8", "--exclude=*"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return told.stdout.strip()


# -- what is kept


def kept() -> dict[str, dict[str, Any]]:
    """Results by part: those of the record, and newer ones of this folder."""
    found: dict[str, dict[str, Any]] = {}
    for file in (RECORD, FOLDER / "soak.json"):
        if file.exists():
            found |= {each["part"]: each for each in json.loads(file.read_text())["parts"]}
    return found


def record(found: dict[str, Any]) -> None:
    """Write a part of full size to the record."""
    parts = json.loads(RECORD.read_text())["parts"] if RECORD.exists() else []
    names = ("part", "what", "passed", "commit", "code", "seconds", "seed", "held", "bad seeds")
    row = {"date": time.strftime("%Y-%m-%d"), **{name: found[name] for name in names if name in found}}
    by_name = {each["part"]: each for each in parts} | {found["part"]: row}
    ordered = [by_name[part.name] for part in PARTS if part.name in by_name]
    RECORD.write_text(json.dumps({"parts": ordered}, indent=1) + "\n")


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
    style = (
        "body{font:16px system-ui;margin:2rem auto;max-width:70rem}td,th{text-align:left;padding:.4rem "
        "1rem;border-bottom:1px solid #8884}.bad{color:#b00020}"
    )
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
    parser.add_argument("--seed", type=int, help="draw the examples of an earlier campaign again")
    options = parser.parse_args()
    os.environ["TEST_SEED"] = str(secrets.randbits(32) if options.seed is None else options.seed)
    names = [part.name for part in PARTS]
    if unknown := set(options.parts) - set(names):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    if options.list:
        for part in PARTS:
            print(f"{part.name:<12} {part.minutes:>3.0f} min  {part.what}")
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    print(f"examples are drawn from --seed {os.environ['TEST_SEED']}", flush=True)
    results = kept()
    chosen = [part for part in PARTS if part.name in (options.parts or names)]
    left = [
        part for part in chosen
        if options.again or (known := results.get(part.name)) is None
        or not known["passed"] or known["code"] != part.code() or known.get("share", 1.0) < options.share
    ]  # fmt: skip
    for number, part in enumerate(left):
        rest = sum(each.minutes for each in left[number:]) * options.share
        print(
            f"{time.strftime('%H:%M')}  {part.name}: {part.what} (about {rest:.0f} minutes left)", flush=True
        )
        found = run(part, options.share, options.again)
        results = {**kept(), part.name: found}  # another campaign may have finished parts meanwhile
        keep(results)
        if options.share >= 1:
            record(found)
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
