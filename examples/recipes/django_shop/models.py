"""Orders of the shop."""

from __future__ import annotations

from django.db import models


class Order(models.Model):
    """An order. Saving one publishes an event when the transaction commits (`apps.py`)."""

    name = models.CharField(max_length=40)
    total = models.FloatField()
    is_checked = models.BooleanField(default=False)

    class Meta:
        app_label = "django_shop"
