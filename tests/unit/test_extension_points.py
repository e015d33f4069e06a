"""Extensions that are broken, clash or bear a name of the product: each is named, and the rest works on."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from tests.unit._installing import Install, forget, install, run

import tidings
from tidings import extensions
from tidings import systems as known
from tidings.console import pages
from tidings.errors import ExtensionError, SettingsError
from tidings.extensions import ExtensionWarning
from tidings.gateway import listeners
from tidings.gateway.bridges.bridge import RouteSettings, side_of
from tidings.history import contracts, properties
from tidings.model.event import Event
from tidings.model.serialisers import SERIALISERS
from tidings.runtime.broker import open_store
from tidings.runtime.offered_serialisers import register_offered
from tidings.simulation.faults import incident_kinds
from tidings.simulation.workloads import StockQuotes, content_named
from tidings.systems import find_system, system_names

__all__ = ["install"]
SMALL = ("--brokers", "3", "--events", "5", "--subscriptions", "3")
SYSTEM = """
from tidings.protocol.routing.covering import SubscriptionForwarding
from tidings.systems.brokers import broker_slots
from tidings.systems.system import TREE, System

def strategies(site):
    return broker_slots(site, SubscriptionForwarding())

def system(name, strategies=strategies):
    return System(
        name=name, contract="Tidings", model="content", promise="none", graph=TREE, strategies=strategies
    )
"""
APP = "import typer\nX = typer.Typer()\nX.command()(lambda: print('heard'))\nX.command('b')(lambda: None)\n"


# Commands

BROKEN = {
    "a wrong type": ("X = 42", "which is 42 and has to be a Typer application, or a Command"),
    "an import error": ("import no_such_module", "cannot be loaded: ModuleNotFoundError: No module named"),
    "sys.exit": ("import sys\nsys.exit()", "cannot be loaded: SystemExit"),
    "a parameter that Typer refuses": (
        "import typer\nX = typer.Typer()\n@X.command()\ndef a(b: int | str): pass",
        "which failed: ",
    ),
    "a missing object": ("", "cannot be loaded: AttributeError"),
}


@pytest.mark.parametrize("sort", BROKEN)
def test_a_broken_command_concerns_its_own_name_alone(
    install: Install, capsys: pytest.CaptureFixture[str], sort: str
) -> None:
    code, problem = BROKEN[sort]
    install("broken", code, commands="oops = X")
    ended, _, err = run(capsys, "filter", "check", "a=1")
    assert (ended, err.count("broken")) == (0, 0)  # not on every call
    ended, _, err = run(capsys, "oops")
    assert ended == 3
    assert err.startswith("error: package broken offers command 'oops', which ")
    assert problem in err
    assert err.endswith("hint: uninstall or repair broken\n")
    ended, out, err = run(capsys, "--help")
    assert ended == 0
    assert "filter" in out
    assert err.startswith("warning: package broken offers command 'oops', which ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("X = Command('Oops.', 'no_such_module')", "No module named 'no_such_module'"),
        ("X = Command('Oops.', 'lazy')", "no attribute 'register'"),
    ],
)
def test_a_command_that_cannot_be_registered_names_its_package(
    install: Install, capsys: pytest.CaptureFixture[str], code: str, problem: str
) -> None:
    install("lazy", f"from tidings.cli import Command\n{code}", commands="oops = X")
    ended, _, err = run(capsys, "oops")
    assert ended == 3
    assert err.startswith("error: package lazy offers command 'oops', which failed: ")
    assert problem in err


def test_a_command_of_two_packages_is_an_error_for_that_name_alone(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    install("one", APP, commands="oops = X, fine = X")
    install("two", APP, commands="oops = X")
    assert run(capsys, "version")[0] == 0
    assert run(capsys, "fine", "b")[0] == 0
    ended, _, err = run(capsys, "oops")
    assert ended == 3
    assert err.startswith("error: packages one and two both offer command 'oops'\n")
    assert run(capsys, "--help")[2].startswith("warning: packages one and two both offer command 'oops'; ")


def test_a_command_of_the_product_wins(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    install("thief", APP, commands="version = X")
    ended, out, err = run(capsys, "version")
    assert (ended, err) == (0, "")
    assert out.startswith("tidings ")


# Systems


def test_a_broken_system_spares_the_others(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    install("broken", f"{SYSTEM}\nX = 42\nY = (system('fine'), 'text')", systems="oops = X, texts = Y")
    install("good", f"{SYSTEM}\nX = system('Good One')", systems="entry = X")
    assert find_system("good_one").name == find_system("Good One").name == "Good One"
    for name in ("oops", "Texts"):
        ended, _, err = run(capsys, "simulate", name)
        assert ended == 3
        assert err.startswith(f"error: package broken offers system {name.lower()!r}, which is ")
        assert "warning" not in err
    ended, out, err = run(capsys, "systems", "--json")
    assert (ended, err.count("warning: package broken offers system "), err.count("\n")) == (0, 2, 2)
    assert "Good One" in out


def test_a_system_of_two_packages_is_an_error_for_that_name_alone(install: Install) -> None:
    install("one", f"{SYSTEM}\nX = (system('same'), system('first'))", systems="a = X")
    install("two", f"{SYSTEM}\nX = (system('Same'), system('second'))", systems="b = X")
    with pytest.raises(ExtensionError, match="packages one and two both offer system 'same'"):
        find_system("same")
    assert find_system("second").name == "second"
    with pytest.warns(ExtensionWarning, match="packages one and two both offer system 'same'; uninstall one"):
        names = system_names()
    assert {"first", "second"} <= set(names)
    assert "same" not in names


def test_an_entry_that_is_broken_does_not_hide_a_system_of_its_name(install: Install) -> None:
    install("broken", "X = 42", systems="mine = X")
    install("good", f"{SYSTEM}\nX = system('mine')", systems="entry = X")
    assert find_system("mine").name == "mine"


def test_a_system_of_the_product_wins(install: Install) -> None:
    install("thief", f"{SYSTEM}\nX = system('Tidings')", systems="tidings = X")
    assert find_system("tidings") in known.OWN
    assert [name.lower() for name in system_names()].count("tidings") == 1


@pytest.mark.parametrize(
    ("slots", "problem"),
    [
        ("lambda site: {}", "fill no slot `delivery`"),
        ("lambda site: strategies(site) | {'routing': 42}", "has 42 in the slot routing"),
        ("lambda site: 1 / 0", "ZeroDivisionError: division by zero (line"),
    ],
)
def test_a_system_without_strategies_names_its_package(
    install: Install, capsys: pytest.CaptureFixture[str], slots: str, problem: str
) -> None:
    install("hollow", f"{SYSTEM}\nX = system('hollow', {slots})", systems="entry = X")
    ended, _, err = run(capsys, "simulate", "hollow", *SMALL)
    assert ended == 3
    assert err.startswith("error: package hollow offers system 'entry', which failed: ")
    assert problem in err
    ended, out, err = run(capsys, "systems", "--json")
    assert (ended, err.count("\n")) == (0, 1)
    assert "hollow" not in out


# Contracts and properties

OWN_PROPERTY = """
from tidings.history.contracts import make_contract
from tidings.history.properties import Property

def violations(tables):
    return 1 / 0

PROPERTIES = (Property("mine", "It holds.", "here", violations),)
CONTRACTS = make_contract("Mine", "legality", "mine")
MISSPELT = (make_contract("Misspelt", "legalty"),)
"""


def test_a_property_and_its_contract_stand_in_one_module(install: Install) -> None:
    install("judge", OWN_PROPERTY, properties="mine = PROPERTIES", contracts="mine = CONTRACTS")
    assert "mine" in properties.known_properties()
    assert contracts.contract_of("mine").properties == {"legality", "mine"}


def test_a_property_that_raises_names_its_package(
    install: Install, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    install("judge", OWN_PROPERTY, properties="mine = PROPERTIES", contracts="mine = CONTRACTS")
    history = str(tmp_path / "run.jsonl")
    assert run(capsys, "simulate", "tidings", *SMALL, "--record", history)[0] == 0
    ended, _, err = run(capsys, "check", history, "--contract", "Mine")
    assert ended == 3
    assert err.startswith("error: package judge offers properties 'mine', which failed: ZeroDivisionError")


def test_a_misspelt_property_is_told_with_a_near_one(install: Install) -> None:
    install("judge", OWN_PROPERTY, contracts="mine = MISSPELT")
    with pytest.raises(ExtensionError, match=r"package judge: .* 'legalty'") as caught:
        contracts.contract_of("Misspelt")
    assert caught.value.hint == "did you mean legality?"
    with pytest.raises(SettingsError, match="'legalty'"):
        contracts.contract_of(contracts.make_contract("Here", "legalty"))


@pytest.mark.parametrize("group", ["contracts", "properties"])
def test_a_wrong_value_does_not_spoil_its_group(
    install: Install, capsys: pytest.CaptureFixture[str], group: str
) -> None:
    install("broken", "X = 42", **{group: "oops = X"})
    assert run(capsys, "simulate", "tidings", *SMALL)[0] == 0
    listing = contracts.known_contracts if group == "contracts" else properties.known_properties
    forget()
    with pytest.warns(ExtensionWarning, match=f"package broken offers {group} 'oops', which is 42"):
        assert listing()


# What is called: stores, gateways, bridges, workloads, faults, pages


@pytest.mark.parametrize(
    ("scheme", "problem"),
    [
        ("number", "which is 42 and has to be a function from an address to a Store"),
        ("none", "which gave None, no Store: it lacks close, commit, fetch"),
        ("boom", r"which failed: ValueError: no \(line 3 of"),
    ],
)
def test_a_broken_store_names_its_package(install: Install, scheme: str, problem: str) -> None:
    code = "def none(address): return None\ndef boom(address):\n    raise ValueError('no')\nnumber = 42"
    install("keeper", code, stores="number = number, none = none, boom = boom")
    with pytest.raises(ExtensionError, match=f"package keeper offers store '{scheme}', {problem}"):
        asyncio.run(open_store(f"{scheme}://x"))


@pytest.mark.parametrize("value", ["X = 42", "class X:\n    def __init__(self, *given): pass"])
def test_a_broken_gateway_names_its_package(install: Install, value: str) -> None:
    install("door", value, gateways="mine = X")
    with pytest.raises(ExtensionError, match="package door offers gateway 'mine', which "):
        extensions.call(listeners.GROUP, "mine", None, None, {}, gives=listeners.Gateway)


def test_a_broken_bridge_names_its_package(install: Install) -> None:
    side = (
        "class X:\n    def __init__(self, *given): pass\n    def open(self): pass\n    close = events "
        "= open\n"
    )
    install("isle", f"{side}number = 42", bridges="mine = X, number = number")
    assert side_of(RouteSettings(from_="mine://x"), "a") is not None
    with pytest.raises(ExtensionError, match=r"package isle offers bridge 'mine', .* lacks reached, send"):
        side_of(RouteSettings(to="mine://x"), "a")
    with pytest.raises(ExtensionError, match="package isle offers bridge 'number', which is 42"):
        side_of(RouteSettings(to="number://x"), "a")


def test_a_publisher_finds_serialisers_of_packages(install: Install) -> None:
    code = (
        "from tidings.model.serialisers import Serialiser\n"
        "CSV = Serialiser('text/csv', lambda body: b'', lambda data: dict([data.decode().split(',')]))\n"
        "JSON = Serialiser('application/json', lambda body: b'', lambda data: {})\n"
        "ODD = Serialiser(7, lambda body: b'', lambda data: {})\n"
    )
    install("commas", code, serialisers="csv = CSV, json = JSON")
    install("wrong", f"{code}\nX = 42", serialisers="oops = X, seven = ODD")
    register_offered.cache_clear()

    async def received() -> Event:
        async with tidings.connect() as bus, bus.subscribe("price = '7'") as news:
            await bus.publish(payload=b"price,7", content_type="text/csv")
            return await news.get(timeout=60)

    try:
        with pytest.warns(ExtensionWarning) as warned:
            assert asyncio.run(received()).payload == b"price,7"
        assert [str(each.message).split(",")[0] for each in warned] == [
            "package wrong offers serialiser 'oops'", "package wrong offers serialiser 'seven'",
        ]  # fmt: skip
        assert SERIALISERS.decode(b"price,7", "text/csv") == {"price": "7"}
        assert SERIALISERS.decode(b'{"price": 7}', "application/json") == {"price": 7}  # the product's own
    finally:
        SERIALISERS.unregister("text/csv")
        register_offered.cache_clear()


def test_a_name_that_one_package_offers_twice(install: Install) -> None:
    install("mine", "X = lambda *given: None\nY = lambda *given: None", stores="a = X, a = Y")
    with pytest.raises(ExtensionError, match="package mine offers store 'a' twice"):
        extensions.load("tidings.stores", "a")


def test_a_broken_workload_names_its_package(install: Install) -> None:
    install("load", "X = 42\nY = dict", workloads="number = X, empty = Y, stocks = X")
    assert isinstance(content_named("stocks"), StockQuotes)
    with pytest.raises(ExtensionError, match="package load offers workload 'number', which is 42"):
        content_named("number")
    with pytest.raises(ExtensionError, match=r"package load offers workload 'empty', .* lacks event, filter"):
        content_named("empty")


FAULT = """
from tidings.simulation.faults import OwnFault

def begin(simulation, incident):
    raise RuntimeError("began")

X = OwnFault(begin, begin)
"""


@pytest.mark.parametrize(("value", "problem"), [("X", "failed: RuntimeError: began"), ("FAULT", "cannot be")])
def test_a_fault_that_fails_names_its_package(
    install: Install, capsys: pytest.CaptureFixture[str], value: str, problem: str
) -> None:
    install("harm", FAULT, faults=f"mine = {value}, crash = X, loss = X")
    assert incident_kinds().count("crash") == 1
    assert "loss" not in incident_kinds()
    ended, _, err = run(capsys, "simulate", "tidings", *SMALL, "--incidents", "2", "--fault", "mine")
    assert ended == 3
    assert err.startswith(f"error: package harm offers fault 'mine', which {problem}")
    ended, out, _ = run(capsys, "simulate", "tidings", *SMALL, "--incidents", "2", "--fault", "crash")
    assert ended == 0
    assert "crash 2" in out


def test_a_page_that_is_missing_spares_the_console(install: Install) -> None:
    code = "from pathlib import Path\nX = Path('/no/such/folder')"
    install("paper", code, console="mine = X")
    with pytest.warns(ExtensionWarning, match="package paper offers console page 'mine', which failed"):
        assert "/index.html" in pages.table()


def test_an_interrupt_while_an_extension_is_imported_is_one(install: Install) -> None:
    install("slow", "raise KeyboardInterrupt", commands="oops = X")
    with pytest.raises(KeyboardInterrupt):
        extensions.load("tidings.commands", "oops")


STRATEGIES = """
from typing import ClassVar
from tidings.protocol.messages import Envelope, Message
from tidings.protocol.routing.one_by_one import OneByOne
from tidings.protocol.slots import Routing
from tidings.systems.brokers import broker_slots
from tidings.systems.system import TREE, System

class Carry(Message, frozen=True, tag="broken.Carry"):
    envelope: Envelope

class Flood(OneByOne):
    "Floods."
    name = "flood"
    messages = (Carry,)
    def on_message(self, sender, message, now):
        self.ports.events.received((message.envelope,), sender, now)
    def forward_one(self, envelope, at, came_from, now):
        for link in self.ports.neighbours.links():
            self.ports.send(link, Carry(envelope))
    def wanted_elsewhere(self, event):
        return True

class Raises(Flood):
    def forward_one(self, envelope, at, came_from, now):
        raise KeyError("oops in my strategy")

class Lacks(Routing):
    messages = (Carry,)

class Silent(Flood):
    messages = ()

class Signature(Flood):
    def forward(self, envelope):
        pass

class Odd:
    def forward(self): pass

def system(name, kind):
    return System(
        name=name, contract="SIENA", model="content", promise="x", graph=TREE,
        strategies=lambda site: broker_slots(site, kind()),
    )

A, B, C, D = (system(each.__name__.lower(), each) for each in (Raises, Lacks, Silent, Signature))
"""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("raises", "an extension of package broken failed: KeyError: 'oops in my strategy' (line 26 of"),
        ("lacks", "the strategy Lacks of broken has no method forward"),
        ("silent", "the strategy Silent of broken has on_message and no messages"),
        ("signature", "the strategy Signature of broken: forward: too many positional arguments"),
    ],
)
def test_a_strategy_that_fails_or_cannot_work_is_named(
    name: str, said: str, install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    install("broken", STRATEGIES, systems="raises = A, lacks = B, silent = C, signature = D")
    code, _, err = run(capsys, "simulate", name, *SMALL)
    assert code in (2, 3)
    assert said in " ".join(err.split())
    assert "defect in Tidings" not in err


def test_a_call_that_cannot_even_be_made_is_blamed_on_the_class(install: Install) -> None:
    install("broken", STRATEGIES, systems="raises = A")
    odd = find_system("raises").slots()["routing"].__class__.__module__
    kind = vars(sys.modules[odd])["Odd"]
    for wrong in (lambda: kind().forward(1), lambda: kind().other()):
        with pytest.raises((TypeError, AttributeError)) as caught:
            wrong()
        found = extensions.error_of_extension(caught.value)
        assert found is not None
        assert "package broken" in found.message
    with pytest.raises(TypeError) as caught:
        len(3)  # type: ignore[arg-type]
    assert extensions.error_of_extension(caught.value) is None
