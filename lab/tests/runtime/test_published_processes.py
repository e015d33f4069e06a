"""SIENA and UARC as processes of their own, linked over sockets and used from the command line."""

from __future__ import annotations

import json
import signal
from contextlib import ExitStack

import pytest

from tidings.testing.processes import Process, is_running, started

NAMES = ("d0", "d1", "d2")


def brokers(stack: ExitStack, system: str, options: dict[str, object]) -> list[tuple[Process, str]]:
    """Three brokers, each linked with all that were there before it."""
    found: list[tuple[Process, str]] = []
    for name in NAMES:
        linked = found if system == "uarc" else found[-1:]
        words = [word for _, address in linked for word in ("--join", address)]
        process = stack.enter_context(
            started("broker", "--dev", "--json", "--name", name, "--listen", "127.0.0.1:0", *words,
                    TIDINGS_SYSTEM=system, TIDINGS_OPTIONS=json.dumps(options))
        )  # fmt: skip
        found.append((process, process.row()["address"].removeprefix("tidings://")))
    return found


@pytest.mark.parametrize(
    ("system", "options"), [("siena", {}), ("uarc", {"members": NAMES, "mode": "no-gap"})]
)
def test_an_event_crosses_three_processes(system: str, options: dict[str, object]) -> None:
    with ExitStack() as stack:
        running = brokers(stack, system, options)
        assert len({process.process.pid for process, _ in running}) == 3
        first, last = running[0][1], running[-1][1]
        words = ("sub", "--broker", f"tidings://{last}", "--where", "x > 3", "--count", "2")
        subscriber = stack.enter_context(started(*words, "--timeout", "120"))
        subscriber.until_said("listening as")
        number = 4
        while subscriber.process.poll() is None:  # interest takes its time to reach the first broker
            for x in (1, number):  # the first of them is not wanted
                stack.enter_context(started("pub", "--broker", f"tidings://{first}", f"x={x}")).ended()
            number += 1
        received = [json.loads(line.partition(" ")[2])["x"] for line in subscriber.rest()]
        assert len(received) == 2
        assert received == sorted(received)
        assert min(received) > 3
        running[1][0].signal(signal.SIGKILL)
        running[1][0].ended()
        assert not is_running(running[1][0].process.pid)
        if system == "uarc":  # the two that are left are a majority
            assert stack.enter_context(started("pub", "--broker", f"tidings://{first}", "x=9")).ended() == 0
