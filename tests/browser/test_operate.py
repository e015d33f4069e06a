"""Acting in the console on dead letters, clients, groups, holds and the log: by rights, and audited."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.browser._process import broker
from tests.browser._stage import Stage
from tests.browser.test_pages import UNNAMED, WIDER

import tidings
from tidings.security.credentials import PasswordCredentials
from tidings.security.scram import make_key

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

NAMES = ("ann", "root", "bob")
USERS = (
    "".join(f'[users.{name}]\npassword = "{make_key(name, iterations=4096)}"\n' for name in NAMES)
    + """
[[allow]]
who = ["root", "bob"]
action = "observe"
[[allow]]
who = ["root", "ann"]
action = ["publish", "subscribe"]
[[allow]]
who = "root"
action = "admin"
"""
)


class Operated(NamedTuple):
    """A broker process with its console."""

    url: str
    address: str
    folder: Path
    stage: Stage

    def connect(self, name: str) -> tidings.Bus:
        async def opened() -> tidings.Bus:
            user = name.partition("/")[0]
            credentials = PasswordCredentials(user, user)
            return await tidings.connect(self.address, name=name, credentials=credentials, timeout=60).open()

        return self.stage.run(opened())

    def audited(self) -> list[tuple[str, str, str]]:
        entries = [json.loads(line) for line in (self.folder / "audit.jsonl").read_text().splitlines()]
        return [(e["principal"], e["outcome"], e["subject"]) for e in entries if e["action"] == "admin"]


@pytest.fixture(scope="module")
def operated(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    folder: Path = tmp_path_factory.mktemp("operated")
    with broker(folder, USERS, 'audit = "audit.jsonl"\n') as (_, ready):
        yield Operated(ready["gateways"]["console"], ready["address"], folder, stage)


@pytest.fixture(scope="module")
def ann(operated: Operated) -> Iterator[tidings.Bus]:
    """A client with three dead letters, a consumer group that is behind, a hold, and events that stay."""
    bus = operated.connect("ann")

    async def work() -> None:
        async with bus.subscribe("job > 0", name="jobs", durable=True, max_deliveries=1) as jobs:
            for number in (1, 2, 3):
                await bus.publish({"job": number})
            for _ in range(3):
                await jobs.get(timeout=60)
                await jobs.nack()
        async with bus.subscribe("n > 0", group="workers", durable=True):
            pass
        await bus.hold_log("reader", "n > 2", seconds=3600)
        for number in range(1, 6):
            await bus.publish({"n": number}, lifetime=3600)

    operated.stage.run(work())
    yield bus
    operated.stage.run(bus.close())


def signed_in(watched: Any, url: str, name: str) -> Any:
    opened = watched(url)
    page = opened.page
    page.goto(url)
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(name)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_selector('main[data-page="overlay"]')
    return opened


def confirm(page: Any, label: str) -> None:
    page.locator("dialog[open]").get_by_role("button", name=label, exact=True).click()
    page.wait_for_selector("dialog", state="detached")


def test_dead_letters_are_browsed_redelivered_and_discarded(
    operated: Operated, ann: tidings.Bus, watched: Any
) -> None:
    opened = signed_in(watched, operated.url, "root")
    page = opened.show("letters")
    page.get_by_role("link", name="ann/jobs").click()
    page.wait_for_selector("text=job=3")
    assert "subscription=ann%2Fjobs" in page.evaluate("() => location.hash")
    opened.picture("letters-light")
    page.get_by_role("button", name="Discard dead letter").first.click()
    confirm(page, "Discard")
    page.wait_for_selector("text=job=1", state="detached")
    page.get_by_role("button", name="Redeliver all").click()
    confirm(page, "Redeliver all")

    async def taken() -> list[int]:
        async with ann.subscribe("job > 0", name="jobs", durable=True, max_deliveries=1) as jobs:
            found = [(await jobs.get(timeout=60))["job"] for _ in range(2)]
            await jobs.ack()
            return found

    assert operated.stage.run(taken()) == [2, 3]
    page.reload()  # the link shows the same box again
    page.wait_for_selector("text=No dead letter is left")
    acts = [subject for who, outcome, subject in operated.audited() if (who, outcome) == ("root", "ok")]
    assert {"discard ann/jobs", "redeliver ann/jobs"} <= set(acts)


def test_clients_groups_and_holds_are_ended(operated: Operated, ann: tidings.Bus, watched: Any) -> None:
    opened = signed_in(watched, operated.url, "root")
    page = opened.show("groups")
    page.wait_for_selector("text=*/ann:workers")
    page.wait_for_selector("text=ann:reader")
    assert page.evaluate(UNNAMED) == []
    assert not page.evaluate(WIDER)
    opened.picture("groups-light", whole=True)
    page.get_by_role("button", name="End ann:reader").click()
    confirm(page, "End")
    page.wait_for_selector("text=No reader holds a log")
    page.get_by_role("button", name="End */ann:workers").click()
    confirm(page, "End")
    page.wait_for_selector("text=No consumer group")
    other = operated.connect("ann/other")
    page = opened.show("clients")
    page.get_by_label("Search sessions").fill("ann/other")
    page.wait_for_selector("text=1 of ")
    assert page.evaluate("() => location.hash") == "#/clients?search=ann%2Fother"
    opened.picture("clients-light")
    before = page.locator("tbody tr td:nth-child(4)").text_content()
    assert before
    session = page.locator("tbody tr button").get_attribute("aria-label")
    page.get_by_role("button", name="Disconnect").click()
    confirm(page, "Disconnect")
    page.wait_for_function(
        "(was) => ![...document.querySelectorAll('tbody button')].some(b => b.ariaLabel === was)", arg=session
    )
    operated.stage.run(other.close())
    subjects = [subject for who, _, subject in operated.audited() if who == "root"]
    assert {"end hold ann:reader", "end group */ann:workers"} <= set(subjects)


def test_a_purge_says_how_many_and_asks_first(operated: Operated, ann: tidings.Bus, watched: Any) -> None:
    opened = signed_in(watched, operated.url, "root")
    page = opened.page
    page.goto(f"{operated.url}/#/store?filter=n%20%3E%203")
    page.wait_for_selector("text=n=5")
    page.get_by_role("button", name="Purge the events").click()
    page.wait_for_selector("text=2 events of b1 match n > 3")
    confirm(page, "Purge…")
    page.wait_for_selector("text=No event is available here")


def test_a_retained_message_is_found_and_cleared(operated: Operated, ann: tidings.Bus, watched: Any) -> None:
    async def retain() -> None:
        for level in (1, 2):  # the second supersedes the first
            await ann.publish({"level": level}, topic="tank/7", key="tank/7", lifetime=3600)
        await ann.publish({"level": 9}, topic="it's/8", key="it's/8", lifetime=3600)

    operated.stage.run(retain())
    opened = signed_in(watched, operated.url, "root")
    page = opened.show("retained")
    page.wait_for_selector("text=level=2")
    assert not page.locator("text=level=1").count()
    page.get_by_label("Search retained messages").fill("it's")
    page.wait_for_selector("text=1 of 2 retained messages")
    assert page.evaluate("() => location.hash") == "#/retained?search=it%27s"
    assert page.evaluate(UNNAMED) == []
    assert not page.evaluate(WIDER)
    page.get_by_role("button", name="Clear it's/8").click()
    confirm(page, "Clear")
    page.wait_for_selector("text=0 of 1 retained message")
    page.get_by_label("Search retained messages").fill("")
    page.wait_for_selector("text=level=2")
    opened.picture("retained-light")
    assert any(who == "root" and subject.startswith("purge id =") for who, _, subject in operated.audited())


def test_the_history_goes_back_a_day(operated: Operated, watched: Any) -> None:
    opened = signed_in(watched, operated.url, "root")
    page = opened.show("history")
    page.wait_for_function("() => Number(document.querySelector('[data-rows]')?.dataset.rows) >= 1")
    page.get_by_label("How far back").select_option("72")
    assert page.evaluate("() => location.hash") == "#/history?hours=72"
    assert page.evaluate(UNNAMED) == []


def test_without_the_right_pages_say_so_and_the_broker_refuses(operated: Operated, watched: Any) -> None:
    opened = signed_in(watched, operated.url, "bob")
    for name in ("clients", "letters", "groups"):
        page = opened.show(name)
        page.wait_for_selector("text=This needs the right admin")
    opened.refused = ("403",)
    opened.show("retained").wait_for_selector("text=may subscribe nothing")
    opened.refused = ("403",)
    status = page.evaluate(
        """async () => (await fetch("/api/admin", {
          method: "POST",
          headers: {"content-type": "application/json", "x-tidings-console": "1"},
          body: JSON.stringify({broker: "b1", do: "purge", filter: "TRUE"}),
        })).status"""
    )
    assert status == 403
    assert ("bob", "refused", "purge TRUE") in operated.audited()
