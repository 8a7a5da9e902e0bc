# SPDX-License-Identifier: Apache-2.0
"""What is told of a JobSet from before snapshots that is not what its runtime builds today."""

from __future__ import annotations

from typing import Any

import pytest

from trainsnap_api.transport import ApiError, Forbidden, Invalid, Resource, Unavailable
from trainsnap_controller.reconcile.act import Writer

pytestmark = pytest.mark.anyio

JSON = dict[str, Any]


class Api:
    """Answers an apply with what it is made of, or with an error."""

    def __init__(self, spec: JSON | None = None, error: ApiError | None = None) -> None:
        self.spec, self.error = spec, error
        self.sent: list[JSON] = []

    async def apply(self, resource: Resource, obj: JSON, *, dry_run: bool = False, **options: Any) -> JSON:
        assert (resource.kind, dry_run) == ("JobSet", True)
        self.sent.append(obj)
        if self.error is not None:
            raise self.error
        return {**obj, "spec": self.spec}

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} is not asked for")


def job_set(suspend: bool, **pod: Any) -> JSON:
    return {"metadata": {"namespace": "ns", "name": "job"}, "spec": {"suspend": suspend, "pod": pod}}


@pytest.mark.parametrize(
    ("api", "want"),
    [
        pytest.param(Api({"suspend": True, "pod": {"image": "a", "env": 1}}), (), id="equal"),
        pytest.param(Api({"suspend": True, "pod": {"image": "a"}}), ("spec.pod.env: was lost",), id="less"),
        pytest.param(
            Api({"suspend": True, "pod": {"image": "a", "env": 1, "args": 2}}), ("spec.pod.args: was added",), id="more"
        ),
        pytest.param(Api(error=Invalid("field is immutable")), ("spec.pod.image",), id="frozen, by a schema"),
        pytest.param(Api(error=Forbidden("field is immutable")), ("spec.pod.image",), id="frozen, by a policy"),
        pytest.param(Api(error=Unavailable("shutting down", status=503)), (), id="no answer is no difference"),
    ],
)
async def test_places_that_are_named(api: Api, want: tuple[str, ...]) -> None:
    writer = Writer(api, lambda *_: None, lambda *_: None)
    document = job_set(False, image="b")
    assert await writer.rehearse(document, job_set(True, image="a", env=1)) == want
    assert api.sent[0]["spec"]["suspend"] is True, "whether it is paused is no difference"
    assert document["spec"]["suspend"] is False
