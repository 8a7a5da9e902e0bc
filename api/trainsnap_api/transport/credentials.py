# SPDX-License-Identifier: Apache-2.0
"""Who we are to the server, at this moment: the token and the TLS context of the next request.

The request pipeline asks ``current()`` before every attempt and ``renew()`` after a 401, and nothing else does. kr8s
turns the kubeconfig into TLS material; the tokens are ours, because kr8s reads them at login only, and its way to renew
them closes the session under every running watch. Here a renewal changes what the *next* request sends; connections
that exist are left alone. Tokens are never logged.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
import ssl
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from kr8s._auth import KubeAuth

from trainsnap_api.transport import execplugin, kubeconfig
from trainsnap_api.transport.errors import ConfigurationError, TransportError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from trainsnap_api.transport.kubeconfig import Access

    TokenProvider = Callable[[], Awaitable[str] | str]

logger = logging.getLogger(__name__)

_EARLY = 30.0
"""A plugin's credential is renewed this many seconds before it expires, so that no request is sent with a stale one."""
_MIN_RENEW_INTERVAL = 5.0
"""A plugin, a provider or the kubeconfig is not asked again sooner: a server that always answers 401 must not turn
every request into a process."""
PROVIDER_SECONDS = 30.0
"""A token provider that says nothing for so long has failed; without a limit it would hold up every request."""


@dataclass(frozen=True, slots=True)
class Credential:
    """What one request is sent with. ``fingerprint`` tells two apart without comparing secrets piecemeal."""

    token: str | None = field(repr=False)
    ssl: ssl.SSLContext | bool
    fingerprint: tuple[object, ...] = field(repr=False)


class Credentials:
    """The identity of one transport: loaded by ``load()``, then kept fresh."""

    def __init__(
        self,
        reload: Callable[[], Access],
        *,
        token_provider: TokenProvider | None = None,
        token_max_age: float = 60.0,
        environ: Mapping[str, str],
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._reload = reload
        self._provider = token_provider
        self._max_age = token_max_age
        self._environ = environ
        self._clock = clock
        self._wall_clock = wall_clock
        self._lock = asyncio.Lock()
        self._credential: Credential | None = None
        self._loaded = self._renewed = float("-inf")
        self._expires: float | None = None
        self._tls: tuple[tuple[object, ...], ssl.SSLContext | bool] | None = None
        self._kubeauth: KubeAuth
        self.access: Access

    async def load(self) -> None:
        """Reads everything for the first time; ConfigurationError with one clear line."""
        self.access = await asyncio.to_thread(self._reload)
        await self._refresh()

    @property
    def headers(self) -> list[tuple[str, str]]:
        """The impersonation that the kubeconfig asks for; none with a token provider, whose token says who we are."""
        user = self.access.user
        if self._provider is not None or not user.get("as"):
            return []
        headers = [("Impersonate-User", str(user["as"]))]
        if user.get("as-uid"):
            headers.append(("Impersonate-Uid", str(user["as-uid"])))
        headers += [("Impersonate-Group", str(group)) for group in user.get("as-groups") or []]
        for key, values in (user.get("as-user-extra") or {}).items():
            headers += [("Impersonate-Extra-" + quote(str(key), safe=""), str(value)) for value in values]
        return headers

    @property
    def proxy(self) -> str | None:
        """The kubeconfig's ``proxy-url``."""
        return self._kubeauth.proxy or None

    @property
    def tls_server_name(self) -> str | None:
        return self._kubeauth.tls_server_name or None

    async def current(self) -> Credential:
        """What to send now; reads the token again when it is old. Only the first load can fail: later the last good
        token goes on being used, and the server decides."""
        assert self._credential is not None, "load() comes first"
        if self._is_fresh():
            return self._credential
        async with self._lock:
            if not self._is_fresh():
                try:
                    await self._refresh()
                except TransportError as error:
                    logger.warning("credentials could not be read again, keeping the last ones: %s", error)
                    self._loaded = self._clock()
            return self._credential

    async def renew(self, rejected: Credential) -> Credential | None:
        """Another credential than the one that the server just answered 401 to, or None when there is none.

        Many requests may be refused at once: the first one renews, the others find its result.
        """
        async with self._lock:
            assert self._credential is not None
            if self._credential.fingerprint != rejected.fingerprint:
                return self._credential
            if not self._has_token_file() and self._clock() - self._renewed < _MIN_RENEW_INTERVAL:
                return None
            self._renewed = self._clock()
            try:
                self.access = await asyncio.to_thread(self._reload)
                await self._refresh()
            except TransportError as error:
                logger.warning("the server refused the credentials, and they could not be renewed: %s", error)
                return None
            return self._credential if self._credential.fingerprint != rejected.fingerprint else None

    def _has_token_file(self) -> bool:
        return self._provider is None and bool(self.access.user.get("tokenFile"))

    def _is_fresh(self) -> bool:
        if self._expires is not None:
            return self._wall_clock() < self._expires - _EARLY or self._clock() - self._loaded < _MIN_RENEW_INTERVAL
        if self._provider is None and not self._has_token_file():
            return True
        return self._clock() - self._loaded < self._max_age

    async def _refresh(self) -> None:
        config = self._config()
        token, expires = None, None
        if self._provider is not None:
            token = await _ask(self._provider)
        else:
            user = config["users"][0]["user"]
            if user.pop("exec", None):
                answer = await execplugin.run(self.access, self._environ)
                token, expires = answer.token, answer.expires
                if answer.certificate and answer.key:
                    user.update({"client-certificate-data": answer.certificate, "client-key-data": answer.key})
            if token_file := user.pop("tokenFile", None):
                token = await asyncio.to_thread(_read_token, Path(token_file))
        context = await self._tls_context(config)
        if self._provider is None and token is None:
            token = self._kubeauth.token
        _check_token(token, self.access.origin)
        self._expires = expires
        self._loaded = self._clock()
        self._credential = Credential(token, context, (token, id(context)))

    def _config(self) -> dict[str, Any]:
        """A copy of the one-context kubeconfig to work on. With a token provider nothing of the user is left: a client
        certificate would win over the token, and we would act with the rights of the kubeconfig's owner."""
        user = {} if self._provider is not None else dict(self.access.user)
        return {**self.access.config, "users": [{**self.access.config["users"][0], "user": user}]}

    async def _tls_context(self, config: dict[str, Any]) -> ssl.SSLContext | bool:
        """The context for this material; the same object as long as the material is the same, so that connections are
        shared (a context is part of what a connection is kept by)."""
        material = {**config["clusters"][0]["cluster"], **config["users"][0]["user"]}
        key = await asyncio.to_thread(_fingerprint, material)
        if self._tls is None or self._tls[0] != key:
            auth = KubeAuth(kubeconfig=config)  # type: ignore[arg-type]  # it takes a dict as well
            self._tls = key, await _ssl_context(auth, material, self.access.origin)
            self._kubeauth = auth
        return self._tls[1]


async def _ssl_context(auth: KubeAuth, material: Mapping[str, Any], origin: str) -> ssl.SSLContext | bool:
    with _without_key_files(auth, material, origin):
        await auth.reauthenticate()
        context: ssl.SSLContext | bool = await auth.ssl_context()  # type: ignore[no-untyped-call]
    if isinstance(context, ssl.SSLContext) and context.verify_mode != ssl.CERT_NONE and not auth.server_ca_file:
        # kr8s 0.20.15 builds a context without any CA when only a client certificate is given.
        context.load_default_certs()
    return context


@contextlib.contextmanager
def _without_key_files(auth: KubeAuth, material: Mapping[str, Any], origin: str) -> Iterator[None]:
    """kr8s writes inline keys and certificates to temporary files and leaves them; they go as soon as they are read."""
    try:
        yield
    except (ValueError, KeyError, OSError, TypeError, AttributeError) as error:
        text = " ".join(str(error).split())
        raise ConfigurationError(f"{origin}: the certificates or keys cannot be used: {text}") from error
    finally:
        for name, path in (
            ("client-key", auth.client_key_file),
            ("client-certificate", auth.client_cert_file),
            ("certificate-authority", auth.server_ca_file),
        ):
            if path is not None and material.get(f"{name}-data"):
                with contextlib.suppress(OSError):
                    os.unlink(path)


def _fingerprint(material: Mapping[str, Any]) -> tuple[object, ...]:
    """Everything that the TLS context and the inline token are made from, files by content."""
    parts: list[object] = []
    for name in sorted(material):
        parts.append((name, str(material[name])))
        if name in ("certificate-authority", "client-certificate", "client-key"):
            with contextlib.suppress(OSError):
                parts.append(Path(material[name]).read_bytes())
    return tuple(parts)


def _read_token(path: Path) -> str:
    try:
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigurationError(f"the token file {path} cannot be read: {reason}") from error
    if not token:
        raise ConfigurationError(f"the token file {path} is empty")
    return token


def _check_token(token: str | None, origin: str) -> None:
    """A token travels in a header, where a line break or a blank would end it; say so before the HTTP library does."""
    if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
        raise ConfigurationError(f"{origin}: the token holds blanks, line breaks or characters outside ASCII")


async def _ask(provider: TokenProvider) -> str:
    """Somebody else's code: whatever it raises, and its silence, is one kind of error here."""
    try:
        async with asyncio.timeout(PROVIDER_SECONDS):
            answer = provider()
            token = await answer if inspect.isawaitable(answer) else answer
    except TransportError:
        raise
    except TimeoutError as error:
        raise ConfigurationError(f"the token provider gave no token within {PROVIDER_SECONDS:g} s") from error
    except Exception as error:
        text = " ".join(str(error).split()) or type(error).__name__
        raise ConfigurationError(f"the token provider failed: {text}") from error
    if not token:
        raise ConfigurationError("the token provider gave no token")
    return token


def source(
    kubeconfig_source: kubeconfig.KubeconfigSource | None,
    context: str | None,
    *,
    in_cluster: bool,
    environ: Mapping[str, str],
    service_account: str = kubeconfig.SERVICE_ACCOUNT_DIR,
) -> Callable[[], Access]:
    """Reads the kubeconfig anew with each call: tools such as cloud CLIs rewrite it while we run."""
    return lambda: kubeconfig.load(
        kubeconfig_source, context, in_cluster=in_cluster, environ=environ, service_account=service_account
    )
