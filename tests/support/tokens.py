# SPDX-License-Identifier: Apache-2.0
"""ServiceAccount tokens and key sets as an API server makes them, with real keys."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

JSON = dict[str, Any]

_ALGORITHMS: dict[str, tuple[str, hashes.HashAlgorithm]] = {
    "secp256r1": ("ES256", hashes.SHA256()),
    "secp384r1": ("ES384", hashes.SHA384()),
    "secp521r1": ("ES512", hashes.SHA512()),
}
_CURVES = {"secp256r1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521"}


def b64(data: bytes) -> str:
    """Unpadded base64url."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def part(value: Any) -> str:
    """A part of a token."""
    return b64(json.dumps(value).encode())


@dataclass(frozen=True)
class Signer:
    """A private key with a name."""

    kid: str
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey

    @property
    def algorithm(self) -> str:
        """What an API server signs with, given such a key."""
        return "RS256" if isinstance(self.key, rsa.RSAPrivateKey) else _ALGORITHMS[self.key.curve.name][0]

    def jwk(self) -> JSON:
        """The public key as an entry of a key set."""
        common = {"use": "sig", "kid": self.kid, "alg": self.algorithm}
        public = self.key.public_key()
        if isinstance(public, rsa.RSAPublicKey):
            numbers = public.public_numbers()
            return {"kty": "RSA", **common, "n": b64(_bytes(numbers.n)), "e": b64(_bytes(numbers.e))}
        point = public.public_numbers()
        size = (public.key_size + 7) // 8
        x, y = (b64(number.to_bytes(size, "big")) for number in (point.x, point.y))
        return {"kty": "EC", **common, "crv": _CURVES[public.curve.name], "x": x, "y": y}

    def token(self, claims: JSON, **header: Any) -> str:
        """A signed token; ``header`` changes fields of its header."""
        message = f"{part({'alg': self.algorithm, 'kid': self.kid, **header})}.{part(claims)}"
        return f"{message}.{b64(self._signature(message.encode()))}"

    def _signature(self, message: bytes) -> bytes:
        if isinstance(self.key, rsa.RSAPrivateKey):
            return self.key.sign(message, padding.PKCS1v15(), hashes.SHA256())
        size = (self.key.key_size + 7) // 8
        r, s = decode_dss_signature(self.key.sign(message, ec.ECDSA(_ALGORITHMS[self.key.curve.name][1])))
        return r.to_bytes(size, "big") + s.to_bytes(size, "big")


def rsa_signer(kid: str = "rsa", bits: int = 2048) -> Signer:
    """A fresh RSA key."""
    return Signer(kid, rsa.generate_private_key(65537, bits))


def ec_signer(kid: str = "ec", curve: ec.EllipticCurve | None = None) -> Signer:
    """A fresh EC key, on P-256 by default."""
    return Signer(kid, ec.generate_private_key(curve or ec.SECP256R1()))


def _bytes(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")
