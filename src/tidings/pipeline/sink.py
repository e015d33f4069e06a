"""Parquet written exactly once: each batch of a query is published whole, once, or not at all.

  OUTPUT/run=ID/batch=N/part-*.parquet   what readers see; `run` and `batch` become columns
  OUTPUT/run=ID/batch=N/_from            which offsets of the source the batch was made from
  OUTPUT/_columns                        names and types of the columns of all batches
  OUTPUT/_staged/ID-N                    a batch being written; readers pass over it

Rules
- A batch is written aside and moved into place in one step. A batch that is replayed after a crash
  and is in place already is not written again, if it comes from the same offsets; if it does not, the
  checkpoint is not the one that wrote it, and going on would lose events: an error.
- The key is the query's own id with the batch's number. A lost checkpoint starts a new query, which
  numbers its batches from 0 again: it is refused if another query's batches are there, because it
  would write their events a second time.
- All batches of an output have the same columns, of the same types: else no reader reads it whole. A column
  that has the name of a folder would be hidden by it.
- The one step is a rename of a folder. Disks and HDFS do it whole; most object stores do not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Any, NamedTuple

from tidings.errors import CorruptionError, InputError
from tidings.pipeline.files import Files
from tidings.pipeline.parts import local_folder

FROM = "_from"
COLUMNS = "_columns"
FOLDERS = ("run", "batch")  # become columns of the whole output
VERSION_LINE = b"v"  # how every file of Spark's logs begins


def check_names(names: Iterable[str]) -> None:
    """Refuse columns that the folders of an output would replace."""
    taken = sorted(name for name in names if name.lower() in FOLDERS)
    if taken:
        raise InputError(
            f"the rows have a column {taken[0]!r}, and so has the output, from the names of its folders",
            hint="rename it, or leave it out with keep=[...]",
        )


class Counts(NamedTuple):
    """Content of a batch."""

    rows: int
    matches: int
    problems: int


class Checkpoint:
    """Metadata of a query in Spark's checkpoint."""

    def __init__(self, files: Files, path: str) -> None:
        self._files, self.path = files, path.rstrip("/")

    def query_id(self) -> str | None:
        """The query's id; None when there is no checkpoint."""
        path = f"{self.path}/metadata"
        if not self._files.exists(path):
            if any(self._files.names(f"{self.path}/{log}") for log in ("offsets", "commits")):
                raise self._broken("has offsets and no metadata")
            return None
        try:
            return str(json.loads(self._files.read(path))["id"])
        except (ValueError, KeyError, TypeError):
            raise self._broken("has metadata that are no JSON object with an id") from None

    def check(self) -> None:
        """Refuse logs that are torn; Spark's own message for them says little."""
        for log in ("offsets", "commits"):
            for name in self._files.names(f"{self.path}/{log}"):
                if name.isdigit() and not self._is_whole(f"{self.path}/{log}/{name}"):
                    raise self._broken(f"has a torn file {log}/{name}")

    def _is_whole(self, path: str) -> bool:
        lines = self._files.read(path).split(b"\n")
        if not lines[0].startswith(VERSION_LINE) or len(lines) < 2:
            return False
        try:
            json.loads(lines[1])
        except ValueError:
            return False
        return True

    def _broken(self, what: str) -> CorruptionError:
        return CorruptionError(
            f"the checkpoint {self.path} {what}",
            hint="restore it from a copy; or begin anew with another checkpoint and another output",
        )

    def source_of(self, batch: int) -> str:
        """A digest of where a batch's rows come from."""
        lines = self._files.read(f"{self.path}/offsets/{batch}").split(b"\n")[2:]
        stored = [b"\n".join(lines)]
        for source in self._files.names(f"{self.path}/sources"):
            for name in (str(batch), f"{batch}.compact"):
                path = f"{self.path}/sources/{source}/{name}"
                if self._files.exists(path):
                    stored.append(self._files.read(path))
                    break
        return blake2b(b"\0".join(stored), digest_size=16).hexdigest()


class ParquetSink:
    """Publishes the batches of one query."""

    def __init__(self, spark: Any, output: str, checkpoint: str, *, append: bool = False) -> None:
        self._files = Files(spark)
        self.output = output.rstrip("/")
        self.checkpoint = Checkpoint(self._files, checkpoint)
        self._run: str | None = None
        self._columns: list[list[str]] | None = None  # of the batches to come, when they were checked
        self._refuse_strangers(append)

    def _refuse_strangers(self, append: bool) -> None:
        mine = self.checkpoint.query_id()
        self.checkpoint.check()
        others = [n for n in self._files.names(self.output) if n.startswith("run=") and n != f"run={mine}"]
        if others and not append:
            lost = "is lost or empty" if mine is None else "is another query's"
            raise InputError(
                f"{self.output} holds batches of {len(others)} other "
                f"{'query' if len(others) == 1 else 'queries'}, and the checkpoint "
                f"{self.checkpoint.path} {lost}",
                hint="restore the checkpoint, or give a new output; append=True adds to it all the same, "
                "and whatever is read from the start again will be there twice",
            )
        if mine is not None:
            self._files.delete(f"{self.output}/_staged")  # what a crash left behind

    @property
    def run(self) -> str:
        """The query's id, once it has begun."""
        if self._run is None:
            self._run = self.checkpoint.query_id()
        if self._run is None:
            raise CorruptionError(f"the checkpoint {self.checkpoint.path} vanished while its query ran")
        return self._run

    def place(self, batch: int) -> str:
        return f"{self.output}/run={self.run}/batch={batch}"

    def is_published(self, batch: int) -> bool:
        """Is the batch in place? One from other offsets is an error."""
        path = self.place(batch)
        if not self._files.exists(path):
            return False
        if self._files.read(f"{path}/{FROM}").decode() != self.checkpoint.source_of(batch):
            raise CorruptionError(
                f"{path} was written from other offsets than the checkpoint has for batch {batch}",
                hint="an old copy of the checkpoint was restored; give a new output and checkpoint",
            )
        return True

    def check_columns(self, schema: Any) -> None:
        """Refuse rows with which the output could not be read whole."""
        check_names(schema.names)
        self._columns = [[field.name, field.dataType.simpleString()] for field in schema.fields]
        stored = self._stored_columns()
        if stored is None or stored == self._columns:
            return
        before, now = dict(stored), dict(self._columns)
        gone = [f"{name!r} is gone" for name in before if name not in now]
        new = [f"{name!r} is new" for name in now if name not in before]
        other = [
            f"{name!r} was {before[name]} and is {now[name]}"
            for name in now
            if name in before and before[name] != now[name]
        ]
        raise InputError(
            f"{self.output} holds batches with other columns: "
            f"{', '.join((*other, *gone, *new)) or 'their order differs'}",
            hint="give a new output and checkpoint; or its own columns, with output=, keep= and casts=",
        )

    def _stored_columns(self) -> list[list[str]] | None:
        """The columns of the batches that are there; None when nothing says so."""
        path = f"{self.output}/{COLUMNS}"
        if not self._files.exists(path):
            return None
        try:
            return [[str(name), str(kind)] for name, kind in json.loads(self._files.read(path))]
        except (ValueError, TypeError):
            raise CorruptionError(
                f"{path} is no list of columns", hint="delete it: the next batch writes it again"
            ) from None

    def publish(self, frame: Any, batch: int) -> None:
        """Write a batch aside, then move it into place."""
        staged = f"{self.output}/_staged/{self.run}-{batch}"
        frame.write.mode("overwrite").parquet(staged)
        self._into_place(staged, batch)

    def publish_parts(self, written: Callable[[str], Any], batch: int) -> Counts | None:
        """The same, written by the workers; None when they cannot, or have no rows to write."""
        staged = f"{self.output}/_staged/{self.run}-{batch}"
        folder = local_folder(staged)
        frame = None if folder is None else written(str(folder))
        if folder is None or frame is None:
            return None
        self._files.delete(staged)
        folder.mkdir(parents=True)
        rows = frame.collect()
        named = {row["file"] for row in rows if row["file"] is not None}
        if not named:
            return None  # Spark writes a file with the columns and no rows
        for file in folder.iterdir():
            if file.name not in named:
                file.unlink()  # of a try that did not count
        self._into_place(staged, batch)
        return Counts(*(sum(row[name] for row in rows) for name in Counts._fields))

    def _into_place(self, staged: str, batch: int) -> None:
        self._files.write(f"{staged}/{FROM}", self.checkpoint.source_of(batch).encode())
        if self._columns is not None and not self._files.exists(f"{self.output}/{COLUMNS}"):
            drawn = f"{self.output}/_staged/{COLUMNS}"
            self._files.write(drawn, json.dumps(self._columns).encode())
            self._files.rename(drawn, f"{self.output}/{COLUMNS}")
        self._files.rename(staged, self.place(batch))
