"""ORM signals to events.

An event is published after the commit, so a transaction that is rolled back publishes none. A crash right
between the commit and the publish loses the event; where that matters, use the transactional outbox.
"""

from __future__ import annotations

import os
from functools import cache, partial
from typing import Any

from django.apps import AppConfig
from django.db import transaction
from django.db.models.signals import post_save

import tidings


@cache
def the_bus() -> tidings.BlockingBus:
    """One bus for all threads of the process."""
    return tidings.open(os.environ.get("TIDINGS"), name=f"shop-{os.getpid()}")


class ShopConfig(AppConfig):
    name = "django_shop"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        post_save.connect(publish_order, sender=self.get_model("Order"), dispatch_uid="tidings")


def publish_order(sender: Any, instance: Any, created: bool, **kwargs: Any) -> None:
    what = {"order": instance.pk, "name": instance.name, "total": instance.total, "is_new": created}
    transaction.on_commit(partial(the_bus().publish, what, topic="orders"))
