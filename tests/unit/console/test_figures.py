"""From what brokers say to what people see."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidings.console import figures
from tidings.runtime.histogram import BOUNDS, Histogram


def said(name: str, links: tuple[str, ...] = (), **more: object) -> dict[str, object]:
    return {"broker": name, "address": f"tidings://{name}", "links": dict.fromkeys(links, "x"), **more}


def test_a_rate_is_the_growth_of_a_counter() -> None:
    assert figures.rate({"published": 30}, {"published": 10}, "published", 2.0) == 10.0


def test_a_counter_that_fell_began_anew() -> None:
    assert figures.rate({"published": 6}, {"published": 1000}, "published", 2.0) == 3.0


def test_without_an_earlier_look_nothing_has_a_rate() -> None:
    assert figures.rate({"published": 30}, None, "published", 2.0) == 0.0
    assert figures.rate({"published": "many"}, {}, "published", 2.0) == 0.0


@given(st.lists(st.floats(0.0001, 20)), st.lists(st.floats(0.0001, 20)))
def test_delays_are_those_between_two_looks(before: list[float], since: list[float]) -> None:
    """The oracle: a histogram that saw nothing else."""
    whole, alone, old = Histogram(), Histogram(), Histogram()
    for seconds in before:
        whole.observe(seconds)
        old.observe(seconds)
    for seconds in since:
        whole.observe(seconds)
        alone.observe(seconds)
    now, then = ({"x": each.figures()} for each in (whole, old))
    assert figures.buckets_since(now, then, "x") == alone.figures()["buckets"]


def test_what_is_beyond_the_last_bucket_is_shown_as_ten_seconds() -> None:
    slow = Histogram()
    slow.observe(BOUNDS[-1] + 1)
    assert figures.delays({"deliver": slow.figures()["buckets"]})["deliver"]["p99"] == 10_000.0


def test_changes_name_links_brokers_and_swaps() -> None:
    before = {"b1": said("b1", ("b2",)), "b2": said("b2", ("b1",)), "b3": said("b3")}
    now: dict[str, dict[str, object]] = {
        "b1": said("b1", ("b3",), **{"swaps done": 1}),
        "b2": {"broker": "b2", "problem": "no answer"},
        "b3": said("b3", ("b1",)),
    }
    delivered = [(each.kind, each.brokers) for each in figures.changes(now, before, 5.0)]
    assert delivered == [
        ("broker-down", ("b2",)),
        ("swap", ("b1",)),
        ("link-up", ("b1", "b3")),
        ("link-down", ("b1", "b2")),
    ]
    assert figures.changes(now, {}, 5.0) == []  # at first nothing has changed


def test_links_carry_what_each_end_sent() -> None:
    activities = {"b1": {"sent": {"b2": 10}}, "b2": {"sent": {"b1": 4}}}
    (link,) = figures.link_rates(activities, {"b1": 2.0, "b2": 2.0})
    assert link == {"a": "b1", "b": "b2", "ab": 5.0, "ba": 2.0}


def test_a_silent_broker_is_shown_with_its_problem() -> None:
    shown = figures.shown_broker("b2", {"problem": "no answer", "address": "a"}, None, 1.0)
    assert shown == {"name": "b2", "address": "a", "problem": "no answer", "links": []}
    row = figures.total({"b1": said("b1", published=3), "b2": {"problem": "no answer"}}, {}, 1.0)
    assert (row["brokers"], row["silent"]) == (2, 1)


def test_a_level_that_no_broker_shows_is_unknown_and_not_0() -> None:
    some = {"b1": {"waiting": 2, "links": []}, "b2": {"waiting": 3, "entries": 0, "links": []}}
    levels = figures.total(some, {}, 1.0)["levels"]
    assert levels == {"waiting": 5, "entries": 0}


def test_a_swap_of_a_broker_that_one_look_missed_is_told() -> None:
    first = {"b1": {"links": ["b2"], "swaps done": 0}, "b2": {"links": ["b1"], "swaps done": 3}}
    missed = {"b1": {"links": [], "swaps done": 0}}
    now = {"b1": {"links": ["b2"], "swaps done": 0}, "b2": {"links": ["b1"], "swaps done": 4}}
    swaps = [
        each.brokers for each in figures.changes(now, missed, 5.0, first | missed) if each.kind == "swap"
    ]
    assert swaps == [("b2",)]
