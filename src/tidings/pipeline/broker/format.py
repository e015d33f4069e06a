"""`format("tidings")`: brokers as a source and a sink of Spark, batch and streaming.

    spark.read.format("tidings").option("brokers", "tidings://b1:7117,tidings://b2:7117").load()
    CREATE TEMPORARY VIEW trades USING tidings OPTIONS (brokers 'tidings://b1:7117', filter 'price > 10')

Without a schema the columns are those of a sample (`columns.py`).
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from pyspark.sql.datasource import DataSource

from tidings.pipeline.broker import options as given
from tidings.pipeline.broker.columns import check_identity, inferred
from tidings.pipeline.broker.reading import LogSpan, pages, state_of


class TidingsDataSource(DataSource):  # type: ignore[misc]
    """Name of the format in Spark."""

    @classmethod
    def name(cls) -> str:
        return "tidings"

    def schema(self) -> str:
        """Inferred: what the first events that the filter accepts have."""
        reading = given.reading(self.options)
        events = []
        for where in reading.brokers:
            state = state_of(where)
            span = LogSpan(where, state.log, 0, state.end, reading.filter, reading.dialect)
            found = (stored.event for entries in pages(span) for _, stored in entries)
            events += list(islice(found, reading.samples))
        return inferred(events)

    def reader(self, schema: Any) -> Any:
        from tidings.pipeline.broker.source import BrokerBatchReader

        return BrokerBatchReader(given.reading(self.options), schema)

    def streamReader(self, schema: Any) -> Any:  # noqa: N802 - Spark's name
        from tidings.pipeline.broker.source import BrokerStreamReader

        return BrokerStreamReader(given.reading(self.options), schema)

    def writer(self, schema: Any, overwrite: bool) -> Any:
        from tidings.pipeline.broker.sink import BrokerBatchWriter

        del overwrite  # a log is only added to
        return BrokerBatchWriter(self._writing(schema))

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802
        from tidings.pipeline.broker.sink import BrokerStreamWriter

        del overwrite
        return BrokerStreamWriter(self._writing(schema))

    def _writing(self, schema: Any) -> given.WriteOptions:
        writing = given.writing(self.options)
        check_identity(schema.names, writing.identity)
        return writing
