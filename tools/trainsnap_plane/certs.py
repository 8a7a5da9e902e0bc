# SPDX-License-Identifier: Apache-2.0
"""A small certificate authority. Called by the launcher, and whenever a kubeconfig for one more user is wanted.

A plane has two: `ca` signs the API server, the webhooks and every client of the API server; `etcd-ca` only etcd and
the API server's access to it, so that no user of the cluster can talk to etcd. Keys are P-256: an RSA key takes a
second each. Files that are there already are used again, so that a kept folder keeps its users.
"""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from .layout import write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_LIFETIME = datetime.timedelta(days=365)
# A machine whose clock was set back a little since still accepts what was signed.
_LEEWAY = datetime.timedelta(hours=1)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@dataclass(frozen=True, slots=True)
class Pair:
    """Paths of a certificate and its key, both PEM; the key is readable by its owner only."""

    certificate: Path
    key: Path

    @property
    def exists(self) -> bool:
        return self.certificate.exists() and self.key.exists()


class Authority:
    """Issues certificates into one folder."""

    def __init__(self, folder: Path, name: str, *, now: Callable[[], datetime.datetime] = _now) -> None:
        self._folder = folder
        self._now = now
        self.pair = Pair(folder / f"{name}.crt", folder / f"{name}.key")
        if self.pair.exists:
            self._key = load_key(self.pair.key)
            self._certificate = x509.load_pem_x509_certificate(self.pair.certificate.read_bytes())
            return
        self._key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"trainsnap-plane-{name}")])
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        self._certificate = (
            self._builder(subject, subject, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        _write(self.pair, self._certificate, self._key)

    def client(self, file: str, user: str, groups: Sequence[str] = ()) -> Pair:
        """A certificate that the API server reads as this user in these groups (common name and organizations)."""
        names = [x509.NameAttribute(NameOID.COMMON_NAME, user)]
        names += [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        return self._issue(file, x509.Name(names), [ExtendedKeyUsageOID.CLIENT_AUTH], [])

    def server(self, file: str, names: Sequence[str] = (), *, also_client: bool = False) -> Pair:
        """A certificate for a server on the loopback address, and under further DNS names or addresses."""
        usages = [ExtendedKeyUsageOID.SERVER_AUTH] + ([ExtendedKeyUsageOID.CLIENT_AUTH] if also_client else [])
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, file)])
        return self._issue(file, subject, usages, ["127.0.0.1", "localhost", *names])

    def _issue(self, file: str, subject: x509.Name, usages: list[x509.ObjectIdentifier], names: list[str]) -> Pair:
        pair = Pair(self._folder / f"{file}.crt", self._folder / f"{file}.key")
        if pair.exists:
            return pair
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(subject, self._certificate.subject, key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        if names:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_general_name(n) for n in names]), critical=False
            )
        _write(pair, builder.sign(self._key, hashes.SHA256()), key)
        return pair

    def _builder(
        self, subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
    ) -> x509.CertificateBuilder:
        now = self._now()
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _LEEWAY)
            .not_valid_after(now + _LIFETIME)
        )


def signing_keys(folder: Path) -> Pair:
    """The key pair that signs ServiceAccount tokens; `certificate` holds the bare public key."""
    pair = Pair(folder / "service-accounts.pub", folder / "service-accounts.key")
    if not pair.exists:
        key = ec.generate_private_key(ec.SECP256R1())
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        write_atomically(pair.key, _pem(key), mode=0o600)
        write_atomically(pair.certificate, public.decode(), mode=0o644)
    return pair


def load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError(f"{path} is no elliptic curve key")
    return key


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(key: ec.EllipticCurvePrivateKey) -> str:
    # SEC1, because that is what every Go component reads for an EC key, token signing included.
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    ).decode()


def _write(pair: Pair, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    write_atomically(pair.key, _pem(key), mode=0o600)
    write_atomically(pair.certificate, certificate.public_bytes(serialization.Encoding.PEM).decode(), mode=0o644)
