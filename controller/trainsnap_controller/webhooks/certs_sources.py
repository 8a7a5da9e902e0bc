# SPDX-License-Identifier: Apache-2.0
"""Where certificates come from when others make them: a Secret that cert-manager fills, or files.

Asked by `certs_manager` again and again; both only read. The source that makes them itself is `certs_secret`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Protocol

from cryptography import x509

from trainsnap_api.transport import NotFound, Resource
from trainsnap_api.transport.resources import SECRET
from trainsnap_controller.webhooks.certs_model import Bundle, CertificateError, authorities, pair

JSON = dict[str, Any]
AUTHORITY: Final = "ca.crt"
AUTHORITY_KEY: Final = "ca.key"
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
"""Keys of the Secret, and names of the files."""


class Source(Protocol):
    """Gives the certificates that are to be used now."""

    async def current(self, trusted: Iterable[x509.Certificate] = ()) -> Bundle:
        """``trusted`` are the authorities that clients trust now: whoever makes new ones keeps those for a while.

        Raises CertificateError when there is nothing usable, and the transport's errors.
        """
        ...


class Reads(Protocol):
    """The part of the transport that reading a Secret needs."""

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> JSON: ...


class ForeignSecret:
    """A Secret with ``tls.crt`` and ``tls.key``, and ``ca.crt`` where the issuer gives it, as cert-manager makes it."""

    def __init__(self, api: Reads, namespace: str, name: str) -> None:
        self._api = api
        self._namespace, self._name = namespace, name

    async def current(self, trusted: Iterable[x509.Certificate] = ()) -> Bundle:
        title = f"Secret {self._namespace}/{self._name}"
        try:
            secret = await self._api.get(SECRET, self._name, self._namespace)
        except NotFound as error:
            raise CertificateError(f"{title} does not exist; cert-manager makes it from a Certificate") from error
        data = decoded(secret)
        if not data[CERTIFICATE] or not data[KEY]:
            raise CertificateError(f"{title} has no {CERTIFICATE} and {KEY} yet; cert-manager fills it")
        found = pair(
            data[CERTIFICATE],
            data[KEY],
            certificate_field=f"{title}: {CERTIFICATE}",
            key_field=f"{title}: {KEY}",
        )
        known = authorities(data[AUTHORITY], f"{title}: {AUTHORITY}") if data[AUTHORITY] else ()
        return Bundle(known, pair=found)


class Files:
    """``tls.crt`` and ``tls.key`` in a folder, such as a mounted Secret; read anew each time.

    Contents are compared, not dates: the kubelet swaps a whole folder, and a date may stay the same. A certificate and
    key that were read while they changed do not belong together, which is an error until the next look.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def current(self, trusted: Iterable[x509.Certificate] = ()) -> Bundle:
        certificate, key = self._folder / CERTIFICATE, self._folder / KEY
        return Bundle(
            pair=pair(_read(certificate), _read(key), certificate_field=str(certificate), key_field=str(key)),
        )


def decoded(secret: JSON) -> dict[str, bytes]:
    """The four fields of a Secret; those that it does not have are empty."""
    data = secret.get("data") or {}
    return {field: base64.b64decode(data.get(field) or "") for field in (AUTHORITY, AUTHORITY_KEY, CERTIFICATE, KEY)}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(f"{path}: {error.strerror or error}") from error
