"""The verb doctor: runs every check, prints what it found and what to do. The checks are `checks.py`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from host.command_line import print_json
from host.printable import printable
from manager import exit_codes
from manager.cli import content
from manager.cli.doctor.checks import all_findings
from manager.cli.doctor.findings import Finding, Level
from manager.cli.output.manager_access import user_paths

_COLOURS = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "red"}


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
@click.pass_context
def doctor(ctx: click.Context, as_json: bool) -> None:
    """Look for what is wrong, and say what to do.

    Changes nothing. Exit code 1 if anything failed.
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
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def env(path: Path | None, as_json: bool) -> None:
    """Show what a workspace's programs find, and what only this shell has.

    That is PATH, some well-known programs, and the names of variables.
    """
    content.run("env", content.root_of(path), *(["--json"] if as_json else []))


def _print(finding: Finding) -> None:
    level = click.style(f"{finding.level.value.upper():4}", fg=_COLOURS[finding.level])
    colour = False if os.environ.get("NO_COLOR") else None  # None: as the terminal is
    click.echo(f"{level}  {finding.check}: {printable(finding.text)}", color=colour)
    for line in finding.details:
        click.echo(f"        {printable(line)}")
    if finding.hint:
        click.echo(f"      -> {printable(finding.hint)}")
