"""Editing a users file: one user changes, the rest of the text stays."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from tidings.errors import InputError, SettingsError
from tidings.security.scram import make_key
from tidings.security.users_file import UsersFile

KEY, OTHER = (str(make_key(text, iterations=4096)) for text in ("a", "b"))
TEXT = f"""# who works here
[users.ann]
password = "{KEY}"  # since May
groups = ["traders"]

# comes by token
[users."bob@example"]
tenant = "blue"

[[allow]]
who = "ann"
action = "publish"
"""


@pytest.fixture
def file(tmp_path: Path) -> UsersFile:
    path = tmp_path / "users.toml"
    path.write_text(TEXT)
    path.chmod(0o640)
    return UsersFile.read(path)


def test_a_user_is_added_behind_what_is_there(file: UsersFile) -> None:
    file.add("cy/d", KEY, groups=["a b"], tenant="", filter="x = 'y'").write()
    text = file.path.read_text()
    assert text.startswith(TEXT)
    assert text.removeprefix(TEXT).splitlines()[1:] == [
        '[users."cy/d"]', f'password = "{KEY}"', 'groups = ["a b"]', "filter = \"x = 'y'\"",
    ]  # fmt: skip
    assert file.path.stat().st_mode & 0o777 == 0o640


def test_a_new_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "new.toml"
    UsersFile.read(path, missing_ok=True).add("ann", KEY).write()
    assert path.stat().st_mode & 0o777 == 0o600
    assert UsersFile.read(path).users == {"ann": {"password": KEY}}


def test_a_password_changes_and_its_comment_stays(file: UsersFile) -> None:
    changed = file.with_password("ann", OTHER)
    assert changed.text == TEXT.replace(KEY, OTHER)
    assert file.with_password("bob@example", OTHER).users["bob@example"] == {
        "password": OTHER,
        "tenant": "blue",
    }


@pytest.mark.parametrize(("name", "left"), [("ann", "bob@example"), ("bob@example", "ann")])
def test_a_removed_user_leaves_the_others(file: UsersFile, name: str, left: str) -> None:
    removed = file.remove(name)
    assert list(removed.users) == [left]
    assert '[[allow]]\nwho = "ann"' in removed.text
    assert removed.text.startswith("# who works here\n")


def test_mistakes_say_what_to_do(file: UsersFile) -> None:
    with pytest.raises(InputError, match="has a user 'ann'"):
        file.add("ann", KEY)
    with pytest.raises(InputError, match="has no user 'dan'") as caught:
        file.remove("dan")
    assert caught.value.hint == "its users: ann, bob@example"
    inline = UsersFile(file.path, 'users = { ann = { groups = ["a"] } }\n')
    for change in (lambda: inline.remove("ann"), lambda: inline.add("cy", KEY)):
        with pytest.raises(SettingsError) as refused:
            change()
        assert (
            refused.value.hint == "edit the file by hand, then: tidings users check"
            or "users.toml" in str(refused.value)
        )


def test_a_file_that_a_broker_would_refuse_is_not_written(file: UsersFile) -> None:
    with pytest.raises(SettingsError):
        file.add("cy", "no key").write()
    assert file.path.read_text() == TEXT


def test_two_that_edit_at_the_same_time_lose_no_change(file: UsersFile) -> None:
    path, has_read, others = file.path, threading.Event(), []

    def add(name: str) -> None:
        has_read.wait()
        with UsersFile.editing(path) as now:
            now.add(name, KEY).write()

    with UsersFile.editing(path) as now:
        others += [threading.Thread(target=add, args=(name,)) for name in ("cy", "di", "ed")]
        for each in others:
            each.start()
        has_read.set()
        others[0].join(0.05)  # it waits for us; without a lock it would have written by now
        now.add("flo", KEY).write()
    for each in others:
        each.join()
    assert set(UsersFile.read(path).users) == {"ann", "bob@example", "cy", "di", "ed", "flo"}


def test_a_link_stays_a_link(file: UsersFile, tmp_path: Path) -> None:
    link = tmp_path / "elsewhere" / "users.toml"
    link.parent.mkdir()
    link.symlink_to(file.path)
    UsersFile.read(link).remove("ann").write()
    assert link.is_symlink()
    assert set(UsersFile.read(file.path).users) == {"bob@example"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file to another user")
def test_a_file_keeps_its_owner(file: UsersFile) -> None:
    os.chown(file.path, 65534, 65534)
    file.remove("ann").write()
    assert (file.path.stat().st_uid, file.path.stat().st_gid) == (65534, 65534)


def test_a_user_is_disabled_and_enabled(file: UsersFile) -> None:
    out = file.disabled("ann", True)
    assert out.users["ann"]["disabled"] is True
    assert out.disabled("ann", True).text == out.text
    assert out.disabled("ann", False).text == file.text
    assert file.disabled("bob@example", True).users["bob@example"] == {"tenant": "blue", "disabled": True}
    with pytest.raises(InputError, match="has no user 'eve'"):
        file.disabled("eve", True)
