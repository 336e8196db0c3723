"""Runs the workspace server's own command: shows what waits for trust, and changes what tools may do.

It is the command that `lmtb trust` and `lmtb tools` run, in a process of its own, without a shell. For a
project on another host the manager there does it, which writes the files of its user.
"""

from __future__ import annotations

import asyncio
import json
import shlex
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from lm_tools_bridge.protocol.errors import Refusal
from lm_tools_bridge.text.printable import printable
from manager.admin.control.control_messages import read_object, refusal, success
from manager.admin.control.services import Services
from manager.configuration.paths import Paths
from manager.disk.folder import CwdProblem
from manager.http import lazy_aiohttp as web
from manager.routing.remote_address import split_root
from manager.server_command import server_command
from manager.status_reading import VISIBILITIES, json_object

LIMIT_S: Final = 20.0
"""Longest time of one command, including its wait for the one before it."""
# The diff of everything that waits for trust. More would not be read by a person and is cut off.
MAX_OUTPUT: Final = 4 * 1024 * 1024
_OF_PROJECT: Final = frozenset({"enable", "disable", "expose", "unexpose"})
CHANGES: Final = _OF_PROJECT | {"allow", "ask", "deny"}


class ServerCommand:
    """Runs the command, one at a time. A method returns the JSON object that it prints, or why there is none.

    Args:
        paths: the user's folders.
        search: the PATH of the manager's servers.
    """

    def __init__(self, paths: Paths, search: Callable[[], str | None]) -> None:
        self._paths = paths
        self._search = search
        self._turn = asyncio.Lock()

    async def differences(self, root: str) -> Mapping[str, Any] | str:
        """What changed in a project since it was trusted. Runs nothing of it."""
        return await self._answer("trust", "--diff", "--json", "--", root)

    async def change_tool(self, root: str, tool: str, change: str) -> Mapping[str, Any] | str:
        """Switch a tool in a project, or allow, ask or deny it in all: one of `CHANGES`."""
        place = ("--root", root) if change in _OF_PROJECT else ()
        return await self._answer("tools", change, *place, "--json", "--", tool)

    async def change_visibility(
        self, root: str, name: str, visibility: str, *, of_source: bool
    ) -> Mapping[str, Any] | str:
        """Choose the visibility of a tool or of a source's tools in a project: one of `VISIBILITIES`."""
        options = ("--root", root, *(("--source",) if of_source else ()))
        return await self._answer("tools", "visibility", *options, "--json", "--", name, visibility)

    async def _answer(self, *words: str) -> Mapping[str, Any] | str:
        try:
            async with asyncio.timeout(LIMIT_S), self._turn:
                return understood(await self._output(words))
        except TimeoutError:
            return f"it took longer than {LIMIT_S:g} s"
        except (OSError, ValueError) as error:  # such as an argument with a NUL
            return f"it could not be run: {error}"

    async def _output(self, words: tuple[str, ...]) -> bytes:
        command = [*server_command(self._paths, self._search()), *words]
        process = await asyncio.create_subprocess_exec(
            *command, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, cwd="/"
        )
        assert process.stdout is not None  # noqa: S101  narrows the type: it is a pipe
        try:
            output = await _read_output(process.stdout)
            await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return output


async def _read_output(stream: asyncio.StreamReader) -> bytes:
    try:
        return await stream.readexactly(MAX_OUTPUT)
    except asyncio.IncompleteReadError as whole:
        return whole.partial


def understood(output: bytes) -> Mapping[str, Any] | str:
    """The JSON object that the command printed, or why there is none."""
    try:
        payload = json.loads(output)
    except ValueError:
        return "it gave no answer that can be read"
    if not isinstance(payload, dict):
        return "it gave no answer that can be read"
    if payload.get("ok") is True:
        return payload
    error = payload.get("error")
    if not isinstance(error, dict) or not error:
        return "it failed and did not say why"
    return f"{error.get('message')}; {error.get('nextStep')}"


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
        done = await self._ask_host(root, message)
        if done is None:
            return refusal(400, "invalid_change")
        if isinstance(done, NotChanged):
            return refusal(504 if done.is_unknown else 409, _REASONS[done.is_unknown], message=done.why)
        return success(**done)

    async def _root(self, cwd: object) -> str | None:
        resolution = await self._services.resolve(cwd) if isinstance(cwd, str) else None
        return (
            None
            if resolution is None or isinstance(resolution, CwdProblem)
            else resolution.workspace_folders[0]
        )

    async def _ask_host(self, root: str, message: Mapping[str, Any]) -> Changed | None:
        """What became of a change; None if the request names none."""
        tool, change, name = (message.get(key) for key in ("tool", "change", "name"))
        if isinstance(tool, str) and change in CHANGES:
            return await self.change_tool(root, tool, change)
        visibility, of_source = message.get("visibility"), message.get("ofSource") is True
        if isinstance(name, str) and visibility in VISIBILITIES:
            return await self.change_visibility(root, name, visibility, of_source=of_source)
        return None


def _here(result: Mapping[str, Any] | str) -> Changed:
    return NotChanged(result) if isinstance(result, str) else result


def changed_there(answer: bytes | Refusal, root: str, about: Mapping[str, object]) -> Changed:
    """What the manager on another host says that it changed. Nothing in it is a command to run.

    Args:
        root: the address of the project.
        about: the tool or source that is meant.
    """
    if isinstance(answer, Refusal):
        return NotChanged(answer.message, answer.delivered == "unknown")
    body, place = json_object(answer), split_root(root)
    if body is None or body.get("ok") is not True or place is None:
        return NotChanged("its host gave no answer that can be read", True)
    result: dict[str, Any] = {**about, "root": root, "host": place.host}
    for key, allowed in _MEMBERS.items():
        if key in body and body[key] in allowed:
            result[key] = body[key]
    result["file"] = printable(body.get("file"), width=MAX_PATH)
    if body.get("waitsFor"):
        result["waitsFor"] = f"lmtb trust {shlex.quote(root)}"
    return result


_REASONS: Final = {False: "not_changed", True: "change_unknown"}
_MEMBERS: Final[Mapping[str, tuple[object, ...]]] = {
    "enabled": (True, False),
    "approval": ("allow", "ask", "deny"),
    "visibility": (*VISIBILITIES, None),
}
