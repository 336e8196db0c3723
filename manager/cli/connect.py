"""The verb connect: the manager for clients that can only start programs, over standard input and output."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from manager.cli.output.manager_access import current_folder, user_paths


@click.command()
@click.option(
    "--cwd",
    type=click.Path(path_type=Path),
    help="A folder in the workspace; default: the current folder.",
)
def connect(cwd: Path | None) -> None:
    """Be an MCP server for a client that can only start programs.

    Messages go to the manager and back, one JSON object per line. A manager is started if none runs; one
    that is restarted meanwhile is found again. It ends with its input.
    """
    paths, folder = user_paths(), current_folder(cwd)
    if sys.stdin.isatty():
        click.echo("waiting for MCP messages on standard input; a client starts this, not a person", err=True)
    from manager.stdio_bridge.main import run  # noqa: PLC0415 - what is slow to import waits until it is needed

    run(paths, folder)
