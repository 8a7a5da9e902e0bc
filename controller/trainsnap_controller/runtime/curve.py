# SPDX-License-Identifier: Apache-2.0
"""A CURVE certificate, by which the brokers of a Flux job know each other. Helper of the flux plugin."""

from __future__ import annotations

from typing import Final

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

_ALPHABET: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def certificate(secret: bytes, name: str) -> str:
    """The text of a certificate file for a secret key of 32 bytes, in the format that ZeroMQ tools write."""
    public = X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return (
        "#   ZeroMQ CURVE **Secret** Certificate\n"
        "#   Shared by the brokers of one job; made by trainsnap.\n"
        "\n"
        "metadata\n"
        f'    name = "{name}"\n'
        "curve\n"
        f'    public-key = "{z85(public)}"\n'
        f'    secret-key = "{z85(secret)}"\n'
    )


def z85(data: bytes) -> str:
    """The bytes as text by ZeroMQ RFC 32. Their number must be a multiple of 4."""
    text = []
    for start in range(0, len(data), 4):
        number = int.from_bytes(data[start : start + 4], "big")
        text.append("".join(_ALPHABET[number // 85**power % 85] for power in range(4, -1, -1)))
    return "".join(text)
