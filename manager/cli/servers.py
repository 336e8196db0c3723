"""The verb servers: lists, restarts and signs in to the sources of a workspace's tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from host.command_line import Failure, json_option, print_json
from host.printable import printable
from manager.cli import workspace_command
from manager.cli.output.manager_access import ask_about
from manager.cli.output.responses import objects
from manager.cli.output.source_problems import DOWN
from manager.cli.output.text import table
from manager.cli.output.workspace_options import cwd_option, print_issues

_FIRST: Final = DOWN | {"pending_trust"}
_STDERR_LINES: Final = 5


@click.group(invoke_without_command=True)
@cwd_option
@json_option
@click.pass_context
def servers(ctx: click.Context, as_json: bool) -> None:
    """List the sources of a workspace's tools, those that need attention first.

    TOKENS estimates how much of a model's context the listed tools of a source take.
    """
    if ctx.invoked_subcommand is None:
        _print(ask_about("/inspect", ctx.obj), None, as_json=as_json)


@servers.command()
@click.argument("source", required=False)
@cwd_option
@json_option
@click.pass_obj
def restart(cwd: Path | None, source: str | None, as_json: bool) -> None:
    """Restart a source, or retry one that is down, and list its tools again.

    SOURCE is an id from `lmtb servers`, or the part after its colon. Without it, all sources are retried.
    """
    identity = None if source is None else _identity(source, objects(ask_about("/inspect", cwd), "sources"))
    ask_about("/refresh", cwd, source=identity)
    _print(ask_about("/inspect", cwd), identity, as_json=as_json)


@servers.command()
@click.argument("namespace")
@cwd_option
@click.pass_obj
def login(cwd: Path | None, namespace: str) -> None:
    """Sign in to a remote server that uses OAuth, in your browser."""
    workspace_command.run("login", workspace_command.root_of(cwd), namespace)


def _print(answer: Mapping[str, Any], only: str | None, *, as_json: bool) -> None:
    found = [one for one in objects(answer, "sources") if only in (None, one.get("id"))]
    if as_json:
        print_json({"ok": True, "sources": found, "issues": objects(answer, "issues")})
        return
    rows = objects(answer, "tools")
    found.sort(key=lambda source: source.get("state") not in _FIRST)
    heads = ("SOURCE", "STATE", "TOOLS", "CALLABLE", "TOKENS", "PID", "RESTARTS", "ERROR")
    click.echo(table(heads, [_cells(source, rows) for source in found], flexible=("ERROR",), optional="PID"))
    for source in found:
        lines = source.get("stderr")
        if source.get("state") in DOWN and isinstance(lines, list) and lines:
            click.echo(f"\n{printable(source.get('id'))} last wrote:", err=True)
            for line in lines[-_STDERR_LINES:]:
                click.echo(f"  {printable(line)}", err=True)
    if only is None:
        print_issues(answer)


def _cells(source: Mapping[str, Any], tools: Sequence[Mapping[str, Any]]) -> tuple[object, ...]:
    state = f"{source.get('state')}{' (stale)' if source.get('stale') else ''}"
    listed = [tool for tool in tools if tool.get("source") == source.get("id") and tool.get("listed")]
    cost = sum(tool.get("tokens") or 0 for tool in listed)
    numbers = [source.get(name) for name in ("toolCount", "enabledToolCount", "pid", "restarts")]
    known, callable_, pid, restarts = (number if isinstance(number, int) else None for number in numbers)
    return (source.get("id"), state, known, callable_, cost, pid, restarts, source.get("error"))


def _identity(name: str, sources: Sequence[Mapping[str, Any]]) -> str:
    """The id of a source that is named by its id or by the part after the colon."""
    ids = [str(source.get("id")) for source in sources]
    fitting = [one for one in ids if one == name] or [one for one in ids if one.partition(":")[2] == name]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise Failure(f"{name} matches more than one source", f"name one of {', '.join(fitting)}")
    text = f"this workspace has no source named {name}"
    raise Failure(text, f"it has {', '.join(ids)}", reason="unknown_source")
