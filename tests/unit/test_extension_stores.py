"""A store of another package that fails or lies: no acknowledged event vanishes without a word."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.unit._installing import Install, install

import tidings
from tidings.availability.records import Append, Forget, Loaded, Put
from tidings.errors import ExtensionError, StoreError
from tidings.model.event import make_event
from tidings.runtime.broker import open_store
from tidings.runtime.service import Service
from tidings.runtime.settings import read_settings
from tidings.store.store import Store

__all__ = ["install"]
CODE = """
from tidings.availability.records import Loaded
from tidings.store.memory import MemoryDisk, MemoryStore

DISK = MemoryDisk()

class Sound(MemoryStore):
    def __init__(self, address):
        super().__init__(DISK)

class Raises(Sound):
    def fetch(self, *given):
        raise ValueError("fetch fails")

class Signature(Sound):
    def fetch(self, offset):
        return []

class Nothing(Sound):
    def fetch(self, *given):
        return None

class Empty(Sound):
    def fetch(self, *given):
        return []

class Gap(Sound):
    def fetch(self, *given):
        found = super().fetch(*given)
        return found[:1] + found[2:]

class Reversed(Sound):
    def fetch(self, *given):
        return super().fetch(*given)[::-1]

class Earlier(Sound):
    def fetch(self, begin, limit, size):
        return super().fetch(1, limit, size)

class Many(Sound):
    def fetch(self, begin, limit, size):
        return super().fetch(begin, limit + 1, size)

class Late(Sound):
    async def commit(self, records):
        pass

class Burns(Sound):
    def commit(self, records):
        raise OSError("disk on fire")

class Quits(Sound):
    def commit(self, records):
        raise SystemExit(3)

class Answers(Sound):
    def commit(self, records):
        return 7

class NoState(Sound):
    def load(self):
        return None

class HalfState(Sound):
    def load(self):
        return Loaded(first_offset=0, next_offset=0, entries=None, tables={})

class Back(Sound):
    def load(self):
        return Loaded(first_offset=1, next_offset=1, entries=super().load().entries, tables={})

class NoSizes(Sound):
    def sizes(self):
        return None

class Other(Sound):
    def get(self, offset):
        return super().get(offset + 1)
"""
KINDS = [line.split("(")[0].removeprefix("class ") for line in CODE.splitlines() if line.startswith("class ")]


@pytest.fixture
def stores(install: Install) -> None:
    install("keeper", CODE, stores=", ".join(f"{kind.lower()} = {kind}" for kind in KINDS))


def opened(kind: str) -> Store:
    return asyncio.run(open_store(f"{kind}://x"))


def append(offset: int) -> Append:
    return Append(offset, make_event({"n": offset}, source="s", id=str(offset), lifetime=60.0), 1.0)


def filled(kind: str) -> Store:
    """A store of this kind with five entries that a sound one kept."""
    sound = opened("sound")
    sound.load()
    sound.commit([append(offset) for offset in range(1, 7)])
    sound.commit([Forget(3)])
    sound.close()
    return opened(kind)


def test_a_sound_store_works_as_before(stores: None) -> None:
    store = filled("sound")
    loaded = store.load()
    assert [entry.offset for entry in loaded.entries] == [1, 2, 4, 5, 6]
    assert loaded.entries[0].identity == ("s", "1")
    store.commit([Forget(4), append(7), Put("t", "k", b"v")])
    assert [each.offset for each in store.fetch(2, 2, 1 << 20)] == [2, 5]
    assert [each.offset for each in store.fetch(2, 9, 1)] == [2]
    assert [each.offset for each in store.fetch(5, 9, 1 << 20)] == [5, 6, 7]
    assert store.fetch(8, 9, 1 << 20) == []
    assert (store.get(3), store.get(7)) == (None, append(7))
    assert store.sizes()["entries"] == 5
    store.close()


FETCHES = {
    "raises": r"which failed: ValueError: fetch fails \(line 13 of .*keeper.py\)",
    "signature": r"which failed: TypeError: Signature.fetch\(\) .* \(Signature of keeper, line 16 of ",
    "nothing": r"whose method fetch gave None and has to give a list of Append",
    "empty": r"whose method fetch\(2, 3, 4096\) left out entry 2, which was committed and not forgotten",
    "gap": r"left out entry 4",
    "reversed": r"gave entries \[5, 4, 2\] and has to give entries with ascending offsets",
    "earlier": r"gave entries \[1, 2, 4\] and has to give entries from offset 2 on",
    "many": r"and has to give at most 3 entries",
}


@pytest.mark.parametrize("kind", FETCHES)
def test_a_page_that_is_wrong_names_the_package(
    stores: None, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    store = filled(kind)
    store.load()
    for _ in range(2):
        with pytest.raises(ExtensionError, match=f"package keeper offers store '{kind}', .*{FETCHES[kind]}"):
            store.fetch(2, 3, 4096)
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("late", "whose method commit is a coroutine function"),
        ("burns", "which failed: OSError: disk on fire"),
        ("quits", "which failed: SystemExit: 3"),
        ("answers", "whose method commit gave 7 and has to give nothing"),
        ("nosizes", "whose method sizes gave None and has to give a dictionary with the numbers entries"),
        ("other", "whose method get gave .* and has to give the entry 1, or None"),
        ("nostate", "whose method load gave None and has to give a Loaded"),
        (
            "halfstate",
            "whose method load gave .* to give a Loaded whose `entries` are a list of Entry",
        ),
        (
            "back",
            "whose method load gave .* to give a Loaded whose `next_offset` is above all entries",
        ),
    ],
)
def test_another_call_that_is_wrong_names_the_package(stores: None, kind: str, said: str) -> None:
    store = filled(kind)
    calls = {"nosizes": store.sizes, "other": lambda: store.get(1)}
    calls |= dict.fromkeys(("nostate", "halfstate", "back"), store.load)
    with pytest.raises(ExtensionError, match=f"package keeper offers store '{kind}', {said}"):
        calls.get(kind, lambda: store.commit([append(9)]))()


def test_a_broker_that_cannot_read_its_log_says_so(stores: None, capfd: pytest.CaptureFixture[str]) -> None:
    async def run(scheme: str) -> str:
        fields = {"name": "b1", "listen": "127.0.0.1:0", "security.anonymous": True, "store": f"{scheme}://x"}
        async with Service(read_settings(fields=fields)) as service:
            async with tidings.connect(service.server.address, name="app") as bus:
                news = bus.subscribe("n >= 0", name="d", durable=True)
                if scheme == "sound":
                    async with news:
                        pass
                    await bus.publish({"n": 1}, lifetime=60)
                    return "kept"
                with pytest.raises(StoreError, match="package keeper offers store 'raises'"):
                    async with news:
                        await news.get(timeout=60)
            ready = json.loads(service._readyz().body)
            assert ready["ok"] is False
            return " ".join(ready["problems"])

    assert asyncio.run(run("sound")) == "kept"
    assert "package keeper offers store 'raises', which failed: ValueError" in asyncio.run(run("raises"))
    assert capfd.readouterr().err.count("ERROR   b1: package keeper offers store 'raises'") == 1


def test_a_publish_that_was_not_kept_is_refused_and_logged(
    stores: None, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        async with tidings.connect(path="late://x") as bus:
            await bus.publish({"n": 1}, lifetime=60)

    with pytest.raises(StoreError, match="commit is a coroutine function"):
        asyncio.run(run())
    assert "package keeper offers store 'late'" in caplog.text


def test_an_empty_state_is_sound(stores: None) -> None:
    assert opened("sound").load() == Loaded.empty()
