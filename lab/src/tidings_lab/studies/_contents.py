"""Contents of the five documents, where each is answered here, and the errors that we found in them.

One row for each table and figure that can be answered. `studies` run again and judge; `tests` are exact. A
test of ours looks whether all of them exist.
"""

from __future__ import annotations

from typing import NamedTuple


class Shown(NamedTuple):
    """A table or figure of a document."""

    place: str
    what: str
    ids: tuple[str, ...] = ()  # of claims: `VIR3-7`
    studies: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()  # files below tests/


class Document(NamedTuple):
    authors: str
    title: str
    shows: tuple[Shown, ...]


DOCUMENTS = (
    Document("Virgillito 2003",
        "Publish/subscribe communication systems: from models to applications (thesis)", (
        Shown("2.2 and 2.3.1", "subscription models: what filtered topics and groups send for nothing",
            ("VIR2-2",), ("architectures",)),
        Shown("2.3, Figures 2.3 and 2.4", "three architectures; assign and resolve", ("VIR2-3", "VIR2-5"),
            ("architectures",),
            ("papers/test_vir2_3_hierarchical_load.py", "papers/test_vir2_5_assign_and_resolve.py")),
        Shown("2.4.2", "matching by counting and by tree", ("VIR2-4",), ("architectures",),
            ("properties/test_trees.py", "test_matching_indexes.py")),
        Shown("Table 2.1", "the surveyed systems side by side", ("VIR2-6",), ("architectures", "policies")),
        Shown("2.5", "SIENA, Gryphon, TIB/RV, Scribe, Hermes", ("VIR2-7",), ("architectures", "rendezvous"), (
            "papers/test_vir2_7_siena.py", "papers/test_vir2_7_gryphon.py", "papers/test_vir2_7_tib_rv.py",
            "papers/test_vir2_7_scribe.py", "papers/test_vir2_7_hermes.py", "papers/test_vir2_7_elvin.py",
            "papers/test_vir2_7_central_and_groups.py",
        )),
        Shown("Figure 3.1", "a history and its properties", ("VIR3-1",), (),
            ("papers/test_vir3_1_histories.py",)),
        Shown("3.1.4 and 3.1.6",
            "the two delays of a subscription and an event, and systems compared by them", ("VIR3-2",),
            ("diffusion", "architectures"), ("papers/test_vir3_2_delays.py",)),
        Shown("Figure 3.4", "which events a subscriber hears", ("VIR3-3",), (),
            ("papers/test_vir3_3_figure_3_4.py",)),
        Shown("3.1.5", "classes of availability", ("VIR3-4",), (), ("papers/test_vir3_4_availability.py",)),
        Shown("Equations 3.1 to 3.6", "the probability that an event is notified", ("VIR3-5",),
            ("notification-loss",), ("papers/test_vir3_5_notification_probability.py",)),
        Shown("Figures 3.7 to 3.9", "that probability over time, size and speed", ("VIR3-6",),
            ("notification-loss",), ("papers/test_vir3_6_figures.py",)),
        Shown("Table 3.1", "measured diffusion of subscriptions and events", ("VIR3-7",), ("diffusion",),
            ("papers/test_vir3_7_table_3_1.py",)),
        Shown("Figures 3.10 to 3.12", "the model beside a simulation", ("VIR3-8",), ("notification-loss",)),
        Shown("Figure 4.1", "content-based routing on a tree", ("VIR4-1",), (),
            ("papers/test_vir4_1_content_based_routing.py",)),
        Shown("Figure 4.2", "locality of interest saves hops", ("VIR4-2",), ("locality",)),
        Shown("4.2", "associativity of zones", ("VIR4-3",), (), ("papers/test_vir4_3_associativity.py",)),
        Shown("Figures 4.3, 4.5, 4.8 and 4.9", "the running example of a swap, and one that is refused",
            ("VIR4-8",), (), ("scenarios/figure_4_3.play", "scenarios/figure_4_9.play")),
        Shown("Figures 4.12 to 4.16", "SOCBR: hops and forwarders saved", ("VIR4-11",),
            ("self-organisation",)),
        Shown("Figures 4.17 to 4.20", "pbSOCBR: the same within a bound on distance", ("VIR4-11",),
            ("proximity",)),
        Shown("Table 5.1 and Figure 5.4", "subscriptions on quality: which matches, which contains which",
            ("VIR5-6",), (), ("papers/test_vir5_6_quality_subscriptions.py",)),
        Shown("Figures 5.5 and 5.6", "merge subscriptions and diffusion trees", ("VIR5-7", "VIR5-8"), (),
            ("papers/test_vir5_7_merge_subscriptions.py",)),
        Shown("Figures 5.8 to 5.10", "what merging saves", ("VIR5-10",), ("merge-subscriptions",)),
        Shown("5.2.2", "the broker's feedback raises the quality of all", ("VIR5-4", "VIR5-5"),
            ("quality-improvement",)),
    )),
    Document("Baldoni, Contenti, Tucci Piergiovanni, Virgillito 2002",
        "Modelling publish/subscribe communication systems", (
        Shown("3", "legal local computations", ("BAL-1",), (), ("papers/test_bal_1_local_computations.py",)),
        Shown("4", "completeness and minimality", ("BAL-3",), (),
            ("papers/test_bal_3_completeness_and_minimality.py",)),
        Shown("Figures 6 to 8", "the intermediary as one process", ("BAL-5",), (),
            ("papers/test_bal_5_intermediary.py",)),
        Shown("5.2", "the network of servers", ("BAL-6",), ("policies",),
            ("papers/test_bal_6_network_of_servers.py",)),
    )),
    Document("Costa, Migliavacca, Picco, Cugola 2003",
        "Introducing reliability in content-based publish/subscribe through epidemic algorithms", (
        Shown("2", "subscription forwarding", ("COS-1",), (),
            ("papers/test_cos_1_subscription_forwarding.py",)),
        Shown("Figure 2", "push", ("COS-3",), ("recovery",), ("papers/test_cos_3_push.py",)),
        Shown("3.2", "identifiers that show a loss", ("COS-4",), (), ("papers/test_cos_4_identifiers.py",)),
        Shown("Figure 3, left", "pull by subscriber", ("COS-5",), ("recovery",),
            ("papers/test_cos_5_subscriber_pull.py",)),
        Shown("Figure 3, right", "pull by publisher", ("COS-6",), ("recovery",),
            ("papers/test_cos_6_publisher_pull.py",)),
        Shown("4", "what is claimed of cost, load and latency", ("COS-11", "COS-12"), ("recovery",),
            ("papers/test_cos_12_floor_and_claims.py",)),
    )),
    Document("Baehni, Eugster, Guerraoui 2004", "Data-aware multicast", (
        Shown("5", "reliability, messages, memory: the formulas", ("DAM-7",), ("topic-gossip",),
            ("papers/test_dam_7_formulas.py",)),
        Shown("Table 1", "rounds until everybody has it", ("DAM-10",), ("topic-gossip",)),
        Shown("Table 2", "parasite messages", ("DAM-11",), ("topic-gossip",)),
        Shown("Figures 4 and 5", "reliability and messages as processes crash", ("DAM-12",),
            ("topic-gossip",)),
    )),
    Document("Mathur, Hall, Jahanian, Prakash, Rasmussen 1995",
        "The publish/subscribe paradigm for scalable group collaboration systems", (
        Shown("Figures 4 to 6", "views, and weak beside virtual synchrony", ("UAR-7", "UAR-9"),
            ("distributors",),
            ("papers/test_uar_distributors.py", "scenarios/uarc_figure_4.play",
                "scenarios/uarc_figure_5a.play", "scenarios/uarc_figure_5b.play",
                "scenarios/uarc_figure_6.play")),
        Shown("4.2.2", "gap and no-gap: what it costs", ("UAR-10",), ("distributors",)),
    )),
)  # fmt: skip

ERRATA = {
    "E-V1": "Virgillito 3.2: the integral of the logistic, and with it equation 3.5, lacks a term; "
        "corrected here.",
    "E-V2": "Virgillito 3.2: equation 3.6 is right, though it does not follow from 3.5 as printed.",
    "E-V3": "Virgillito 3.2: the curve of notifications is mirrored in time; harmless for the logistic, "
        "not for measured curves.",
    "E-V4": "Virgillito 3.2: the two printed lines of equation 3.2 disagree; the second integral has to "
        "end earlier.",
    "E-V5": "Virgillito 3.3: that losses do not tend to 0 contradicts the model, in which they fall as "
        "1/T_ON.",
    "E-V6": "Virgillito 3.2: the printed solution is a fraction, not a number, and a bound is the wrong "
        "way round.",
    "E-V8": "Virgillito Table 3.1: its times are maxima over sources, the formula is a quantile of the "
        "mean curve.",
    "E-V9": "Virgillito Figures 4.4 to 4.11: the pseudo-code does not end and loses information; built in "
        "a corrected form.",
    "E-V9c": "Virgillito 4.5: the headline of 70% and 30% depends on the size of the rectangles, which is "
        "not printed.",
    "E-V9d": "Virgillito 4.5: trees that grow so have a diameter of 14.5, not 16.",
    "E-V10": "Virgillito 5.3.1: the rule for sources calls a restricted subscription wider than an "
        "unrestricted one.",
    "E-V11": "Virgillito 5.3.1: matching demands the same class, containment accepts an ancestor; both "
        "cannot be.",
    "E-V12": "Virgillito Figure 5.5: the second event goes to two users, not to one.",
    "E-D1": "Baehni 5.4: a random count was replaced by its mean, which makes the reliability between "
        "groups too good.",
    "E-D2": "Baehni 5.4: loss of messages inside a group is left out of its reliability.",
    "E-D3": "Baehni 5.4: the product over levels has one factor too many.",
    "E-D4": "Baehni 5.2: the sum of messages between groups runs over the wrong levels, and counts "
        "receptions as sends.",
    "E-D5": "Baehni 5.2: the bound on messages needs groups of three or more.",
    "E-D7": "Baehni 5.3: that memory is always smaller is false in the paper's own setting.",
    "E-D9": "Baehni 5.2: the cost given for hierarchical gossip is not that of a broadcast, which it is.",
    "E-D10": "Baehni Tables 1 and 2: the fan-out is rounded down, and two columns of Table 1 look swapped.",
    "E-D11": "Baehni 4: one section lets the publisher always send upwards, another only by chance.",
    "E-C2": "Costa Figure 3: entries that were served stay in the digest, so that every cache on the way "
        "answers.",
    "E-U3": "Mathur 4.1: two phases are not enough when the coordinator dies in the middle of a view change.",
    "E-B1": "Baldoni 4: completeness as printed demands a notification of every event, matching or not.",
}  # fmt: skip
