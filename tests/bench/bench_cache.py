# SPDX-License-Identifier: Apache-2.0
"""What the cache costs: time for an event, time and memory for a list. Run by hand: ``tests/bench/bench_cache.py``.

It prints one line for each measure with its target, and exits 1 if one is missed by more than the given factor. Times
are CPU time, the best of several runs, since the machine has other things to do as well.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import sys
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import structlog

from trainsnap_api.transport.resources import JOB_SET, POD, Resource
from trainsnap_controller.cache import Cache, Entry
from trainsnap_controller.cache.entry import decode_entry
from trainsnap_controller.observe.metrics import Metrics
from trainsnap_controller.queue import Key, WorkQueue

JSON = dict[str, Any]


def managed_object(number: int, size: int, version: int = 1) -> JSON:
    """An object of about ``size`` bytes, 40 % of it managedFields, as objects written by controllers have them."""
    owner = {
        "apiVersion": "v1",
        "kind": "TrainJob",
        "name": f"job-{number}",
        "uid": f"{number:036d}",
        "controller": True,
    }
    fields: JSON = {f"f:field{i}": {"f:inner": {}, ".": {}} for i in range(size * 4 // 10 // 38)}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {
            "name": f"job-{number}",
            "namespace": f"ns-{number % 10}",
            "uid": f"{number:036d}",
            "resourceVersion": str(version),
            "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "train", "job": f"job-{number}"},
            "ownerReferences": [owner],
            "managedFields": [{"manager": "trainer", "operation": "Apply", "fieldsV1": fields}],
        },
        "spec": {f"key{i}": {"name": f"value-{i}", "number": i} for i in range(size * 5 // 10 // 42)},
        "status": {"conditions": [], "restarts": 0},
    }


class Source:
    """Serves one list in pages of 500, and then a watch that is fed from memory."""

    def __init__(self, pages: list[list[bytes]], events: list[bytes]) -> None:
        self.pages_, self.events = pages, events
        self.done = asyncio.Event()
        self.seconds = 0.0

    async def pages(self, resource: Resource, namespace: str | None = None, **_: Any) -> AsyncIterator[Any]:
        for raw in self.pages_:
            document = b'{"items":[' + b",".join(raw) + b"]}"
            items = msgspec.json.decode(document, type=dict[str, list[msgspec.Raw]])["items"]
            yield _Page(items)

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        on_open: Callable[[], None] | None = None,
        **_: Any,
    ) -> AsyncIterator[Any]:
        if on_open is not None:
            on_open()
        started = time.process_time()
        for raw in self.events:
            yield _Event(raw)
        self.seconds = time.process_time() - started
        self.done.set()
        await asyncio.Event().wait()


class _Page(msgspec.Struct):
    items: list[msgspec.Raw]
    resource_version: str = "100"


class _Event(msgspec.Struct):
    raw: bytes
    type: str = "MODIFIED"


async def run_cache(source: Source, resource: Resource = JOB_SET) -> tuple[Cache, float]:
    """A cache as the operator has it: an index by owner, metrics, a handler that fills a queue. Seconds to sync."""
    cache = Cache(source, metrics=Metrics().cache())
    queue: WorkQueue[Key] = WorkQueue("bench")
    informer = cache.informer(resource)
    informer.add_index("owner", lambda entry: [owner.uid for owner in entry.owner_references])

    def handle(event: Any) -> None:
        owner = event.entry.controller
        if owner is not None:
            queue.add(Key(event.key.namespace, owner.name))

    informer.add_handler(handle)
    started = time.process_time()
    task = asyncio.create_task(cache.run())
    await cache.wait_synced()
    seconds = time.process_time() - started
    if source.events:
        await source.done.wait()
    task.cancel()
    await asyncio.wait([task])
    return cache, seconds


def dispatch_microseconds(size: int, events: int = 5000) -> float:
    """For one watch event, from its bytes to the queue, of an object of so many bytes."""
    objects = [[json.dumps(managed_object(n, size), separators=(",", ":")).encode() for n in range(100)]]
    changes = [
        json.dumps(managed_object(n % 100, size, 200 + n), separators=(",", ":")).encode() for n in range(events)
    ]
    best = float("inf")
    for _ in range(5):
        source = Source(objects, changes)
        asyncio.run(run_cache(source))
        best = min(best, source.seconds / events * 1e6)
    return best


def list_milliseconds(count: int, size: int) -> float:
    """From the bytes of the pages to a store with its index."""
    raw = [json.dumps(managed_object(n, size), separators=(",", ":")).encode() for n in range(count)]
    pages = [raw[start : start + 500] for start in range(0, count, 500)]
    return min(asyncio.run(run_cache(Source(pages, []), POD))[1] for _ in range(7)) * 1e3


def memory_megabytes(count: int, size: int) -> float:
    """What a cache of so many objects keeps, by tracemalloc."""
    raw = [json.dumps(managed_object(n, size), separators=(",", ":")).encode() for n in range(count)]
    pages = [raw[start : start + 500] for start in range(0, count, 500)]
    gc.collect()
    tracemalloc.start()
    cache, _ = asyncio.run(run_cache(Source(pages, [])))
    gc.collect()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(cache.informer(JOB_SET).store) == count
    return kept / 1e6


def decode_microseconds(size: int) -> tuple[float, float]:
    """An entry, and the whole document, from the same bytes."""
    raw = json.dumps(managed_object(1, size), separators=(",", ":")).encode()
    entry: Entry = decode_entry(raw, JOB_SET)
    return _best(lambda: decode_entry(raw, JOB_SET)), _best(entry.object)


def _best(function: Callable[[], object], number: int = 2000) -> float:
    best = float("inf")
    for _ in range(5):
        started = time.process_time()
        for _ in range(number):
            function()
        best = min(best, (time.process_time() - started) / number * 1e6)
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--slack", type=float, default=1.0, help="factor by which a target may be missed")
    slack = parser.parse_args().slack
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    decode, whole = decode_microseconds(4096)
    rows = [
        ("dispatch of a watch event, 4 KB object", dispatch_microseconds(4096), 25.0, "us"),
        ("500 pods of 4 KB from pages to synced", list_milliseconds(500, 4096), 40.0, "ms"),
        ("500 pods of 4 KB in memory", memory_megabytes(500, 4096), 20.0, "MB"),
        ("5,000 objects of 4 KB in memory", memory_megabytes(5000, 4096), 40.0, "MB"),
        ("entry of a 4 KB object", decode, None, "us"),
        ("whole document of a 4 KB object, less managedFields", whole, None, "us"),
    ]
    missed = False
    for name, value, target, unit in rows:
        late = target is not None and value > target * slack
        missed |= late
        wanted = f"  (target {target:g} {unit}{': MISSED' if late else ''})" if target is not None else ""
        print(f"{name:55} {value:8.1f} {unit}{wanted}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
