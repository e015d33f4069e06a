"""A home for Spark whose Python starts quickly: links to the installed package, without its zip."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from tidings.pipeline.home import quick_home


def test_it_has_everything_but_the_zip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def is_ours(home: Path) -> bool:
        home.mkdir(exist_ok=True)
        return True

    home = quick_home(is_ours)
    assert home is not None
    assert (Path(home) / "jars").is_dir()
    assert (Path(home) / "bin" / "spark-submit").exists()
    assert not (Path(home) / "python").exists()
    (Path(home) / "jars").unlink()
    (Path(home) / "jars").symlink_to(tmp_path / "an older installation")
    assert quick_home(is_ours) == home
    assert any((Path(home) / "jars").iterdir()), "a link that points elsewhere is put right"


def test_a_home_that_was_chosen_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert quick_home(lambda home: True) is None
