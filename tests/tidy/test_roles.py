"""Interfaces between slots are roles: small, and the only way from one kind of strategy to another."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.tidy._calls import calls, stored_ports, undeclared_ports
from tests.tidy._sources import ROOT

from tidings.protocol import roles
from tidings.protocol.roles import Role, all_roles
from tidings.protocol.slots import KINDS, Ports, Strategy

pytestmark = pytest.mark.xdist_group("sources")  # every file is parsed once

MOST_METHODS = 8  # of a role
MOST_CALLS = 97  # between kinds, in the product, the laboratory and the application; may fall, not rise


def methods(role: type[Role]) -> list[str]:
    """The methods, properties and attributes that a role declares."""
    own = [name for name in vars(role) if not name.startswith("_") and name not in ("kind", "port")]
    return sorted({*own, *(n for n in vars(role).get("__annotations__", {}) if not n.startswith("_"))})


@pytest.mark.parametrize("role", all_roles().values(), ids=lambda role: role.__name__)
def test_a_role_has_few_methods_and_a_port(role: type[Role]) -> None:
    assert 1 <= len(methods(role)) <= MOST_METHODS, methods(role)
    assert role.kind in KINDS
    assert Ports.__annotations__[role.port] == f"roles.{role.__name__}"


def test_the_page_lists_every_role() -> None:
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    rows = [f"| `{role.__name__}` | `{port}` | {role.kind} |" for port, role in all_roles().items()]
    assert [row for row in rows if row not in page] == []


def test_kinds_have_no_methods_beyond_the_shape_and_their_roles() -> None:
    shape = set(vars(Strategy)) | {
        "__module__",
        "__doc__",
        "__annotations__",
        "__abstractmethods__",
        "_abc_impl",
        "kind",
        "matcher",
    }
    for kind in Strategy.__subclasses__():
        if kind.__module__ == Strategy.__module__:
            allowed = shape | {name for role in roles.roles_of(kind) for name in methods(role)}
            assert set(vars(kind)) - allowed == set(), kind


def test_kinds_meet_in_roles_alone() -> None:
    assert undeclared_ports() == []
    assert stored_ports() == [], "call it as `ports.<port>.<method>`"
    strange = [f"{c.where} {c.role.__name__}.{c.method}" for c in calls() if c.method not in methods(c.role)]
    assert strange == []


def test_every_method_of_a_role_has_a_caller() -> None:
    used = {(call.role, call.method) for call in calls()}
    unused = [
        f"{role.__name__}.{name}"
        for role in all_roles().values()
        for name in methods(role)
        if (role, name) not in used
    ]
    assert unused == [], "delete them"


def test_calls_between_kinds_only_become_fewer() -> None:
    between = [call for call in calls() if call.is_between_kinds]
    table = Counter(f"{call.caller} -> {call.role.kind}" for call in between)
    assert len(between) <= MOST_CALLS, sorted(table.items())
    assert len(between) == MOST_CALLS, f"lower MOST_CALLS to {len(between)}"
