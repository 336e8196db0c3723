"""The verb secrets: stores tokens for servers and tools."""

from __future__ import annotations

import click

from lm_tools_bridge.terminal.command_line import json_option
from manager.cli.completion import suggestions
from manager.cli.workspace_command import run


@click.group()
def secrets() -> None:
    """Store tokens that servers and tools need. No log and no list ever shows a value."""


@secrets.command(name="set")
@click.argument("key", shell_complete=suggestions.secrets)
@click.option("--stdin", is_flag=True, help="Read the value from standard input.")
@json_option
def set_(key: str, stdin: bool, **_: bool) -> None:
    """Store a secret. Prompts for the value and never shows it."""
    run("secrets", "set", *(["--stdin"] if stdin else []), "--", key)


@secrets.command(name="list")
@json_option
def list_(**_: bool) -> None:
    """List the names of the stored secrets."""
    run("secrets", "list")


@secrets.command()
@click.argument("key", shell_complete=suggestions.secrets)
@json_option
def delete(key: str, **_: bool) -> None:
    """Delete a secret."""
    run("secrets", "delete", "--", key)
