"""The verb doctor: runs every check of `checks.py` and prints what it found and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from lm_tools_bridge.doctor.checks import all_findings
from lm_tools_bridge.terminal.command_line import Failure, SubVerbs, examples, json_option, print_json, say
from lm_tools_bridge.terminal.waiting import waiting
from manager import exit_codes
from manager.cli import workspace_command
from manager.cli.output.findings import Level, shown
from manager.cli.output.manager_access import user_paths
from manager.cli.output.workspace_options import TWO_FOLDERS, cwd_option

_ORDER: Final = (Level.FAIL, Level.WARN, Level.OK)
"""Worst first: nobody has to look for a failure between lines that are well."""


@click.group(cls=SubVerbs, invoke_without_command=True, epilog=examples("lmtb doctor", "lmtb doctor env"))
@cwd_option
@json_option
@click.pass_context
def doctor(ctx: click.Context, as_json: bool) -> None:
    """Check the installation, and say what to do.

    In a project, also says what each configured client sees there: it makes the client's first requests to
    the running manager. Changes nothing. Exits with 1 if a check failed.
    """
    if ctx.invoked_subcommand is not None:
        return
    with waiting("checking") as tell:
        findings = sorted(
            all_findings(user_paths(), tell, ctx.obj), key=lambda finding: _ORDER.index(finding.level)
        )
    for finding in findings:
        say(*shown(finding))
    failed = [item for item in findings if item.level is Level.FAIL]
    if as_json:
        checks = [item.as_json() for item in findings]
        if failed:
            text = f"{len(failed)} of {len(findings)} checks failed"
            step = "follow the hint of each check whose level is fail"
            raise Failure(text, step, reason="checks_failed", members={"checks": checks})
        print_json({"checks": checks})
    else:
        warned = sum(1 for item in findings if item.level is Level.WARN)
        say("", f"{len(findings)} checks: {len(failed)} failed, {warned} with a warning")
    if failed:
        raise SystemExit(exit_codes.FAILED)


@doctor.command()
@click.argument("path", type=click.Path(path_type=Path), required=False)
@cwd_option
@json_option
@click.pass_context
def env(ctx: click.Context, /, path: Path | None, **_: bool) -> None:
    """Compare the environment of a workspace's programs with this shell's.

    Shows PATH, some well-known programs, and the names of variables.
    """
    if None not in (path, ctx.obj):
        raise click.UsageError(TWO_FOLDERS)
    workspace_command.run("env", workspace_command.root_of(path or ctx.obj))
