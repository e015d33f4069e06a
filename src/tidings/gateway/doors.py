"""Deprecated name of `tidings.gateway.listeners`."""

from __future__ import annotations

import warnings

from tidings.gateway.listeners import Gateway, Gateways

__all__ = ["Gateway", "Gateways"]

warnings.warn("tidings.gateway.doors is tidings.gateway.listeners now", DeprecationWarning, stacklevel=2)
