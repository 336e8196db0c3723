"""Offers the script tools of the workspace, of the user or of the system as a source.

Nothing watches the files: every list and every call checks them. The toolset checks for clients that wait for
change notifications.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.machine.private_folder import PrivateFolder
from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.issues import Issue
from workspace_server.call_context import CallContext
from workspace_server.files.change_detection import ChangeDetector
from workspace_server.source import Source
from workspace_server.sources.scripts.bundle import Bundle, BundleStore
from workspace_server.sources.scripts.catalog import Catalog, Snapshot, Trust, working_folder
from workspace_server.sources.scripts.folders import MANIFEST
from workspace_server.sources.scripts.runner import TERM_S, Environment, Job, Runner, python
from workspace_server.sources.scripts.script import Script, with_defaults
from workspace_server.sources.scripts.slots import Slots
from workspace_server.tool import CallOutcome, Tool, ToolError
from workspace_server.trust.item import TrustItem, trust_command

_TRIES: Final = 3
"""A tool that is edited while a call begins is read again; who writes on is told so."""


class ScriptSource(Source):
    """Offers the script tools of some folders.

    Args:
        identity: `script` for tools of the workspace, `script_user` or `script_system` for the others.
        folders: the tool folders; if two tools have the same name, the earlier folder wins. A folder may be
            missing.
        root: the workspace, without symbolic links.
        trust: decides which tools may run; None for tools of the user, which need no trust.
        environment: the environment variables of every script.
        run_dir: a folder that only its owner can enter; scripts run from there.
        libraries: folders of the user that Python scripts may import from; not part of trust.
        own_libraries: folders that the workspace's configuration adds to the import path; part of trust.
        slots: limits how many scripts run at once, shared by all sources of the workspace.
        term_s: seconds between SIGTERM and SIGKILL.
    """

    kind = "script"

    def __init__(
        self,
        identity: str,
        folders: Sequence[Path],
        root: Path,
        trust: Trust | None,
        *,
        environment: Environment,
        run_dir: Path,
        libraries: Sequence[Path] = (),
        own_libraries: Sequence[Path] = (),
        slots: Slots | None = None,
        term_s: float = TERM_S,
    ) -> None:
        self.id = identity
        self._root = root
        self._libraries = tuple(libraries)
        self._catalog = Catalog(folders, root, trust, libraries=own_libraries)
        self._private = PrivateFolder(run_dir, identity)
        self._bundles = BundleStore(self._private.path / "tools")
        self._runner = Runner(
            self._private.path / "c", root, environment, confined=trust is not None, term_s=term_s
        )
        self._slots = slots or Slots()
        self._last = Snapshot()
        self._is_followed = False

    async def list_tools(self) -> Sequence[Tool]:
        """Read the files and return the tools that are valid and trusted."""
        return (await self._refresh()).tools

    async def call_tool(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
        """Run a script (see `Source.call_tool`)."""
        async with self._slots.acquire() as refusal:
            return refusal or await self._call(name, arguments, context)

    def look(self, change_detector: ChangeDetector) -> None:
        """Check the files now, and report to `change_detector` which paths the result depends on. Blocks.

        After the first call, `cached_tools` returns the result of the last check, so that one request checks
        the files of all sources together.
        """
        before, self._last = self._last, self._catalog.look(change_detector)
        self._is_followed = True
        self.known_until = math.inf  # the files are checked for each request
        if self._last is not before:
            self.revision += 1

    def cached_tools(self) -> Sequence[Tool] | None:
        """The tools of the last check; None before the first `look`."""
        return self._last.tools if self._is_followed else None

    async def items(self) -> Sequence[TrustItem]:
        """Everything here that a user can trust, whether it is trusted or not."""
        return (await self._refresh()).items

    def limit_setting_of(self, name: str) -> str:
        """See `Source.limit_setting_of`."""
        script = self._last.scripts.get(name)
        return "" if script is None else f"timeout_s in {Path(script.folder) / MANIFEST}"

    def issues(self) -> Sequence[Issue]:
        """The problems that the last check found."""
        return self._last.issues

    def withheld(self) -> Mapping[str, str]:
        """See `Source.withheld`."""
        return dict.fromkeys(sorted(self._last.pending), str(self._root))

    def status(self) -> Mapping[str, Any]:
        """Scripts that run and wait, and the layers that confine them (None until a script has run)."""
        return {
            "running": self._slots.running,
            "waiting": self._slots.waiting,
            "protection": self._runner.protection,
        }

    async def close(self) -> None:
        """End all scripts and remove their files."""
        await self._runner.close()
        await asyncio.to_thread(self._bundles.close)
        await asyncio.to_thread(self._private.close)

    async def _refresh(self) -> Snapshot:
        self._last = await asyncio.to_thread(self._catalog.look)
        return self._last

    async def _call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
        script = self._last.scripts.get(name)
        for _ in range(_TRIES):
            if script is not None and await asyncio.to_thread(self._catalog.confirm, script):
                return await self._run(script, arguments, context)
            current = (await self._refresh()).scripts.get(name)
            if current is None:
                return self._unknown_tool(name)
            if script is not None and (
                current.tool.definition != script.tool.definition or current.tool.requires_approval
            ):
                break  # the arguments were validated and the user approved the call for the listed version
            script = current
        raise ToolError(f"{name} has changed just now; list the tools and call again")

    def _unknown_tool(self, name: str) -> Refusal:
        if name in self._last.pending:
            text = f"{name} has changed since the user trusted it"
            step = f"ask the user to review it and to run: {trust_command(self._root)}"
            return Refusal(Reason.WORKSPACE_PENDING_TRUST, text, step, delivered="no")
        return Refusal(Reason.TOOL_NOT_FOUND, f"{name} no longer exists", delivered="no")

    async def _run(self, script: Script, arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
        """Run the bytes of `script`, even if its files have changed since."""
        bundles = (script.bundle, *script.libraries)
        with self._bundles.in_use(bundles):
            try:
                folders = await asyncio.to_thread(self._write, bundles)
            except OSError as error:
                reason = error.strerror or "the disk fails"
                raise ToolError(f"{script.tool.name} cannot be prepared: {reason}") from None
            job = await asyncio.to_thread(self._job, script, folders)
            complete = with_defaults(script.manifest, arguments)
            return await self._runner.run(job, complete, context.toolbox, self._slots.nested())

    def _write(self, bundles: Sequence[Bundle]) -> list[Path]:
        self._private.open()
        return self._bundles.place(bundles)

    def _job(self, script: Script, folders: Sequence[Path]) -> Job:
        program = script.program
        file = folders[0] / program.name
        if program.is_python:
            argv = python(file, folders[0], [*folders[1:], *self._libraries])
        else:
            argv = (*program.interpreter, str(file))
        cwd = working_folder(self._root, script.manifest.cwd or ".")
        if cwd is None:
            raise ToolError("the working folder no longer exists")
        return Job(script.tool, argv, cwd, script.manifest.env)
