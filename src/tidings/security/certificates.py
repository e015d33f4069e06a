"""Who a certificate speaks of. The chain was checked by TLS before anybody asks here.

The common name of the subject is the principal's name. A broker's certificate says so in its
organisational unit (`tidings-broker`), which the authority gives to brokers alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidings.errors import RefusedError
from tidings.security.principal import Means, Principal, checked_name

BROKER_UNIT = "tidings-broker"


def principal_of(certificate: Mapping[str, Any]) -> Principal:
    """From what `ssl` gives as the peer's certificate (`getpeercert()`)."""
    names = _subject(certificate, "commonName")
    if len(names) != 1:
        raise RefusedError(
            f"the certificate has {len(names)} common names", hint="a client's certificate has one: its name"
        )
    is_broker = BROKER_UNIT in _subject(certificate, "organizationalUnitName")
    return Principal(checked_name(names[0], "a certificate's name"), Means.CERTIFICATE, is_broker=is_broker)


def _subject(certificate: Mapping[str, Any], kind: str) -> list[str]:
    return [value for part in certificate.get("subject", ()) for name, value in part if name == kind]
