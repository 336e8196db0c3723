"""The verbs status, workspaces, sessions and log: print what the running manager reports.

A member that an older or newer manager does not send is shown as a dash.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from host.command_line import json_option, print_json
from host.printable import printable
from manager.cli.output.manager_access import ask
from manager.cli.output.overview import merged_workspaces, overview, workspace_table
from manager.cli.output.responses import objects
from manager.cli.output.text import duration, table


@click.command()
@json_option
def status(as_json: bool) -> None:
    """Show the state of the manager and its workspaces."""
    answer = ask("/mcp/status")
    if as_json:
        print_json(answer)
        return
    click.echo(overview(answer, ask))


@click.command()
@json_option
def workspaces(as_json: bool) -> None:
    """List workspaces and their servers."""
    answer = ask("/mcp/status")
    rows = merged_workspaces(answer)
    if as_json:
        print_json({"ok": True, "workspaces": rows})
    elif rows:
        click.echo(workspace_table(rows))
    else:
        click.echo("no workspaces yet; one appears with the first request from its folder")


@click.command()
@json_option
def sessions(as_json: bool) -> None:
    """List all sessions that the manager remembers, also of clients that left without ending them.

    For who is connected, of both eras, see: lmtb clients.
    """
    found = objects(ask("/mcp/status"), "sessionDetails")
    if as_json:
        print_json({"ok": True, "sessions": found})
    elif found:
        heads = ("SESSION", "CLIENT", "REVISION", "WORKSPACE", "DECIDED BY", "LAST SEEN", "IN FLIGHT")
        click.echo(table(heads, map(_session_row, found), flexible=("CLIENT", "WORKSPACE")))
    else:
        click.echo("no sessions; stateless clients have none, see: lmtb clients")


@click.command()
@click.option(
    "-n", "--lines", type=click.IntRange(1, 200), default=200, help="Longest list to print, in lines."
)
@json_option
def log(lines: int, as_json: bool) -> None:
    """Show the manager's last log lines, oldest first."""
    answer = ask("/mcp/log")
    found = answer.get("lines")
    last = found[-lines:] if isinstance(found, list) else []
    if as_json:
        print_json({"ok": True, "lines": last})
        return
    for line in last:
        click.echo(printable(line))


def _session_row(session: Mapping[str, Any]) -> tuple[object, ...]:
    client = session.get("client")
    words = [client.get("name"), client.get("version")] if isinstance(client, dict) else []
    return (
        session.get("sessionId"),
        " ".join(str(word) for word in words if word) or None,
        session.get("protocolVersion"),
        session.get("workspace"),
        session.get("lastSource"),
        f"{ago} ago" if (ago := duration(session.get("lastSeenAgeSec"))) else None,
        session.get("inFlight"),
    )
