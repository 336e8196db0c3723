"""The verb connect: runs the stdio bridge to the manager, for clients without HTTP support."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from lm_tools_bridge.terminal.command_line import examples, say
from manager.cli.output.manager_access import current_folder, user_paths
from manager.routing.cwd import placeholder_in


@click.command(epilog=examples("lmtb connect", "lmtb connect --cwd ~/shop"))
@click.option(
    "--cwd",
    type=click.Path(path_type=Path),
    help="A folder in the workspace; default: the current folder.",
)
def connect(cwd: Path | None) -> None:
    """Run as a stdio MCP server, for clients without HTTP support.

    Forwards messages to the manager and back, one JSON object per line. Starts a manager if none runs, and
    reconnects after a restart. Ends when standard input closes.
    """
    placeholder = placeholder_in(None if cwd is None else str(cwd))
    if placeholder is not None:
        say(f"the client did not expand {placeholder} in --cwd; the current folder is used", err=True)
        cwd = None
    paths, folder = user_paths(), current_folder(cwd)
    if sys.stdin.isatty():
        say("waiting for MCP messages on standard input; a client starts this, not a person", err=True)
    from manager.stdio_bridge.bridge import run  # what is slow to import waits until it is needed

    run(paths, folder)
