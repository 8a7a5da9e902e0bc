# SPDX-License-Identifier: Apache-2.0
"""What a trainer pod does with the status server: asks for a token, trusts the job's authority, and reports.

Everything is taken from the pod template that the operator built, as a container would find it.
"""

from __future__ import annotations

import functools
import http.client
import json
import ssl
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import anyio

from support.cluster import Cluster
from support.operator import Operator
from trainsnap_api.transport.resources import CONFIG_MAP, JOB_SET

JSON = dict[str, Any]
GATE = ("--feature-gates", "TrainJobStatus=true")
NOW = "2026-05-06T07:08:09Z"


@dataclass(frozen=True)
class Answer:
    """An HTTP status and its JSON body."""

    code: int
    body: JSON


@dataclass(frozen=True)
class Trainer:
    """A container of a job's trainer. The status server is reached at this machine instead of by its Service."""

    cluster: Cluster
    operator: Operator
    path: str
    audience: str
    authority: str
    account: str

    @classmethod
    async def of(cls, job: str, cluster: Cluster, operator: Operator, account: str = "default") -> Trainer:
        """The trainer of a job that has its JobSet."""
        job_set = await cluster.until(JOB_SET, job)
        pod = job_set["spec"]["replicatedJobs"][-1]["template"]["spec"]["template"]["spec"]
        env = {item["name"]: item.get("value") for item in pod["containers"][0]["env"]}
        (volume,) = (item for item in pod["volumes"] if item["name"] == "kubeflow-trainer-token")
        token, authority = volume["projected"]["sources"]
        config_map = await cluster.get(CONFIG_MAP, authority["configMap"]["name"])
        url = urlsplit(env["KUBEFLOW_TRAINER_SERVER_URL"])
        assert url.netloc == "kubeflow-trainer-controller-manager.kubeflow-system.svc:10443"
        audience = token["serviceAccountToken"]["audience"]
        return cls(cluster, operator, url.path, audience, config_map["data"]["ca.crt"], account)

    async def token(self, *, audience: str | None = None, namespace: str | None = None) -> str:
        """A token as the kubelet gets it; by default for this job, of the namespace's account."""
        answer = await self.cluster.api.service_account_token(
            self.account, namespace or self.cluster.namespace, audiences=[audience or self.audience]
        )
        return answer.token

    async def post(self, body: Any, token: str | None = None, *, path: str | None = None, method: str = "POST",
                   **headers: str) -> Answer:  # fmt: skip
        """Send a report; ``body`` is JSON, or bytes as they are. A token of its own by default."""
        token = await self.token() if token is None else token
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        call = functools.partial(self._send, method, path or self.path, data, token, headers)
        return await anyio.to_thread.run_sync(call)

    def _send(self, method: str, path: str, data: bytes, token: str, headers: dict[str, str]) -> Answer:
        url = urlsplit(self.operator.url("status"))
        context = ssl.create_default_context(cadata=self.authority)
        connection = http.client.HTTPSConnection(url.hostname or "", url.port, context=context, timeout=20)
        try:
            authorization = {"Authorization": f"Bearer {token}"} if token else {}
            connection.request(method, path, data, {**authorization, **headers})
            answer = connection.getresponse()
            return Answer(answer.status, json.loads(answer.read()))
        finally:
            connection.close()
