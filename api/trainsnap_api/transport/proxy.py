# SPDX-License-Identifier: Apache-2.0
"""Which proxy a server is reached through: the kubeconfig's ``proxy-url``, else the usual environment variables.

Follows Go's rules, since kubectl and the controllers beside us do: NO_PROXY takes networks in CIDR form (Python's
standard library does not know them, and clusters are excluded that way), and the loopback is never proxied.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

_DEFAULT_PORTS = {"http": 80, "https": 443}


def proxy_for(server: str, environ: Mapping[str, str]) -> str | None:
    """The proxy URL that the environment names for ``server``, or None for a direct connection."""
    url = urlsplit(server)
    name = f"{url.scheme}_proxy"
    proxy = environ.get(name) or environ.get(name.upper())
    host = (url.hostname or "").rstrip(".")
    if not proxy or not host or _excluded(host, url.port or _DEFAULT_PORTS.get(url.scheme, 0), environ):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _excluded(host: str, port: int, environ: Mapping[str, str]) -> bool:
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    rules = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    return any(_matches(rule.strip().lower(), host.lower(), address, port) for rule in rules.split(",") if rule.strip())


def _matches(rule: str, host: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None, port: int) -> bool:
    if rule == "*":
        return True
    if address is not None and "/" in rule:
        try:
            return address in ipaddress.ip_network(rule, strict=False)
        except ValueError:
            return False
    name, _, suffix = rule.rpartition(":")
    if name and suffix.isascii() and suffix.isdigit() and (":" not in name or name.endswith("]")):
        if int(suffix) != port:
            return False
        rule = name
    rule = rule.strip("[]")
    if address is not None:
        return _address(rule) == address
    domain = rule.removeprefix("*").removeprefix(".")
    if not domain:
        return False
    # ".example.com" means subdomains only, "example.com" the domain as well.
    return host.endswith("." + domain) or (host == domain and not rule.startswith((".", "*")))


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
