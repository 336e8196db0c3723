"""What doctor looks at in workspaces: their servers, and the sources of tools behind these."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from manager.cli.doctor.findings import Finding, Level, Situation
from manager.cli.output.overview import merged_workspaces
from manager.cli.output.responses import objects
from manager.cli.output.troubles import troubles
from manager.paths import Paths
from manager.supervision.process import tail

_LAST_LINES: Final = 5
_SICK: Final = frozenset({"unhealthy", "crash_looping"})
_WORKSPACE_ID: Final = re.compile(r"[a-z0-9-]{1,64}")


def workspaces(situation: Situation) -> Iterator[Finding]:
    """Servers that do not come up or do not answer, with their last words."""
    if situation.status is None:
        return
    rows = merged_workspaces(situation.status)
    sick = [row for row in rows if row.get("state") in _SICK]
    if not sick:
        running = len(objects(situation.status, "instanceDetails"))
        yield Finding(Level.OK, "workspaces", f"{len(rows)} known, {running} running, none in trouble")
    for row in sick:
        why = row.get("lastError") or row.get("cause") or "no reason known"
        hint = "a new request restarts it; if it fails again, look at its log"
        text = f"{row.get('workspace')} ({row.get('root')}) is {row['state']}: {why}"
        yield Finding(Level.FAIL, "workspaces", text, hint, _last_words(row, situation.paths))


def sources(situation: Situation) -> Iterator[Finding]:
    """Sources of tools that are down or wait for somebody, as running servers told last."""
    if situation.status is None:
        return
    servers = [one for one in objects(situation.status, "instanceDetails") if "sources" in one]
    found = [(server, trouble) for server in servers for trouble in troubles(server)]
    for server, trouble in found:
        level = Level.FAIL if trouble.is_fault else Level.WARN
        text = f"{server.get('workspace')}: {trouble.text}"
        yield Finding(level, "sources", text, trouble.next_step)
    if servers and not found:
        count = sum(len(objects(server, "sources")) for server in servers)
        yield Finding(Level.OK, "sources", f"{count} in running workspaces, none in trouble")


def _last_words(row: dict[str, Any], paths: Paths) -> tuple[str, ...]:
    lines = row.get("stderrTail")
    name = row.get("workspace")
    if not isinstance(lines, list):
        known = isinstance(name, str) and _WORKSPACE_ID.fullmatch(name)
        lines = tail(paths.logs_dir / f"{name}.log") if known else []
    return tuple(str(line) for line in lines[-_LAST_LINES:])
