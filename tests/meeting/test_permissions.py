"""Every way between brokers and Spark asks the same rules: attempts to get around them, one by one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
pytest.importorskip("pyarrow", reason="pyarrow is not installed")
import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadAllAvailable
from tests.meeting._brokers import Brokers
from tests.meeting._schema import schema

import tidings
from tidings.errors import RefusedError, TidingsError
from tidings.model.event import FOREVER
from tidings.pipeline.broker import options, sink
from tidings.pipeline.broker.archiving import Archiver
from tidings.pipeline.broker.source import BrokerBatchReader, BrokerStreamReader
from tidings.runtime.service import Service
from tidings.runtime.settings import read_settings
from tidings.security.credentials import PasswordCredentials
from tidings.security.scram import make_key

USERS = """
[users.market]
password = "KEY"
names = ["spark"]

[users.ann]
password = "KEY"
filter = "region = 'eu'"
quota = { subscriptions = 2 }

[users.thief]
password = "KEY"
quota = { stored_bytes = 2000 }

[users.tenant]
password = "KEY"
tenant = "acme"

[users.keeper]
password = "KEY"

[[allow]]
who = "market"
action = ["publish", "subscribe"]
[[allow]]
who = "keeper"
action = ["subscribe", "release"]
[[allow]]
who = "ann"
action = "subscribe"
filter = "topic = 'quotes/#'"
[[allow]]
who = "thief"
action = ["publish", "subscribe"]
filter = "topic = 'own/#'"
[[allow]]
who = "tenant"
action = ["publish", "subscribe"]
"""
SCHEMA = schema("n bigint, topic string, region string")


class Secured(Brokers):
    """One broker with a users file and an archive."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, 0)
        self.folder = folder

    def __enter__(self) -> Secured:
        super().__enter__()
        (self.folder / "password").write_text("pencil")
        (self.folder / "users.toml").write_text(
            USERS.replace("KEY", str(make_key("pencil", iterations=4096)))
        )
        fields = {
            "name": "b1", "listen": "127.0.0.1:0", "store": str(self.folder / "b1"), "log.level": "error",
            "security.users": str(self.folder / "users.toml"), "archive": str(self.folder / "archive"),
            "security.audit": str(self.folder / "audit"),
        }  # fmt: skip

        async def begin() -> Service:
            return await Service(read_settings(fields=fields)).__aenter__()

        self.service = self.call(begin())
        self.addresses.append(self.service.server.address)
        return self

    def __exit__(self, *error: Any) -> None:
        from tidings.pipeline.broker.lines import close_lines

        close_lines()
        for bus in self._buses:
            bus.close()
        self._buses.clear()
        self.call(self.service.__aexit__())
        super().__exit__(*error)

    def bus(self, number: int, name: str, **given: Any) -> Any:
        bus = tidings.open(
            self.addresses[0], name=name, credentials=PasswordCredentials(name, "pencil"), **given
        )
        self._buses.append(bus)
        return bus

    def options(self, user: str, **more: str) -> dict[str, str]:
        return {"brokers": self.all, "user": user, "passwordFile": str(self.folder / "password"), **more}

    def batch(self, user: str, **more: str) -> list[int]:
        reader = BrokerBatchReader(options.reading(self.options(user, **more)), SCHEMA)
        rows = [row for part in reader.partitions() for some in reader.read(part) for row in some.to_pylist()]
        return sorted(row["n"] for row in rows)


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Secured]:
    with Secured(tmp_path) as brokers:
        yield brokers


def publish_all(secured: Secured) -> None:
    market = secured.bus(0, "market")
    for n, (topic, region) in enumerate(
        [("quotes/a", "eu"), ("quotes/a", "us"), ("payroll", "eu"), ("own/x", "us")]
    ):
        market.publish({"n": n, "region": region}, topic=topic, lifetime=FOREVER)


def test_a_source_reads_what_its_principal_may_hear_and_nothing_else(secured: Secured) -> None:
    publish_all(secured)
    assert secured.batch("market") == [0, 1, 2, 3]
    assert secured.batch("ann") == [0]
    assert secured.batch("ann", filter="n >= 0 OR region = 'us' OR TRUE") == [0]
    assert secured.batch("thief") == [3]
    assert secured.batch("tenant") == []
    with pytest.raises(RefusedError, match="may subscribe nothing of"):
        secured.batch("ann", filter="region = 'us'")


def test_whole_pages_of_the_log_are_not_for_those_with_a_filter(secured: Secured) -> None:
    publish_all(secured)
    for name in ("ann", "thief", "tenant"):
        with pytest.raises(RefusedError, match="for principals who may receive everything"):
            secured.bus(0, name).inquire("log", after=0, upto=10)
    assert secured.bus(0, "market").inquire("log", after=0, upto=10)["upto"] == 10


def test_a_stream_holds_and_reads_only_what_it_may(secured: Secured) -> None:
    reader = BrokerStreamReader(options.reading(secured.options("ann", reader="r")), SCHEMA)
    start = reader.initialOffset()
    market = secured.bus(0, "market")
    for n, region in enumerate(["us", "eu", "us"]):
        market.publish({"n": n, "region": region}, topic="quotes/a")
    end = reader.latestOffset(start, ReadAllAvailable())
    rows = [row for part in reader.partitions(start, end) for b in reader.read(part) for row in b.to_pylist()]
    assert [row["n"] for row in rows] == [1]
    assert list(end["logs"].values()) == [1], "what ann may not hear is not even kept for her"


def test_holds_count_against_the_quota_of_subscriptions(secured: Secured) -> None:
    ann = secured.bus(0, "ann")
    for name in ("one", "two"):
        ann.hold_log(name)
    with pytest.raises(TidingsError, match="subscriptions"):
        ann.hold_log("three")
    ann.end_hold("two")
    ann.hold_log("three")


def test_names_of_holds_and_queries_are_a_principals_own(secured: Secured) -> None:
    market, thief = secured.bus(0, "market"), secured.bus(0, "thief")
    market.hold_log("r")
    market.publish({"n": 1}, topic="payroll")
    assert thief.hold_log("r", upto=1).is_new, "another's hold cannot be moved"
    thief.end_hold("r")
    assert not market.hold_log("r").is_new
    market.stage("q", 0, 0, [])
    market.commit_staged("q", 0, 1)
    assert (market.committed("q"), thief.committed("q")) == (0, -1)


def writer(secured: Secured, user: str, **more: str) -> sink.BrokerBatchWriter:
    given = secured.options(user, **more)
    return sink.BrokerBatchWriter(options.writing(given))


def rows(*some: dict[str, Any]) -> Iterator[Any]:
    yield pa.RecordBatch.from_pylist(list(some))


@pytest.mark.parametrize(
    ("user", "row", "problem"),
    [
        ("ann", {"topic": "quotes/a"}, "ann may not publish"),
        ("thief", {"topic": "quotes/a"}, "thief may not publish"),
        ("thief", {"topic": "own/x", "source": "market"}, "source"),
        ("tenant", {"topic": "t", "tenant": "other"}, "says that it is of tenant 'other'"),
        ("thief", {"topic": "own/x", "_lifetime": FOREVER, "_payload": b"x" * 3000}, "stored"),
    ],
    ids=["no right", "another topic", "another's name", "another tenant", "quota"],
)
def test_a_sink_publishes_what_its_principal_may_or_nothing(
    secured: Secured, user: str, row: dict[str, Any], problem: str
) -> None:
    made = writer(secured, user)
    fine = {"topic": "own/x", "n": 1}
    with pytest.raises(TidingsError, match=problem):
        made.write(rows({**fine, "source": None, "_lifetime": 0.0, "_payload": None, "tenant": None}, row))
    made.commit([])
    assert secured.bus(0, "market").read_log().entries == ()


def test_a_tenants_rows_are_marked_as_its_own(secured: Secured) -> None:
    made = writer(secured, "tenant", lifetime="60")
    made.commit([made.write(rows({"n": 1}))])
    assert secured.batch("tenant") == [1]
    (entry,) = secured.bus(0, "market").read_log().entries
    assert entry.event["tenant"] == "acme"


def test_the_archive_is_no_way_around_the_rules(secured: Secured) -> None:
    publish_all(secured)
    with pytest.raises(RefusedError, match="market may not have the log forget"):
        Archiver(secured.folder / "archive", secured.options("market"), release=True).run_once()
    Archiver(secured.folder / "archive", secured.options("keeper"), release=True).run_once()
    received: dict[str, list[int]] = {}
    for name, count in (("market", 4), ("ann", 1), ("thief", 1)):
        with secured.bus(0, name).subscribe("n >= 0", since="forever") as news:
            received[name] = sorted(news.get(timeout=120)["n"] for _ in range(count))
            with pytest.raises(TimeoutError):
                news.get(timeout=0.2)
    assert received == {"market": [0, 1, 2, 3], "ann": [0], "thief": [3]}
    with pytest.raises(RefusedError):
        secured.bus(0, "ann").inquire("archive", filter="region = 'us'", after={}, upto={"x": 1})
    with pytest.raises(TidingsError, match="the archive cannot be asked this"):
        secured.bus(0, "ann").inquire("archive", path="/elsewhere")


def test_what_observes_stays_closed(secured: Secured) -> None:
    for what in ("figures", "subscriptions", "trace"):
        with pytest.raises(RefusedError, match="may not observe"):
            secured.bus(0, "market").inquire(what)
