"""Quotas: exact at the bound, given back once, and time only as it is handed in."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.errors import RefusedError
from tidings.security.quotas import FEW, Quota, QuotaUsage, QuotaUsages, TokenBucket


def test_a_bucket_lets_a_burst_by_and_then_its_rate() -> None:
    bucket = TokenBucket(rate=10, most=100, now=0)
    assert bucket.take(100, now=0) == 0
    assert bucket.take(10, now=0) == 1.0  # a second to earn it
    assert bucket.take(0, now=1) == 0
    assert bucket.take(5, now=1) == 0.5


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 50)), max_size=40))
def test_who_waits_as_told_never_passes_the_rate(steps: list[tuple[float, float]]) -> None:
    """Oracle: over any stretch from the start at most burst + rate x time, and one thing more."""
    bucket, now, taken = TokenBucket(10, 30, 0.0), 0.0, 0.0
    for pause, amount in steps:
        now += pause
        assert taken <= 30 + 10 * now + 1e-6
        taken += amount
        now += bucket.take(amount, now)


def test_time_that_runs_backwards_gives_nothing() -> None:
    bucket = TokenBucket(10, 10, now=100)
    bucket.take(10, now=100)
    assert bucket.take(1, now=0) > 0
    assert bucket.take(0, now=100) > 0


@pytest.mark.parametrize(
    "what", ["connections", "subscriptions", "constraints", "advertisements", "stored_bytes"]
)
def test_each_bound_is_exact_and_names_itself(what: str) -> None:
    account = QuotaUsage("ann", Quota(**{what: 3}), now=0)
    use = {
        "connections": account.connect,
        "subscriptions": lambda: account.subscribe(0),
        "constraints": lambda: account.subscribe(1),
        "advertisements": lambda: account.advertise(0, None),
        "stored_bytes": lambda: account.reserve(1),
    }[what]
    for _ in range(3):
        use()
    with pytest.raises(RefusedError, match=f"4 {what.replace('_', ' ')}; its quota is 3"):
        use()


def test_what_is_given_back_can_be_used_again() -> None:
    account = QuotaUsage("ann", Quota(connections=1, subscriptions=1, constraints=5), now=0)
    for _ in range(3):
        account.connect()
        account.subscribe(5)
        account.unsubscribe(5)
        account.disconnect()
    with pytest.raises(RefusedError):
        account.subscribe(6)
    assert (account.subscriptions, account.constraints) == (0, 0)  # a refusal counts nothing


def test_stored_bytes_count_while_they_are_stored_and_before() -> None:
    account = QuotaUsage("ann", Quota(stored_bytes=100), now=0)
    account.reserve(60)
    with pytest.raises(RefusedError):
        account.reserve(41)  # what is on its way counts too
    account.count_stored(60)
    account.unreserve(60)
    account.reserve(40)
    account.unreserve(40)  # it was refused: nothing came of it
    account.count_stored(-60)  # superseded, or its lifetime is over
    account.reserve(100)
    assert (account.stored, account.pending) == (0, 100)


def test_idle_accounts_are_forgotten_but_no_debt_is() -> None:
    accounts = QuotaUsages({}, Quota(bytes_per_second=1, burst_bytes=1))
    accounts.of("debtor", 0).receive(1_000, 0)
    for number in range(10 * FEW):
        accounts.of(f"guest {number}", 0)
    assert len(accounts) <= 2 * FEW
    assert accounts.of("debtor", 1).receive(0, 1) > 900


def test_new_bounds_count_at_once_and_cut_nothing() -> None:
    accounts = QuotaUsages({"ann": Quota(connections=2)}, Quota())
    account = accounts.of("ann", 0)
    account.connect()
    account.connect()
    accounts.replace({"ann": Quota(connections=1)}, Quota())
    with pytest.raises(RefusedError):
        account.connect()
    account.disconnect()
    with pytest.raises(RefusedError):
        account.connect()
    account.disconnect()
    account.connect()
