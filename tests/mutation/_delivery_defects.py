"""Seeded defects in what subscribers give back, and in connections whose both ends have much to send."""

from __future__ import annotations

from tests.mutation._suites import Defect

FILTERS = ("tests/simulation/test_tidings_filters.py",)
COUNTS = ("tests/unit/protocol/test_lifetimes.py", "tests/properties/test_embedded_queues.py")
RETURNING = ("tests/simulation/test_tidings_returning.py",)
BOUNDED = ("tests/simulation/test_tidings_counts.py", "tests/properties/test_embedded_counts.py")
CHANGED = ("tests/unit/protocol/test_changed_filters.py",)
RETURNED = ("tests/unit/protocol/test_committing.py",)

DELIVERY_DEFECTS = (
    # what was given back twice is put before what was sent earlier
    Defect("protocol/delivery/subscription_state.py", "while line and 0 < line[0].first_tag < last:\n",
        "while False:\n", by=RETURNED),
    # the order of the first sending is forgotten when an event is given back again
    Defect("protocol/delivery/item.py", "self.first_tag or tag", "tag", by=RETURNED),
    # a queue that is longer than was asked for
    Defect("protocol/delivery/dispatcher.py", "if room <= 0:  # below 0", "if False:  # below 0",
        by=RETURNED),
    # what is on its way when nothing is sent ahead comes first
    Defect("protocol/client_returns.py", "    elif not (reason or subscription.is_fenced or "
        "subscription.options.group):\n", "    elif False:\n", by=RETURNED),
    # the client does not look whether all of it is there
    Defect("protocol/client_returns.py", "    if subscription.awaited:\n", "    if False:\n",
        by=RETURNED),
    # credit is granted while what was sent ahead is returned
    Defect("protocol/client.py", " or subscription.gives_way:\n", ":\n", by=RETURNED),
    # what comes again is put behind what was sent ahead
    Defect("protocol/client_subscription.py", "self.buffer.insert(self.returned, deliver)",
        "self.buffer.append(deliver)", by=RETURNED),
    # both ends of a connection wait for the other one to read
    Defect("runtime/connection.py", "        if self.visit is not None:\n            self.hold(",
        "        if True:\n            self.hold(", by=("tests/unit/runtime/test_write_buffer.py",)),
    # no right to events that come while what an earlier filter left is read
    Defect("protocol/delivery/replay.py", "start=owed.stop, keep_from=", "start=None, keep_from=",
        by=FILTERS),
    # a new filter without replay forgets what was owed under the one before
    Defect("protocol/delivery/cursor.py", "begin = min(self.first, self.stop)", "begin = self.stop",
        by=FILTERS),
    # a new filter without replay gives up the available events of other logs
    Defect("protocol/delivery/cursor.py", "return min(begin, self.unsettled) if any(right.since < inf for "
        "right in self.ranges) else begin", "return begin", by=FILTERS),
    # the origin is asked for what came since alone
    Defect("protocol/delivery/sources.py", "min([state.since_available, *[right.since for right in rights]])",
        "state.since_available", by=FILTERS),
    # an available event is for the filter that asked for it alone
    Defect("protocol/delivery/sources.py", "envelope.offset or 0, inf if is_available else -inf)",
        "envelope.offset or 0, -inf)", by=FILTERS),
    # a restart forgets that available events are owed
    Defect("protocol/delivery/rows.py", "since = self.since or [", "since = [", by=FILTERS),
    # a return with the same filter and without replay gives up what was available
    Defect("protocol/delivery/registry.py", "if not is_same else state.options.replay", "if True else False",
        by=FILTERS),
    # a subscription that took another filter without replay began never
    Defect("protocol/delivery/registry.py", "        state.since = now\n",
        "        state.since = now if message.options.replay else float('inf')\n", by=FILTERS),
    # rows of an earlier version leave a cursor without a beginning
    Defect("protocol/delivery/registry.py", "if cursor.rights and cursor.start is None:", "if False:",
        by=FILTERS),
    # a range that was narrowed twice has its first filter alone after a restart
    Defect("protocol/delivery/rows.py", "later = self.narrowed or ", "later = ", by=FILTERS),
    # the range of a filter reaches back to what was published under the one before
    Defect("protocol/delivery/replay.py", "max(cursor.needs_from(), cursor.start or 0)",
        "cursor.needs_from()", by=FILTERS),
    # a restart forgets what was counted
    Defect("protocol/delivery/registry.py", "            state.losses = LossCounts(dict(row.lost))\n",
        "            pass\n", by=BOUNDED),
    # what is not read after a restart is given up without a count
    Defect("protocol/delivery/recount.py", "if state.owner or state.has_bounds]", "if state.owner]",
        by=BOUNDED),
    # the log forgets an entry before the disk has its loss
    Defect("protocol/delivery/exactly_once.py", " or (forgotten and losses.unkept)):", "):", by=BOUNDED),
    # members know of losses that the disk does not know
    Defect("protocol/delivery/loss_report.py", "        if state.durable and self._ports.disk.stable:  #",
        "        if False:  #", by=BOUNDED),
    # events that wait behind a part that is not counted are given up, and that part with them
    Defect("protocol/delivery/bounds.py", "if state.has_bounds and self.has_unknown(state):", "if False:",
        by=BOUNDED),
    # a client's token passes losses that the disk does not have
    Defect("protocol/delivery/loss_report.py", " and state not in self.unkept and", " and", by=BOUNDED),
    # a client's token passes losses whose counts are on their way to the disk
    Defect("protocol/delivery/loss_report.py", " and state not in self._writing:", ":",
        by=("tests/unit/protocol/test_queues.py",)),
    # a broker counts from zero for a client that is back
    Defect("protocol/delivery/registry.py", "        self.counts_left.take(session, state)\n", "",
        by=BOUNDED),
    # an event that was dropped unread is missing in the metric
    Defect("protocol/delivery/bounds.py", "        self._losses.lost += 1\n", "", by=BOUNDED),
    # a page brings what counted as dropped while an earlier one was on its way
    Defect("protocol/delivery/replay.py", "            cursor.drop(item.after)\n", "",
        by=BOUNDED),
    # a dead letter is on the disk before the progress of its subscription
    Defect("protocol/delivery/registry.py", "self._ports.disk.keep([*records, *progress])",
        "self._ports.disk.keep(records)", by=RETURNED),
    # publishers do not wait for the pages of a durable subscriber
    Defect("runtime/intake.py", "            if backlog.reading > (", "            if False and (",
        by=("tests/unit/runtime/test_intake.py::"
            "test_publishers_wait_for_a_page_that_is_on_its_way_and_for_what_it_allows",)),
    # publishers are read as much as before while a durable subscriber lags
    Defect("runtime/intake.py", "            self._small, self._answered = TRIAL, backlog.read",
        "            self._answered = backlog.read",
        by=("tests/unit/runtime/test_intake.py",)),
    # an event that is superseded and not yet forgotten is passed over and counted nowhere
    Defect("protocol/delivery/sources.py", "return has_ended or is_superseded", "return has_ended",
        by=COUNTS),
    # a client that has left asks and leaves again without end
    Defect("protocol/client.py", "            subscription.is_answered()  # a broker",
        "            # a broker", by=RETURNING),
    # a client that returns at once takes the token of the listener before the last one
    Defect("protocol/client.py",
        "        self._listenings[subscription.ref] = subscription\n        self._open(",
        "        self._listenings[subscription.ref] = subscription\n"
        "        self._tokens.resume(subscription)\n        self._open(", by=RETURNING),
    # superseded events of the own log that an earlier filter leaves owed are given up
    Defect("protocol/delivery/sources.py",
        "not state.options.superseding and cursor.has_right(event, offset, -inf)",
        "not state.options.superseding and offset >= (cursor.start or 0)", by=RETURNING),
    # what another broker says of a log ends what the home, which did not know it, is owed
    Defect("protocol/client_subscription.py",
        'name = "away" if self.is_remote and position.log not in self.after else "after"',
        'name = "after"', by=RETURNING),
    # an event that was committed behind an open one comes again after a return
    Defect("protocol/resume_tokens.py", "            if taken.is_committed:\n",
        "            if False:\n", by=RETURNING),
    # neighbours hear that the earlier filter ends before they hear of the next one
    Defect("protocol/delivery/registry.py", "        self._unmatch(state)\n        state.subscription =",
        "        self._unwant(state, now)\n        state.subscription =", by=RETURNING),
    # commits beyond the token hide events that an application asks for anew
    Defect("protocol/resume_tokens.py", "            self._ahead.pop(name, None)  #", "            pass  #",
        by=("tests/unit/protocol/test_resume_tokens.py",)),
    # what an earlier filter gave up before it was read is counted by none
    Defect("protocol/delivery/cursor.py", "return offset >= max(self.counted[number:], default=ANY_OFFSET)",
        "return False", by=CHANGED),
    # what a filter gave up and counted is counted again under the next one
    Defect("protocol/delivery/cursor.py", "return offset >= max(self.counted[number:], default=ANY_OFFSET)",
        "return True", by=CHANGED),
    # a recount lets go of what the replay has still to count as given up
    Defect("protocol/delivery/recount.py", "self._own_log.count_given_up(state, offset, now)", "pass",
        by=CHANGED),
    # what a recount counted is counted again by the replay
    Defect("protocol/delivery/sources.py", "if offset < cursor.recounted or ", "if ", by=CHANGED),
    # a restart forgets what a recount counted
    Defect("protocol/delivery/registry.py", "                cursor.recounted = progress.recounted\n",
        "                pass\n", by=CHANGED),
    # a recount that began under an earlier filter is taken for the present one
    Defect("protocol/delivery/recount.py", "state.own.rights is rights[state]", "True", by=CHANGED),
)  # fmt: skip
