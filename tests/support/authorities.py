# SPDX-License-Identifier: Apache-2.0
"""Helps tests of the operator's certificates: keys that are made once, and a client's judgement that is not ours."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from trainsnap_controller.webhooks.certs_make import authority_key
from trainsnap_controller.webhooks.certs_model import Pair

SERVICE = "trainer.kubeflow-system.svc"


@cache
def key(number: int = 0) -> rsa.RSAPrivateKey:
    """The key of this number; making one takes longer than all else in such a test."""
    return authority_key()


def accepts(roots: Sequence[x509.Certificate], pair: Pair, now: datetime, name: str = SERVICE) -> bool:
    """Whether a strict client that trusts the roots, and asks for this name, accepts the pair at this moment."""
    if not roots:
        return False
    verifier = PolicyBuilder().store(Store(list(roots))).time(now).build_server_verifier(x509.DNSName(name))
    try:
        verifier.verify(pair.leaf, list(pair.chain[1:]))
    except VerificationError:
        return False
    return True
