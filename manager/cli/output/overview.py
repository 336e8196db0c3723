"""Formats `lmtb status`: the manager in some lines, its workspaces as a table.

A member that an older or newer manager does not send is shown as a dash.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from host.printable import printable
from manager.cli.output.responses import objects
from manager.cli.output.source_problems import source_problems
from manager.cli.output.text import duration, latency, size, table

_ALARMING: Final = frozenset({"unhealthy", "crash_looping"})


def overview(answer: Mapping[str, Any], ask: Callable[[str], Mapping[str, Any]]) -> str:
    """The complete text.

    Args:
        answer: the status.
        ask: gets the JSON object at a path of the control socket.
    """
    address = answer.get("address") or ask("/status").get("address")
    rows = merged_workspaces(answer)
    running = sum(1 for row in rows if row.get("pid"))
    lines = [
        _headline(answer),
        f"address     {printable(address or 'unknown')}",
        f"clients     {_connected(answer)}",
        f"workspaces  {len(rows)} known, {running} running",
    ]
    own = [one for one in _percentiles(answer.get("figures"), "managerMs") if one is not None]
    if own:
        lines.append(f"own time    {' and '.join(own)} a call (p50 and p99 of the last 5 min)")
    found = problems(answer)
    lines += [f"problem     {problem}" for problem in found]
    if found:
        lines.append("next step   lmtb doctor")
    if rows:
        lines += ["", workspace_table(rows)]
    return "\n".join(lines)


def merged_workspaces(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each known workspace merged with its server; servers without a known workspace last."""
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
    """The problems, one printable line each."""
    degraded = status.get("degraded")
    found = [_reason(one) for one in degraded] if isinstance(degraded, list) else []
    for row in merged_workspaces(status):
        if row.get("state") in _ALARMING:
            why = row.get("lastError") or "see: lmtb doctor"
            found.append(f"{printable(row.get('workspace'))} is {row['state']}: {printable(why)}")
        found += [printable(f"{row.get('workspace')}: {problem.text}") for problem in source_problems(row)]
    return found


def _headline(status: Mapping[str, Any]) -> str:
    about = [f"pid {status.get('pid', 'unknown')}"]
    if up := duration(status.get("uptimeSec")):
        about.append(f"up {up}")
    version, state = status.get("version", "?"), status.get("state", "running")
    return printable(f"LM Tools Bridge {version} is {state} ({', '.join(about)})")


def _connected(status: Mapping[str, Any]) -> str:
    count = status.get("connectedClients")
    return f"{count} connected" if isinstance(count, int) else "-"


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
    values = found if isinstance(found, Mapping) else {}
    return latency(values.get("p50")), latency(values.get("p99"))
