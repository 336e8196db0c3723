"""The checks of doctor for workspaces: their servers, the sources of their tools, requests of clients."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final

from lm_tools_bridge.protocol.internal.source_states import HEALTHY
from manager.cli.output.findings import Finding, Level, Situation
from manager.cli.workspace_command import answer_of
from manager.configuration.paths import Paths
from manager.documentation import page
from manager.routing.resolution import unexpanded
from manager.status_reading import group_worktrees, merged_workspaces, objects, problems_by_repository
from manager.supervision.process import tail

_LAST_LINES: Final = 5  # of a server's log: an exception's last lines say what it was; `lmtb log` shows all
_MAX_LOOKED_AT: Final = 5
"""Repositories, and folders that are none, whose languages are looked at; each takes about a second."""
_MAX_NAMED: Final = 5  # unhealthy servers in one line; `lmtb servers` lists all
_LOOK_S: Final = 10.0
"""Starts a Python process for the project, in about a second. With `_MAX_LOOKED_AT`, servers that hang cost a
minute at most."""
_FAILING: Final = frozenset({"unhealthy", "crash_looping"})
_WORKSPACE_ID: Final = re.compile(r"[a-z0-9-]{1,64}")


def workspaces(situation: Situation) -> Iterator[Finding]:
    """Servers that do not start or do not answer, with their last output."""
    if situation.status is None:
        return
    rows = merged_workspaces(situation.status)
    failing = [row for row in rows if row.get("state") in _FAILING]
    if not failing:
        running = len(objects(situation.status, "instanceDetails"))
        yield Finding(Level.OK, "workspaces", f"{len(rows)} known, {running} running, all healthy")
    for row in failing:
        why = row.get("lastError") or row.get("cause") or "no reason known"
        here = shlex.quote(str(row.get("root")))
        hint = f"the next request restarts it; if it fails again, read its log: lmtb log --cwd {here}"
        text = f"{row.get('workspace')} ({row.get('root')}) is {row['state']}: {why}"
        yield Finding(Level.FAIL, "workspaces", text, hint, _last_output(row, situation.paths))


def sources(situation: Situation) -> Iterator[Finding]:
    """Sources of tools that are down or wait for the user, as the running servers last reported."""
    if situation.status is None:
        return
    servers = [row for row in merged_workspaces(situation.status) if "sources" in row]
    names = {str(row.get("workspace")): str(row.get("workspace")) for row in servers}
    problems = list(problems_by_repository(servers, names))
    for who, problem in problems:
        level = Level.FAIL if problem.is_fault else Level.WARN
        yield Finding(level, "sources", f"{who}: {problem.text}", problem.next_step)
    if servers and not problems:
        yield Finding(
            Level.OK,
            "sources",
            _count_sources([row for instance in servers for row in objects(instance, "sources")]),
        )


def _count_sources(rows: list[Mapping[str, Any]]) -> str:
    """How many sources there are, and those that are neither healthy nor a problem of their own."""
    if not rows:
        return "the running workspaces have not reported theirs yet; lmtb servers asks them"
    others = [f"{row.get('id')} is {row.get('state')}" for row in rows if row.get("state") not in HEALTHY]
    counts = ", ".join(others[:_MAX_NAMED]) + (" and others" if len(others) > _MAX_NAMED else "")
    return f"{len(rows)} in running workspaces, {counts or 'all healthy'}"


def languages(situation: Situation) -> Iterator[Finding]:
    """Language servers of running workspaces: those that are there, are missing, or wait for trust."""
    if situation.status is None:
        return
    ids = {server.get("workspace") for server in objects(situation.status, "instanceDetails")}
    running = [row for row in merged_workspaces(situation.status) if row.get("workspace") in ids]
    for server, *_ in group_worktrees(running)[:_MAX_LOOKED_AT]:
        root = server.get("root")
        report = (
            answer_of("languages", root, "--no-versions", limit_s=_LOOK_S) if isinstance(root, str) else None
        )
        rows = objects(report or {}, "servers")
        if not rows:
            continue
        names = {
            state: [str(row.get("server")) for row in rows if row.get("state") == state]
            for state in ("installed", "missing", "pending_trust")
        }
        here, name = shlex.quote(str(root)), server.get("workspace")
        if waiting := names["pending_trust"]:
            text = f"{name}: {', '.join(waiting)} would run project code or belong to the project"
            yield Finding(Level.WARN, "languages", text, f"to allow them: lmtb trust {here}")
        text = f"{name}: {', '.join(names['installed']) or 'no language server'}"
        missing = f"; not installed: {', '.join(names['missing'])}" if names["missing"] else ""
        yield Finding(Level.OK, "languages", f"{text}{missing} (lmtb languages --cwd {here})")


def unexpanded_variables(situation: Situation) -> Iterator[Finding]:
    """The clients whose last request had a variable in place of its value."""
    for client in objects(situation.status or {}, "clients"):
        last = objects(client, "requests")[-1:]
        sent = last[0].get("sent") if last else None
        for text in unexpanded(sent) if isinstance(sent, dict) else ():
            name = client.get("name") or "(unnamed client)"
            yield Finding(
                Level.WARN,
                "clients",
                f"{name}: {text}, so that does not say where it works",
                "lmtb client list names the entries; the page of the client says what it expands: "
                f"{page('clients/setup.md')}",
            )


def contradictions(situation: Situation) -> Iterator[Finding]:
    """The clients of which a recent request could mean two projects, or was answered from another one."""
    for client in objects(situation.status or {}, "clients"):
        name = client.get("name") or "(unnamed client)"
        requests = objects(client, "requests")
        refused = next((each for each in reversed(requests) if each.get("contradiction")), None)
        overruled = next((each for each in reversed(requests) if each.get("overruled")), None)
        if refused is not None:
            hint = f"lmtb whoami shows what it sent; what decides: {page('build/http.md')}"
            yield Finding(Level.WARN, "clients", f"{name}: {refused['contradiction']}", hint)
        elif overruled is not None:
            text = f"{name} was answered from {overruled.get('workspace')}, not from {overruled['overruled']}"
            yield Finding(Level.OK, "clients", text)


def _last_output(row: dict[str, Any], paths: Paths) -> tuple[str, ...]:
    lines = row.get("stderrTail")
    name = row.get("workspace")
    if not isinstance(lines, list):
        is_id = isinstance(name, str) and _WORKSPACE_ID.fullmatch(name)
        lines = tail(paths.logs_dir / f"{name}.log") if is_id else []
    return tuple(str(line) for line in lines[-_LAST_LINES:])
