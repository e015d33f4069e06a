"""Plans of quality factories: read from TOML, and what is wrong with one is told with where."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidings.errors import SettingsError
from tidings_quality.generate import LOCAL, plan_text
from tidings_quality.spark.settings import FactoryPlan, MeasuredProperty, read_plan

HEAD = 'organisation = "INPS"\nclass = "Enterprise"\nkey = "id"\n'


def read(folder: Path, text: str) -> FactoryPlan:
    file = folder / "factory.toml"
    file.write_text(text)
    return read_plan(file)


@pytest.mark.parametrize("organisation", sorted(LOCAL))
def test_the_plans_of_the_generated_organisations_are_whole(organisation: str, tmp_path: Path) -> None:
    plan = read(tmp_path, plan_text(organisation))
    assert plan.organisation == organisation
    assert plan.table == str(tmp_path / "holders")
    assert plan.properties["Name"].reference is not None
    assert plan.properties["Name"].reference.table == str(tmp_path / "reference.parquet")
    assert [f"{name}.{dimension}" for name, dimension in plan.measured()] == [
        "Name.accuracy", "Name.completeness", "Name.currency", "Name.consistency",
        "Address.accuracy", "Address.completeness", "Address.currency", "Address.consistency",
        "FiscalCode.accuracy", "FiscalCode.completeness", "FiscalCode.consistency",
    ]  # fmt: skip


def test_a_plan_that_is_moved_is_the_same_and_one_that_measures_otherwise_is_not(tmp_path: Path) -> None:
    text = plan_text("INPS")
    other = tmp_path / "other"
    other.mkdir()
    plan = read(tmp_path, text)
    assert plan.digest() == read(other, text).digest()
    assert plan.digest() != read(other, text.replace("20 years", "21 years")).digest()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("organisation = 1", "Expected `str`"),
        ("= 1", "is not TOML"),
        (HEAD + "colour = 1", "unknown field `colour`"),
        (HEAD + "[properties.Name]\nvolatility = '3 moons'", "is no time"),
        (HEAD + "[properties.Name]\nvolatility = '3 days'", "updated = "),
        (HEAD + "[properties.Name]\n[rules.r]\nof = ['Nmae']\ncheck = 'TRUE'", "is no property"),
        (HEAD + "[properties.Name]\ndomain = { values = ['a'], table = 't' }", "either values or a table"),
        (
            HEAD + "[properties.Name]\ndomain = { values = ['a'] }\n"
            "reference = { table = 't', key = 'k', column = 'c' }",
            "give one of them",
        ),
    ],
    ids=["type", "toml", "key", "time", "updated", "property", "domain", "both"],
)
def test_what_is_wrong_is_told(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as found:
        read(tmp_path, text)
    assert said in str(found.value)
    assert "factory.toml" in str(found.value)


def test_times_are_read() -> None:
    day = 86_400 * 10**6
    for text, micros in (
        ("1 day", day),
        ("1.5 days", 3 * day // 2),
        ("2 years", 730 * day),
        ("3seconds", 3 * 10**6),
    ):
        assert MeasuredProperty(volatility=text).volatility_micros == micros
