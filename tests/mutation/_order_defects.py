"""Seeded defects in keys, groups and the order of events."""

from __future__ import annotations

from tests.mutation._suites import GROUP_RETURNS, Defect

BATCHES = ("tests/unit/runtime/test_get_many.py",)
KEYED = ("tests/unit/protocol/delivery/test_keyed_items.py",)

ORDER_DEFECTS = (
    # a group goes on when the first of its members is back
    Defect("protocol/delivery/replay.py", " and not state.is_regrouping:", ":", by=GROUP_RETURNS),
    # a member says nothing of what it holds
    Defect("protocol/client_holdings.py", "_by_log(taken[-most:])", "{}", by=GROUP_RETURNS),
    # or of what it committed last
    Defect("protocol/client_holdings.py", "_by_log(last))", "{})", by=GROUP_RETURNS),
    # a late commit leaves the event with another member
    Defect("protocol/delivery/group_returns.py", "self._settle_with_members(state, committed, now)", "pass",
        by=GROUP_RETURNS),
    # an orderly stop forgets the members before the disk is closed
    Defect("protocol/delivery/group_returns.py", "            members.lost_at[member.key] = now\n",
        "            pass\n", by=GROUP_RETURNS),
    # a newer event that a member holds is not looked at
    Defect("protocol/delivery/keyed_items.py", "in numbers and (each.first_tag or tag) > numbers[key]",
        "in numbers and False", by=KEYED),
    # a newer event in the log is not looked at
    Defect("protocol/delivery/log_index.py", "return self._keys.is_superseded(key, offset)", "return False",
        by=KEYED),
    # the client is not told that what it returned is superseded
    Defect("protocol/delivery/fences.py", "for position in _settled(member.subscription):",
        "for position in ():", by=KEYED),
    # a reader of what is available ends while later events of a moved publisher wait for earlier ones
    Defect("protocol/delivery/dispatcher.py", "(state.queue or state.unacked or state.barred)",
        "(state.queue or state.unacked)", by=("tests/simulation/test_tidings_moving.py",)),
    # a member of a transient group does not know what it committed
    Defect("protocol/resume_tokens.py", "        if group is not None:\n            positions",
        "        if group is not None and subscription.options.durable:\n            positions",
        by=("tests/unit/protocol/test_groups.py",)),
    # a group that begins anew takes the commits of one member for those of all
    Defect("protocol/client_subscription.py", "self.committed.add(position)\n            return\n",
        "self.committed.add(position)\n", by=("tests/unit/protocol/test_groups.py",)),
    # what was committed by a call without an event is taken for returned
    Defect("runtime/listener.py", "            self._has_committed = commits\n", "", by=BATCHES),
    # a broker in the middle announces a log whose end it has passed on
    Defect("protocol/recovery/relay.py", "            self._note_gone(part, now)\n            to,",
        "            to,", by=("tests/simulation/test_wide_findings.py",)),
    Defect("protocol/recovery/relay.py", "        self._note_gone(message, now)\n        path =",
        "        path =", by=("tests/simulation/test_wide_findings.py",)),
    # a broker in the middle denies a need behind it that it cannot know yet
    Defect("protocol/recovery/progress_reports.py",
        "                acked, superseded = 0, True\n",
        "                acked, superseded = 0, superseded or known > 0\n",
        by=("tests/simulation/test_tidings_superseded.py",)),
)  # fmt: skip
