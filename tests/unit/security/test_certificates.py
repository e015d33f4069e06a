"""The name in a certificate, read without a package for certificates."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidings.runtime.authority import issue, make_authority
from tidings.security.certificates import name_in

BEGIN, END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


@pytest.mark.parametrize("name", ["ann", "Ärztin", "a" * 64])
def test_the_name_is_that_of_the_subject_of_the_first_certificate(tmp_path: Path, name: str) -> None:
    authority = make_authority(tmp_path)
    made = issue(tmp_path, name, broker=True)
    own, chain = made.certificate.read_text(), authority.certificate.read_text()
    assert name_in(own) == name
    assert name_in(made.key.read_text() + "x\n" + own + chain) == name
    assert name_in(chain) == "Tidings development authority"


@pytest.mark.parametrize(
    "pem",
    ["", "x", BEGIN, END + BEGIN, f"{BEGIN}\n{END}\n", f"{BEGIN}\nMIIB\n{END}\n", f"{BEGIN}\n!\n{END}\n"],
)
def test_what_cannot_be_read_has_no_name(pem: str) -> None:
    assert name_in(pem) == ""


def test_a_certificate_that_is_cut_anywhere_is_no_defect(tmp_path: Path) -> None:
    make_authority(tmp_path)
    lines = issue(tmp_path, "ann").certificate.read_text().splitlines()
    for cut in range(1, len(lines) - 1):
        assert name_in("\n".join([BEGIN, *lines[1:cut], END])) in ("", "ann")
