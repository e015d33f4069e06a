"""Subscriptions that are stated to brokers by publishing them: changed, replaced, withdrawn,
between batches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
pytest.importorskip("pyarrow", reason="pyarrow is not installed")
from tests.meeting._brokers import Brokers

from tidings.errors import SettingsError
from tidings.model.event import FOREVER
from tidings.pipeline.broker.flow import BrokerSubscribers, StatedSubscriptions
from tidings.pipeline.flows import read_flow


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Brokers]:
    with Brokers(tmp_path, 2) as brokers:
        yield brokers


def state(bus: object, name: str, filter: str | None) -> None:
    fields = {"name": name} if filter is None else {"name": name, "filter": filter}
    bus.publish(fields, topic="subscriptions/prices", key=f"{bus.name}/{name}", lifetime=FOREVER)  # type: ignore[attr-defined]


def test_what_is_stated_counts_from_the_next_batch_on(two: Brokers, tmp_path: Path) -> None:
    ann, bob = two.bus(0, "ann"), two.bus(1, "bob")
    settings = BrokerSubscribers(brokers=two.all, compiled=str(tmp_path / "compiled"))
    stored = StatedSubscriptions(settings)
    assert stored.current().about.subscriptions == 0
    state(ann, "dear", "price > 100")
    state(bob, "cheap", "price < 1")
    state(bob, "wrong", "price >")
    second = stored.current()
    assert (second.number, second.about.subscriptions, second.about.rejected) == (2, 2, 1)
    assert stored.current().number == 2, "nothing changed"
    state(ann, "dear", "price > 200")
    state(bob, "cheap", None)
    state(bob, "wrong", None)
    assert (stored.current().number, stored.current().about.subscriptions) == (3, 1)
    again = StatedSubscriptions(settings)  # the flow was restarted
    assert again.current().number == 3


FLOW = """
name = "alerts"
checkpoint = "state"
[sources.prices]
kind = "broker"
brokers = "127.0.0.1:1"
reader = "alerts"
columns = "price double"
[subscriptions.users]
kind = "broker"
brokers = "127.0.0.1:1"
[matches.all]
events = "prices"
subscriptions = "users"
[sinks.out]
kind = "broker"
of = "all"
broker = "127.0.0.1:1"
"""


def test_a_flow_names_brokers_and_slips_are_told_with_their_line(tmp_path: Path) -> None:
    file = tmp_path / "flow.toml"
    file.write_text(FLOW)
    flow = read_flow(file)
    assert flow.subscriptions["users"].settings.compiled == str(tmp_path / "subscriptions")
    assert flow.sinks["out"].settings.topic == "alerts/{subscriber}"
    file.write_text(FLOW.replace("reader =", "raeder ="))
    with pytest.raises(SettingsError, match=r"flow.toml:7: \[sources.prices\] unknown key 'raeder'"):
        read_flow(file)
