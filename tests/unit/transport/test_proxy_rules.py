# SPDX-License-Identifier: Apache-2.0
"""Which servers are reached through the environment's proxy."""

from __future__ import annotations

import pytest

from trainsnap_api.transport.proxy import proxy_for

PROXY = "http://proxy:3128"


@pytest.mark.parametrize(
    ("server", "environ", "want"),
    [
        pytest.param("https://k8s:6443", {}, None, id="none set"),
        pytest.param("https://k8s:6443", {"HTTPS_PROXY": PROXY}, PROXY, id="https"),
        pytest.param("https://k8s:6443", {"https_proxy": PROXY, "HTTPS_PROXY": "x"}, PROXY, id="lower case first"),
        pytest.param("https://k8s:6443", {"HTTP_PROXY": PROXY}, None, id="the other scheme"),
        pytest.param("http://k8s", {"HTTP_PROXY": "proxy:3128"}, PROXY, id="without a scheme"),
        pytest.param("https://127.0.0.1:6443", {"HTTPS_PROXY": PROXY}, None, id="loopback"),
        pytest.param("https://[::1]:6443", {"HTTPS_PROXY": PROXY}, None, id="loopback, IPv6"),
        pytest.param("https://localhost:6443", {"HTTPS_PROXY": PROXY}, None, id="localhost"),
    ],
)
def test_the_environment(server: str, environ: dict[str, str], want: str | None) -> None:
    assert proxy_for(server, environ) == want


@pytest.mark.parametrize(
    ("server", "no_proxy", "excluded"),
    [
        ("https://10.96.0.1:443", "10.96.0.0/12", True),
        ("https://10.112.0.1:443", "10.96.0.0/12", False),
        ("https://[fd00::1]:443", "fd00::/8", True),
        ("https://[fd00::1]:443", "[fd00::1]", True),
        ("https://10.0.0.1:443", "10.0.0.1", True),
        ("https://10.0.0.1:443", "10.0.0.1:443", True),
        ("https://10.0.0.1:443", "10.0.0.1:444", False),
        ("https://10.0.0.1", "10.0.0.1:443", True),
        ("https://api.example.com", "example.com", True),
        ("https://example.com", "example.com", True),
        ("https://example.com", ".example.com", False),
        ("https://api.example.com", ".example.com", True),
        ("https://API.Example.com", "*.EXAMPLE.com", True),
        ("https://badexample.com", "example.com", False),
        ("https://api.example.com", " a.b , example.com ", True),
        ("https://api.example.com", "*", True),
        ("https://api.example.com", "", False),
        ("https://api.example.com", ",.,/,:,10.0.0.0/99,a:\u00b2", False),
    ],
)
def test_what_no_proxy_excludes(server: str, no_proxy: str, excluded: bool) -> None:
    environ = {"HTTPS_PROXY": PROXY, "NO_PROXY": no_proxy}
    assert proxy_for(server, environ) == (None if excluded else PROXY)
