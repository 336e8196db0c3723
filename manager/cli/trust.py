"""The verbs trust and untrust: decide whether what a project brings along may run."""

from __future__ import annotations

from pathlib import Path

import click

from host.command_line import json_option
from manager.cli.workspace_command import root_of, run

_path = click.argument("path", type=click.Path(path_type=Path), required=False)


@click.command()
@_path
@click.option("--diff", is_flag=True, help="Only show what changed since it was trusted.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--list", "list_all", is_flag=True, help="List the trusted folders.")
@json_option
def trust(path: Path | None, diff: bool, yes: bool, list_all: bool, as_json: bool) -> None:
    """Trust this project: allow its script tools, servers and settings to take effect.

    Shows them first and asks. Trust covers exactly what was shown; changed content needs trust again.
    """
    flags = [*(["--diff"] if diff else []), *(["--yes"] if yes else []), *(["--json"] if as_json else [])]
    if list_all:
        run("trust", "--list", *flags)
    run("trust", root_of(path), *flags)


@click.command()
@_path
@json_option
def untrust(path: Path | None, as_json: bool) -> None:
    """Revoke trust: nothing that this project brings along runs any more."""
    run("untrust", root_of(path), *(["--json"] if as_json else []))
