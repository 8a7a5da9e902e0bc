# SPDX-License-Identifier: Apache-2.0
"""Finds and checks what says where the cluster is: kubeconfig files, or the files that the kubelet mounts in a pod.

Called once by ``credentials.py`` (again after a 401); reads files, nothing else. The result is one context with every
path absolute, in the form that kr8s takes. Merging and path rules are kubectl's: with several files the first one that
defines a name wins, and a relative path counts from the file that it is written in. (kr8s counts from the working
directory first, and starts with credentials of the pod when a file is missing; both would be silent surprises.)
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from trainsnap_api.transport.errors import ConfigurationError

SERVICE_ACCOUNT_DIR = "/var/run/secrets/kubernetes.io/serviceaccount"

KubeconfigSource = str | os.PathLike[str] | Mapping[str, Any]

_FILE_KEYS = {
    "cluster": ("certificate-authority",),
    "user": ("client-certificate", "client-key", "tokenFile"),
}


@dataclass(frozen=True, slots=True)
class Access:
    """One cluster and one user. ``config`` is a kubeconfig with this one context, all paths absolute.

    ``folder`` is where relative commands of a credential plugin count from; ``origin`` names the source in messages.
    """

    origin: str
    server: str
    namespace: str
    config: dict[str, Any] = field(repr=False)
    cluster: dict[str, Any] = field(repr=False)
    user: dict[str, Any] = field(repr=False)
    folder: Path | None = None


def load(
    kubeconfig: KubeconfigSource | None,
    context: str | None,
    *,
    in_cluster: bool,
    environ: Mapping[str, str],
    service_account: str = SERVICE_ACCOUNT_DIR,
) -> Access:
    """The access that these arguments mean; ConfigurationError with one clear line.

    ``kubeconfig`` None: ``$KUBECONFIG``, else ``~/.kube/config``, else the pod's service account. One that is named
    must exist; ``in_cluster`` skips all files.
    """
    mounted = Path(service_account)
    if in_cluster:
        return _in_cluster(mounted, environ)
    if isinstance(kubeconfig, Mapping):
        return _select([_absolute(dict(kubeconfig), None, "kubeconfig")], context, "kubeconfig")
    if kubeconfig is not None:
        paths = [Path(kubeconfig).expanduser()]
    elif environ.get("KUBECONFIG"):
        # As kubectl does: files of the list that are missing are skipped, as long as one is there.
        listed = [Path(part).expanduser() for part in environ["KUBECONFIG"].split(os.pathsep) if part]
        paths = [path for path in listed if path.exists()] or listed[:1]
    else:
        paths = [Path("~/.kube/config").expanduser()]
        if not paths[0].exists():
            if (mounted / "token").exists():
                return _in_cluster(mounted, environ)
            raise ConfigurationError(
                f"no kubeconfig: {paths[0]} does not exist, KUBECONFIG is not set, and this is no pod of a cluster"
            )
    origin = "kubeconfig " + os.pathsep.join(str(path) for path in paths)
    return _select([_read(path) for path in paths], context, origin)


def _in_cluster(folder: Path, environ: Mapping[str, str]) -> Access:
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise ConfigurationError("not in a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
    for name in ("token", "ca.crt"):
        if not (folder / name).is_file():
            raise ConfigurationError(f"not in a cluster: the service account file {folder / name} does not exist")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    namespace = ""
    if (folder / "namespace").is_file():
        namespace = (folder / "namespace").read_text().strip()
    cluster = {"server": server, "certificate-authority": str(folder / "ca.crt")}
    user = {"tokenFile": str(folder / "token")}
    return _access(f"service account in {folder}", "in-cluster", cluster, user, namespace, None)


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text()
    except FileNotFoundError:
        raise ConfigurationError(f"kubeconfig {path} does not exist") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigurationError(f"kubeconfig {path} cannot be read: {reason}") from error
    try:
        content = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "invalid"
        raise ConfigurationError(f"kubeconfig {path} is not valid YAML: {problem}{where}") from error
    if not isinstance(content, dict):
        raise ConfigurationError(f"kubeconfig {path} is not a kubeconfig: it holds no mapping")
    return _absolute(content, path.absolute().parent, f"kubeconfig {path}")


def _absolute(config: dict[str, Any], folder: Path | None, origin: str) -> dict[str, Any]:
    """A copy in which file names are absolute and every named entry knows its ``folder``."""
    copy = {"current-context": config.get("current-context")}
    for plural, singular in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
        entries: dict[str, Any] = {}
        for entry in config.get(plural) or []:
            if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                raise ConfigurationError(f"{origin}: an entry of {plural} has no name")
            value = dict(entry.get(singular) or {})
            for key in _FILE_KEYS.get(singular, ()):
                if value.get(key) and folder is not None:
                    value[key] = str(folder / Path(value[key]).expanduser())
            entries.setdefault(entry["name"], (value, folder))
        copy[plural] = entries
    return copy


def _select(configs: list[dict[str, Any]], context: str | None, origin: str) -> Access:
    def merged(plural: str) -> dict[str, tuple[dict[str, Any], Path | None]]:
        return {name: entry for config in reversed(configs) for name, entry in config[plural].items()}

    contexts = merged("contexts")
    known = ", ".join(sorted(contexts)) or "none"
    name = context or next((c["current-context"] for c in configs if c["current-context"]), None)
    if not name:
        raise ConfigurationError(f"{origin} has no current-context; choose one of its contexts: {known}")
    if name not in contexts:
        raise ConfigurationError(f'{origin} has no context "{name}"; its contexts are: {known}')
    chosen = contexts[name][0]
    found: dict[str, tuple[dict[str, Any], Path | None]] = {}
    for plural, singular in (("clusters", "cluster"), ("users", "user")):
        wanted = chosen.get(singular)
        entries = merged(plural)
        if singular == "user" and not wanted:
            entries, wanted = {"": ({}, None)}, ""
        if wanted not in entries:
            raise ConfigurationError(
                f'{origin}: context "{name}" names the {singular} "{wanted or ""}", which is missing'
            )
        found[singular] = entries[wanted]
    cluster, (user, folder) = found["cluster"][0], found["user"]
    return _access(origin, name, cluster, user, chosen.get("namespace") or "", folder)


def _access(
    origin: str, name: str, cluster: dict[str, Any], user: dict[str, Any], namespace: str, folder: Path | None
) -> Access:
    server = cluster.get("server")
    url = urlsplit(server) if isinstance(server, str) else None
    if url is None or url.scheme not in ("http", "https") or not url.hostname:
        raise ConfigurationError(f'{origin}: the server of context "{name}" is not an http(s) URL: {server!r}')
    _check_user(origin, user)
    cluster, user = dict(cluster), dict(user)
    for mapping, key in ((cluster, "certificate-authority"), (user, "client-certificate"), (user, "client-key")):
        data = mapping.get(f"{key}-data")
        if data:
            mapping.pop(key, None)  # inline data wins, as in client-go
            _check_base64(origin, f"{key}-data", data)
        elif mapping.get(key) and not Path(mapping[key]).is_file():
            raise ConfigurationError(f"{origin}: the {key} file {mapping[key]} does not exist")
    has_certificate, has_key = (
        bool(user.get(k) or user.get(f"{k}-data")) for k in ("client-certificate", "client-key")
    )
    if has_certificate != has_key:
        missing = "client-key" if has_certificate else "client-certificate"
        raise ConfigurationError(
            f"{origin}: the user has no {missing} for its {'certificate' if has_certificate else 'key'}"
        )
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    }
    return Access(origin, str(server).rstrip("/"), namespace, config, cluster, user, folder)


def _check_user(origin: str, user: dict[str, Any]) -> None:
    if user.get("username") or user.get("password"):
        raise ConfigurationError(f"{origin}: username and password are not supported (Kubernetes 1.19 removed them)")
    provider = user.get("auth-provider")
    if provider and (not isinstance(provider, dict) or provider.get("name") != "oidc"):
        raise ConfigurationError(f"{origin}: of the removed auth-provider settings only oidc is supported; use exec")
    plugin = user.get("exec")
    if plugin is not None and (not isinstance(plugin, dict) or not plugin.get("command")):
        raise ConfigurationError(f"{origin}: the user's exec has no command")


def _check_base64(origin: str, key: str, data: object) -> None:
    if isinstance(data, str) and "-----" in data:
        return  # kr8s takes plain PEM too
    try:
        base64.b64decode(str(data), validate=False)
    except (binascii.Error, ValueError) as error:
        raise ConfigurationError(f"{origin}: {key} is not valid base64") from error
