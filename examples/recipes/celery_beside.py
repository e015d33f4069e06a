"""Celery beside Tidings: a handler gives long work to Celery, and the task publishes its result.

    celery -A celery_beside worker        python celery_beside.py

Tidings chooses the events (by filter, at the broker) and keeps them until they are handed over; Celery runs
the work.
"""

from __future__ import annotations

import os
from typing import Any

from celery import Celery

import tidings

work = Celery("reports", broker=os.environ.get("CELERY_BROKER", "memory://"))
work.conf.task_always_eager = False
bus = tidings.open(os.environ.get("TIDINGS"))


@bus.on("change < -3", name="reports", durable=True, retry=tidings.Backoff(attempts=3))
def request_report(event: tidings.Event) -> None:
    """The event is committed when Celery has accepted the task. The id makes a repetition the same task."""
    report.apply_async(args=[dict(event.attributes)], task_id=f"report-{event.source}-{event.id}")


@work.task
def report(quote: dict[str, Any]) -> None:
    words = f"{quote['StockName']} fell by {-quote['change']:.1f}"
    bus.publish({"report": words}, topic="reports", source="reports", id=report.request.id)


if __name__ == "__main__":
    bus.run()
