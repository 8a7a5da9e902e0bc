# SPDX-License-Identifier: Apache-2.0
"""The Secret that trainsnap fills itself: what is in it, who may write it, and several replicas at once."""

from __future__ import annotations

import asyncio
import base64
import uuid
from typing import Any

import pytest
from structlog.testing import capture_logs

from support.authorities import SERVICE, accepts, key
from support.certificates import Authority
from support.clock import FakeClock
from trainsnap_api.transport import AlreadyExists, Conflict, NotFound, Resource
from trainsnap_controller.webhooks.certs_model import CertificateError, fingerprint
from trainsnap_controller.webhooks.certs_policy import Policy
from trainsnap_controller.webhooks.certs_secret import OwnSecret, encoded, read

pytestmark = pytest.mark.anyio

JSON = dict[str, Any]


class Server:
    """One Secret with optimistic locking; ``before_write`` is a chance for somebody else to be first."""

    def __init__(self, secret: JSON | None = None) -> None:
        self.secret = secret
        self.writes = 0
        self.before_write: list[Any] = []

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> JSON:
        await asyncio.sleep(0)
        if self.secret is None:
            raise NotFound("no such Secret")
        return self.secret

    async def create(self, resource: Resource, obj: JSON, *, field_manager: str | None = None) -> JSON:
        await self._race()
        if self.secret is not None:
            raise AlreadyExists("it exists")
        return self._store(obj)

    async def merge_patch(
        self, resource: Resource, name: str, namespace: str | None, body: JSON, *, field_manager: str | None = None
    ) -> JSON:
        await self._race()
        if self.secret is None:
            raise NotFound("no such Secret")
        if body["metadata"]["resourceVersion"] != self.secret["metadata"]["resourceVersion"]:
            raise Conflict("changed meanwhile")
        data = {**(self.secret.get("data") or {}), **body["data"]}
        return self._store({**self.secret, "data": data})

    async def _race(self) -> None:
        await asyncio.sleep(0)
        if self.before_write:
            self.before_write.pop(0)()

    def _store(self, obj: JSON) -> JSON:
        self.writes += 1
        metadata = {
            "name": "certs",
            "namespace": "ns",
            **obj.get("metadata", {}),
            "resourceVersion": uuid.uuid4().hex,
        }
        self.secret = {**obj, "metadata": metadata}
        return self.secret


def secret(data: dict[str, bytes] | None = None, **fields: Any) -> JSON:
    metadata = {"name": "certs", "namespace": "ns", "resourceVersion": "0", **fields.pop("metadata", {})}
    found: JSON = {"metadata": metadata, **fields}
    if data is not None:
        found["data"] = {name: base64.b64encode(value).decode() for name, value in data.items()}
    return found


def replica(server: Server, number: int = 0, clock: FakeClock | None = None) -> OwnSecret:
    return OwnSecret(
        server, "ns", "certs", [SERVICE], policy=Policy(), clock=clock or FakeClock(), key=lambda: key(number)
    )


async def filled() -> JSON:
    server = Server()
    await replica(server).current()
    assert server.secret is not None
    return server.secret


def content(found: JSON) -> dict[str, bytes]:
    return {name: base64.b64decode(value) for name, value in found["data"].items()}


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(None, id="no Secret"),
        pytest.param(secret(), id="a Secret without data, as manifests ship it"),
        pytest.param(secret({"tls.crt": b"", "tls.key": b"", "ca.crt": b""}), id="a Secret with empty fields"),
    ],
)
async def test_a_secret_is_made_or_filled_once(before: JSON | None) -> None:
    server, clock = Server(before), FakeClock()
    keeper = replica(server, clock=clock)
    with capture_logs() as logs:
        bundle = await keeper.current()
    assert bundle.pair is not None
    assert accepts(bundle.authorities, bundle.pair, clock.wall())
    assert set(content(server.secret or {})) == {"ca.crt", "ca.key", "tls.crt", "tls.key"}
    assert [line["event"] for line in logs] == ["certificates renewed"]
    assert b"PRIVATE" not in repr(logs).encode()
    assert await keeper.current() == bundle
    assert await replica(server, 1).current() == bundle
    assert server.writes == 1


async def test_replicas_that_start_together_agree_on_one_authority() -> None:
    server, clock = Server(), FakeClock()
    bundles = await asyncio.gather(*(replica(server, number, clock).current() for number in range(4)))
    assert len({fingerprint(bundle.authorities[0]) for bundle in bundles}) == 1
    assert server.writes == 1


async def test_replicas_that_renew_together_agree_as_well() -> None:
    clock = FakeClock()
    server = Server(await filled())
    clock.tick(250 * 86400.0)
    bundles = await asyncio.gather(*(replica(server, number, clock).current() for number in range(1, 4)))
    assert {tuple(map(fingerprint, bundle.authorities)) for bundle in bundles} == {
        tuple(map(fingerprint, bundles[0].authorities))
    }
    assert len(bundles[0].authorities) == 2


async def test_a_secret_that_is_deleted_while_it_is_written_is_made_anew() -> None:
    server = Server(secret())

    def delete() -> None:
        server.secret = None

    server.before_write.append(delete)
    bundle = await replica(server).current()
    assert bundle.pair is not None
    assert server.secret is not None


async def test_somebody_who_always_writes_first_is_reported() -> None:
    server = Server(secret())

    def touch() -> None:
        assert server.secret is not None
        server._store(server.secret)

    server.before_write = [touch] * 100
    with pytest.raises(CertificateError, match="ns/certs is changed all the time"):
        await replica(server).current()


async def test_a_missing_namespace_is_the_api_servers_to_explain() -> None:
    server = Server()

    def refuse() -> None:
        raise NotFound('namespaces "ns" not found')

    server.before_write.append(refuse)
    with pytest.raises(NotFound, match='namespaces "ns" not found'):
        await replica(server).current()


async def test_what_clients_trust_is_kept_when_the_secret_was_deleted() -> None:
    old, _ = read(await filled())
    bundle = await replica(Server(), 1).current(old.authorities)
    assert bundle.authorities[1:] == old.authorities


@pytest.mark.parametrize(
    ("field", "value", "want"),
    [
        pytest.param("ca.crt", b"garbage", "ca.crt: no certificate in PEM form", id="garbage for an authority"),
        pytest.param("ca.key", b"\x00\xff", "ca.key: no private key in PEM form", id="garbage for its key"),
        pytest.param("ca.key", None, "ca.key: is not the key of the first certificate in ca.crt", id="another key"),
        pytest.param("tls.crt", b"garbage", "tls.crt: no certificate in PEM form", id="garbage for a certificate"),
        pytest.param("tls.key", None, "tls.key: is not the key of the certificate in tls.crt", id="a key of another"),
    ],
)
async def test_what_cannot_be_used_is_replaced_and_said_once(field: str, value: bytes | None, want: str) -> None:
    found = await filled()
    other = await replica(Server(), 1).current()
    value = encoded(other)[field].encode() if value is None else base64.b64encode(value)
    found["data"][field] = value.decode()
    server = Server(found)
    with capture_logs() as logs:
        bundle = await replica(server).current()
    assert bundle.pair is not None
    assert [line["why"] for line in logs if line["log_level"] == "warning"] == [want]
    assert read(server.secret or {})[1] == ""


async def test_a_serving_certificate_is_no_authority() -> None:
    found = await filled()
    found["data"]["ca.crt"] = found["data"]["tls.crt"]
    found["data"]["ca.key"] = found["data"]["tls.key"]
    assert "is not an authority" in read(found)[1]


async def test_a_secret_of_cert_manager_is_left_alone() -> None:
    found = await filled()
    found["metadata"]["annotations"] = {"cert-manager.io/certificate-name": "webhooks"}
    server = Server(found)
    with pytest.raises(CertificateError, match=r"ns/certs is filled by cert-manager; .* certManagement\.provider"):
        await replica(server).current()
    assert server.writes == 0


async def test_somebody_elses_key_pair_is_left_alone() -> None:
    pair = Authority("a company's root").issue("shop", names=("shop.example",))
    server = Server(secret({"tls.crt": pair.certificate, "tls.key": pair.key}, type="kubernetes.io/tls"))
    with pytest.raises(CertificateError, match=r"has a tls\.crt but no ca\.key: somebody else made it"):
        await replica(server).current()
    assert server.writes == 0


async def test_our_own_secret_without_the_authoritys_key_is_healed() -> None:
    found = await filled()
    del found["data"]["ca.key"]
    server = Server(found)
    bundle = await replica(server, 1).current()
    assert len(bundle.authorities) == 2


async def test_other_fields_of_the_secret_stay() -> None:
    server = Server(secret({"notes.txt": b"ours"}))
    await replica(server).current()
    assert content(server.secret or {})["notes.txt"] == b"ours"
