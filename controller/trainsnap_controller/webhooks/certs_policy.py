# SPDX-License-Identifier: Apache-2.0
"""Decides when certificates are made anew, and when a new pair may be shown. Pure functions of what is there and now.

How a change passes without a refused connection:

1. A new authority is put in front of the old one, together with a pair that it signed (`renew`). Both authorities are
   in the bundle that goes into the webhook configurations.
2. Every replica goes on serving its old pair, which both the old and the new bundle trust, until the new bundle has
   been in all configurations for as long as API servers need to notice (`should_switch`).
3. The old authority leaves the bundle when no replica can still be serving what it signed (`Policy.overlap`).

A pair alone is renewed by the same steps, except that its authority is trusted already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import TypeVar

from cryptography import x509

from trainsnap_controller.webhooks import certs_make as make
from trainsnap_controller.webhooks.certs_model import (
    Bundle,
    Pair,
    anchors,
    canonical,
    fingerprint,
    issued_by,
    names,
    valid,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Policy:
    """How long things last.

    ``overlap``: how long an old authority stays trusted after the pair of a new one was made. Replicas read the Secret
    far more often, and one that could not for half of this time says that it is not ready.
    ``settle``: seconds that API servers are given to notice a changed bundle before a pair that needs it is shown.
    """

    authority_life: timedelta = timedelta(days=365)
    serving_life: timedelta = timedelta(days=90)
    renew_after: float = 2 / 3
    """Part of a life after which the next one is made."""
    backdate: timedelta = timedelta(minutes=5)
    """How far clocks may be apart."""
    overlap: timedelta = timedelta(hours=1)
    settle: float = 5.0
    authorities: int = 16
    """How many are kept at most, however often new ones are made."""

    def renewal(self, certificate: x509.Certificate) -> datetime:
        """When a certificate is to be replaced."""
        life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
        return certificate.not_valid_before_utc + life * self.renew_after

    def trusted_until(self, pair: Pair) -> datetime:
        """Until when authorities older than the pair's stay in the bundle."""
        return pair.leaf.not_valid_before_utc + self.backdate + self.overlap


class Work(Enum):
    """What is to be made."""

    NOTHING = "nothing"
    AUTHORITY = "a new authority and a serving certificate"
    SERVING = "a new serving certificate"
    BUNDLE = "a bundle without the old authorities"


@dataclass(frozen=True, slots=True)
class Due:
    """What is to be made, and why, in words for the log."""

    work: Work
    why: str = ""


def due(bundle: Bundle, now: datetime, policy: Policy, wanted: Sequence[str]) -> Due:
    """What has to be made now for a server with the ``wanted`` names: the first reason in order of weight."""
    if not bundle.authorities or not bundle.authority_key:
        return Due(Work.AUTHORITY, "there is none")
    if (why := _worn(bundle.authorities[0], now, policy)) is not None:
        return Due(Work.AUTHORITY, f"the authority {why}")
    pair = bundle.pair
    if pair is None:
        return Due(Work.SERVING, "there is none")
    if not issued_by(pair.leaf, bundle.authorities[0]):
        return Due(Work.SERVING, "the serving certificate is not of the newest authority")
    if (why := _worn(pair.leaf, now, policy)) is not None:
        return Due(Work.SERVING, f"the serving certificate {why}")
    present = {canonical(name) for name in names(pair.leaf)}
    missing = [name for name in wanted if canonical(name) not in present]
    if missing:
        return Due(Work.SERVING, f"the serving certificate is not for {', '.join(missing)}")
    if any(not _still_needed(old, pair, now, policy) for old in bundle.authorities[1:]):
        return Due(Work.BUNDLE, "nothing is served any more that an old authority signed")
    return Due(Work.NOTHING)


def next_due(bundle: Bundle, policy: Policy) -> datetime | None:
    """The next moment at which `due` may answer differently by time alone; None when something is missing anyway."""
    if not bundle.authorities or bundle.pair is None:
        return None
    moments = [policy.renewal(bundle.authorities[0]), policy.renewal(bundle.pair.leaf)]
    moments += [min(old.not_valid_after_utc, policy.trusted_until(bundle.pair)) for old in bundle.authorities[1:]]
    return min(moments)


def renew(
    bundle: Bundle,
    work: Work,
    now: datetime,
    policy: Policy,
    wanted: Sequence[str],
    *,
    also_trust: Iterable[x509.Certificate] = (),
    key: make.KeyFactory = make.authority_key,
) -> Bundle:
    """The bundle after the work is done.

    ``also_trust``: authorities that may not be in the bundle though somebody may still serve what they signed, as when
    the Secret was deleted. They are kept as old ones. Names that the present certificate has are kept as well: another
    replica wants them.
    """
    authorities, authority_key, pair = bundle.authorities, bundle.authority_key, bundle.pair
    if work is Work.AUTHORITY:
        newest, authority_key = make.make_authority(now, policy.authority_life, policy.backdate, key=key)
        authorities = (newest, *authorities)
    if work is Work.AUTHORITY or work is Work.SERVING:
        kept = names(pair.leaf) if pair is not None and _ours(pair, bundle) else ()
        pair = make.make_pair(
            authorities[0],
            authority_key,
            _unique((*wanted, *kept), canonical),
            now,
            policy.serving_life,
            policy.backdate,
        )
    assert pair is not None
    old = _unique((*authorities[1:], *also_trust), fingerprint)
    needed = [one for one in old if one != authorities[0] and _still_needed(one, pair, now, policy)]
    return Bundle((authorities[0], *needed[: policy.authorities - 1]), authority_key, pair)


def should_switch(
    served: Pair | None,
    offered: Pair,
    trusted: Sequence[Sequence[x509.Certificate]] | None,
    now: datetime,
    *,
    in_place: float | None,
    settle: float,
) -> bool:
    """Whether a server is to show the offered pair to new connections, instead of the one that it serves.

    ``trusted`` are the authorities of each webhook at this moment, None while they are not known; ``in_place`` for how
    many seconds all of them have trusted the offered pair, None when they do not.
    """
    if served == offered:
        return False
    if served is None or not valid(served.leaf, now):
        return True
    if trusted is None:
        return False
    if any(not anchors(served, roots, now) for roots in trusted):
        return True  # nothing to lose
    if not trusted:
        return True  # nobody has to trust it first
    return in_place is not None and in_place >= settle


def _worn(certificate: x509.Certificate, now: datetime, policy: Policy) -> str | None:
    if now < certificate.not_valid_before_utc:
        return f"is not valid before {certificate.not_valid_before_utc:%Y-%m-%d %H:%M:%S} UTC"
    if now > certificate.not_valid_after_utc:
        return f"expired at {certificate.not_valid_after_utc:%Y-%m-%d %H:%M:%S} UTC"
    if now >= policy.renewal(certificate):
        return f"expires at {certificate.not_valid_after_utc:%Y-%m-%d %H:%M:%S} UTC"
    return None


def _still_needed(old: x509.Certificate, pair: Pair, now: datetime, policy: Policy) -> bool:
    return now <= old.not_valid_after_utc and now < policy.trusted_until(pair)


def _ours(pair: Pair, bundle: Bundle) -> bool:
    return any(issued_by(pair.leaf, authority) for authority in bundle.authorities)


def _unique(items: Iterable[T], by: Callable[[T], str]) -> list[T]:
    return list({by(item): item for item in reversed(list(items))}.values())[::-1]
