"""Contracts of the published systems; offered as `tidings.contracts`."""

from __future__ import annotations

from tidings.history.contracts import COMPLETE, ONCE, SAFE, Contract, make_contract

CONTRACTS: tuple[Contract, ...] = (
    make_contract("Network of servers", *COMPLETE),
    make_contract("Network of servers, FIFO", *COMPLETE, "fifo"),
    make_contract("TIB/RV", *SAFE),
    make_contract("Scribe", *SAFE),
    make_contract("Gryphon", *COMPLETE, "fifo", "gap_freedom"),
    make_contract("SIENA hierarchical", *SAFE),
    make_contract("Subscription forwarding", *SAFE),
    make_contract("All brokers", *SAFE),
    make_contract("Partitioned", *SAFE),
    make_contract("Hermes", *SAFE),
    make_contract("Epidemic", *ONCE),
    make_contract("UARC, gap", *ONCE, "fifo", "view_agreement"),
    make_contract("UARC", *ONCE, "fifo", "gap_freedom", "view_agreement"),
    make_contract("Gossip multicast", *ONCE, "no_parasites"),
    make_contract("Hierarchical gossip", *ONCE),
    make_contract("PMcast", *ONCE),
)
