# SPDX-License-Identifier: Apache-2.0
"""Tokens with real keys: what counts, and everything that must not."""

from __future__ import annotations

import hmac
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from support.tokens import Signer, b64, ec_signer, part, rsa_signer
from trainsnap_controller.statusserver.jwt import TokenError, key_id, keys_of, verified

JSON = dict[str, Any]

NOW = datetime(2026, 5, 6, tzinfo=UTC)
SECONDS = NOW.timestamp()
CLAIMS = {"iss": "https://issuer", "aud": ["job"], "exp": SECONDS + 1, "nbf": SECONDS, "kubernetes.io": {}}
RSA, EC = rsa_signer(), ec_signer()
SIGNERS = [RSA, EC, ec_signer("384", ec.SECP384R1()), ec_signer("521", ec.SECP521R1())]
KEYS = keys_of({"keys": [signer.jwk() for signer in SIGNERS]})


def check(token: str) -> JSON:
    return verified(token, KEYS, issuer="https://issuer", audience="job", now=NOW)


@pytest.mark.parametrize("signer", SIGNERS, ids=lambda signer: signer.algorithm)
def test_every_algorithm_of_the_api_server(signer: Signer) -> None:
    token = signer.token(CLAIMS)
    assert check(token) == CLAIMS
    assert key_id(token) == signer.kid
    message, _, signature = token.rpartition(".")
    forged = b64(bytes([1]) + b"\0" * (len(signature) * 3 // 4 - 1))
    with pytest.raises(TokenError, match="no valid signature"):
        check(f"{message}.{forged}")


@pytest.mark.parametrize(
    ("claims", "want"),
    [
        pytest.param({"aud": "job"}, None, id="one audience as text"),
        pytest.param({"aud": ["other", "job"]}, None, id="several audiences"),
        pytest.param({"nbf": SECONDS + 299}, None, id="a clock that is ahead"),
        pytest.param({"nbf": SECONDS + 301}, "not valid yet", id="too early"),
        pytest.param({"nbf": "soon"}, "has no nbf", id="nbf as text"),
        pytest.param({"exp": SECONDS}, "has expired", id="expires now"),
        pytest.param({"exp": None}, "has no exp", id="never expires"),
        pytest.param({"exp": True}, "has no exp", id="exp is a boolean"),
        pytest.param({"exp": float("inf")}, None, id="exp is infinite"),
        pytest.param({"exp": float("nan")}, "has expired", id="exp is no number"),
        pytest.param({"iss": "https://other"}, "another issuer", id="other issuer"),
        pytest.param({"iss": ["https://issuer"]}, "another issuer", id="issuer as a list"),
        pytest.param({"aud": ["jobs"]}, "another audience", id="other audience"),
        pytest.param({"aud": {"job": 1}}, "another audience", id="audience as an object"),
        pytest.param({"aud": []}, "another audience", id="no audience"),
    ],
)
def test_claims(claims: JSON, want: str | None) -> None:
    token = EC.token({**CLAIMS, **claims})
    if want is None:
        check(token)
    else:
        with pytest.raises(TokenError, match=want):
            check(token)


def _symmetric() -> str:
    """Signed with the public key as the secret of a symmetric algorithm."""
    secret = RSA.key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    message = f"{part({'alg': 'HS256', 'kid': 'rsa'})}.{part(CLAIMS)}"
    return f"{message}.{b64(hmac.digest(secret, message.encode(), 'sha256'))}"


@pytest.mark.parametrize(
    "token",
    [
        pytest.param("", id="nothing"),
        pytest.param("garbage", id="no parts"),
        pytest.param("a.b.c", id="no JSON"),
        pytest.param(f"{part([])}.{part({})}.", id="header is a list"),
        pytest.param(f"{part({'alg': 'none'})}.{part(CLAIMS)}.", id="unsigned"),
        pytest.param(f"{part({'alg': 'none', 'kid': 'rsa'})}.{part(CLAIMS)}.", id="unsigned with a known key"),
        pytest.param(_symmetric(), id="public key as a secret"),
        pytest.param(EC.token(CLAIMS, alg="RS256"), id="another type's algorithm"),
        pytest.param(EC.token(CLAIMS, alg="ES384"), id="another curve's algorithm"),
        pytest.param(RSA.token(CLAIMS, alg="PS256"), id="another padding"),
        pytest.param(RSA.token(CLAIMS, alg=["RS256"]), id="algorithm is a list"),
        pytest.param(RSA.token(CLAIMS, kid="ec"), id="another key's name"),
        pytest.param(RSA.token(CLAIMS, kid="new"), id="unknown key"),
        pytest.param(RSA.token(CLAIMS, kid={"a": 1}), id="key name is an object"),
        pytest.param(RSA.token(CLAIMS, crit=["exp"]), id="critical extension"),
        pytest.param(rsa_signer().token(CLAIMS), id="a stranger's key under a known name"),
        pytest.param(RSA.token(CLAIMS) + "=", id="padding"),
        pytest.param(RSA.token(CLAIMS) + "\n", id="line end"),
        pytest.param(RSA.token(CLAIMS) + ".x", id="four parts"),
        pytest.param(f"{part({'alg': 'RS256'})}.{b64(b'[' * 60000)}.", id="very deep"),
    ],
)
def test_what_is_no_token_of_ours_is_refused(token: str) -> None:
    with pytest.raises(TokenError) as caught:
        check(token)
    assert "\n" not in str(caught.value)


def test_a_key_without_a_name_is_tried() -> None:
    header = {"alg": "ES256"}
    signed = EC.token(CLAIMS, kid=None)
    assert check(signed) == CLAIMS
    assert key_id(signed) == "" == key_id(part(header))


def test_keys_that_are_not_for_this_are_left_out() -> None:
    entries: list[Any] = [
        {**RSA.jwk(), "use": "enc"},
        {"kty": "oct", "k": "AAAA"},
        {"kty": "EC", "crv": "P-256", "x": "AQ", "y": "AQ"},
        {"kty": "EC", "crv": "secp256k1", "x": "AQ", "y": "AQ"},
        {"kty": "RSA", "e": "AQAB"},
        {"kty": "RSA", "e": 3, "n": []},
        rsa_signer("short", 1024).jwk(),
        7,
    ]
    assert keys_of({"keys": entries}) == ()
    assert [key.kid for key in keys_of({"keys": [*entries, EC.jwk()]})] == ["ec"]
    nothing: list[Any] = [None, [], {}, {"keys": None}, "x"]
    assert [keys_of(key_set) for key_set in nothing] == [()] * 5


@given(st.text(), st.integers(0, 2))
def test_no_text_breaks_it(text: str, at: int) -> None:
    parts = RSA.token(CLAIMS).split(".")
    parts[at] = text
    for token in (text, ".".join(parts)):
        with pytest.raises(TokenError):
            check(token)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)


@given(st.dictionaries(st.sampled_from(("iss", "aud", "exp", "nbf", "x")), json_values))
def test_no_claims_break_it(claims: JSON) -> None:
    token = f"{part({'alg': 'ES256', 'kid': 'ec'})}.{b64(json.dumps(claims).encode())}."
    with pytest.raises(TokenError):
        check(token)
    signed = EC.token({**CLAIMS, **claims})
    try:
        check(signed)
    except TokenError as error:
        assert str(error)
