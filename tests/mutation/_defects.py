"""Seeded defects: one small mistake each, of the kinds that people make, in code that promises something.

They were written down before the suite was asked. A defect is (file, what stands there, what is put there); what
stands there stands there once. Those at the end were defects of ours, found from outside or by the wide world: each has
to be found by its seeds. `PACKAGES` says which tests look after a package; they are the package's own tests, chosen by
name and not by defect, the quickest first.
"""

from __future__ import annotations

from typing import NamedTuple


class Defect(NamedTuple):
    file: str  # below src/tidings
    old: str
    new: str
    by: tuple[str, ...] = ()  # the tests that have to find it; none: those of its package

    @property
    def name(self) -> str:
        words = "".join(c if c.isalnum() else "-" for c in f"{self.file.removesuffix('.py')} {self.new}")
        return "-".join(part for part in words.split("-") if part)[:90]


# Seeds of the wide world: those that found a defect once, then the 200 of the default suite.
WIDE = ("tests/simulation/test_wide_findings.py", "tests/simulation/test_wide_seeds.py")

# Named tests of what processes, disks and gateways promise.
ORIGINS = ("tests/gateway/test_origins.py",)
EXCHANGES = ("tests/gateway/test_exchanges.py", "tests/chaos/test_mqtt_kill.py")
SHARED = ("tests/gateway/test_shares.py", "tests/chaos/test_mqtt_share_kill.py")
ENDING = (
    "tests/unit/runtime/test_sessions.py",
    "tests/gateway/test_ending.py",
    "tests/unit/runtime/test_revocation.py",
)
GUESSING = ("tests/unit/security/test_attempts.py", "tests/gateway/test_guessing.py")
CONFIRMING = ("tests/gateway/test_confirming.py",)
UNDECIDED = ("tests/gateway/test_undecided.py",)
SLOW = ("tests/unit/runtime/test_admission.py", "tests/gateway/test_slow.py")
POISON = ("tests/gateway/test_poison.py",)
FLOODS = ("tests/gateway/test_floods.py",)
BOUNDS = ("tests/unit/runtime/test_client_bounds.py",)
UNFINISHED = ("tests/unit/runtime/test_unfinished.py",)
FAIRNESS = ("tests/unit/runtime/test_fairness.py",)
PARSING = ("tests/unit/language/test_limits.py",)
OWNERS = ("tests/unit/runtime/test_owners.py",)
BYTES = ("tests/unit/runtime/test_byte_quotas.py",)
WORK = ("tests/unit/language/test_limits.py", "tests/properties/test_work_budget.py")
OBSERVING = ("tests/unit/runtime/test_observing.py", "tests/gateway/test_rights.py")
ROLLBACK = ("tests/simulation/test_tidings_rollback.py",)
CIRCLES = ("tests/simulation/test_tidings_circles.py",)
RECALL = ("tests/simulation/test_tidings_recall.py",)
RESTARTS = ("tests/simulation/test_tidings_recall_restarts.py",)
OLD_DISK = (
    "tests/unit/protocol/membership/test_agreed.py",
    "tests/unit/protocol/recovery/test_group_log.py",
    "tests/simulation/test_group.py",
)
FULL_GROUP = ("tests/unit/protocol/recovery/test_group_log.py", "tests/simulation/test_full_disks.py")
GROUP_LOG = ("tests/unit/protocol/recovery/test_group_log.py", *WIDE)
GAPS = ("tests/simulation/test_tidings_gaps.py", *WIDE)
BATCHES = ("tests/unit/protocol/test_batches.py", *WIDE)
CLOCKS = ("tests/simulation/test_tidings_clocks.py", *WIDE)
FULL_DISK = ("tests/simulation/test_full_disks.py", *WIDE)
GUARD = ("tests/unit/security/test_authorization.py", *WIDE)
DOOR = ("tests/unit/runtime/test_client_ingress.py", *WIDE)
LIFETIMES = ("tests/unit/protocol/test_lifetimes.py", *WIDE)
KEEPING = ("tests/simulation/test_group.py", *WIDE)

PACKAGES: dict[str, tuple[str, ...]] = {
    "language": ("tests/unit/language", "tests/properties/test_normal_form.py", "tests/properties/test_language_*.py", "tests/conformance/test_cesql.py"),
    "algebra": ("tests/unit/algebra", "tests/properties/test_algebra_*.py"),
    "matching": ("tests/unit/matching", "tests/properties/test_matching_*.py"),
    "availability": ("tests/unit/availability", "tests/unit/protocol", "tests/properties/test_embedded_*.py", "tests/simulation/test_tidings_*.py"),
    "store": ("tests/unit/store", "tests/chaos/test_store_kill.py", "tests/chaos/test_store_rot.py"),
    "security": ("tests/unit/security", "tests/properties/test_security_*.py", "tests/unit/runtime/test_attacks.py", "tests/unit/runtime/test_client_ingress.py"),
    "wire": ("tests/unit/wire", "tests/properties/test_wire_*.py"),
    "protocol": ("tests/unit/protocol", "tests/simulation/test_tidings_*.py", "tests/properties/test_embedded_*.py", "tests/scenarios", "tests/simulation/test_seeds.py"),
    "model": ("tests/unit/model", "tests/unit/language"),
}  # fmt: skip

DEFECTS = (
    # -- filters
    Defect("language/evaluate.py", "        return True if one is True and other is True else None\n", "        return True if one is True or other is True else None\n"),
    Defect("language/evaluate.py", "        return False if one is False and other is False else None\n", "        return False\n"),
    Defect("language/evaluate.py", "        return None if unknown else False\n", "        return False\n"),
    Defect("language/evaluate.py", "return quotient if (left < 0) == (right < 0) else -quotient", "return quotient"),
    Defect("language/evaluate.py", "return result if INT_MIN <= result <= INT_MAX else None", "return result"),
    Defect("language/evaluate.py", "        _comparing(operand, _compile(node.high), operator.le),", "        _comparing(operand, _compile(node.high), operator.lt),"),
    Defect("language/evaluate.py", "if one is None or (ordered and type(one) is bool):", "if one is None:"),
    Defect("language/evaluate.py", "        return one is not other if type(one) is bool and type(other) is bool else None", "        return one is not other"),
    Defect("language/normalise.py", "return self.all_of(parts) if (kind is And) is wanted else self.any_of(parts)", "return self.all_of(parts) if kind is And else self.any_of(parts)"),
    Defect("language/normalise.py", "return _one(Exists(node.name) if wanted else Missing(node.name))", "return _one(Exists(node.name))"),
    Defect("language/normalise.py", "return self.between(node, wanted is not node.negated)", "return self.between(node, wanted)"),
    Defect("algebra/intervals.py", "    start = BOTTOM if low is None else after(low) if low_open else before(low)\n", "    start = BOTTOM if low is None else before(low)\n"),
    Defect("algebra/intervals.py", "        if result and start <= result[-1][1]:", "        if result and start < result[-1][1]:"),
    Defect("algebra/intervals.py", "    following = ord(stem[-1]) + 1\n", "    following = ord(stem[-1])\n"),
    Defect("algebra/covers.py", "    return covers(one, other) and covers(other, one)", "    return covers(one, other)"),
    Defect("algebra/covers.py", "    return decide_overlaps(one, other) is not False", "    return decide_overlaps(one, other) is True"),
    Defect("algebra/covers.py", "    return True if gap is None and not search.is_exhausted else None", "    return True if gap is None else None"),
    # -- the store
    Defect("store/keyed.py", "            self._engine.write(changes)\n            self._engine.mark(plan.commit)\n", "            self._engine.mark(plan.commit)\n            self._engine.write(changes)\n"),
    Defect("store/keyed.py", "        except BaseException as error:  # after any error the batch is in an unknown state\n            self._failure = error\n            raise\n", "        except BaseException:\n            raise\n"),
    Defect("store/keyed.py", "                size += len(value)\n                if len(found) >= limit or size >= max_bytes:", "                if len(found) >= limit or size >= max_bytes:"),
    Defect("store/keyed.py", "        room = self._engine.room() if self._reserve_bytes else None\n", "        room = None\n"),
    Defect("store/keyed.py", "        self._engine.recover()\n        kept = read_account(self._engine)\n", "        kept = self._ledger.account\n"),
    Defect("store/guard.py", "    if crc32c(payload, crc32c(key)) != int.from_bytes(value[:CRC_BYTES], \"little\") or len(value) < CRC_BYTES:", "    if len(value) < CRC_BYTES:"),
    Defect("store/guard.py", "    return ENTRY + offset.to_bytes(8, \"big\")\n\n\ndef offset_of", "    return ENTRY + offset.to_bytes(8, \"little\")\n\n\ndef offset_of"),
    # -- lifetimes and what was told
    Defect("availability/lifetime.py", "    return now < entry.ends_at\n", "    return now <= entry.ends_at\n"),
    Defect("availability/lifetime.py", "    return entry.expires_at is not None and entry.expires_at <= now", "    return entry.expires_at is not None and entry.expires_at < now - 1"),
    Defect("availability/lifetime.py", "            if not self.heap or self.heap[0][0] > now:", "            if not self.heap:"),
    Defect("availability/delivered_ranges.py", "            and self.filter.digest == other.filter.digest\n", ""),
    Defect("availability/delivered_ranges.py", "            span.log == log and span.start <= offset < span.stop and accepts(span.filter, event)", "            span.log == log and span.start <= offset <= span.stop and accepts(span.filter, event)"),
    # -- rights
    Defect("security/rules.py", "        allowed = wanted if covers(self.filter, wanted) else conjoined(wanted, self.filter)", "        allowed = wanted"),
    Defect("security/rules.py", "        bounds = [self.mandatory[key] for key in _keys(principal) if key in self.mandatory]", "        bounds = [self.mandatory[key] for key in _keys(principal)[:1] if key in self.mandatory]"),
    Defect("security/rules.py", "            return self.who == ANONYMOUS\n", "            return self.who in (ANONYMOUS, ANYONE)\n"),
    Defect("security/rules.py", "        if known is not None and known[0] is event:", "        if known is not None:"),
    Defect("security/rules.py", "[r.filter for r in self.rules if r.action is action and r.speaks_of(principal)]", "[r.filter for r in self.rules if r.speaks_of(principal)]"),
    Defect("security/quotas.py", "        self._check(\"constraints\", self.constraints + constraints)\n        self.subscriptions += 1\n", "        self.subscriptions += 1\n"),
    Defect("security/quotas.py", "        if constraints is not None:\n            self.unsubscribe(constraints)", "        if constraints is not None:\n            pass"),
    Defect("security/tokens.py", "(\"exp\", now, None),  # sessions", "(\"exp\", None, None),  # sessions"),
    Defect("security/tokens.py", "        if len(token) > LONGEST_TOKEN:\n            raise RefusedError(REFUSED)\n", ""),
    # -- the wire
    Defect("wire/codec.py", "        if length != len(frame) - LENGTH.size:", "        if False and length != len(frame) - LENGTH.size:"),
    Defect("wire/codec.py", "            if version == VERSION and crc32c(body, _BEGUN) == checksum:", "            if version == VERSION:"),
    # -- delivery, routing, recovery
    Defect("protocol/delivery/flow.py", "            is_owed = is_asked or ((looks or not stay) and self._is_owed(event, match, stay))", "            is_owed = is_asked"),
    Defect("protocol/delivery/flow.py", "        if seen is IdentityStatus.NEW and not is_own:", "        if False and not is_own:"),
    Defect("protocol/delivery/dispatcher.py", "            if held.durable:\n                self._ledger.owe(position.offset, held.owner)\n", ""),
    Defect("protocol/delivery/dispatcher.py", "        self.sent += count\n        member.credit -= count\n", "        self.sent += count\n"),
    Defect("protocol/delivery/dispatcher.py", "        if member is not None and item.event.key is None and not item.expired(now):", "        if member is not None and item.event.key is None:", by=("tests/simulation/test_tidings_untold.py",)),
    Defect("protocol/delivery/dispatcher.py", "        if held.has_ended or (position is None and held.durable and held.number > pending.number):", "        if held.has_ended:"),
    Defect("protocol/delivery/exactly_once.py", "            self._ledger.log = row.name\n            return\n", "            break\n"),
    Defect("protocol/routing/covering.py", "        if not self._own_counts[filter.digest]:\n", "        if True:\n"),
    Defect("protocol/routing/covering.py", "        elif sender not in self._links():\n            return  # a neighbour no longer; it was on its way\n", ""),
    Defect("protocol/recovery/acknowledged.py", "        trail.due = max(trail.due, envelope.offset)\n", "        trail.due = envelope.offset - 1\n"),
    Defect("protocol/recovery/acknowledged.py", "        if view is None or view.upstream != came_from or offset is None:", "        if view is None or offset is None:"),
    # -- found from outside, or by the wide world, and put back: sizes, limits, clocks, disks, rights
    Defect("protocol/recovery/group_log.py", "        if not message.lacks:  # else it says what it holds, which is not what is on its disk\n", "        if True:\n", by=WIDE),  # lacks counted
    Defect("protocol/delivery/log_copy.py", "page, upto, more = PageBuilder[PlacedEvent](self._ports.limits), read_upto(found, end), \"\"", "page, upto, more = PageBuilder[PlacedEvent](self._ports.limits), (found[-1].offset if len(found) >= self._ports.limits.page_count else end), \"\"", by=WIDE),  # copy short page
    Defect("protocol/delivery/log_copy.py", "                    upto = append.offset - 1\n                    break", "                    upto = append.offset\n                    break", by=WIDE),  # copy skips the one that did not fit
    Defect("protocol/recovery/group_acks.py", "        needed = len(voters) // 2\n", "        needed = 0\n", by=WIDE),  # no majority
    Defect("protocol/recovery/group_log.py", "        self._stored = self.committed\n        epoch, last", "        self._stored = self._last\n        epoch, last", by=WIDE),  # tail taken for stored
    Defect("protocol/recovery/group_log.py", "best, state = max(sorted(", "best, state = min(sorted(", by=WIDE),  # worst log
    Defect("protocol/recovery/group_log.py", "            if proposal in self._placed or self._knows(proposal) is not False:\n", "            if self._knows(proposal) is not False:\n", by=WIDE),  # placed twice
    Defect("protocol/recovery/group_log.py", "            if proposal in self._placed or self._knows(proposal) is not False:\n", "            if proposal in self._placed:\n", by=WIDE),  # knows not asked
    Defect("protocol/recovery/group_log.py", "        if message.after > self._last:\n", "        if False:\n", by=WIDE),  # hole in replicate
    Defect("protocol/recovery/group_log.py", "        self._copying.stop()\n        self._wanted = None\n", "        self._wanted = None\n", by=GROUP_LOG),  # copy goes on in the next view
    Defect("protocol/recovery/group_log.py", "        if message.epoch != self.epoch:  # type", "        if message.epoch != self.epoch and type(message) is not LogCopyRequest:  # type", by=GROUP_LOG),  # a member gives a copy after its restart
    Defect("protocol/recovery/group_log.py", "        if message.first > due:\n", "        if False:\n", by=GROUP_LOG),  # propose with a hole
    Defect("protocol/recovery/group_log.py", "        if (settled := self._settled(message.proposals)) is not None:\n            self.ports.send(sender", "        if (settled := self._settled(new)) is not None:\n            self.ports.send(sender", by=WIDE),  # lost answer
    Defect("protocol/delivery/publisher_migration.py", "        return {position.log, source} if position.log == self._ledger.log else {position.log}\n", "        return {position.log}\n", by=("tests/simulation/test_tidings_order.py",)),  # overtaken by an event in no log
    Defect("protocol/delivery/replay.py", "        if source.is_gone(cursor.log):\n            self.drop(held, cursor.log, broker_of(cursor.log) != self._ports.name)\n            return\n", "", by=("tests/simulation/test_tidings_moving.py",)),  # cursor of a lost log
    Defect("protocol/recovery/group_log.py", "            if page.is_full or not page.add(placed):\n                break\n        return page", "            page.items.append(placed)\n        return page", by=WIDE),  # replicate unbounded
    Defect("protocol/recovery/group_proposals.py", "                if page.is_full or not page.add(line[number]):\n                    break\n", "                page.items.append(line[number])\n", by=WIDE),  # proposals of ours unbounded
    Defect("protocol/recovery/group_log.py", "            self._commit(min(upto, self._last), now)", "            self._commit(self._last, now)", by=WIDE),  # committed before its rows
    Defect("protocol/recovery/group_log.py", "        return self._is_active and self._is_kept and is_here\n", "        return self._is_active and self._is_kept\n", by=GROUP_LOG),  # caught up too early
    Defect("protocol/recovery/group_log.py", "        return self._is_active and self._is_kept and is_here\n", "        return self._is_active and is_here\n", by=GROUP_LOG),  # caught up before the disk says so
    Defect("protocol/recovery/group_log.py", "        number = change.number if change.is_member else 0\n", "        number = change.number\n", by=GROUP_LOG),  # a coordinator in two lives
    Defect("protocol/recovery/group_log.py", "(2 * len(shown) > count and 2 * written >= count)", "2 * len(shown) > count", by=GROUP_LOG),  # an empty disk counted
    Defect("protocol/recovery/group_log.py", "        due = max(self._next_of.get(sender, 1), message.done + 1)\n", "        due = self._next_of.get(sender, 1)\n", by=GROUP_LOG),  # waits for a number that never comes
    Defect("protocol/recovery/group_log.py", "            if proposal.sequence < self._placed.last_number(proposal):\n", "            if False:\n", by=GROUP_LOG),  # late proposal out of order
    Defect("protocol/delivery/grouped.py", "            if under_way is not None or self._ledger.offset_of(identity) is not None:\n", "            if False:\n", by=("tests/simulation/test_group.py",)),  # refused while others commit it
    Defect("protocol/client_failover.py", "            if (\n                input.peer != self.broker or self._link is BrokerLinkState.DOWN\n            ):  # a link that stays up never comes up\n", "            if input.peer != self.broker:  # a link that stays up never comes up\n", by=("tests/unit/protocol/test_client_failover.py",)),  # a link that is never used again
    Defect("protocol/publishing.py", "None if is_group else broker)", "broker)", by=("tests/unit/protocol/test_publishing.py",)),  # the same member again, after its restart
    Defect("protocol/membership/views.py", "int(number) <= int(known_number)", "int(number) < int(known_number)", by=OLD_DISK),  # the older copy starts as the life that the view names
    Defect("protocol/recovery/group_log.py", "        if change.went_back:\n", "        if False:\n", by=OLD_DISK),  # the log of an older copy proves something
    Defect("protocol/recovery/group_log.py", "            if message.stored > self._last:\n", "            if False:\n", by=OLD_DISK),  # a snapshot of a running member counts
    Defect("protocol/recovery/group_acks.py", "            if disk and min(upto, committed) > self._proved.get((name, disk), 0):\n                self._proved[name, disk] = min(upto, committed)\n", "            self._proved[name, disk] = upto\n", by=OLD_DISK),  # an entry that was dropped rightly
    Defect("runtime/broker.py", "    return member_of(state.tables)\n", "    return \"\"\n", by=("tests/unit/runtime/test_group.py",)),  # the store of another member
    Defect("protocol/recovery/group_capacity.py", "        if full and 2 * len(able) <= len(voters):\n", "        if False:\n", by=FULL_GROUP),  # publishers wait for room at a majority
    Defect("protocol/recovery/group_proposals.py", "            self._settle(identity, full=reason)\n", "            pass\n", by=FULL_GROUP),  # those under way wait for room
    Defect("protocol/recovery/group_log.py", "None, lambda reason: self._no_room())", "None, None)", by=FULL_GROUP),  # a member with a full disk says nothing
    Defect("protocol/delivery/scanning.py", "        elif read_upto(records, upto) >= upto:", "        elif len(records) < self._ports.limits.page_count:", by=WIDE),  # replay short page
    Defect("protocol/delivery/scanning.py", "            if item is not None and not page.add(item):\n                break\n            read = record.offset\n", "            read = record.offset\n            if item is not None and not page.add(item):\n                break\n", by=WIDE),  # replay skips one
    Defect("protocol/delivery/scanning.py", "walk.then(found, read, read >= upto, now)", "walk.then(found, read, True, now)", by=WIDE),  # replay always last
    Defect("protocol/delivery/scanning.py", "            walk.then(found, read, read >= upto, now)\n", "            walk.then(found, upto, read >= upto, now)\n", by=GAPS),  # a full page says that it goes to the end
    Defect("protocol/batches.py", "is_over = held + size > limits.batch_bytes or place - begin >= limits.batch_count", "is_over = place - begin >= limits.batch_count", by=BATCHES),  # batch bytes ignored
    Defect("protocol/batches.py", "        if self.items and (self.is_full or self.size + size > self._bytes):", "        if self.items and self.is_full:", by=WIDE),  # page bytes ignored
    Defect("protocol/batches.py", "        if total <= limits.batch_bytes or len(items) <= 1:", "        if True:", by=BATCHES),  # cut measures nothing
    Defect("protocol/batches.py", "    if size <= most:\n        return None\n", "    if True:\n        return None\n", by=WIDE),  # no publish limit
    Defect("protocol/batches.py", "    return min(records[-1].offset, end) if records else end", "    return end", by=WIDE),  # short read is the end
    Defect("protocol/batches.py", "    return min(records[-1].offset, end) if records else end", "    return min(records[-1].offset, end) if records else 0", by=WIDE),  # empty read is no end
    Defect("protocol/recovery/acknowledged.py", "        for other in others:\n            self._inquire(other, link, now)\n        if others:\n            return None  # told again, and taken as soon as the other one is known to be gone\n", "        if any(other > news.log for other in others):\n            return None\n        for other in others:\n            self.forget(other, now)\n", by=WIDE),  # log names in order
    Defect("protocol/recovery/acknowledged.py", "        return any(link not in trails or trails[link].wants(offset) for link in self.peers())", "        return False", by=WIDE),  # nothing pinned
    Defect("protocol/recovery/acknowledged.py", "            upto = min(upto, settled)\n        for link", "            pass\n        for link", by=WIDE),  # acked without durables
    Defect("protocol/recovery/acknowledged.py", "            if trail is None or not trail.heard:\n                return 0\n", "            if trail is None or not trail.heard:\n                continue\n", by=WIDE),  # unheard neighbours ignored
    Defect("protocol/recovery/acknowledged.py", "        view.last = max(view.last, news.last)\n        if view.known", "        if view.known", by=GAPS),  # last event unnoticed
    Defect("protocol/recovery/acknowledged.py", "            if trail.acked < trail.due:\n                upto = min(upto, trail.acked)\n", "", by=WIDE),  # acks of links ignored
    Defect("protocol/delivery/sources.py", "        read = end if read_upto(records, end) >= end else", "        read = end if len(records) < 256 else", by=WIDE),  # reader short page
    Defect("protocol/delivery/dispatcher.py", "            for offset in handed_out if held.durable else ():", "            for offset in handed_out:", by=LIFETIMES),  # a transient end releases rights of others
    Defect("protocol/delivery/replay.py", "            if cursor.source.release(held, offset, now):\n                self._dispatcher.losses.count_gone", "            if offset:\n                self._dispatcher.losses.count_gone", by=LIFETIMES),  # rights to superseded events stay
    Defect("simulation/simulator.py", "            clock.not_before(item.state.latest, self.now)\n", "            pass\n", by=CLOCKS),  # clock floor gone
    Defect("runtime/client_ingress.py", "            event = self._guard.deliver(self._principal, entry.event)\n            if event is not None:\n                entries.append", "            event = entry.event\n            if event is not None:\n                entries.append", by=DOOR),  # log read unfiltered
    Defect("security/authorization.py", "            allowed = self.right(principal, Action.SUBSCRIBE).narrowed(filter)\n            if whole", "            allowed = filter\n            if whole", by=GUARD),  # filter not narrowed
    Defect("security/authorization.py", "        if right.allows(event):\n            return event if event.key", "        if True:\n            return event if event.key", by=WIDE),  # delivery not checked
    Defect("security/authorization.py", "        for rights in self._rights.values():\n            rights.clear()\n        self.version += 1", "        self.version += 1", by=WIDE),  # rights kept over a reload
    Defect("security/authorization.py", "            rights.clear()\n        self.version += 1", "            rights.clear()", by=WIDE),  # version stays
    Defect("security/authorization.py", "            self._check_name(principal, event.source, \"source\", self._users.speaker_of(event.source))\n", "", by=WIDE),  # any source
    Defect("protocol/client_publishing.py", "        most = self._limits.publishes_in_flight\n", "        most = 1 << 40\n", by=WIDE),  # publishes unbounded
    Defect("protocol/disk.py", "self._emit(Fetch(self._request, from_offset, min(limit, limits.page_count), limits.page_bytes))", "self._emit(Fetch(self._request, from_offset, limit, 1 << 40))", by=WIDE),  # page bytes of disk
    Defect("protocol/delivery/replay.py", "        elif held.stored.is_from_disk or (is_found and held.durable):", "        elif held.stored.is_from_disk:", by=GAPS),  # empty disk forgotten
    Defect("protocol/client.py", "        self._tokens.leave(listening)  # the next one of this name goes on from here\n", "", by=WIDE),  # token dropped
    Defect("protocol/recovery/group_retention.py", "        self._kept_from = [(now, first_offset)]  # how old they are is not known: none is too old\n", "        pass\n", by=KEEPING),  # young log taken for old
    Defect("protocol/delivery/flow.py", "        if failed is not None and (offset is None or offset >= self._ledger.end):", "        if False:", by=WIDE),  # failed disk answers by number
    Defect("protocol/delivery/log_copy.py", "        end = min(committed, self._ledger.end - 1)\n", "        end = committed\n", by=GROUP_LOG),  # copy of what is not on the disk
    Defect("protocol/disk.py", "        if self.failed is not None:\n            if otherwise is not None:\n                otherwise(self.failed, self._failed_at)\n            return\n        self._token += 1", "        self._token += 1", by=WIDE),  # persist on a failed disk
    Defect("protocol/delivery/dispatcher.py", "            if held.own.state is REPLAYING or (held.durable and held.is_full):\n                self._leave_in_log(held, position.offset, now)\n                return\n", "", by=WIDE),  # queue spill lost
    Defect("protocol/delivery/flow.py", "            partial(self._stalled_all, kept),\n", "            None,\n", by=FULL_DISK),  # full disk keeps in flight waiting
    Defect("protocol/delivery/flow.py", "        if needs_disk or event.source in self._last_of:\n", "        if False:\n", by=FULL_DISK),  # full disk takes publishes
    Defect("security/authorization.py", "        return f\"{tenant}{principal.name}{OWNER_MARK}\"", "        return tenant", by=(*OWNERS, *WIDE)),  # groups common
    Defect("protocol/delivery/exactly_once.py", "        is_new = not member.held.stored.is_kept  #", "        is_new = True  #", by=WIDE),  # ended with a refused listener
    Defect("protocol/delivery/replay.py", "        if is_found and held.durable and self._has_outlived(held, log):\n", "        if False:\n", by=WIDE),  # age of a subscription by clocks of two lives
    Defect("protocol/delivery/registry.py", "        if message.options.group is not None and held.durable:\n            return\n", "", by=("tests/unit/protocol/test_groups.py",)),  # one member's token for all
    Defect("protocol/resume_tokens.py", "self._committed.setdefault(group, CommittedPositions(self._most_positions))", "CommittedPositions(self._most_positions)", by=WIDE),  # commits of a member forgotten
    # -- promises of gateways, sessions, quotas and disks, each with the tests that have to notice
    Defect("gateway/origins.py", "        if not self._is_called(_name(host)):\n", "        if False:\n", by=ORIGINS),  # any Host
    Defect("gateway/origins.py", "        if origin is None or _matches(origin, self.origins) or _place(origin) == host.lower() != \"\":\n", "        if True:\n", by=ORIGINS),  # any Origin
    Defect("gateway/origins.py", "        return name == \"localhost\" or ip_address(name).is_loopback\n", "        return name == \"localhost\" or name.startswith(\"127.\")\n", by=ORIGINS),  # a name that begins like loopback
    Defect("gateway/origins.py", "        if scope[\"type\"] in (\"http\", \"websocket\"):\n", "        if scope[\"type\"] == \"http\":\n", by=ORIGINS),  # WebSocket from any page
    Defect("gateway/mqtt/exchanges.py", "            await self._keep(IN, packet_id, event)\n", "            self._note(IN, packet_id, event)\n", by=EXCHANGES),  # QoS 2 in: published before it is on the disk
    Defect("gateway/mqtt/exchanges.py", "        event = self._events.get(packet_id)\n        if event is None:", "        event = None\n        if event is None:", by=EXCHANGES),  # QoS 2 in: another identity when it comes again
    Defect("gateway/mqtt/exchanges.py", "            await self._keep(RELEASED, packet_id)\n", "            pass\n", by=EXCHANGES),  # QoS 2 in: a free packet id is taken for the old message
    Defect("gateway/mqtt/exchanges.py", "        return self._append(OUT, packet_id, name, position.log, position.offset)\n", "        return None\n", by=EXCHANGES),  # QoS 2 out: sent, and not in the journal
    Defect("gateway/mqtt/exchanges.py", "        self._handle(out)\n        return self._append(RECEIVED, packet_id)\n", "        self._handle(out)\n        return None\n", by=EXCHANGES),  # QoS 2 out: PUBREL leaves before PUBREC is on the disk
    Defect("gateway/mqtt/exchanges.py", "        return (name, position) in self._handled\n", "        return False\n", by=EXCHANGES),  # QoS 2 out: sent again though the client has it
    Defect("runtime/sessions.py", "                reason = \"\" if self._standing(session.principal) == session.standing else CHANGED\n", "                self._standing(session.principal)\n                reason = \"\"\n", by=ENDING),  # changed rights end no session
    Defect("runtime/sessions.py", "                reason = error.message\n", "                reason = \"\"\n", by=ENDING),  # a disabled user's sessions go on
    Defect("runtime/sessions.py", "            if until is not None and until <= now:\n                self._end(session, EXPIRED)", "            if False:\n                self._end(session, EXPIRED)", by=ENDING),  # an expired token's sessions go on
    Defect("runtime/sessions.py", "            if until <= self._clock.now():\n", "            if False:\n", by=ENDING),  # an expired proof opens a session
    Defect("runtime/sessions.py", "            log.exception(\"a session of", "            raise\n            log.exception(\"a session of", by=ENDING),  # one failing listener keeps the others open
    Defect("security/attempts.py", "                        raise TooManyAttempts(left)\n", "                        pass\n", by=GUESSING),  # no back-off
    Defect("security/attempts.py", "(bound is not PAIR and (name, net) in self._known)", "bound is NAME", by=GUESSING),  # a name is guessed from many addresses
    Defect("security/attempts.py", "            while len(self._failures) > MOST_ENTRIES:\n", "            while False:\n", by=GUESSING),  # table of failures unbounded
    Defect("security/attempts.py", "                    if bound is not ADDRESS:\n", "                    if True:\n", by=GUESSING),  # made-up names lock their address out
    Defect("security/authenticator.py", "        if not is_spared:\n", "        if False:\n", by=("tests/unit/security/test_attempts.py", "tests/gateway/test_guessing.py")),  # an address in its pause guesses on
    Defect("security/attempts.py", "        return str(ipaddress.ip_network((address, 64), strict=False))\n", "        return str(address)\n", by=GUESSING),  # each IPv6 address of one network has free tries
    Defect("runtime/admission.py", "        if self._open.get(address, 0) >= self.most_per_address:\n", "        if False:\n", by=SLOW),  # no cap per address
    Defect("runtime/admission.py", "        most = max(limit - settings.reserved_descriptors, limit // 2, 1)\n", "        most = limit\n", by=SLOW),  # no reserved descriptors
    Defect("runtime/admission.py", "        if own is not None and len(own) >= self.most_waiting_per_address:\n", "        if False:\n", by=SLOW),  # silent clients per address unbounded
    Defect("runtime/admission.py", "            return self._crowd_out(max(self._waiting.values(), key=len, default=None))\n", "            return False\n", by=SLOW),  # silent clients keep others out
    Defect("gateway/streams.py", "                notification, tag = await listener.take()\n        except TimeoutError:", "                notification, tag = await listener._take(), 0\n        except TimeoutError:", by=CONFIRMING),  # durable stream: committed when the next one is taken
    Defect("gateway/streams.py", "wanted.pop(\"ack\", \"manual\" if is_durable else \"auto\")", "wanted.pop(\"ack\", \"auto\")", by=CONFIRMING),  # durable socket: committed by being sent
    Defect("gateway/streams.py", "        for _ in range(count):\n", "        for _ in range(len(self.unacked)):\n", by=CONFIRMING),  # one ack commits all that was sent
    Defect("gateway/tokens.py", "        self._upto.pop(position.log, None)  # the log", "        self._upto.clear()  # the log", by=CONFIRMING),  # the id of an event confirms its own log alone
    Defect("gateway/bridges/mqtt.py", "        self._client._client.manual_ack_set(True)", "        self._client._client.manual_ack_set(False)", by=("tests/gateway/test_bridges.py",)),  # PUBACK before the event is kept here
    Defect("gateway/mqtt/session.py", "            if packet.dup and known is None:\n", "            if False:\n", by=UNDECIDED),  # a resend is refused for room though its first copy may be kept
    Defect("gateway/mqtt/session.py", "            self._undecided.note(self.key, packet, error.id)\n", "", by=UNDECIDED),  # a resend has another identity than its first copy
    Defect("availability/identity.py", "            return known  # an id of ours that its publisher gives again\n", "            pass\n", by=UNDECIDED),  # an event is new again when the log forgot it
    Defect("gateway/serving.py", "        self._timer = asyncio.get_running_loop().call_later(self.seconds, self._too_slow)\n", "        self._timer = None\n", by=SLOW),  # a slow head is waited for
    Defect("gateway/serving.py", "                visit.leave()\n                lost(exc)\n", "                lost(exc)\n", by=SLOW),  # a WebSocket's visit never ends
    Defect("gateway/mqtt/events.py", "    if not name or not _fits(name):\n", "    if False:\n", by=POISON),  # a topic that MQTT cannot carry ends the delivery
    Defect("gateway/mqtt/events.py", "    user = [(name, value) for name, value in user if _fits(name) and _fits(value)]\n", "", by=POISON),  # a long user property ends the delivery
    Defect("gateway/mqtt/session.py", "        return reasons + [Reason.QUOTA] * packet.beyond\n", "        return reasons\n", by=FLOODS),  # SUBACK shorter than its SUBSCRIBE
    Defect("gateway/mqtt/session.py", "        if max(len(self._received), self.exchanges.open) >= most:\n", "        if False:\n", by=FLOODS),  # open QoS 2 exchanges unbounded
    Defect("gateway/webhooks.py", "            if status == UNSENDABLE or (", "            if (", by=POISON),  # an unsendable request is tried for ever
    Defect("gateway/webhooks.py", "                    if size > self._answer_bytes:\n", "                    if False:\n", by=POISON),  # an endless answer is read
    Defect("gateway/serving.py", "                if not protocol.writable.is_set():", "                if False:", by=FLOODS),  # unread pongs fill the memory
    Defect("gateway/mqtt/websocket.py", "        if self.paused:  #", "        if False:  #", by=FLOODS),  # the same over MQTT's WebSocket
    Defect("gateway/serving.py", "            _UnambiguousRequest(self._app),\n", "            self._app,\n", by=POISON),  # two lengths in one request
    Defect("model/event.py", "        check_number(len(seen))\n", "", by=POISON),  # attributes are counted when all are built
    Defect("runtime/logs.py", "        return super().formatMessage(record).translate(_ESCAPED)\n", "        return super().formatMessage(record)\n", by=("tests/unit/runtime/test_logs.py",)),  # a client forges lines of the log
    Defect("protocol/client_bounds.py", "        if not self.low <= value <= self.most(limits) or isnan(value):\n", "        if isnan(value):\n", by=BOUNDS),  # numbers of clients unbounded
    Defect("protocol/client_bounds.py", "        if value is not None and len(value) > self.most(limits):\n            raise self._refuse(f\"has {len(value)} characters\", limits)\n", "        pass\n", by=BOUNDS),  # names of clients unbounded
    Defect("protocol/client_bounds.py", "            raise self._refuse(f\"has {len(value)} entries\", limits)\n        if type(self.item)", "            pass\n        if type(self.item)", by=BOUNDS),  # lists of clients unbounded
    Defect("protocol/client_bounds.py", "            if seen > limits.about:\n", "            if False:\n", by=BOUNDS),  # values of an inquiry unbounded
    Defect("security/quotas.py", "        self._check(\"stored_bytes\", self.kept + size)\n", "", by=("tests/unit/security/test_quotas.py", *BYTES)),  # stored bytes unbounded
    Defect("security/quotas.py", "        self.stored += size\n", "        self.stored += max(0, size)\n", by=("tests/unit/security", *BYTES)),  # forgotten bytes are not given back
    Defect("protocol/delivery/subscription_state.py", "        self.queued_bytes += size\n        self.memory.used += size\n", "        self.queued_bytes += size\n", by=WIDE),  # queued bytes in no quota
    Defect("protocol/delivery/dispatcher.py", "        held.memory.used += size\n", "        pass\n", by=WIDE),  # unacknowledged bytes in no quota
    Defect("protocol/delivery/retention_holds.py", "        if row.most_bytes and kept.bytes > row.most_bytes and name not in self._overfull:\n", "        if False:\n", by=("tests/unit/protocol/test_retention_holds.py", *BYTES)),  # a hold pins without bound
    Defect("protocol/delivery/retention_holds.py", "self._scopes[scope_of(message.name)] >= self._most:", "len(self._rows) >= self._most:", by=("tests/unit/protocol/test_retention_holds.py",)),  # holds are bounded for all principals together
    Defect("protocol/delivery/retention_holds.py", "        if self._last_match is None or self._last_match[0] is not event:\n", "        if True:\n", by=("tests/unit/protocol/test_retention_holds.py",)),  # holds are matched twice for each event
    Defect("protocol/delivery/staging.py", "        own = self._bytes[scope_of(query)]\n", "        own = self.staged_bytes\n", by=("tests/unit/protocol/test_staging.py",)),  # one principal uses up the staging of all
    Defect("protocol/delivery/staging.py", "        if self.staged_bytes + more > self._most_in_all:\n", "        if False:\n", by=("tests/unit/protocol/test_staging.py",)),  # staged bytes of all principals unbounded
    Defect("protocol/delivery/delivery_memory.py", "        records = [*self._drop(id), *self._make_room(row)]\n        if not self._ports.kept.records_fit(self._owner(id), _size(row)):\n", "        records = self._drop(id)\n        if False:\n", by=BYTES),  # records of ended subscriptions unbounded
    Defect("security/quotas.py", "            self._check(\"holds\", self.holds + _is_hold(durable))\n", "", by=BYTES),  # holds of one principal unbounded
    Defect("security/authorization.py", "            allowed = self.right(principal, Action.SUBSCRIBE).narrowed(filter)\n            account = self._accounts.of(principal.name, self._clock())\n            self._keep(account, (HOLDS", "            allowed = filter\n            account = self._accounts.of(principal.name, self._clock())\n            self._keep(account, (HOLDS", by=("tests/unit/security/test_authorization.py", "tests/unit/runtime/test_client_ingress.py", *BYTES)),  # a hold pins what its holder may not read
    Defect("language/work.py", "    return cost(work, event.view) > BUDGET\n", "    return False\n", by=WORK),  # no budget in the evaluator
    Defect("language/work.py", "    return lambda value: not (type(value) is str and weight * len(value) > BUDGET) and accepts(value)\n", "    return accepts\n", by=(*WORK, "tests/unit/matching")),  # no budget in the tables
    Defect("matching/columnar/programs.py", "    return lambda view: run(view) if cost(work, view) <= BUDGET else None\n", "    return run\n", by=(*WORK, "tests/unit/matching")),  # no budget in derived columns
    Defect("matching/engine.py", "        over = self._routed.may_accept(event)\n", "        over = ()\n", by=(*WORK, "tests/unit/matching")),  # over budget is no match in routing
    Defect("runtime/observing.py", "    if guard is None or guard.observes_all(principal):\n", "    if True:\n", by=OBSERVING),  # every observer sees all tenants
    Defect("security/authorization.py", "        return self.right(principal, Action.OBSERVE).allows(event)\n", "        return True\n", by=(*OBSERVING, "tests/unit/security")),  # events of others in a trace
    Defect("security/authorization.py", "        if not principal.tenant or self._tenant_of(id) != principal.tenant:\n            return False\n", "", by=(*OBSERVING, "tests/unit/security")),  # subscriptions of other tenants are shown
    Defect("protocol/recovery/far_ends.py", "        if event_size(envelope.event) <= most:\n            return False\n", "        return False\n", by=("tests/unit/runtime/test_sizes.py",)),  # an event that a neighbour does not take cuts its link for ever
    Defect("protocol/recovery/far_ends.py", "(self._frames.get(link) or limits.taken_bytes)", "limits.frame_bytes", by=WIDE),  # a broker with a smaller limit does not pass on what others accepted
    Defect("runtime/server.py", "self._codec.limited(self.resources.taken_bytes)", "self._codec", by=("tests/unit/runtime/test_sizes.py",)),  # a broker with a smaller limit ends its links
    Defect("runtime/server.py", "        connection.send_by(self._codec.limited(sendable(open.takes, own)))\n", "", by=("tests/unit/runtime/test_sizes.py",)),  # a lowered limit skips what was accepted
    Defect("protocol/delivery/oversized.py", "if letter.is_large]", "if False]", by=("tests/unit/runtime/test_sizes.py",)),  # a larger limit of a client comes too late
    Defect("protocol/recovery/acknowledged.py", "            self.elsewhere(upstream, now)\n", "            pass\n", by=CIRCLES),  # a log is waited for on a link that its far end undid
    Defect("protocol/recovery/acknowledged.py", "            return view.upstream == link\n        if broker_of(news.log) != link and", "        elif broker_of(news.log) != link and", by=CIRCLES),  # such a link stays a neighbour, for which events are kept
    Defect("protocol/recovery/rollback.py", "        if view.upstream is None and upto > view.known:\n", "        if False:\n", by=ROLLBACK),  # a restored disk gives offsets again
    Defect("protocol/recovery/rollback.py", "        return any(link not in trails or not trails[link].heard for", "        return False and any(link not in trails or not trails[link].heard for", by=ROLLBACK),  # it acknowledges before neighbours have spoken
    Defect("protocol/recovery/rollback.py", "        return max(view.known, behind, self._ports.log_readers.heard_of(view.name))\n", "        return max(view.known, behind)\n", by=ROLLBACK),  # a neighbour that restarted forgets how far its subscriptions are
    Defect("protocol/delivery/flow.py", "        if pending in self._again:\n            return  # under", "        if False:\n            return  # under", by=ROLLBACK),  # what waits for the disk keeps a repeated offset
    Defect("protocol/delivery/tokens_ahead.py", "            self._skip_to(upto)\n", "", by=ROLLBACK),  # clients pass over what a restored disk acknowledges
    Defect("protocol/delivery/tokens_ahead.py", "held.stored.is_from_disk and upto <= self._most", "upto <= self._most", by=ROLLBACK),  # a token moves the log though no disk was put back
    Defect("protocol/delivery/tokens_ahead.py", "self._most = self._ledger.end - 1 + self._ahead", "self._most = 1 << 62", by=ROLLBACK),  # a token moves the log without bound
    Defect("systems/system.py", "        return site.limits.datagram_event_bytes if by_datagram else site.limits.event_bytes\n", "        return site.limits.event_bytes\n", by=("tests/simulation/test_sizes.py",)),  # no datagram limit at publish
    Defect("availability/identity.py", "        return self._foreign.add(_key(*entry.identity), now)\n", "        return []\n", by=("tests/unit/availability/test_identity.py", "tests/unit/protocol/test_publishing.py")),  # no deduplication window after the log forgot
    Defect("protocol/recovery/recall.py", "        return self._is_new and bool(self._is_joining or self._asked or self._named)\n", "        return False\n", by=RECALL),  # an empty disk forgets neighbours
    Defect("protocol/recovery/recall.py", "bool(self._is_joining or self._asked or self._named)", "bool(self._asked or self._named)", by=RECALL),  # events before the first neighbour are not kept
    Defect("protocol/recovery/recall.py", "    def _review(self, now: float) -> None:\n        if self._is_new and not self.is_unsure:\n            self._is_new = False\n", "    def _review(self, now: float) -> None:\n        if self._is_new and not self._asked:\n            self._is_new = False\n", by=RECALL),  # the named ones are not waited for
    Defect("security/authorization.py", "        return f\"{tenant}{'' if principal.is_anonymous else principal.name}{OWNER_MARK}{key}\"", "        return tenant + key", by=OWNERS),  # keys common to all
    Defect("security/authorization.py", "            if event.topic != key.removeprefix(MQTT_RETAINED):\n", "            if False:\n", by=OWNERS),  # any retained message is wiped
    Defect("security/quotas.py", "self.stored + self.pending + self.letters", "self.stored + self.pending", by=BYTES),  # dead letters count nowhere
    Defect("protocol/delivery/bounds.py", "        if held.owner:\n            self._keep_quota(held, now)\n", "", by=BYTES),  # a backlog counts in no quota
    Defect("protocol/delivery/log_index.py", "            for owner in self._owners.pop(offset):\n                self._count_backlog(owner, offset, -1)\n", "            pass\n", by=BYTES),  # superseded events stay in the backlog
    Defect("protocol/delivery/log_index.py", "            self.on_pinned()\n", "", by=BYTES),  # a backlog of an earlier life counts in no quota
    Defect("runtime/connection.py", "        if self._encoded >= self.limits.encoded_bytes and type(message) in (Deliver, DeliverAll):\n", "        if False:\n", by=("tests/unit/runtime/test_write_buffer.py",)),  # a frame for each subscription of a client
    Defect("gateway/streams.py", "        async with self._sending:\n", "        if True:\n", by=("tests/gateway/test_floods.py",)),  # the same on a WebSocket
    Defect("gateway/bodies.py", "    if is_crowded(body, ATTRIBUTE_TOKENS):\n", "    if False:\n", by=("tests/gateway/test_sizes.py",)),  # all attributes are decoded before they are counted
    Defect("protocol/delivery/dead_letters.py", "        while (own := self._by_owner.get(box.owner)) and not self._ports.kept.letters_fit(box.owner, size):", "        while False:", by=BYTES),  # old letters keep new ones out
    Defect("model/event.py", "    return (f\"{tenant}{TENANT_MARK}{source}\" if tenant and type(tenant) is str else source, id)", "    return (source, id)", by=("tests/unit/availability/test_identity.py", *OWNERS)),  # tenants share identities
    Defect("availability/window.py", "        return self._owned[owner] >= self._most // (others + 1)", "        return True", by=("tests/unit/availability/test_identity.py", *OWNERS)),  # one fills the table for all
    Defect("security/authorization.py", "    return max(1, len(constraint.values)) if isinstance(constraint, OneOf | NotOneOf) else 1", "    return 1", by=("tests/unit/security/test_authorization.py",)),  # a list of values is one constraint
    Defect("security/authenticator.py", "users.decoy or pepper", "pepper", by=("tests/unit/security/test_authorization.py",)),  # ghosts have other salts elsewhere
    Defect("console/sessions.py", "        if owned[owner] >= MOST_OF_ONE:\n", "        if False:\n", by=("tests/unit/console/test_app.py",)),  # sessions of one principal push out others'
    Defect("security/users.py", "        if user.disabled:\n", "        if False:\n", by=WIDE),  # a disabled user is let in
    Defect("protocol/delivery/cursor.py", "            self.rights = [right for right in self.rights if right.stop > self.low_water]\n", "            self.rights = ()\n", by=("tests/unit/protocol/test_cursor.py", "tests/simulation/test_tidings_scenes.py")),  # owed under an earlier filter, forgotten when live
    Defect("protocol/delivery/replay.py", "            start = end if held.durable else None\n", "            start = None\n", by=("tests/simulation/test_wide_findings.py",)),  # first page judged by age
    Defect("runtime/server.py", "            self._intake.hold(connection)\n", "            pass\n", by=("tests/unit/runtime/test_intake.py",)),  # an overloaded broker reads publishers as before
    Defect("runtime/driver.py", "                                if type(last[1]) is Received:\n", "                                if type(last[1]) is Received or run[2:]:\n", by=("tests/unit/runtime/test_turns.py",)),  # messages in a row are copied for each of them
    Defect("runtime/intake.py", "        if inputs != self._inputs and self._turns < ", "        if self._turns < ", by=("tests/unit/runtime/test_intake.py",)),  # publishers wait though all is quiet
    Defect("protocol/delivery/dispatcher.py", "        end = begin + room if room < count - begin else count\n", "        end = count\n", by=("tests/unit/runtime/test_intake.py",)),  # a batch fills a queue beyond its bound
    Defect("runtime/connection.py", "            self._reader.clear()\n", "", by=UNFINISHED),  # a closed connection keeps half a frame
    Defect("runtime/unfinished.py", "        elif self.bytes > self._most and connection is not self._turn:\n", "        elif False:\n", by=UNFINISHED),  # half frames without a bound
    Defect("language/parser.py", "        check_patterns(sum(self.patterns.values()), self.limits)\n", "", by=PARSING),  # expressions are compiled without a budget
    Defect("language/normalise.py", "        check_steps(self.steps, self.limits)\n", "", by=PARSING),  # a normal form of any size
    Defect("language/functions.py", "        if known[0] is not text:\n", "        if True:\n", by=("tests/unit/language/test_functions.py",)),  # a text is folded again for each filter
    Defect("runtime/client_ingress.py", "guard is not None and guard.hears_nothing(self._principal)", "False", by=("tests/unit/runtime/test_client_ingress.py",)),  # filters are parsed before rights are asked
    Defect("runtime/fairness.py", "            share.is_held = True\n", "            share.is_held = False\n", by=FAIRNESS),  # an owner takes the loop for as long as it likes
    Defect("runtime/fairness.py", "            waiting.append(perform)\n", "            perform()\n", by=FAIRNESS),  # scans of the log at once
    Defect("runtime/connection.py", "        self._handle(data, self._slice)\n", "        self._handle(data)\n", by=FAIRNESS),  # a flood is handled in one go
    Defect("gateway/mqtt/session.py", "        return self.durable and old is not None and", "        return False and old is not None and", by=("tests/gateway/test_mqtt.py",)),  # SUBSCRIBE again drops what waits
    Defect("protocol/publishing.py", "        if reason is None or self.broker is None:\n", "        if True:\n", by=("tests/unit/protocol/test_door.py", *WIDE)),  # refused as too large after another member accepted it
    Defect("security/users.py", "    _check_shared_names(users, where)\n", "", by=("tests/unit/security/test_users.py",)),  # one name in two tenants
    Defect("runtime/listener.py", "        self._count_losses()\n        return self\n", "        return self\n", by=("tests/unit/runtime/test_losses.py",)),  # losses told with the answer are dropped
    Defect("protocol/recovery/recall.py", "            | {log: None for log, way in self._behind.values() if way == link}\n", "", by=RESTARTS),  # a neighbour that restarted names nothing behind the asker
    Defect("protocol/delivery/replay.py", "            if cursor.source.release(held, offset, now):\n                self._dispatcher.losses.count_gone(held, now)\n", "            cursor.source.release(held, offset, now)\n", by=LIFETIMES),  # lost, and not counted
    Defect("protocol/delivery/grouped.py", "        if not is_opening:\n", "        if not member.is_open:\n", by=("tests/simulation/test_wide_findings.py",)),  # opened twice after a full disk
    Defect("security/authorization.py", "\"source\", self._users.speaker_of(event.source))\n", "\"source\", self._users.named_in(event.source))\n", by=("tests/unit/security/test_scopes.py",)),  # sources of tokens' principals are anybody's
    Defect("gateway/mqtt/shares.py", "await self._opened(session, filter, durable=session.durable)", "await self._opened(session, filter, durable=False)", by=SHARED),  # a kept session's share is not durable
    Defect("gateway/mqtt/shares.py", "        if any(member.exchanges.is_handled(self.name, position) for member in self.kept.values()):\n", "        if False:\n", by=SHARED),  # QoS 2 in a share: sent to another member though one has it
    Defect("gateway/mqtt/shares.py", "        if position not in self._sent:\n", "        if True:\n", by=SHARED),  # QoS 2 in a share: sent to another member while it is in flight to one
    Defect("gateway/mqtt/shares.py", "        if self.members or self.kept or not self.is_durable:\n", "        if not self.is_durable:\n", by=SHARED),  # the first session that leaves ends the share of all
    Defect("gateway/mqtt/shares.py", "            if share.is_durable and not share.kept and share.last is not None\n", "            if False\n", by=SHARED),  # a share without a kept session outlives a kill
    Defect("protocol/delivery/registry.py", "            self._ledger.owe(offset, held.owner)\n        return None\n", "            pass\n        return None\n", by=("tests/unit/protocol/test_groups.py",)),  # what waited for a group that becomes durable is forgotten
    Defect("protocol/delivery/registry.py", "(held.durable and not (end and member.ends))", "(held.durable and not end)", by=("tests/unit/protocol/test_groups.py",)),  # a transient member ends a durable group
    Defect("protocol/delivery/sources.py", "        event = self._events.setdefault(offset, record.event)  #", "        event = record.event  #", by=("tests/chaos/test_mqtt_memory.py",)),  # a copy of an event for each subscription that reads it
    Defect("gateway/mqtt/pushes.py", "        if self._flowing and outlet.is_full():\n", "        if False:\n", by=("tests/chaos/test_mqtt_memory.py",)),  # QoS 0 is written whether the client reads or not
    Defect("gateway/mqtt/reading.py", "            if user != ANY and value[0] != user:\n", "            if False:\n", by=FLOODS),  # user properties that mean nothing are kept
)  # fmt: skip
