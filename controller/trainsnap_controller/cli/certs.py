# SPDX-License-Identifier: Apache-2.0
"""``trainsnap certs``: the webhooks' certificates, their dates, and whether API servers trust them.

Reads one Secret and the two webhook configurations with the rights of whoever asks, and writes nothing. Keys are
neither shown nor kept.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, Protocol

import typer
from cryptography import x509
from pydantic.alias_generators import to_camel

from trainsnap_api.transport import NotFound, Resource, Transport
from trainsnap_api.transport.resources import SECRET
from trainsnap_controller import constants as c
from trainsnap_controller.config import Configuration, load
from trainsnap_controller.webhooks import certs_model as model
from trainsnap_controller.webhooks.certs_inject import WEBHOOK_CONFIGURATIONS, roots, webhooks
from trainsnap_controller.webhooks.certs_model import Bundle, CertificateError, Pair, fingerprint
from trainsnap_controller.webhooks.certs_policy import Policy
from trainsnap_controller.webhooks.certs_secret import read
from trainsnap_controller.webhooks.certs_sources import ForeignSecret

JSON = dict[str, Any]
SHORT: Final = 12
"""Characters of a fingerprint that tables show."""
ALL_IN_ORDER: Final = "All in order; whether anybody answers the webhooks was not asked."
_FINE: Final = ("in place", "trusts it", "set")


class Output(StrEnum):
    """How the report is written."""

    TABLE = "table"
    JSON = "json"


class Reads(Protocol):
    """The part of the transport that is needed here."""

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> JSON: ...


@dataclass(frozen=True, slots=True)
class Shown:
    """One certificate: ``role`` is authority, old authority or serving; times are RFC 3339."""

    role: str
    sha256: str
    valid_from: str
    valid_until: str
    days_left: float
    state: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Webhook:
    """One webhook and the authorities that the API server trusts for it."""

    kind: str
    configuration: str
    name: str
    bundle: tuple[str, ...]
    state: str


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that there is to know. ``problems`` are lines for people; none when all is in order."""

    secret: str
    provider: str
    certificates: tuple[Shown, ...]
    webhooks: tuple[Webhook, ...]
    problems: tuple[str, ...]


def certs(
    config: Annotated[
        Path | None, typer.Option("--config", help="The operator's configuration file; defaults without one.")
    ] = None,
    kubeconfig: Annotated[Path | None, typer.Option(help="Kubeconfig of the cluster; yours by default.")] = None,
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig; its current one by default.")] = None,
    namespace: Annotated[str, typer.Option(help="The operator's namespace.")] = c.NAMESPACE,
    output: Annotated[Output, typer.Option("--output", "-o", help="How it is shown.")] = Output.TABLE,
) -> int:
    """Show the webhooks' certificates, their dates, and which webhook configurations trust them.

    Does not ask whether anybody answers the webhooks. Ends with 1 when something is not in order.
    """
    return asyncio.run(_certs(load(config), kubeconfig, context, namespace, output))


async def _certs(
    config: Configuration, kubeconfig: Path | None, context: str | None, namespace: str, output: Output
) -> int:
    async with await Transport.connect(kubeconfig=kubeconfig, context=context) as api:
        report = await examine(api, config, namespace, datetime.now(UTC))
    print(json.dumps(_camel(asdict(report)), indent=2) if output is Output.JSON else table(report))
    return 1 if report.problems else 0


async def examine(
    api: Reads, config: Configuration, namespace: str, now: datetime, *, policy: Policy | None = None
) -> Report:
    """Look at the Secret and the webhook configurations. Raises the API server's refusals."""
    policy = policy or Policy()
    section = config.cert_management
    provider = section.effective_provider
    problems: list[str] = []
    bundle = Bundle()
    if provider != "files":
        bundle, complaint = await _bundle(api, provider, namespace, section.webhook_secret_name)
        problems += [complaint] if complaint else []
    shown = [_shown(certificate, role, now, policy) for certificate, role in _all(bundle)]
    problems += [f"the {one.role} certificate {one.sha256[:SHORT]} is {one.state}" for one in shown if _bad(one)]
    found: list[Webhook] = []
    for resource, name in WEBHOOK_CONFIGURATIONS:
        try:
            configuration = await api.get(resource, name)
        except NotFound:
            problems.append(f"{resource.kind} {name} does not exist: TrainJobs and runtimes are not checked")
            continue
        found += [_webhook(resource.kind, name, one, bundle, now) for one in webhooks(configuration)]
    problems += [f"{one.configuration}: {one.name}: {one.state}" for one in found if one.state not in _FINE]
    where = section.cert_dir if provider == "files" else f"{namespace}/{section.webhook_secret_name}"
    return Report(where, provider, tuple(shown), tuple(found), tuple(problems))


async def _bundle(api: Reads, provider: str, namespace: str, name: str) -> tuple[Bundle, str]:
    """What the Secret holds, and what is wrong with it or ""."""
    try:
        if provider == "cert-manager":
            return await ForeignSecret(api, namespace, name).current(), ""
        bundle, complaint = read(await api.get(SECRET, name, namespace))
    except NotFound:
        return Bundle(), f"Secret {namespace}/{name} does not exist: the operator makes it when it starts"
    except CertificateError as error:
        return Bundle(), str(error)
    if complaint:
        return bundle, f"Secret {namespace}/{name}: {complaint}; the operator replaces it"
    if bundle.pair is None:
        return bundle, f"Secret {namespace}/{name} has no certificate yet: the operator makes it when it starts"
    return bundle, ""


def _all(bundle: Bundle) -> Iterable[tuple[x509.Certificate, str]]:
    for position, authority in enumerate(bundle.authorities):
        yield authority, "old authority" if position else "authority"
    if bundle.pair is not None:
        yield bundle.pair.leaf, "serving"


def _shown(certificate: x509.Certificate, role: str, now: datetime, policy: Policy) -> Shown:
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now > end:
        state = "expired"
    elif now < start:
        state = "not valid yet"
    elif role != "old authority" and now >= policy.renewal(certificate):
        state = "due for renewal"
    else:
        state = "valid"
    return Shown(
        role,
        fingerprint(certificate),
        start.strftime("%Y-%m-%dT%H:%M:%SZ"),
        end.strftime("%Y-%m-%dT%H:%M:%SZ"),
        round((end - now).total_seconds() / 86400, 2),
        state,
        model.names(certificate),
    )


def _bad(shown: Shown) -> bool:
    return shown.state in ("expired", "not valid yet") and shown.role != "old authority"


def _webhook(kind: str, configuration: str, webhook: JSON, bundle: Bundle, now: datetime) -> Webhook:
    known = roots(webhook)
    pair: Pair | None = bundle.pair
    if not known:
        state = "no CA bundle: the API server cannot call it"
    elif pair is None:
        state = "set"
    elif not model.anchors(pair, known, now):
        state = "its CA bundle does not trust the serving certificate"
    else:
        state = "in place" if known == bundle.authorities else "trusts it"
    return Webhook(kind, configuration, webhook.get("name", ""), tuple(fingerprint(root) for root in known), state)


def table(report: Report) -> str:
    """The report for people."""
    made = {"trainsnap": "made by trainsnap", "cert-manager": "filled by cert-manager", "files": "files"}
    lines = [f"Certificates in {report.secret} ({made[report.provider]})", ""]
    if report.certificates:
        lines += _columns(
            ("CERTIFICATE", "SHA256", "FROM", "UNTIL", "LEFT", "STATE", "NAMES"),
            [_row(one) for one in report.certificates],
        )
        lines.append("")
    if report.webhooks:
        lines += _columns(
            ("CONFIGURATION", "WEBHOOK", "CA BUNDLE", "STATE"),
            [
                (one.configuration, one.name, ", ".join(root[:SHORT] for root in one.bundle) or "-", one.state)
                for one in report.webhooks
            ],
        )
        lines.append("")
    lines += [f"Not in order: {problem}" for problem in report.problems] or [ALL_IN_ORDER]
    return "\n".join(lines)


def _row(one: Shown) -> tuple[str, ...]:
    dates = (one.valid_from, one.valid_until, _left(one.days_left))
    return (one.role, one.sha256[:SHORT], *dates, one.state, ", ".join(one.names))


def _columns(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in (heads, *rows)) for column in range(len(heads))]
    return [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in (heads, *rows)
    ]


def _left(days: float) -> str:
    return f"{days:.0f}d" if abs(days) >= 2 else f"{days * 24:.0f}h"


def _camel(value: Any) -> Any:
    if isinstance(value, dict):
        return {to_camel(key): _camel(item) for key, item in value.items()}
    return [_camel(item) for item in value] if isinstance(value, list | tuple) else value
