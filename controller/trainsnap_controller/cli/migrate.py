# SPDX-License-Identifier: Apache-2.0
"""``trainsnap migrate``: connects, and hands over to ``migration.command``.

Two connections: the caller's, with which everything is read, and one as the operator's ServiceAccount, by a token that
the caller's rights have to suffice for. Exit codes: 0, 1 when there are problems or it failed, 2 for a wrong call.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from trainsnap_api.transport import Forbidden, NotFound, Transport
from trainsnap_api.transport.limiter import TokenBucket
from trainsnap_controller import constants as c
from trainsnap_controller.cli.tokens import TokenSource
from trainsnap_controller.config import Configuration, load
from trainsnap_controller.migration.budget import Budgeted
from trainsnap_controller.migration.command import PARALLEL, Migration, MigrationError, Operation, Options, clock
from trainsnap_controller.migration.report import Format, Progress, report

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="From the reference's ConfigMap snapshots to TrainingRuntimeSnapshots, and back.",
)
RATE = 100.0
"""Requests a second, unless the caller says otherwise: an API server does not notice them."""

Kubeconfig = Annotated[Path | None, typer.Option(help="Kubeconfig of the cluster; $KUBECONFIG by default.")]
Context = Annotated[str | None, typer.Option(help="Context of the kubeconfig; its current one by default.")]
Namespace = Annotated[str | None, typer.Option("--namespace", "-n", help="One namespace; all by default.")]
Output = Annotated[Format, typer.Option("--output", "-o", help="How the report is written.")]
Everything = Annotated[bool, typer.Option("--all", help="List jobs about which there is nothing to say, too.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Ask the API server for everything, and change nothing.")]
Rate = Annotated[float, typer.Option("--qps", min=0, help="Requests a second altogether; 0: no limit.")]
Parallel = Annotated[int, typer.Option(min=1, max=64, help="Jobs that are worked on at once.")]
JournalFile = Annotated[Path, typer.Option("--journal", help="What was done is appended to this file.")]
Config = Annotated[
    Path | None, typer.Option("--config", help="The operator's configuration file: kinds and annotations it keeps.")
]
LegacyBefore = Annotated[
    str | None,
    typer.Option(help="Take jobs and ConfigMaps from before this moment for the reference's: RFC 3339, or now."),
]
DEFAULT_JOURNAL = Path("trainsnap-migrate.jsonl")


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    if text == "now":
        return datetime.now(UTC)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(
            f"--legacy-before {text}: must be a time such as 2026-01-31T12:00:00Z, or now"
        ) from error
    if moment.tzinfo is None:
        raise typer.BadParameter(f"--legacy-before {text}: must say its time zone, such as 2026-01-31T12:00:00Z")
    return moment


@app.command()
def plan(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = None,
    output: Output = Format.TABLE,
    everything: Everything = False,
    qps: Rate = RATE,
    parallel: Parallel = PARALLEL,
    config: Config = None,
    legacy_before: LegacyBefore = None,
    dry_run: DryRun = False,
) -> int:
    """Say for every job what apply would do, and why not. Changes nothing, with or without --dry-run."""
    options = _options(namespace, parallel, config, dry_run, None, _moment(legacy_before))
    return _run(Operation.PLAN, options, kubeconfig, context, qps, output, everything)


@app.command()
def apply(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = None,
    output: Output = Format.TABLE,
    everything: Everything = False,
    qps: Rate = RATE,
    parallel: Parallel = PARALLEL,
    config: Config = None,
    legacy_before: LegacyBefore = None,
    journal: JournalFile = DEFAULT_JOURNAL,
    dry_run: DryRun = False,
) -> int:
    """Make the snapshots of all jobs from their ConfigMaps, which stay. Can be stopped and run again at any time."""
    options = _options(namespace, parallel, config, dry_run, journal, _moment(legacy_before))
    return _run(Operation.APPLY, options, kubeconfig, context, qps, output, everything)


@app.command()
def verify(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = None,
    output: Output = Format.TABLE,
    everything: Everything = False,
    qps: Rate = RATE,
    parallel: Parallel = PARALLEL,
    dry_run: DryRun = False,
) -> int:
    """Prove that every job would build the same objects from its ConfigMap and from its snapshot."""
    options = _options(namespace, parallel, None, dry_run, None, None)
    return _run(Operation.VERIFY, options, kubeconfig, context, qps, output, everything)


@app.command()
def finalize(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = None,
    output: Output = Format.TABLE,
    everything: Everything = False,
    qps: Rate = RATE,
    parallel: Parallel = PARALLEL,
    journal: JournalFile = DEFAULT_JOURNAL,
    dry_run: DryRun = False,
) -> int:
    """Verify all jobs and, only if every check holds, delete the ConfigMaps of unfinished ones."""
    options = _options(namespace, parallel, None, dry_run, journal, None)
    return _run(Operation.FINALIZE, options, kubeconfig, context, qps, output, everything)


@app.command()
def rollback(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = None,
    output: Output = Format.TABLE,
    everything: Everything = False,
    qps: Rate = RATE,
    parallel: Parallel = PARALLEL,
    journal: JournalFile = DEFAULT_JOURNAL,
    dry_run: DryRun = False,
) -> int:
    """Write the ConfigMaps that the reference reads, for every job, also those made since. Snapshots stay."""
    options = _options(namespace, parallel, None, dry_run, journal, None)
    return _run(Operation.ROLLBACK, options, kubeconfig, context, qps, output, everything)


@app.command()
def status(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Namespace = None,
    output: Output = Format.TABLE,
    everything: Everything = False,
    qps: Rate = RATE,
    parallel: Parallel = PARALLEL,
    config: Config = None,
    journal: JournalFile = DEFAULT_JOURNAL,
    dry_run: DryRun = False,
) -> int:
    """Say how far the migration is."""
    options = _options(namespace, parallel, config, dry_run, journal, None)
    return _run(Operation.STATUS, options, kubeconfig, context, qps, output, everything)


def _options(
    namespace: str | None,
    parallel: int,
    config: Path | None,
    dry_run: bool,
    journal: Path | None,
    legacy_before: datetime | None,
) -> Options:
    settings = (load(config) if config is not None else Configuration()).snapshots
    return Options(
        namespace=namespace,
        dry_run=dry_run,
        parallel=parallel,
        legacy_before=legacy_before,
        journal=journal,
        opaque_kinds=[f"{kind.kind}.{kind.group}" for kind in settings.opaque_runtimes],
        keep_annotations=settings.keep_annotations,
    )


def _run(
    operation: Operation,
    options: Options,
    kubeconfig: Path | None,
    context: str | None,
    qps: float,
    output: Format,
    everything: bool,
) -> int:
    return asyncio.run(_connected(operation, options, kubeconfig, context, qps, output, everything))


async def _connected(
    operation: Operation,
    options: Options,
    kubeconfig: Path | None,
    context: str | None,
    qps: float,
    output: Format,
    everything: bool,
) -> int:
    budget = TokenBucket(qps, max(1, int(qps)))
    async with AsyncExitStack() as stack:
        caller = await stack.enter_async_context(
            await Transport.connect(kubeconfig=kubeconfig, context=context, probe=True)
        )
        operator: Any = None
        if operation not in (Operation.VERIFY, Operation.STATUS, Operation.FINALIZE):
            tokens = TokenSource(caller)
            if await _token(tokens, required=operation.writes):
                connected = await Transport.connect(kubeconfig=kubeconfig, context=context, token_provider=tokens)
                operator = Budgeted(await stack.enter_async_context(connected), budget)
        reader: Any = Budgeted(caller, budget)
        migration = Migration(
            caller=reader,
            operator=operator,
            options=options,
            report=report(output, sys.stdout, everything=everything),
            progress=Progress(sys.stderr, clock),
        )
        return await migration.run(operation)


async def _token(tokens: TokenSource, *, required: bool) -> bool:
    """Whether a token of the operator can be had. Raises ``MigrationError`` that names what is missing."""
    account = f"ServiceAccount {c.NAMESPACE}/{c.SERVICE_ACCOUNT}"
    try:
        await tokens()
    except Forbidden as error:
        if not required:
            return False
        raise MigrationError(
            f"snapshots are written as {account}: you need the verb create on serviceaccounts/token, name "
            f"{c.SERVICE_ACCOUNT}, in namespace {c.NAMESPACE} ({error.message})"
        ) from error
    except NotFound as error:
        if not required:
            return False
        raise MigrationError(f"{account} does not exist: install trainsnap first") from error
    return True
