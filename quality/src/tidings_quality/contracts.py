"""The contract of the Quality Notification Service; offered as `tidings.contracts`."""

from __future__ import annotations

from tidings.history.contracts import SAFE, Contract, make_contract

CONTRACTS: tuple[Contract, ...] = (make_contract("QNS", *SAFE),)
