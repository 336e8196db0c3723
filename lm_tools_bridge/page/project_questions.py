"""Asks a project's server, and the command that knows what waits for trust, for a project's own page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from lm_tools_bridge.page.project_selection import (
    Project,
    ProjectView,
    Waiting,
    find_project,
    needs_trust,
    project_view,
    waiting_for_trust,
)
from lm_tools_bridge.protocol.errors import Refusal
from manager.admin.control.project_command import ServerCommand
from manager.admin.control.services import Services
from manager.status_reading import json_object, merged_workspaces

_SHOWN_THERE: Final = "It is on another host, and the command shows it from there."
_NOT_RUNNING: Final = "Its server does not run. It starts with the next request from the folder."


class Projects:
    """Makes the views of projects.

    Args:
        status: the status as `/mcp/status` shows it.
        command: tells what waits for trust.
    """

    def __init__(
        self, services: Services, status: Callable[[], dict[str, Any]], command: ServerCommand
    ) -> None:
        self._services = services
        self._status = status
        self._command = command

    async def view(self, workspace: str) -> ProjectView | None:
        """The project of a workspace's id, None if there is none. Starts no server: it is read by GET."""
        project = find_project(merged_workspaces(self._status()), workspace)
        if project is None:
            return None
        answer = await self._ask(project)
        return project_view(project, answer, await self._waiting(project, answer))

    async def _ask(self, project: Project) -> Mapping[str, Any] | str:
        if not project.is_running:
            return _NOT_RUNNING
        # on another host, only the manager there knows whether a server runs
        starts = not project.is_elsewhere
        answer = await self._services.ask_server(project.root, "inspect", None, starts=starts)
        if isinstance(answer, Refusal):
            return answer.message
        members = json_object(answer)
        return "Its server gave no answer that can be read." if members is None else members

    async def _waiting(self, project: Project, answer: Mapping[str, Any] | str) -> Waiting | None:
        if not isinstance(answer, str) and not needs_trust(answer):
            return None  # the command takes a while
        if project.is_elsewhere:
            return None if isinstance(answer, str) else waiting_for_trust(project.root, _SHOWN_THERE)
        return waiting_for_trust(project.root, await self._command.differences(project.root))
