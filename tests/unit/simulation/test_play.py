"""Plays: every verb does what it says, and a bad line is named."""

from __future__ import annotations

import pytest

from tidings.simulation.play import PlayError, perform

OPENING = """
system siena
link b0 - b1 - b2
client alice at b0
client press at b2
"""


def test_the_verbs_of_clients() -> None:
    world = perform(
        OPENING
        + """
        subscribe alice cheap: price < 10   # a comment
        settle
        publish press price=7 symbol='IBM' flag=true
        publish press price=12.5
        settle
        expect alice receives 1
        unsubscribe alice cheap
        settle
        publish press price=7
        settle
        expect alice receives 1
        expect legality holds
        """
    )
    (received,) = world.applications["alice"].received
    assert received.event.attributes == {"price": 7, "symbol": "IBM", "flag": True}


def test_advertisements_and_options() -> None:
    world = perform(
        """
        system siena advertisements=true
        link b0 - b1
        client alice at b0
        client press at b1
        advertise press a: x > 0
        subscribe alice n: x > 5
        settle
        publish press x=9 topic=a/b key=k lifetime=5
        settle
        expect alice receives 1
        unadvertise press a
        settle
        publish press x=10
        settle
        expect alice receives 1
        """
    )
    event = world.applications["alice"].received[0].event
    assert (event.topic, event.key, event.lifetime) == ("a/b", "k", 5)


def test_crash_restart_and_durable_subscriptions() -> None:
    perform(
        """
        system intermediary
        client alice at b0
        client press at b0
        subscribe alice durable n: x > 0
        settle
        crash b0
        publish press x=1
        run 2
        expect alice receives nothing
        restart b0
        settle
        expect alice receives 1
        expect completeness holds
        """
    )


def test_a_broker_that_lost_its_disk_has_forgotten_its_events() -> None:
    for ending, count in (("", 1), ("without disk", "nothing")):
        perform(
            f"""
            system intermediary
            client press at b0
            publish press x=1 lifetime=1000
            settle
            crash b0
            settle
            restart b0 {ending}
            settle
            client alice at b0
            subscribe alice n: x > 0
            settle
            expect alice receives {count}
            """
        )


def test_stop_resume_partition_cut_slow_and_heal() -> None:
    perform(
        OPENING
        + """
        subscribe alice n: x > 0
        settle
        stop b1
        publish press x=1
        run 0.2
        expect alice receives nothing
        resume b1
        settle
        expect alice receives 1
        partition b0 | b1 b2
        run 0.1
        publish press x=2
        settle
        heal
        settle
        publish press x=3
        settle
        expect alice receives 2
        cut b1 -> b0
        publish press x=4
        settle
        heal
        settle
        expect alice receives 2
        slow b0 - b1 100
        publish press x=5
        run 0.5
        expect alice receives 2
        settle
        expect alice receives 3
        heal
        """
    )


def test_rates_latencies_and_late_clients() -> None:
    world = perform(
        """
        system network-of-servers fifo=true
        brokers b0 b1
        link b0 - b1 latency 2
        client alice at b0
        subscribe alice n: x > 0
        settle
        client press at b1
        publish press x=1
        run 1
        expect alice receives nothing
        run 2
        expect alice receives 1
        rate loss 1
        publish press x=2
        settle
        expect alice receives 1
        expect completeness fails
        """
    )
    assert world.simulation.fired == {"loss": 1}


BAD = {
    "juggle alice": r"line 6: 'juggle' is no verb of a play \(verbs: ",
    "subscrib alice n: x > 0": "did you mean subscribe",
    "subscribe alice n x > 0": "say: subscribe CLIENT",
    "subscribe nobody n: x > 0": "nobody is called 'nobody'",
    "subscribe alice n: x >": "line 6",
    "publish nobody x=1": "nobody is called",
    "client bob near b0": "say: client NAME at BROKER",
    "client bob at b9": "no such broker",
    "link b0": "a link joins two brokers",
    "rate gravity 1": "line 6",
    "rate loss 7": "loss is 7",
    "partition b0 b1": "say: partition SOME",
    "cut b0 b1": "line 6",
    "slow b0 - b1 fast": "line 6",
    "crash b7": "nobody is called 'b7'",
    "run soon": "line 6",
    "system siena": "before anything happens",
    "expect alice sees 1": "say: expect CLIENT receives N",
    "expect alice receives 3": "alice received 0: nothing",
    "expect alice receives": "line 6",
    "expect alice": "line 6",
    "expect wisdom holds": "line 6",
    "expect legality fails": "legality is True",
    "unsubscribe alice": "line 6",
    "advertise alice": "line 6",
    "advertise nobody a: x > 0": "nobody",
    "run 1e999": "a run of inf seconds",
    "run -1": "from 0 to",
    "settle nan": "a run of nan seconds",
}


@pytest.mark.parametrize("line", BAD)
def test_a_bad_line_is_named(line: str) -> None:
    """The fifth line lets something happen, the sixth is the bad one."""
    with pytest.raises(PlayError, match=BAD[line]) as caught:
        perform(OPENING.lstrip() + "settle\n" + line)
    assert "line 6" in str(caught.value)
