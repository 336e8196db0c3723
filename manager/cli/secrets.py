"""The verb secrets: stores tokens for servers and tools."""

from __future__ import annotations

import click

from host.command_line import json_option
from manager.cli.workspace_command import run


@click.group()
def secrets() -> None:
    """Store tokens that servers and tools need. No log and no list ever shows a value."""


@secrets.command(name="set")
@click.argument("key")
@click.option("--stdin", is_flag=True, help="Read the value from standard input.")
def set_(key: str, stdin: bool) -> None:
    """Store a secret. Prompts for the value and never shows it."""
    run("secrets", "set", key, *(["--stdin"] if stdin else []))


@secrets.command(name="list")
@json_option
def list_(as_json: bool) -> None:
    """List the names of the stored secrets."""
    run("secrets", "list", *(["--json"] if as_json else []))


@secrets.command()
@click.argument("key")
def delete(key: str) -> None:
    """Delete a secret."""
    run("secrets", "delete", key)
