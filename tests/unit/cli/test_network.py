"""`cluster`, `pub`, `sub`, `top` and `trace` on three broker processes."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tidings.testing.processes import PATIENCE, Process, is_running, started

Run = Callable[..., Any]
pytestmark = pytest.mark.xdist_group("brokers")


class Network:
    def __init__(self, up: dict[str, Any]) -> None:
        self.address = up["address"]
        self.brokers = up["brokers"]

    def at(self, number: int) -> tuple[str, str]:
        """The option that names a broker."""
        return "--broker", self.brokers[number]["address"]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    store = str(tmp_path_factory.mktemp("store"))
    with started("cluster", "up", "3", "--port", "0", "--store", store, "--json") as cluster:
        yield Network(cluster.row())


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("TIDINGS_"):
            monkeypatch.delenv(name)


@contextmanager
def listening(network: Network, *words: str) -> Iterator[Process]:
    """A subscriber at the second broker that stands."""
    with started("sub", *network.at(1), *words) as process:
        process.until_said("listening as")
        yield process


def in_order(rows: list[dict[str, Any]]) -> list[Any]:
    return [row["n"] for row in rows]


def test_events_cross_the_network_from_arguments_files_and_standard_input(
    network: Network, tidings: Run, tmp_path: Path
) -> None:
    """Two hops: the subscriber is at the second broker, the publisher at the third."""
    file = tmp_path / "events.jsonl"
    cloud = {
        "specversion": "1.0",
        "id": "c1",
        "source": "market",
        "type": "Quote",
        "data": {"n": 3, "crossing": True},
    }
    file.write_text('{"n": 2, "crossing": true, "topic": "a/b"}\n' + json.dumps(cloud) + "\n")
    lifetime = ("--lifetime", "60")
    sent = tidings("pub", *network.at(2), "n=1", "crossing=true", "who=Ann B", *lifetime, "--json")
    assert sent.code == 0, sent.err
    assert sent.rows[0]["position"]["log"].startswith("b3")
    assert tidings("pub", *network.at(2), "--file", str(file), *lifetime).code == 0
    typed = tidings("pub", *network.at(2), *lifetime, stdin='{"n": 4, "crossing": true, "id": "own"}\n')
    assert "published 1 event" in typed.err
    received = tidings("sub", *network.at(1), "-w", "crossing", "--count", "4", "--wait", "20", "--json")
    assert received.code == 0, received.err
    assert in_order(received.rows) == [1, 2, 3, 4]
    assert received.rows[0]["who"] == "Ann B"
    assert received.rows[1]["topic"] == "a/b"
    assert (received.rows[2]["source"], received.rows[2]["id"], received.rows[2]["type"]) == (
        "market",
        "c1",
        ["Quote"],
    )
    assert received.rows[3]["id"] == "own"


def test_what_sub_prints_pub_reads(network: Network, tidings: Run) -> None:
    tidings("pub", *network.at(0), "n=1", "again=1", "--topic", "x/y", "--lifetime", "60", "--type", "T")
    plain = tidings("sub", *network.at(0), "-w", "again = 1", "--count", "1", "--wait", "20", "--json")
    cloud = tidings("sub", *network.at(0), "-w", "again = 1", "--count", "1", "--wait", "20", "--cloudevents")
    assert cloud.rows[0]["specversion"] == "1.0"
    for printed in (plain, cloud):
        row = {**printed.rows[0], "id": f"copy-{'specversion' in printed.rows[0]}", "source": "cli"}
        assert tidings("pub", *network.at(0), "--lifetime", "60", stdin=json.dumps(row)).code == 0
    back = tidings("sub", *network.at(2), "-w", "again = 1", "--count", "3", "--wait", "20", "--json").rows
    assert {(row["n"], row["topic"], tuple(row["type"])) for row in back} == {(1, "x/y", ("T",))}
    assert len(back) == 3


def test_a_line_that_would_lose_an_attribute_is_refused_as_a_whole(network: Network, tidings: Run) -> None:
    cloud = {
        "specversion": "1.0",
        "id": "whole-c",
        "source": "s",
        "type": "T",
        "data": {"tags": ["a"], "whole": 3},
    }
    rows = [
        '{"whole": 1, "tags": ["a", NaN]}',
        '{"whole": NaN}',
        '{"whole": 2, "type": ["T", "U"]}',
        json.dumps(cloud),
    ]
    ran = tidings("pub", *network.at(0), "--lifetime", "60", stdin="\n".join(rows))
    assert ran.code == 2
    assert "standard input, line 1: attribute 'tags' is NaN" in ran.err
    assert "standard input, line 2: attribute 'whole' is NaN" in ran.err
    assert "published 2 events" in ran.err
    assert "2 could not be published" in ran.err
    words = ("-w", "EXISTS whole", "--count", "2", "--wait", "20", "--cloudevents")
    received = tidings("sub", *network.at(0), *words).rows
    assert [row["data"]["whole"] for row in received] == [2, 3]
    assert received[1]["data"]["tags"] == ["a"], "the data of a CloudEvent is published as it is"


def test_text_that_was_warned_of_is_published_as_text(network: Network, tidings: Run) -> None:
    ran = tidings("pub", *network.at(0), "misspelt=True", "--lifetime", "60")
    assert ran.code == 0
    assert "as JSON it is misspelt=true" in ran.err
    words = ("-w", "misspelt = 'True'", "--count", "1", "--wait", "20", "--json")
    assert tidings("sub", *network.at(0), *words).rows[0]["misspelt"] == "True"


def test_a_line_that_is_no_event_is_named_and_the_others_are_published(
    network: Network, tidings: Run
) -> None:
    lines = '{"n": 1}\nnot json\n{"id": 5, "topic": 7}\n{"n": 2}\n'
    ran = tidings("pub", *network.at(0), stdin=lines)
    assert ran.code == 2
    assert "standard input, line 2: not JSON" in ran.err
    assert "standard input, line 3: 'topic' is a number" in ran.err
    assert "published 2 events" in ran.err
    assert "2 could not be published" in ran.err
    assert tidings("pub", *network.at(0), "no-equals-sign").code == 2
    assert tidings("pub", *network.at(0), "a=1", "--lifetime", "soon").code == 2


def test_live_events_are_printed_as_they_come(network: Network, tidings: Run) -> None:
    with listening(network, "--where", "live = 1", "--where", "live = 2") as subscriber:
        tidings("pub", *network.at(1), "live=1", "id=l1")
        tidings("pub", *network.at(1), "live=3")
        tidings("pub", *network.at(1), "live=2", "id=l2", "--topic", "t")
        assert subscriber.line() == 'l1 {"live": 1}'
        assert subscriber.line() == 'l2 t {"live": 2}'
        subscriber.signal(signal.SIGINT)
        assert subscriber.ended() == 130


def test_a_durable_subscription_is_kept_and_ended(network: Network, tidings: Run) -> None:
    durable = ("--as", "kept", "--durable", "-w", "kept > 0", "--json")
    assert tidings("sub", *network.at(1), *durable, "--wait", "0.2").code == 1  # nothing came
    for n in (1, 2):
        assert tidings("pub", *network.at(1), f"kept={n}").code == 0
    assert [
        row["kept"] for row in tidings("sub", *network.at(1), *durable, "--count", "1", "--wait", "20").rows
    ] == [1]
    assert [
        row["kept"] for row in tidings("sub", *network.at(1), *durable, "--count", "1", "--wait", "20").rows
    ] == [2]
    assert tidings("sub", *network.at(1), "--as", "kept", "--end").code == 0
    assert tidings("sub", *network.at(1), "--durable").code == 2  # needs a name


def test_an_infinity_ends_no_subscriber(network: Network, tidings: Run) -> None:
    durable = ("--as", "endless", "--durable", "-w", "d > 5 OR a.d < -5", "--wait", "20", "--count")
    assert tidings("sub", *network.at(1), *durable[:-1], "--wait", "0.2").code == 1  # nothing came
    assert tidings("pub", *network.at(1), "d=1e400", "id=i1").code == 0
    assert tidings("pub", *network.at(1), stdin='{"id": "i2", "a": {"d": -1e400}}\n').code == 0
    text = tidings("sub", *network.at(1), *durable, "1")
    assert (text.code, text.out) == (0, 'i1 {"d": null, "kinds": {"d": "inf"}}\n')
    stated = tidings("sub", *network.at(1), *durable, "1", "--json")
    assert stated.code == 0
    assert (stated.rows[0]["a"], stated.rows[0]["kinds"]) == ({"d": None}, {"a.d": "-inf"})
    assert tidings("match", "--where", "a.d < -5", stdin=stated.out).out == stated.out  # it reads back
    assert tidings("sub", *network.at(1), "--as", "endless", "--end").code == 0


def test_top_shows_every_broker(network: Network, tidings: Run) -> None:
    for _ in range(100):  # on a busy machine a link may just be made anew
        (found,) = tidings("top", *network.at(2), "--once", "--json").rows
        if set(found["brokers"][1]["links"]) == {"b2", "b3"}:
            break
    assert [one["broker"] for one in found["brokers"]] == ["b3", "b1", "b2"]
    assert set(found["brokers"][1]["links"]) == {"b2", "b3"}
    assert "published" in tidings("top", *network.at(0), "--once").out


def test_top_fits_80_columns(network: Network, tidings: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = tidings("top", *network.at(0), "--once").out.splitlines()
    assert all(len(line) <= 80 and "…" not in line for line in lines)
    head = lines[0].split()
    assert {"broker", "published", "delivered", "subs", "waiting", "p99", "links"} <= set(head)
    monkeypatch.setenv("COLUMNS", "140")
    assert "refused" in tidings("top", *network.at(0), "--once").out


def test_one_event_has_its_id_by_option_and_it_is_printed(network: Network, tidings: Run) -> None:
    words = ("pub", *network.at(0), "named=1", "--id", "quote-17", "--lifetime", "60")
    assert "published 1 event, quote-17" in tidings(*words).err
    assert tidings(*words).code == 0, "sent again, it is the same event"
    tidings("pub", *network.at(0), "named=1", "last=true", "--lifetime", "60")
    received = tidings("sub", *network.at(0), "-w", "named = 1", "--count", "2", "--wait", "20", "--json")
    assert received.rows[0]["id"] == "quote-17"
    assert received.rows[1]["last"] is True
    refused = tidings("pub", *network.at(0), "--id", "x", stdin='{"n": 1}\n')
    assert refused.code == 2
    assert "names one event" in refused.err
    with started("top", *network.at(0), "--every", "0.1", "--json") as live:
        assert live.row()["brokers"]
        assert live.row()["brokers"]


def test_trace_tells_the_way_and_why_not(network: Network, tidings: Run) -> None:
    with listening(network, "--where", "traced < 0", "--as", "watch", "--name", "ann") as subscriber:
        tidings("pub", *network.at(1), "traced=-1", "id=heard")
        tidings("pub", *network.at(2), "traced=1", "id=unheard")
        subscriber.line()
        (delivered,) = tidings("trace", "heard", *network.at(0), "-s", "ann/watch", "--json").rows
        steps = {one["broker"]: [step["what"] for step in one["steps"]] for one in delivered["brokers"]}
        # a link that has not said yet what it wants is sent everything
        assert [step for step in steps["b2"] if step != "sent"] == ["published", "delivered"]
        assert "handed over" in delivered["verdict"]
        ran = tidings("trace", "unheard", *network.at(0), "--subscription", "ann/watch")
        assert "published by cli#" in ran.out
        assert "no  traced < 0: 1 (out of range)" in ran.out
        assert "ann/watch at b2: its filter does not accept the event" in ran.out
        assert "no broker that was asked holds the subscription ann/none" in (
            tidings("trace", "heard", *network.at(0), "--subscription", "ann/none").out
        )
        assert tidings("trace", "never", *network.at(0)).code == 1


@pytest.mark.parametrize(
    "command", [("pub", "a=1"), ("sub",), ("top", "--once"), ("trace", "x")], ids=" ".join
)
def test_no_broker_there_says_what_to_do(command: tuple[str, ...], tidings: Run) -> None:
    ran = tidings(*command, "--broker", "127.0.0.1:1", "--timeout", "0.3")
    assert ran.code == 3
    assert "is it running, and is this its address?" in ran.err
    assert tidings(*command, "--broker", "http://x").code == 2


# -- the cluster itself ----------------------------------------------------------------------------


def gone(pids: list[int]) -> bool:
    for _ in range(int(PATIENCE * 100)):
        if not any(map(is_running, pids)):
            return True
        threading.Event().wait(0.01)
    return False


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])
def test_a_cluster_ends_with_its_command(how: signal.Signals) -> None:
    with started("cluster", "up", "2", "--port", "0", "--json") as cluster:
        pids = [broker["process"] for broker in cluster.row()["brokers"]]
        assert all(map(is_running, pids))
        cluster.signal(how)
        assert cluster.ended() == (0 if how is signal.SIGINT else -how)
        assert gone(pids)
        assert not [line for line in cluster.said if "Traceback" in line or "Fatal" in line]


def test_a_broker_that_is_killed_is_named_and_started_again_while_the_others_go_on(
    tidings: Run, tmp_path: Path
) -> None:
    words = ("cluster", "up", "2", "--port", "0", "--store", str(tmp_path), "--restart", "0.1", "--json")
    with started(*words) as cluster:
        first, second = cluster.row()["brokers"]
        kept = tidings("pub", "--broker", second["address"], "n=1", "--lifetime", "60")
        assert kept.code == 0, kept.err
        os.kill(second["process"], signal.SIGKILL)
        cluster.until_said("broker b2 was ended by SIGKILL; it is started again in 0.1 s, the others go on")
        assert tidings("pub", "--broker", first["address"], "n=2").code == 0
        cluster.until_said(f"broker b2 is back at {second['address']}")
        received = tidings("sub", "--broker", second["address"], "--count", "1", "--wait", "20", "--json")
        assert in_order(received.rows) == [1], "it is back on its disk"
        assert cluster.process.poll() is None


def test_a_cluster_reads_settings_from_the_environment_and_says_which_do_not_count() -> None:
    environment = {
        "TIDINGS_GATEWAY_HTTP": "127.0.0.1:0",
        "TIDINGS_TRACE_EVENTS": "7",
        "TIDINGS_LISTEN": "127.0.0.1:1",
    }
    with started("cluster", "up", "2", "--port", "0", "--json", **environment) as cluster:
        first, second = cluster.row()["brokers"]
        assert first["gateways"]["http"].startswith("http://127.0.0.1:")
        assert second["gateways"] == {}, "doors are opened at the first broker"
        assert first["address"] != "tidings://127.0.0.1:1"
        cluster.until_said("TIDINGS_LISTEN does not count here")


# -- a broker for development ------------------------------------------------------------------------


def test_development_brokers_make_a_network_and_say_what_they_are(tidings: Run) -> None:
    one = ("broker", "--dev", "--json", "--name", "b1", "--listen", "127.0.0.1:0")
    with started(*one) as first:
        at = first.row()["address"]
        first.until_said("every process on this machine may use this broker; loopback only, no TLS")
        two = ("broker", "--dev", "--json", "--name", "b2", "--listen", "127.0.0.1:0", "--join", at)
        with started(*two) as second:
            there = second.row()["address"]
            assert tidings("pub", "--broker", at, "n=1", "--lifetime", "60").code == 0
            received = tidings("sub", "--broker", there, "--count", "1", "--wait", "20", "--json")
            assert in_order(received.rows) == [1]
            assert not [line for line in second.said if "certificate" in line]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("--dev", "--listen", "0.0.0.0:0"), "listen at 127.0.0.1"),
        (("--dev", "--http", "0.0.0.0:0"), "listen at 127.0.0.1"),
        (("--dev", "--users", "users.toml"), "leave out --dev"),
        (("--dev", "--certs", "certs"), "leave out --dev"),
        (("--users", "users.toml", "--join", "127.0.0.1:7117"), "--certs DIR"),
        ((), "tidings broker --dev"),
    ],
    ids=["open to others", "metrics", "users", "TLS", "no certificates", "no users"],
)
def test_what_a_broker_cannot_be_is_refused_with_the_way_out(
    words: tuple[str, ...], hint: str, tidings: Run
) -> None:
    ran = tidings("broker", "--name", "b1", *words)
    assert ran.code == 2
    assert hint in " ".join(ran.err.split())
