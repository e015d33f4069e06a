"""Advice on the product's own systems: the source, the case for it, and its price. `tidings systems NAME`
shows it, and `make docs` writes a page of it, with the system's cost on a common load.
"""

from __future__ import annotations

from tidings.systems.system import Choice

THESIS = "Virgillito 2003"
FORMAL = "Baldoni, Contenti, Tucci Piergiovanni and Virgillito 2002"
GOSSIP = "Baehni, Eugster and Guerraoui 2004"
GROUPS = "Mathur, Hall, Jahanian, Prakash and Rasmussen 1995"

CHOICES: dict[str, Choice] = {
    "tidings": Choice(
        f"our own; its parts are from {THESIS}, 2.4 and 2.5, and {FORMAL}",
        "you have no reason to take another: events are kept until all their subscribers have them",
        "a log and acknowledgements: more messages without events than any system that forgets",
        "docs/brokers.md",
        "tidings broker",
    ),
    "intermediary": Choice(
        f"{FORMAL}, section 5",
        "one broker is enough",
        "one machine, one point of failure",
        "docs/availability.md",
        "in a program: `tidings.connect()`",
    ),
    "socbr": Choice(
        f"{THESIS}, chapter 4",
        "interests differ from place to place and stay for a while",
        "locks and searches while links are exchanged; narrow subscriptions can get longer ways",
        "docs/rearranging.md",
    ),
    "pbsocbr": Choice(
        f"{THESIS}, 4.4",
        "interests differ from place to place, and a link across the world costs more than one "
        "across the street",
        "saves fewer hops than links that go anywhere",
        "docs/rearranging.md",
    ),
    "fewer-hops": Choice(
        f"our own, from {THESIS}, chapter 4",
        "rates differ, and what counts is how many links events cross",
        "brokers count what they forward, by neighbour",
        "docs/rearranging.md",
    ),
    "damulticast": Choice(
        f"{GOSSIP}, sections 3 and 4",
        "topics form a tree, there are no brokers, and peers may join and leave at any time",
        "delivery is probable; each event is sent several times over",
        "docs/gossip.md",
        "tidings peer --topic a/b",
    ),
    "gossip-broadcast": Choice(
        f"{GOSSIP}, section 5.5",
        "nearly all peers want nearly all events",
        "every peer handles every event",
        "docs/gossip.md",
        'in a program: `PeerBroker(system="gossip-broadcast")`',
    ),
    "tidings-group": Choice(
        f"our own, from {GROUPS}",
        "no acknowledged event may be lost with a disk: a majority holds it first",
        "a majority must answer each publish; every member holds everything",
        "docs/distributors.md",
        "tidings broker --group NAME --members A,B,C",
    ),
}
