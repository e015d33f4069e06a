"""Defects of ours on the way between brokers and Spark that an attacker found."""

from __future__ import annotations

from tests.mutation._suites import Defect

SINK = ("tests/meeting/test_sink.py",)
HOLDS = ("tests/unit/protocol/delivery/test_retention_holds.py",)
SOURCE = ("tests/meeting/test_source.py",)

SPARK_DEFECTS = (
    # rows with the ids of several sources are published under one
    Defect("pipeline/broker/columns.py", "    if not identity and \"id\" in names and", "    if False and",
        by=SINK),
    Defect("pipeline/broker/columns.py", "    elif not identity and row.get(\"id\") and",
        "    elif False and",
        by=SINK),
    # a stream makes new events of its own, without end
    Defect("pipeline/broker/sink.py", "            if self._refuses_own and str(",
        "            if False and str(",
        by=SINK),
    # of two different events of one identity in a batch one is dropped
    Defect("protocol/delivery/staging.py", "        if other is not event and msgspec",
        "        if False and msgspec",
        by=("tests/unit/protocol/delivery/test_staging.py", *SINK)),
    # a stream killed in its first batch does not start again with its checkpoint, or begins elsewhere
    Defect("pipeline/broker/source.py", "        if is_first:\n            self._refuse_lost_checkpoint()\n",
        "        if not is_first:\n            self._refuse_lost_checkpoint()\n", by=SOURCE),
    Defect("pipeline/broker/source.py", "            begins |= end.get(FROM, {})\n",
        "            pass\n", by=SOURCE),
    # the repeated first batch of a reader for which the broker kept nothing is empty
    Defect("pipeline/broker/source.py", "                if is_repeated and hold.log in self._renewed:\n",
        "                if False:\n", by=SOURCE),
    # a reader's hold lets go of what a newer event supersedes, or it is not read
    Defect("protocol/delivery/retention_holds.py", "        if row.superseding:\n            self._whole",
        "        if True:\n            self._whole", by=(*HOLDS, *SOURCE)),
    Defect("protocol/delivery/scanning.py", "request.superseded or not", "not", by=(*HOLDS, *SOURCE)),
    Defect("runtime/pages.py", "None if about.get(\"superseded\") else", "", by=SOURCE),
    # a batch of today's values has yesterday's too
    Defect("runtime/pages.py", "        if is_hidden(offset) or not is_open(payload):\n",
        "        if not is_open(payload):\n", by=SOURCE),
    # a version that is pinned goes with the others
    Defect("pipeline/tables.py", "(pinned / name).hardlink_to(version.folder / name)",
        "(pinned / name).symlink_to(version.folder.resolve() / name)",
        by=("tests/unit/pipeline/test_tables.py",)),
)  # fmt: skip
