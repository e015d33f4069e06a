"""Identities against a set of everything ever published."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidings.availability.identity import NUMBERED, Identities, IdentityBounds, IdentityStatus, Numbers
from tidings.availability.records import Delete, Entry, Put, Record
from tidings.availability.window import RECENT, SEALED


class Disk:
    """Rows as a store would keep them."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[str, bytes]] = {}

    def do(self, *records: Record) -> None:
        for record in records:
            assert isinstance(record, Put | Delete)
            rows = self.tables.setdefault(record.table, {})
            if isinstance(record, Put):
                rows[record.key] = record.value
            else:
                del rows[record.key]


@given(st.lists(st.integers(1, 30)), st.integers(1, 4))
def test_numbers_are_a_set_as_long_as_nothing_is_stale(sequences: list[int], max_gaps: int) -> None:
    numbers, taken = Numbers(), set[int]()
    for sequence in sequences:
        before = numbers.look(sequence)
        if before is IdentityStatus.NEW:
            numbers.take(sequence, 0.0, max_gaps)
            taken.add(sequence)
        assert numbers.look(sequence) is not IdentityStatus.NEW
        assert len(numbers.gaps) <= max_gaps
    for sequence in range(1, 35):
        seen = numbers.look(sequence)
        if sequence in taken:
            assert seen in ((IdentityStatus.SEEN,) if sequence > numbers.floor else (IdentityStatus.STALE,))
        else:
            assert seen in ((IdentityStatus.NEW,) if sequence > numbers.floor else (IdentityStatus.STALE,))
    if not numbers.floor:
        assert numbers.high == max(taken, default=0)


def test_in_order_nothing_is_ever_stale_and_the_row_stays_small() -> None:
    numbers = Numbers()
    for sequence in range(1, 5000):
        numbers.take(sequence, 0.0, 4)
    assert (numbers.high, numbers.floor, numbers.gaps) == (4999, 0, [])
    assert numbers.look(1) is IdentityStatus.SEEN


def test_a_publisher_that_comes_from_another_broker_leaves_one_gap() -> None:
    numbers = Numbers()
    numbers.take(1_000_000, 0.0, 4)
    assert numbers.gaps == [(1, 999_999)]
    assert numbers.look(999_999) is IdentityStatus.NEW


steps = st.lists(
    st.tuples(
        st.sampled_from(["s", "t"]),
        st.sampled_from(["i", "j"]),
        st.one_of(st.none(), st.integers(1, 8)),
        st.integers(0, 3).map(float),
    )
)


@given(steps)
def test_identities_survive_restarts_and_tell_repeats(plan: list[tuple[str, str, int | None, float]]) -> None:
    bounds = IdentityBounds(foreign_seconds=5.0)
    identities, disk = Identities(bounds), Disk()
    accepted: dict[tuple[str, str], float] = {}
    now = 0.0
    for source, incarnation, sequence, passed in plan:
        now += passed
        id = f"{incarnation}-{sequence}" if sequence is not None else f"foreign {incarnation}"
        at = accepted.get((source, id))
        is_known = at is not None and (sequence is not None or now < at + 5.0)
        assert identities.look(source, id, sequence, now) is (
            IdentityStatus.SEEN if is_known else IdentityStatus.NEW
        )
        if not is_known:
            disk.do(*identities.remember(source, id, sequence, now))
            accepted[source, id] = now
        disk.do(*identities.collect(now, 100))
        identities = Identities.restore(disk.tables, bounds)
    assert identities.given_up == 0


def test_beyond_its_bound_the_oldest_incarnation_goes_and_is_counted() -> None:
    identities, disk = Identities(IdentityBounds(incarnations=2)), Disk()
    for number in range(5):
        disk.do(*identities.remember("s", f"i{number}-1", 1, float(number)))
    assert identities.next_at(4.0) == 4.0
    disk.do(*identities.collect(4.0, 100))
    assert identities.given_up == 3
    assert len(disk.tables[NUMBERED]) == 2


def test_foreign_ids_are_never_forgotten_within_their_window_and_their_bound_is_told() -> None:
    identities, disk = Identities(IdentityBounds(foreign_ids=3, foreign_seconds=10.0)), Disk()
    for number in range(5):
        disk.do(*identities.remember("s", f"f{number}", None, float(number)))
    assert identities.is_full("s")
    disk.do(*identities.collect(9.0, 100))
    assert all(identities.look("s", f"f{number}", None, 9.0) is IdentityStatus.SEEN for number in range(5))
    disk.do(*identities.collect(13.0, 100))
    assert not identities.is_full("s")
    assert {table: len(rows) for table, rows in disk.tables.items()} == {RECENT: 1}


def test_many_foreign_ids_cost_few_rows_and_few_bytes_and_survive_a_restart() -> None:
    bounds, disk = IdentityBounds(foreign_seconds=1000.0), Disk()
    identities = Identities(bounds)
    for number in range(70_000):
        disk.do(*identities.remember("s", f"payment {number}", None, number / 100))
    rows = [row for table in (RECENT, SEALED) for row in disk.tables[table].values()]
    assert len(rows) < 4200
    assert sum(map(len, disk.tables[SEALED].values())) < 70_000 * 8.1
    for known in (identities, Identities.restore(disk.tables, bounds)):
        assert all(
            known.look("s", f"payment {n}", None, 700.0) is IdentityStatus.SEEN for n in range(0, 70_000, 997)
        )
        assert all(known.look("s", f"other {n}", None, 700.0) is IdentityStatus.NEW for n in range(1000))
        assert known.foreign == 70_000
    disk.do(*identities.collect(1000.0 + 655.36, 100_000))
    assert identities.look("s", "payment 0", None, 1655.36) is IdentityStatus.NEW
    assert identities.look("s", "payment 69999", None, 1655.36) is IdentityStatus.SEEN
    disk.do(*identities.collect(1700.0, 100_000))
    assert identities.foreign == 0
    assert not disk.tables[RECENT]
    assert not disk.tables[SEALED]


def entry(source: str, id: str, tenant: str = "") -> Entry:
    return Entry(1, source, id, 0.0, 0.0, tenant=tenant)


def test_a_foreign_id_of_one_tenant_says_nothing_of_another_s() -> None:
    identities = Identities(IdentityBounds(foreign_seconds=10.0))
    identities.forgotten(entry("zed", "order-1", "a"), 0.0)
    assert identities.look(*entry("zed", "order-1", "a").identity, None, 1.0) is IdentityStatus.SEEN
    for tenant in ("b", ""):
        assert identities.look(*entry("zed", "order-1", tenant).identity, None, 1.0) is IdentityStatus.NEW


def test_a_full_table_of_foreign_ids_refuses_those_alone_that_have_used_up_their_share() -> None:
    bounds, disk = IdentityBounds(foreign_ids=10_000, foreign_seconds=10.0), Disk()
    identities = Identities(bounds, lambda source: source.partition("/")[0])
    disk.do(*identities.remember("good/x", "order-1", None, 0.0))
    for number in range(9_999):
        disk.do(*identities.remember(f"mal/{number % 7}", f"f{number}", None, 1.0))
    for known in (
        identities,
        Identities.restore(disk.tables, bounds, lambda source: source.partition("/")[0]),
    ):
        assert known.is_full("mal/8")
        assert not known.is_full("good/y")
        assert not known.is_full("new")
        assert known.collect(20.0, 100_000)
        assert not known.is_full("mal/8")


def test_an_event_that_the_log_forgets_is_remembered_unless_its_number_is() -> None:
    identities = Identities(IdentityBounds(foreign_seconds=10.0))
    identities.remember("s", "own-7", 7, 0.0)
    assert identities.forgotten(entry("s", "own-7"), 5.0) == []
    assert identities.forgotten(entry("s", "payment-7"), 5.0), "it only looks like a number of ours"
    assert identities.look("s", "payment-7", None, 14.0) is IdentityStatus.SEEN
    assert identities.look("s", "payment-7", None, 15.0) is IdentityStatus.NEW


def test_collecting_keeps_to_its_budget_and_says_when_to_come_back() -> None:
    identities = Identities(IdentityBounds(foreign_seconds=10.0, incarnation_seconds=100.0))
    assert identities.next_at(0.0) is None
    for number in range(5):
        identities.remember("s", f"f{number}", None, float(number))
    identities.remember("s", "i-1", 1, 0.0)
    assert identities.next_at(5.0) == 10.0
    assert identities.collect(100.0, 2) == [Delete(RECENT, "1:sf0"), Delete(RECENT, "1:sf1")]
    assert len(identities.collect(100.0, 100)) == 4
    assert identities.next_at(100.0) is None
    assert identities.given_up == 0


def test_names_with_separators_stay_apart() -> None:
    identities, disk = Identities(), Disk()
    pairs = [("a:b", "c"), ("a", ":bc"), ("1:a", ""), ("", "1:a")]
    for source, id in pairs:
        disk.do(*identities.remember(source, id, None, 1.0))
    again = Identities.restore(disk.tables)
    assert all(again.look(source, id, None, 2.0) is IdentityStatus.SEEN for source, id in pairs)
    assert again.look("a:", "bc", None, 2.0) is IdentityStatus.NEW


def test_a_new_incarnation_begins_anew() -> None:
    identities = Identities()
    identities.remember("s", "old-7", 7, 0.0)
    assert identities.look("s", "old-7", 7, 1.0) is IdentityStatus.SEEN
    assert identities.look("s", "new-7", 7, 1.0) is IdentityStatus.NEW
    assert identities.look("t", "old-7", 7, 1.0) is IdentityStatus.NEW


def first_part(source: str) -> str:
    return source.partition("/")[0]


def test_no_publisher_pushes_the_numbers_of_another_out_with_names_of_its_own() -> None:
    bounds, disk = IdentityBounds(incarnations=20), Disk()
    identities = Identities(bounds, first_part)
    disk.do(*identities.remember("good/1", "i-1", 1, 0.0))
    for number in range(100):
        disk.do(*identities.remember(f"mallory/{number}", "j-1", 1, 1.0))
    disk.do(*identities.collect(2.0, 1000))
    for known in (identities, Identities.restore(disk.tables, bounds, first_part)):
        assert known.look("good/1", "i-1", 1, 2.0) is IdentityStatus.SEEN
        assert known.look("mallory/99", "j-1", 1, 2.0) is IdentityStatus.SEEN
        assert known.look("mallory/0", "j-1", 1, 2.0) is IdentityStatus.NEW
    assert len(disk.tables[NUMBERED]) == 20
    assert identities.given_up == 81


def test_a_table_that_was_loaded_over_its_bound_gives_up_those_of_whom_has_most() -> None:
    identities, disk = Identities(IdentityBounds(), first_part), Disk()
    disk.do(*identities.remember("good/1", "i-1", 1, 0.0))
    for number in range(100):
        disk.do(*identities.remember(f"mallory/{number}", "j-1", 1, 1.0))
    again = Identities.restore(disk.tables, IdentityBounds(incarnations=20), first_part)
    assert again.next_at(2.0) == 2.0
    disk.do(*again.collect(2.0, 1000))
    assert again.look("good/1", "i-1", 1, 2.0) is IdentityStatus.SEEN
    assert len(disk.tables[NUMBERED]) == 20


def test_the_bound_of_incarnations_holds_between_two_collections() -> None:
    identities, disk = Identities(IdentityBounds(incarnations=20)), Disk()
    planned = identities.collect_at(None, 0.0, 0.1)
    assert planned is None
    for number in range(1000):
        disk.do(*identities.remember("s", f"i{number}-1", 1, 1.0))
        assert len(identities.rows()) <= 20
        planned = identities.collect_at(planned, 1.0, 1.1)
    assert planned == 1.1, "their rows go soon, not when the oldest runs out of time"
    assert identities.given_up == 980
    disk.do(*identities.collect(1.1, 512))
    assert len(disk.tables[NUMBERED]) == 20


def test_long_names_and_gaps_count_as_further_incarnations() -> None:
    long, gaps = Identities(IdentityBounds(incarnations=20)), Identities(IdentityBounds(incarnations=20))
    for number in range(50):
        long.take(f"{number}".ljust(1000, "x"), "i", 1, 1.0)
        for sequence in range(2, 22, 2):
            gaps.take(f"{number}", "i", sequence, 1.0)
    assert len(long.rows()) == 5
    for number in range(50):
        long.take(f"{number}".ljust(1000, "\N{SNOWMAN}"), "i", 1, 1.0)
    assert len(long.rows()) == 1
    assert len(gaps.rows()) == 3


def test_the_row_of_an_incarnation_that_was_given_up_and_came_back_stays() -> None:
    identities, disk = Identities(IdentityBounds(incarnations=2)), Disk()
    for source in ("a", "b", "c", "a"):
        disk.do(*identities.remember(source, "i-1", 1, 1.0))
    disk.do(*identities.collect(2.0, 512))
    assert set(disk.tables[NUMBERED]) == {"1:ai", "1:ci"}
