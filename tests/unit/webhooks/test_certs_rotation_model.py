# SPDX-License-Identifier: Apache-2.0
"""Three replicas rotate one Secret's certificates, while it is deleted and they restart: no API server is ever refused.

A model of the cluster around the real decisions: the Secret, the bundle in the webhook configurations with its
history, and API servers that notice a change of it somewhat later, but within ``settle``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography import x509
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.authorities import SERVICE, accepts, key
from trainsnap_controller.webhooks.certs_model import Bundle, Pair
from trainsnap_controller.webhooks.certs_policy import Policy, Work, due, renew, should_switch

START = datetime(2026, 1, 1, tzinfo=UTC)
POLICY = Policy(timedelta(seconds=900), timedelta(seconds=300), overlap=timedelta(seconds=120), settle=5.0)
POLL = 30.0
DELETIONS = POLICY.authorities - 2


@dataclass
class Replica:
    served: Pair | None = None
    looked: float = 0.0


@dataclass
class Cluster:
    at: float = 0.0
    secret: Bundle = field(default_factory=Bundle)
    bundles: list[tuple[float, tuple[x509.Certificate, ...]]] = field(default_factory=list)
    replicas: list[Replica] = field(default_factory=lambda: [Replica() for _ in range(3)])
    made: int = 0

    @property
    def now(self) -> datetime:
        return START + timedelta(seconds=self.at)

    def look(self, replica: Replica) -> None:
        """One step of a replica, as its manager makes it."""
        trusted = self.bundles[-1][1] if self.bundles else ()
        found = due(self.secret, self.now, POLICY, [SERVICE])
        if found.work is not Work.NOTHING:
            self.made += found.work is Work.AUTHORITY
            self.secret = renew(
                self.secret, found.work, self.now, POLICY, [SERVICE], also_trust=trusted, key=lambda: key(self.made % 5)
            )
        if trusted != self.secret.authorities:
            self.bundles.append((self.at, self.secret.authorities))
        pair = self.secret.pair
        assert pair is not None
        if should_switch(
            replica.served,
            pair,
            [self.bundles[-1][1]],
            self.now,
            in_place=self.at - self._since(self.secret.authorities[0]),
            settle=POLICY.settle,
        ):
            replica.served = pair
        replica.looked = self.at

    def pass_time(self, seconds: float) -> None:
        """Every replica looks at least once in ``POLL`` seconds."""
        end = self.at + seconds
        while (late := min(self.replicas, key=lambda replica: replica.looked)).looked + POLL <= end:
            self.at = late.looked + POLL
            self.look(late)
            self.check()
        self.at = end

    def check(self) -> None:
        """Whichever bundle an API server still goes by, it accepts what every replica serves."""
        begun = [(start, roots) for start, roots in self.bundles if start <= self.at - POLICY.settle]
        seen = [*begun[-1:], *((start, roots) for start, roots in self.bundles if start > self.at - POLICY.settle)]
        for replica in self.replicas:
            for start, roots in seen:
                assert replica.served is None or accepts(roots, replica.served, self.now), (start, replica)

    def _since(self, root: x509.Certificate) -> float:
        """Since when this authority has been in the bundle without a break."""
        since = self.at
        for start, roots in reversed(self.bundles):
            if root not in roots:
                break
            since = start
        return since


STEPS = st.tuples(st.integers(0, 2), st.floats(0.1, 60.0), st.sampled_from(["look", "delete", "restart"]))


@given(steps=st.lists(STEPS, max_size=30))
@example(steps=[(0, 1.0, "look"), (1, 29.0, "delete"), (2, 5.0, "delete")])
@settings(max_examples=25, deadline=None)
def test_api_servers_accept_what_is_served_at_every_moment(steps: list[tuple[int, float, str]]) -> None:
    cluster = Cluster()
    for replica in cluster.replicas:
        cluster.look(replica)
    deletions = 0
    for number, wait, what in steps:
        cluster.pass_time(wait)
        replica = cluster.replicas[number]
        if what == "delete" and deletions < DELETIONS:
            deletions += 1
            cluster.secret = Bundle()
        cluster.look(replica)
        settled = cluster.at - cluster.bundles[-1][0] > POLICY.settle
        if what == "restart" and settled:
            # Before that it would not be ready, and nobody would call it.
            replica.served = None
            cluster.look(replica)
        cluster.check()


def test_a_year_of_rotations_ends_as_it_began() -> None:
    cluster = Cluster()
    for replica in cluster.replicas:
        cluster.look(replica)
    for _ in range(60):
        cluster.pass_time(60.0)
    assert cluster.made > 4
    cluster.pass_time(600.0 - cluster.at % 600.0)
    assert len(cluster.secret.authorities) <= 2
    assert {id(replica.served) for replica in cluster.replicas} == {id(cluster.secret.pair)}
