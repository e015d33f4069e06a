"""Shares of a bounded table against a plain list of its entries."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidings.availability.shares import BoundedShares

STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5), st.integers(1, 4), st.booleans()))


@given(STEPS, st.integers(1, 12))
def test_the_heaviest_owner_gives_its_oldest_and_owners_within_their_share_nothing(
    plan: list[tuple[str, int, int, bool]], bound: int
) -> None:
    shares, model = BoundedShares[tuple[str, int]](), dict[tuple[str, int], int]()  # oldest first
    for owner, number, weight, heavier in plan:
        name = (owner, number)
        if name not in model:
            shares.add(name, owner, weight)
        else:
            shares.touch(name)
            weight = model.pop(name) + heavier
            shares.weigh(name, weight)
        model[name] = weight
        while shares.weight > bound and (gone := shares.surplus(name)) is not None:
            weights = {each: sum(w for n, w in model.items() if n[0] == each) for each, _ in model}
            assert weights[gone[0]] == max(weights.values())
            assert weights[gone[0]] * len(weights) > bound, "it had more than an equal share"
            assert gone == next(n for n in model if n[0] == gone[0] and n != name)
            shares.remove(gone)
            del model[gone]
        assert shares.weight == sum(model.values())
    while model:
        gone = shares.surplus()
        assert gone is not None
        shares.remove(gone)
        del model[gone]
    assert shares.weight == 0
    assert shares.surplus() is None
