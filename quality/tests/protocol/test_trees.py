"""Diffusion trees by capability."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings_quality.routing.trees import Branch, build_tree, depth_of, names_in

CAPABILITIES = st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.integers(1, 4), max_size=40)


def fan_outs(branches: Sequence[Branch]) -> dict[str, int]:
    return {
        name: fan
        for one in branches
        for name, fan in [(one.name, len(one.below)), *fan_outs(one.below).items()]
    }


@settings(deadline=None)
@given(CAPABILITIES, st.integers(1, 4))
def test_vir5_8_every_consumer_once_and_nobody_sends_to_more_than_it_can(
    capability: dict[str, int], root: int
) -> None:
    tree = build_tree(root, capability, capability.__getitem__)
    assert sorted(names_in(tree)) == sorted(capability)
    assert len(tree) <= root
    assert all(fan <= capability[name] for name, fan in fan_outs(tree).items())


@pytest.mark.parametrize("fan_out", [2, 3, 5])
@pytest.mark.parametrize("consumers", [1, 2, 7, 40, 300])
def test_vir5_8_the_tree_is_as_flat_as_it_can_be(consumers: int, fan_out: int) -> None:
    tree = build_tree(fan_out, [f"c{k:03}" for k in range(consumers)], lambda _: fan_out)
    depth = depth_of(tree)
    assert depth <= math.ceil(math.log(consumers + 1, fan_out)) + 1
    stored = sum(fan_out**level for level in range(1, depth))
    assert stored < consumers  # one level less would not hold them


def test_vir5_8_the_capable_stand_near_the_root() -> None:
    tree = build_tree(1, ["a", "b", "c"], {"a": 1, "b": 2, "c": 1}.__getitem__)
    assert tree == (Branch("b", (Branch("a"), Branch("c"))),)


def test_no_consumers_no_tree() -> None:
    assert build_tree(3, [], lambda _: 1) == ()


def test_a_chain_of_hundreds_can_be_written_and_read() -> None:
    tree = build_tree(1, [f"c{k:03}" for k in range(300)], lambda _: 0)
    assert depth_of(tree) == 300
    assert msgspec.json.decode(msgspec.json.encode(tree), type=tuple[Branch, ...]) == tree
