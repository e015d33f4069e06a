"""UAR-7: every process killed at each message of a view change, for 3, 4 and 5 distributors.

A view change is run once undisturbed and its sends are counted; then once for each process and each of its
sends, killed just before it, and once more killed just behind its last. Whoever dies, all installed views are
in one order, a majority that is left makes progress, and when the dead are back everybody is in one view
again.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.unit.protocol.membership._group import Group

from tidings.history.check import check
from tidings.history.schema import VIEW
from tidings.protocol.membership.voting import VotingRound

NEWCOMER = "n"


def founded(size: int, *, newcomer: bool = False) -> Group:
    names = [f"d{number}" for number in range(1, size + 1)]
    group = Group([*names, NEWCOMER] if newcomer else names, founders=size)
    group.start(*names)
    assert group.run(10, lambda: group.agree(*names))
    group.run(0.2)
    group.sent = dict.fromkeys(group.names, 0)
    return group


def change(group: Group, trigger: str) -> None:
    """Begin the change of view that is to be disturbed."""
    if trigger == "crash of the last":
        group.crash(group.founders[-1])
    elif trigger == "crash of the coordinator":
        group.crash(group.founders[0])
    else:
        group.start(NEWCOMER)


def undisturbed(size: int, trigger: str) -> dict[str, int]:
    """How much each process says in this change."""
    group = founded(size, newcomer=trigger == "join")
    change(group, trigger)
    group.run(4)
    assert group.agree(*group.nodes)
    return group.sent


def judge(group: Group) -> None:
    report = check(group.rows, contract="UARC")
    assert report.verdicts["view_agreement"].holds, report.verdicts["view_agreement"].story
    by_number: dict[int, tuple[str, ...]] = {}
    for row in group.rows:
        if row.op == VIEW:
            assert row.view is not None
            assert row.members is not None
            assert by_number.setdefault(row.view, row.members) == row.members, "one view for each number"
    views = [set(by_number[number]) for number in sorted(by_number)]
    assert all(one & other for one, other in pairwise(views)), (
        "no view follows one that it shares nobody with"
    )
    voters = len(group.founders)
    big = [view for view in views if len(view & set(group.founders)) > voters // 2]
    assert all(one & other for one in big for other in big), "two majorities always meet"


def killed(size: int, trigger: str, victim: str, sends: int, *, takes_along: bool = False) -> Group:
    group = founded(size, newcomer=trigger == "join")
    group.takes_along = takes_along
    group.dies_after = (victim, sends)
    change(group, trigger)
    group.run(4)
    left = set(group.nodes) & set(group.founders)
    if len(left) > size // 2:
        assert group.agree(*group.nodes), f"{victim} at {sends}: those who are left do not agree"
    else:
        assert not any(group.membership(name).is_serving for name in group.nodes), "a minority serves nobody"
    group.dies_after = None
    group.start(*(name for name in group.names if name not in group.nodes))
    assert group.run(10, lambda: group.agree(*group.names)), f"{victim} at {sends}: not all are back"
    judge(group)
    return group


@pytest.mark.parametrize("size", [3, 4, 5])
@pytest.mark.parametrize("trigger", ["crash of the last", "crash of the coordinator", "join"])
def test_uar_7_a_process_dies_at_each_message_of_a_view_change(size: int, trigger: str) -> None:
    stated = undisturbed(size, trigger)
    for victim, most in stated.items():
        for sends in range(most + 1):
            killed(size, trigger, victim, sends)


def test_e_u3_a_view_that_one_member_was_told_of_is_found_by_whoever_takes_over() -> None:
    group = founded(5)
    group.log.clear()
    change(group, "crash of the last")
    group.run(4)
    last = max(
        position for position, (who, _, what) in enumerate(group.log) if what == "ViewInstall" and who == "d1"
    )
    first = next(
        position for position, (who, _, what) in enumerate(group.log) if what == "ViewInstall" and who == "d1"
    )
    assert last > first
    before = sum(who == "d1" for who, _, _ in group.log[:first])
    again = killed(
        5, "crash of the last", "d1", before + 1
    )  # one member knows the view, its coordinator is gone
    delivered = [row for row in again.rows if row.op == VIEW and row.view == 2]
    assert {row.members for row in delivered} == {("d1", "d2", "d3", "d4")}
    assert again.membership("d2").figures()["takeovers"] >= 1


def each_send(size: int, trigger: str, victim: str, most: int) -> None:
    for sends in range(most + 1):
        killed(size, trigger, victim, sends, takes_along=True)


def test_uar_7_whoever_was_told_last_dies_too() -> None:
    """The hardest of E-U3: those who know that a view was decided are all gone."""
    for victim, most in undisturbed(5, "join").items():
        each_send(5, "join", victim, most)


def test_e_u3_without_what_the_interrogation_finds_the_order_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The third phase is needed: leave out what it is for, and some crash point gives two views of one
    number."""
    monkeypatch.setattr(VotingRound, "found", lambda self: None)
    fields = undisturbed(5, "join")
    with pytest.raises(AssertionError, match="view"):
        each_send(5, "join", "d1", fields["d1"])
