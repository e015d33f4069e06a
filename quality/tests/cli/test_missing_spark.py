"""`tidings quality demo` without Spark: an error that names the extra, not a play without claims."""

from __future__ import annotations

from pathlib import Path

from suite.hiding import assert_names, commands_without


def test_the_demonstration_names_the_extra_that_brings_spark(tmp_path: Path) -> None:
    plain, as_json = ("quality", "demo"), ("quality", "demo", "--json")
    ran = commands_without({"pyspark"}, [plain, as_json], tmp_path)
    for words in (plain, as_json):
        assert_names("tidings-quality[spark]", ran[words])
        assert "claims proved" not in ran[words][1]


def test_the_systems_are_listed_without_numpy(tmp_path: Path) -> None:
    code, out, err = commands_without({"numpy", "pyarrow"}, [("systems",)], tmp_path)[("systems",)]
    assert code == 0, err
    assert "qns" in out
    assert "fewer-hops" in out
