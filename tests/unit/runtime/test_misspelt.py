"""A type checker finds misspelt options, wrong values and wrong fields; at run time the error names one.

One mypy process checks a program with ten mistakes; each must be found on its own line, in these words.
"""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from pathlib import Path
from typing import get_overloads

import pytest

import tidings
from tidings.model.subscription import DeliveryOptions
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.runtime import options
from tidings.runtime.blocking import BlockingBus
from tidings.runtime.bus import Bus
from tidings.runtime.remote import RemoteSettings

PROGRAM = """
from dataclasses import dataclass
import tidings

@dataclass
class Quote:
    change: float

async def main() -> None:
    tidings.connect(flush_second=1)
    tidings.connect("tidings://localhost:7000", path="store")
    bus = tidings.connect()
    await bus.publish({"change": -4.5}, lifetme=60)
    await bus.publish({"change": -4.5}, mode="keep")
    await bus.publish_many([{"change": -4.5}], id="7")
    bus.subscribe("change < -3", durabel=True)
    bus.subscribe("change < -3", policy="drop")
    async with bus.subscribe(Quote, "change < -3") as news:
        quote = await news.get(timout=1)
        print(quote.chnge)
    with tidings.open() as plain, plain.subscribe(Quote, quue=10) as quotes:
        print(quotes.get().change)

async def right() -> None:
    async with tidings.connect(name="desk", path="store", flush_seconds=1.0) as bus:
        receipt: tidings.Receipt = await bus.publish(Quote(-4.5), lifetime=60, mode="kept", timeout=5)
        news: tidings.Listener[Quote] = await bus.subscribe("change < -3", Quote, durable=True, name="falls")
        change: float = (await news.get(timeout=1)).change
        every: tidings.Listener[tidings.Event] = await bus.subscribe({"change": [{"exists": True}]})
        print(receipt, change, await every.get_many(10))
"""

ANSWERS = (
    ("flush_second=1", 'Unexpected keyword argument "flush_second" for overloaded function "connect"'),
    ('path="store")', 'No overload variant of "connect" matches'),
    ("lifetme=60", 'Unexpected keyword argument "lifetme" for "publish" of "Bus"; did you mean "lifetime"?'),
    ('mode="keep"', 'Argument "mode" to "publish" of "Bus" has incompatible type'),
    ('id="7"', 'Unexpected keyword argument "id" for "publish_many" of "Bus"'),
    (
        "durabel=True",
        'Unexpected keyword argument "durabel" for overloaded function "subscribe" of "Bus"; '
        'did you mean "durable"?',
    ),
    ('policy="drop"', 'No overload variant of "subscribe" of "Bus" matches'),
    ("timout=1", 'Unexpected keyword argument "timout" for "get" of "Listener"; did you mean "timeout"?'),
    ("quote.chnge", '"Quote" has no attribute "chnge"; maybe "change"?'),
    ("quue=10", 'Unexpected keyword argument "quue" for overloaded function "subscribe" of "BlockingBus"'),
)


def test_mypy_finds_ten_misspelt_calls(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    (tmp_path / "mypy.ini").write_text("[mypy]\nstrict = True\nfollow_imports = silent\n")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", "cache", "program.py"],
        cwd=tmp_path, env={"MYPYPATH": str(Path(tidings.__file__).parents[1]), "PATH": ""},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    print(done.stdout)
    assert done.returncode == 1, done.stderr
    lines = PROGRAM.splitlines()
    found = [line for line in done.stdout.splitlines() if ": error: " in line]
    for mistake, answer in ANSWERS:
        number = next(position for position, line in enumerate(lines, 1) if mistake in line)
        assert any(line.startswith(f"program.py:{number}: error: {answer}") for line in found), (
            mistake,
            found,
        )
    wrong = {line.split(":")[1] for line in found}
    assert len(wrong) == len(ANSWERS), found


def test_at_run_time_the_error_names_the_nearest_option() -> None:
    async def play() -> None:
        async with tidings.connect() as bus:
            with pytest.raises(tidings.SettingsError, match=r"did you mean durable=\?"):
                bus.subscribe("change < -3", durabel=True)  # type: ignore[call-overload]
            with pytest.raises(tidings.SettingsError, match=r"did you mean lifetime=\?"):
                await bus.publish({"change": -4.5}, lifetme=60)  # type: ignore[call-arg]

    asyncio.run(play())


def test_the_types_name_every_option_there_is() -> None:
    assert set(DeliveryOptions.__struct_fields__) < set(options.SubscribeOptions.__annotations__)
    assert set(DeliverySettings.__struct_fields__) < set(options.EmbeddedOptions.__annotations__)
    assert set(RemoteSettings.__struct_fields__) < set(options.RemoteOptions.__annotations__)


@pytest.mark.parametrize("kind", [Bus, BlockingBus, tidings.Listener, tidings.BlockingListener])
def test_no_public_call_takes_options_of_any_type(kind: type) -> None:
    """Overloads count in place of the function behind them; `inquire` alone hands on what it is about."""
    untyped = [
        name
        for name, call in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
        for face in get_overloads(call) or [call]
        if face.__annotations__.get("options") == "Any"
    ]
    assert untyped == []


def test_a_name_that_other_libraries_use_is_answered_with_ours() -> None:
    with pytest.raises(AttributeError, match=r"'Subscription' \(did you mean tidings.Listener\?\)"):
        tidings.Subscription  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'Nonsense'$"):
        tidings.Nonsense  # noqa: B018


def test_a_name_beside_a_group_is_answered_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def play() -> None:
        async with tidings.connect() as bus:
            await bus.subscribe("n > 0", group="workers", name="mine")
            await bus.subscribe("n > 0", group="workers", durable=True)
            await bus.subscribe("n > 0", name="mine")

    asyncio.run(play())
    (said,) = (record.getMessage() for record in caplog.records if record.name == "tidings.client")
    assert "name='mine' has no effect beside group='workers'" in said
