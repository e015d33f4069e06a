"""Pages that stay open: the focus in a table, rights that change, and a sign-out in another tab."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.browser._process import broker
from tests.browser.test_operate import USERS, signed_in

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

ADMIN = """[[allow]]
who = "root"
action = "admin"
"""


class Running(NamedTuple):
    url: str
    users: Path
    process: subprocess.Popen[str]

    def reload(self, users: str) -> None:
        self.users.write_text(users)
        self.process.send_signal(signal.SIGHUP)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("running")
    with broker(folder, USERS) as (process, ready):
        yield Running(ready["gateways"]["console"], folder / "users.toml", process)


def publish(page: Any, key: str, level: int) -> None:
    """A retained message, by the page's own session."""
    status = page.evaluate(
        """async ([key, level]) => (await fetch("/api/publish", {
          method: "POST", headers: {"content-type": "application/json", "x-tidings-console": "1"},
          body: JSON.stringify({attributes: {level}, topic: key, key, lifetime: 3600}),
        })).status""",
        [key, level],
    )
    assert status == 200


FOCUS = "() => document.activeElement.getAttribute('aria-label')"


def test_the_keyboard_keeps_its_place_in_a_table_that_is_refreshed(running: Running, watched: Any) -> None:
    opened = signed_in(watched, running.url, "root")
    page = opened.page
    publish(page, "b", 1)
    opened.show("retained")
    page.get_by_role("button", name="Clear b", exact=True).focus()
    publish(page, "a", 1)  # a row before it, so that its row moves
    publish(page, "b", 2)  # another event of the same key: the row, and what its button clears
    page.wait_for_selector("text=level=2")
    page.wait_for_selector("text=2 retained messages")
    assert page.evaluate(FOCUS) == "Clear b"
    with page.expect_response("**/api/retained"):
        pass
    assert page.evaluate(FOCUS) == "Clear b"
    page.keyboard.press("Enter")
    page.locator("dialog[open]").get_by_role("button", name="Clear", exact=True).click()
    page.wait_for_selector("text=level=2", state="detached")  # the newest event, not the one of before
    page.wait_for_selector("text=1 retained message of")
    assert page.evaluate("() => document.activeElement.getAttribute('role')") == "region"  # its row is gone

    page = opened.show("clients")
    page.locator("tr", has_text="console, scram").get_by_role("button").focus()
    label = page.evaluate(FOCUS)
    for _ in range(2):
        with page.expect_response("**/api/admin?*"):
            pass
    assert page.evaluate(FOCUS) == label
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open]")


def test_a_right_that_is_taken_away_or_given_changes_the_open_page(running: Running, watched: Any) -> None:
    opened = signed_in(watched, running.url, "root")
    opened.refused = ("401", "403", "ERR_")
    page = opened.show("clients")
    page.get_by_role("button", name="Disconnect root").first.wait_for()
    running.reload(USERS.replace(ADMIN, ""))
    page.wait_for_selector("text=This needs the right admin")
    assert not page.get_by_role("button", name="Disconnect root").count()
    running.reload(USERS)
    page.get_by_role("button", name="Disconnect root").first.wait_for()


def test_a_sign_out_ends_every_tab(running: Running, watched: Any) -> None:
    opened = signed_in(watched, running.url, "root")
    opened.refused = ("401",)
    other = opened.page.context.new_page()
    other.goto(f"{running.url}/#/try")
    other.wait_for_selector('main[data-page="try"]')
    other.wait_for_selector(".status[data-state=live]")
    opened.page.get_by_role("button", name="Sign out").click()
    opened.page.wait_for_selector("dialog[open]")
    other.wait_for_selector("dialog[open]")  # no request of the tab but the one that its stream's end made
    other.close()
