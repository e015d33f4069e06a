"""Histories as large as one likes, that keep every property, built from a seed a part at a time.

Events of `publishers` sources carry a symbol, a price and a region; each subscription asks for one
symbol above a price (`symbol = 's12' AND price > 40.25`), so that a notification's filter must be
evaluated to know that it is due. A tenth of the subscriptions end half-way. Each subscription
hears with a delay of its own, so that a publisher's events come in order. `spoil` makes one row
wrong, for who wants to see it found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tidings.errors import InputError

SYMBOLS: Final = 500
PART_EVENTS: Final = 100_000  # events in one file
RATE: Final = 1000.0  # events a second
SLOWEST: Final = 0.2  # seconds from publish to notification
T_SUB, T_DIFF = 0.5, 0.5  # fitting bounds for a check
FAULTS: Final = ("missing", "doubled", "spurious", "early")


@dataclass(frozen=True)
class Shape:
    """Size and contents of a history. The number of rows comes out within a percent or so."""

    rows: int
    subscriptions: int = 9000
    publishers: int = 50
    seed: int = 1

    @property
    def events(self) -> int:
        """About half of a symbol's subscriptions hear an event of it; a tenth of them leave half-way."""
        received = self.subscriptions / SYMBOLS / 2 * 0.95
        return max(1, round((self.rows - 1.1 * self.subscriptions) / (1 + received)))


def write_large_history(folder: Path, shape: Shape, *, spoil: str = "") -> int:
    """Write Parquet parts into the folder; the number of rows."""
    import pyarrow.parquet as parquet

    if spoil and spoil not in FAULTS:
        raise InputError(f"no fault is called {spoil!r}", hint=f"there are: {', '.join(FAULTS)}")
    folder.mkdir(parents=True, exist_ok=True)
    rows = 0
    for number, table in enumerate(_tables(shape, spoil)):
        parquet.write_table(table, folder / f"part-{number:05}.parquet", compression="zstd")
        rows += table.num_rows
    return rows


def _tables(shape: Shape, spoil: str) -> Iterator[Any]:
    subscribers = _RangeSubscribers(shape)
    yield subscribers.table()
    first, wrong = 0, shape.events // 2
    while first < shape.events:
        last = min(first + PART_EVENTS, shape.events)
        here = spoil if first <= wrong < last else ""
        yield _part(shape, subscribers, first, last, here, wrong - first)
        first = last


class _RangeSubscribers:
    """Subscriptions sorted by symbol and price, so that the subscribers of an event are a range."""

    def __init__(self, shape: Shape) -> None:
        import numpy as np

        rng = np.random.default_rng([shape.seed, 1])
        count = shape.subscriptions
        symbol = np.sort(rng.integers(0, SYMBOLS, count))
        price = np.round(rng.uniform(0, 100, count), 2)
        order = np.lexsort((price, symbol))
        self.symbol, self.price = symbol, price[order]
        self.delay = rng.uniform(0.001, SLOWEST, count)
        self.half_way = 1.0 + shape.events / RATE / 2
        self.leaves = rng.uniform(size=count) < 0.1
        self.key = self.symbol * 1000.0 + self.price  # rises
        self.first = np.searchsorted(self.symbol, np.arange(SYMBOLS + 1))

    def table(self) -> Any:
        import numpy as np

        count, leaving = len(self.symbol), np.flatnonzero(self.leaves)
        names = [f"u{number}" for number in (*range(count), *leaving)]
        texts = [f"symbol = 's{s}' AND price > {p}" for s, p in zip(self.symbol, self.price, strict=True)]
        none = [None] * len(leaving)
        return _table(
            time=[0.0] * count + [self.half_way] * len(leaving),
            process=names,
            op=["sub"] * count + ["usub"] * len(leaving),
            subscription=[f"{name}/alerts" for name in names],
            filter=texts + none,
        )


def _part(shape: Shape, subscribers: _RangeSubscribers, first: int, last: int, spoil: str, wrong: int) -> Any:
    import numpy as np

    rng = np.random.default_rng([shape.seed, 2, first])
    number = np.arange(first, last)
    symbol = rng.integers(0, SYMBOLS, len(number))
    price = np.round(rng.uniform(0, 100, len(number)) + 0.005, 3)  # never equal to a bound
    time = 1.0 + number / RATE
    begin = subscribers.first[symbol]
    end = np.maximum(begin, np.searchsorted(subscribers.key, symbol * 1000.0 + price))
    event = np.repeat(np.arange(len(number)), end - begin)
    offset = np.arange(len(event)) - np.repeat(np.cumsum(end - begin) - (end - begin), end - begin)
    subscriber = begin[event] + offset
    on = ~subscribers.leaves[subscriber] | (time[event] + SLOWEST < subscribers.half_way)
    event, subscriber = event[on], subscriber[on]
    delivered = time[event] + subscribers.delay[subscriber]
    event, subscriber, delivered = _spoilt(spoil, wrong, event, subscriber, delivered, subscribers)
    return _rows(shape, number, symbol, price, time, event, subscriber, delivered)


def _spoilt(
    spoil: str, wrong: int, event: Any, subscriber: Any, delivered: Any, subscribers: _RangeSubscribers
) -> Any:
    """One notification of the first event from `wrong` on that is heard: gone, twice, to a stranger,
    or before it was published."""
    import numpy as np

    if not spoil:
        return event, subscriber, delivered
    at = int(np.searchsorted(event, wrong))
    if spoil == "missing":
        return np.delete(event, at), np.delete(subscriber, at), np.delete(delivered, at)
    if spoil == "early":
        delivered = delivered.copy()
        delivered[at] -= 2 * SLOWEST
        return event, subscriber, delivered
    stranger = (
        subscriber[at]
        if spoil == "doubled"
        else (subscriber[at] + len(subscribers.symbol) // 2) % len(subscribers.symbol)
    )
    return (
        np.append(event, event[at]),
        np.append(subscriber, stranger),
        np.append(delivered, delivered[at] + 0.01),
    )


def _rows(
    shape: Shape, number: Any, symbol: Any, price: Any, time: Any, event: Any, subscriber: Any, delivered: Any
) -> Any:
    import numpy as np
    import pyarrow as pa

    source = [f"p{n}" for n in range(shape.publishers)]
    ids = [f"e{n}" for n in number.tolist()]
    texts = [
        f'{{"symbol":"s{s}","price":{p},"region":"r{s % 7}"}}'
        for s, p in zip(symbol.tolist(), price.tolist(), strict=True)
    ]
    publisher, counter = number % shape.publishers, number // shape.publishers + 1
    published = _table(
        time=time,
        process=pa.array(source).take(pa.array(publisher)),
        op=["pub"] * len(ids),
        event=ids,
        source=pa.array(source).take(pa.array(publisher)),
        sequence=counter,
        attributes=texts,
        lifetime=np.zeros(len(ids)),
    )
    who = pa.array([f"u{n}" for n in range(shape.subscriptions)]).take(pa.array(subscriber))
    notified = _table(
        time=delivered,
        process=who,
        op=["ntfy"] * len(delivered),
        subscription=pa.array([f"u{n}/alerts" for n in range(shape.subscriptions)]).take(
            pa.array(subscriber)
        ),
        event=pa.array(ids).take(pa.array(event)),
        source=pa.array(source).take(pa.array(publisher[event])),
        sequence=counter[event],
    )
    return pa.concat_tables([published, notified])


def _table(**columns: Any) -> Any:
    """A table of the histories' schema; columns that are not given are null."""
    import pyarrow as pa

    from tidings.history.parquet import arrow_schema

    schema = arrow_schema()
    length = len(columns["op"])
    arrays = [
        pa.array(["large"] * length if field.name == "run" else columns[field.name], field.type)
        if field.name in columns or field.name == "run"
        else pa.nulls(length, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)
