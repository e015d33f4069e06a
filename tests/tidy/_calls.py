"""Calls between the kinds of strategy, found in the source: `ports.<port>.<method>`, also by a local name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.tidy._sources import name_of, python_files, tree_of

from tidings.protocol.roles import Role, all_roles
from tidings.protocol.slots import KINDS, Ports

FOLDERS = ("src/tidings/protocol", "lab/src", "quality/src")


class Call(NamedTuple):
    """One use of a role's method."""

    caller: str  # the kind of the file; its name for files of no kind
    role: type[Role]
    method: str
    where: str

    @property
    def is_between_kinds(self) -> bool:
        return self.caller in KINDS and self.caller != self.role.kind


def kind_of(path: Path) -> str:
    return next((part for part in path.parts[:-1] if part in KINDS), path.stem)


def is_ports(node: ast.expr) -> bool:
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name in ("ports", "_ports")


def used_ports(tree: ast.AST) -> Iterator[ast.Attribute]:
    """Every `ports.<name>`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_ports(node.value):
            yield node


def _aliases(function: ast.AST) -> dict[str, str]:
    """Local names that stand for a port."""
    found: dict[str, str] = {}
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=False))
            for name, value in pairs:
                if isinstance(name, ast.Name) and isinstance(value, ast.Attribute) and is_ports(value.value):
                    found[name.id] = value.attr
    return found


def calls() -> list[Call]:
    roles = all_roles()
    found: set[Call] = set()
    for path in python_files(*FOLDERS):
        for function in ast.walk(tree_of(path)):
            if not isinstance(function, ast.FunctionDef):
                continue
            local = _aliases(function)
            for node in ast.walk(function):
                if not isinstance(node, ast.Attribute):
                    continue
                value, port = node.value, ""
                if isinstance(value, ast.Attribute) and is_ports(value.value):
                    port = value.attr
                elif isinstance(value, ast.Name):
                    port = local.get(value.id, "")
                if port in roles:
                    where = f"{name_of(path)}:{node.lineno}:{node.col_offset}"
                    found.add(Call(kind_of(path), roles[port], node.attr, where))
    return sorted(found, key=lambda call: (call.where, call.method))


def stored_ports() -> list[str]:
    """Attributes and arguments that hold a role: a call through them would not be seen."""
    roles: dict[str, type[Role]] = all_roles()
    found: list[str] = []
    for path in (each for each in python_files(*FOLDERS) if kind_of(each) in KINDS):
        tree = tree_of(path)
        called = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
        local = {
            id(value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            for target in node.targets
            for name, value in (
                zip(target.elts, node.value.elts, strict=False)
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
                else [(target, node.value)]
            )
            if isinstance(name, ast.Name)
        }
        found += [
            f"{name_of(path)}:{node.lineno} {node.attr}"
            for node in used_ports(tree)
            if node.attr in roles and id(node) not in called | local
        ]
    return found


def undeclared_ports() -> list[str]:
    """Uses of `ports` beyond what `Ports` declares."""
    declared = set(Ports.__annotations__) | set(vars(Ports))
    return [
        f"{name_of(path)}:{node.lineno} ports.{node.attr}"
        for path in python_files(*FOLDERS)
        if kind_of(path) in KINDS
        for node in used_ports(tree_of(path))
        if node.attr not in declared
    ]
