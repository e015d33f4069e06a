"""A history in Parquet as a DataFrame: its files checked, its rows counted and checked, narrow.

Rules
- One history may be many files: paths, directories, globs. Every file's footer is read first, so
  that a torn file or a foreign one is told by name before any work begins.
- One scan counts the rows of each kind and looks for rows that cannot be judged; the first one is
  told with its file and its place there, in the words of the plain checker.
- Only the columns that a pass needs are read, and what only publications have travels in one
  column, so that the many notifications stay narrow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from glob import glob
from pathlib import Path
from typing import Any, Final

from tidings.errors import HistoryError
from tidings.history.facts import (
    ArrivalFact,
    Fact,
    LossFact,
    Notice,
    Operation,
    PublishAttempt,
    ReceiptFact,
    ReturnFact,
    ViewFact,
    fact_of,
)
from tidings.history.parquet import arrow_schema, checked_schema, parts_of, read_footer, row_of
from tidings.history.schema import COLUMNS, OPS, OUTCOMES, VERSION

KINDS: Final[Mapping[type[Fact], tuple[str, ...]]] = {
    Operation: ("sub", "usub", "crash", "suspect"),
    PublishAttempt: ("pub",),
    Notice: ("ntfy",),
    ReturnFact: ("nack",),
    ReceiptFact: ("recv",),
    ArrivalFact: ("avail",),
    LossFact: ("drop", "dead"),
    ViewFact: ("view",),
}
# Columns of a row of each kind beside run, time, process and op: in the open, or packed.
OPEN: Final[Mapping[type[Fact], tuple[str, ...]]] = {
    Operation: ("subscription",),
    PublishAttempt: ("source", "event", "sequence"),
    Notice: ("subscription", "source", "event", "sequence", "reason", "broker"),
    ReturnFact: ("subscription", "source", "event"),
    ReceiptFact: ("source", "event"),
    ArrivalFact: ("source", "event"),
    LossFact: ("subscription", "source", "event", "reason"),
    ViewFact: (),
}
PACKED: Final[Mapping[type[Fact], tuple[str, ...]]] = {
    Operation: ("filter", "dialect", "outcome", "reason", "broker", "from"),
    PublishAttempt: ("attributes", "topic", "type", "lifetime", "key", "expires", "outcome"),
    ViewFact: ("topic", "view", "members"),
}
ALWAYS: Final = ("run", "time", "process", "op")
_OF_EVENTS: Final = ("pub", "ntfy", "recv", "avail", "drop", "dead", "nack")
# What only matters beside suspects of their source
_OF_SOURCES: Final = ("pub", "avail", "drop", "dead", "nack")
# Column of a fact -> how it is had from a row, in Spark's SQL; the others are called the same.
_KEY: Final = {
    "run": "coalesce(run, '')",
    "source": "coalesce(source, '')",
    "subscription": "coalesce(subscription, process)",
    "broker": "process",  # of an arrival: the only fact that is grouped by it
    "group": "coalesce(topic, '')",
}


class History:
    """The rows of a history on Spark, and how many there are of each kind."""

    def __init__(self, spark: Any, paths: Iterable[str | Path]) -> None:
        self.spark = spark
        self.files = _files(list(paths))
        self._frame = _frame(spark, self.files)
        self.keys = 0
        self.counts: dict[str, int] = {}
        self._sizes: dict[str, int] = {}  # of what is left to be judged
        self._scan()

    @property
    def rows(self) -> int:
        return sum(self.counts.values())

    def count(self, kinds: Collection[type[Any]]) -> int:
        return sum(self.counts.get(op, 0) for kind in kinds for op in KINDS[kind])

    def size(self, kinds: Collection[type[Any]]) -> int:
        """The rows of these kinds that `narrow` gives."""
        return sum(self._sizes.get(op, 0) for kind in kinds for op in KINDS[kind])

    def restrict(self, streams: Collection[tuple[str, str, str, str]]) -> None:
        """From here on only the notifications of these streams (run, process, subscription, source),
        and only what their sources published, or what has a key."""
        from pyspark import StorageLevel
        from pyspark.sql import functions as sql

        of_stream = _key_of("run", "process", "subscription", "source").isin(
            sorted({_joined(*stream) for stream in streams})
        )
        of_source = _key_of("run", "source").isin(
            sorted({_joined(run, source) for run, _, _, source in streams})
        )
        op = sql.col("op")
        kept = (op == "ntfy") & of_stream | op.isin(*_OF_SOURCES) & (of_source | sql.col("key").isNotNull())
        others = ~op.isin("ntfy", *_OF_SOURCES)
        self._frame = self._frame.where(kept | others).persist(StorageLevel.DISK_ONLY)
        found = spark_errors(lambda: self._frame.groupBy("op").count().collect())
        self._sizes = {row["op"]: row["count"] for row in found}

    def forget(self) -> None:
        """No further question follows."""
        self._frame.unpersist()

    def narrow(self, kinds: Collection[type[Any]], home: tuple[str, ...]) -> Any:
        """The rows of these kinds, with a column `place` that is equal where the home's columns are."""
        from pyspark.sql import functions as sql

        ops = [op for kind in kinds for op in KINDS[kind]]
        opened = [name for name in COLUMNS if any(name in OPEN[kind] for kind in kinds)]
        packed = [name for name in COLUMNS if any(name in PACKED.get(kind, ()) for kind in kinds)]
        with_more = [op for kind in kinds for op in KINDS[kind] if kind in PACKED]
        columns = [sql.col(name) for name in (*ALWAYS, *opened)]
        if packed:
            more = sql.struct(*[sql.col(name) for name in packed])
            columns.append(sql.when(sql.col("op").isin(with_more), more).alias("more"))
        path = "xxhash64({})".format(", ".join(_KEY.get(name, f"cast(`{name}` as string)") for name in home))
        columns.append(sql.expr(path if home else "cast(0 as bigint)").alias("place"))
        return self._frame.where(sql.col("op").isin(ops)).select(*columns)

    def _scan(self) -> None:
        from pyspark.sql import functions as sql

        bad = sql.sum(sql.expr(f"cast({_wrong()} as bigint)")).alias("bad")
        keys = sql.sum(sql.expr("cast(key is not null as bigint)")).alias("keys")
        found = spark_errors(
            lambda: self._frame.groupBy("op").agg(sql.count("*").alias("n"), keys, bad).collect()
        )
        self.counts = {row["op"]: row["n"] for row in found}
        self._sizes = dict(self.counts)
        self.keys = sum(row["keys"] or 0 for row in found)
        if any(row["bad"] for row in found):
            self._tell_the_first_wrong_row()

    def _tell_the_first_wrong_row(self) -> None:
        location = ("_metadata.file_path", "_metadata.row_index")
        frame = self._frame.selectExpr(*(f"`{name}`" for name in COLUMNS), *location)
        first = spark_errors(lambda: frame.where(_wrong()).orderBy("file_path", "row_index").first())
        values = {name: first[name] for name in COLUMNS}
        where = f"{first['file_path'].removeprefix('file:')}: row {first['row_index'] + 1}"
        try:
            fact_of(row_of(row_values(values), trusted=False))
        except HistoryError as error:
            raise HistoryError(f"{where}: {error.message}", hint=error.hint) from None
        raise AssertionError(f"{where}: the scan and the plain checker disagree about this row")


def _joined(*names: str) -> str:
    """Names as one text from which they could be had again."""
    return "".join(f"{len(name)}:{name}" for name in names)


def _key_of(*columns: str) -> Any:
    """The same of the columns of a row, by Spark. (Both count characters, not bytes.)"""
    from pyspark.sql import functions as sql

    parts = [sql.expr(_KEY.get(name, name)) for name in columns]
    return sql.concat(
        *[each for part in parts for each in (sql.length(part).cast("string"), sql.lit(":"), part)]
    )


def row_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a row's columns as `row_of` takes them."""
    found = {
        "from_" if name == "from" else name: value for name, value in values.items() if value is not None
    }
    for name in ("time", "process", "op"):
        found.setdefault(name, None)
    for name in ("type", "members"):
        if name in found:
            found[name] = tuple(found[name])
    return found


def _wrong() -> str:
    """True of a row that cannot be judged: `row_of` or `fact_of` refuses it."""
    finite = "time is null or isnan(time) or abs(time) = double('Infinity')"
    rules = [
        f"process is null or op is null or op not in ({_texts(OPS)})",
        f"outcome is not null and outcome not in ({_texts(OUTCOMES)})",
        finite,
        f"op in ({_texts(_OF_EVENTS)}) and event is null",
        "op in ('drop', 'dead') and coalesce(reason, '') = ''",
        "op = 'view' and (view is null or members is null)",
        "op = 'pub' and lifetime is not null and (isnan(lifetime) or lifetime < 0)",
    ]
    return "coalesce(" + " or ".join(f"({rule})" for rule in rules) + ", true)"


def _texts(words: Iterable[str]) -> str:
    return ", ".join(f"'{word}'" for word in sorted(words))


def _files(paths: list[str | Path]) -> list[str]:
    """Every file of the history; each has our schema, or is refused by name."""
    found: list[str] = []
    for path in map(str, paths):
        found.extend([path] if "://" in path else _local_files(path))
    if not found:
        raise HistoryError("no history was named", hint="give Parquet files, directories or globs of them")
    return found


def _local_files(path: str) -> list[str]:
    names = [path] if Path(path).exists() else sorted(glob(path))  # noqa: PTH207  a pattern may be absolute
    if not names:
        raise HistoryError(f"{path}: no such file, and no file matches it")
    files = [part for name in names for part in parts_of(Path(name))]
    for file in files:
        if file.suffix != ".parquet":
            raise HistoryError(
                f"{file}: Spark judges histories in Parquet",
                hint="check it without --spark, or record to a .parquet file",
            )
        _fitting(file)
    return [str(file.resolve()) for file in files]


def _fitting(file: Path) -> None:
    """The file's footer is whole and its columns are ours, in types that Spark reads as ours."""
    found = read_footer(file)
    checked_schema(file, found)
    ours = arrow_schema()
    for name in found.names:
        have, want = str(found.field(name).type), str(ours.field(name).type)
        if have not in _READ_AS[want]:
            raise HistoryError(f"{file}: column {name!r} holds {have}; in a history it holds {want}")


_STRINGS: Final = ("string", "large_string",
    *(f"dictionary<values=string, indices=int{n}, ordered=0>" for n in (8, 16, 32)))  # fmt: skip
_READ_AS: Final[Mapping[str, tuple[str, ...]]] = {
    "string": (*_STRINGS, "null"),
    "double": ("double", "float", "int32", "null"),
    "int64": ("int64", "int32", "int16", "int8", "null"),
    "list<item: string>": (
        *("list<item: string>", "list<element: string>", "list<array: string>", "list<item: large_string>"),
        "null",
    ),
}
_SPARK_TYPES: Final = {
    "string": "string",
    "double": "double",
    "int64": "bigint",
    "list<item: string>": "array<string>",
}


def _frame(spark: Any, files: list[str]) -> Any:
    ours = arrow_schema()
    wanted = ", ".join(f"`{name}` {_SPARK_TYPES[str(ours.field(name).type)]}" for name in COLUMNS)
    reader = spark.read.schema(wanted).option("parquet.page.verify-checksum.enabled", "true")
    remote = [file for file in files if "://" in file]
    if remote:
        spark_errors(lambda: _check_remote(spark, remote))
    return reader.parquet(*files)


def _check_remote(spark: Any, files: list[str]) -> None:
    names = spark.read.parquet(*files).columns
    foreign = [name for name in names if name not in COLUMNS]
    missing = [name for name in ("time", "process", "op") if name not in names]
    if foreign or missing:
        problem = f"column {foreign[0]!r} is no column" if foreign else f"column {missing[0]!r} is missing"
        raise HistoryError(f"{files[0]}: {problem} of a history (schema version {VERSION})")


def spark_errors(ask: Callable[[], Any]) -> Any:
    """The answer; a file that Spark could not read becomes our own error, a defect stays one."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        return ask()
    except (PySparkException, Py4JJavaError) as error:
        text = str(error)
        if not any(mark in text for mark in _UNREADABLE):
            raise
        file = re.search(r"reading file (?:file:/*)?(/?\S+?)\.?\s", text)
        where = f"/{file[1].lstrip('/')}" if file else "the history"
        raise HistoryError(f"{where}: not a whole Parquet file of our schema: {_first_line(text)}") from None


_UNREADABLE: Final = ("FAILED_READ_FILE", "PATH_NOT_FOUND", "Parquet", "parquet")


def _first_line(text: str) -> str:
    """Spark's error message, without the names of its classes."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    line = next((line for line in lines if any(mark in line for mark in _UNREADABLE)), lines[0])
    return line[line.find("[") :] if "[" in line else line
