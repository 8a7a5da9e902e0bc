# SPDX-License-Identifier: Apache-2.0
"""Paths: what may go into them, and what a metric label is made of."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainsnap_api.transport import InvalidName, paths
from trainsnap_api.transport.resources import ALL, CONFIG_MAP, NAMESPACE, TRAIN_JOB

NAMES = st.text(st.characters(codec="utf-8"), max_size=30)


@given(NAMES)
def test_a_segment_is_one_segment_or_is_refused(name: str) -> None:
    try:
        encoded = paths.segment(name)
    except InvalidName:
        assert name in ("", ".", "..") or "/" in name or "%" in name
        return
    assert unquote(encoded) == name
    path = CONFIG_MAP.path("ns", name)
    assert paths.check(path) == path
    assert path.count("/") == 6
    assert not set(path) & set("?# \r\n\\")


@given(st.sampled_from(ALL), NAMES)
def test_a_template_holds_no_names(resource: object, name: str) -> None:
    assert isinstance(resource, type(TRAIN_JOB))
    try:
        path = resource.path("some-ns", name, "status")
    except InvalidName:
        return
    want = f"{resource.path('x', 'y').rpartition('/')[0].replace('/namespaces/x', '/namespaces/{namespace}')}"
    assert paths.template(path) == want + "/{name}/status"


@pytest.mark.parametrize(
    ("path", "want"),
    [
        ("/version", "/version"),
        ("/", "/"),
        ("/api", "/api"),
        ("/api/v1", "/api/v1"),
        ("/apis/g/v1", "/apis/g/v1"),
        ("/api/v1/configmaps", "/api/v1/configmaps"),
        ("/api/v1/nodes/n1", "/api/v1/nodes/{name}"),
        (NAMESPACE.path(), "/api/v1/namespaces"),
        (NAMESPACE.path(None, "kube-system"), "/api/v1/namespaces/{name}"),
        (NAMESPACE.path(None, "x", "finalize"), "/api/v1/namespaces/{name}/finalize"),
        ("/api/v1/namespaces/ns/configmaps", "/api/v1/namespaces/{namespace}/configmaps"),
        ("/api/v1/namespaces/ns/configmaps/x", "/api/v1/namespaces/{namespace}/configmaps/{name}"),
        ("/apis/g/v1/clusterthings/a/scale", "/apis/g/v1/clusterthings/{name}/scale"),
    ],
)
def test_templates(path: str, want: str) -> None:
    assert paths.template(path) == want


def test_a_name_must_be_a_string() -> None:
    with pytest.raises(TypeError):
        TRAIN_JOB.path("ns", 5)  # type: ignore[arg-type]
