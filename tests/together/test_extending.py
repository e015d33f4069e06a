"""The guide *Your own routing strategy*: its files as a package of their own, in an environment
of its own."""

from __future__ import annotations

import json
import re
import site
import subprocess
import venv
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
FILES = re.compile(r"^```\w+ file=(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

STORE = """
from tidings.store.memory import MemoryStore

OPENED = []


def open_store(address):
    OPENED.append(address)
    return MemoryStore()
"""
STUDY = """
from tidings_lab.studies.study import StudyOutcome, Study, judged


def run(setting):
    claim = judged("MINE-1", "two is more than one", paper="more", ours="more", rule="2 > 1", held=2 > 1)
    return StudyOutcome(claims=[claim])


STUDY = Study(name="mine", title="A study from outside", answers="nothing printed", run=run)
"""
MORE = """
[project.entry-points."tidings.stores"]
mine = "mystore:open_store"

[project.entry-points."tidings.studies"]
mine = "mystudy:STUDY"

[tool.hatch.build.targets.wheel]
include = ["*.py"]
"""


class Environment:
    """A virtual environment that sees the packages of this one, and has one of its own."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=False)
        self.python = folder / "bin" / "python"
        [inner] = folder.glob("lib/python*/site-packages")
        positions = "; ".join(f"site.addsitedir({position!r})" for position in site.getsitepackages())
        (inner / "outer.pth").write_text(f"import site; {positions}\n")

    def run(self, *words: str) -> str:
        done = subprocess.run([str(self.python), *words], capture_output=True, text=True)
        assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def tidings(self, *words: str) -> Any:
        return json.loads(self.run("-m", "tidings", *words, "--json"))


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    folder = tmp_path_factory.mktemp("mine")
    for name, text in FILES.findall(PAGE.read_text(encoding="utf-8")):
        (folder / name).write_text(text)
    assert len((folder / "mine.py").read_text().splitlines()) <= 50
    (folder / "mystore.py").write_text(STORE)
    (folder / "mystudy.py").write_text(STUDY)
    with (folder / "pyproject.toml").open("a") as project:
        project.write(MORE)
    made = Environment(tmp_path_factory.mktemp("environment"))
    install = ("-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index")
    made.run(*install, "--disable-pip-version-check", str(folder))
    return made


def test_a_strategy_from_outside_is_simulated_judged_and_replayed(outside: Environment) -> None:
    command = ("simulate", "mine", "--brokers", "6", "--events", "100", "--seed", "7")
    delivered, again = outside.tidings(*command), outside.tidings(*command)
    assert delivered["published"] == 100
    assert delivered["hops_per_event"] == 5
    assert delivered["fingerprint"] == again["fingerprint"]
    assert delivered["properties"]["completeness"]["holds"] is True


def test_a_strategy_from_outside_is_compared(outside: Environment) -> None:
    delivered = outside.tidings("compare", "--systems", "mine,siena", "--brokers", "6")
    assert [(row["system"], row["verdict"]) for row in delivered["systems"]] == [
        ("mine", "exact"),
        ("siena", "exact"),
    ]


def test_a_store_from_outside_keeps_a_brokers_log(outside: Environment) -> None:
    code = """
import asyncio, mystore, tidings
async def main():
    async with tidings.connect(path="mine://anything") as bus, bus.subscribe("n > 0") as news:
        await bus.publish({"n": 1}, lifetime=60)
        return (await news.get(timeout=120))["n"]
print(asyncio.run(main()), mystore.OPENED)
"""
    assert outside.run("-c", code) == "1 ['mine://anything']\n"


def test_a_study_from_outside_is_listed_and_run(outside: Environment) -> None:
    assert "mine" in {each["study"] for each in outside.tidings("study", "list")["studies"]}
    delivered = outside.tidings("study", "run", "mine", "--no-plots")
    assert [claim["reproduced"] for claim in delivered["claims"]] == [True]


def test_an_extension_that_cannot_be_loaded_is_named(outside: Environment, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "broken"\nversion = "1"\n'
        '[project.entry-points."tidings.systems"]\nbroken = "nowhere:SYSTEM"\n'
        "[tool.hatch.build.targets.wheel]\nbypass-selection = true\n"
    )
    made = Environment(tmp_path / "environment")
    made.run("-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index", str(broken))
    done = subprocess.run(
        [str(made.python), "-m", "tidings", "systems", "--json"], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0
    assert "package broken offers system 'broken', which cannot be loaded" in done.stderr
    assert "tidings-group" in done.stdout
