"""The ```sh blocks of the docs: run as they are printed, one shell for each page, on free ports.

A page's blocks are one script. Servers stand in it with `&`; they belong to the script's process group, which
is ended with it. Pages that are not run here are named below with the reason; every `tidings` command of
every page, run or not, must be one that the command line takes.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.tidy._sources import ROOT, name_of, pages

SHELL = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
PORT = re.compile(r"(?<=127\.0\.0\.1:)\d+|(?<= -p )\d+")
DEFAULT_PORT = "7117"
PATIENCE, PAUSE = 100.0, 0.05  # seconds
FUNCTION = """tidings() {
  case $1 in
    pub|sub|top) local command=$1; shift; set -- "$command" --timeout 90 "$@";;  # machines are slow at times
  esac
  "$PYTHON" -m tidings "$@"
}"""

NOT_RUN = {
    "docs/bridges.md": "needs a NATS server with a stream; tests/gateway/test_bridges.py runs bridges",
    "docs/console.md": "ends in a browser; tests/browser runs the console",
    "docs/how-to/spark-structured-streaming.md": "its stream has no end; tests/pipeline runs the program",
    "docs/security-findings.md": "installs bandit, which takes long",
    "docs/extending.md": "installs packages; tests/together/test_extending.py makes and runs them",
    "docs/flows.md": "a million users on Spark; tests/pipeline runs the flow with fewer",
    "benchmarks/README.md": "minutes of load; benchmarks/tests run the benchmarks at small sizes",
    "lab/README.md": "installs a package; tests/together/test_extending.py and lab/tests/cli run them",
    "quality/README.md": "installs a package; quality/tests/cli/test_quality.py runs the commands",
    "quality/docs/quality.md": "minutes of Spark; quality/tests/cli/test_quality.py runs the commands",
}
NEEDED = {"docs/mqtt.md": "mosquitto_pub", "docs/http.md": "curl"}  # programs of others
SHOWS = {  # a text that the page's commands must print
    "docs/brokers.md": ['"StockName": "IBM"', "published 1 event, quote-17", "c2  "],
    "docs/distributors.md": ['"x": 1'],
    "docs/gossip.md": ['"x": 1'],
    "docs/http.md": ['"dialect":"cesql"', '"dialect":"tidings"', "compares whole numbers", "data: "],
    "docs/mqtt.md": ['"StockName": "IBM"'],
    "lab/docs/rendezvous.md": ["published 1 event"],
}


def scripts() -> dict[str, str]:
    """By page: its blocks together."""
    found = {name_of(page): SHELL.findall(page.read_text()) for page in pages()}
    return {
        name: "\n".join(blocks)
        for name, blocks in found.items()
        if blocks and not name.startswith("docs/reference/")
    }


def free_ports(count: int) -> list[int]:
    """Ports in a row that no program uses now; below those that systems hand out."""
    for base in Random().sample(range(20_000, 32_000, 20), 200):
        with ExitStack() as stack:
            try:
                for port in range(base, base + count):
                    stack.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            return list(range(base, base + count))
    raise AssertionError("no free ports")


def placed(script: str) -> str:
    """The script at free ports. Neighbouring ports stay neighbours, since `cluster up` counts them up."""
    named = sorted({int(found) for found in [*PORT.findall(script), DEFAULT_PORT]})
    first: dict[int, int] = {}  # by port: the one that its run begins with
    for port in named:
        first[port] = first.get(port - 1, port)
    runs = sorted(set(first.values()))
    free = free_ports(4 * len(runs))
    begins = {begin: free[4 * number] for number, begin in enumerate(runs)}
    moved = {str(port): str(begins[first[port]] + port - first[port]) for port in named}
    script = PORT.sub(lambda found: moved[found[0]], script)
    script = re.sub(r"(tidings cluster up \d+)", rf"\1 --port {moved[DEFAULT_PORT]}", script)
    script = re.sub(
        r"(tidings broker --dev)(?!.*--listen)", rf"\1 --listen 127.0.0.1:{moved[DEFAULT_PORT]}", script
    )
    return f"export TIDINGS_BROKER=127.0.0.1:{moved[DEFAULT_PORT]}\n{script}"


@pytest.mark.xdist_group("brokers")
@pytest.mark.parametrize("page", sorted(set(scripts()) - set(NOT_RUN)))
def test_the_shell_blocks_of_a_page_work_as_printed(page: str, tmp_path: Path) -> None:
    if (
        page in NEEDED
        and subprocess.run(["which", NEEDED[page]], capture_output=True, check=False).returncode
    ):
        pytest.skip(f"{NEEDED[page]} is not installed")
    head = f"set -eo pipefail\nPYTHON={shlex.quote(sys.executable)}\n{FUNCTION}\n"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TIDINGS_")}
    environment |= {"PYTHONPATH": str(ROOT / "src"), "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}
    printed = tmp_path / "printed.txt"
    with printed.open("w") as out:
        shell = subprocess.Popen(
            ["bash", "-c", head + placed(scripts()[page])], cwd=tmp_path, env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out, stderr=out, start_new_session=True,
        )  # fmt: skip
        try:
            code = shell.wait(PATIENCE)
            shown = wait_for(printed, SHOWS.get(page, []))
        finally:
            os.killpg(shell.pid, signal.SIGTERM)
            shell.wait(PATIENCE)
    assert code == 0, shown
    assert [text for text in SHOWS.get(page, []) if text not in shown] == [], shown


def wait_for(file: Path, texts: list[str]) -> str:
    """The file's text, when all of these are in it or the time is over."""
    pause = threading.Event()
    for _ in range(int(PATIENCE / PAUSE)):
        if all(text in file.read_text() for text in texts) or pause.wait(PAUSE):
            break
    return file.read_text()


def test_pages_that_are_not_run_are_there() -> None:
    assert set(NOT_RUN) <= set(scripts())
    assert set(SHOWS) <= set(scripts()) - set(NOT_RUN)


# -- every command is one that the command line takes --------------------------------------------------


def commands() -> list[tuple[str, str]]:
    """Each line of a shell block that calls `tidings`, with its page."""
    found = []
    for page in pages():
        for block in SHELL.findall(page.read_text()):
            lines = re.sub(r"\\\n", " ", block).splitlines()
            found += [(name_of(page), line) for line in lines if re.match(r"(\w+=\S+ )*tidings ", line)]
    return found


@cache
def command_line() -> Any:
    import typer.main

    from tidings.cli import build, command_names

    return typer.main.get_command(build(command_names()))


def words_of(line: str) -> list[str]:
    """The arguments that the shell would hand over."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = []
    for word in lexer:
        if word in ("&", "|", ">", ">>", "<", ";"):
            break
        words.append(word)
    return words[words.index("tidings") + 1 :]


def test_every_documented_command_is_taken_by_the_command_line() -> None:
    problems = []
    for page, line in commands():
        try:
            check(command_line(), words_of(line))
        except Exception as error:
            problems.append(f"{page}: {line}: {error}")
    assert not problems, "\n".join(problems)


def check(command: Any, words: list[str]) -> None:
    """Parse without running. Raises what the command line would."""
    context = command.make_context("tidings", list(words), resilient_parsing=False)
    while getattr(context.command, "commands", None):
        name, inner, rest = context.command.resolve_command(
            context, [*context._protected_args, *context.args]
        )
        context = inner.make_context(name, rest, parent=context)


def test_a_command_that_does_not_exist_is_seen() -> None:
    for line in ("tidings pubb x=1", "tidings pub --iid 5 x=1", "tidings broker --dev --joint x"):
        with pytest.raises(Exception, match=r"No such|no such"):
            check(command_line(), words_of(line))
