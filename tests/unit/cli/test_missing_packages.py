"""A bare installation: each command either works or names the extra that it needs, never a defect of ours.

The commands run in one process from which the optional modules are hidden, as if they were not installed.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from suite.hiding import Ran, assert_names, commands_without, python_without
from tests.tidy._sources import ROOT

from tidings.cli.output import Exit
from tidings.errors import (
    BRINGS,
    MissingDependencyError,
    install_command,
    missing_dependency,
    needing,
    require,
)

pytestmark = pytest.mark.xdist_group("missing packages")  # its commands run once

SMALL = ("--brokers", "3", "--events", "5", "--subscriptions", "5")
FLOW = str(ROOT / "examples" / "price_alerts" / "flow.toml")
BROKER = ("broker", "--dev", "--name", "b1", "--listen", "127.0.0.1:0")
FINE = (
    ("systems",),
    ("systems", "--json"),
    ("systems", "socbr"),
    ("simulate", "tidings", *SMALL, "--record", "r.jsonl"),
    ("check", "r.jsonl"),
    ("pipeline", "check", "--static", FLOW),
)
LACKING = {
    **{("simulate", system, *SMALL): "tidings[fast]" for system in ("socbr", "pbsocbr", "fewer-hops")},
    ("simulate", "tidings", *SMALL, "--seeds", "2"): "tidings[fast]",
    ("check", "r.jsonl", "--spark"): "tidings[spark]",
    ("archive", "compact", "."): "tidings[fast]",
    ("pipeline", "check", FLOW): "tidings[spark]",
    ("pipeline", "run", FLOW, "--once"): "tidings[spark]",
    ("pipeline", "explain", FLOW): "tidings[fast]",
    (*BROKER, "--config", "socbr.toml"): "tidings[fast]",
    (*BROKER, "--config", "websocket.toml"): "tidings[server]",
    (*BROKER, "--gateway-mqtt", "127.0.0.1:0"): "tidings[server]",
    (*BROKER, "--gateway-http", "127.0.0.1:0"): "tidings[server]",
    ("demo",): "tidings[store]",
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder = tmp_path_factory.mktemp("bare")
    (folder / "socbr.toml").write_text('system = "socbr"\n')
    (folder / "websocket.toml").write_text('[gateway]\nmqtt_websocket = "127.0.0.1:0"\n')
    return commands_without(BRINGS, [*FINE, *LACKING], folder)


@pytest.mark.parametrize("words", FINE, ids=" ".join)
def test_a_bare_installation_runs(words: tuple[str, ...], ran: Ran) -> None:
    code, out, err = ran[words]
    assert code == Exit.FINE, err
    assert "error" not in err
    if words == ("systems", "--json"):
        names = {row["system"] for row in json.loads(out)["systems"]}
        assert {"tidings", "socbr", "pbsocbr", "fewer-hops", "damulticast"} <= names


@pytest.mark.parametrize("words", LACKING, ids=" ".join)
def test_a_command_names_the_extra_that_it_lacks(words: tuple[str, ...], ran: Ran) -> None:
    assert_names(LACKING[words], ran[words])


def test_the_demonstration_asks_for_the_extra_before_its_first_act(ran: Ran) -> None:
    code, shown, said = ran["demo",]
    assert (code, shown) == (Exit.ENVIRONMENT, "")
    assert "Subscribe by content" not in said


def test_the_child_of_the_demonstration_shows_no_traceback(tmp_path: Path) -> None:
    code = (
        f"import runpy; sys.argv[1:] = [{str(tmp_path / 'store')!r}]; "
        "runpy.run_module('tidings.cli._demo_child', run_name='__main__')"
    )
    done = python_without(BRINGS, code, folder=tmp_path)
    assert done.returncode == Exit.ENVIRONMENT
    assert done.stderr.startswith("error: a store on disk needs rocksdict")
    assert "Traceback" not in done.stderr


def test_the_api_names_the_extra_too(tmp_path: Path) -> None:
    for module, name in (("tidings.pipeline", "match"), ("tidings.algebra", "Zone")):
        done = python_without(BRINGS, f"from {module} import {name}", folder=tmp_path)
        assert done.returncode == 1
        last = done.stderr.splitlines()[-1]
        assert last.startswith("tidings.errors.MissingDependencyError")
        assert f"{module}.{name} needs" in last
        assert re.search(r"pip install (-e )?'\S*\[fast\]'", last)


def test_a_store_on_disk_is_refused_before_an_event_loop_starts(tmp_path: Path) -> None:
    """Found by a user: thirty lines of the loop's stack stood before the message."""
    done = python_without(BRINGS, "import tidings; tidings.open(path='kept')", folder=tmp_path)
    assert done.returncode == 1
    assert "a store on disk needs rocksdict" in done.stderr.splitlines()[-1]
    assert "loop_thread" not in done.stderr


def test_only_a_known_module_that_is_not_installed_is_a_missing_dependency() -> None:
    assert missing_dependency(ModuleNotFoundError("no", name="tidings.nosuch"), "it") is None
    assert missing_dependency(ModuleNotFoundError("no", name="json.nosuch"), "it") is None
    assert missing_dependency(ImportError("cannot import name", name=None), "it") is None
    with pytest.raises(ModuleNotFoundError, match="nosuch"), needing("it"):
        import tidings.nosuch  # type: ignore[import-not-found]  # noqa: F401


def test_a_damaged_package_is_not_a_missing_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BRINGS, "json", "tidings[fast]")
    assert missing_dependency(ModuleNotFoundError("no", name="json.nosuch"), "it") is None


def test_a_missing_distribution_of_ours_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tidings_lab", None)
    with pytest.raises(MissingDependencyError) as raised:
        require("tidings_lab", "a study")
    assert raised.value.message == "a study needs tidings-lab"
    assert raised.value.hint == install_command("tidings-lab")


@pytest.mark.parametrize(
    ("noted", "requirement", "command"),
    [
        (None, "tidings[spark]", "pip install 'tidings[spark]', with --find-links DIR"),
        ("no JSON", "tidings-lab", "pip install 'tidings-lab', with --find-links DIR"),
        (
            {"url": "https://elsewhere/tidings.git", "vcs_info": {}},
            "tidings[all]",
            "pip install 'tidings[all]'",
        ),
        (
            {"url": "file:///a%20b/tidings", "dir_info": {}},
            "tidings[fast]",
            "pip install '/a b/tidings[fast]'",
        ),
        (
            {"url": "file:///wheels/tidings.whl", "archive_info": {}},
            "tidings[store]",
            "pip install '/wheels/tidings.whl[store]'",
        ),
        ({"url": ROOT.as_uri(), "dir_info": {}}, "tidings-lab", f"pip install '{ROOT}/lab'"),
        (
            {"url": ROOT.as_uri(), "dir_info": {"editable": True}},
            "tidings-bench[peers]",
            f"pip install -e '{ROOT}/benchmarks[peers]'",
        ),
        (
            {"url": "file:///gone", "dir_info": {}},
            "tidings-lab",
            "pip install 'tidings-lab', with --find-links",
        ),
    ],
)
def test_a_hint_installs_from_the_place_that_tidings_came_from(
    noted: Any, requirement: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by a user: hints named a package index that did not have the package."""

    class Installed:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return noted if noted is None or isinstance(noted, str) else json.dumps(noted)

    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: Installed())
    assert install_command(requirement).startswith(command)


def test_the_table_of_modules_agrees_with_the_extras() -> None:
    """Each optional dependency stands in the table under the extra that lists it."""
    modules: dict[str, set[str]] = {}
    for module, names in packages_distributions().items():
        for name in names:
            modules.setdefault(normalised(name), set()).add(module)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    seen = set()
    for extra in extras.keys() - {"all", "dev", "docs"}:  # `docs` brings programs that `make site` runs
        for requirement in extras[extra]:
            name = normalised(re.split(r"[\[<>=]", requirement)[0])
            if name != "tidings" and name in modules:  # what is not installed here has no known module
                assert f"tidings[{extra}]" in {BRINGS.get(module) for module in modules[name]}, requirement
                seen.add(name)
    assert {"numpy", "pyarrow", "rocksdict", "starlette", "pyspark", "pyjwt"} <= seen


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
