"""The verbs status, workspaces and sessions: print what the running manager reports.

A member that an older or newer manager does not send is shown as a dash.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

from lm_tools_bridge.terminal.command_line import examples, json_option, print_json, say
from lm_tools_bridge.terminal.views import Column, Kind, Table
from manager.cli.output.manager_access import ask
from manager.cli.output.overview import overview, project_trust, workspace_table
from manager.savings import count_savings
from manager.status_reading import merged_workspaces, objects

_SESSION_COLUMNS: Final = (
    Column("SESSION", Kind.NAME),
    Column("CLIENT"),
    Column("REVISION", Kind.NAME, rank=3),
    Column("WORKSPACE", Kind.NAME),
    Column("DECIDED BY", Kind.NAME, rank=1),
    Column("LAST SEEN", Kind.AGO),
    Column("IN FLIGHT", Kind.NUMBER, rank=2),
)


@click.command(epilog=examples("lmtb status", "lmtb status --json"))
@json_option
def status(as_json: bool) -> None:
    """Show the manager, its workspaces, and what waits for trust here."""
    answer = ask("/mcp/status")
    project, savings = project_trust(), count_savings(answer)
    if as_json:
        waiting = None if project is None else {"root": project.root, "pendingTrust": list(project.names)}
        print_json({**answer, "project": waiting, "savings": savings and savings.as_json()})
        return
    say(*overview(answer, ask, project, savings=savings))


@click.command(epilog=examples("lmtb workspaces"))
@json_option
def workspaces(as_json: bool) -> None:
    """List workspaces and their servers: the table of `lmtb status` alone."""
    answer = ask("/mcp/status")
    rows = merged_workspaces(answer)
    if as_json:
        print_json({"workspaces": rows})
    elif rows:
        say(workspace_table(rows))
    else:
        say("no workspaces yet; one appears with the first request from its folder")


@click.command(epilog=examples("lmtb sessions"))
@json_option
def sessions(as_json: bool) -> None:
    """List all sessions that the manager remembers, also of clients that left without ending them.

    For who is connected, of both eras, see: lmtb clients.
    """
    rows = objects(ask("/mcp/status"), "sessionDetails")
    if as_json:
        print_json({"sessions": rows})
    elif rows:
        say(Table(_SESSION_COLUMNS, [_session_row(row) for row in rows]))
    else:
        say("no sessions; stateless clients have none, see: lmtb clients")


def _session_row(session: Mapping[str, Any]) -> tuple[object, ...]:
    client = session.get("client")
    words = [client.get("name"), client.get("version")] if isinstance(client, dict) else []
    return (
        session.get("sessionId"),
        " ".join(str(word) for word in words if word) or None,
        session.get("protocolVersion"),
        session.get("workspace"),
        session.get("lastSource"),
        session.get("lastSeenAgeSec"),
        session.get("inFlight"),
    )
