"""Advice on the published systems: the source, the case for it, and its price."""

from __future__ import annotations

from tidings.systems.system import Choice

THESIS = "Virgillito 2003"
FORMAL = "Baldoni, Contenti, Tucci Piergiovanni and Virgillito 2002"
EPIDEMIC = "Costa, Migliavacca, Picco and Cugola 2003"
GOSSIP = "Baehni, Eugster and Guerraoui 2004"
GROUPS = "Mathur, Hall, Jahanian, Prakash and Rasmussen 1995"

CHOICES: dict[str, Choice] = {
    "network-of-servers": Choice(
        f"{FORMAL}, section 5",
        "subscriptions change faster than events come, or links form cycles on purpose",
        "every event crosses every link, wanted or not",
        "lab/docs/surveyed.md",
    ),
    "siena": Choice(
        f"{THESIS}, 2.5.4",
        "many subscriptions are alike, and a lost event does no harm",
        "what is on its way when a link fails is lost; a cancelled filter may bring back those "
        "that it covered",
        "lab/docs/surveyed.md",
    ),
    "siena-hierarchical": Choice(
        f"{THESIS}, 2.5.4",
        "brokers form a company's hierarchy, and most events concern those above",
        "every event climbs to the top, which is the bottleneck",
        "lab/docs/surveyed.md",
    ),
    "subscription-forwarding": Choice(
        f"{EPIDEMIC}, section 2.1",
        "you study recovery, and want the plain thing beneath it",
        "every subscription is forwarded, covered or not",
        "lab/docs/recovery.md",
    ),
    "all-brokers": Choice(
        f"{THESIS}, 2.4.5",
        "there are few subscriptions, they seldom change, and an event should be matched once",
        "every broker holds every subscription",
        "lab/docs/surveyed.md",
    ),
    "partitioned": Choice(
        f"{THESIS}, 2.4.3",
        "there are too many subscriptions for any one broker, over attributes that are known in advance",
        "an event goes to the brokers of its cell first, wherever its takers are",
        "lab/docs/surveyed.md",
    ),
    "epidemic": Choice(
        f"{EPIDEMIC}, section 4.2",
        "links lose events, and almost all of them arriving is enough",
        "nothing is certain; the last event before silence is missed unless heartbeats are on",
        "lab/docs/recovery.md",
    ),
    "epidemic-push": Choice(
        f"{EPIDEMIC}, section 4.1",
        "losses are frequent, and the last event before a silence counts",
        "digests are sent whether or not anything was lost",
        "lab/docs/recovery.md",
    ),
    "epidemic-subscriber-pull": Choice(
        f"{EPIDEMIC}, section 4.2",
        "each pattern has many subscribers",
        "useless where a pattern has one",
        "lab/docs/recovery.md",
    ),
    "epidemic-publisher-pull": Choice(
        f"{EPIDEMIC}, section 4.2",
        "patterns have few subscribers, and ways are stable",
        "events carry the way that they came",
        "lab/docs/recovery.md",
    ),
    "epidemic-random-pull": Choice(
        "our own, beside those of the paper",
        "you need a baseline to judge the other pulls by",
        "asks whoever it meets: the same messages, fewer of them useful",
        "lab/docs/recovery.md",
    ),
    "epidemic-lazy-push": Choice(
        "our own, beside those of the paper",
        "events are large, so that naming them first pays",
        "one more turn to and fro before a lost event is back",
        "lab/docs/recovery.md",
    ),
    "subscription-replication": Choice(
        f"{THESIS}, 2.5.3",
        "access brokers come and go, and their subscribers must not wait for them",
        "neighbours hold each subscription too, and keep events for others",
        "lab/docs/recovery.md",
    ),
    "publisher-groups": Choice(
        f"{GOSSIP}, Figure 1, first pattern",
        "you compare with it, or topics are few and known to all",
        "who wants a wide topic holds a table for every topic below it",
        "docs/gossip.md",
        'in a program: `PeerBroker(system="publisher-groups")`',
    ),
    "subscriber-groups": Choice(
        f"{GOSSIP}, Figure 1, second pattern",
        "you compare with it, or few publish and those can know many",
        "who publishes holds a table for every topic above its own, and sends to all of them",
        "docs/gossip.md",
        'in a program: `PeerBroker(system="subscriber-groups")`',
    ),
    "hierarchical-gossip": Choice(
        f"{GOSSIP}, 5.5.2, approach c",
        "everybody wants everything, and messages between clusters are dear",
        "everybody gets everything, wanted or not",
        "docs/gossip.md",
        'in a program: `PeerBroker(system="hierarchical-gossip")`',
    ),
    "pmcast": Choice(
        f"{GOSSIP}, 6, after Eugster and Guerraoui 2002",
        "you compare with it",
        "the tree and the interests are given and stay; delegates get what they do not want",
        "docs/gossip.md",
        "in the simulator only",
    ),
    "hpcast": Choice(
        f"{GOSSIP}, 6, after Eugster and Guerraoui 2002",
        "you compare with it, or want gossip as the only routing as a baseline of recovery",
        "the tree is given and stays; everybody gets everything",
        "docs/gossip.md",
        "in the simulator only",
    ),
    "scribe": Choice(
        f"{THESIS}, 2.5.2",
        "there are very many topics and brokers, and nobody plans the network",
        "an event goes to its topic's place first; conditions beyond the topic are judged at the end",
        "lab/docs/rendezvous.md",
    ),
    "hermes": Choice(
        f"{THESIS}, 2.5.5",
        "events have types in a hierarchy, and brokers come and go",
        "filters are judged at the recipients: events travel for nothing",
        "lab/docs/rendezvous.md",
    ),
    "hermes-path": Choice(
        f"{THESIS}, 2.5.5",
        "events have types in a hierarchy, and conditions on their attributes are sharp",
        "filters stand on the whole path to the type's broker",
        "lab/docs/rendezvous.md",
    ),
    "partitioned-elastic": Choice(
        f"{THESIS}, 2.4.3, on the overlay of 2.5.2",
        "there are too many subscriptions for one broker, and brokers come and go",
        "all subscriptions of a zone are at one broker, and move when it goes",
        "lab/docs/rendezvous.md",
    ),
    "tib-rv": Choice(
        f"{THESIS}, 2.5.1",
        "hosts sit on local networks that broadcast for nothing, and interests are topics",
        "every host hears every event of its network",
        "lab/docs/surveyed.md",
        "in a program: `tidings_lab.lan_daemon.LanBroker`",
    ),
    "gryphon": Choice(
        f"{THESIS}, 2.5.3",
        "no event may be lost, and subscriptions seldom change",
        "every subscription is everywhere, and confirmations travel",
        "lab/docs/surveyed.md",
    ),
    "elvin": Choice(
        f"{THESIS}, 2.4.4: quenching",
        "publishers make much that nobody wants, and could save making it",
        "every subscription is everywhere",
        "lab/docs/surveyed.md",
    ),
    "notification-service": Choice(
        f"{THESIS}, 2.4.4",
        "brokers shall not know subscribers",
        "the service handles every notification: it is the bottleneck",
        "lab/docs/surveyed.md",
    ),
    "multicast-groups": Choice(
        f"{THESIS}, 2.4.3, at its end",
        "an event should be matched once, and some useless deliveries are cheap",
        "what shares a group is heard together: the fewer groups, the more waste",
        "lab/docs/surveyed.md",
    ),
    "uarc": Choice(
        f"{GROUPS}, sections 2 to 4",
        "a few distributors serve many clients, which move to another when theirs fails",
        "every distributor gets every event",
        "docs/distributors.md",
    ),
}
