"""Build a history of so many rows, hide a wrong row in it, judge it on Spark, and say how long it took.

python scripts/check_large.py --rows 1e8 --spoil missing --to /tmp/history.parquet
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from tidings.matching.engine import MatchingEngine
from tidings.pipeline.checks import check_on_spark
from tidings.pipeline.session import session
from tidings_bench.histories import FAULTS, T_DIFF, T_SUB, Shape, write_large_history


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--subscriptions", type=int, default=9000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--spoil", choices=("", *FAULTS), default="")
    parser.add_argument("--to", type=Path, required=True, help="a folder; used again when it is there")
    parser.add_argument("--local-dir", help="where Spark keeps its shuffle files")
    wanted = parser.parse_args()
    shape = Shape(rows=int(wanted.rows), subscriptions=wanted.subscriptions, seed=wanted.seed)
    if not wanted.to.exists():
        began = time.monotonic()
        rows = write_large_history(wanted.to, shape, spoil=wanted.spoil)
        print(f"{rows:,} rows written in {time.monotonic() - began:.0f} s", flush=True)
    spark = session(config={"spark.local.dir": wanted.local_dir} if wanted.local_dir else None)
    began = time.monotonic()

    def say(words: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {words}", flush=True)

    report = check_on_spark(
        [wanted.to], spark=spark, t_sub=T_SUB, t_diff=T_DIFF, matcher=MatchingEngine, say=say
    )
    say("judged")
    print(
        json.dumps(
            {"seconds": round(time.monotonic() - began, 1), "broken": report.broken, "story": report.story}
        )
    )


if __name__ == "__main__":
    main()
