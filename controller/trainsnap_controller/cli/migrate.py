# SPDX-License-Identifier: Apache-2.0
"""``trainsnap migrate``: connects, and hands over to ``migration.command``.

Two connections: the caller's, with which everything is read, and one as the operator's ServiceAccount, by a token that
the caller's rights have to suffice for. Exit codes: 0, 1 when there are problems or it failed, 2 for a wrong call.
"""

from __future__ import annotations

import asyncio
import math
import os
import signal
import sys
import threading
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from trainsnap_api.transport import Forbidden, NotFound, Transport
from trainsnap_api.transport.limiter import TokenBucket
from trainsnap_controller import constants as c
from trainsnap_controller.cli.tokens import TokenSource
from trainsnap_controller.config import Configuration, load
from trainsnap_controller.migration.budget import Budgeted
from trainsnap_controller.migration.command import PARALLEL, Migration, MigrationError, Operation, Options
from trainsnap_controller.migration.report import Format, Progress, report
from trainsnap_controller.migration.state import moment_of

app = typer.Typer(
    invoke_without_command=True,
    rich_markup_mode=None,
    help="From the reference's ConfigMap snapshots to TrainingRuntimeSnapshots, and back.",
)


@app.callback()
def without_operation(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)


RATE = 100.0
"""Requests a second, unless the caller says otherwise: an API server does not notice them."""

DEFAULT_JOURNAL = Path("trainsnap-migrate.jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What can be said on the command line. Every operation takes the common ones, and those that are named for it."""

    kubeconfig: Annotated[Path | None, typer.Option(help="Kubeconfig of the cluster; $KUBECONFIG by default.")] = None
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig; its current one by default.")] = None
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="One namespace; all by default.")] = None
    output: Annotated[Format, typer.Option("--output", "-o", help="How the report is written.")] = Format.TABLE
    everything: Annotated[bool, typer.Option("--all", help="List jobs about which there is nothing to say, too.")] = (
        False
    )
    qps: Annotated[float, typer.Option("--qps", min=0, help="Requests a second altogether; 0: no limit.")] = RATE
    parallel: Annotated[int, typer.Option(min=1, max=64, help="Jobs that are worked on at once.")] = PARALLEL
    config: Annotated[
        Path | None, typer.Option("--config", help="The operator's configuration file: kinds and annotations it keeps.")
    ] = None
    legacy_before: Annotated[
        str | None,
        typer.Option(help="Take jobs and ConfigMaps from before this moment for the reference's: RFC 3339, or now."),
    ] = None
    journal: Annotated[Path, typer.Option("--journal", help="What was done is appended to this file.")] = (
        DEFAULT_JOURNAL
    )
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Ask the API server for everything, and change nothing.")
    ] = False


_SPECIAL = ("config", "legacy_before", "journal")


def _add(operation: Operation, text: str, *special: str) -> None:
    """Make an operation a command, with the common flags and the special ones that are named."""
    hints = get_type_hints(Flags, include_extras=True)
    taken = [flag for flag in fields(Flags) if flag.name not in _SPECIAL or flag.name in special]

    def command(**chosen: Any) -> int:
        try:
            return asyncio.run(_connected(operation, Flags(**chosen)))
        except BrokenPipeError as error:
            # Python writes what is left when it ends, and would complain once more.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise MigrationError("nobody reads the report any more, so it was not carried on") from error
        except OSError as error:
            raise MigrationError(f"the report cannot be written: {error.strerror or error}") from error
        except asyncio.CancelledError:
            return 130

    command.__doc__ = text
    command.__annotations__ = {flag.name: hints[flag.name] for flag in taken}
    command.__signature__ = Signature(  # type: ignore[attr-defined]
        [Parameter(f.name, Parameter.KEYWORD_ONLY, default=f.default, annotation=hints[f.name]) for f in taken]
    )
    app.command(operation.value)(command)


for _operation, _text, *_special in (
    (Operation.PLAN, "Say for every job what apply would do, and why not. Changes nothing, with or without --dry-run.",
     "config", "legacy_before"),
    (Operation.APPLY, "Make the snapshots of all jobs from their ConfigMaps, which stay. "
     "Can be stopped and run again at any time.", "config", "legacy_before", "journal"),
    (Operation.VERIFY, "Prove that every job would build the same objects from its ConfigMap and from its snapshot."),
    (Operation.FINALIZE, "Verify all jobs and, only if every check holds, delete the ConfigMaps of unfinished ones.",
     "journal"),
    (Operation.ROLLBACK, "Write the ConfigMaps that the reference reads, for every job, also those made since. "
     "Snapshots stay.", "journal"),
    (Operation.STATUS, "Say how far the migration is.", "config", "journal"),
):  # fmt: skip
    _add(_operation, _text, *_special)


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    # It is kept, and compared with creation times, in whole seconds: what was made in this very one is from before it.
    now = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=1)
    if text == "now":
        return now
    try:
        moment = moment_of(text)
    except ValueError as error:
        raise typer.BadParameter(
            f"--legacy-before {text}: must be a time with its time zone, such as 2026-01-31T12:00:00Z, or now"
        ) from error
    if moment > now:
        raise typer.BadParameter(f"--legacy-before {text}: must not be in the future, where ConfigMaps can be forged")
    return moment


def _options(operation: Operation, flags: Flags) -> Options:
    settings = (load(flags.config) if flags.config is not None else Configuration()).snapshots
    return Options(
        namespace=flags.namespace,
        dry_run=flags.dry_run,
        parallel=flags.parallel,
        legacy_before=_moment(flags.legacy_before),
        journal=flags.journal if operation.writes or operation is Operation.STATUS else None,
        opaque_kinds=[f"{kind.kind}.{kind.group}" for kind in settings.opaque_runtimes],
        keep_annotations=settings.keep_annotations,
    )


async def _connected(operation: Operation, flags: Flags) -> int:
    options = _options(operation, flags)
    if sys.stdout is None:
        raise MigrationError("the report cannot be written: stdout is closed")
    _end_in_order()
    if not math.isfinite(flags.qps):
        raise typer.BadParameter(f"--qps {flags.qps}: must be a number of requests a second; 0 is no limit")
    budget = TokenBucket(flags.qps, max(1, int(flags.qps)))
    async with AsyncExitStack() as stack:
        caller = await stack.enter_async_context(
            await Transport.connect(kubeconfig=flags.kubeconfig, context=flags.context, probe=True)
        )
        operator: Any = None
        if operation not in (Operation.VERIFY, Operation.STATUS, Operation.FINALIZE):
            tokens = TokenSource(caller)
            if await _token(tokens, required=operation.writes):
                connected = await Transport.connect(
                    kubeconfig=flags.kubeconfig, context=flags.context, token_provider=tokens
                )
                operator = Budgeted(await stack.enter_async_context(connected), budget)
        reader: Any = Budgeted(caller, budget)
        migration = Migration(
            caller=reader,
            operator=operator,
            options=options,
            report=report(flags.output, sys.stdout, everything=flags.everything),
            progress=Progress(sys.stderr, time.monotonic),
        )
        return await migration.run(operation)


def _end_in_order() -> None:
    """Have SIGTERM, and SIGHUP unless ``nohup`` is in force, end the run as Ctrl-C does: with a whole report."""
    task = asyncio.current_task()
    if task is None or threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)


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
