"""A driver of its own: brokers through Spark to a broker, and it says each batch on a line.

Usage: python _meeting_child.py CHECKPOINT BROKERS SINK
"""

from __future__ import annotations

import sys
from typing import Any

from pyspark.sql.streaming import StreamingQueryListener

from tidings.pipeline import session


class Loud(StreamingQueryListener):  # type: ignore[misc]
    def onQueryStarted(self, event: Any) -> None:
        print("started", flush=True)

    def onQueryProgress(self, event: Any) -> None:
        print("batch", event.progress.batchId, event.progress.numInputRows, flush=True)

    def onQueryTerminated(self, event: Any) -> None:
        """The end is said below."""


def main(checkpoint: str, brokers: str, sink: str) -> None:
    spark = session(master="local[2,4]", quick=True, memory_mb=1024)
    spark.streams.addListener(Loud())
    events = (
        spark.readStream.format("tidings")
        .schema("n bigint")
        .options(brokers=brokers, filter="topic = 'in'", reader="kills", maxEventsPerBatch=40, timeout=60)
        .load()
    )
    query = (
        events.writeStream.format("tidings")
        .options(broker=sink, topic="out", checkpointLocation=checkpoint, lifetime="3600", timeout=60)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
