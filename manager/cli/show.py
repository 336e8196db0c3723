"""Verbs that show what the running manager knows: status, workspaces, sessions, log.

A member that an older or newer manager does not send is shown as a dash; nothing here fails over one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from manager.cli.output import duration, latency, print_json, printable, size, table
from manager.cli.reach import ask, objects
from manager.cli.troubles import troubles

_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
_ALARMING = frozenset({"unhealthy", "crash_looping"})


@click.command()
@_json_option
def status(as_json: bool) -> None:
    """Show how the manager and its workspaces are."""
    answer = ask("/mcp/status")
    if as_json:
        print_json(answer)
        return
    address = answer.get("address") or ask("/status").get("address")
    click.echo(_headline(answer))
    click.echo(f"address     {printable(address or 'unknown')}")
    click.echo(f"sessions    {answer.get('sessions', len(objects(answer, 'sessionDetails')))}")
    rows = merged_workspaces(answer)
    running = sum(1 for row in rows if row.get("pid"))
    click.echo(f"workspaces  {len(rows)} known, {running} running")
    own = [one for one in _percentiles(answer.get("figures"), "managerMs") if one is not None]
    if own:
        click.echo(f"own time    {' and '.join(own)} a call (p50 and p99 of the last 5 min)")
    found = problems(answer)
    for problem in found:
        click.echo(f"problem     {problem}")
    if found:
        click.echo("next step   lmtb doctor")
    if rows:
        click.echo()
        click.echo(workspace_table(rows))


@click.command()
@_json_option
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
@_json_option
def sessions(as_json: bool) -> None:
    """List the sessions of connected clients."""
    found = objects(ask("/mcp/status"), "sessionDetails")
    if as_json:
        print_json({"ok": True, "sessions": found})
    elif found:
        heads = ("SESSION", "CLIENT", "REVISION", "WORKSPACE", "DECIDED BY", "LAST SEEN", "IN FLIGHT")
        click.echo(table(heads, map(_session_row, found), flexible=("CLIENT", "WORKSPACE")))
    else:
        click.echo("no sessions; stateless clients have none, see: lmtb status")


@click.command()
@click.option("-n", "--lines", type=click.IntRange(1, 200), default=200, help="At most so many lines.")
@_json_option
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


def merged_workspaces(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every known workspace with what is known of its servers; servers without a known workspace last."""
    servers: dict[object, list[dict[str, Any]]] = {}
    for one in objects(status, "instanceDetails"):
        servers.setdefault(one.get("workspace"), []).append(one)
    rows = [
        {**known, **server, "workspace": known.get("id")}
        for known in objects(status, "workspaceDetails")
        for server in servers.pop(known.get("id"), [{}])
    ]
    return rows + [one for rest in servers.values() for one in rest]


def workspace_table(rows: list[dict[str, Any]]) -> str:
    """Workspaces as a table for people."""
    heads = (
        "WORKSPACE",
        "STATE",
        "PID",
        "PORT",
        "CALLS",
        "ERRORS",
        "P50",
        "P99",
        "RESTARTS",
        "MEMORY",
        "CPU",
        "FOLDER",
    )
    return table(heads, map(_workspace_row, rows), flexible=("WORKSPACE", "FOLDER"))


def problems(status: Mapping[str, Any]) -> list[str]:
    """What is wrong, one printable line each."""
    degraded = status.get("degraded")
    found = [_reason(one) for one in degraded] if isinstance(degraded, list) else []
    for row in merged_workspaces(status):
        if row.get("state") in _ALARMING:
            why = row.get("lastError") or "see: lmtb doctor"
            found.append(f"{printable(row.get('workspace'))} is {row['state']}: {printable(why)}")
        found += [printable(f"{row.get('workspace')}: {trouble.text}") for trouble in troubles(row)]
    return found


def _headline(status: Mapping[str, Any]) -> str:
    about = [f"pid {status.get('pid', 'unknown')}"]
    if up := duration(status.get("uptimeSec")):
        about.append(f"up {up}")
    version, state = status.get("version", "?"), status.get("state", "running")
    return printable(f"LM Tools Bridge {version} is {state} ({', '.join(about)})")


def _reason(one: object) -> str:
    if isinstance(one, dict):
        one = one.get("message") or one.get("reason") or one
    return printable(one)


def _workspace_row(row: Mapping[str, Any]) -> tuple[object, ...]:
    numbers = [row.get(name) for name in ("pid", "port", "calls", "errors", "restarts")]
    *figures, restarts = [number if isinstance(number, int) else None for number in numbers]
    cpu = row.get("cpuSec")
    used = f"{cpu:.1f} s" if isinstance(cpu, int | float) else None
    return (
        row.get("workspace"),
        row.get("state"),
        *figures,
        *_percentiles(row, "serverMs"),
        restarts,
        size(row.get("rssBytes")),
        used,
        row.get("root"),
    )


def _percentiles(figures: object, member: str) -> tuple[str | None, str | None]:
    found = figures.get(member) if isinstance(figures, Mapping) else None
    told = found if isinstance(found, Mapping) else {}
    return latency(told.get("p50")), latency(told.get("p99"))


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
