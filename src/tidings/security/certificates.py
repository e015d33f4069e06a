"""Principal of a certificate. TLS has checked the chain before this module is called.

The common name of the subject is the principal's name. A broker's certificate says so in its
organisational unit (`tidings-broker`), which the authority gives to brokers alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ssl import PEM_cert_to_DER_cert, cert_time_to_seconds
from typing import Any

from tidings.errors import RefusedError
from tidings.security.principal import Principal, ProofMethod, ProofValidity, proved_name

BROKER_UNIT = "tidings-broker"
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
_COMMON_NAME = bytes((0x06, 3, 0x55, 4, 3))  # the object identifier 2.5.4.3 in DER
_EXPLICIT = 0xA0  # tag of the version, which an old certificate lacks
_SUBJECT = 4  # among the fields of a certificate: serial, algorithm, issuer, validity, subject


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


def name_in(pem: str) -> str:
    """Common name of the first certificate in PEM: its own, before those of its authorities. Empty when it
    cannot be read or has another number of names than one; then the broker says what is wrong."""
    begin, end = pem.find(_BEGIN), pem.find(_END)
    if not 0 <= begin < end:
        return ""
    try:
        whole = PEM_cert_to_DER_cert(pem[begin : end + len(_END)])
        fields = list(_elements(next(_elements(next(_elements(whole))[1]))[1]))
        subject = [each for each in fields if each[0] != _EXPLICIT][_SUBJECT][1]
        names = [
            pair.removeprefix(_COMMON_NAME)
            for _, part in _elements(subject)
            for _, pair in _elements(part)
            if pair.startswith(_COMMON_NAME)
        ]
        values = [next(_elements(name))[1].decode() for name in names]
    except (ValueError, IndexError, StopIteration):
        return ""
    return values[0] if len(values) == 1 else ""


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Tags and contents of the elements in DER that follow one another. Raises `ValueError`."""
    at = 0
    while at < len(data):
        tag, size, at = data[at], data[at + 1], at + 2
        if size & 0x80:
            count = size & 0x7F
            size, at = int.from_bytes(data[at : at + count], "big"), at + count
        if at + size > len(data):
            raise ValueError("an element ends behind its data")
        yield tag, data[at : at + size]
        at += size


def _end_of(certificate: Mapping[str, Any]) -> float | None:
    """Expiry, as `ssl` writes it: `Jan  5 09:34:43 2030 GMT`."""
    text = certificate.get("notAfter")
    return None if text is None else float(cert_time_to_seconds(text))


def _subject(certificate: Mapping[str, Any], kind: str) -> list[str]:
    return [value for part in certificate.get("subject", ()) for name, value in part if name == kind]
