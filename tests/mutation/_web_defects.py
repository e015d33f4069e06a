"""Defects in web connections and in sessions of MQTT, each with the tests that have to notice."""

from __future__ import annotations

from tests.mutation._suites import AUDIT, COMPUTING, CONSOLE, ORIGINS, PACED, STREAMS, TRIALS, Defect

WEB = (
    # anyone who is let in tries filters, for nothing
    Defect("gateway/http.py", "        self._trials.authorize(principal, \"explain\")\n", "", by=TRIALS),
    Defect("gateway/trials.py", "            fairness.charge(share, fairness.clock() - began)\n", "",
        by=TRIALS),
    # an explanation repeats a long value for each condition
    Defect("matching/explain.py", "        shown = _cut_value(found.value)\n",
        "        shown = found.value\n", by=TRIALS),
    # numbers of requests can be guessed
    Defect("runtime/requests.py", "secrets.token_bytes(NUMBER_SIZE)",
        "(len(bus._waiting) + bus._last_call).to_bytes(NUMBER_SIZE)",
        by=("tests/unit/runtime/test_requests.py",)),
    # a token for a name that rules use for others
    Defect("security/tokens.py", "Principal(proved_name(name)", "Principal(checked_name(name)",
        by=("tests/unit/security/test_tokens.py",)),
    # what filters compute costs their owner nothing
    Defect("language/meter.py", "        return left >= 0\n", "        return True\n", by=COMPUTING),
    Defect("language/computing.py", "        count += _COSTS.get(type(node), NODE)\n", "        count += 1\n",
        by=COMPUTING),
    # ... and filters of links beyond their budget lose events
    Defect("protocol/interest.py", "        return sorted({*found, *links})\n", "        return found\n",
        by=COMPUTING),
    # bytes of a chunk or a frame each: all that was read is parsed in one turn
    Defect("gateway/paced.py", " and self._fairness.has_time(self._share):\n", ":\n", by=PACED),
    # ... and not charged to anybody
    Defect("gateway/paced.py", "            self._fairness.charge(self._share, took)\n", "", by=PACED),
    # a payload of MQTT goes a second time, in a header
    Defect("model/cloudevents.py", "    return read == _without_headers(event) and ",
        "    return read == event and ", by=("tests/gateway/test_webhook_requests.py",)),
    Defect("gateway/webhooks.py", "sum(map(len, headers.values())) > MOST_HEADERS:",
        "False:", by=("tests/gateway/test_webhook_requests.py",)),
    # a picture of any page commits a durable stream
    Defect("gateway/origins.py", "            return OTHER_SITE if self._is_foreign(headers) else \"\"\n",
        "            return \"\"\n", by=ORIGINS),
    # a client that is gone stops the writes of others
    Defect("gateway/mqtt/connection.py", "not self._is_over and not self._wire.is_closing():",
        "not self._is_over:", by=STREAMS),
    # a subscription of a kept session is at the broker before the file of sessions has it
    Defect("gateway/mqtt/session.py", "        if self.durable and not await write():\n",
        "        if False:\n", by=("tests/gateway/test_mqtt_written_ahead.py",)),
    # one that was to be replaced when the broker was killed stays
    Defect("gateway/mqtt/session.py", "        if kept.replaces is not None:\n", "        if False:\n",
        by=("tests/gateway/test_mqtt_written_ahead.py",)),
    # the will of a connected client is lost with the broker
    Defect("gateway/mqtt/listener.py",
        "        will = None if connect.will is None else StoredWill.of(connect.will)\n",
        "        will = None\n", by=("tests/chaos/test_mqtt_will_kill.py",)),
    # each life of the broker publishes a will again
    Defect("gateway/mqtt/listener.py", "            known.will = None\n            await self.is_written()\n",
        "            pass\n", by=("tests/chaos/test_mqtt_will_kill.py",)),
    # a SUBSCRIBE to many retained messages stops the others
    Defect("gateway/mqtt/pushes.py", "            if not count % SLICE and listener in self._flowing:\n",
        "            if False:\n", by=STREAMS),
    # a client of many short connections pays for no byte
    Defect("runtime/local_clients.py", "        self._charge_bytes()\n        ingress.close()\n",
        "        ingress.close()\n", by=("tests/unit/runtime/test_local_clients.py",)),
    # a small read clears what the ones before it are to pay
    Defect("runtime/local_clients.py", "        self._uncharged_bytes += received_bytes\n",
        "        self._uncharged_bytes = received_bytes\n",
        by=("tests/unit/runtime/test_local_clients.py",)),
    # two threads write the audit at once: lines twice, or an error that ends a connection
    Defect("runtime/audit_file.py", "        line = auditing.line(entry)\n        with self._lock:\n",
        "        line = auditing.line(entry)\n        if True:\n", by=AUDIT),
    # ... and count refusals at once
    Defect("security/audit.py", "        with self._lock:\n", "        if True:\n", by=AUDIT),
    # a defect of the audit ends connections
    Defect("runtime/secured.py", "        except Exception:\n            self._unwritten += 1\n",
        "        except SettingsError:\n            self._unwritten += 1\n", by=AUDIT),
    # after a rotation one file has the first part of a line, and the other the rest
    Defect("runtime/audit_file.py", "                    self._begun = 0\n",
        "                    pass\n", by=AUDIT),
    # a HEAD opens a stream and commits its events
    Defect("gateway/problems.py", "        if request.method != \"GET\":\n", "        if False:\n",
        by=("tests/gateway/test_confirming.py",)),
    # a client of this machine names the address that the audit shows, and says that it has TLS
    Defect("gateway/serving.py", "            proxy_headers=False,", "            proxy_headers=True,",
        by=("tests/gateway/test_guessing.py",)),
    # a page that was signed out goes on to show events
    Defect("console/sessions.py", "            end()\n", "            pass\n", by=CONSOLE),
    # a page that is looked at is signed out as the longest idle one
    Defect("console/sessions.py", "return self._now() if session.streams else session.seen_at",
        "return session.seen_at", by=CONSOLE),
    # anybody who may observe something is told that every property of the network holds
    Defect("console/queries.py", "self._observed(self._verdicts.answer, whole=True)",
        "self._observed(self._verdicts.answer)", by=CONSOLE),
    # a script of the console is known to one broker alone
    Defect("console/sessions.py", "Visitor(principal, _stated(request))", "Visitor(principal)",
        by=("tests/unit/console/test_network.py",)),
    # every property holds over an empty history
    Defect("console/verdict.py", "one.holds if chosen.rows else None", "one.holds", by=CONSOLE),
    # a device that is away is shown as connected
    Defect("gateway/mqtt/listener.py", "        peer_of(session.bus).leave()\n", "",
        by=("tests/gateway/test_presence.py",)),
    # publishes that come one by one are not counted for their client
    Defect("protocol/delivery/flow.py", "        session.published += 1\n", "",
        by=("tests/unit/runtime/test_administration.py",)),
    # a certificate that was taken back counts at a broker that has the folder's list
    Defect("runtime/authority.py", "settings.tls.revoked or not listed.exists()", "True",
        by=("tests/unit/runtime/test_revocation.py",)),
    # of two values of a parameter one is passed over
    Defect("gateway/problems.py", "        if name in seen:\n", "        if False:\n",
        by=("tests/gateway/test_refused_requests.py",)),
    # a search shows subscriptions of others to those who may see their own alone
    Defect("runtime/observing.py", "        if not (view.is_whole or view.subscription(id)):\n",
        "        if False:\n", by=("tests/unit/runtime/test_administration.py",)),
    # the journal of exchanges closes before a line that comes meanwhile
    Defect("gateway/mqtt/exchanges.py", "        while self._syncing is not None:\n            await",
        "        if self._syncing is not None:\n            await",
        by=("tests/gateway/test_exchanges.py",)),
)  # fmt: skip
