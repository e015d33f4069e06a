"""A driver of its own: matches what is in a folder into Parquet, and says each step on a line.

Usage: python _stream_child.py FOLDER   (with FOLDER/in, FOLDER/table; makes FOLDER/out, FOLDER/checkpoint)
"""

from __future__ import annotations

import sys
from pathlib import Path

from tidings.pipeline import Table, match_stream, session
from tidings.pipeline.tables import Version


class Loud(Table):
    """A table that tells when a batch pins its version."""

    def version(self, number: int | None = None) -> Version:
        found = super().version(number)
        print("pinned", found.number, flush=True)
        return found


def main(folder: Path) -> None:
    spark = session(master="local[2,4]", quick=True, memory_mb=1024)
    events = (
        spark.readStream.schema("id string, x double, y double, word string")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder / "in"))
    )
    query = match_stream(
        events,
        Loud(folder / "table"),
        to=folder / "out",
        checkpoint=folder / "checkpoint",
        keep=["id"],
        once=True,
        on_batch=lambda batch: print("published", batch.number, batch.version, batch.rows, flush=True),
    )
    query.awaitTermination()
    print("done", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
