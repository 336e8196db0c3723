"""Runs the workspace server's own command: shows what waits for trust, and changes what tools may do.

It is the command that `lmtb trust` and `lmtb tools` run, in a process of its own, without a shell.
"""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Mapping
from typing import Any, Final

from manager.configuration.paths import Paths
from manager.server_command import server_command

LIMIT_S: Final = 20.0
"""Longest time of one command, including its wait for the one before it."""
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
            output = await _read(process.stdout)
            await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return output


async def _read(stream: asyncio.StreamReader) -> bytes:
    try:
        return await stream.readexactly(MAX_OUTPUT)
    except asyncio.IncompleteReadError as whole:
        return whole.partial


def understood(output: bytes) -> Mapping[str, Any] | str:
    """The JSON object that the command printed, or why there is none."""
    try:
        found = json.loads(output)
    except ValueError:
        return "it gave no answer that can be read"
    if not isinstance(found, dict):
        return "it gave no answer that can be read"
    if found.get("ok") is True:
        return found
    error = found.get("error")
    told = error if isinstance(error, dict) else {}
    return f"{told.get('message')}; {told.get('nextStep')}" if told else "it failed and did not say why"
