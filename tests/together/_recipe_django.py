"""Child of the Django recipe: makes the tables, runs the command in a thread's stead, and saves orders.

python _recipe_django.py DATABASE orders|consume
"""

from __future__ import annotations

import sys

import django
from django.conf import settings
from django.core.management import call_command
from django.db import transaction

settings.configure(
    INSTALLED_APPS=["django_shop.apps.ShopConfig"],
    DATABASES={
        "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1], "OPTIONS": {"timeout": 60}}
    },
    USE_TZ=True,
)
django.setup()

if sys.argv[2] == "consume":
    print("consuming", flush=True)
    call_command("check_orders", count=2)
else:
    from django_shop.apps import the_bus
    from django_shop.models import Order

    call_command("migrate", run_syncdb=True, verbosity=0)
    print("ready", flush=True)
    sys.stdin.readline()
    Order.objects.create(name="small", total=5)
    Order.objects.create(name="large", total=500)
    try:
        with transaction.atomic():
            Order.objects.create(name="undone", total=900)
            raise ValueError
    except ValueError:
        Order.objects.create(name="larger", total=5000)
    print("saved", flush=True)
    sys.stdin.readline()
    print(sorted(Order.objects.filter(is_checked=True).values_list("name", flat=True)), flush=True)
    the_bus().close()
