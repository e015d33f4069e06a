"""Serialisers that other packages offer: a program that publishes or decodes finds them when it first meets a
content type that is not registered.

A broker needs none: it carries a payload and the attributes that its publisher read from it.
"""

from __future__ import annotations

from functools import cache

from tidings.extensions import load_all
from tidings.model.serialisers import SERIALISERS

GROUP = "tidings.serialisers"  # the entry-point group


@cache
def register_offered() -> None:
    """Register them, once. One of the product or of the program wins over them."""
    for _, serialiser in load_all(GROUP, ()):
        if not SERIALISERS.has(serialiser.content_type):
            SERIALISERS.register(serialiser)
