"""A driver of its own: evaluates an organisation's table once and tells its service, saying each step on a
line.

Usage: python _quality_child.py FACTORY_TOML URL
"""

from __future__ import annotations

import sys

from tidings.pipeline import session
from tidings_quality.change_reporting import teller
from tidings_quality.client import OrganisationClient
from tidings_quality.spark.factory import Factory, FactoryStep, files_of
from tidings_quality.spark.settings import read_plan


def main(file: str, url: str) -> None:
    plan = read_plan(file)
    spark = session(master="local[1]", quick=True, memory_mb=1024)
    print("started", flush=True)
    with OrganisationClient(url) as client:
        tell = teller(client, plan)

        def hear(step: FactoryStep) -> None:
            print("published", step.number, flush=True)
            tell(step)
            print("told", step.number, flush=True)

        stream = files_of(spark, plan, files_per_step=1)
        Factory(spark, plan).stream(stream, tell=hear, once=True).awaitTermination()
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
