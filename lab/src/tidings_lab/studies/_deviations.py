"""Deviations from the papers' algorithms, and study settings that differ from shipped defaults, each with its
reason."""

from __future__ import annotations

DEVIATIONS: tuple[tuple[str, str, str, str], ...] = (
    ("Baehni 4.2, supertopic tables", "a process asks the living for z - tau others when fewer than tau live",
     "z - tau + 1 (`membership/topics.py`)", "fewer than tau are at most tau - 1: z - tau + 1 fill the "
     "table, z - tau leave it one short for ever"),
    ("Costa Figure 2, push", "a pattern drawn from the whole subscription table",
     "a pattern of the table of which the cache holds an event and which some link wants (`push.py`)",
     "any other draw sends an empty digest, or sends it nowhere: E-C3 for push. Rounds are never idle, so "
     "push is faster here than as printed"),
    ("Costa Figure 3, subscriber pull", "a pattern of the local subscriptions", "one that has lost events",
        "E-C3"),
    ("Costa 5, combined pull", "both pulls together, no rule printed",
        "by chance one half; the pattern is drawn among lost "
     "ones that another broker wants, and the round goes to the source when there is none (`CombinedPull`)",
     "a pattern that no other broker wants reaches no broker, and its losses would wait out the patience"),
    ("Costa Figure 3", "served entries stay in the digest", "they are taken off, and an empty digest stops",
        "E-C2"),
    ("Costa 6 and Baehni 6.2, hpcast and PMcast", "neither the tree nor its fan-out is in the documents",
     "branches of 10, the first 3 processes of a subtree stand for it, fan-outs floor(ln S + c)",
     "chosen before their rows were looked at. The system `hpcast` gossips to all; COS-11 is judged with "
     "interests, as section 6 describes it"),
    ("Virgillito Figures 4.4 to 4.11", "pseudo-code", "corrected in eleven places",
        "E-V9: as printed it does not end"),
    ("Virgillito 4.3.2, trigger", "share of the zone", "as printed by default; `trigger=\"overlap\"` and "
    "`\"growth\"`",
     "E-V9e is a proposal, so systems keep the printed rule"),
    ("Virgillito 4.3.2", "a broker looks once, when a subscription arrives",
        "studies look once; systems look again after "
     "`again_seconds` and after unsubscriptions", "two brokers that subscribe at the same moment would "
     "never find each other"),
    ("Mathur 4.1, views", "two phases", "three, with a majority", "E-U3"),
    ("study recovery, push", "shipped: fan_out 1, forward 0.5", "fan_out 4, forward 1.0",
        "with the defaults push does not "
     "get round its table within a run; both are in the table of the study"),
    ("study recovery, pulls", "shipped: forward 0.5", "forward 0.9",
        "the same; both are in the table of the study"),
    ("study recovery, lazy push", "shipped: announcements 3", "announcements 4",
     "three announcements are all lost at a loss of 0.1 once in a thousand events and links; the latency of "
     "lazy push (BEYOND) is that with four"),
    ("study recovery, acknowledged", "shipped: events over links (`datagrams = false`); 8 s after the last "
     "event", "datagrams, and 60 s", "over TCP a link loses nothing, so that there would be nothing to "
     "acknowledge again; it repeats until the last event is there"),
    ("study recovery, losses", "how many messages a link loses is not printed",
     "0.1 and 0.05; COS-11.5 at 0.02 too, where fewer brokers get an event from a neighbour and more ask one",
     "what decides an implosion is not the share of losses alone, so three are tried"),
    ("study proximity, Figure 4.19", "hops per notification, which \"include the self-organization overhead "
     "and also the further pings\"", "messages of all kinds per operation, as in Figure 4.14",
     "the break-even is the same; the reduction at R = 100 would be larger without messages that spread "
     "subscriptions, which CBR sends as well"),
    ("study self-organisation", "shipped: 1,024 points measure zones, looks again",
        "the same points, looks once",
     "the thesis looks once"),
    ("study proximity, first trees",
        "\"completely independent\" of the network, and \"probable\" to have near neighbours",
     "both: blind to the network, and joined to the nearest of three",
        "how near is not printed; three was chosen by Figure 4.17, though its interval meets the edge of the "
        "band; with two the increase is smaller and undecided as well"),
    ("study rendezvous", "no sizes, no seeds", "ten seeds up to 1,000 nodes; larger rings of one seed",
     "the largest ring takes about a minute of a core"),
    ("study notification-loss", "250 pairs, one event each, 5 topologies",
        "60 pairs, 20 events each, 20 topologies; rates from 20 others",
     "the spread between topologies is the larger part of the noise"),
    ("study diffusion", "5 topologies, every broker a source", "40 topologies, every broker a source",
     "the same"),
    ("study topic-gossip", "fan-out ln S + c; 4.1.3 shows a publisher that sends upwards, 4.3 lets it elect "
     "itself", "floor(ln S + c); by chance, as in 4.3", "Tables 2 and 1 come out so: what follows is fitted"),
)  # fmt: skip
