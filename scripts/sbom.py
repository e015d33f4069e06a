"""Software bill of materials of a release: CycloneDX 1.5 as JSON, of an environment with the packages.

    python scripts/sbom.py                     # of the environment that runs it, to standard output

Rules
- A component for each installed distribution: name, version, licence as its metadata states it, and a package
  URL. Our own wheels have their SHA-256 too. `dependencies` says which needs which, by the metadata, as far
  as it is installed; extras that were not asked for are not followed.
- The same environment gives the same bytes: sorted, the serial number is made of the contents, and the time
  is that of the last commit (`SOURCE_DATE_EPOCH`).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import uuid
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

TOOLS = {"pip", "setuptools", "wheel"}  # of the environment, not of the release


def installed() -> list[dict[str, Any]]:
    """The distributions of this environment, by what their metadata says."""
    found = {}
    for each in metadata.distributions():
        name = _normal(each.metadata["Name"])
        if name not in TOOLS:
            classifiers = each.metadata.get_all("Classifier") or []
            licences = [text.split(" :: ")[-1] for text in classifiers if text.startswith("License ::")]
            stated = each.metadata.get("License-Expression") or ", ".join(licences)
            wanted = [text for text in each.requires or () if "extra ==" not in text]
            needs = {_normal(re.split(r"[^A-Za-z0-9._-]", text, maxsplit=1)[0]) for text in wanted}
            found[name] = {"name": name, "version": each.version, "licence": stated, "needs": sorted(needs)}
    return [found[name] for name in sorted(found)]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def document(found: list[dict[str, Any]], version: str, wheels: dict[str, Path]) -> dict[str, Any]:
    """The bill of materials. `wheels`: of our own packages, by name."""
    refs = {each["name"]: f"pkg:pypi/{each['name']}@{each['version']}" for each in found}
    components = []
    for each in found:
        name = each["name"]
        component: dict[str, Any] = {
            "type": "library", "bom-ref": refs[name], "name": name, "version": each["version"],
            "purl": refs[name],
        }  # fmt: skip
        if each["licence"]:
            component["licenses"] = [{"license": {"name": each["licence"]}}]
        if name in wheels:
            digest = hashlib.sha256(wheels[name].read_bytes()).hexdigest()
            component["hashes"] = [{"alg": "SHA-256", "content": digest}]
        components.append(component)
    depends = [
        {"ref": refs[each["name"]], "dependsOn": [refs[name] for name in each["needs"] if name in refs]}
        for each in found
    ]
    contents = json.dumps([components, depends], sort_keys=True)
    at = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), UTC)
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, contents)}",
        "metadata": {
            "timestamp": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {"type": "application", "bom-ref": "release", "name": "tidings", "version": version},
        },
        "components": components,
        "dependencies": [{"ref": "release", "dependsOn": [refs[name] for name in sorted(wheels)]}, *depends],
    }  # fmt: skip


def write(python: Path, file: Path, version: str, wheels: dict[str, Path]) -> int:
    """Write the bill of the environment of this interpreter; the number of components."""
    done = subprocess.run([python, "-I", __file__], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    missing = wheels.keys() - {each["name"] for each in found}
    if missing:
        raise SystemExit(f"not installed, and so not in the bill of materials: {sorted(missing)}")
    file.write_text(json.dumps(document(found, version, wheels), indent=1) + "\n")
    return len(found)


if __name__ == "__main__":
    json.dump(installed(), sys.stdout)
