"""Editing a users file in place: its comments and its order stay.

Rules
- A user is a table `[users.NAME]` of its own. One that is written in another form is refused, not rewritten.
- The new text is parsed before it is written, and must differ from the old one in that user alone.
- The file is replaced at once and keeps its permissions and its owner; a new one is for its owner alone. A
  link stays a link: the file that it names is replaced.
- Commands that edit one file at the same time follow one another: each reads, changes and writes under a
  lock of the directory.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tidings.errors import InputError, SettingsError
from tidings.security.users import parse_users

_HEADER = re.compile(r"^\s*\[\s*users\s*\.")
_TABLE = re.compile(r"^\s*\[")
_DISABLED = re.compile(r"\s*disabled\s*=")
_PASSWORD = re.compile(r"^(\s*password\s*=\s*)(\"[^\"]*\"|'[^']*')")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


class UsersFile:
    """A users file as text. Each change returns a new one; `write` keeps it."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.text = text
        self._table = _parsed(text, path)

    @classmethod
    def read(cls, path: Path, *, missing_ok: bool = False) -> UsersFile:
        try:
            return cls(path, path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            if not missing_ok:
                raise
            return cls(path, "")

    @classmethod
    @contextmanager
    def editing(cls, path: Path, *, missing_ok: bool = False) -> Iterator[UsersFile]:
        """The file as it is now, for one change: other commands that edit it wait until the block ends."""
        directory = os.open(path.resolve().parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(directory, fcntl.LOCK_EX)
            yield cls.read(path, missing_ok=missing_ok)
        finally:
            os.close(directory)

    @property
    def users(self) -> Mapping[str, Mapping[str, Any]]:
        found = self._table.get("users", {})
        return found if isinstance(found, dict) else {}

    def add(self, name: str, key: str | None, **more: Any) -> UsersFile:
        """With a user that was not there; `key`: its stored key, None for one that comes by certificate or
        token."""
        if name in self.users:
            raise InputError(
                f"{self.path} has a user {name!r}", hint="change its password: tidings users passwd"
            )
        entry = {
            **({} if key is None else {"password": key}),
            **{field: value for field, value in more.items() if value},
        }
        lines = [f"[users.{_key(name)}]", *(f"{field} = {_value(value)}" for field, value in entry.items())]
        before = self.text.rstrip("\n")
        return self._changed(f"{before}\n\n" * bool(before) + "\n".join(lines) + "\n", name, entry)

    def remove(self, name: str) -> UsersFile:
        """Without this user. Rules that name it stay."""
        begin, end = self._place(name)
        lines = self.text.splitlines(keepends=True)
        while end < len(lines) and not lines[end].strip():
            end += 1
        return self._changed("".join(lines[:begin] + lines[end:]), name, None)

    def with_password(self, name: str, key: str) -> UsersFile:
        """With another stored key of a user."""
        begin, end = self._place(name)
        lines = self.text.splitlines(keepends=True)
        entry = {**self.users[name], "password": key}
        for number in range(begin + 1, end):
            if match := _PASSWORD.match(lines[number]):
                lines[number] = f'{match[1]}"{key}"{lines[number][match.end() :]}'
                break
        else:
            lines.insert(begin + 1, f'password = "{key}"\n')
        return self._changed("".join(lines), name, entry)

    def disabled(self, name: str, is_disabled: bool) -> UsersFile:
        """With a user that is, or is no longer, kept out."""
        begin, end = self._place(name)
        lines = self.text.splitlines(keepends=True)
        entry = {field: value for field, value in self.users[name].items() if field != "disabled"}
        kept = [line for line in lines[begin + 1 : end] if not _DISABLED.match(line)]
        if is_disabled:
            entry["disabled"] = True
            kept.insert(0, "disabled = true\n")
        if not lines[begin].endswith("\n"):
            lines[begin] += "\n"
        return self._changed("".join([*lines[: begin + 1], *kept, *lines[end:]]), name, entry)

    def _place(self, name: str) -> tuple[int, int]:
        """First line of a user's table, and the line behind its last."""
        if name not in self.users:
            known = ", ".join(sorted(self.users)[:10]) or "none"
            raise InputError(f"{self.path} has no user {name!r}", hint=f"its users: {known}")
        lines = self.text.splitlines()
        for begin, line in enumerate(lines):
            if _HEADER.match(line) and _named(line) == name:
                end = begin + 1
                while end < len(lines) and not _TABLE.match(lines[end]):
                    end += 1
                while end > begin + 1 and (
                    not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")
                ):
                    end -= 1  # comments above the next table belong to it
                return begin, end
        raise SettingsError(
            f"{self.path}: the user {name!r} is not written as a table [users.{_key(name)}]",
            hint="edit the file by hand, then: tidings users check",
        )

    def _changed(self, text: str, name: str, entry: Mapping[str, Any] | None) -> UsersFile:
        new = UsersFile(self.path, text)
        wanted = {**self._table, "users": {**self.users, name: dict(entry or {})}}
        if entry is None:
            del wanted["users"][name]
        if {"users": {}, **new._table} != wanted:
            raise SettingsError(
                f"{self.path} is written in a way that this command cannot edit",
                hint="edit the file by hand, then: tidings users check",
            )
        return new

    def write(self) -> None:
        """Check the whole file as a broker would, and replace it."""
        parse_users(self.text, read=lambda name: (self.path.parent / name).read_bytes(), where=str(self.path))
        path = self.path.resolve()
        before = path.stat() if path.exists() else None
        descriptor, new = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(self.text)
                file.flush()
                os.fsync(file.fileno())
            if before is not None and (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
                os.chown(new, before.st_uid, before.st_gid)  # its broker has to read it
            Path(new).chmod(0o600 if before is None else before.st_mode & 0o777)
            Path(new).replace(path)
        except BaseException:
            Path(new).unlink(missing_ok=True)
            raise


def _parsed(text: str, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: {error}") from None


def _named(header: str) -> str | None:
    try:
        found = tomllib.loads(header)["users"]
    except (tomllib.TOMLDecodeError, KeyError):
        return None
    name: str = next(iter(found))
    return name if not found[name] else None


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _value(name)


def _value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
