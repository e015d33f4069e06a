"""The last release, built from the repository's history into an environment of its own.

`last_release.txt` names its version and commit. The wheel is built from `git archive` of that commit and
installed without its dependencies; those come from the present environment through a `.pth` file, so nothing
is downloaded. The present package is not importable there: path files of the present environment are not
read.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path
from typing import NamedTuple

from tests.tidy._sources import ROOT

import tidings
from tidings._version import __version__

LAST = Path(__file__).with_name("last_release.txt")


class Release(NamedTuple):
    """One version of Tidings that processes can be started with."""

    version: str
    python: str
    path: str  # PYTHONPATH

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": self.path}


PRESENT = Release(__version__, sys.executable, str(Path(tidings.__file__).parents[1]))


def why_not() -> str:
    """The reason why the last release cannot be built here; empty: it can."""
    if shutil.which("git") is None:
        return "git is not installed: the last release is built from the repository's history"
    version, commit = LAST.read_text().split()
    done = _git("cat-file", "-e", f"{commit}^{{commit}}")
    if done.returncode:
        return f"the history of the repository is not here: {version} is its commit {commit[:8]}"
    return ""


def build(folder: Path) -> Release:
    """Build and install the last release below this folder."""
    version, commit = LAST.read_text().split()
    archive = _git("archive", commit, "src", "pyproject.toml", "README.md", "LICENSE")
    archive.check_returncode()
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as members:
        members.extractall(folder / "source", filter="data")
    hatch = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(hatch, cwd=folder / "source", check=True, capture_output=True)
    (wheel,) = folder.glob(f"tidings-{version}-*.whl")
    venv = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    (site,) = venv.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as files:
        files.extractall(site)
    (site / "dependencies.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n")
    python = str(venv / "bin" / "python")
    code = "import tidings; from tidings._version import __version__; print(__version__, tidings.__file__)"
    stated = subprocess.run([python, "-c", code], env={**os.environ, "PYTHONPATH": ""}, cwd=folder,
        check=True,
                          capture_output=True, text=True).stdout.split()  # fmt: skip
    assert stated[0] == version, stated
    assert Path(stated[1]).is_relative_to(venv), stated
    return Release(version, python, "")


def _git(*words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=False)
