# SPDX-License-Identifier: Apache-2.0
"""Who may report, how the cluster's keys are followed, and that jobs hear of a new authority."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from support.clock import FakeClock
from support.tokens import Signer, ec_signer
from trainsnap_api.transport import Disconnected, Response
from trainsnap_controller.statusserver.authority import AuthorityWatch
from trainsnap_controller.statusserver.authorizer import Authorizer
from trainsnap_controller.statusserver.issuer import (
    DISCOVERY,
    FRESH_SECONDS,
    KEY_SET,
    PAUSE_SECONDS,
    ClusterIssuer,
    NotKnown,
)

pytestmark = pytest.mark.anyio

JSON = dict[str, Any]
AUDIENCE = "trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs/alpha/status"
SIGNER, NEXT = ec_signer("one"), ec_signer("two")


class Api:
    """Serves the issuer and its keys."""

    def __init__(self, *signers: Signer) -> None:
        self.signers = signers
        self.issuer: Any = "https://issuer"
        self.down = False
        self.requests = 0

    async def request(self, method: str, path: str, *, accept: str | None = None) -> Response:
        assert method == "GET"
        assert (path == KEY_SET) == (accept == "application/jwk-set+json")
        await asyncio.sleep(0)
        self.requests += 1
        if self.down:
            raise Disconnected("connection refused")
        answers: dict[str, JSON] = {
            DISCOVERY: {"issuer": self.issuer, "jwks_uri": "https://elsewhere/keys"},
            KEY_SET: {"keys": [signer.jwk() for signer in self.signers]},
        }
        return Response(200, {}, json.dumps(answers[path]).encode())


def token(clock: FakeClock, signer: Signer = SIGNER, namespace: str = "team", **claims: Any) -> str:
    """What the kubelet writes into a pod of the namespace."""
    return signer.token(
        {
            "iss": "https://issuer",
            "aud": [AUDIENCE],
            "exp": clock.wall().timestamp() + 3600,
            "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": "default"}},
            **claims,
        }
    )


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def api() -> Api:
    return Api(SIGNER)


@pytest.fixture
def authorizer(api: Api, clock: FakeClock) -> Authorizer:
    return Authorizer(ClusterIssuer(api, clock=clock), now=clock.wall)


@pytest.mark.parametrize(
    ("form", "want"),
    [
        ("Bearer {}", True),
        ("bearer {}", True),
        ("BEARER \t {} ", True),
        ("{}", False),
        ("", False),
        ("Bearer", False),
        ("Bearer {} more", False),
        ("Basic {}", False),
        ("Bearer Bearer {}", False),
        ("Bearer x{}", False),
    ],
)
async def test_the_header_has_two_parts(authorizer: Authorizer, clock: FakeClock, form: str, want: bool) -> None:
    assert await authorizer.allows(form.format(token(clock)), "team", "alpha") is want


@pytest.mark.parametrize(
    ("changed", "want"),
    [
        ({}, True),
        ({"kubernetes.io": {"namespace": "other"}}, False),
        ({"kubernetes.io": {}}, False),
        ({"kubernetes.io": "team"}, False),
        ({"kubernetes.io": None}, False),
        ({"aud": ["https://kubernetes.default.svc"]}, False),
        ({"aud": [AUDIENCE.replace("alpha", "beta")]}, False),
        ({"exp": 1}, False),
        ({"iss": "https://other"}, False),
    ],
)
async def test_the_token_is_for_this_job(authorizer: Authorizer, clock: FakeClock, changed: JSON, want: bool) -> None:
    assert await authorizer.allows(f"Bearer {token(clock, **changed)}", "team", "alpha") is want


async def test_a_token_is_for_one_job_of_one_namespace(authorizer: Authorizer, clock: FakeClock) -> None:
    good = f"Bearer {token(clock)}"
    assert not await authorizer.allows(good, "team", "beta")
    assert not await authorizer.allows(good, "other", "alpha")
    # A job of that name elsewhere: the audience fits, the namespace of the pod does not.
    elsewhere = token(clock, aud=[AUDIENCE.replace("/team/", "/other/")])
    assert not await authorizer.allows(f"Bearer {elsewhere}", "other", "alpha")


async def test_keys_are_read_once_for_many_reports(authorizer: Authorizer, clock: FakeClock, api: Api) -> None:
    header = f"Bearer {token(clock)}"
    assert all(await asyncio.gather(*(authorizer.allows(header, "team", "alpha") for _ in range(20))))
    assert api.requests == 2


async def test_a_new_key_is_found_and_a_withdrawn_one_stops_counting(
    authorizer: Authorizer, clock: FakeClock, api: Api
) -> None:
    old = f"Bearer {token(clock)}"
    assert await authorizer.allows(old, "team", "alpha")
    api.signers = (NEXT,)
    new = f"Bearer {token(clock, NEXT)}"
    assert not await authorizer.allows(new, "team", "alpha"), "looked just now"
    await clock.advance(PAUSE_SECONDS)
    assert await authorizer.allows(new, "team", "alpha")
    assert not await authorizer.allows(old, "team", "alpha")


async def test_unknown_keys_do_not_become_requests(authorizer: Authorizer, clock: FakeClock, api: Api) -> None:
    stranger = f"Bearer {token(clock, NEXT)}"
    for _ in range(50):
        assert not await authorizer.allows(stranger, "team", "alpha")
        await clock.advance(1)
    assert api.requests <= 2 * (1 + 50 / PAUSE_SECONDS)


async def test_keys_are_read_again_when_they_are_old(authorizer: Authorizer, clock: FakeClock, api: Api) -> None:
    assert await authorizer.allows(f"Bearer {token(clock)}", "team", "alpha")
    await clock.advance(FRESH_SECONDS)
    api.down = True
    assert await authorizer.allows(f"Bearer {token(clock)}", "team", "alpha"), "the last keys go on being used"
    assert api.requests == 3


@pytest.mark.parametrize("fault", ["down", "no issuer", "no keys"])
async def test_without_keys_nobody_is_refused_for_good(
    authorizer: Authorizer, clock: FakeClock, api: Api, fault: str
) -> None:
    match fault:
        case "down":
            api.down = True
        case "no issuer":
            api.issuer = None
        case _:
            api.signers = ()
    for header in ("", f"Bearer {token(clock)}"):
        with pytest.raises(NotKnown, match="cannot be read"):
            await authorizer.allows(header, "team", "alpha")
    api.down, api.issuer, api.signers = False, "https://issuer", (SIGNER,)
    await clock.advance(PAUSE_SECONDS)
    assert await authorizer.allows(f"Bearer {token(clock)}", "team", "alpha")


async def test_keys_are_read_before_the_first_report(api: Api, clock: FakeClock) -> None:
    issuer = ClusterIssuer(api, clock=clock)
    assert "not been read yet" in issuer.problem
    api.down = True
    task = asyncio.ensure_future(issuer.run())
    await clock.advance(0)
    assert "connection refused" in issuer.problem
    api.down = False
    await clock.advance(PAUSE_SECONDS)
    assert issuer.problem == ""
    task.cancel()


async def test_jobs_hear_of_a_new_authority_only(clock: FakeClock) -> None:
    bundle, woken = [b""], []
    watch = AuthorityWatch(lambda: bundle[0], lambda: woken.append(bundle[0]), clock=clock)
    task = asyncio.ensure_future(watch.run())
    await clock.advance(60)
    bundle[0] = b"first"
    await clock.advance(60)
    assert woken == [], "jobs that waited for it are tried again anyway"
    bundle[0] = b"second first"
    await clock.advance(60)
    assert woken == [b"second first"]
    task.cancel()
