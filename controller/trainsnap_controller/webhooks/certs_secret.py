# SPDX-License-Identifier: Apache-2.0
"""Keeps authority and serving pair in one Secret, and makes them anew when they are due.

Every replica does this, at the same time and without a leader: a write is conditional on the version that was read,
the first one wins, and the others read what it wrote. The Secret may exist without data, as charts and manifests ship
it (one with empty fields would be fought over by Helm, trainer#3627). What is in it and cannot be read is replaced; a
Secret that belongs to somebody else is left alone.

The right to list or watch Secrets is not needed; values are never logged.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

import structlog
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from trainsnap_api.transport import AlreadyExists, Conflict, NotFound, Resource
from trainsnap_api.transport.resources import SECRET
from trainsnap_controller.observe.clock import Clock, SystemClock
from trainsnap_controller.webhooks import certs_make as make
from trainsnap_controller.webhooks import certs_model as model
from trainsnap_controller.webhooks.certs_model import Bundle, CertificateError
from trainsnap_controller.webhooks.certs_policy import Policy, Work, due, renew
from trainsnap_controller.webhooks.certs_sources import AUTHORITY, AUTHORITY_KEY, CERTIFICATE, KEY, Reads, decoded

JSON = dict[str, Any]
FIELD_MANAGER: Final = "trainsnap-certificates"
CERT_MANAGER: Final = "cert-manager.io/certificate-name"
"""The annotation that cert-manager puts on a Secret that it fills."""
ATTEMPTS: Final = 10
"""Times that another writer may be first before it is reported; each time the other's result is read."""

_log = structlog.stdlib.get_logger(__name__)


class Secrets(Reads, Protocol):
    """The part of the transport that is needed here."""

    async def create(self, resource: Resource, obj: JSON, *, field_manager: str | None = None) -> JSON: ...

    async def merge_patch(
        self, resource: Resource, name: str, namespace: str | None, body: JSON, *, field_manager: str | None = None
    ) -> JSON: ...


class OwnSecret:
    """The Secret that trainsnap fills itself.

    Args:
        names: what the serving certificate has to be good for, the service's DNS name first.
        key: makes keys of authorities.
    """

    def __init__(
        self,
        api: Secrets,
        namespace: str,
        name: str,
        names: Sequence[str],
        *,
        policy: Policy | None = None,
        clock: Clock | None = None,
        key: make.KeyFactory = make.authority_key,
    ) -> None:
        self._api = api
        self._namespace, self._name, self._names = namespace, name, tuple(names)
        self._policy = policy or Policy()
        self._clock = clock or SystemClock()
        self._key = key
        self._seen: tuple[x509.Certificate, ...] = ()
        self._complaint = ""

    async def current(self, trusted: Iterable[x509.Certificate] = ()) -> Bundle:
        """What is in the Secret, after making what was due.

        ``trusted`` are the authorities in the webhook configurations. They are kept beside a new one for a while, also
        when the Secret is gone: other replicas may still serve what they signed.

        Raises:
            CertificateError: the Secret is somebody else's, or is changed faster than it can be read.
            TransportError: it cannot be read or written.
        """
        for _ in range(ATTEMPTS):
            secret = await self._find()
            bundle, complaint = (Bundle(), "") if secret is None else read(secret)
            self._complain(complaint)
            now = self._clock.wall()
            found = due(bundle, now, self._policy, self._names)
            if found.work is not Work.NOTHING:
                keep = (*self._seen, *trusted)
                bundle = await asyncio.to_thread(
                    renew, bundle, found.work, now, self._policy, self._names, also_trust=keep, key=self._key
                )
                if not await self._write(secret, bundle):
                    continue
                _log.info("certificates renewed", secret=self._title, made=found.work.value, because=found.why)
            self._seen = bundle.authorities
            return bundle
        raise CertificateError(f"{self._title} is changed all the time by somebody else")

    @property
    def _title(self) -> str:
        return f"{self._namespace}/{self._name}"

    async def _find(self) -> JSON | None:
        try:
            return await self._api.get(SECRET, self._name, self._namespace)
        except NotFound:
            return None

    async def _write(self, secret: JSON | None, bundle: Bundle) -> bool:
        """Write unless somebody else did since ``secret`` was read; whether it was written."""
        data = encoded(bundle)
        try:
            if secret is None:
                metadata = {"name": self._name, "namespace": self._namespace}
                await self._api.create(
                    SECRET, {"metadata": metadata, "type": "Opaque", "data": data}, field_manager=FIELD_MANAGER
                )
            else:
                body = {"metadata": {"resourceVersion": secret["metadata"]["resourceVersion"]}, "data": data}
                await self._api.merge_patch(SECRET, self._name, self._namespace, body, field_manager=FIELD_MANAGER)
        except (AlreadyExists, Conflict):
            return False
        except NotFound:
            if secret is None:
                raise  # the namespace is missing
            return False
        return True

    def _complain(self, text: str) -> None:
        if text and text != self._complaint:
            _log.warning("content of the certificate Secret is replaced", secret=self._title, why=text)
        self._complaint = text


def read(secret: JSON) -> tuple[Bundle, str]:
    """What is usable in a Secret, and in one line what is not, or "".

    Raises:
        CertificateError: the Secret is not ours to fill.
    """
    refuse_foreign(secret)
    data = decoded(secret)
    complaints: list[str] = []
    known: tuple[x509.Certificate, ...] = ()
    key = b""
    pair = None
    try:
        known = _signers(model.authorities(data[AUTHORITY], AUTHORITY)) if data[AUTHORITY] else ()
    except CertificateError as error:
        complaints.append(str(error))
    try:
        key = _key_of(known[0], data[AUTHORITY_KEY]) if known else b""
    except CertificateError as error:
        complaints.append(str(error))
    try:
        if data[CERTIFICATE] and data[KEY]:
            pair = model.pair(data[CERTIFICATE], data[KEY], certificate_field=CERTIFICATE, key_field=KEY)
    except CertificateError as error:
        complaints.append(str(error))
    return Bundle(known, key, pair), "; ".join(complaints)


def refuse_foreign(secret: JSON) -> None:
    """Raises CertificateError for a Secret that somebody else fills: its key pair would be lost."""
    metadata, data = secret["metadata"], decoded(secret)
    title = f"Secret {metadata['namespace']}/{metadata['name']}"
    advice = "give certManagement.webhookSecretName another name, or set certManagement.provider"
    if CERT_MANAGER in (metadata.get("annotations") or {}):
        raise CertificateError(f"{title} is filled by cert-manager; {advice} to cert-manager")
    if data[CERTIFICATE] and data[KEY] and not data[AUTHORITY_KEY] and not _by_our_authority(data[CERTIFICATE]):
        raise CertificateError(
            f"{title} has a {CERTIFICATE} but no {AUTHORITY_KEY}: somebody else made it; {advice} to say who does"
        )


def encoded(bundle: Bundle) -> dict[str, str]:
    """A complete bundle as the data of a Secret."""
    assert bundle.pair is not None
    fields = {
        AUTHORITY: model.pem(bundle.authorities),
        AUTHORITY_KEY: bundle.authority_key,
        CERTIFICATE: bundle.pair.pem(),
        KEY: bundle.pair.key,
    }
    return {field: base64.b64encode(value).decode() for field, value in fields.items()}


def _signers(certificates: Sequence[x509.Certificate]) -> tuple[x509.Certificate, ...]:
    """Raises CertificateError if one of them may not sign others: nobody would accept what it signed."""
    for certificate in certificates:
        try:
            constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
        except (x509.ExtensionNotFound, ValueError):
            constraints = x509.BasicConstraints(ca=False, path_length=None)
        if not constraints.ca:
            raise CertificateError(f"{AUTHORITY}: {certificate.subject.rfc4514_string()} is not an authority")
    return tuple(certificates)


def _by_our_authority(certificate: bytes) -> bool:
    try:
        return model.authorities(certificate, CERTIFICATE)[0].issuer == make.authority_name()
    except CertificateError:
        return False


def _key_of(authority: x509.Certificate, key: bytes) -> bytes:
    if not model.key_fits(authority, key, AUTHORITY_KEY):
        raise CertificateError(f"{AUTHORITY_KEY}: is not the key of the first certificate in {AUTHORITY}")
    if not isinstance(authority.public_key(), rsa.RSAPublicKey | ec.EllipticCurvePublicKey):
        raise CertificateError(f"{AUTHORITY_KEY}: only RSA and elliptic keys can be used")
    return key
