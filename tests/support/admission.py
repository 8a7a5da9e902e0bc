# SPDX-License-Identifier: Apache-2.0
"""The webhooks seen from the API server: taken out for what they would not let in, and refusals of any layer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from support.objects import train_job
from trainsnap_api.transport import ApiError, Transport
from trainsnap_api.transport import resources as r

JSON = dict[str, Any]
CONFIGURATIONS = (
    (r.VALIDATING_WEBHOOK_CONFIGURATION, "validator.trainer.kubeflow.org"),
    (r.MUTATING_WEBHOOK_CONFIGURATION, "defaulter.trainer.kubeflow.org"),
)


@asynccontextmanager
async def without_webhooks(admin: Transport, namespace: str) -> AsyncIterator[None]:
    """A cluster that has no webhooks for a while, as one whose admin set their failurePolicy to Ignore."""
    kept = [await admin.get(resource, name) for resource, name in CONFIGURATIONS]
    for resource, name in CONFIGURATIONS:
        await admin.delete(resource, name)
    await _until(admin, namespace, asked=False)
    try:
        yield
    finally:
        for (resource, _), obj in zip(CONFIGURATIONS, kept, strict=True):
            obj["metadata"] = {"name": obj["metadata"]["name"]}
            await admin.create(resource, obj, field_manager="trainsnap-installer")
        await _until(admin, namespace, asked=True)


async def refusal(call: Any) -> ApiError:
    """What an awaitable request is refused with."""
    try:
        await call
    except ApiError as error:
        return error
    raise AssertionError("the request was accepted")


async def _until(admin: Transport, namespace: str, *, asked: bool) -> None:
    """Await that the API server has noticed: it asks for a job without a runtime, or it does not."""
    with anyio.fail_after(20):
        while True:
            try:
                await admin.create(r.TRAIN_JOB, train_job("probe", namespace, "missing-runtime"), dry_run=True)
            except ApiError:
                if asked:
                    return
            else:
                if not asked:
                    return
            await anyio.sleep(0.05)
