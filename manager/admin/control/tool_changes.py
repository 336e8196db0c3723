"""Changes what tools may do and where they are listed, on the host of their project.

On this machine the workspace server's own command does it; for a project on another host the manager there,
which writes the files of its user.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from lm_tools_bridge.protocol.errors import Refusal
from lm_tools_bridge.text.printable import printable
from manager.admin.control.control_messages import read_object, refusal, success
from manager.admin.control.project_command import CHANGES, ServerCommand
from manager.admin.control.services import Services
from manager.disk.folder import CwdProblem
from manager.http import lazy_aiohttp as web
from manager.routing.workspace.remote_address import split_root
from manager.status_reading.responses import json_object
from manager.status_reading.tool_rows import VISIBILITIES

TARGET: Final = "/tools/change"
MAX_PATH: Final = 1000
"""Longest path of another host that is shown, in characters."""


class NotChanged(NamedTuple):
    """Why nothing was changed, or why that is unknown."""

    why: str
    is_unknown: bool = False

    def of(self, what: str) -> str:
        """What became of a tool or a source, in a sentence without its stop."""
        return f"{what} {'may have been' if self.is_unknown else 'was not'} changed: {self.why}"


Changed = Mapping[str, Any] | NotChanged
"""What was changed, as the command prints it, with `host` if that is another one."""


class ToolChanges:
    """Changes settings of tools."""

    def __init__(self, services: Services, command: ServerCommand) -> None:
        self._services = services
        self._command = command

    async def change_tool(self, root: str, tool: str, change: str) -> Changed:
        """Switch a tool in a project, or allow, ask or deny it in all: one of `CHANGES`."""
        there = await self._services.ask_host(root, TARGET, {"tool": tool, "change": change})
        if there is None:
            return _here(await self._command.change_tool(root, tool, change))
        return changed_there(there, root, {"tool": tool})

    async def change_visibility(self, root: str, name: str, visibility: str, *, of_source: bool) -> Changed:
        """Choose the visibility of a tool or of a source's tools in a project: one of `VISIBILITIES`."""
        members = {"name": name, "visibility": visibility, "ofSource": of_source}
        there = await self._services.ask_host(root, TARGET, members)
        if there is None:
            return _here(await self._command.change_visibility(root, name, visibility, of_source=of_source))
        return changed_there(there, root, {"source" if of_source else "tool": name})

    def routes(self) -> list[web.RouteDef]:
        """The route of the control socket, for verbs about projects elsewhere and for managers elsewhere."""
        return [web.post(TARGET, self._serve)]

    async def _serve(self, request: web.Request) -> web.Response:
        message = await read_object(request)
        if isinstance(message, web.Response):
            return message
        root = await self._root(message.get("cwd"))
        if root is None:
            return refusal(404, "workspace_not_matched", message="the folder is in no workspace")
        done = await self._asked(root, message)
        if done is None:
            return refusal(400, "invalid_change")
        if isinstance(done, NotChanged):
            return refusal(504 if done.is_unknown else 409, _REASONS[done.is_unknown], message=done.why)
        return success(**done)

    async def _root(self, cwd: object) -> str | None:
        found = await self._services.resolve(cwd) if isinstance(cwd, str) else None
        return None if found is None or isinstance(found, CwdProblem) else found.workspace_folders[0]

    async def _asked(self, root: str, message: Mapping[str, Any]) -> Changed | None:
        """What became of a change; None if the request names none."""
        tool, change, name = (message.get(key) for key in ("tool", "change", "name"))
        if isinstance(tool, str) and change in CHANGES:
            return await self.change_tool(root, tool, change)
        visibility, of_source = message.get("visibility"), message.get("ofSource") is True
        if isinstance(name, str) and visibility in VISIBILITIES:
            return await self.change_visibility(root, name, visibility, of_source=of_source)
        return None


def _here(found: Mapping[str, Any] | str) -> Changed:
    return NotChanged(found) if isinstance(found, str) else found


def changed_there(answer: bytes | Refusal, root: str, about: Mapping[str, object]) -> Changed:
    """What the manager on another host says that it changed. Nothing in it is a command to run.

    Args:
        root: the address of the project.
        about: the tool or source that is meant.
    """
    if isinstance(answer, Refusal):
        return NotChanged(answer.message, answer.delivered == "unknown")
    said, place = json_object(answer), split_root(root)
    if said is None or said.get("ok") is not True or place is None:
        return NotChanged("its host gave no answer that can be read", True)
    found: dict[str, Any] = {**about, "root": root, "host": place.host}
    for key, allowed in _MEMBERS.items():
        if key in said and said[key] in allowed:
            found[key] = said[key]
    found["file"] = printable(said.get("file"), width=MAX_PATH)
    if said.get("waitsFor"):
        found["waitsFor"] = f"lmtb trust {shlex.quote(root)}"
    return found


_REASONS: Final = {False: "not_changed", True: "change_unknown"}
_MEMBERS: Final[Mapping[str, tuple[object, ...]]] = {
    "enabled": (True, False),
    "approval": ("allow", "ask", "deny"),
    "visibility": (*VISIBILITIES, None),
}
