"""`spark-submit` as the guide says it: the job, its settings, and how the package reaches executors.

A cluster of this machine runs executors as processes of their own. They get Python from the archive that
was submitted, as on any cluster: here a small program that starts this Python with the package that lies
in the archive, since a whole environment would be 700 MB.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import tidings

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(600)]

ALERTS = """
import json
from pathlib import Path

from tidings.pipeline import match, session


def where(batches):
    import pyarrow as pa
    import tidings

    for _ in batches:
        yield pa.RecordBatch.from_pydict({"file": [tidings.__file__]})


spark = session()
trades = spark.createDataFrame([("t1", "IBM", 131.0), ("t2", "DEC", 9.0)],
    "id string, symbol string, price double")
alerts = spark.createDataFrame([(1, "symbol = 'IBM' AND price > 120"), (2, "price <")],
    "id int, filter string")
matched = match(trades, alerts, keep=["id"])
context = spark.sparkContext
said = {
    "answer": {row["id"]: row["subscriptions"] for row in matched.result.collect()},
    "rejects": [row["id"] for row in matched.rejects.collect()],
    "reasons": matched.reasons,
    "master": context.master,
    "name": context.appName,
    "timezone": spark.conf.get("spark.sql.session.timeZone"),
    "workers": [row["file"] for row in spark.range(1).mapInArrow(where, "file string").collect()],
}
Path("said.json").write_text(json.dumps(said))
spark.stop()
"""
PYTHON = (
    '#!/bin/sh\nexport PYTHONPATH="$(cd "$(dirname "$0")/../lib" && pwd):$PYTHONPATH"\nexec "{python}" "$@"\n'
)


def environment(folder: Path) -> Path:
    """An archive with a Python in bin/ and the package in lib/."""
    program = folder / "python"
    program.write_text(PYTHON.format(python=sys.executable))
    program.chmod(0o755)
    archive = folder / "tidings.tar.gz"
    with tarfile.open(archive, "w:gz") as made:
        made.add(program, "bin/python")
        made.add(
            Path(tidings.__file__).parent,
            "lib/tidings",
            filter=lambda each: None if "__pycache__" in each.name else each,
        )
    return archive


def test_a_job_on_a_cluster_of_processes(tmp_path: Path) -> None:
    (tmp_path / "alerts.py").write_text(ALERTS)
    archive = environment(tmp_path)
    submit = Path(sys.executable).parent / "spark-submit"
    command = [str(submit), "--master", "local-cluster[1,1,1024]", "--name", "alerts"]
    command += ["--conf", "spark.sql.session.timeZone=Europe/Rome", "--archives", f"{archive}#environment"]
    settings = {
        "PYSPARK_PYTHON": "./environment/bin/python",
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": str(Path(tidings.__file__).parents[1]),
        "NUMBA_CACHE_DIR": str(tmp_path / "kernels"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        [*command, "alerts.py"],
        cwd=tmp_path,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    stated = json.loads((tmp_path / "said.json").read_text())
    assert stated["answer"] == {"t1": [1], "t2": []}
    assert stated["rejects"] == ["2"]
    assert stated["master"].startswith("local-cluster")
    assert (stated["name"], stated["timezone"]) == ("alerts", "Europe/Rome")
    assert all("/environment/lib/tidings/" in file for file in stated["workers"])
