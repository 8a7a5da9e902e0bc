# SPDX-License-Identifier: Apache-2.0
"""Makes authorities and serving pairs. Called by `certs_policy.renew`; keys come in as arguments or from a factory.

The reference's certificate rotator may take over what is made here, and reads it in its own way: the authority's key
has to be RSA in PKCS#1 form, its certificate has to carry its own name as a DNS name, and only the first certificate
of ``ca.crt`` counts (open-policy-agent/cert-controller, pkg/rotator). The serving key is read by Go's TLS library, so
that it can be an elliptic one, which makes a handshake several times cheaper.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from trainsnap_controller.webhooks.certs_model import Pair, private_key

AUTHORITY_NAME: Final = "kubeflow-trainer-ca"
ORGANIZATION: Final = "kubeflow-trainer"
COMMON_NAME_LIMIT: Final = 64
"""X.509's limit; a longer service name stands among the alternative names only, which is all that clients look at."""

KeyFactory = Callable[[], rsa.RSAPrivateKey]


def authority_key() -> rsa.RSAPrivateKey:
    """A key for an authority; takes about a tenth of a second of CPU."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def authority_name() -> x509.Name:
    """The subject of every authority; the reference's."""
    return _name(AUTHORITY_NAME)


def make_authority(
    now: datetime, life: timedelta, backdate: timedelta, *, key: KeyFactory = authority_key
) -> tuple[x509.Certificate, bytes]:
    """A self-signed authority that may sign servers only, and its key as PEM."""
    private = key()
    name = authority_name()
    builder = _builder(name, name, private.public_key(), now - backdate, now + life)
    extensions: list[tuple[x509.ExtensionType, bool]] = [
        (x509.BasicConstraints(ca=True, path_length=0), True),
        (_usage(signs_certificates=True), True),
        (x509.SubjectKeyIdentifier.from_public_key(private.public_key()), False),
        (x509.SubjectAlternativeName([x509.DNSName(AUTHORITY_NAME)]), False),
    ]
    certificate = _signed(builder, extensions, private)
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    return certificate, pem


def make_pair(
    authority: x509.Certificate,
    authority_key: bytes,
    names: Iterable[str],
    now: datetime,
    life: timedelta,
    backdate: timedelta,
) -> Pair:
    """A certificate for a server with these names, the first of them its common name; never outlives its authority."""
    wanted = list(names)
    key = ec.generate_private_key(ec.SECP256R1())
    end = min(now + life, authority.not_valid_after_utc)
    start = max(now - backdate, authority.not_valid_before_utc)
    builder = _builder(_name(wanted[0]), authority.subject, key.public_key(), start, end)
    extensions: list[tuple[x509.ExtensionType, bool]] = [
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_usage(signs_certificates=False), True),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        (x509.SubjectAlternativeName([_general_name(name) for name in wanted]), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(_public_key(authority)), False),
    ]
    certificate = _signed(builder, extensions, private_key(authority_key, "ca.key"))
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Pair((certificate,), pem)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: Any, start: datetime, end: datetime
) -> x509.CertificateBuilder:
    # Certificates know whole seconds only.
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start.replace(microsecond=0))
        .not_valid_after(end.replace(microsecond=0))
    )


def _signed(
    builder: x509.CertificateBuilder, extensions: Iterable[tuple[x509.ExtensionType, bool]], key: Any
) -> x509.Certificate:
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(key, hashes.SHA256())


def _name(common_name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name[:COMMON_NAME_LIMIT]),
        ]
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _public_key(authority: x509.Certificate) -> Any:
    return authority.public_key()


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
