# SPDX-License-Identifier: Apache-2.0
"""The webhook server over real sockets: while one client misbehaves, the API server's questions are answered."""

from __future__ import annotations

import asyncio
import json

import pytest

from support.served import served
from trainsnap_controller.manager.connections import Limits
from trainsnap_controller.observe.metrics import Metrics
from trainsnap_controller.webhooks import paths
from trainsnap_controller.webhooks.app import LARGE, LARGE_BODIES, LARGEST_BODY, WebhookApp
from trainsnap_controller.webhooks.review import Answer, Review

pytestmark = pytest.mark.anyio

PATH = paths.VALIDATE_TRAIN_JOB
REQUEST = {"uid": "u", "kind": {"kind": "TrainJob"}, "operation": "CREATE", "object": {"metadata": {"name": "a"}}}
REVIEW = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": REQUEST}).encode()


async def approve(question: Review) -> Answer:
    return Answer()


def head(length: int | None, seconds: int) -> bytes:
    size = "transfer-encoding: chunked" if length is None else f"content-length: {length}"
    lines = [f"POST {PATH}?timeout={seconds}s HTTP/1.1", "host: x", "content-type: application/json", size, "", ""]
    return "\r\n".join(lines).encode()


async def asked(port: int, *said: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for piece in said:
        writer.write(piece)
    return reader, writer


async def status(reader: asyncio.StreamReader) -> int:
    async with asyncio.timeout(10):
        return int((await reader.readline()).split()[1])


CHUNK = b"10000\r\n" + b" " * 65536 + b"\r\n"
BAD = [
    pytest.param(2 * LARGE_BODIES, [head(LARGEST_BODY + 1, 30)], 413, id="says that it sends too much"),
    pytest.param(1, [head(None, 30), *[CHUNK] * (LARGEST_BODY // 65536 + 1)], 413, id="sends too much"),
    pytest.param(2 * LARGE_BODIES, [head(100, 5), b"{"], 408, id="does not go on"),
    pytest.param(2 * LARGE_BODIES, [head(LARGEST_BODY, 5), b" " * (LARGE + 1)], 408, id="a large part, and no more"),
]


@pytest.mark.parametrize(("connections", "said", "want"), BAD)
async def test_one_misbehaves_and_others_are_answered(connections: int, said: list[bytes], want: int) -> None:
    app = WebhookApp({PATH: approve}, Metrics().webhooks([PATH]))
    async with served(app, limits=Limits(connections=32)) as port:
        bad = [await asked(port, *said) for _ in range(connections)]
        async with asyncio.timeout(4):  # before the time of the others is up
            for _ in range(5):
                reader, writer = await asked(port, head(len(REVIEW), 5), REVIEW)
                assert await status(reader) == 200
                writer.close()
        for reader, writer in bad:
            assert await status(reader) == want
            writer.transport.abort()
