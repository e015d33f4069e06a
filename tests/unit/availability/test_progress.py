"""Progress against an oracle that keeps a set of everything handed out and everything settled."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidings.availability.progress import LogProgress, SubscriptionProgress

offsets = st.integers(1, 15)
steps = st.one_of(
    st.tuples(st.just("hand out"), offsets),
    st.tuples(st.just("settle"), offsets),
    st.tuples(st.just("owe again"), offsets),
    st.tuples(st.just("silence"), offsets),
)


class Oracle:
    """Every offset is unseen, owed or settled."""

    def __init__(self) -> None:
        self.state: dict[int, str] = {}

    def received(self) -> int:
        return max(self.state, default=0) + 1

    def see(self, upto: int) -> None:
        for offset in range(self.received(), upto):
            self.state[offset] = "settled"

    def do(self, what: str, offset: int) -> bool | None:
        state = self.state.get(offset)
        if what == "hand out":
            if state is None:
                self.see(offset)
                self.state[offset] = "owed"
            return state != "settled"
        if what == "settle":
            if state == "owed":
                self.state[offset] = "settled"
            return state == "owed"
        if what == "owe again" and state == "settled":
            self.state[offset] = "owed"
        if what == "silence":
            self.see(offset)
        return None


@given(st.lists(steps))
def test_progress_is_what_the_oracle_says(plan: list[tuple[str, int]]) -> None:
    progress, oracle = SubscriptionProgress(), Oracle()
    for what, offset in plan:
        log = progress.of("a")
        done = {
            "hand out": log.hand_out, "settle": log.settle, "owe again": log.owe_again,
            "silence": log.silence,
        }[what](offset)  # fmt: skip
        assert done == oracle.do(what, offset)
        progress.check()
        progress = SubscriptionProgress.decode(progress.encode())  # a restart between any two steps
    log = progress.of("a")
    owed = [offset for offset, state in sorted(oracle.state.items()) if state == "owed"]
    assert log.owed == owed
    assert progress.token() == {"a": owed[0] if owed else oracle.received()}
    assert all(log.is_settled(offset) == (oracle.state.get(offset) == "settled") for offset in range(1, 20))


def test_acknowledged_out_of_order_the_mark_waits_for_the_slowest() -> None:
    log = LogProgress()
    for offset in (3, 7, 9):
        assert log.hand_out(offset)
    assert log.settle(9)
    assert log.low_water == 3
    assert log.settle(3)
    assert log.low_water == 7
    assert log.settle(7)
    assert log.low_water == 10
    assert not log.settle(7), "once"
    assert not log.hand_out(9), "not again"


def test_silence_moves_the_token_where_nothing_matched() -> None:
    progress = SubscriptionProgress()
    progress.of("a").silence(100)
    progress.of("b").hand_out(5)
    progress.of("b").silence(50)
    assert progress.token() == {"a": 100, "b": 5}


def test_a_token_is_taken_at_its_word() -> None:
    progress = SubscriptionProgress()
    for offset in (1, 2, 3, 4):
        progress.of("a").hand_out(offset)
    for offset in (1, 2, 4):
        progress.of("a").settle(offset)
    progress.of("b").silence(9)
    progress.resume({"a": 2})
    assert progress.token() == {"a": 2, "b": 9}
    assert progress.of("a").hand_out(4), "the application knows better what it has kept"
    progress.resume({"a": 10})
    assert not progress.of("a").hand_out(3)


@given(st.sets(offsets), st.sets(offsets), st.integers(1, 15))
def test_several_at_once_are_as_one_by_one(out: set[int], settled: set[int], silent: int) -> None:
    together, single = LogProgress(received=silent), LogProgress(received=silent)
    is_new = together.hand_out_all(sorted(out)) if out else True
    assert is_new == all([single.hand_out(offset) for offset in sorted(out)])  # noqa: C419 - each is tried
    together.settle_all(sorted(settled))
    for offset in sorted(settled):
        single.settle(offset)
    assert together == single
