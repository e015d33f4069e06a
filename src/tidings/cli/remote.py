"""Connecting a command to a broker: where it is, and who we are.

Secrets come from files and the environment, never from arguments: those are seen by everyone on the
machine and kept by shells.

    TIDINGS_BROKER          tidings://host:port, or tidings+tls://host:port
    TIDINGS_NAME            the client's name
    TIDINGS_USER            with TIDINGS_PASSWORD or TIDINGS_PASSWORD_FILE: a password (SCRAM-SHA-256)
    TIDINGS_TOKEN           or TIDINGS_TOKEN_FILE: a signed token
    TIDINGS_CERTIFICATE     with TIDINGS_KEY: a client's certificate, whose name is the client's
    TIDINGS_AUTHORITY       the trusted authority of the broker's certificate
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Coroutine
from typing import Annotated, Any, TypeVar

import typer

import tidings
from tidings.cli.output import say
from tidings.errors import RefusedError, SettingsError
from tidings.runtime.dialling import PORT, parse_addresses
from tidings.runtime.environment import credentials, tls_context

HOME = "tidings://127.0.0.1:7117"
WORD_AFTER = 2.0  # seconds without a connection before a waiting user gets a message
T = TypeVar("T")

Broker = Annotated[
    str,
    typer.Option("--broker", "-b", envvar="TIDINGS_BROKER", metavar="ADDRESS", help="tidings://host:port."),
]
Name = Annotated[
    str,
    typer.Option(
        "--name",
        "-n",
        envvar="TIDINGS_NAME",
        help="Name of this client (TIDINGS_USER, else that of the certificate, else cli).",
    ),
]
Timeout = Annotated[float, typer.Option("--timeout", help="Seconds to wait for the broker to answer.")]


CallTimeout = Annotated[
    float | None,
    typer.Option(
        "--timeout", help="Seconds to wait for the broker: to connect (10), then for each answer (30)."
    ),
]
CONNECT_SECONDS, ANSWER_SECONDS = 10.0, 30.0


def bus(broker: str, name: str = "", *, timeout: float | None = None) -> tidings.Bus:
    """A bus for a command, with the credentials of the environment. `timeout` is for the connection and for
    each answer."""
    given = os.environ
    _check_address(broker)  # report a wrong one before a secret is read
    shown = credentials(given)
    made = tidings.connect(
        broker,
        name=name or given.get("TIDINGS_USER") or getattr(shown, "name", "") or "cli",
        timeout=CONNECT_SECONDS if timeout is None else timeout,
        call_timeout=ANSWER_SECONDS if timeout is None else timeout,
        credentials=shown,
        tls=tls_context(given, broker),
    )
    _made.append((broker, made))
    return made


_made: list[tuple[str, tidings.Bus]] = []  # by this command


def _is_connecting(made: tidings.Bus) -> bool:
    return made.state in ("new", "connecting")


def _say_waiting() -> None:
    for broker, made in _made:
        if _is_connecting(made):
            why = f" ({made.state.reason})" if made.state.reason else ""
            say(f"waiting for the broker at {broker}{why}; Ctrl-C gives up")


class _LastWarning(logging.Handler):
    """Shows on standard error why a connection was lost. The first one has `WORD_AFTER` seconds."""

    def emit(self, record: logging.LogRecord) -> None:
        if not any(_is_connecting(made) for _, made in _made):
            say(record.getMessage())


async def _with_a_word(main: Coroutine[Any, Any, T]) -> T:
    word = asyncio.get_running_loop().call_later(WORD_AFTER, _say_waiting)
    log, handler = logging.getLogger("tidings.client"), _LastWarning()
    log.addHandler(handler)
    log.setLevel(logging.INFO)  # that it is connected again is said too
    log.propagate = False
    try:
        return await main
    finally:
        word.cancel()
        _made.clear()
        log.removeHandler(handler)
        log.setLevel(logging.NOTSET)
        log.propagate = True


def _check_address(broker: str) -> None:
    if ":" not in broker:
        raise SettingsError(f"{broker!r} names no port", hint=f"write --broker tidings://{broker}:{PORT}")
    try:
        parse_addresses(broker)
    except SettingsError as error:
        hint = error.hint if "@" in broker else "write --broker tidings://host:port"
        raise SettingsError(error.message, hint=hint) from None


def looks_like_address(word: str) -> bool:
    """Is the argument a broker's address, though the command takes none at this position?"""
    host, colon, port = word.partition("://")[2].rpartition(":") if "://" in word else word.rpartition(":")
    return "://" in word or bool(colon and host and port.isdigit() and "=" not in word)


NO_WORDS = {"allow_extra_args": True}  # context settings of commands that `refuse_words`


def refuse_words(words: list[str], otherwise: str) -> None:
    """A word that is no option: say which option was meant."""
    for word in words:
        if "@" in word and looks_like_address(word):
            _check_address(word)
        hint = f"give the address by --broker {word}" if looks_like_address(word) else otherwise
        raise SettingsError(f"{word!r} is no option", hint=hint.replace("WORD", word))


def run(main: Coroutine[Any, Any, T]) -> T:
    try:
        return asyncio.run(_with_a_word(main))
    except RefusedError as error:
        if "asks who you are" not in error.message:
            raise
        raise RefusedError(
            "this broker asks who you are",
            hint="set TIDINGS_USER and TIDINGS_PASSWORD_FILE, or TIDINGS_TOKEN_FILE, or TIDINGS_CERTIFICATE "
            "and TIDINGS_KEY",
        ) from None


async def walk(broker: str, what: str, *, timeout: float, **about: Any) -> list[dict[str, Any]]:
    """Ask a broker, its neighbours, and theirs: what each says of itself, in the order of the walk.

    A broker that cannot be asked is in the list too, with its problem, and so is a neighbour that one of them
    remembers and has no link to.
    """
    answers: list[dict[str, Any]] = []
    requested: set[str] = set()
    unlinked: dict[str, dict[str, Any]] = {}  # neighbours that have no link now, by name
    waiting: list[tuple[str, str | None]] = [(broker, None)]
    while waiting:
        address, name = waiting.pop(0)
        if name in requested:
            continue
        try:
            async with bus(address, timeout=timeout) as one:
                answer = await asyncio.wait_for(one.inquire(what, **about), timeout)
        except (tidings.TidingsError, TimeoutError) as error:
            if not answers:
                raise
            requested.add(str(name))
            answers.append({"broker": name, "address": address, "problem": str(error) or "no answer"})
            continue
        requested.add(answer["broker"])
        answers.append(answer | {"address": address})
        waiting += [(at, neighbour) for neighbour, at in sorted(answer.get("links", {}).items()) if at]
        unlinked.update(answer.get("unlinked", {}))
    silent = [{"broker": name, **one} for name, one in sorted(unlinked.items()) if name not in requested]
    return answers + silent
