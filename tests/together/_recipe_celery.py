"""Child of the Celery recipe: a worker and the handler in one process, with Celery's broker in memory."""

from __future__ import annotations

import celery_beside as recipe
from celery.contrib.testing.worker import start_worker

with (
    recipe.bus as bus,
    bus.serving(),
    bus.subscribe(topic="reports") as reports,
    start_worker(recipe.work, pool="solo", perform_ping_check=False),
):
    bus.publish_many([{"StockName": "IBM", "change": -4.5}, {"StockName": "DEC", "change": 1.0}])
    print(reports.get(timeout=120)["report"], flush=True)
