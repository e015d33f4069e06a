"""The release script: one version, and files that are what they say."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest
from tests.tidy._sources import ROOT, script

if not (ROOT / "lab" / "pyproject.toml").exists():
    pytest.skip("a source distribution of the product alone", allow_module_level=True)


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    yield script("release")
    sys.modules.pop("packages", None)


def test_all_packages_have_one_version_that_the_changelog_knows(release: object) -> None:
    found = release.versions()  # type: ignore[attr-defined]
    assert set(found) == {"tidings", "tidings-lab", "tidings-quality", "tidings-bench"}
    assert release.check_sources() in found.values()  # type: ignore[attr-defined]


def test_files_are_checked_and_a_changed_one_is_refused(release: object, tmp_path: Path) -> None:
    built = {"quality": release.build_one("quality", tmp_path)}  # type: ignore[attr-defined]
    version = release.check_sources()  # type: ignore[attr-defined]
    release.check_files(built, version)  # type: ignore[attr-defined]
    with pytest.raises(SystemExit, match="says that it is"):
        release.check_files(built, "9.9.9")  # type: ignore[attr-defined]
    _, wheel = built["quality"]
    changed = tmp_path / "changed.whl"
    with zipfile.ZipFile(wheel) as whole, zipfile.ZipFile(changed, "w") as made:
        for name in whole.namelist():
            made.writestr(name, whole.read(name) + (b"#" if name.endswith("__init__.py") else b""))
    with pytest.raises(SystemExit, match="is not the file that RECORD describes"):
        release.check_wheel(changed)  # type: ignore[attr-defined]


def test_no_host_is_named(release: object) -> None:
    for name in ("release.py", "packages.py"):
        assert "://" not in (ROOT / "scripts" / name).read_text()
