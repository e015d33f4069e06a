"""Failed logins: pauses that double, tables with a bound, and owners that are not locked out from
elsewhere."""

from __future__ import annotations

import pytest

from tidings.security import attempts as bounds
from tidings.security.attempts import Attempts, TooManyAttempts, network_of

HERE, THERE = "10.0.0.1", "10.0.0.2"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def tried(attempts: Attempts, name: str, peer: str, *, right: bool = False, kind: str = "sent") -> bool:
    """One login with a name that exists; did its password count?"""
    try:
        pause = attempts.check(kind, name, peer, begins=True)
    except TooManyAttempts:
        return False
    counts = not pause or attempts.is_spared(kind, peer)
    if not right:
        attempts.failed(kind, name, peer)
    elif counts:
        attempts.succeeded(kind, name, peer)
    return counts


def test_pauses_double_up_to_a_bound() -> None:
    clock = Clock()
    attempts = Attempts(clock)
    assert all(tried(attempts, "ann", HERE) for _ in range(bounds.PAIR.free))
    pauses = []
    for _ in range(9):
        began = clock.now
        while not tried(attempts, "ann", HERE):
            clock.now += 0.5
        pauses.append(clock.now - began)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    with pytest.raises(TooManyAttempts, match="too many logins have failed") as caught:
        attempts.check("sent", "ann", HERE)
    assert caught.value.seconds == 60


def test_a_success_forgets_and_so_does_time() -> None:
    clock = Clock()
    attempts = Attempts(clock)
    for _ in range(3):
        for _ in range(bounds.PAIR.free - 1):
            assert tried(attempts, "ann", HERE)
        assert tried(attempts, "ann", HERE, right=True)
    for _ in range(20):
        tried(attempts, "ann", HERE)
    clock.now += bounds.FORGET_SECONDS + 1
    assert tried(attempts, "ann", HERE)


def test_guessing_from_elsewhere_does_not_lock_the_owner_out() -> None:
    clock = Clock()
    attempts = Attempts(clock)
    assert tried(attempts, "ann", HERE, right=True)
    for number in range(1000):
        tried(attempts, "ann", f"10.1.{number // 250}.{number % 250}")
    assert not tried(attempts, "ann", THERE, right=True), "from where it never came, the name waits"
    assert tried(attempts, "ann", HERE, right=True)
    clock.now += bounds.NAME.longest
    assert tried(attempts, "ann", THERE, right=True), "a few seconds at most"


def test_one_address_cannot_try_all_names_and_the_two_kinds_are_apart() -> None:
    attempts = Attempts(Clock())
    looked_at = sum(tried(attempts, f"user{number}", HERE) for number in range(1000))
    assert looked_at == bounds.ADDRESS.free + bounds.SPARED.burst
    assert tried(attempts, "ann", THERE)
    assert tried(attempts, "ann", HERE, kind="proved")


def test_names_that_exist_are_guessed_from_one_address_at_a_low_rate() -> None:
    clock = Clock()
    attempts = Attempts(clock)
    looked_at = 0
    for number in range(6000):
        clock.now += 0.1
        looked_at += tried(attempts, f"user{number}", HERE)
    most = bounds.ADDRESS.free + bounds.SPARED.burst + 600 * bounds.SPARED.per_second
    assert looked_at <= most + 1


def test_made_up_names_keep_nobody_of_their_address_out() -> None:
    clock = Clock()
    attempts = Attempts(clock)
    assert tried(attempts, "bob", HERE, right=True)
    for number in range(10 * bounds.ADDRESS.free):
        clock.now += 0.2
        attempts.check("sent", f"ghost{number}", HERE, begins=True)
        attempts.failed("sent", f"ghost{number}", HERE)
    assert attempts.check("sent", "ghost", HERE) > 0, "the address has its pause"
    assert attempts.check("sent", "bob", HERE) == 0, "it was proved from here before"
    assert tried(attempts, "ann", HERE, right=True), "never heard of before, and never wrong"
    hashed = sum(tried(attempts, "ghost", HERE) for _ in range(bounds.PAIR.free)) + sum(
        tried(attempts, f"ghost-{number}", HERE) for number in range(2 * bounds.CHECKS.burst)
    )
    assert hashed <= bounds.SPARED.burst
    with pytest.raises(TooManyAttempts):  # more a second than may be hashed for one address
        attempts.check("sent", "cleo", HERE, begins=True)


def test_tables_have_a_bound() -> None:
    attempts = Attempts(Clock())
    for number in range(bounds.MOST_ENTRIES):
        attempts.failed(
            "sent", "x" * 10_000 + str(number), f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
        )
    assert len(attempts) == bounds.MOST_ENTRIES


@pytest.mark.parametrize(
    ("peer", "net"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("2001:db8::1:2:3", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("somewhere", "somewhere"),
    ],
)
def test_one_machine_is_one_address(peer: str, net: str) -> None:
    assert network_of(peer) == net
