"""COS-1: subscription forwarding on one unrooted tree (Costa et al. 2003, section 2 and Figure 1)."""

from __future__ import annotations

from random import Random

from tidings.simulation.topology import hops_from, random_tree
from tidings.testing.trial import Trial, everybody_leaves

PATTERNS = ["p = 'black'", "p = 'gray'", "p = 'white'"]


def behind(trial: Trial, broker: str, link: str) -> set[str]:
    """The brokers that `broker` reaches through `link`."""
    table = {name: list(near) for name, near in trial.overlay.neighbours().items()}
    table[link].remove(broker)
    return set(hops_from(table, link))


def judge_tables(trial: Trial) -> None:
    """(a) The table of every dispatcher is what the tree and the subscriptions say."""
    for broker, node in trial.world.nodes():
        for link in trial.overlay.neighbours()[broker]:
            wanted = {
                filter
                for (who, _), filter in trial.active.items()
                if trial.at[who] in behind(trial, broker, link)
            }
            assert {filter.text for filter in node.slots["routing"].interest(link)} == wanted


def test_cos_1_tables_and_deliveries_equal_the_oracle_through_random_changes() -> None:
    for seed in range(5):
        rng = Random(seed)
        trial = Trial("subscription-forwarding", random_tree(10, rng, fan_out=4), seed=seed)
        clients = [trial.client(f"c{k}", broker) for k, broker in enumerate(trial.overlay.brokers)]
        for number in range(25):
            if trial.active and rng.random() < 0.4:
                trial.unsubscribe(*rng.choice(sorted(trial.active)))
            else:
                trial.subscribe(rng.choice(clients), f"n{number}", rng.choice(PATTERNS))
            trial.settle()
            judge_tables(trial)
            event = {"p": rng.choice(["black", "gray", "white"])}
            client, before = rng.choice(clients), trial.messages()
            trial.publish(client, event)
            trial.settle()
            hops = (trial.messages() - before)["Forward"]
            assert hops == len(trial.subtree({trial.at[client], *trial.takers(event)}))  # (c)
        trial.judge()
        everybody_leaves(trial)
        assert set(trial.routing_tables().values()) == {0}  # (d)


def test_cos_1_figure_1_two_hold_black_and_one_holds_gray() -> None:
    trial = Trial("subscription-forwarding", random_tree(8, Random(2), fan_out=3))
    for name, broker in (("s1", "b2"), ("s2", "b5"), ("s3", "b7"), ("press", "b0")):
        trial.client(name, broker)
    trial.subscribe("s1", "n", PATTERNS[0])
    trial.settle()
    first = trial.messages()["Interest"]
    trial.subscribe("s2", "n", PATTERNS[0])
    trial.settle()
    assert trial.messages()["Interest"] - first == len(trial.subtree({"b2", "b5"}))  # (b)
    trial.subscribe("s3", "n", PATTERNS[1])
    trial.settle()
    judge_tables(trial)
    trial.publish("press", {"p": "gray"})
    trial.settle()
    trial.judge()
    assert trial.messages()["Forward"] == len(trial.subtree({"b0", "b7"}))
