# SPDX-License-Identifier: Apache-2.0
"""CPU time of one GET, of one list page and of one watch event: our transport, and the libraries beneath or beside it.

    .venv/bin/python tests/bench/bench_transport.py

The server runs in a process of its own, so that only the client's CPU is counted. Figures are the best of three rounds.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import aiohttp
import httpx
import httpx_aiohttp
import msgspec
from yarl import URL

from trainsnap_api.transport import Transport
from trainsnap_api.transport.resources import POD, TRAIN_JOB

ROUNDS, CALLS, EVENTS = 3, 500, 5000


def _pod(number: int) -> dict[str, Any]:
    env = [{"name": f"NAME_{i}", "value": "v" * 60} for i in range(30)]
    spec = {"containers": [{"name": "node", "image": "registry.example/train:1", "env": env}]}
    return {"metadata": {"name": f"pod-{number}", "namespace": "ns", "resourceVersion": str(number)}, "spec": spec}


async def _serve() -> None:
    """A plain HTTP/1.1 server with ready-made answers, chosen by the path and query."""

    def answer(body: bytes) -> bytes:
        return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body

    one = answer(msgspec.json.encode(_pod(1)))
    page = answer(msgspec.json.encode({"metadata": {"resourceVersion": "1"}, "items": [_pod(i) for i in range(500)]}))
    events = b"".join(msgspec.json.encode({"type": "MODIFIED", "object": _pod(i)}) + b"\n" for i in range(EVENTS))
    watch = answer(events)

    class Protocol(asyncio.Protocol):
        transport: asyncio.Transport

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            target = data.split(b" ", 2)[1]
            self.transport.write(watch if b"watch=true" in target else page if b"limit=" in target else one)

    server = await asyncio.get_running_loop().create_server(Protocol, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


async def _measure(name: str, function: Callable[[], Awaitable[object]], calls: int, each: int = 1) -> None:
    for _ in range(max(3, calls // 20)):
        await function()
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(calls):
            await function()
        best = min(best, (time.process_time() - start) / calls / each)
    print(f"{name:<44}{best * 1e6:10.1f} us")


async def _libraries(url: str) -> None:
    path = url + "/api/v1/namespaces/ns/pods/pod-1"
    session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())

    async def by_aiohttp() -> bytes:
        async with session.request("GET", URL(path, encoded=True)) as response:
            return await response.read()

    async with session:
        await _measure("GET, aiohttp alone", by_aiohttp, CALLS)
    async with httpx.AsyncClient(transport=httpx_aiohttp.AiohttpTransport()) as bridged:
        await _measure("GET, httpx through httpx-aiohttp", lambda: bridged.get(path), CALLS)
    async with httpx.AsyncClient() as client:
        await _measure("GET, httpx (what kr8s uses)", lambda: client.get(path), CALLS)


async def _ours(url: str) -> None:
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    async with await Transport.connect(kubeconfig=config) as transport:
        await _measure("GET, transport, bytes", lambda: transport.get(TRAIN_JOB, "a", "ns", raw=True), CALLS)
        await _measure("GET, transport, decoded", lambda: transport.get(TRAIN_JOB, "a", "ns"), CALLS)

        async def pages() -> int:
            async with aclosing(transport.pages(POD)) as stream:
                return sum([len(page.items) async for page in stream])

        async def watch() -> int:
            async with aclosing(transport.watch(POD, resource_version="1")) as stream:
                return sum([1 async for _ in stream])

        await _measure("list page of 500 pods, raw, per pod", pages, 20, 500)
        await _measure("list of 500 pods, decoded, per pod", lambda: transport.list(POD), 20, 500)
        await _measure("watch, per event", watch, 3, EVENTS)


def _main() -> None:
    arguments = [sys.executable, __file__, "serve"]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}"
        asyncio.run(_libraries(url))
        asyncio.run(_ours(url))
        assert server.stdin is not None
        server.stdin.close()


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        asyncio.run(_serve())
    else:
        _main()
