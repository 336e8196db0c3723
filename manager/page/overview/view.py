"""Selects from a status and the calls of servers what the page shows. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from manager.page.overview.health import Health
from manager.page.overview.needs import Need, needs
from manager.status_reading.responses import objects
from manager.status_reading.workspaces import merged_workspaces

MOST_ROWS: Final = 50
"""Most rows of a table; the verbs show all."""
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
    """All that the page shows."""

    needs: Sequence[Need]
    manager: ManagerFacts
    projects: Sequence[Mapping[str, Any]]
    calls: Sequence[Mapping[str, Any]]
    clients: Sequence[Mapping[str, Any]]
    browsers: Sequence[Mapping[str, Any]]
    health: Health


def page_view(
    status: Mapping[str, Any], calls: Mapping[str, Mapping[str, Any]], health: Health | None = None
) -> PageView:
    """Make the view.

    Args:
        status: what `/mcp/status` shows.
        calls: for each workspace that has some, what its server remembers of its calls.
        health: that of the manager; None if unknown.
    """
    rows = [
        {**row, "sources": [one for one in objects(row, "sources") if one.get("kind") in {"stdio", "remote"}]}
        for row in merged_workspaces(status)
    ]
    rows.sort(key=lambda row: (row.get("pid") is None, str(row.get("workspace"))))
    return PageView(
        needs(status),
        _facts(status),
        rows[:MOST_ROWS],
        _calls(calls, {str(row.get("workspace")): str(row.get("root")) for row in rows})[:MOST_ROWS],
        objects(status, "clientDetails")[:MOST_ROWS],
        objects(status, "browsers"),
        health or Health(),
    )


def _facts(status: Mapping[str, Any]) -> ManagerFacts:
    figures = status.get("figures")
    known = figures if isinstance(figures, Mapping) else {}
    return ManagerFacts(
        status.get("state"),
        status.get("version"),
        status.get("address"),
        _minutes(status.get("uptimeSec")),
        _rounded(status.get("rssBytes")),
        known.get("calls"),
        known.get("errors"),
        known.get("managerMs"),
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
        {**one, "workspace": workspace, "root": roots.get(workspace), "state": "running"}
        for workspace, answer in answers.items()
        for one in objects(answer, "running")
    ]
    ended = [
        {**one, "workspace": workspace, "state": one.get("outcome")}
        for workspace, answer in answers.items()
        for one in objects(answer, "ended")
    ]
    running.sort(key=lambda one: -(one.get("ms") or 0))
    ended.sort(key=lambda one: one.get("ageSec") or 0)
    return running + ended[:MOST_ENDED]
