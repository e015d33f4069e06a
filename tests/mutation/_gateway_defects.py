"""Defects in promises of gateways, sessions, quotas and disks, each with the tests that have to notice."""

from __future__ import annotations

from tests.mutation._suites import (
    BOUNDS,
    BYTES,
    CHANNEL,
    CONFIRMING,
    CYCLES,
    ENDING,
    EXCHANGES,
    FAIRNESS,
    FLOODS,
    GUESSING,
    HANGING,
    LIFETIMES,
    OBSERVING,
    ORIGINS,
    OWNERS,
    PARSING,
    POISON,
    RECALL,
    RESTARTS,
    RETURNING,
    ROLLBACK,
    SHARED,
    SLOW,
    STANDARD,
    STREAMS,
    UNDECIDED,
    UNFINISHED,
    WIDE,
    WORK,
    Defect,
)

GATEWAYS = (
    # -- promises of gateways, sessions, quotas and disks, each with the tests that have to notice
    # any Host
    Defect("gateway/origins.py", "        if not self._is_called(_name(host)):\n", "        if False:\n",
        by=ORIGINS),
    # any Origin
    Defect("gateway/origins.py",
        "        if _matches(origin, self.origins) or _place(origin) == host.lower() != \"\":\n",
        "        if True:\n", by=ORIGINS),
    # a name that begins like loopback
    Defect("gateway/origins.py", "        return name == \"localhost\" or ip_address(name).is_loopback\n",
        "        return name == \"localhost\" or name.startswith(\"127.\")\n", by=ORIGINS),
    # WebSocket from any page
    Defect("gateway/origins.py", "        if scope[\"type\"] in (\"http\", \"websocket\"):\n",
        "        if scope[\"type\"] == \"http\":\n", by=ORIGINS),
    # QoS 2 in: published before it is on the disk
    Defect("gateway/mqtt/exchanges.py", "            await self._keep(IN, packet_id, event)\n",
        "            self._note(IN, packet_id, event)\n", by=EXCHANGES),
    # QoS 2 in: another identity when it comes again
    Defect("gateway/mqtt/exchanges.py",
        "        event = self._events.get(packet_id)\n        if event is None:",
        "        event = None\n        if event is None:", by=EXCHANGES),
    # QoS 2 in: a free packet id is taken for the old message
    Defect("gateway/mqtt/exchanges.py", "            await self._keep(RELEASED, packet_id)\n",
        "            pass\n", by=EXCHANGES),
    # QoS 2 out: sent, and not in the journal
    Defect("gateway/mqtt/exchanges.py",
        "        return self._append(OUT, packet_id, name, position.log, position.offset, 2)\n",
        "        return None\n", by=EXCHANGES),
    # QoS 2 out: PUBREL leaves before PUBREC is on the disk
    Defect("gateway/mqtt/exchanges.py",
        "        self._handle(out)\n        return self._append(RECEIVED, packet_id)\n",
        "        self._handle(out)\n        return None\n", by=EXCHANGES),
    # QoS 2 out: sent again though the client has it
    Defect("gateway/mqtt/exchanges.py", "        return (name, position) in self._handled\n",
        "        return False\n", by=EXCHANGES),
    # changed rights end no session
    Defect("runtime/sessions.py",
        "                reason = \"\" if self._standing(session.principal) == session.standing else "
        "CHANGED\n", "                self._standing(session.principal)\n                reason = \"\"\n",
        by=ENDING),
    # a disabled user's sessions go on
    Defect("runtime/sessions.py", "                reason = error.message\n",
        "                reason = \"\"\n", by=ENDING),
    # an expired token's sessions go on
    Defect("runtime/sessions.py",
        "            if until is not None and until <= now:\n                self._end(session, "
        "EXPIRED)", "            if False:\n                self._end(session, EXPIRED)", by=ENDING),
    # an expired proof opens a session
    Defect("runtime/sessions.py", "            if until <= self._clock.now():\n", "            if False:\n",
        by=ENDING),
    # one failing listener keeps the others open
    Defect("runtime/sessions.py", "            log.exception(\"a session of",
        "            raise\n            log.exception(\"a session of", by=ENDING),
    # no back-off
    Defect("security/attempts.py", "                        raise TooManyAttempts(left)\n",
        "                        pass\n", by=GUESSING),
    # a name is guessed from many addresses
    Defect("security/attempts.py", "(bound is not PAIR and (name, net) in self._known)", "bound is NAME",
        by=GUESSING),
    # table of failures unbounded
    Defect("security/attempts.py", "            while len(self._failures) > MOST_ENTRIES:\n",
        "            while False:\n", by=GUESSING),
    # made-up names lock their address out
    Defect("security/attempts.py", "                    if bound is not ADDRESS:\n",
        "                    if True:\n", by=GUESSING),
    # an address in its pause guesses on
    Defect("security/authenticator.py", "        if not is_spared:\n", "        if False:\n",
        by=("tests/unit/security/test_attempts.py", "tests/gateway/test_guessing.py")),
    # each IPv6 address of one network has free tries
    Defect("security/attempts.py", "        return str(ipaddress.ip_network((address, 64), strict=False))\n",
        "        return str(address)\n", by=GUESSING),
    # no cap per address
    Defect("runtime/admission.py", "        if self._open.get(address, 0) >= self.most_per_address:\n",
        "        if False:\n", by=SLOW),
    # no reserved descriptors
    Defect("runtime/admission.py",
        "        most = max(limit - settings.reserved_descriptors, limit // 2, 1)\n",
        "        most = limit\n", by=SLOW),
    # silent clients per address unbounded
    Defect("runtime/admission.py",
        "        if own is not None and len(own) >= self.most_waiting_per_address:\n", "        if False:\n",
        by=SLOW),
    # silent clients keep others out
    Defect("runtime/admission.py",
        "            return self._evict(max(self._waiting.values(), key=len, default=None))\n",
        "            return False\n", by=SLOW),
    # durable stream: committed when the next one is taken
    Defect("gateway/streams.py",
        "                notification, tag = await listener.take()\n        except TimeoutError:",
        "                notification, tag = await listener._take(), 0\n        except TimeoutError:",
        by=CONFIRMING),
    # durable socket: committed by being sent
    Defect("gateway/streams.py", "wanted.pop(\"ack\", \"manual\" if is_durable else \"auto\")",
        "wanted.pop(\"ack\", \"auto\")", by=CONFIRMING),
    # one ack commits all that was sent
    Defect("gateway/streams.py", "        for _ in range(count):\n",
        "        for _ in range(len(self.unacked)):\n", by=CONFIRMING),
    # the id of an event confirms its own log alone
    Defect("gateway/tokens.py", "        self._upto.pop(position.log, None)  # the log",
        "        self._upto.clear()  # the log", by=CONFIRMING),
    # PUBACK before the event is kept here
    Defect("gateway/bridges/mqtt.py", "        self._client._client.manual_ack_set(True)",
        "        self._client._client.manual_ack_set(False)", by=("tests/gateway/test_bridges.py",)),
    # a resend is refused for room though its first copy may be kept
    Defect("gateway/mqtt/publishing.py", "            if packet.dup and known is None:\n",
        "            if False:\n", by=UNDECIDED),
    # a resend has another identity than its first copy
    Defect("gateway/mqtt/publishing.py", "            self._undecided.note(self._key, packet, error.id)\n",
        "            pass\n", by=UNDECIDED),
    # an event is new again when the log forgot it
    Defect("availability/identity.py",
        "            return known  # an id of ours that its publisher gives again\n", "            pass\n",
        by=UNDECIDED),
    # a slow head is waited for
    Defect("gateway/serving.py",
        "        self._timer = asyncio.get_running_loop().call_later(self.seconds, self._too_slow)\n",
        "        self._timer = None\n", by=SLOW),
    # a WebSocket's visit never ends
    Defect("gateway/serving.py",
        "                visit.leave()\n                reading.close()\n                lost(exc)\n",
        "                reading.close()\n                lost(exc)\n", by=SLOW),
    # a topic that MQTT cannot carry ends the delivery
    Defect("gateway/mqtt/events.py", "    if not name or not _fits(name):\n", "    if False:\n", by=POISON),
    # a long user property ends the delivery
    Defect("gateway/mqtt/events.py",
        "    user = [(name, value) for name, value in user if _fits(name) and _fits(value)]\n", "",
        by=POISON),
    # SUBACK shorter than its SUBSCRIBE
    Defect("gateway/mqtt/session.py", "        return reasons + [Reason.QUOTA] * packet.beyond\n",
        "        return reasons\n", by=FLOODS),
    # open QoS 2 exchanges unbounded
    Defect("gateway/mqtt/publishing.py", "        if self.open_exchanges >= most:\n",
        "        if False:\n", by=FLOODS),
    # an unsendable request is tried for ever
    Defect("gateway/webhooks.py", "            if status == UNSENDABLE or (", "            if (", by=POISON),
    # an endless answer is read
    Defect("gateway/webhooks.py", "                    if size > self._answer_bytes:\n",
        "                    if False:\n", by=POISON),
    # unread pongs fill the memory
    Defect("gateway/serving.py", " and bool(protocol.writable.is_set())\n", "\n", by=FLOODS),
    # the same over MQTT's WebSocket
    Defect("gateway/mqtt/websocket.py", "        return not self.paused and not ", "        return not ",
        by=FLOODS),
    # two lengths in one request
    Defect("gateway/serving.py", "            _UnambiguousRequest(self._app),\n", "            self._app,\n",
        by=POISON),
    # attributes are counted when all are built
    Defect("model/body.py", "            check_number(len(self.seen))\n", "", by=POISON),
    # a client forges lines of the log
    Defect("runtime/logs.py", "        return super().formatMessage(record).translate(_ESCAPED)\n",
        "        return super().formatMessage(record)\n", by=("tests/unit/runtime/test_logs.py",)),
    # numbers of clients unbounded
    Defect("protocol/client_bounds.py",
        "        if value > self.most(limits) or isnan(value):\n",
        "        if isnan(value):\n", by=BOUNDS),
    # names of clients unbounded
    Defect("protocol/client_bounds.py",
        "        if value is not None and len(value) > self.most(limits):\n            raise "
        "self._refuse(f\"has {len(value)} characters\", limits)\n", "        pass\n", by=BOUNDS),
    # lists of clients unbounded
    Defect("protocol/client_bounds.py",
        "            raise self._refuse(f\"has {len(value)} entries\", limits)\n        if "
        "type(self.item)", "            pass\n        if type(self.item)", by=BOUNDS),
    # values of an inquiry unbounded
    Defect("protocol/client_bounds.py", "            if seen > limits.about:\n", "            if False:\n",
        by=BOUNDS),
    # stored bytes unbounded
    Defect("security/quotas.py", "        self._check(\"stored_bytes\", self.kept + size)\n", "",
        by=("tests/unit/security/test_quotas.py", *BYTES)),
    # forgotten bytes are not given back
    Defect("security/quotas.py", "        self.stored += size\n", "        self.stored += max(0, size)\n",
        by=("tests/unit/security", *BYTES)),
    # queued bytes in no quota
    Defect("protocol/delivery/subscription_state.py",
        "        self.queued_bytes += size\n        self.memory.used += size\n",
        "        self.queued_bytes += size\n", by=WIDE),
    # unacknowledged bytes in no quota
    Defect("protocol/delivery/dispatcher.py", "        state.memory.used += size\n", "        pass\n",
        by=WIDE),
    # a hold pins without bound
    Defect("protocol/delivery/retention_holds.py",
        "        if row.most_bytes and kept.bytes > row.most_bytes and name not in self._overfull:\n",
        "        if False:\n", by=("tests/unit/protocol/delivery/test_retention_holds.py", *BYTES)),
    # holds are bounded for all principals together
    Defect("protocol/delivery/retention_holds.py", "self._scopes[scope_of(message.name)] >= self._most:",
        "len(self._rows) >= self._most:", by=("tests/unit/protocol/delivery/test_retention_holds.py",)),
    # holds are matched twice for each event
    Defect("protocol/delivery/retention_holds.py",
        "        if self._last_match is None or self._last_match[0] is not event:\n", "        if True:\n",
        by=("tests/unit/protocol/delivery/test_retention_holds.py",)),
    # one principal uses up the staging of all
    Defect("protocol/delivery/staging.py", "        own = self._bytes[scope_of(query)]\n",
        "        own = self.staged_bytes\n", by=("tests/unit/protocol/delivery/test_staging.py",)),
    # staged bytes of all principals unbounded
    Defect("protocol/delivery/staging.py", "        if self.staged_bytes + more > self._most_in_all:\n",
        "        if False:\n", by=("tests/unit/protocol/delivery/test_staging.py",)),
    # records of ended subscriptions unbounded
    Defect("protocol/delivery/delivery_memory.py",
        "        records = [*self._drop(id), *self._make_room(row)]\n        if not "
        "self._ports.kept.records_fit(self._owner(id), _size(row)):\n",
        "        records = self._drop(id)\n        if False:\n", by=BYTES),
    # holds of one principal unbounded
    Defect("security/quotas.py", "            self._check(\"holds\", self.holds + _is_hold(durable))\n", "",
        by=BYTES),
    # a hold pins what its holder may not read
    Defect("security/authorization.py",
        "            allowed = self.right(principal, Action.SUBSCRIBE).narrowed(filter)\n            "
        "account = self._accounts.of(principal.name, self._clock())\n            self._keep(account, "
        "(HOLDS", "            allowed = filter\n            account = self._accounts.of(principal.name, "
        "self._clock())\n            self._keep(account, (HOLDS",
        by=("tests/unit/security/test_authorization.py", "tests/unit/runtime/test_client_ingress.py",
            *BYTES)),
    # no budget in the evaluator
    Defect("language/work.py", "    return cost(work, event.view) > BUDGET\n", "    return False\n", by=WORK),
    # no budget in the tables
    Defect("language/work.py",
        "    return lambda value: not (type(value) is str and weight * len(value) > BUDGET) and "
        "accepts(value)\n", "    return accepts\n", by=(*WORK, "tests/unit/matching")),
    # no budget in derived columns
    Defect("matching/columnar/programs.py",
        "    return lambda view: value_of(expression, run, view) if cost(work, view) <= BUDGET else None\n",
        "    return run\n",
        by=(*WORK, "tests/unit/matching")),
    # over budget is no match in routing
    Defect("matching/engine.py", "        over = self._routed.may_accept(event)\n", "        over = ()\n",
        by=(*WORK, "tests/unit/matching")),
    # every observer sees all tenants
    Defect("runtime/observing.py", "    if guard is None or guard.observes_all(principal):\n",
        "    if True:\n", by=OBSERVING),
    # events of others in a trace
    Defect("security/authorization.py",
        "        return self.right(principal, Action.OBSERVE).allows(event)\n", "        return True\n",
        by=(*OBSERVING, "tests/unit/security")),
    # subscriptions of other tenants are shown
    Defect("security/authorization.py",
        "        if not principal.tenant or self._tenant_of(id) != principal.tenant:\n            "
        "return False\n", "", by=(*OBSERVING, "tests/unit/security")),
    # an event that a neighbour does not take cuts its link for ever
    Defect("protocol/recovery/far_ends.py",
        "        if not is_unread and envelope.event.size <= self._most_bytes(link):\n",
        "        if True:\n", by=("tests/unit/runtime/test_sizes.py",)),
    # a body that a broker of the version before cannot read is sent to it
    Defect("protocol/recovery/far_ends.py",
        "envelope.event.rich and not self.takes(link, Feature.RICH_BODIES)", "False",
        by=("tests/unit/protocol/recovery/test_far_ends.py",)),
    # a broker with a smaller limit does not pass on what others accepted
    Defect("protocol/recovery/far_ends.py", "(self._frames.get(link) or limits.taken_bytes)",
        "limits.frame_bytes", by=WIDE),
    # a broker with a smaller limit ends its links
    Defect("runtime/server.py", "self._codec.limited(self.resources.taken_bytes)", "self._codec",
        by=("tests/unit/runtime/test_sizes.py",)),
    # a lowered limit skips what was accepted
    Defect("runtime/server.py",
        "        connection.send_by(self._codec.limited(sendable(open.takes, own)).read_by(open.features))\n",
        "",
        by=("tests/unit/runtime/test_sizes.py",)),
    # a larger limit of a client comes too late
    Defect("protocol/delivery/oversized.py", "each.is_large or ", "",
        by=("tests/unit/runtime/test_sizes.py",)),
    # a log is waited for on a link that its far end undid
    Defect("protocol/recovery/acknowledged.py", "            self.elsewhere(upstream, now)\n",
        "            pass\n", by=CYCLES),
    # such a link stays a neighbour, for which events are kept
    Defect("protocol/recovery/acknowledged.py",
        "            return view.upstream == link\n        if broker_of(news.log) != link and",
        "        elif broker_of(news.log) != link and", by=CYCLES),
    # a restored disk gives offsets again
    Defect("protocol/recovery/rollback.py", "        if view.upstream is None and upto > view.known:\n",
        "        if False:\n", by=ROLLBACK),
    # it acknowledges before neighbours have spoken
    Defect("protocol/recovery/rollback.py",
        "        return any(\n            link not in progress_of",
        "        return False and any(\n            link not in progress_of", by=ROLLBACK),
    # a neighbour that restarted forgets how far its subscriptions are
    Defect("protocol/recovery/progress_reports.py",
        "max(known, needs.highest), needs.superseded\n", "known, needs.superseded\n", by=ROLLBACK),
    # what waits for the disk keeps a repeated offset
    Defect("protocol/delivery/flow.py", "pending not in again] if again else pendings",
        "pending not in again] if False else pendings",
        by=ROLLBACK),
    # clients pass over what a restored disk acknowledges
    Defect("protocol/delivery/tokens_ahead.py", "            self._skip_to(upto)\n", "", by=ROLLBACK),
    # a transient subscription is deaf up to its token
    Defect("protocol/delivery/tokens_ahead.py",
        "        if message.options.group is not None and not message.options.durable:\n",
        "        if not message.options.durable:\n", by=("tests/unit/runtime/test_hostile_tokens.py",)),
    # a token moves the log though no disk was put back
    Defect("protocol/delivery/tokens_ahead.py", "state.stored.is_from_disk and upto <= self._most",
        "upto <= self._most", by=ROLLBACK),
    # a token moves the log without bound
    Defect("protocol/delivery/tokens_ahead.py",
        "self._most = max(self._index.end - 1, int(now * MICROSECONDS)) + self._ahead",
        "self._most = 1 << 62", by=ROLLBACK),
    # no datagram limit at publish
    Defect("systems/system.py",
        "        return site.limits.datagram_event_bytes if by_datagram else site.limits.event_bytes\n",
        "        return site.limits.event_bytes\n", by=("tests/simulation/test_sizes.py",)),
    # no deduplication window after the log forgot
    Defect("availability/identity.py", "        return self._foreign.add(_key(*entry.identity), now)\n",
        "        return []\n",
        by=("tests/unit/availability/test_identity.py", "tests/unit/protocol/test_publishing.py")),
    # an empty disk forgets neighbours
    Defect("protocol/recovery/recall.py",
        "        return self._is_new and bool(self._is_joining or self._requested or self._named)\n",
        "        return False\n", by=RECALL),
    # events before the first neighbour are not kept
    Defect("protocol/recovery/recall.py", "bool(self._is_joining or self._requested or self._named)",
        "bool(self._requested or self._named)", by=RECALL),
    # the named ones are not waited for
    Defect("protocol/recovery/recall.py",
        "    def _review(self, now: float) -> None:\n        if self._is_new and not self.is_unsure:\n "
        "           self._is_new = False\n",
        "    def _review(self, now: float) -> None:\n        if self._is_new and not self._requested:\n    "
        "        self._is_new = False\n", by=RECALL),
    # keys common to all
    Defect("security/authorization.py", "        return f\"{tenant}{'' if principal.is_anonymous else "
        "principal.name}{OWNER_MARK}{key}\"", "        return tenant + key", by=OWNERS),
    # any retained message is wiped
    Defect("security/authorization.py", "            if event.topic != key.removeprefix(MQTT_RETAINED):\n",
        "            if False:\n", by=OWNERS),
    # dead letters count nowhere
    Defect("security/quotas.py", "self.stored + self.pending + self.letters", "self.stored + self.pending",
        by=BYTES),
    # a backlog counts in no quota
    Defect("protocol/delivery/bounds.py",
        "        if state.owner:\n            self._keep_quota(state, now)\n",
        "", by=BYTES),
    # superseded events stay in the backlog
    Defect("protocol/delivery/log_index.py",
        "            for owner in self._owners.pop(offset):\n                "
        "self._count_backlog(owner, offset, -1)\n", "            pass\n", by=BYTES),
    # a backlog of an earlier life counts in no quota
    Defect("protocol/delivery/log_index.py", "            self.on_pinned()\n", "", by=BYTES),
    # a frame for each subscription of a client
    Defect("runtime/connection.py",
        "        if self._encoded >= self.limits.encoded_bytes and type(message) in (Deliver, "
        "DeliverAll):\n", "        if False:\n", by=("tests/unit/runtime/test_write_buffer.py",)),
    # the same on a WebSocket
    Defect("gateway/streams.py", "        async with self._sending:\n", "        if True:\n",
        by=("tests/gateway/test_floods.py",)),
    # all attributes are decoded before they are counted
    Defect("gateway/bodies.py", "    if b\"[\" not in body and is_crowded(body, ATTRIBUTE_TOKENS):\n",
        "    if False:\n", by=("tests/gateway/test_sizes.py",)),
    # old letters keep new ones out
    Defect("protocol/delivery/dead_letters.py",
        "        while (own := self._by_owner.get(box.owner)) and not "
        "self._ports.kept.letters_fit(box.owner, size):", "        while False:", by=BYTES),
    # tenants share identities
    Defect("model/event.py",
        "    return (f\"{tenant}{TENANT_MARK}{source}\" if tenant and type(tenant) is str else source, "
        "id)", "    return (source, id)", by=("tests/unit/availability/test_identity.py", *OWNERS)),
    # one fills the table for all
    Defect("availability/window.py", "        return self._owned[owner] >= self._most // (others + 1)",
        "        return True", by=("tests/unit/availability/test_identity.py", *OWNERS)),
    # a list of values is one constraint
    Defect("security/authorization.py",
        "    return max(1, len(constraint.values)) if isinstance(constraint, OneOf | NotOneOf) else 1",
        "    return 1", by=("tests/unit/security/test_authorization.py",)),
    # ghosts have other salts elsewhere
    Defect("security/authenticator.py", "users.decoy or pepper", "pepper",
        by=("tests/unit/security/test_authorization.py",)),
    # sessions of one principal push out others'
    Defect("console/sessions.py", "        if owned[owner] >= MOST_OF_ONE:\n", "        if False:\n",
        by=("tests/unit/console/test_app.py",)),
    # a disabled user is let in
    Defect("security/users.py", "        if user.disabled:\n", "        if False:\n", by=WIDE),
    # owed under an earlier filter, forgotten when live
    Defect("protocol/delivery/cursor.py",
        "            self.rights = [right for right in self.rights if right.stop > self.low_water]\n",
        "            self.rights = ()\n",
        by=("tests/unit/protocol/delivery/test_cursor.py", "tests/simulation/test_tidings_scenes.py")),
    # first page judged by age
    Defect("protocol/delivery/replay.py", "            start = end if state.durable else None\n",
        "            start = None\n", by=("tests/simulation/test_wide_findings.py",)),
    # an overloaded broker reads publishers as before
    Defect("runtime/server.py", "            self._intake.hold(connection, len(allowed))\n",
        "            pass\n",
        by=("tests/unit/runtime/test_intake.py",)),
    # messages in a row are copied for each of them
    Defect("runtime/driver.py", "                                messages += (message,)\n",
        "                                last = (to, ReceivedAll(name, [*messages, message]))\n"
        "                                following[-1] = last\n",
        by=("tests/unit/runtime/test_turns.py",)),
    # publishers wait though all is quiet
    Defect("runtime/intake.py", "        if inputs != self._inputs and self._turns < ",
        "        if self._turns < ", by=("tests/unit/runtime/test_intake.py",)),
    # a batch fills a queue beyond its bound
    Defect("protocol/delivery/dispatcher.py",
        "        end = min(begin + room, count) if begin", "        end = count if begin",
        by=("tests/unit/runtime/test_intake.py",)),
    # a closed connection keeps half a frame
    Defect("runtime/connection.py", "            self._reader.clear()\n", "", by=UNFINISHED),
    # half frames without a bound
    Defect("runtime/unfinished.py",
        "        elif self.bytes > self._most and connection is not self._turn:\n", "        elif False:\n",
        by=UNFINISHED),
    # expressions are compiled without a budget
    Defect("language/parser.py", "        check_patterns(sum(self.patterns.values()), self.limits)\n", "",
        by=PARSING),
    # a normal form of any size
    Defect("language/normalise.py", "        check_steps(self.steps, self.limits)\n", "", by=PARSING),
    # a text is folded again for each filter
    Defect("language/functions.py", "        if known[0] is not text:\n", "        if True:\n",
        by=("tests/unit/language/test_functions.py",)),
    # filters are parsed before rights are asked
    Defect("runtime/client_ingress.py",
        "guard is not None and guard.receives_nothing(self._principal)", "False",
        by=("tests/unit/runtime/test_client_ingress.py",)),
    # an owner takes the loop for as long as it likes
    Defect("runtime/fairness.py", "            share.is_paused = True\n",
        "            share.is_paused = False\n", by=FAIRNESS),
    # scans of the log at once
    Defect("runtime/fairness.py", "            waiting.append(perform)\n", "            perform()\n",
        by=FAIRNESS),
    # a flood is handled in one go
    Defect("runtime/connection.py", "        self._handle(data, self._slice)\n",
        "        self._handle(data)\n", by=FAIRNESS),
    # SUBSCRIBE again drops what waits
    Defect("gateway/mqtt/session.py", "        is_same = old is not None and old.user == kept.user\n",
        "        is_same = False\n", by=("tests/gateway/test_mqtt.py", *STANDARD)),
    # a payload forges fields of its message
    Defect("gateway/mqtt/events.py", "    if data is not None:\n        return _decoded(data)\n", "",
        by=STANDARD),
    # a retained message that waits is superseded by the next one
    Defect("protocol/delivery/keyed_items.py",
        "item.event.key if state.options.superseding and item.dead_letter is None else None",
        "item.event.key if item.dead_letter is None else None", by=STANDARD),
    # a superseded entry that a subscription is owed is forgotten
    Defect("protocol/delivery/log_index.py",
        "        if offset not in self._unsuperseded and not self.keeps_superseded(offset):\n",
        "        if True:\n", by=STANDARD),
    # a message that waits is sent though it has expired
    Defect("gateway/mqtt/session.py", "if sent is not None or not has_expired(event, header):", "if True:",
        by=STANDARD),
    # a reconnect leaves a will that waits
    Defect("gateway/mqtt/listener.py", "            self.wills.cancel(key)\n", "            pass\n",
        by=STANDARD),
    # UNSUBSCRIBE ends an exchange
    Defect("gateway/mqtt/in_flight.py",
        "            if subscription.share is not None and message.lender is None:\n",
        "            if True:\n", by=STANDARD),
    # resends go beyond the receive maximum
    Defect("gateway/mqtt/in_flight.py", "            left -= message.has_room\n", "", by=STANDARD),
    # a SUBSCRIBE reads every retained message
    Defect("protocol/delivery/sources.py", "        if patterns is not None:\n", "        if False:\n",
        by=STANDARD),
    # refused as too large after another member accepted it
    Defect("protocol/publishing.py", "        if reason is None or self.broker is None:\n",
        "        if True:\n", by=("tests/unit/protocol/test_node.py", *WIDE)),
    # one name in two tenants
    Defect("security/users.py", "    _check_shared_names(users, where)\n", "",
        by=("tests/unit/security/test_users.py",)),
    # losses told with the answer are dropped
    Defect("runtime/listener.py", "        self._count_losses()\n        return self\n",
        "        return self\n", by=("tests/unit/runtime/test_losses.py",)),
    # a neighbour that restarted names nothing behind the asker
    Defect("protocol/recovery/recall.py",
        "            | {log: None for log, way in self._behind.values() if way == link}\n", "", by=RESTARTS),
    # lost, and not counted
    Defect("protocol/delivery/replay.py",
        "            if cursor.source.release(state, offset, now):\n                "
        "self._dispatcher.losses.count_gone(state, now)\n",
        "            cursor.source.release(state, offset, now)\n", by=LIFETIMES),
    # opened twice after a full disk
    Defect("protocol/delivery/grouped.py", "        if not is_opening:\n", "        if not member.is_open:\n",
        by=("tests/simulation/test_wide_findings.py",)),
    # sources of tokens' principals are anybody's
    Defect("security/authorization.py", "\"source\", self._users.speaker_of(event.source))\n",
        "\"source\", self._users.named_in(event.source))\n", by=("tests/unit/security/test_scopes.py",)),
    # a kept session's share is not durable
    Defect("gateway/mqtt/shares.py", "await self._opened(session, filter, durable=session.durable)",
        "await self._opened(session, filter, durable=False)", by=SHARED),
    # QoS 2 in a share: sent to another member though one has it
    Defect("gateway/mqtt/shares.py",
        "        if any(member.exchanges.is_handled(self.name, position) for member in "
        "self.kept.values()):\n", "        if False:\n", by=SHARED),
    # QoS 2 in a share: sent to another member while it is in flight to one
    Defect("gateway/mqtt/shares.py", "        if position not in self._sent:\n", "        if True:\n",
        by=SHARED),
    # the first session that leaves ends the share of all
    Defect("gateway/mqtt/shares.py", "        if self.members or self.kept or not self.is_durable:\n",
        "        if not self.is_durable:\n", by=SHARED),
    # a share without a kept session outlives a kill
    Defect("gateway/mqtt/shares.py",
        "            if share.is_durable and not share.kept and share.last is not None\n",
        "            if False\n", by=SHARED),
    # what waited for a group that becomes durable is forgotten
    Defect("protocol/delivery/registry.py",
        "            self._index.owe(offset, state.owner, state.options.superseding)\n        return None\n",
        "            pass\n        return None\n", by=("tests/unit/protocol/test_groups.py",)),
    # a transient member ends a durable group
    Defect("protocol/delivery/registry.py", "(state.durable and not (end and member.ends))",
        "(state.durable and not end)", by=("tests/unit/protocol/test_groups.py",)),
    # a copy of an event for each subscription that reads it
    Defect("protocol/delivery/sources.py", "        event = self._events.setdefault(offset, record.event)  #",
        "        event = record.event  #", by=("tests/chaos/test_mqtt_memory.py",)),
    # QoS 0 is written whether the client reads or not
    Defect("gateway/mqtt/pushes.py", "        if self._flowing and outlet.is_full():\n",
        "        if False:\n", by=("tests/chaos/test_mqtt_memory.py",)),

    # -- packets past the client machine -----------------------------------------------------------
    Defect("runtime/local_channel.py",
        "[batch.messages[call - batch.first] for call, batch in self._outstanding.items()]",
        "[message for batch in self._outstanding.values() for message in batch.messages]", by=CHANNEL),
    Defect("runtime/local_channel.py", "Credit(ref, len(events))", "Credit(ref, 1)", by=CHANNEL),
    Defect("runtime/local_channel.py",
        "            if take is None or message.position is not None:  # type: ignore[attr-defined]\n",
        "            if take is None:\n", by=CHANNEL),
    Defect("runtime/local_channel.py", "            number = number_of(event.source)\n",
        "            number = offset + 1\n", by=("tests/gateway/test_mqtt.py",)),
    Defect("gateway/mqtt/stream.py", "        if self.sink is not None and not self._unread:\n",
        "        if self.sink is not None:\n", by=STREAMS),
    Defect("gateway/mqtt/stream.py", "        if self.is_paused and not self.is_full:\n",
        "        if self.is_paused:\n", by=STREAMS),
    # a client that returns at once overtakes its own DISCONNECT
    Defect("gateway/mqtt/listener.py", "            await other.caught_up()\n", "", by=RETURNING),
    Defect("gateway/mqtt/listener.py", "        while (other := self._links.get(key)) is not None:\n",
        "        if (other := self._links.get(key)) is not None:\n", by=RETURNING),
    Defect("gateway/mqtt/listener.py", "        try:\n            await self._left(key, session)\n",
        "        self._links.pop(key, None)\n        try:\n            await self._left(key, session)\n",
        by=RETURNING),
    # a native client that hangs keeps its connection after its session was ended
    Defect("runtime/connection.py", "        if (unsent := self.unsent) < before:\n",
        "        if (unsent := self.unsent) <= before:\n", by=("tests/unit/runtime/test_write_buffer.py",)),
    # a client that hangs keeps its connection, or is spared by keep-alive
    Defect("gateway/mqtt/stream.py", ".call_later(LINGER_SECONDS, self.wire.abort)",
        ".call_later(LINGER_SECONDS, self.wire.is_closing)", by=HANGING),
    Defect("gateway/mqtt/keep_alive.py", "            if taken != self._taken:\n",
        "            if True:\n", by=HANGING),
    Defect("gateway/mqtt/keep_alive.py", " or stream.pauses != self._pauses:\n", ":\n", by=HANGING),
    Defect("gateway/mqtt/answers.py", "        while line and (known := line[0].data) is not None:\n",
        "        while line and (known := line[0].data or data) is not None:\n",
        by=("tests/gateway/test_mqtt_violations.py",)),
    Defect("gateway/mqtt/pushes.py", "        elif version in self._packets:\n",
        "        elif self._packets:\n            version = next(iter(self._packets))\n",
        by=STREAMS),
    Defect("gateway/mqtt/pushes.py", "        and event.content_type is None\n", "", by=STREAMS),
    Defect("gateway/mqtt/connection.py",
        "                if qos and self._answers.count + len(batch) > AHEAD:\n",
        "                if False:\n", by=STREAMS),
    # user properties that mean nothing are kept
    Defect("gateway/mqtt/reading.py", "            if user != ANY and value[0] != user:\n",
        "            if False:\n", by=FLOODS),
    # a clear is acknowledged before the retained message is gone from the disk
    Defect("protocol/delivery/flow.py", "            pending.blocked += 1\n            not_kept",
        "            pending.blocked += 0\n            not_kept",
        by=("tests/unit/protocol/test_publishing.py",)),
    # fields at their edges
    Defect("gateway/mqtt/events.py", "    if correlation is not None and len(",
        "    if correlation and len(", by=("tests/gateway/test_mqtt_headers.py",)),
    Defect("gateway/mqtt/listener.py", " > self._longest_name:\n", " < 0:\n",
        by=("tests/gateway/test_mqtt_violations.py",)),
    # publishes of one turn: the order of a client, an identity that two publish, the bound
    Defect("runtime/local_clients.py", "        elif turn.waiting:\n            turn.flush()\n", "",
        by=("tests/unit/runtime/test_local_clients.py",)),
    Defect("protocol/delivery/flow.py",
        "                self._pass_batch(batch, now)  # one of them may be the one that comes now\n", "",
        by=("tests/properties/test_together.py",)),
    Defect("runtime/local_clients.py", "self._count + len(publishes) > self._most", "False",
        by=("tests/unit/runtime/test_local_clients.py",)),
)  # fmt: skip
