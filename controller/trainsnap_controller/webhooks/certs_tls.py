# SPDX-License-Identifier: Apache-2.0
"""The TLS side of servers: what the configuration allows, and a context whose certificate changes while it is in use.

The context that servers get never holds a certificate itself. For every handshake it hands over to one that was made
for the current pair, so that a change is whole: connections see the old pair or the new one, never the certificate of
one with the key of the other, and no RSA certificate lingers beside an elliptic one (OpenSSL keeps one of each kind).
Keys reach OpenSSL, which reads files only, through memory that has no name in any file system.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from trainsnap_controller.webhooks.certs_model import CertificateError, Pair

VERSIONS: Final = {
    "1.0": ssl.TLSVersion.TLSv1_2,
    "1.1": ssl.TLSVersion.TLSv1_2,
    "1.2": ssl.TLSVersion.TLSv1_2,
    "1.3": ssl.TLSVersion.TLSv1_3,
}
"""Names as the configuration has them. 1.0 and 1.1 are not offered any more, as OpenSSL comes without them."""
_OLD: Final = frozenset({"1.0", "1.1"})
HTTP: Final = "http/1.1"
"""The only protocol that our servers speak."""

CIPHERS: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
}
"""TLS 1.2 suites by their name in Go, and so in configuration files, with OpenSSL's name."""
INSECURE_CIPHERS: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
}
"""Those that Go accepts though they are weak."""
ALWAYS: Final = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
"""The suites of TLS 1.3: always on, in Go too, whatever the list says."""


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """What connections have to be like. ``ciphers`` are OpenSSL's names of TLS 1.2 suites; none: OpenSSL's choice."""

    minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    ciphers: tuple[str, ...] = ()
    protocols: tuple[str, ...] = (HTTP,)


def settings(
    min_version: str, cipher_suites: Sequence[str], next_protos: Sequence[str]
) -> tuple[TlsSettings, list[str]]:
    """The settings by the configuration's ``tls`` section, and a warning for everything in it that has no effect.

    Like the reference, it never refuses to start because of a name that it does not know.
    """
    warnings: list[str] = []
    if min_version and min_version not in VERSIONS:
        warnings.append(f"tls.minVersion {min_version!r} is not known and ignored; known are {', '.join(VERSIONS)}")
    elif min_version in _OLD:
        warnings.append(f"tls.minVersion {min_version} is insecure and not offered: connections need at least TLS 1.2")
    ciphers: list[str] = []
    for name in cipher_suites:
        if name in CIPHERS:
            ciphers.append(CIPHERS[name])
        elif name in INSECURE_CIPHERS:
            warnings.append(f"tls.cipherSuites: {name} is insecure")
            ciphers.append(INSECURE_CIPHERS[name])
        elif name not in ALWAYS:
            warnings.append(f"tls.cipherSuites: {name!r} is not known and ignored")
    protocols = [name for name in next_protos if name == HTTP]
    warnings += [
        f"tls.nextProtos: {name!r} is not spoken here and ignored; {HTTP} is" for name in next_protos if name != HTTP
    ]
    minimum = VERSIONS.get(min_version, ssl.TLSVersion.TLSv1_2)
    return TlsSettings(minimum, tuple(ciphers), tuple(protocols) or (HTTP,)), warnings


class LiveContext:
    """A server's TLS context with a certificate that can be replaced at any time. ``context`` stays the same object.

    Before the first `load` every handshake is refused with an alert.
    """

    def __init__(self, settings: TlsSettings | None = None) -> None:
        self._settings = settings or TlsSettings()
        self._current: ssl.SSLContext | None = None
        self.context = _context(self._settings)
        # Asked in every handshake, also when the client names no server.
        self.context.sni_callback = self._choose

    def load(self, pair: Pair) -> None:
        """Show this pair in handshakes from now on; open connections go on.

        Raises:
            CertificateError: OpenSSL refuses the pair, as it does for keys that are too short.
        """
        fresh = _context(self._settings)
        try:
            with _in_memory(pair.pem() + pair.key) as path:
                fresh.load_cert_chain(path)
        except ssl.SSLError as error:
            raise CertificateError(f"the serving certificate is refused by OpenSSL: {error.reason}") from error
        self._current = fresh

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> int | None:
        if self._current is None:
            return ssl.AlertDescription.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = self._current
        return None


def _context(settings: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = settings.minimum
    # The API server never resumes a session: tickets for that are a third of the CPU time of a handshake (0.36 ms
    # instead of 0.62), and it shakes hands up to twice for every TrainJob of a burst.
    context.num_tickets = 0
    context.set_alpn_protocols(list(settings.protocols))
    if settings.ciphers:
        context.set_ciphers(":".join(settings.ciphers))
    return context


@contextlib.contextmanager
def _in_memory(data: bytes) -> Iterator[str]:
    """A path under which OpenSSL can read the data now, and under which nothing is left afterwards."""
    memory = getattr(os, "memfd_create", None)
    if memory is None or not os.path.isdir("/proc/self/fd"):
        # Not Linux: a file for a moment, which nobody else can open.
        with tempfile.TemporaryDirectory(prefix="trainsnap-") as folder:  # mode 0700
            path = os.path.join(folder, "pair.pem")
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
            yield path
        return
    with open(memory("pair"), "wb", buffering=0) as file:
        file.write(data)
        yield f"/proc/self/fd/{file.fileno()}"
