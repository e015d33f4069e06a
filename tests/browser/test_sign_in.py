"""The console of a broker that asks who you are: real process, users file, read-only and not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tidings.security.scram import make_key

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

USERS = f"""
[users.ann]
password = "{make_key("ann's", iterations=4096)}"
[users.bob]
password = "{make_key("bob's", iterations=4096)}"
[users.eve]
password = "{make_key("eve's", iterations=4096)}"
[[allow]]
who = ["ann", "bob"]
action = "observe"
[[allow]]
who = "ann"
action = ["publish", "subscribe"]
"""


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("secured")
    (folder / "users.toml").write_text(USERS)
    words = ["broker", "--name", "b1", "--listen", "127.0.0.1:0", "--users", str(folder / "users.toml")]
    process = subprocess.Popen(
        [sys.executable, "-m", "tidings", *words, "--console-at", "127.0.0.1:0", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    yield json.loads(process.stdout.readline())["gateways"]["console"]
    process.terminate()
    process.wait(20)
    process.stdout.close()


def sign_in(page: Any, name: str, password: str) -> None:
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


def test_who_is_not_known_signs_in(secured: str, watched: Any) -> None:
    opened = watched(secured)
    page = opened.page
    page.goto(secured)
    page.wait_for_selector("dialog[open]")
    opened.picture("sign-in-light")
    sign_in(page, "ann", "bob's")
    opened.refused = ("401",)
    page.wait_for_selector("dialog .note.bad")
    sign_in(page, "ann", "ann's")
    page.wait_for_selector('main[data-page="overlay"]')
    page.wait_for_selector(".overlay .node")
    page.goto(f"{secured}/#/try")
    assert page.get_by_role("button", name="Publish and watch").is_enabled()
    page.get_by_role("button", name="Publish and watch").click()
    page.wait_for_selector(".hops li:has-text('published by')")
    assert page.evaluate("() => document.cookie") == ""
    assert page.evaluate("() => Object.keys(localStorage).length") == 0
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_selector("dialog[open]")


def test_who_may_observe_alone_publishes_nothing(secured: str, watched: Any) -> None:
    opened = watched(secured)
    page = opened.page
    page.goto(f"{secured}/#/try")
    sign_in(page, "bob", "bob's")
    page.wait_for_selector('main[data-page="try"]')
    assert page.get_by_role("button", name="Publish and watch").is_disabled()
    status = page.evaluate(
        """() => fetch('/api/publish', {method: 'POST', body: '{"attributes": {"x": 1}}',
        headers: {'x-tidings-console': '1'}}).then(answer => answer.status)"""
    )
    assert status == 403
    opened.refused = ("403",)


def test_who_may_not_observe_sees_nothing(secured: str, watched: Any) -> None:
    opened = watched(secured)
    page = opened.page
    page.goto(secured)
    sign_in(page, "eve", "eve's")
    page.wait_for_selector("text=eve may not observe b1")
    for path in ("live", "subscriptions", "words", "verdict", "flows", "studies", "quality"):
        status = page.evaluate(f"() => fetch('/api/{path}').then(answer => answer.status)")
        assert status == 403, path
    opened.refused = ("403",)
