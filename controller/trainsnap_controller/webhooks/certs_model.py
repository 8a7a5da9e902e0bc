# SPDX-License-Identifier: Apache-2.0
"""Certificates as values: authorities, a serving pair, and what can be said of them at a given moment.

Read by every other ``certs_*`` module and by ``trainsnap certs``. Pure: no I/O, no clock, nothing is made here
(`certs_make`) and nothing is decided (`certs_policy`).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization


class CertificateError(Exception):
    """Certificates that cannot be used, or may not be touched; the text is one line for the user."""


@dataclass(frozen=True, slots=True)
class Pair:
    """What a server presents: its certificate, followed by intermediates if there are any, and its key."""

    chain: tuple[x509.Certificate, ...]
    key: bytes
    """PEM."""

    @property
    def leaf(self) -> x509.Certificate:
        return self.chain[0]

    def pem(self) -> bytes:
        """The chain as PEM, without the key."""
        return pem(self.chain)

    def __repr__(self) -> str:
        return f"Pair({fingerprint(self.leaf)})"


@dataclass(frozen=True, slots=True)
class Bundle:
    """What is kept together: the trusted authorities, newest first, the key of the newest, and the serving pair.

    Any part may be missing: authorities and their key where somebody else issues the pair.
    """

    authorities: tuple[x509.Certificate, ...] = ()
    authority_key: bytes = b""
    """PEM."""
    pair: Pair | None = None

    def __repr__(self) -> str:
        return f"Bundle({[fingerprint(a) for a in self.authorities]}, {self.pair})"


def authorities(data: bytes, field: str) -> tuple[x509.Certificate, ...]:
    """The certificates of a PEM text, in its order. Raises CertificateError, which names ``field``."""
    try:
        return tuple(x509.load_pem_x509_certificates(data))
    except ValueError as error:
        raise CertificateError(f"{field}: no certificate in PEM form") from error


def pair(certificate: bytes, key: bytes, *, certificate_field: str, key_field: str) -> Pair:
    """A pair from its two PEM texts. Raises CertificateError when one is unreadable or they do not belong together."""
    chain = authorities(certificate, certificate_field)
    if not key_fits(chain[0], key, key_field):
        raise CertificateError(f"{key_field}: is not the key of the certificate in {certificate_field}")
    return Pair(chain, key)


def key_fits(certificate: x509.Certificate, key: bytes, field: str) -> bool:
    """Whether a PEM key is the certificate's. Raises CertificateError when it cannot be read."""
    return _public(private_key(key, field).public_key()) == _public(certificate.public_key())


def private_key(key: bytes, field: str) -> Any:
    """A private key from PEM. Raises CertificateError, which names ``field``."""
    try:
        return serialization.load_pem_private_key(key, password=None)
    except TypeError as error:
        raise CertificateError(f"{field}: the key is protected by a password") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise CertificateError(f"{field}: no private key in PEM form") from error


def pem(certificates: Iterable[x509.Certificate]) -> bytes:
    """Certificates as one PEM text."""
    return b"".join(one.public_bytes(serialization.Encoding.PEM) for one in certificates)


def fingerprint(certificate: x509.Certificate) -> str:
    """The first half of the SHA-256 of a certificate, in hex: enough to tell one from another."""
    return certificate.fingerprint(hashes.SHA256()).hex()[:32]


def names(certificate: x509.Certificate) -> tuple[str, ...]:
    """The DNS names and IP addresses that a certificate is good for."""
    try:
        alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return ()
    addresses = (str(address) for address in alternatives.get_values_for_type(x509.IPAddress))
    return (*alternatives.get_values_for_type(x509.DNSName), *addresses)


def canonical(name: str) -> str:
    """A name as `names` gives it: IP addresses in their usual form, DNS names in lower case."""
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name.lower()


def valid(certificate: x509.Certificate, now: datetime) -> bool:
    """Whether a moment lies between a certificate's dates."""
    return certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc


def issued_by(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    """Whether the one is signed by the other."""
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def anchors(pair: Pair, roots: Sequence[x509.Certificate], now: datetime) -> list[x509.Certificate]:
    """Those of the roots through which a client accepts the pair at this moment; names are not looked at.

    Follows the chain in the order in which it is sent, as servers must send it.
    """
    links: list[x509.Certificate] = []
    for certificate in pair.chain:
        if not valid(certificate, now) or (links and not issued_by(links[-1], certificate)):
            break
        links.append(certificate)
    return [root for root in roots if valid(root, now) and any(root == c or issued_by(c, root) for c in links)]


def _public(key: Any) -> bytes:
    data: bytes = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return data
