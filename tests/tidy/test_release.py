"""The release script: one version, and files that are what they say."""

from __future__ import annotations

import hashlib
import json
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest
from tests.tidy._sources import ROOT, script

if not (ROOT / "lab" / "pyproject.toml").exists():
    pytest.skip("a source distribution of the product alone", allow_module_level=True)


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    yield script("release")
    for name in ("packages", "sbom"):
        sys.modules.pop(name, None)


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


def test_the_bill_of_materials_lists_what_is_installed(release: object, tmp_path: Path) -> None:
    wheel, bill = tmp_path / "tidings-1.whl", tmp_path / release.SBOM  # type: ignore[attr-defined]
    wheel.write_bytes(b"wheel")
    count = release.write_sbom(Path(sys.executable), bill, "1", {"tidings": wheel})  # type: ignore[attr-defined]
    found = json.loads(bill.read_text())
    assert (found["bomFormat"], found["specVersion"], len(found["components"])) == ("CycloneDX", "1.5", count)
    by_name = {each["name"]: each for each in found["components"]}
    own = by_name["tidings"]
    assert own["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(b"wheel").hexdigest()}]
    assert own["licenses"] == [{"license": {"name": "Apache-2.0"}}]
    installed = version("msgspec")
    assert by_name["msgspec"]["purl"] == f"pkg:pypi/msgspec@{installed}"
    depends = {each["ref"]: each["dependsOn"] for each in found["dependencies"]}
    assert f"pkg:pypi/msgspec@{installed}" in depends[own["bom-ref"]]
    assert depends["release"] == [own["bom-ref"]]
    assert {ref for refs in depends.values() for ref in refs} <= depends.keys()
    first = bill.read_bytes()
    release.write_sbom(Path(sys.executable), bill, "1", {"tidings": wheel})  # type: ignore[attr-defined]
    assert bill.read_bytes() == first, "the same environment gives the same bytes"
    release.write_sums(tmp_path, {})  # type: ignore[attr-defined]
    assert (tmp_path / release.SUMS).read_text().endswith(f"  {bill.name}\n")  # type: ignore[attr-defined]
    with pytest.raises(SystemExit, match="not installed"):
        release.write_sbom(Path(sys.executable), bill, "1", {"absent": wheel})  # type: ignore[attr-defined]


def test_no_host_is_named(release: object) -> None:
    for name in ("release.py", "packages.py", "sbom.py"):
        assert "://" not in (ROOT / "scripts" / name).read_text()
