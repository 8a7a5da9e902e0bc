# SPDX-License-Identifier: Apache-2.0
"""Checks JSON Web Tokens (RFC 7515, 7517, 7519) of a Kubernetes API server, with ``cryptography`` and nothing else.

Called by the authorizer. It knows the four algorithms that kube-apiserver signs with (RSA keys: RS256; EC keys: ES256,
ES384, ES512) and refuses all others: no symmetric ones, no ``none``, none that does not belong to the type of the key.
It never logs or returns a token.
"""

from __future__ import annotations

import binascii
import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

JSON = dict[str, Any]

EARLY_SECONDS: Final = 300
"""How far ahead of ours the clock that wrote ``nbf`` may be; ``exp`` has no leeway. As in the Go library go-oidc."""
SMALLEST_RSA_BITS: Final = 2048
_RS256: Final = "RS256"
_CURVES: Final[dict[str, tuple[type[ec.EllipticCurve], str, hashes.HashAlgorithm]]] = {
    "ES256": (ec.SECP256R1, "P-256", hashes.SHA256()),
    "ES384": (ec.SECP384R1, "P-384", hashes.SHA384()),
    "ES512": (ec.SECP521R1, "P-521", hashes.SHA512()),
}
_ALPHABET: Final = re.compile(r"[A-Za-z0-9_-]*")


class TokenError(Exception):
    """The token is not what it has to be; the text says why, for the log, and holds nothing of the token itself."""


@dataclass(frozen=True, slots=True)
class VerifyKey:
    """A public key of the issuer. ``kid`` is "" when the key set does not name it."""

    kid: str
    public: rsa.RSAPublicKey | ec.EllipticCurvePublicKey


def keys_of(key_set: Any) -> tuple[VerifyKey, ...]:
    """The signing keys of a JSON Web Key Set; those of other uses, and those not understood, are left out."""
    entries = key_set.get("keys") if isinstance(key_set, dict) else None
    found = (_key(entry) for entry in entries or () if isinstance(entry, dict) and entry.get("use", "sig") == "sig")
    return tuple(key for key in found if key is not None)


def verified(token: str, keys: Iterable[VerifyKey], *, issuer: str, audience: str, now: datetime) -> JSON:
    """The claims of a token that ``issuer`` signed for ``audience`` and that is valid ``now``. Raises TokenError."""
    parts = token.split(".")
    if len(parts) != 3:
        raise TokenError("is not made of three parts")
    header, claims = (_object(part) for part in parts[:2])
    if "crit" in header:
        raise TokenError("has critical extensions")
    candidates = [key for key in keys if header.get("kid") in (None, key.kid)]
    if not candidates:
        raise TokenError("is signed with an unknown key")
    message, signature = f"{parts[0]}.{parts[1]}".encode(), _bytes(parts[2])
    if not any(_signed(key, header.get("alg"), message, signature) for key in candidates):
        raise TokenError("has no valid signature")
    _check(claims, issuer, audience, now.timestamp())
    return claims


def key_id(token: str) -> str:
    """The name of the key that a token says it is signed with; "" when it says nothing. Raises TokenError."""
    kid = _object(token.partition(".")[0]).get("kid", "")
    return kid if isinstance(kid, str) else ""


def _check(claims: JSON, issuer: str, audience: str, now: float) -> None:
    if claims.get("iss") != issuer:
        raise TokenError("is of another issuer")
    audiences = claims.get("aud")
    if audience not in (audiences if isinstance(audiences, list) else [audiences]):
        raise TokenError("is for another audience")
    if not now < _seconds(claims, "exp"):
        raise TokenError("has expired")
    if "nbf" in claims and now + EARLY_SECONDS < _seconds(claims, "nbf"):
        raise TokenError("is not valid yet")


def _seconds(claims: JSON, name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TokenError(f"has no {name}")
    return value


def _signed(key: VerifyKey, algorithm: Any, message: bytes, signature: bytes) -> bool:
    """Whether ``key`` made the signature with this algorithm."""
    public = key.public
    try:
        if isinstance(public, rsa.RSAPublicKey):
            if algorithm != _RS256:
                return False
            public.verify(signature, message, padding.PKCS1v15(), hashes.SHA256())
            return True
        curve, _, digest = _CURVES.get(algorithm if isinstance(algorithm, str) else "", (None, "", None))
        size = (public.key_size + 7) // 8
        if curve is None or digest is None or not isinstance(public.curve, curve) or len(signature) != 2 * size:
            return False
        numbers = (int.from_bytes(signature[:size], "big"), int.from_bytes(signature[size:], "big"))
        public.verify(encode_dss_signature(*numbers), message, ec.ECDSA(digest))
        return True
    except InvalidSignature:
        return False


def _key(entry: JSON) -> VerifyKey | None:
    kid = entry.get("kid", "")
    try:
        if entry.get("kty") == "RSA":
            numbers = rsa.RSAPublicNumbers(_integer(entry["e"]), _integer(entry["n"]))
            public: rsa.RSAPublicKey | ec.EllipticCurvePublicKey = numbers.public_key()
            if public.key_size < SMALLEST_RSA_BITS:
                return None
        else:
            curve = next(curve for curve, name, _ in _CURVES.values() if name == entry.get("crv"))
            public = ec.EllipticCurvePublicNumbers(_integer(entry["x"]), _integer(entry["y"]), curve()).public_key()
    except (KeyError, ValueError, TokenError, StopIteration):
        return None
    return VerifyKey(kid if isinstance(kid, str) else "", public)


def _integer(text: Any) -> int:
    return int.from_bytes(_bytes(text), "big")


def _object(part: str) -> JSON:
    try:
        value = json.loads(_bytes(part))
    except (ValueError, RecursionError) as error:
        raise TokenError("has a part that is not JSON") from error
    if not isinstance(value, dict):
        raise TokenError("has a part that is not an object")
    return value


def _bytes(text: Any) -> bytes:
    """Unpadded base64url, strictly: the standard library would skip what it does not know."""
    if not isinstance(text, str) or not _ALPHABET.fullmatch(text):
        raise TokenError("has a part that is not base64url")
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error as error:
        raise TokenError("has a part that is not base64url") from error
