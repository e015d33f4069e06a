"""Celery: the same program with Tidings."""

import sys

import tidings

bus = tidings.open(sys.argv[1])
attempts = []


@bus.reply(topic="mails", group="mailers", retry=tidings.Backoff(attempts=4, first=0.1))
def send(mail):
    attempts.append(mail["name"])
    if len(attempts) == 1:
        raise ConnectionError("the mail server is away")
    return {"result": f"sent to {mail['name']} at attempt {len(attempts)}"}


if __name__ == "__main__":
    with bus, bus.serving():  # else: bus.run()
        print(bus.request({"name": "ada"}, topic="mails", timeout=120)["result"])
