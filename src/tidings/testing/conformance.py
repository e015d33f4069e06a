"""Checks of extensions for the tests of their own packages: stores, serialisers and systems.

    from tidings.testing.conformance import check_store

    def test_my_store(tmp_path):
        check_store(lambda: MyStore(tmp_path / "log"))

Each check raises `AssertionError` with the promise that does not hold. A broker cannot see these promises
while it runs: whether a commit is still there after a restart, whether an event is as it was, whether a run
can be replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from tidings.availability.records import Append, Delete, Forget, Loaded, Put, entry_of
from tidings.errors import ClosedError, TidingsError
from tidings.model.event import make_event
from tidings.model.serialisers import Serialiser
from tidings.simulation.experiment import Experiment, ExperimentOutcome, run_experiment
from tidings.simulation.workloads import Plan
from tidings.store.store import Store

BODIES: tuple[Mapping[str, Any], ...] = ({"n": 1, "text": "λ", "is": True}, {"x": -4.5})
JUNK = (b"", b"\xff\xfe\x00", b"[", b"\x00" * 64)
MUCH = 1 << 30  # bytes of a page


def _check(holds: bool, promise: str, found: Any = "") -> None:
    if not holds:
        raise AssertionError(f"{promise}{f'; found: {found!r}' if found != '' else ''}")


# Stores


def check_store(open_store: Callable[[], Store]) -> None:
    """Check that a store keeps the contract of `Store`. `open_store` opens the same place each time, which is
    empty at first, as the next process would."""
    appends = [_append(offset) for offset in (1, 2, 4, 7, 8)]
    store = open_store()
    _check(isinstance(store, Store), "a store has the methods of Store", type(store).__name__)
    _check_state(store, Loaded.empty(), "a new store is empty")
    _check(store.fetch(0, 10, MUCH) == [], "a new store has no entry")
    _commit(store, *appends[:3], Put("t", "a", b"\x00"), Put("t", "b", b""), Put("u", "a", b"1"))
    _commit(store, *appends[3:], Delete("t", "b"), Delete("t", "absent"), Forget(5))
    _check_pages(store, appends)
    store = _reopened(store, open_store)
    wanted = Loaded(first_offset=1, next_offset=9, entries=[entry_of(each) for each in appends], tables={})
    wanted = msgspec.structs.replace(wanted, tables={"t": {"a": b"\x00"}, "u": {"a": b"1"}})
    _check_state(store, wanted, "records that were committed are there when the store is opened again")
    _check_pages(store, appends)
    _check_figures(store, len(appends))
    _commit(store, Forget(2), Forget(1), Forget(7))
    left = [appends[2], appends[4]]
    _check_pages(store, left)
    store = _reopened(store, open_store)
    _check_pages(store, left)
    _commit(store, Forget(4), Forget(8), Delete("t", "a"), Delete("u", "a"))
    store = _reopened(store, open_store)
    nothing = Loaded(first_offset=9, next_offset=9, entries=[], tables={})
    _check_state(store, nothing, "next_offset is remembered when all entries are forgotten")
    _commit(store, _append(12))
    _check_pages(store, [_append(12)])
    _reopened(store, open_store).close()


def _append(offset: int) -> Append:
    event = make_event(
        {"n": offset, "text": "λ", "nested": {"deep": [1, 2.5, None]}}, source="check", id=f"e{offset}",
        topic="check/store", type=("Check",), payload=b"\x00" * offset, content_type="x/y", lifetime=60.0,
    )  # fmt: skip
    return Append(offset, event, 100.0 + offset, sequence=offset)


def _commit(store: Store, *records: Any) -> None:
    found: Any = store.commit(records)  # type: ignore[func-returns-value]
    if found is not None and hasattr(found, "close"):
        found.close()
    _check(found is None, "commit is an ordinary function and gives nothing", type(found).__name__)


def _reopened(store: Store, open_store: Callable[[], Store]) -> Store:
    store.close()
    store.close()  # without effect
    for method, call in (("load", store.load), ("fetch", lambda: store.fetch(0, 1, 1))):
        try:
            call()
        except ClosedError:
            continue
        raise AssertionError(f"{method} of a closed store raises ClosedError")
    return open_store()


def _check_state(store: Store, wanted: Loaded, promise: str) -> None:
    found: Any = store.load()
    _check(isinstance(found, Loaded), "load gives a Loaded", found)
    for field in ("first_offset", "next_offset"):
        value = getattr(found, field)
        _check(value == getattr(wanted, field), f"{promise}: {field} is {getattr(wanted, field)}", value)
    tables = {name: rows for name, rows in found.tables.items() if rows}
    _check(tables == wanted.tables, f"{promise}: tables are {wanted.tables}", tables)
    plain = [msgspec.structs.replace(each, size=0) for each in found.entries]  # a store counts its own bytes
    _check(
        plain == [msgspec.structs.replace(each, size=0) for each in wanted.entries],
        f"{promise}: entries are those of entry_of(append), in order", plain,
    )  # fmt: skip
    _check(len(found.sizes) in (0, len(plain)), "sizes are as many as entries, or none", found.sizes)


def _check_pages(store: Store, wanted: Sequence[Append]) -> None:
    for begin in range(0, wanted[-1].offset + 2):
        rest = [each for each in wanted if each.offset >= begin]
        for limit in (1, 2, 100):
            found: Any = store.fetch(begin, limit, MUCH)
            call = f"fetch({begin}, {limit}, {MUCH})"
            promise = f"{call} gives the entries from {begin} on, ascending, as they were"
            _check(found == rest[:limit], promise, _short(found))
        found = store.fetch(begin, 100, 1)
        _check(found == rest[:1], f"fetch({begin}, 100, 1) gives one entry, if there is one", _short(found))
        entry: Any = store.get(begin)
        there = next((each for each in wanted if each.offset == begin), None)
        _check(entry == there, f"get({begin}) gives that entry, or None", _short([entry]))


def _short(found: Any) -> Any:
    entries = isinstance(found, list) and all(isinstance(each, Append) for each in found)
    return [f"entry {each.offset}" for each in found] if entries else found


def _check_figures(store: Store, count: int) -> None:
    sizes: Any = store.sizes()
    names = ("entries", "rows", "bytes", "commits")
    fits = isinstance(sizes, dict) and all(type(sizes.get(name)) is int for name in names)
    _check(fits, f"sizes gives the numbers {', '.join(names)}", sizes)
    _check(sizes["entries"] == count, f"sizes counts {count} entries", sizes["entries"])
    verified: Any = store.verify()
    _check(type(verified) is int and verified >= count, "verify counts all sound records", verified)


# Serialisers


def check_serialiser(serialiser: Serialiser, bodies: Iterable[Mapping[str, Any]] = BODIES) -> None:
    """Check that a serialiser writes these bodies as bytes and reads them back as they were, and that bytes
    which it cannot read are a `ValueError`."""
    _check(isinstance(serialiser, Serialiser), "it is a Serialiser", serialiser)
    named = isinstance(serialiser.content_type, str) and "/" in serialiser.content_type
    _check(named, "content_type is a text such as application/x-mine", serialiser.content_type)
    for body in bodies:
        before = dict(body)
        written = serialiser.encode(body)
        _check(type(written) is bytes, f"encode({before!r}) gives bytes", written)
        _check(dict(body) == before, "encode leaves its body as it is", body)
        _check(serialiser.encode(body) == written, f"encode({before!r}) gives the same bytes each time")
        found = serialiser.decode(written)
        _check(type(found) is dict, f"decode(encode({before!r})) gives a dictionary", found)
        _check(found == before, f"decode(encode({before!r})) gives the body as it was", found)
    for data in JUNK:
        try:
            with suppress(ValueError):
                serialiser.decode(data)
        except Exception as error:
            raise AssertionError(
                f"decode({data!r}) raises ValueError for bytes that it cannot read, not {error!r}"
            ) from error


# Systems


def check_system(name: str, *, seed: int = 1, brokers: int = 6, events: int = 60) -> ExperimentOutcome:
    """Check that a system, found by its name, keeps its contract on a network without faults, keeps its
    invariants at every step, and can be replayed: the same seed gives the same run."""
    plan = Plan(subscriptions=4 * brokers, events=events, rate=20.0, publishers=4, churn=0.1)
    experiment = Experiment(system=name, seed=seed, brokers=brokers, plan=plan, check=True, bytes=True)
    try:
        outcome, again = run_experiment(experiment), run_experiment(experiment)
    except TidingsError as error:
        raise AssertionError(f"{name} runs: {error}") from error
    report = outcome.report
    assert report is not None
    if report.broken:
        story = report[report.broken[0]].story
        raise AssertionError(f"{name} promises {', '.join(report.broken)} ({report.contract}): {story}")
    _check(any(each.is_shown for each in report.verdicts.values()), f"{name} promises a property")
    _check(
        outcome.fingerprint == again.fingerprint,
        f"{name} gives the same run for the same seed: it takes the time from `now` and draws from ports.rng",
    )
    return outcome
