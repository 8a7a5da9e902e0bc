# SPDX-License-Identifier: Apache-2.0
"""Does something to the operator in the middle of one of its writes, without a hook in the operator.

The API server asks an admission webhook of ours before it stores the write. While it waits for our answer, the operator
waits for its: that is the moment. The write is refused afterwards, so that it never happened, whatever becomes of the
operator. Only one namespace is looked at, and only the first such write is acted upon.
"""

from __future__ import annotations

import base64
import contextlib
import json
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, Literal

from support.certificates import Authority
from support.cluster import Cluster, eventually
from trainsnap_api.transport import ApiError, Resource
from trainsnap_api.transport.resources import CONFIG_MAP, VALIDATING_WEBHOOK_CONFIGURATION

JSON = dict[str, Any]
REFUSAL: Final = "this write never happens"


@dataclass(frozen=True)
class Write:
    """A kind of write: ``subresource`` "" is the object itself."""

    resource: Resource
    operation: Literal["CREATE", "UPDATE", "DELETE"]
    subresource: str = ""

    def rule(self) -> JSON:
        """As a rule of a webhook configuration."""
        plural = "/".join(filter(None, (self.resource.plural, self.subresource)))
        return {
            "apiGroups": [self.resource.group],
            "apiVersions": [self.resource.version],
            "resources": [plural],
            "operations": [self.operation],
            "scope": "Namespaced",
        }


PROBE: Final = Write(CONFIG_MAP, "CREATE")
"""Asked about as well, so that a dry run of it tells whether the API server has taken the configuration over."""


class KillPoint:
    """What the webhook saw. ``requests`` are the writes that were refused, first one first."""

    def __init__(self, act: Callable[[], object], when: Callable[[JSON], object]) -> None:
        self.requests: list[JSON] = []
        self._act = act
        self._when = when
        self._acted = threading.Event()
        self._broken: Exception | None = None
        self._lock = threading.Lock()

    def review(self, request: JSON) -> JSON:
        """Act upon the first write that is wanted, and refuse it and every later one; let all others pass."""
        if request["resource"]["resource"] != PROBE.resource.plural:
            if not self._when(request):
                return {"uid": request["uid"], "allowed": True}
            with self._lock:
                self.requests.append(request)
                if not self._acted.is_set():
                    try:
                        self._act()
                    except Exception as error:
                        self._broken = error
                    self._acted.set()
        return {"uid": request["uid"], "allowed": False, "status": {"code": 403, "message": REFUSAL}}

    async def until_reached(self, *, seconds: float = 20.0) -> None:
        """Await that the first write has come and was acted upon."""

        async def acted() -> bool:
            return self._acted.is_set()

        await eventually(acted, bool, what="the operator reached the point", seconds=seconds)
        if self._broken is not None:
            raise self._broken


@contextlib.asynccontextmanager
async def before(
    write: Write,
    cluster: Cluster,
    act: Callable[[], object],
    *,
    folder: Path,
    when: Callable[[JSON], object] = lambda request: True,
) -> AsyncIterator[KillPoint]:
    """Call ``act``, in a thread of its own, when somebody is about to write like that in the cluster's namespace.

    ``when`` chooses among those writes by the AdmissionRequest. ``folder`` takes the certificate's files. At the end of
    the block the API server asks us no more.
    """
    point = KillPoint(act, when)
    name = f"killpoint.{cluster.namespace}.test"
    with _served(point, folder) as (url, authority):
        await cluster.create(_configuration(name, cluster.namespace, write, url, authority))
        try:
            await eventually(lambda: _asked(cluster), bool, what="the webhook is asked")
            yield point
        finally:
            await cluster.api.delete(VALIDATING_WEBHOOK_CONFIGURATION, name)
            await eventually(lambda: _asked(cluster), lambda asked: not asked, what="the webhook is asked no more")


async def _asked(cluster: Cluster) -> bool:
    probe = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe", "namespace": cluster.namespace}}
    try:
        await cluster.api.create(CONFIG_MAP, probe, dry_run=True)
    except ApiError as error:
        assert REFUSAL in error.message, error
        return True
    return False


def _configuration(name: str, namespace: str, write: Write, url: str, authority: bytes) -> JSON:
    hook = {
        "name": name,
        "clientConfig": {"url": url, "caBundle": base64.b64encode(authority).decode()},
        "rules": [write.rule(), PROBE.rule()],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "failurePolicy": "Fail",
        "sideEffects": "NoneOnDryRun",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 10,
    }
    kind = VALIDATING_WEBHOOK_CONFIGURATION
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "webhooks": [hook]}


@contextlib.contextmanager
def _served(point: KillPoint, folder: Path) -> Iterator[tuple[str, bytes]]:
    """The webhook, on a free port of the loopback interface: its URL and the authority that signed its certificate."""
    authority = Authority()
    pair = authority.issue("killpoint", addresses=("127.0.0.1",))
    files = folder / "killpoint.crt", folder / "killpoint.key"
    for path, content in zip(files, (pair.certificate, pair.key), strict=True):
        path.write_bytes(content)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 5  # The API server keeps its connection open; this thread shall not wait for that.

        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = json.dumps({**review, "request": None, "response": point.review(review["request"])}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = True

        def log_message(self, format: str, *arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, name="killpoint", daemon=True)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_port}/", authority.pem
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
