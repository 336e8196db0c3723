"""The verb doctor: runs every check of `checks.py` and prints what it found and what to do."""

from __future__ import annotations

import os
from pathlib import Path

import click

from host.command_line import json_option, print_json
from host.printable import printable
from manager import exit_codes
from manager.cli import workspace_command
from manager.cli.doctor.checks import all_findings
from manager.cli.doctor.findings import Finding, Level
from manager.cli.output.manager_access import user_paths

_COLOURS = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "red"}


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def doctor(ctx: click.Context, as_json: bool) -> None:
    """Check the installation, and say what to do.

    Changes nothing. Exits with 1 if a check failed.
    """
    if ctx.invoked_subcommand is not None:
        return
    findings = []
    for finding in all_findings(user_paths()):
        findings.append(finding)
        if not as_json:
            _print(finding)
    failed = [one for one in findings if one.level is Level.FAIL]
    if as_json:
        print_json({"ok": not failed, "checks": [one.as_json() for one in findings]})
    else:
        warned = sum(1 for one in findings if one.level is Level.WARN)
        click.echo(f"\n{len(findings)} checks: {len(failed)} failed, {warned} with a warning")
    if failed:
        raise SystemExit(exit_codes.FAILED)


@doctor.command()
@click.argument("path", type=click.Path(path_type=Path), required=False)
@json_option
def env(path: Path | None, as_json: bool) -> None:
    """Compare the environment of a workspace's programs with this shell's.

    Shows PATH, some well-known programs, and the names of variables.
    """
    workspace_command.run("env", workspace_command.root_of(path), *(["--json"] if as_json else []))


def _print(finding: Finding) -> None:
    level = click.style(f"{finding.level.value.upper():4}", fg=_COLOURS[finding.level])
    colour = False if os.environ.get("NO_COLOR") else None  # None: as the terminal is
    click.echo(f"{level}  {finding.check}: {printable(finding.text)}", color=colour)
    for line in finding.details:
        click.echo(f"        {printable(line)}")
    if finding.hint:
        click.echo(f"      -> {printable(finding.hint)}")
