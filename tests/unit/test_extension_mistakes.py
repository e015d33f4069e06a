"""Mistakes that people make in extensions: each names its package, and no other package suffers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.unit._installing import Install, install, run
from tests.unit.test_extension_points import SMALL, STRATEGIES, SYSTEM

from tidings import extensions
from tidings.errors import ExtensionError, SettingsError
from tidings.extensions import ExtensionWarning
from tidings.gateway.listeners import Gateways
from tidings.runtime.broker import open_store
from tidings.runtime.service import Service
from tidings.runtime.settings import read_settings
from tidings.systems import find_system, system_names

__all__ = ["install"]
Capsys = pytest.CaptureFixture[str]


# Objects with a wrong field


@pytest.mark.parametrize(
    ("group", "code", "said"),
    [
        ("systems", f"{SYSTEM}\nX = system(7)", "field name is 7 and has to be str"),
        ("systems", f"{SYSTEM}\nX = system('x', None)", "field strategies is None and has to be a function"),
        ("systems", f"{SYSTEM}\nX = system('a\\nb')", "field name is 'a\\\\nb' and has to be a text"),
        (
            "serialisers",
            "from tidings.model.serialisers import Serialiser\nX = Serialiser(7, len, len)",
            "field content_type is 7 and has to be str",
        ),
        (
            "contracts",
            "from tidings.history.contracts import make_contract\nX = make_contract('Empty')",
            "field properties is empty: it would promise nothing",
        ),
        (
            "faults",
            "from tidings.simulation.faults import OwnFault\nX = OwnFault(None, None)",
            "field begin is None and has to be a function",
        ),
    ],
)
def test_an_object_with_a_wrong_field_is_left_out_alone(
    install: Install, group: str, code: str, said: str
) -> None:
    install("odd", code, **{group: "odd = X"})
    install("good", f"{SYSTEM}\nX = system('Good')", systems="good = X")
    with pytest.raises(ExtensionError, match=f"package odd offers .* 'odd', whose {said}"):
        extensions.load(f"tidings.{group}", "odd")
    assert find_system("good").name == "Good"
    with pytest.warns(ExtensionWarning, match="package odd offers"):
        list(extensions.load_all(f"tidings.{group}", ()))


def test_systems_whose_names_differ_in_signs_are_of_one_name(install: Install) -> None:
    install("one", f"{SYSTEM}\nX = system('Case Sys')", systems="c1 = X")
    install("two", f"{SYSTEM}\nX = system('case_SYS')", systems="c2 = X")
    for name in ("casesys", "Case-Sys", "case sys"):
        with pytest.raises(ExtensionError, match="packages one and two both offer system 'casesys'"):
            find_system(name)
    with pytest.warns(ExtensionWarning, match="packages one and two both offer"):
        assert "Case Sys" not in system_names()
    assert find_system("FEWER_hops") is find_system("fewer hops") is find_system("fewerhops")


# Strategies

MORE = f"""{STRATEGIES}
from tidings.protocol.overlay.joined import JoinedOverlay

class One(Flood):
    messages = Carry

class Forward(Message, frozen=True, tag="Publish"):
    envelope: Envelope

class Thief(Flood):
    messages = (Forward,)

class Waits(Flood):
    async def on_message(self, sender, message, now):
        pass

class Late(Flood):
    async def forward_one(self, envelope, at, came_from, now):
        pass

class Exits(Flood):
    def forward_one(self, envelope, at, came_from, now):
        raise SystemExit(3)

Made = type("Made", (Flood,), dict(next_deadline=lambda self: "soon"))
Made.__module__ = "abc"

class Text(Flood):
    def next_deadline(self):
        return "soon"

class Nothing(Flood):
    def staying(self, events, matches, now):
        return None

class Short(Flood):
    def staying(self, events, matches, now):
        return []

class Endless(Flood):
    def next_deadline(self):
        return 0.0

KINDS = (One, Thief, Waits, Late, Exits, Made, Text, Nothing, Short, Endless)
ALL = tuple(system("s" + each.__name__.lower(), each) for each in KINDS)

def slots(site, **more):
    return broker_slots(site, Flood()) | more

def other(name, strategies, networked=False):
    return System(
        name=name, contract="SIENA", model="content", promise="x", graph=TREE, strategies=strategies,
        networked=networked,
    )

EXTRA = other("extra", lambda site: slots(site, wobble=Flood()))
WRONG = other("wrong", lambda site: slots(site, overlay=Flood()))
BARE = other("bare", lambda: None)
ALONE = other("alone", slots, True)
JOINS = other("joins", lambda site: slots(site, overlay=JoinedOverlay(site.neighbours)), True)
"""
ENTRIES = "all = ALL, extra = EXTRA, wrong = WRONG, bare = BARE, alone = ALONE, joins = JOINS"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("sone", "the strategy One of moved has messages = <class 'moved.Carry'>, which is no tuple"),
        ("sthief", "its message Forward has the tag 'Publish', which is that of Publish of tidings.protocol"),
        ("swaits", "the strategy Waits of moved: on_message is a coroutine function, which nothing awaits"),
        ("slate", "the strategy Late of moved: forward_one is a coroutine function, which nothing awaits"),
        ("sexits", "package moved failed: SystemExit: 3 (line 70 of"),
        ("smade", "package moved failed: Made.next_deadline gave 'soon' and has to give a moment"),
        ("stext", "package moved failed: Text.next_deadline gave 'soon' and has to give a moment"),
        ("snothing", "package moved failed: Nothing.staying gave None and has to give a sequence"),
        ("sshort", "package moved failed: Short.staying gave [] and has to give a sequence of bool, one for"),
        ("sendless", "package moved failed: the timer of b0 fired 10,000 times at 0 s, and no time passes"),
        ("extra", "package moved offers system 'extra', which failed: TypeError: extra has a slot 'wobble'"),
        ("wrong", "has <moved.Flood object at"),
        ("bare", "TypeError: <lambda>() takes 0 positional arguments but 1 was given (<lambda> of moved"),
    ],
)
def test_a_mistake_in_a_strategy_is_no_defect_of_tidings(
    install: Install, capsys: Capsys, name: str, said: str
) -> None:
    install("moved", MORE, systems=ENTRIES)
    code, _, err = run(capsys, "simulate", name, *SMALL)
    assert said in " ".join(err.split())
    assert code in (2, 3)
    assert "defect in Tidings" not in err


def test_a_networked_system_needs_an_overlay_that_joins(install: Install) -> None:
    install("moved", MORE, systems=ENTRIES)
    fields = {"name": "b1", "listen": "127.0.0.1:0", "security.anonymous": True}
    assert read_settings(fields={**fields, "system": "joins"}).system == "joins"
    with pytest.raises(SettingsError, match=r"its overlay \(StaticOverlay of .*\) never links") as caught:
        read_settings(fields={**fields, "system": "alone"})
    assert "JoinedOverlay(site.neighbours)" in caught.value.hint


def test_the_class_that_was_called_is_blamed_among_classes_of_one_name(
    install: Install, capsys: Capsys
) -> None:
    def code(name: str) -> str:
        sound = STRATEGIES.replace("broken.Carry", f"{name}.Carry").replace("class Flood", "class Shared")
        sound = sound.replace("(Flood)", "(Shared)") + f'\nX = system("{name}", Shared)\n'
        if name == "good":
            return sound
        return sound.replace("def wanted_elsewhere(self, event):", "def wanted_elsewhere(self, *, event):")

    install("abad", code("abad"), systems="abad = X")
    install("good", code("good"), systems="good = X")
    install("zbad", code("zbad"), systems="zbad = X")
    assert find_system("good").slots()
    for name in ("abad", "zbad"):
        kind = type(find_system(name).slots()["routing"])
        with pytest.raises(TypeError) as caught:
            call(kind())
        found = extensions.error_of_extension(caught.value)
        assert found is not None
        assert f"an extension of package {name} failed: TypeError: Shared.wanted_elsewhere()" in found.message
        assert f"(Shared of {name}, line 21 of " in found.message


def call(strategy: object) -> None:
    """As code of Tidings calls a strategy that it has at hand."""
    strategy.wanted_elsewhere(None)  # type: ignore[attr-defined]


# Properties and workloads

JUDGES = """
from tidings.history.contracts import make_contract
from tidings.history.properties import Property

async def late(tables):
    return ()

FOUND = {
    "none": lambda tables: None,
    "late": late,
    "text": lambda tables: ("x",),
    "odd": lambda tables: ([7],),
    "many": lambda: (),
}
PROPERTIES = tuple(Property(name, "It holds.", "here", found) for name, found in FOUND.items())
CONTRACTS = tuple(make_contract("C" + name, "legality", name) for name in FOUND)
"""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("none", "whose violations gave None and have to give a sequence of tables of Violation"),
        ("late", "whose violations gave <coroutine object late"),
        ("text", "whose violations gave a tuple of no tables and have to give"),
        ("odd", "whose violations hold 7, which is no Violation"),
        ("many", "which failed: TypeError: <lambda>() takes 0 positional arguments but 1 was given"),
    ],
)
def test_a_property_that_gives_no_violations_names_its_package(
    install: Install, capsys: Capsys, tmp_path: Path, name: str, said: str
) -> None:
    install("judge", JUDGES, properties="mine = PROPERTIES", contracts="mine = CONTRACTS")
    history = str(tmp_path / "run.jsonl")
    assert run(capsys, "simulate", "tidings", *SMALL, "--record", history)[0] == 0
    ended, _, err = run(capsys, "check", history, "--contract", f"C{name}")
    assert ended == 3
    assert err.startswith(f"error: package judge offers properties 'mine', {said}")


LOADS = """
class Fine:
    def filter(self, rng): return "a > 1"
    def event(self, rng): return {"a": 2}

def of(**methods):
    return type("Other", (Fine,), methods)

address = of(address=lambda self, attributes: None)
filter = of(filter=lambda self, rng: None)
event = of(event=lambda self, rng: None)
signature = of(event=lambda self: {"a": 2})
"""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("address", "whose method address gave None and has to give a dict"),
        ("filter", "whose method filter gave None and has to give a str"),
        ("event", "whose method event gave None and has to give a dict"),
        ("signature", "which failed: TypeError: <lambda>() takes 1 positional argument but 2 were given"),
    ],
)
def test_a_workload_with_a_wrong_result_names_its_package(
    install: Install, capsys: Capsys, name: str, said: str
) -> None:
    install("load", LOADS, workloads=", ".join(f"{each} = {each}" for each in ("Fine", name)))
    assert run(capsys, "simulate", "tidings", *SMALL, "--workload", "Fine")[0] == 0
    ended, _, err = run(capsys, "simulate", "tidings", *SMALL, "--workload", name)
    assert ended == 3
    assert err.startswith(f"error: package load offers workload '{name}', {said}")


# Stores and gateways


def test_an_address_of_a_store_without_its_slashes_is_no_folder(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    install("keeper", "X = lambda address: None", stores="mine = X")
    for text in ("mine:x", "nats:x"):
        with pytest.raises(SettingsError, match=f"'{text}' would be a folder") as caught:
            asyncio.run(open_store(text))
        assert text.replace(":", "://") in caught.value.hint
    assert not (tmp_path / "mine:x").exists()


GATEWAYS = """
import asyncio

class Hangs:
    address = "here"
    def __init__(self, *given): pass
    async def start(self): pass
    async def close(self): await asyncio.Event().wait()

class Raises(Hangs):
    async def close(self): raise ValueError("no")

class Seven(Hangs):
    address = 7
"""


def test_a_gateway_that_cannot_be_closed_does_not_hold_up_its_broker(
    install: Install, capfd: pytest.CaptureFixture[str]
) -> None:
    install("door", GATEWAYS, gateways="hangs = Hangs, raises = Raises, seven = Seven")

    async def run(*names: str) -> None:
        fields = {"name": "b1", "listen": "127.0.0.1:0", "security.anonymous": True, "drain_seconds": 0.05}
        tables = {f"gateway.extensions.{name}": {} for name in names}
        async with Service(read_settings(fields={**fields, **tables}), gateways=Gateways):
            pass

    asyncio.run(run("hangs", "raises"))
    err = capfd.readouterr().err
    assert "package door offers gateway 'hangs', which was not closed within drain_seconds (0.05)" in err
    assert "package door offers gateway 'raises', which failed: ValueError: no (line 11 of" in err
    with pytest.raises(ExtensionError, match="gateway 'seven', which failed: TypeError: address is 7"):
        asyncio.run(run("seven"))
