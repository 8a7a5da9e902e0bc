# SPDX-License-Identifier: Apache-2.0
"""Runs a kubeconfig's credential plugin (``client.authentication.k8s.io`` v1 and v1beta1).

Called by ``credentials.py`` at the start, before the credential expires, and after a 401. kr8s can run plugins too, but
drops ``expirationTimestamp`` and does not pass ``KUBERNETES_EXEC_INFO``, which some plugins refuse to work without.
Never prints or logs what the plugin answered.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from trainsnap_api.transport.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainsnap_api.transport.kubeconfig import Access

_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True)
class ExecCredential:
    """What a plugin answered: a token, or a certificate with its key (PEM), or both; ``expires`` in Unix seconds."""

    token: str | None = field(default=None, repr=False)
    certificate: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    expires: float | None = None


async def run(access: Access, environ: Mapping[str, str], *, within: float = _TIMEOUT) -> ExecCredential:
    """Runs the plugin of ``access`` without a terminal; ConfigurationError when it gives no usable credential."""
    plugin = access.user["exec"]
    version = plugin.get("apiVersion")
    if version not in _VERSIONS:
        raise ConfigurationError(f"{access.origin}: exec apiVersion {version!r} is not one of {', '.join(_VERSIONS)}")
    command = str(plugin["command"])
    if "/" in command and access.folder is not None:
        command = str(access.folder / command)
    env = dict(environ)
    env.update({str(e["name"]): str(e["value"]) for e in plugin.get("env") or []})
    env["KUBERNETES_EXEC_INFO"] = _info(access, plugin, version)
    output = await _output(access.origin, command, [str(arg) for arg in plugin.get("args") or []], env, within, plugin)
    return _parse(f"{access.origin}: the credential plugin {command}", output, version)


def _info(access: Access, plugin: Mapping[str, Any], version: str) -> str:
    spec: dict[str, Any] = {"interactive": False}
    if plugin.get("provideClusterInfo"):
        names = ("server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data", "proxy-url")
        spec["cluster"] = {name: access.cluster[name] for name in names if name in access.cluster}
    return msgspec.json.encode({"apiVersion": version, "kind": "ExecCredential", "spec": spec}).decode()


async def _output(
    origin: str, command: str, args: list[str], env: dict[str, str], within: float, plugin: Mapping[str, Any]
) -> bytes:
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            command, *args, env=env, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
        )
    except OSError as error:
        hint = str(plugin.get("installHint") or "").strip().partition("\n")[0]
        raise ConfigurationError(
            f"{origin}: the credential plugin {command} cannot be run: {error.strerror}"
            + (f" ({hint})" if hint else "")
        ) from error
    try:
        async with asyncio.timeout(within):
            output, errors = await process.communicate()
    except TimeoutError:
        raise ConfigurationError(f"{origin}: the credential plugin {command} took longer than {within:g} s") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode != 0:
        words = " ".join(errors.decode("utf-8", "replace").split())[:300]
        raise ConfigurationError(f"{origin}: the credential plugin {command} failed ({process.returncode}): {words}")
    return output


def _parse(what: str, output: bytes, version: str) -> ExecCredential:
    try:
        document = msgspec.json.decode(output, type=dict[str, Any])
        status = msgspec.convert(document.get("status") or {}, dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{what} did not print an ExecCredential") from error
    if document.get("kind") != "ExecCredential" or document.get("apiVersion") != version:
        raise ConfigurationError(f"{what} did not print an ExecCredential of {version}")
    token, certificate, key = (status.get(k) for k in ("token", "clientCertificateData", "clientKeyData"))
    if not token and not (certificate and key):
        raise ConfigurationError(f"{what} printed neither a token nor a certificate with its key")
    expires = None
    if status.get("expirationTimestamp"):
        try:
            expires = datetime.fromisoformat(str(status["expirationTimestamp"])).timestamp()
        except ValueError as error:
            raise ConfigurationError(f"{what} printed an expirationTimestamp that is no time") from error
    return ExecCredential(token, certificate, key, expires)
