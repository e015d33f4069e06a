"""The file of MQTT sessions: a flipped bit is damage, and a file that is gone is said."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

import pytest
from tests.gateway.test_mqtt import at, client, session

from tidings.cli import main
from tidings.errors import CorruptionError, TidingsError
from tidings.gateway.mqtt.session_sums import FILE, SUM, sealed, unsealed
from tidings.gateway.mqtt.sessions_file import SessionsFile

SESSIONS = [b'{"client_id":"a","left_at":12.5,"name":"mqtt:0"}', b'{"client_id":"b","left_at":0}']


def test_no_flipped_bit_changes_a_session(tmp_path: Path) -> None:
    """Found by an attack from outside: one bit of a name, and the session came back without its messages."""
    file, sound = tmp_path / FILE, sealed(SESSIONS)
    refused = 0
    for place in range(8 * len(sound)):
        damaged = bytearray(sound)
        damaged[place // 8] ^= 1 << place % 8
        file.write_bytes(damaged)
        try:
            read = unsealed(file)
        except TidingsError:
            refused += 1
        else:
            assert [bytes(each[: len(own) - 1]) for each, own in zip(read, SESSIONS, strict=True)] == [
                own[:-1] for own in SESSIONS
            ]
    assert refused > 8 * sum(map(len, SESSIONS))


def test_a_file_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"[" + b",".join(SESSIONS) + b"]")
    assert unsealed(tmp_path / FILE) == SESSIONS


def test_a_damaged_file_is_refused_and_a_missing_one_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, file = tmp_path / "store", tmp_path / "store" / FILE

    async def subscribe() -> None:
        async with (
            asyncio.timeout(120),
            at(tmp_path) as (port, _),
            client(port, "c", clean_start=False, properties=session(600)) as c,
        ):
            await c.subscribe("t", qos=1)

    async def start() -> None:
        async with asyncio.timeout(120), at(tmp_path):
            pass

    asyncio.run(subscribe())
    assert verified(store) == 0
    sound = file.read_bytes()
    assert SUM in sound
    assert "sum" in json.loads(sound)[0]
    file.write_bytes(sound.replace(b'"client_id":"c"', b'"client_id":"b"'))
    assert verified(store) == 3
    with pytest.raises(CorruptionError, match="has another sum than it says"):
        SessionsFile(file).load(0.0)
    file.unlink()
    assert verified(store) == 3
    logging.getLogger("tidings").addHandler(caplog.handler)
    try:
        asyncio.run(start())
    finally:
        logging.getLogger("tidings").removeHandler(caplog.handler)
    assert "no session has the 1 durable subscriptions of MQTT sessions" in caplog.text
    file.write_bytes(sound)
    assert verified(store) == 0


def verified(store: Path) -> int:
    return main(["store", "verify", str(store)])
