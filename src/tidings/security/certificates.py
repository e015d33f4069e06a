"""Principal of a certificate. TLS has checked the chain before this module is called.

The common name of the subject is the principal's name. A broker's certificate says so in its
organisational unit (`tidings-broker`), which the authority gives to brokers alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from ssl import cert_time_to_seconds
from typing import Any

from tidings.errors import RefusedError
from tidings.security.principal import Principal, ProofMethod, ProofValidity, proved_name

BROKER_UNIT = "tidings-broker"


def principal_of(certificate: Mapping[str, Any]) -> Principal:
    """From what `ssl` gives as the peer's certificate (`getpeercert()`)."""
    names = _subject(certificate, "commonName")
    if len(names) != 1:
        raise RefusedError(
            f"the certificate has {len(names)} common names", hint="a client's certificate has one: its name"
        )
    is_broker = BROKER_UNIT in _subject(certificate, "organizationalUnitName")
    return Principal(
        proved_name(names[0], "a certificate's name"),
        ProofMethod.CERTIFICATE,
        is_broker=is_broker,
        proof=ProofValidity(until=_end_of(certificate), serial=str(certificate.get("serialNumber", ""))),
    )


def _end_of(certificate: Mapping[str, Any]) -> float | None:
    """Expiry, as `ssl` writes it: `Jan  5 09:34:43 2030 GMT`."""
    text = certificate.get("notAfter")
    return None if text is None else float(cert_time_to_seconds(text))


def _subject(certificate: Mapping[str, Any], kind: str) -> list[str]:
    return [value for part in certificate.get("subject", ()) for name, value in part if name == kind]
