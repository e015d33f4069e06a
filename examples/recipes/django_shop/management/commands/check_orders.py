"""`manage.py check_orders`: a handler with the ORM, until SIGTERM or `--count` orders."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand
from django.db import close_old_connections

import tidings
from django_shop.apps import the_bus
from django_shop.models import Order


class Command(BaseCommand):
    help = "Check large orders as they come."

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("--count", type=int, default=0, help="end after so many orders; 0: run on")

    def handle(self, *args: Any, count: int, **options: Any) -> None:
        bus = the_bus()

        @bus.on("is_new AND total > 100", topic="orders", name="checks", durable=True)
        def check(event: tidings.Event) -> None:
            close_old_connections()  # handlers run in threads
            Order.objects.filter(pk=event["order"]).update(is_checked=True)
            self.stdout.write(f"checked {event['name']}")
            if bus.handlers[0].handled + 1 == count:
                bus.stop()

        bus.run()
