# SPDX-License-Identifier: Apache-2.0
"""How training code reports its progress, as docs/writing-jobs.md shows it: against the real server, through TLS."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest

from support import pages
from support.certificates import Authority
from support.served import served
from trainsnap_api.transport import Resource
from trainsnap_controller.statusserver.app import StatusApp

pytestmark = pytest.mark.anyio

JSON = dict[str, Any]


class Api:
    """Keeps what is applied."""

    def __init__(self) -> None:
        self.applied: list[JSON] = []

    async def apply(
        self, resource: Resource, obj: JSON, *, field_manager: str, force: bool, subresource: str | None = None
    ) -> JSON:
        self.applied.append(obj)
        return obj


class Bearers:
    """Lets those in who bring the token."""

    async def allows(self, header: str, namespace: str, name: str) -> bool:
        return (header, namespace, name) == ("Bearer the-token", "team", "bert")


async def test_the_sample_of_the_page_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (sample,) = pages.blocks("docs/writing-jobs.md", "python")
    authority = Authority()
    pair = authority.issue("status", addresses=("127.0.0.1",))
    for name, content in (
        ("ca.crt", authority.pem),
        ("token", b"the-token"),
        ("server", pair.certificate + pair.key),
    ):
        (tmp_path / name).write_bytes(content)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(tmp_path / "server")
    api = Api()
    async with served(StatusApp(api, Bearers()), tls=tls) as port:
        path = "apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs/bert/status"
        monkeypatch.setenv("KUBEFLOW_TRAINER_SERVER_URL", f"https://127.0.0.1:{port}/{path}")
        monkeypatch.setenv("KUBEFLOW_TRAINER_SERVER_CA_CERT", str(tmp_path / "ca.crt"))
        monkeypatch.setenv("KUBEFLOW_TRAINER_SERVER_TOKEN", str(tmp_path / "token"))
        await asyncio.to_thread(exec, compile(sample, "writing-jobs.md", "exec"), {})
    (applied,) = api.applied
    reported = applied["status"]["trainerStatus"]
    assert reported.pop("lastUpdatedTime").endswith("Z")
    assert reported == {
        "progressPercentage": 40,
        "estimatedRemainingSeconds": 600,
        "metrics": [{"name": "loss", "value": "0.31"}],
    }
