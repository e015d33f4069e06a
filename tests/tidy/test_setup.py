"""Set-up on a fresh machine: what can be tested of it without making an environment."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.tidy._sources import ROOT, script

TOOLS = ("sh", "cat")  # what the shell scripts may use besides Python


def find_python(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the search with a PATH that holds only `folder`."""
    for tool in TOOLS:
        (folder / tool).symlink_to(str(shutil.which(tool)))
    script = str(ROOT / "scripts" / "find_python.sh")
    return subprocess.run(
        ["sh", script], env={"PATH": str(folder), **environment}, capture_output=True, text=True, check=False
    )


def fake(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def test_a_python_is_found(tmp_path: Path) -> None:
    fake(tmp_path, "python3.13", "exit 127")  # a shim without a version behind it
    fake(tmp_path, "python3", f'exec "{sys.executable}" "$@"')
    found = find_python(tmp_path)
    assert (found.returncode, found.stdout.strip()) == (0, str(tmp_path / "python3"))


def test_none_at_all_says_what_to_do(tmp_path: Path) -> None:
    found = find_python(tmp_path)
    assert found.returncode == 3
    assert "needs Python 3.11 or newer" in found.stderr


def test_one_without_venv_says_what_to_install(tmp_path: Path) -> None:
    fake(tmp_path, "python3", 'case "$2" in *ensurepip*) exit 1;; esac')
    found = find_python(tmp_path)
    assert found.returncode == 3
    assert "apt install python3-venv" in found.stderr


def test_a_named_python_that_will_not_do_is_refused(tmp_path: Path) -> None:
    found = find_python(tmp_path, PYTHON="no-such-python")
    assert found.returncode == 3
    assert "PYTHON=no-such-python" in found.stderr


def test_java_from_the_package_drops_just_the_argument_that_it_lacks(tmp_path: Path) -> None:
    shim = tmp_path / "java"
    shim.write_text(script("setup").JAVA_SHIM.replace("{java}", str(shutil.which("echo"))))
    shim.chmod(0o755)
    words = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "--add-modules=other"]
    text = subprocess.run([str(shim), *words], capture_output=True, text=True, check=True).stdout
    assert text == "-Xmx1g a b --add-modules=other\n"


def test_a_java_that_does_not_run_counts_for_nothing(tmp_path: Path) -> None:
    fake(tmp_path, "java", "exit 1")
    assert script("setup").java_version(str(tmp_path / "java")) == 0
    assert script("setup").java_version(str(tmp_path / "nowhere")) == 0


def test_mqtt_js_comes_by_npm_and_its_absence_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs, venv, package = tmp_path / "programs", tmp_path / "venv", tmp_path / "package" / "dist"
    for folder in (programs, venv, package):
        folder.mkdir(parents=True)
    (package / "mqtt.min.js").write_text("a client")
    monkeypatch.setenv("PATH", str(programs))
    setup = script("setup").Setup(venv)
    assert "apt-get install npm" in setup.bring_mqtt_js()
    fake(programs, "npm", "echo no network >&2; exit 1")
    assert setup.bring_mqtt_js().endswith("failed: no network")
    tar = shutil.which("tar", path="/usr/bin:/bin")
    fake(programs, "npm", f'exec {tar} cf "$PWD/mqtt.tgz" -C {tmp_path} package')
    assert setup.bring_mqtt_js() == f"{script('setup').MQTT_JS} by npm"
    assert (venv / "mqtt.min.js").read_text() == "a client"
    assert setup.bring_mqtt_js() == "kept"


@pytest.mark.parametrize(
    ("made_for", "intact"), [(None, True), ("here", True), ("elsewhere", False)], ids=["new", "same", "moved"]
)
def test_an_environment_knows_its_place(made_for: str | None, intact: bool, tmp_path: Path) -> None:
    venv = tmp_path / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(sys.executable)
    if made_for:
        (venv / "ready").write_text(f"{tmp_path if made_for == 'here' else '/elsewhere'}\n")
    script = str(ROOT / "scripts" / "intact.sh")
    done = subprocess.run(["sh", script, ".venv"], cwd=tmp_path, env=os.environ, check=False)
    assert (done.returncode == 0) is intact


def test_every_target_of_the_makefile_is_explained() -> None:
    text = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z]+):", text, flags=re.MULTILINE))
    explained = set(re.findall(r"^([a-z]+):.*## ", text, flags=re.MULTILINE))
    assert targets - explained == {"stale"}
    assert {"setup", "demo", "test", "lint", "bench", "soak", "studies", "docs"} <= explained


def test_uv_looks_where_pip_does() -> None:
    settings = """:env:.find-links='/wheels /more'
global.cert='/etc/authority.pem'
global.extra-index-url='file:///a file:///b'
global.find-links='/elsewhere'
global.index-url='file:///first'
global.timeout='60'
"""
    assert script("setup").uv_environment(settings) == {
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_HTTP_TIMEOUT": "180",
        "UV_FIND_LINKS": "/wheels,/more",
        "SSL_CERT_FILE": "/etc/authority.pem",
        "UV_INDEX": "file:///a file:///b",
        "UV_DEFAULT_INDEX": "file:///first",
    }


@pytest.mark.parametrize(
    ("pip", "uv", "note"),
    [
        (0, 0, "installed as pinned in constraints.txt, by uv"),
        (0, 1, "installed as pinned in constraints.txt"),
        (1, 0, "installed as pinned in constraints.txt"),  # uv is not in the index
    ],
)
def test_pip_installs_where_uv_cannot(tmp_path: Path, pip: int, uv: int, note: str) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    # The stand-in for pip says how it was called, and fails to install uv where it is told to.
    calls = tmp_path / "calls"
    fake(programs, "python", f'echo "$*" >> "{calls}"; case "$*" in *uv==*) exit {pip};; esac')
    fake(programs, "uv", f'echo "uv $*" >> "{calls}"; exit {uv}')
    assert script("setup").Setup(tmp_path).install() == note
    said = calls.read_text()
    assert ("uv pip install --python" in said) == (pip == 0)
    # Builds that uv keeps and never uses again would fill the disk, whether it failed or not.
    assert ("uv cache prune" in said) == (pip == 0)
    assert (
        "pip install --constraint constraints.txt --editable .[all,dev,docs]" in said.replace("uv pip", "")
    ) == (bool(pip or uv))
