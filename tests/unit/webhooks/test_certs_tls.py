# SPDX-License-Identifier: Apache-2.0
"""The TLS context of our servers: handshakes by real OpenSSL, over memory."""

from __future__ import annotations

import os
import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from support.authorities import key
from support.certificates import Authority
from trainsnap_controller.webhooks import certs_make as make
from trainsnap_controller.webhooks import certs_tls
from trainsnap_controller.webhooks.certs_model import Bundle, CertificateError, Pair, pem
from trainsnap_controller.webhooks.certs_model import pair as parsed
from trainsnap_controller.webhooks.certs_policy import Policy, Work, renew
from trainsnap_controller.webhooks.certs_tls import LiveContext, TlsSettings, settings


def bundle(number: int = 0) -> Bundle:
    names = ["localhost", "127.0.0.1"]
    return renew(Bundle(), Work.AUTHORITY, datetime.now(UTC), Policy(), names, key=lambda: key(number))


def handshake(server: ssl.SSLContext, trusted: bytes, *, name: str = "localhost", **client: object) -> ssl.SSLObject:
    """A client that trusts the PEM connects; returns its side. Raises what the client sees."""
    context = ssl.create_default_context(cadata=trusted.decode())
    context.set_alpn_protocols(["h2", "http/1.1"])
    for attribute, value in client.items():
        setattr(context, attribute, value)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(to_server, to_client, server_side=True)
    theirs = context.wrap_bio(to_client, to_server, server_hostname=name)
    for _ in range(10):
        done = True
        for side in (theirs, ours):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                done = False
            except ssl.SSLError:
                if side is theirs:
                    raise
                done = False
        if done:
            return theirs
    raise AssertionError("the handshake does not end")


def test_a_new_pair_counts_from_the_next_handshake() -> None:
    first, second = bundle(0), bundle(1)
    live = LiveContext()
    assert first.pair is not None
    assert second.pair is not None
    live.load(first.pair)
    open_connection = handshake(live.context, pem(first.authorities))
    live.load(second.pair)
    assert handshake(live.context, pem(second.authorities)).getpeercert(True) != open_connection.getpeercert(True)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(live.context, pem(first.authorities))


def test_an_old_rsa_certificate_does_not_linger_beside_a_new_elliptic_one() -> None:
    # The reference serves RSA. OpenSSL keeps one certificate for each kind of key, and clients such as Go's choose RSA.
    authority, authority_key = make.make_authority(datetime.now(UTC), Policy().authority_life, Policy().backdate)
    old = rsa_pair()
    live = LiveContext()
    live.load(old)
    new = make.make_pair(
        authority, authority_key, ["localhost"], datetime.now(UTC), Policy().serving_life, Policy().backdate
    )
    live.load(new)
    shown = handshake(live.context, pem([authority])).getpeercert(True)
    assert shown == new.leaf.public_bytes(serialization.Encoding.DER)


def rsa_pair() -> Pair:
    private = key(2)
    certificate, _ = make.make_authority(
        datetime.now(UTC), Policy().authority_life, Policy().backdate, key=lambda: private
    )
    encoded = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    return parsed(pem([certificate]), encoded, certificate_field="tls.crt", key_field="tls.key")


def test_clients_that_connect_by_address_name_no_server_and_see_it_too() -> None:
    found = bundle()
    live = LiveContext()
    assert found.pair is not None
    live.load(found.pair)
    assert handshake(live.context, pem(found.authorities), name="127.0.0.1").version() == "TLSv1.3"


def test_without_a_pair_handshakes_are_refused() -> None:
    with pytest.raises(ssl.SSLError, match=r"(?i)internal.error"):
        handshake(LiveContext().context, Authority().pem)


def test_no_tickets_are_handed_out_for_sessions_that_nobody_resumes() -> None:
    made = bundle()
    live = LiveContext()
    assert made.pair is not None
    live.load(made.pair)
    client = handshake(live.context, pem(made.authorities))
    assert client.version() == "TLSv1.3"
    with pytest.raises(ssl.SSLWantReadError):
        client.read()
    assert client.session is None or not client.session.has_ticket


def test_only_our_protocol_is_offered() -> None:
    found = bundle()
    live = LiveContext()
    assert found.pair is not None
    live.load(found.pair)
    assert handshake(live.context, pem(found.authorities)).selected_alpn_protocol() == "http/1.1"


def test_old_clients_are_kept_out_by_the_minimum() -> None:
    found = bundle()
    assert found.pair is not None
    for minimum, want in ((ssl.TLSVersion.TLSv1_2, True), (ssl.TLSVersion.TLSv1_3, False)):
        live = LiveContext(TlsSettings(minimum=minimum))
        live.load(found.pair)
        try:
            handshake(live.context, pem(found.authorities), maximum_version=ssl.TLSVersion.TLSv1_2)
            got = True
        except ssl.SSLError:
            got = False
        assert got is want, minimum


def test_only_the_configured_ciphers_are_used() -> None:
    found = bundle()
    assert found.pair is not None
    chosen, _ = settings("1.2", ["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"], [])
    live = LiveContext(chosen)
    live.load(found.pair)
    client = handshake(live.context, pem(found.authorities), maximum_version=ssl.TLSVersion.TLSv1_2)
    cipher = client.cipher()
    assert cipher is not None
    assert cipher[0] == "ECDHE-ECDSA-AES256-GCM-SHA384"


def test_every_cipher_in_the_table_is_known_to_openssl() -> None:
    for name in (*certs_tls.CIPHERS, *certs_tls.INSECURE_CIPHERS):
        found, _ = settings("", [name], [])
        LiveContext(found)


@pytest.mark.parametrize(
    ("section", "want"),
    [
        pytest.param(("", [], ["http/1.1"]), [], id="the defaults"),
        pytest.param(("1.3", ["TLS_AES_128_GCM_SHA256"], []), [], id="TLS 1.3 suites are always on"),
        pytest.param(
            ("VersionTLS12", [], []),
            ["tls.minVersion 'VersionTLS12' is not known and ignored; known are 1.0, 1.1, 1.2, 1.3"],
            id="an unknown version",
        ),
        pytest.param(
            ("1.0", [], []),
            ["tls.minVersion 1.0 is insecure and not offered: connections need at least TLS 1.2"],
            id="an insecure version",
        ),
        pytest.param(
            ("", ["TLS_RSA_WITH_AES_128_GCM_SHA256", "AES"], ["h2"]),
            [
                "tls.cipherSuites: TLS_RSA_WITH_AES_128_GCM_SHA256 is insecure",
                "tls.cipherSuites: 'AES' is not known and ignored",
                "tls.nextProtos: 'h2' is not spoken here and ignored; http/1.1 is",
            ],
            id="weak and unknown names",
        ),
    ],
)
def test_what_has_no_effect_is_said(section: tuple[str, list[str], list[str]], want: list[str]) -> None:
    found, warnings = settings(*section)
    assert warnings == want
    assert found.protocols == ("http/1.1",)


def test_no_key_is_left_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = bundle()
    assert found.pair is not None
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = os.listdir("/proc/self/fd")
    LiveContext().load(found.pair)
    assert len(os.listdir("/proc/self/fd")) == len(before)
    # And so where there is no memory without a name.
    monkeypatch.delattr(os, "memfd_create")
    LiveContext().load(found.pair)
    assert list(tmp_path.iterdir()) == []


def test_what_openssl_refuses_is_one_line_and_changes_nothing() -> None:
    found, other = bundle(0), bundle(1)
    live = LiveContext()
    assert found.pair is not None
    assert other.pair is not None
    live.load(found.pair)
    with pytest.raises(CertificateError, match="is refused by OpenSSL"):
        live.load(Pair(found.pair.chain, other.pair.key))
    handshake(live.context, pem(found.authorities))
