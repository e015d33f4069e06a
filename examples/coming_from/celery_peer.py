"""Celery: the program as its users write it."""

import sys

from celery import Celery

app = Celery("mails", broker=sys.argv[1], backend=sys.argv[1])
attempts = []


@app.task(autoretry_for=(ConnectionError,), retry_backoff=1, max_retries=3)
def send(name):
    attempts.append(name)
    if len(attempts) == 1:
        raise ConnectionError("the mail server is away")
    return f"sent to {name} at attempt {len(attempts)}"


if __name__ == "__main__":
    from celery.contrib.testing.worker import start_worker  # else: celery -A celery_peer worker

    with start_worker(app, pool="solo", perform_ping_check=False):
        print(send.delay("ada").get(timeout=120))
