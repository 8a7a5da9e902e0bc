# SPDX-License-Identifier: Apache-2.0
"""What is due when: decisions about certificates, each a function of what is there and of the time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from support.authorities import SERVICE, accepts, key
from trainsnap_controller.webhooks import certs_make as make
from trainsnap_controller.webhooks.certs_model import Bundle, Pair, anchors, canonical, fingerprint, issued_by, names
from trainsnap_controller.webhooks.certs_policy import Policy, Work, due, next_due, renew, should_switch

START = datetime(2026, 1, 1, tzinfo=UTC)
WANTED = (SERVICE, "127.0.0.1")
POLICY = Policy()
DAY = timedelta(days=1)


def fresh(now: datetime = START, wanted: tuple[str, ...] = WANTED) -> Bundle:
    return renew(Bundle(), Work.AUTHORITY, now, POLICY, wanted, key=lambda: key(0))


def test_the_first_bundle_is_what_clients_and_the_reference_expect() -> None:
    bundle = fresh()
    authority, pair = bundle.authorities[0], bundle.pair
    assert pair is not None
    assert accepts(bundle.authorities, pair, START)
    assert names(pair.leaf) == WANTED
    assert authority.subject.rfc4514_string() == "CN=kubeflow-trainer-ca,O=kubeflow-trainer"
    # The reference's rotator insists on both (open-policy-agent/cert-controller), or makes a new authority.
    assert names(authority) == ("kubeflow-trainer-ca",)
    assert bundle.authority_key.startswith(b"-----BEGIN RSA PRIVATE KEY-----")
    assert due(bundle, START, POLICY, WANTED).work is Work.NOTHING


def test_a_long_service_name_is_no_problem() -> None:
    name = f"{'s' * 63}.{'n' * 63}.svc"
    pair = fresh(wanted=(name,)).pair
    assert pair is not None
    assert names(pair.leaf) == (name,)


@pytest.mark.parametrize(
    ("age", "want"),
    [
        pytest.param(timedelta(0), Work.NOTHING, id="new"),
        pytest.param(59 * DAY, Work.NOTHING, id="before two thirds of the serving life"),
        pytest.param(61 * DAY, Work.SERVING, id="after two thirds of the serving life"),
        pytest.param(91 * DAY, Work.SERVING, id="serving expired"),
        pytest.param(244 * DAY, Work.AUTHORITY, id="after two thirds of the authority's life"),
        pytest.param(400 * DAY, Work.AUTHORITY, id="all expired"),
        pytest.param(-DAY, Work.AUTHORITY, id="a clock that was wrong when it was made"),
    ],
)
def test_what_is_due_by_age(age: timedelta, want: Work) -> None:
    assert due(fresh(), START + age, POLICY, WANTED).work is want


def test_what_is_due_by_content() -> None:
    bundle, other = fresh(), renew(Bundle(), Work.AUTHORITY, START, POLICY, WANTED, key=lambda: key(3))
    table = {
        Bundle(): Work.AUTHORITY,
        Bundle(bundle.authorities, b"", bundle.pair): Work.AUTHORITY,
        Bundle(bundle.authorities, bundle.authority_key, None): Work.SERVING,
        Bundle(bundle.authorities, bundle.authority_key, other.pair): Work.SERVING,
    }
    assert {found: due(found, START, POLICY, WANTED).work for found in table} == table
    missing = due(bundle, START, POLICY, (*WANTED, "Other.Example", "::1"))
    assert (missing.work, missing.why) == (Work.SERVING, "the serving certificate is not for Other.Example, ::1")


def test_names_that_another_replica_wants_are_kept() -> None:
    first = fresh(wanted=(SERVICE, "10.0.0.1"))
    wanted = (SERVICE, "0:0:0:0:0:0:0:1")
    second = renew(first, Work.SERVING, START, POLICY, wanted)
    assert second.pair is not None
    assert names(second.pair.leaf) == (SERVICE, "::1", "10.0.0.1")
    for replica in (wanted, (SERVICE, "10.0.0.1")):
        assert due(second, START, POLICY, replica).work is Work.NOTHING


def test_an_old_authority_stays_for_as_long_as_somebody_may_serve_what_it_signed() -> None:
    first = fresh()
    later = START + 250 * DAY
    second = renew(first, Work.AUTHORITY, later, POLICY, WANTED, key=lambda: key(1))
    assert second.authorities[1:] == first.authorities
    assert due(second, later + POLICY.overlap * 0.9, POLICY, WANTED).work is Work.NOTHING
    after = later + POLICY.overlap
    assert due(second, after, POLICY, WANTED).work is Work.BUNDLE
    third = renew(second, Work.BUNDLE, after, POLICY, WANTED)
    assert third == Bundle(second.authorities[:1], second.authority_key, second.pair)
    assert due(third, after, POLICY, WANTED).work is Work.NOTHING


def test_a_secret_that_was_deleted_does_not_break_those_who_still_serve() -> None:
    first = fresh()
    second = renew(Bundle(), Work.AUTHORITY, START, POLICY, WANTED, also_trust=first.authorities, key=lambda: key(1))
    assert second.authorities[1:] == first.authorities


def test_authorities_do_not_pile_up() -> None:
    bundle = fresh()
    for number in range(POLICY.authorities + 3):
        bundle = renew(bundle, Work.AUTHORITY, START, POLICY, WANTED, key=lambda n=number: key(n % 4))  # type: ignore[misc]
    assert len(bundle.authorities) == POLICY.authorities
    assert len({fingerprint(authority) for authority in bundle.authorities}) == POLICY.authorities


def test_a_serving_certificate_does_not_outlive_its_authority() -> None:
    bundle = fresh()
    late = START + 340 * DAY
    pair = renew(bundle, Work.SERVING, late, POLICY, WANTED).pair
    assert pair is not None
    assert pair.leaf.not_valid_after_utc == bundle.authorities[0].not_valid_after_utc


@pytest.mark.parametrize(
    ("served", "offered", "trusts", "in_place", "want"),
    [
        pytest.param(None, "new", "", None, True, id="nothing is served yet"),
        pytest.param("old", "old", "old new", 99.0, False, id="it is served already"),
        pytest.param("old", "new", "old", None, False, id="the new one is not trusted"),
        pytest.param("old", "new", "old new", 1.0, False, id="API servers may not have noticed"),
        pytest.param("old", "new", "old new", 5.0, True, id="API servers have noticed"),
        pytest.param("old", "new", "new", 0.0, True, id="the old one is not trusted any more"),
        pytest.param("old", "new", "", None, True, id="nobody is trusted"),
        pytest.param("old", "new", None, None, False, id="it is not known who is trusted"),
        pytest.param("expired", "new", None, None, True, id="the old one expired"),
    ],
)
def test_when_a_new_pair_is_shown(
    served: str | None, offered: str, trusts: str | None, in_place: float | None, want: bool
) -> None:
    bundles = {
        "old": fresh(),
        "new": renew(Bundle(), Work.AUTHORITY, START, POLICY, WANTED, key=lambda: key(1)),
        "expired": fresh(START - 100 * DAY),
    }
    trusted = None if trusts is None else [[bundles[name].authorities[0] for name in trusts.split()]]
    shown = None if served is None else bundles[served].pair
    # The same pair is one object in real life too.
    got = should_switch(shown, bundles[offered].pair, trusted, START, in_place=in_place, settle=5.0)  # type: ignore[arg-type]
    assert got is want


def test_without_configurations_a_new_pair_is_shown_at_once() -> None:
    old, new = fresh().pair, fresh().pair
    assert new is not None
    assert should_switch(old, new, [], START, in_place=None, settle=5.0)


def test_our_own_judgement_agrees_with_a_strict_client() -> None:
    one, other = fresh(), renew(Bundle(), Work.AUTHORITY, START, POLICY, WANTED, key=lambda: key(1))
    for bundle in (one, other):
        for roots in (one.authorities, other.authorities, (*one.authorities, *other.authorities), ()):
            for age in (timedelta(0), 80 * DAY, 91 * DAY, 366 * DAY):
                assert bundle.pair is not None
                ours = bool(anchors(bundle.pair, roots, START + age))
                assert ours == accepts(roots, bundle.pair, START + age)


def test_a_pair_with_an_intermediate_is_trusted_through_it() -> None:
    root, root_key = make.make_authority(START, 365 * DAY, DAY, key=lambda: key(0))
    bundle = fresh()
    assert bundle.pair is not None
    assert not issued_by(bundle.pair.leaf, root) or root.public_key() == bundle.authorities[0].public_key()
    chained = Pair((*bundle.pair.chain, *bundle.authorities), bundle.pair.key)
    assert anchors(chained, bundle.authorities, START) == list(bundle.authorities)
    assert root_key


def test_the_next_look_is_when_something_becomes_due() -> None:
    bundle = fresh()
    moment = next_due(bundle, POLICY)
    assert moment is not None
    assert due(bundle, moment - timedelta(seconds=1), POLICY, WANTED).work is Work.NOTHING
    assert due(bundle, moment, POLICY, WANTED).work is Work.SERVING
    assert next_due(Bundle(), POLICY) is None


def test_names_are_compared_in_one_form() -> None:
    assert [canonical(name) for name in ("A.B", "0:0:0:0:0:0:0:1", "127.0.0.1")] == ["a.b", "::1", "127.0.0.1"]
