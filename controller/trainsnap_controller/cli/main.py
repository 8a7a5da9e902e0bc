# SPDX-License-Identifier: Apache-2.0
"""The command ``trainsnap``: flags, and how every failure becomes one line and an exit code.

Exit codes: 0 stopped in order, 1 something failed, 2 the command line is wrong, 130 interrupted.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from trainsnap_api.transport import ApiError, TransportError
from trainsnap_controller.cli import dev as dev_command
from trainsnap_controller.cli import run as run_command
from trainsnap_controller.cli.admission import LOOPBACK
from trainsnap_controller.cli.certs import certs
from trainsnap_controller.cli.install import InstallError
from trainsnap_controller.cli.migrate import app as migrate
from trainsnap_controller.config import ConfigError, load
from trainsnap_controller.config.load import with_gates
from trainsnap_controller.manager import ListenError
from trainsnap_controller.migration.command import MigrationError
from trainsnap_controller.migration.journal import JournalError
from trainsnap_controller.observe.logging import configure_logging

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Runs TrainJobs, and keeps the runtime that each was started from in a TrainingRuntimeSnapshot.",
)


class LogFormat(StrEnum):
    """How log lines are written."""

    JSON = "json"
    CONSOLE = "console"


class LogLevel(StrEnum):
    """What is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


Config = Annotated[Path | None, typer.Option("--config", help="Configuration file; defaults without one.")]
Gates = Annotated[str, typer.Option("--feature-gates", help="name=true,name=false; wins over the file.")]
Context = Annotated[str | None, typer.Option(help="Context of the kubeconfig; its current one by default.")]
Format = Annotated[LogFormat, typer.Option(help="How log lines are written.")]
Level = Annotated[LogLevel, typer.Option(help="The least important lines that are logged.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(importlib.metadata.version("trainsnap"))
        raise typer.Exit


@app.callback()
def for_all_commands(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version, and end.")
    ] = False,
) -> None:
    del version  # Printed by now.


@app.command()
def run(
    config: Config = None,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Kubeconfig of the cluster; without it, the pod's ServiceAccount.")
    ] = None,
    context: Context = None,
    feature_gates: Gates = "",
    log_format: Format = LogFormat.JSON,
    log_level: Level = LogLevel.INFO,
) -> int:
    """Run the operator, in the cluster or by a kubeconfig, until SIGTERM."""
    configure_logging(format=log_format.value, level=log_level.value)
    configuration = with_gates(load(config), feature_gates)
    return asyncio.run(run_command.run(configuration, kubeconfig=kubeconfig, context=context))


@app.command()
def dev(
    kubeconfig: Annotated[Path, typer.Option(help="Kubeconfig with the rights of an installer.")],
    config: Config = None,
    context: Context = None,
    feature_gates: Gates = "",
    webhook_host: Annotated[
        str, typer.Option(help="Name or address of this machine under which the API server reaches it.")
    ] = LOOPBACK,
    clean: Annotated[bool, typer.Option("--clean", help="Remove what an earlier run installed, and end.")] = False,
    log_format: Format = LogFormat.CONSOLE,
    log_level: Level = LogLevel.INFO,
) -> int:
    """Install CRDs, roles and the snapshot guard, then run the operator here, as its own ServiceAccount.

    Prints READY when the caches are in sync. For development and tests: for a cluster that others use, deploy it.
    """
    configure_logging(format=log_format.value, level=log_level.value)
    if clean:
        return asyncio.run(dev_command.clean(kubeconfig, context))
    configuration = None if config is None else load(config)
    return asyncio.run(
        dev_command.dev(configuration, feature_gates, kubeconfig=kubeconfig, context=context, webhook_host=webhook_host)
    )


app.command()(certs)
app.add_typer(migrate, name="migrate")


@app.command()
def version() -> int:
    """Print the version."""
    _print_version(True)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; every expected failure is one line on stderr."""
    try:
        code = typer.main.get_command(app).main(
            args=None if arguments is None else list(arguments), prog_name="trainsnap", standalone_mode=False
        )
        return int(code or 0)
    except typer.TyperException as error:
        # Only a wrong command line carries a context: that of the command it was meant for.
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "trainsnap"
        message = error.format_message().replace("Value error, ", "")  # pydantic's words before typer's.
        return _fail(f"{message} (see {command} --help)", 2)
    except (typer.Abort, KeyboardInterrupt):
        return 130
    except ApiError as error:
        return _fail(f"the API server refuses {error.method} {error.path}: {error.message}", 1)
    except (ConfigError, InstallError, JournalError, ListenError, MigrationError, TransportError) as error:
        return _fail(str(error), 1)


def _fail(message: str, code: int) -> int:
    print(f"trainsnap: {' '.join(message.split())}", file=sys.stderr)
    return code
