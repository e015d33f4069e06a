"""Serialisers that other packages offer: a broker registers them when it starts."""

from __future__ import annotations

from tidings.extensions import load_all
from tidings.model.serialisers import SERIALISERS

GROUP = "tidings.serialisers"  # the entry-point group


def register_offered() -> None:
    """Register each of them, unless its content type is known: what the product or the program has wins."""
    for _, serialiser in load_all(GROUP, ()):
        if SERIALISERS.find(serialiser.content_type) is None:
            SERIALISERS.register(serialiser)
