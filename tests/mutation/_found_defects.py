"""Defects of ours that were found from outside or by the wide world: sizes, limits, clocks, disks, rights."""

from __future__ import annotations

from tests.mutation._suites import (
    AS_IT_LEFT,
    BACKUPS,
    BATCHES,
    BOUNDS,
    CLOCKS,
    COMMITTING,
    DOOR,
    FAILING,
    FULL_DISK,
    FULL_GROUP,
    GAPS,
    GROUP_LOG,
    GUARD,
    INBOXES,
    KEEPING,
    LATE_COMMITS,
    LIFETIMES,
    OLD_DISK,
    OWNER_WORK,
    OWNERS,
    RUNS,
    SCHEMAS,
    SUPERSEDED,
    WIDE,
    Defect,
)

FOUND = (
    # -- found by a user with nothing but wheels and docs
    # a rejected event is committed before the broker has its letter
    Defect("protocol/client_subscription.py", "            self.given_back |= {each.deliver.position for",
        "            self.given_back |= set() and {each.deliver.position for", by=COMMITTING),
    # a dead letter holds the token for ever
    Defect("protocol/client_returns.py", "    subscription.bury()\n", "", by=COMMITTING),
    # the broker says that it has a letter which its disk does not have
    Defect("protocol/delivery/dispatcher.py", "            state.stored.has_new_letter = True\n",
        "            pass\n", by=COMMITTING),
    # another client of the name replaces the filter of one that listens
    Defect("protocol/delivery/registry.py", "        if others and not is_same and not",
        "        if False and not",
        by=("tests/unit/protocol/test_subscribing.py",)),
    # -- found by a red team with nothing but wheels and docs
    # of two copies that wait for the application both are handed over
    Defect("protocol/client.py", "self._known_again.may_hold_copies and self._known_again.is_copy(",
        "False and self._known_again.is_copy(", by=("tests/simulation/test_tidings_copies.py",)),
    # a forked child publishes under the numbers of its parent
    Defect("runtime/forks.py", "        made.forked()\n", "        pass\n",
        by=("tests/unit/runtime/test_forks.py",)),
    # rows of jobs whose names begin alike have the same ids
    Defect("pipeline/broker/sink.py", "    return blake2b(query.encode(), digest_size=8).hexdigest()\n",
        "    return query[-36:][:8]\n", by=("tests/meeting/test_sink.py",)),
    # a batch of an old copy of a checkpoint counts as published
    Defect("pipeline/broker/sink.py", "        if last > batchId:\n", "        if False:\n",
        by=("tests/meeting/test_sink.py",)),
    # the fraction of a number is cut off
    Defect("pipeline/broker/columns.py", "(pa.types.is_integer(kind) and kinds - {int})", "False",
        by=("tests/meeting/test_source.py",)),
    # a log that two addresses lead to is read twice
    Defect("pipeline/broker/source.py", "_once({where: state_of(where) for where in reading.brokers})",
        "{where: state_of(where) for where in reading.brokers}", by=("tests/meeting/test_source.py",)),
    # what a killed restore left keeps the next one out of a disk of its own, or lies there for ever
    Defect("store/backup.py", "and not each.name.startswith(drafts)", "and True", by=BACKUPS),
    Defect("store/backup.py", "                        shutil.rmtree(left)\n",
        "                        pass\n", by=BACKUPS),
    # -- filters and schemas of a hostile account
    # a text whose exponent no decimal has
    Defect("language/functions.py", "        except InvalidOperation:  # an exponent past 18 digits, which",
        "        except ZeroDivisionError:  # an exponent past 18 digits, which",
        by=("tests/unit/language/test_functions.py",)),
    # the remainder of an integer beyond every double
    Defect("language/functions.py", "    except OverflowError:  # an integer beyond every double\n        "
        "return Failure(\"math\", 0)\n", "    except ZeroDivisionError:\n        raise\n",
        by=("tests/unit/language/test_functions.py",)),
    # a filter that fails fails the match of all
    Defect("matching/small.py", "                except Exception as error:\n",
        "                except ZeroDivisionError as error:\n", by=FAILING),
    Defect("matching/columnar/programs.py", "        except Exception as error:\n",
        "        except ZeroDivisionError as error:\n", by=FAILING),
    # its owner is not told
    Defect("protocol/delivery/loss_report.py",
        "                state.count_lost(FAILED)\n", "                pass\n", by=FAILING),
    # a publish that failed counts as published
    Defect("protocol/delivery/flow.py",
        "self.identities.give_back(event.source, pending.incarnation, pending.sequence)", "pass",
        by=FAILING),
    # the filters of one owner have no budget together
    Defect("protocol/interest.py", "sorted({*match_without(matcher, event, without), *light})\n",
        "matcher.match(event)\n", by=OWNER_WORK),
    # a filter that other parts exclude costs its owner
    Defect("language/owner_work.py", "            if price and plain_parts_hold(filter, event):\n",
        "            if price:\n", by=OWNER_WORK),
    # filters beyond the budget are not reported
    Defect("protocol/interest.py", "            over |= beyond.difference(self._lightly(event, beyond))\n",
        "            pass\n", by=OWNER_WORK),
    # over budget, a true part without a weight is forgotten: in one index, in tables
    Defect("matching/small.py", "weighted = filter if has_work(part) else None",
        "weighted = filter", by=("tests/properties/test_work_budget.py",)),
    Defect("matching/columnar/rows.py", "        if has_work(conjunction):\n", "        if work:\n",
        by=("tests/properties/test_work_budget.py",)),
    # compiled tables do not see lists
    Defect("matching/columnar/programs.py", "return A_LIST if any(", "return -1 if any(",
        by=("tests/properties/test_work_budget.py",)),
    # a text outside a list counts once, not for each element
    Defect("language/work.py", "            size *= elements\n", "            pass\n",
        by=("tests/properties/test_work_budget.py",)),
    # members with a dot in their name are dropped
    Defect("gateway/mqtt/events.py", "        if path in seen:\n",
        "        if \".\" in name:\n", by=("tests/gateway/test_mqtt_standard.py",)),
    # elements are made for each filter
    Defect("language/lists.py", "        found = known[1][key] = list(elements_of(view, *key))\n",
        "        found = list(elements_of(view, *key))\n", by=OWNER_WORK),
    # alternatives are tried again and again
    Defect("model/schema_checking.py", "        known = self._known.get(key)\n", "        known = None\n",
        by=SCHEMAS),
    # a pattern of another engine
    Defect("model/schema_keywords.py", "            check_regexp(pattern)\n", "            pass\n",
        by=SCHEMAS),
    # the schema before rights
    Defect("runtime/client_ingress.py",
        "        event = check_event(publish.event)\n",
        "        self._check_schemas(publish.call, (publish.event,))\n        event = "
        "check_event(publish.event)\n", by=DOOR[:1]),
    # a known topic's schema is not looked at
    Defect("runtime/client_ingress.py", "        if SCHEMAS.active:\n            free = None",
        "        if False:\n            free = None", by=DOOR[:1]),
    # -- found from outside, or by the wide world, and put back: sizes, limits, clocks, disks, rights
    # lacks counted
    Defect("protocol/recovery/group_log.py",
        "        if not message.lacks:  # else it says what it holds, which is not what is on its "
        "disk\n", "        if True:\n", by=WIDE),
    # copy short page
    Defect("protocol/delivery/log_copy.py",
        "page, upto, more = PageBuilder[PlacedEvent](self._ports.limits), read_upto(found, end), \"\"",
        "page, upto, more = PageBuilder[PlacedEvent](self._ports.limits), (found[-1].offset if "
        "len(found) >= self._ports.limits.page_count else end), \"\"", by=WIDE),
    # copy skips the one that did not fit
    Defect("protocol/delivery/log_copy.py",
        "                    upto = append.offset - 1\n                    break",
        "                    upto = append.offset\n                    break", by=WIDE),
    # no majority
    Defect("protocol/recovery/group_acks.py", "        needed = len(voters) // 2\n", "        needed = 0\n",
        by=WIDE),
    # tail taken for stored
    Defect("protocol/recovery/group_log.py", "        self._stored = self.committed\n        epoch, last",
        "        self._stored = self._last\n        epoch, last", by=WIDE),
    # worst log
    Defect("protocol/recovery/group_log.py", "best, state = max(sorted(", "best, state = min(sorted(",
        by=WIDE),
    # placed twice
    Defect("protocol/recovery/group_log.py",
        "            if proposal in self._placed or self._knows(proposal) is not False:\n",
        "            if self._knows(proposal) is not False:\n", by=WIDE),
    # knows not asked
    Defect("protocol/recovery/group_log.py",
        "            if proposal in self._placed or self._knows(proposal) is not False:\n",
        "            if proposal in self._placed:\n", by=WIDE),
    # hole in replicate
    Defect("protocol/recovery/group_log.py", "        if message.after > self._last:\n",
        "        if False:\n", by=WIDE),
    # copy goes on in the next view
    Defect("protocol/recovery/group_log.py", "        self._copying.stop()\n        self._wanted = None\n",
        "        self._wanted = None\n", by=GROUP_LOG),
    # a member gives a copy after its restart
    Defect("protocol/recovery/group_log.py", "        if message.epoch != self.epoch:  # type",
        "        if message.epoch != self.epoch and type(message) is not LogCopyRequest:  # type",
        by=GROUP_LOG),
    # propose with a hole
    Defect("protocol/recovery/group_log.py", "        if message.first > due:\n", "        if False:\n",
        by=GROUP_LOG),
    # lost answer
    Defect("protocol/recovery/group_log.py",
        "        if (settled := self._settled(message.proposals)) is not None:\n            "
        "self.ports.send(sender",
        "        if (settled := self._settled(new)) is not None:\n            self.ports.send(sender",
        by=WIDE),
    # overtaken by an event in no log
    Defect("protocol/delivery/publisher_migration.py",
        "        return {position.log, source} if position.log == self._index.log else "
        "{position.log}\n", "        return {position.log}\n",
        by=("tests/simulation/test_tidings_order.py",)),
    # cursor of a lost log
    Defect("protocol/delivery/replay.py",
        "        if source.is_gone(cursor.log):\n            self.drop(state, cursor.log, "
        "broker_of(cursor.log) != self._ports.name)\n            return\n", "",
        by=("tests/simulation/test_tidings_moving.py",)),
    # replicate unbounded
    Defect("protocol/recovery/group_log.py",
        "            if page.is_full or not page.add(placed):\n                break\n        return "
        "page", "            page.items.append(placed)\n        return page", by=WIDE),
    # proposals of ours unbounded
    Defect("protocol/recovery/group_proposals.py",
        "                if page.is_full or not page.add(line[number]):\n                    break\n",
        "                page.items.append(line[number])\n", by=WIDE),
    # committed before its rows
    Defect("protocol/recovery/group_log.py", "            self._commit(min(upto, self._last), now)",
        "            self._commit(self._last, now)", by=WIDE),
    # caught up too early
    Defect("protocol/recovery/group_log.py", "        return self._is_active and self._is_kept and is_here\n",
        "        return self._is_active and self._is_kept\n", by=GROUP_LOG),
    # caught up before the disk says so
    Defect("protocol/recovery/group_log.py", "        return self._is_active and self._is_kept and is_here\n",
        "        return self._is_active and is_here\n", by=GROUP_LOG),
    # a coordinator in two lives
    Defect("protocol/recovery/group_log.py", "        number = change.number if change.is_member else 0\n",
        "        number = change.number\n", by=GROUP_LOG),
    # an empty disk counted
    Defect("protocol/recovery/group_log.py", "(2 * len(shown) > count and 2 * written >= count)",
        "2 * len(shown) > count", by=GROUP_LOG),
    # waits for a number that never comes
    Defect("protocol/recovery/group_log.py",
        "        due = max(self._next_of.get(sender, 1), message.done + 1)\n",
        "        due = self._next_of.get(sender, 1)\n", by=GROUP_LOG),
    # late proposal out of order
    Defect("protocol/recovery/group_log.py",
        "            if proposal.sequence < self._placed.last_number(proposal):\n", "            if False:\n",
        by=GROUP_LOG),
    # refused while others commit it
    Defect("protocol/delivery/grouped.py",
        "            if under_way is not None or self._index.offset_of(identity) is not None:\n",
        "            if False:\n", by=("tests/simulation/test_group.py",)),
    # a link that is never used again
    Defect("protocol/client_failover.py",
        "            if (\n                input.peer != self.broker or self._link is "
        "BrokerLinkState.DOWN\n            ):  # a link that stays up never comes up\n",
        "            if input.peer != self.broker:  # a link that stays up never comes up\n",
        by=("tests/unit/protocol/test_client_failover.py",)),
    # the same member again, after its restart
    Defect("protocol/publishing.py", "None if is_group else broker)", "broker)",
        by=("tests/unit/protocol/test_publishing.py",)),
    # the older copy starts as the life that the view names
    Defect("protocol/membership/views.py", "int(number) <= int(known_number)",
        "int(number) < int(known_number)", by=OLD_DISK),
    # the log of an older copy proves something
    Defect("protocol/recovery/group_log.py", "        if change.went_back:\n", "        if False:\n",
        by=OLD_DISK),
    # a snapshot of a running member counts
    Defect("protocol/recovery/group_log.py", "            if message.stored > self._last:\n",
        "            if False:\n", by=OLD_DISK),
    # an entry that was dropped rightly
    Defect("protocol/recovery/group_acks.py",
        "            if disk and min(upto, committed) > self._proved.get((name, disk), 0):\n           "
        "     self._proved[name, disk] = min(upto, committed)\n",
        "            self._proved[name, disk] = upto\n", by=OLD_DISK),
    # the store of another member
    Defect("runtime/broker.py", "    return member_of(state.tables)\n", "    return \"\"\n",
        by=("tests/unit/runtime/test_group.py",)),
    # publishers wait for room at a majority
    Defect("protocol/recovery/group_capacity.py", "        if full and 2 * len(able) <= len(voters):\n",
        "        if False:\n", by=FULL_GROUP),
    # those under way wait for room
    Defect("protocol/recovery/group_proposals.py", "            self._settle(identity, full=reason)\n",
        "            pass\n", by=FULL_GROUP),
    # a member with a full disk says nothing
    Defect("protocol/recovery/group_log.py", "None, lambda reason: self._no_room())", "None, None)",
        by=FULL_GROUP),
    # replay short page
    Defect("protocol/delivery/scanning.py", "        elif read_upto(records, upto) >= upto:",
        "        elif len(records) < self._ports.limits.page_count:", by=WIDE),
    # replay skips one
    Defect("protocol/delivery/scanning.py",
        "            if item is not None and not page.add(item):\n                break\n            "
        "read = record.offset\n",
        "            read = record.offset\n            if item is not None and not page.add(item):\n   "
        "             break\n", by=WIDE),
    # replay always last
    Defect("protocol/delivery/scanning.py", "walk.then(found, read, read >= upto, now)",
        "walk.then(found, read, True, now)", by=WIDE),
    # a full page says that it goes to the end
    Defect("protocol/delivery/scanning.py", "            walk.then(found, read, read >= upto, now)\n",
        "            walk.then(found, upto, read >= upto, now)\n", by=GAPS),
    # batch bytes ignored
    Defect("protocol/batches.py",
        "is_over = stored + size > limits.batch_bytes or position - begin >= limits.batch_count",
        "is_over = position - begin >= limits.batch_count", by=BATCHES),
    # page bytes ignored
    Defect("protocol/batches.py",
        "        if self.items and (self.is_full or self.size + size > self._bytes):",
        "        if self.items and self.is_full:", by=WIDE),
    # cut measures nothing
    Defect("protocol/batches.py", "        if total <= limits.batch_bytes or len(items) <= 1:",
        "        if True:", by=BATCHES),
    # no publish limit
    Defect("protocol/batches.py", "    if size <= most:\n        return None\n",
        "    if True:\n        return None\n", by=WIDE),
    # short read is the end
    Defect("protocol/batches.py", "    return min(records[-1].offset, end) if records else end",
        "    return end", by=WIDE),
    # empty read is no end
    Defect("protocol/batches.py", "    return min(records[-1].offset, end) if records else end",
        "    return min(records[-1].offset, end) if records else 0", by=WIDE),
    # log names in order
    Defect("protocol/recovery/acknowledged.py",
        "        for other in others:\n            self._inquire(other, link, now)\n        if "
        "others:\n            return None  # told again, and taken as soon as the other one is known "
        "to be gone\n",
        "        if any(other > news.log for other in others):\n            return None\n        for "
        "other in others:\n            self.forget(other, now)\n", by=WIDE),
    # nothing pinned
    Defect("protocol/recovery/acknowledged.py",
        "        return any(link not in progress_of or progress_of[link].wants(offset) "
        "for link in self.peers())",
        "        return False", by=WIDE),
    # acked without durables
    Defect("protocol/recovery/progress_reports.py",
        "known if needs.settled is None else min(known, needs.settled)\n", "known\n", by=WIDE),
    # unheard neighbours ignored
    Defect("protocol/recovery/progress_reports.py",
        "                acked, superseded = 0, True\n", "                superseded = True\n", by=WIDE),
    # last event unnoticed
    Defect("protocol/recovery/acknowledged.py",
        "        view.last = max(view.last, news.last)\n        if view.known", "        if view.known",
        by=GAPS),
    # acks of links ignored
    Defect("protocol/recovery/progress_reports.py",
        "            if behind.acked < behind.due:\n                acked = min(acked, behind.acked)\n",
        "",
        by=WIDE),
    # reader short page
    Defect("protocol/delivery/sources.py", "        read = end if read_upto(records, end) >= end else",
        "        read = end if len(records) < 256 else", by=WIDE),
    # a transient end releases rights of others
    Defect("protocol/delivery/dispatcher.py",
        "            for offset in handed_out if state.durable else ():",
        "            for offset in handed_out:", by=LIFETIMES),
    # rights to superseded events stay
    Defect("protocol/delivery/replay.py",
        "            if cursor.source.release(state, offset, now):\n                "
        "self._dispatcher.losses.count_gone",
        "            if offset:\n                self._dispatcher.losses.count_gone", by=LIFETIMES),
    # clock floor gone
    Defect("simulation/simulator.py", "            clock.not_before(item.state.latest, self.now)\n",
        "            pass\n", by=CLOCKS),
    # log read unfiltered
    Defect("runtime/client_ingress.py",
        "            event = self._guard.deliver(self._principal, entry.event)\n            if event "
        "is not None:\n                entries.append",
        "            event = entry.event\n            if event is not None:\n                "
        "entries.append", by=DOOR),
    # filter not narrowed
    Defect("security/authorization.py",
        "            allowed = self.right(principal, Action.SUBSCRIBE).narrowed(filter)\n            "
        "if whole", "            allowed = filter\n            if whole", by=GUARD),
    # delivery not checked
    Defect("security/authorization.py",
        "        if right.allows(event):\n            return event if event.key",
        "        if True:\n            return event if event.key", by=WIDE),
    # rights kept over a reload
    Defect("security/authorization.py",
        "        for rights in self._rights.values():\n            rights.clear()\n        "
        "self.version += 1", "        self.version += 1", by=WIDE),
    # version stays
    Defect("security/authorization.py", "            rights.clear()\n        self.version += 1",
        "            rights.clear()", by=WIDE),
    # any source
    Defect("security/authorization.py", "            self._check_name(principal, event.source, \"source\", "
        "self._users.speaker_of(event.source))\n", "", by=WIDE),
    # publishes unbounded
    Defect("protocol/client_publishing.py", "        most = self._limits.publishes_in_flight\n",
        "        most = 1 << 40\n", by=WIDE),
    # page bytes of disk
    Defect("protocol/disk.py", "self._emit(Fetch(self._request, from_offset, min(limit, limits.page_count), "
        "limits.page_bytes))", "self._emit(Fetch(self._request, from_offset, limit, 1 << 40))", by=WIDE),
    # empty disk forgotten
    Defect("protocol/delivery/replay.py",
        "        elif state.stored.is_from_disk or (is_found and state.durable):",
        "        elif state.stored.is_from_disk:", by=GAPS),
    # token dropped
    Defect("protocol/client.py",
        "        self._tokens.leave(subscription)  # the next one of this name goes on from here\n", "",
        by=WIDE),
    # young log taken for old
    Defect("protocol/recovery/group_retention.py",
        "        self._kept_from = [(now, first_offset)]  # how old they are is not known: none is too "
        "old\n", "        pass\n", by=KEEPING),
    # failed disk answers by number
    Defect("protocol/delivery/flow.py",
        "        if failed is not None and (offset is None or offset >= self._index.end):",
        "        if False:", by=WIDE),
    # copy of what is not on the disk
    Defect("protocol/delivery/log_copy.py", "        end = min(committed, self._index.end - 1)\n",
        "        end = committed\n", by=GROUP_LOG),
    # persist on a failed disk
    Defect("protocol/disk.py",
        "        if self.failed is not None:\n            if otherwise is not None:\n                "
        "otherwise(self.failed, self._failed_at)\n            return\n        self._token += 1",
        "        self._token += 1", by=WIDE),
    # queue spill lost
    Defect("protocol/delivery/dispatcher.py",
        "            if state.own.state is REPLAYING or (state.durable and state.is_full):\n              "
        "  self._leave_in_log(state, position.offset, now)\n                return\n", "", by=WIDE),
    # full disk keeps in flight waiting
    Defect("protocol/delivery/flow.py", "kept_all, not_kept, partial(self.stalled, kept))",
        "kept_all, not_kept, None)", by=FULL_DISK),
    # full disk takes publishes
    Defect("protocol/delivery/flow.py", "        if needs_disk or event.source in self._last_of:\n",
        "        if False:\n", by=FULL_DISK),
    # groups common
    Defect("security/authorization.py", "        return f\"{tenant}{principal.name}{OWNER_MARK}\"",
        "        return tenant", by=(*OWNERS, *WIDE)),
    # ended with a refused listener
    Defect("protocol/delivery/exactly_once.py", "        is_new = not member.subscription.stored.is_kept  #",
        "        is_new = True  #", by=WIDE),
    # age of a subscription by clocks of two lives
    Defect("protocol/delivery/replay.py",
        "        if is_found and state.durable and self._has_outlived(state, log):\n", "        if False:\n",
        by=WIDE),
    # one member's token for all
    Defect("protocol/delivery/registry.py",
        "        if message.options.group is not None and state.durable:\n            return\n", "",
        by=("tests/unit/protocol/test_groups.py",)),
    # commits of a member forgotten
    Defect("protocol/resume_tokens.py",
        "subscription.committed = groups.setdefault(group, positions)",
        "subscription.committed = positions", by=WIDE),
    # -- operations, found by an attacker of issue 31
    # a backup builds on a damaged file of an earlier one
    Defect("store/backup.py", "if sum_known is None or not self._is_sound(sum_known):",
        "if sum_known is None or not self._file(sum_known).exists():", by=BACKUPS),
    # the sums of the latest backup alone
    Defect("store/backup.py", "        self._check(self.backups() if number is None else [backup])\n",
        "        self._check([backup])\n", by=BACKUPS),
    # two brokers in one directory
    Defect("store/backup.py", "            self._check_owner(before, broker)\n", "", by=BACKUPS),
    # a record without its sum
    Defect("store/backup.py", "or backup.sum not in (\"\", backup.signed.sum):", "or False:", by=BACKUPS),
    # a store before its gap
    Defect("store/backup.py",
        "                if finish is not None:\n                    finish(new, backup)\n", "", by=BACKUPS),
    # stores of a unit that were restored one by one
    Defect("runtime/processes.py", "    before = processes_of(folder) or _restored(folder)\n",
        "    before = processes_of(folder)\n", by=BACKUPS),
    # two that edit a users file
    Defect("security/users_file.py", "            fcntl.flock(directory, fcntl.LOCK_EX)\n", "",
        by=("tests/unit/security/test_users_file.py",)),
    # -- promises of security and reliability, found by attackers
    # large headers remembered
    Defect("model/decoding.py", "known(data) if len(data) <= LONGEST_REMEMBERED else decode(data)",
        "known(data)", by=("tests/unit/model/test_decoding.py",)),
    # headers without a bound
    Defect("protocol/client_bounds.py", "        \"headers\": HeadersBound(\"headers\"),\n",
        "        \"headers\": CheckedBound(\"frame_bytes\"),\n", by=BOUNDS),
    # headers without a bound where publishes are looked at quickly
    Defect("runtime/client_ingress.py", "(not headers or (event.size <= most_bytes and len(headers) <= ",
        "(True or (event.size <= most_bytes and len(headers) <= ", by=INBOXES),
    # replies for every requester
    Defect("security/authorization.py", "topic is not None and in_inbox(topic) and not self._receives_reply(",
        "topic is None and not self._receives_reply(", by=INBOXES),
    # one principal's inbox begins as another's
    Defect("security/authorization.py", "topic.startswith(inbox_of(principal) + \"/\")",
        "topic.startswith(inbox_of(principal))", by=INBOXES),
    # names of inboxes as they are
    Defect("security/inboxes.py", "    return BELOW + tenant + quote(principal.name, _SAFE)",
        "    return BELOW + tenant + principal.name", by=INBOXES),
    # replies unseen by who may receive everything
    Defect("runtime/client_ingress.py",
        "                    and (event.topic is None or event.topic[:LENGTH] != BELOW)\n", "", by=INBOXES),
    # addresses of replies unseen
    Defect("security/authorization.py", "                self._check_reply_address(principal, event)\n",
        "                pass\n", by=INBOXES),
    # an address remembered over new rules
    Defect("security/authorization.py", "        self._addresses.clear()\n        self._accounts",
        "        self._accounts", by=INBOXES),
    # how far the trace of all reaches
    Defect("runtime/trace.py", "self._ring(now) if view.is_whole else", "self._ring(now) if True else",
        by=("tests/unit/runtime/test_observing.py",)),
    # positions of one log
    Defect("runtime/listener.py", "        places = self._places\n", "        places = self._places = {}\n",
        by=("tests/unit/runtime/test_positions.py",)),
    # -- commits over a broken link, found by an attacker of issue 33
    # a tag of an earlier link names another event
    Defect("protocol/client_subscription.py", "            taken.tag = NO_TAG\n", "            pass\n",
        by=LATE_COMMITS),
    # an event committed behind an open one is not known again
    Defect("protocol/client_subscription.py",
        "                else:\n                    left.append(each)\n            elif not each.is_",
        "            elif not each.is_", by=LATE_COMMITS),
    # leaving without a broker forgets what was committed
    Defect("protocol/client.py", "        elif not subscription.must_return:\n            self._over(",
        "        elif not subscription.must_end:\n            self._over(", by=LATE_COMMITS),
    # leaving on a new link does not say what was committed
    Defect("protocol/client.py", "            tells = subscription.has_untagged and ",
        "            tells = False and ", by=LATE_COMMITS),
    # a cancelled take of an earlier link is put back beside its redelivery
    Defect("protocol/client_subscription.py",
        "if taken.tag != NO_TAG or (taken.deliver.position is None and self.options.group is None)",
        "if True", by=LATE_COMMITS),
    # superseded events that another broker is owed
    Defect("protocol/delivery/log_index.py", "_unsuperseded and not self.keeps_superseded(offset):\n",
        "_unsuperseded:\n", by=SUPERSEDED),
    Defect("protocol/recovery/relay.py", "    if ask.superseding:\n        return False\n",
        "    return False\n", by=SUPERSEDED),
    Defect("protocol/recovery/logs.py", "self.has_reported or self.have < offset <= self.last\n",
        "self.has_reported\n", by=SUPERSEDED),
    # a need that a broker in the middle keeps to itself
    Defect("protocol/recovery/progress_reports.py",
        "superseded or (known > 0 and behind.may_need_superseded)\n", "superseded\n", by=SUPERSEDED),
    # a superseded event is delivered to all subscriptions
    Defect("protocol/delivery/exactly_once.py", "if not state.options.superseding]\n", "]\n",
        by=SUPERSEDED),
    # events that are accepted together: the older are forgotten before it is known who is owed them
    Defect("protocol/delivery/log_index.py", "        if offset >= self.end:  # `dispatched`",
        "        if False:  # `dispatched`", by=SUPERSEDED),
    # after a restart a superseded entry is the newest of its key
    Defect("protocol/delivery/log_index.py", "        for key in state.tables.get(SUPERSEDED, ()):\n",
        "        for key in ():\n", by=SUPERSEDED),
    # what a subscription has not read since a restart is superseded
    Defect("protocol/delivery/sources.py", "return self._old_from <= offset < self._old_to or ", "return ",
        by=SUPERSEDED),
    # an event that no log holds ends a later one of its key
    Defect("protocol/delivery/flow.py", "self._index.supersede(key, pending.below)",
        "self._index.supersede(key)", by=("tests/unit/protocol/test_lifetimes.py",)),
    # an event that arrives ends a newer one that was read before it
    Defect("protocol/delivery/item.py", "own.log == position.log and own.offset >= position.offset", "False",
        by=("tests/simulation/test_wide_findings.py",)),
    # patterns beyond their owner's budget are tested all the same
    Defect("matching/columnar/matcher.py",
        "requested = scratch.leave_out(self.without, found >> 32) if self.without else found >> 32",
        "requested = found >> 32", by=("tests/unit/protocol/test_owner_work.py",)),
    # a message of a client overtakes its publishes that wait for the end of the turn
    Defect("runtime/local_clients.py", "        elif turn.waiting:\n", "        elif False:\n",
        by=("tests/unit/runtime/test_local_clients.py",)),
    # -- batches between brokers
    # a log is known further than its events were dispatched
    Defect("protocol/node.py", " and envelopes[end].origin == origin", "", by=RUNS),
    # a link is told that its events follow those of another link
    Defect("protocol/recovery/logs.py", "        if last[0] is envelopes and last[1] == previous:\n",
        "        if last[0] is envelopes:\n", by=RUNS),
    # a batch that is forwarded hides events from the trace
    Defect("runtime/trace.py", "(self._here or self._look_up()).issuperset(map(id, events))",
        "id(events[0]) in (self._here or self._look_up())", by=("tests/unit/runtime/test_observing.py",)),
    # an acknowledgement of some settles the oldest
    Defect("availability/progress.py", "        if self.owed[: len(offsets)] == offsets:",
        "        if True:", by=("tests/unit/availability/test_progress.py",)),
    # a part of a message has the positions of the first part
    Defect("protocol/messages.py", "events, self.log, self.offsets[begin:end])",
        "events, self.log, self.offsets[: len(events)])", by=RUNS),
    # events with positions go in one message to a peer that cannot read it
    Defect("wire/earlier.py", "        if isinstance(message, ForwardAll) or (",
        "        if False and (", by=("tests/unit/wire/test_earlier.py",)),
    # a publish that failed at one subscription is delivered twice to others, or to none behind it
    Defect("protocol/delivery/flow.py", "                    pending.is_begun = True\n",
        "                    pass\n", by=FAILING),
    Defect("protocol/delivery/dispatcher.py", "                failed = failed or error\n",
        "                raise\n", by=FAILING),
    # -- bodies that arrive otherwise than they left
    # subscribers of one process share the body
    Defect("model/event.py", "            return unpacked_body(body)\n",
        "            return self.shared_attributes\n", by=AS_IT_LEFT),
    Defect("model/event.py", " if type(found) in PLAIN_KINDS else unpacked_value(found)\n",
        "\n", by=AS_IT_LEFT),
    # a decimal of half the digits is refused
    Defect("model/body.py", "    return max(digits, digits + exponent, -exponent)\n",
        "    return digits + abs(digits + exponent)\n", by=AS_IT_LEFT),
    # members of a foreign event are moved
    Defect("model/cloudevents.py", "members.items() if name not in extensions}",
        "members.items() if name not in extensions | _CONTEXT}", by=AS_IT_LEFT),
    # integers beyond 64 bits are text in JSON
    Defect("model/textual.py", "    if cls is int:\n        return value  # JSON's",
        "    if cls is bool:\n        return value  # JSON's", by=AS_IT_LEFT),
    # the second of two hours is the first
    Defect("model/textual.py", "(_FOLD if value.fold else \"\")", "\"\"", by=AS_IT_LEFT),
    # half a character in a name ends the connection
    Defect("model/event.py", " or not is_unicode(name):", ":", by=AS_IT_LEFT),
    # compiled tables have no slots for an empty name
    Defect("matching/columnar/parts.py", "            if attribute != LINEAGE and not",
        "            if attribute and attribute != LINEAGE and not", by=AS_IT_LEFT),
    # long lists of plain HTTP count as attributes
    Defect("gateway/bodies.py", "    if b\"[\" not in body and is_crowded(body, ATTRIBUTE_TOKENS):\n",
        "    if is_crowded(body, ATTRIBUTE_TOKENS):\n", by=("tests/gateway/test_any_body.py",)),
    # TRUE is 1 for a schema
    Defect("model/schema_parts.py",
        "        return value is other\n", "        return bool(value == other)\n",
        by=SCHEMAS),
    # narrower keys of mappings are no breaking change
    Defect("model/schema_parts.py", "        return {\"enum\": [str(member.value) for member in info.cls]}\n",
        "        return {}\n", by=SCHEMAS),
    Defect("model/schema_bounds.py", "    if step is not None and not any(", "    if False and not any(",
        by=SCHEMAS),
    # a subscription to what is available never ends at a client that grants credit late
    Defect("protocol/delivery/dispatcher.py", " = state.options.until_live and not state.unacked\n",
        " = False\n", by=("tests/unit/runtime/test_until_live.py",)),
    # each log of a token is compared with all others
    Defect("protocol/delivery/registry.py",
        "            state.delivered.add_all(message.filter, ((log, 0, end) for log, end in ends.items()))\n",
        "            for log, end in ends.items():\n"
        "                state.delivered.add(message.filter, log, 0, end)\n",
        by=("tests/unit/runtime/test_hostile_tokens.py",)),
    # names of others act upon an operator's terminal
    Defect("cli/output.py", "Segment(visible(text), style)", "segment", by=("tests/unit/cli/test_main.py",)),
    Defect("cli/admin.py", "Text(one_line(_cell(column, row.get(column))))",
        "Text(_cell(column, row.get(column)))", by=("tests/unit/cli/test_main.py",)),
)  # fmt: skip
