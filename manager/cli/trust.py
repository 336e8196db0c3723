"""The verbs trust and untrust: decide whether what a project brings along may run."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import click

from host.command_line import json_option
from manager.cli.output.source_warming import warm_sources
from manager.cli.workspace_command import root_of, run, run_and_wait

_path = click.argument("path", type=click.Path(path_type=Path), required=False)


@click.command()
@_path
@click.option("--diff", is_flag=True, help="Only show what changed since it was trusted.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--list", "list_all", is_flag=True, help="List the trusted folders.")
@json_option
def trust(path: Path | None, diff: bool, yes: bool, list_all: bool, as_json: bool) -> None:
    """Trust this project: allow its script tools, servers and settings to take effect.

    Shows them first and asks. Trust covers exactly what was shown; changed content needs trust again. If a
    manager runs, the project's servers are started once, so that clients get their tools at once.
    """
    flags = [*(["--diff"] if diff else []), *(["--yes"] if yes else []), *(["--json"] if as_json else [])]
    if list_all:
        run("trust", "--list", *flags)
    root = root_of(path)
    if diff or (as_json and not yes):
        run("trust", root, *flags)
    status = run_and_wait("trust", root, *flags)
    if status == 0:
        with suppress(KeyboardInterrupt):
            warm_sources(Path(root), _silent if as_json else click.echo)
    sys.exit(status)


def _silent(line: str) -> None:
    """Say nothing: the output is one JSON document."""


@click.command()
@_path
@json_option
def untrust(path: Path | None, as_json: bool) -> None:
    """Revoke trust: nothing that this project brings along runs any more."""
    run("untrust", root_of(path), *(["--json"] if as_json else []))
