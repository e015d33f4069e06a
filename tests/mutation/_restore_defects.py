"""Seeded defects in what goes back to an older copy: stores, archives, sessions, and their readers."""

from __future__ import annotations

from tests.mutation._suites import Defect

ARCHIVES = ("tests/meeting/test_archive_subscription.py",)
LABELS = ("tests/unit/protocol/test_redelivery_labels.py",)
MOVED = (
    "tests/unit/store/test_rocks.py::"
    "test_a_store_that_was_moved_away_writes_nothing_into_the_one_in_its_place",
)
LIVES = ("tests/unit/store/test_restored.py",)

RESTORES = (
    # a clock that was set back gives the offsets of a life again
    Defect("store/restored.py", "clock if clock > last else last + STRIDE", "clock", by=LIVES),
    # the directory of the backups does not remember
    Defect("store/restored.py", "        new.replace(backups / FILE)\n", "", by=LIVES),
    # a reader of another life waits, and passes over what comes
    Defect("protocol/delivery/scanning.py", "if self._is_own and end < request.after", "if False and 0 < end",
        by=("tests/meeting/test_source.py",)),
    # a stream of Spark walks the hole of a restored log
    Defect("pipeline/broker/source.py",
        "read[hold.log] = min(ends[hold.log], next_place(where, hold.log, read[hold.log]))", "pass",
        by=("tests/meeting/test_source.py",)),
    # what was released to an archive is forgotten over a restart
    Defect("protocol/delivery/retention_holds.py", "self.released = msgspec.msgpack.decode(value, type=int)",
        "pass", by=ARCHIVES),
    # an archive that is not mounted is served
    Defect("runtime/archives.py", "if (reaches := state.places.get(log, 0)) < upto:",
        "if (reaches := state.places.get(log, 0)) < 0:", by=ARCHIVES),
    # ... and filled, so that it passes for the whole one
    Defect("pipeline/broker/archiving.py", "if position < hold.released:", "if False:", by=ARCHIVES),
    # a store goes on by name when another one has it
    Defect("store/rocks.py", "        self._check_place()\n", "", by=MOVED),
    # ... and closes its database there
    Defect("store/rocks.py", "if self._has_moved():\n            # Its",
        "if False:\n            # Its", by=MOVED),
    # a flipped bit of an MQTT session is taken for the session
    Defect("gateway/mqtt/session_sums.py", "if mark and sum != _sum_of(content):", "if False:",
        by=("tests/gateway/test_session_sums.py",)),
    # a redelivery is forgotten over a restart
    Defect("protocol/delivery/oversized.py", "each.is_large or each.is_redelivered", "each.is_large",
        by=("tests/unit/runtime/test_administration.py::test_a_redelivery_outlives_the_broker",)),
    # every first delivery after a restart is called a redelivery
    Defect("protocol/delivery/registry.py", "self._index.end if sent is None else sent.get(cursor.log, 0)",
        "self._index.end", by=LABELS),
    # what a listener had when the broker crashed passes for never sent
    Defect("protocol/delivery/subscription_state.py", "if self.has_members:\n            return None",
        "if False:\n            return None", by=LABELS),
    # what was left uncommitted passes for committed
    Defect("protocol/client_history.py", "if not each.is_committed]\n    yield from given_back",
        "if False]\n    yield from given_back", by=LABELS),
    # a row that is called a redelivery is believed
    Defect("history/repeats.py", "found[number] = _explains(", "found[number] = True or _explains(",
        by=("tests/unit/history/test_repeats.py",)),
    # a record has the filter that was asked for, where rights narrowed it
    Defect("protocol/client_history.py", "narrowed or of.filter", "of.filter",
        by=("tests/unit/runtime/test_narrowing.py",)),
    # a broker that restarted is taken for one that an event never reached
    Defect("runtime/delivery_verdict.py", "(reach is not None and reach >= ago)", "True",
        by=("tests/unit/runtime/test_delivery_verdict.py",)),
)  # fmt: skip
