"""Defects in the reading and answering of web connections, each with the tests that have to notice."""

from __future__ import annotations

from tests.mutation._suites import ORIGINS, PACED, STREAMS, Defect

WEB = (
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
    Defect("gateway/mqtt/connection.py", " and not self._wire.is_closing():", ":", by=STREAMS),
)  # fmt: skip
