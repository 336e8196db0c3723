"""Selects from a status and the calls of servers what the page shows. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lm_tools_bridge.page.connections import Connections, connections
from lm_tools_bridge.page.health import Health
from lm_tools_bridge.page.needs import Need, needs
from manager.savings import Savings
from manager.status_reading import merged_workspaces, names_of_projects, objects

MOST_ROWS: Final = 50
"""Most rows of a table; the verbs show all."""
MOST_NEEDS: Final = 20
"""Most things that need a person; the verb shows all."""
MOST_ENDED: Final = 10
"""Most calls that have ended."""


@dataclass(frozen=True, slots=True)
class ManagerFacts:
    """The manager itself. A member that is None is unknown."""

    state: str | None
    version: str | None
    address: str | None
    up_s: int | None
    memory: int | None
    calls: int | None
    errors: int | None
    own_ms: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class PageView:
    """All that the page shows. Tables are cut at `MOST_ROWS`, and `more` counts what is left out of each.

    `names` are those of projects, by the ids of their workspaces.
    """

    needs: Sequence[Need]
    manager: ManagerFacts
    projects: Sequence[Mapping[str, Any]]
    calls: Sequence[Mapping[str, Any]]
    clients: Sequence[Mapping[str, Any]]
    more: Mapping[str, int]
    browsers: Sequence[Mapping[str, Any]]
    health: Health
    connections: Connections
    savings: Savings | None
    names: Mapping[str, str]


def page_view(
    status: Mapping[str, Any],
    calls: Mapping[str, Mapping[str, Any]],
    health: Health | None = None,
    percents: Mapping[str, int] | None = None,
    savings: Savings | None = None,
) -> PageView:
    """Make the view.

    Args:
        status: what `/mcp/status` shows.
        calls: for each workspace that has some, what its server remembers of its calls.
        health: that of the manager; None if unknown.
        percents: what each server uses of a processor, by workspace.
        savings: what sharing servers saves now.
    """
    names = names_of_projects(status)
    all_needs, clients = needs(status), objects(status, "clientDetails")
    rows = _projects(status, clients, percents or {})
    call_rows = _calls(calls, {str(row.get("workspace")): str(row.get("root")) for row in rows})
    return PageView(
        all_needs[:MOST_NEEDS],
        _facts(status),
        rows[:MOST_ROWS],
        call_rows[:MOST_ROWS],
        clients[:MOST_ROWS],
        {
            "needs": max(0, len(all_needs) - MOST_NEEDS),
            "projects": max(0, len(rows) - MOST_ROWS),
            "calls": max(0, len(call_rows) - MOST_ROWS),
            "clients": max(0, len(clients) - MOST_ROWS),
        },
        objects(status, "browsers"),
        health or Health(),
        connections(rows, clients, calls, names),
        savings,
        names,
    )


def _projects(
    status: Mapping[str, Any], clients: Sequence[Mapping[str, Any]], percents: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Projects with a server first, each with its own servers, its clients and its share of a processor."""
    connected = Counter(client.get("workspace") for client in clients if client.get("state") == "connected")
    rows = [
        {
            **row,
            "servers": [
                source for source in objects(row, "sources") if source.get("kind") in {"stdio", "remote"}
            ],
            "clients": connected[row.get("workspace")],
            "cpuPercent": percents.get(str(row.get("workspace"))),
        }
        for row in merged_workspaces(status)
    ]
    return sorted(rows, key=lambda row: (row.get("pid") is None, str(row.get("workspace"))))


def _facts(status: Mapping[str, Any]) -> ManagerFacts:
    figures = status.get("figures")
    measured = figures if isinstance(figures, Mapping) else {}
    return ManagerFacts(
        status.get("state"),
        status.get("version"),
        status.get("address"),
        _minutes(status.get("uptimeSec")),
        _rounded(status.get("rssBytes")),
        measured.get("calls"),
        measured.get("errors"),
        measured.get("managerMs"),
    )


def _minutes(seconds: object) -> int | None:
    """Whole minutes after the first one, so that a page at rest does not change each second."""
    if not isinstance(seconds, int):
        return None
    return seconds if seconds < 60 else seconds // 60 * 60


def _rounded(count: object) -> int | None:
    return count // 1_000_000 * 1_000_000 if isinstance(count, int) else None


def _calls(answers: Mapping[str, Mapping[str, Any]], roots: Mapping[str, str]) -> list[dict[str, Any]]:
    """Calls that run, the longest first, then those that ended, the last one first."""
    running = [
        {**call, "workspace": workspace, "root": roots.get(workspace), "state": "running"}
        for workspace, answer in answers.items()
        for call in objects(answer, "running")
    ]
    ended = [
        {**call, "workspace": workspace, "state": call.get("outcome")}
        for workspace, answer in answers.items()
        for call in objects(answer, "ended")
    ]
    running.sort(key=lambda call: -(call.get("ms") or 0))
    ended.sort(key=lambda call: call.get("ageSec") or 0)
    return running + ended[:MOST_ENDED]
