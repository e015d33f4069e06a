"""A process that commits to a store until it dies; it says on standard output what was acknowledged.

python -m tests.chaos._store_child commit PATH SEED     batches of random size, for ever
python -m tests.chaos._store_child group PATH SEED      the same through the group committer
python -m tests.chaos._store_child limit PATH SEED      until files may not grow; then they may again
"""

from __future__ import annotations

import itertools
import random
import resource
import sys
import threading
from collections.abc import Iterator

from tests.unit.store._kit import append

from tidings.availability.records import Put, Record
from tidings.errors import StoreError, StoreFullError
from tidings.store.committer import Committer
from tidings.store.rocks import RocksStore

Batch = tuple[int, list[Record]]


def say(*words: object) -> None:
    print(*words, flush=True)


def batches(store: RocksStore, seed: int) -> Iterator[Batch]:
    """(last offset, records): the entries that follow, and a row that states the last of them."""
    rng = random.Random(seed)
    offset = store.load().next_offset
    while True:
        count = rng.choice((1, 1, 1, 5, 60))
        records: list[Record] = [append(offset + i, payload=rng.randbytes(200)) for i in range(count)]
        offset += count
        yield offset - 1, [*records, Put("state", "last", b"%d" % (offset - 1))]


def commit(store: RocksStore, seed: int) -> None:
    for last, records in batches(store, seed):
        try:
            store.commit(records)
        except StoreError as error:
            say("stopped", error)
            break
        say("kept", last)
    try:
        store.commit([append(last + 1)])
    except StoreError as error:
        say("refused", error)


def group(store: RocksStore, seed: int) -> None:
    """Keep some hundred records in flight."""
    changed = threading.Condition()

    def kept(token: int) -> None:
        say("kept", token)
        with changed:
            changed.notify()

    committer = Committer(store, on_kept=kept, on_failed=lambda error: say("stopped", error))
    for last, records in batches(store, seed):
        with changed:
            changed.wait_for(lambda: committer.backlog < 300)
        committer.submit(last, records)


def limit(store: RocksStore, seed: int) -> None:
    """A log file that may not grow is a full disk; raising the limit makes room."""
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (256 << 10, hard))
    made = batches(store, seed)
    for last, records in made:
        try:
            store.commit(records)
        except StoreFullError as error:
            say("full", error)
            break
        say("kept", last)
    say("still served", len(store.fetch(1, 1 << 20, 1 << 30)))
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    store.commit(records)
    say("kept", last)
    for last, records in itertools.islice(made, 20):
        store.commit(records)
        say("kept", last)
    store.close()


if __name__ == "__main__":
    mode = {"commit": commit, "group": group, "limit": limit}[sys.argv[1]]
    opened = RocksStore(sys.argv[2], reserve_bytes=0)
    say("open", opened.sizes()["entries"])
    mode(opened, int(sys.argv[3]))
