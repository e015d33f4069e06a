"""Agreed views: partitions, silence, stale coordinators, disks that are lost (reliability cases of
membership)."""

from __future__ import annotations

from copy import deepcopy

import pytest
from tests.unit.protocol.membership._group import Group
from tests.unit.protocol.membership.test_crash_points import founded, judge

from tidings.protocol.effects import Send
from tidings.protocol.inputs import Received
from tidings.protocol.membership.views import ViewHello, ViewPropose, went_back
from tidings.store.memory import MemoryStore


def split(group: Group, one: list[str], other: list[str]) -> None:
    group.cut = {pair for a in one for b in other for pair in ((a, b), (b, a))}


def test_the_founders_agree_on_the_first_view_and_the_first_name_coordinates() -> None:
    group = founded(3)
    assert group.membership("d3").coordinator == "d1"
    assert [row.members for row in group.rows if row.op == "view"] == [("d1", "d2", "d3")] * 3


def test_an_address_that_comes_after_the_greeting_is_passed_on() -> None:
    """Members whose links came up at once are greeted before the other's address is known."""
    group = founded(3)
    node = group.nodes["d1"]
    life = group.membership("d2").life
    hello = ViewHello("group", life, "disk", None, "127.0.0.1:7")
    told = [
        effect.message.peers
        for effect in node.handle(Received("d2", hello), group.now)
        if isinstance(effect, Send) and effect.to == "d3" and isinstance(effect.message, ViewHello)
    ]
    assert told == [{"d2": "127.0.0.1:7"}]
    again = node.handle(Received("d2", hello), group.now)
    assert not any(isinstance(e, Send) and isinstance(e.message, ViewHello) for e in again)


def test_the_first_view_needs_everybody_who_was_named() -> None:
    group = Group(["d1", "d2", "d3"])
    group.start("d1", "d2")
    group.run(10)
    assert group.membership("d1").current is None
    assert not group.membership("d1").is_serving
    group.start("d3")
    assert group.run(5, lambda: group.agree("d1", "d2", "d3"))


@pytest.mark.parametrize("away", [["d1"], ["d1", "d2"], ["d4", "d5"]], ids="-".join)
def test_a_minority_makes_no_view_and_serves_nobody(away: list[str]) -> None:
    group = founded(5)
    rest = [name for name in group.names if name not in away]
    split(group, away, rest)
    assert group.run(8, lambda: group.agree(*rest))
    group.run(3)
    for name in away:
        assert group.membership(name).epoch == 1
        assert not group.membership(name).is_serving
    assert all(group.membership(name).is_serving for name in rest)
    group.cut = set()
    assert group.run(15, lambda: group.agree(*group.names))
    judge(group)


def test_in_two_halves_neither_goes_on_and_after_healing_both_do() -> None:
    group = founded(4)
    split(group, ["d1", "d2"], ["d3", "d4"])
    group.run(10)
    assert {group.membership(name).epoch for name in group.names} == {1}
    assert not any(group.membership(name).is_serving for name in group.names)
    group.cut = set()
    assert group.run(10, lambda: all(group.membership(name).is_serving for name in group.names))
    judge(group)


def test_where_words_go_one_way_only_both_ends_suspect() -> None:
    """Reciprocity (Mathur et al. 1995, 3.1)."""
    group = founded(3)
    group.cut = {("d1", name) for name in ("d2", "d3")}  # d1 hears everybody, nobody hears d1
    assert group.run(10, lambda: group.agree("d2", "d3"))
    group.run(2)
    assert not group.membership("d1").is_serving
    suspected = {(row.process, row.from_) for row in group.rows if row.op == "suspect"}
    assert {("d1", "d2"), ("d2", "d1")} <= suspected
    group.cut = set()
    assert group.run(15, lambda: group.agree("d1", "d2", "d3"))
    judge(group)


def test_a_coordinator_that_resumes_is_fenced_by_its_epoch() -> None:
    """It stood still while it was taken over. What it proposes then, as if nothing had been, nobody takes."""
    group = founded(3)
    stale = group.membership("d1").current
    assert stale is not None
    split(group, ["d1"], ["d2", "d3"])
    assert group.run(8, lambda: group.agree("d2", "d3"))
    group.cut = set()
    view = group.membership("d2").current
    assert view is not None
    assert view.number == 2
    alone = type(view)(2, ("d1", "d2"), view.lives, view.voters)
    group.nodes["d2"].handle(Received("d1", ViewPropose(stale, (0, "d1"), alone)), group.now)
    assert group.membership("d2").current == view
    assert group.run(15, lambda: group.agree("d1", "d2", "d3"))
    judge(group)


def test_a_link_that_flaps_does_not_make_a_view_each_time() -> None:
    group = founded(3)
    for _ in range(10):  # away for half a second of each: never long enough to be missed
        split(group, ["d3"], ["d1", "d2"])
        group.run(0.5)
        group.cut = set()
        group.run(0.5)
    assert group.membership("d1").epoch <= 2
    assert group.run(10, lambda: group.agree("d1", "d2", "d3"))
    judge(group)


def test_a_voter_without_its_disk_does_not_vote_until_it_was_let_in() -> None:
    group = founded(3)
    group.crash("d3")
    assert group.run(5, lambda: group.agree("d1", "d2"))
    group.crash("d2")
    group.run(1)
    group.wipe("d3")
    group.start("d3")  # it promised d1 and d2 things that it has forgotten: with d1 it is no majority
    group.run(10)
    assert not group.membership("d1").is_serving
    assert group.membership("d3").epoch == group.membership("d1").epoch
    group.start("d2")
    assert group.run(10, lambda: group.agree("d1", "d2", "d3"))
    judge(group)


def put_back(group: Group, name: str, copy: MemoryStore) -> None:
    group.crash(name)
    group.disks[name] = copy


def test_a_voter_whose_disk_was_put_back_to_an_older_copy_counts_as_one_without_its_disk() -> None:
    """Found from outside: it came back under the life that the view names, and voted as if
    nothing were lost."""
    group = founded(3)
    group.crash("d3")
    group.run(5)
    copy = MemoryStore(deepcopy(group.disks["d3"].disk))
    group.start("d3")
    assert group.run(5, lambda: group.agree("d1", "d2", "d3"))
    group.crash("d2")
    assert group.run(5, lambda: group.agree("d1", "d3"))
    group.crash("d1")
    put_back(group, "d3", copy)
    group.run(1)
    group.start("d2", "d3")
    group.run(10)
    assert not group.membership("d2").is_serving, "d3 has forgotten the view of d1 and d3"
    assert not group.membership("d3").is_serving
    assert group.membership("d3").figures()["disks put back"] == 1
    group.start("d1")
    assert group.run(10, lambda: group.agree("d1", "d2", "d3"))
    assert group.membership("d3").counts("d3")
    judge(group)


def test_each_start_from_the_same_disk_counts() -> None:
    group = founded(3)
    for _ in range(3):
        group.crash("d3")
        group.run(3)
        group.start("d3")
        assert group.run(5, lambda: group.agree("d1", "d2", "d3"))
    assert group.membership("d3").figures()["disks put back"] == 0
    assert group.membership("d1").current.voters["d3"] == group.membership("d3").life.partition(".")[0]


@pytest.mark.parametrize(
    ("life", "known", "is_older"),
    [
        ("a.2.x", "a.2.y", True),
        ("a.1.x", "a.2.y", True),
        ("a.2.x", "a.2", True),  # known by the last version, which wrote no third part
        ("a.3.x", "a.2.y", False),
        ("a.2.x", "a.2.x", False),
        ("b.1.x", "a.2.y", False),
    ],
)
def test_a_disk_went_back_when_a_view_names_a_later_life_of_it(life: str, known: str, is_older: bool) -> None:
    assert went_back(life, known) is is_older


def test_all_at_once_lose_power_and_go_on_from_their_disks() -> None:
    group = founded(5)
    for name in group.names:
        group.crash(name)
    group.run(1)
    group.start(*group.names)
    assert group.run(10, lambda: all(group.membership(name).is_serving for name in group.names))
    assert group.membership("d1").epoch > 1, "other lives, another view"
    judge(group)


def test_a_join_a_partition_and_a_kill_at_once() -> None:
    group = founded(5, newcomer=True)
    group.start("n")
    split(group, ["d5"], ["d1", "d2", "d3", "d4", "n"])
    group.crash("d1")
    assert group.run(15, lambda: group.agree("d2", "d3", "d4", "n"))
    group.cut = set()
    group.start("d1")
    assert group.run(15, lambda: group.agree(*group.names))
    judge(group)


def test_two_who_take_over_at_once_agree() -> None:
    """d2 and d3 do not hear one another, so both lead; d4 and d5 hear both."""
    group = founded(5)
    group.crash("d1")
    split(group, ["d2"], ["d3"])
    group.run(12)
    judge(group)
    assert any(group.membership(name).is_serving for name in ("d2", "d3", "d4", "d5"))
    group.cut = set()
    group.start("d1")
    assert group.run(20, lambda: group.agree(*group.names))
    judge(group)
