# SPDX-License-Identifier: Apache-2.0
"""Webhooks by URL: registered when the server presents a certificate, waited for, and taken out again."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from trainsnap_api.transport import ApiError, Disconnected, NotFound, Resource
from trainsnap_controller.cli import manifests
from trainsnap_controller.cli.admission import ByUrl, split
from trainsnap_controller.cli.install import InstallError
from trainsnap_controller.manager import ExpectedFailure
from trainsnap_controller.webhooks import paths

pytestmark = pytest.mark.anyio

JSON = dict[str, Any]


class Certificates:
    ca_bundle = b"PEM"

    async def ready(self) -> None:
        return


class Server:
    """An API server that learns of the configurations after a while: ``reached`` grows with every probe."""

    def __init__(self, *, slow: int = 0, failing: Exception | None = None) -> None:
        self.log: list[str] = []
        self.reached: list[str] = []
        self.gone: Exception | None = None
        self._slow, self._failing = slow, failing

    async def apply(self, resource: Resource, obj: JSON, *, field_manager: str) -> JSON:
        if self._failing is not None:
            raise self._failing
        self.log.append(f"apply {obj['metadata']['name']} {obj['webhooks'][0]['clientConfig']['url']}")
        return obj

    async def create(self, resource: Resource, obj: JSON, *, dry_run: bool) -> JSON:
        assert dry_run
        self._slow -= 1
        if self._slow < 0 and len(self.reached) < len(paths.KINDS):
            self.reached.append(list(paths.KINDS)[len(self.reached)])
        raise ApiError("denied")

    async def delete(self, resource: Resource, name: str) -> None:
        self.log.append(f"delete {name}")
        if self.gone is not None:
            raise self.gone


def by_url(server: Server, **options: Any) -> ByUrl:
    async def pause(_: float) -> None:
        return

    configurations, _ = split(manifests.base())
    return ByUrl(
        server, configurations, "127.0.0.1", Certificates(), answered=lambda: server.reached, pause=pause, **options
    )


async def test_registering_ends_when_every_webhook_was_reached() -> None:
    server = Server(slow=5)
    await by_url(server).register(7)
    assert set(server.reached) == set(paths.KINDS)
    assert server.log == [
        "apply defaulter.trainer.kubeflow.org https://127.0.0.1:7/mutate-trainer-kubeflow-org-v1alpha1-trainjob",
        "apply validator.trainer.kubeflow.org https://127.0.0.1:7/validate-trainer-kubeflow-org-v1alpha1-trainjob",
    ]


async def test_an_api_server_that_does_not_get_through() -> None:
    server = Server(slow=10**9)
    wanted = r"does not reach the webhooks at 127\.0\.0\.1:7 .*denied.*--webhook-host"
    with pytest.raises(InstallError, match=wanted) as refused:
        await ByUrl(
            server, split(manifests.base())[0], "127.0.0.1", Certificates(), answered=lambda: [], seconds=0.3
        ).register(7)
    assert isinstance(refused.value, ExpectedFailure), "which ends the process with this line, and no traceback"


async def test_configurations_that_are_refused() -> None:
    with pytest.raises(InstallError, match="cannot install the webhook configurations: no right"):
        await by_url(Server(failing=ApiError("no right"))).register(7)


@pytest.mark.parametrize(
    ("gone", "lines"),
    [
        pytest.param(None, 0, id="both there"),
        pytest.param(NotFound("gone"), 0, id="gone already"),
        pytest.param(Disconnected("down"), 2, id="no API server: it is said, and stopping goes on"),
    ],
)
async def test_unregistering(gone: Exception | None, lines: int) -> None:
    server = Server()
    server.gone = gone
    with capture_logs() as logs:
        await by_url(server).unregister()
    assert server.log == ["delete defaulter.trainer.kubeflow.org", "delete validator.trainer.kubeflow.org"]
    assert [line["event"] for line in logs] == ["webhook configuration not removed: run trainsnap dev --clean"] * lines
