"""The tool `execute_code`: runs Python that a model wrote, like a script of the workspace.

The user has to enable the tool, and every call asks for approval and shows the code. The code can use the
functions of `library/lmtb_tool.py`; nothing of the workspace is on its import path.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.machine.private_folder import PrivateFolder
from workspace_server.call_context import CallContext
from workspace_server.source import Source
from workspace_server.sources.scripts.bundle import Bundle, BundleStore
from workspace_server.sources.scripts.runner import TERM_S, Environment, Job, Runner, python
from workspace_server.sources.scripts.slots import Slots
from workspace_server.tool import CallOutcome, InvalidArguments, Tool, ToolError

NAME: Final = "execute_code"
_FILE: Final = "code.py"
_DESCRIPTION: Final = (
    "Run Python code in a process of its own, in the workspace's folder. What it prints is the result."
    " `import lmtb_tool` gives list_tools(), tool_search(query), call_tool(name, arguments),"
    " return_object(value)."
)
TOOL: Final = Tool(
    NAME,
    {
        "name": NAME,
        "description": _DESCRIPTION,
        "inputSchema": {
            "type": "object",
            "properties": {"code": {"type": "string", "description": "The Python code."}},
            "required": ["code"],
            "additionalProperties": False,
        },
    },
    timeout_s=60.0,
    requires_approval=True,
)


class CodeSource(Source):
    """Offers the tool `execute_code`. The arguments are those of `ScriptSource`."""

    id = NAME
    kind = "builtin"

    def __init__(
        self,
        root: Path,
        *,
        environment: Environment,
        run_dir: Path,
        slots: Slots | None = None,
        term_s: float = TERM_S,
    ) -> None:
        self._root = root
        self._private = PrivateFolder(run_dir, NAME)
        self._bundles = BundleStore(self._private.path / "tools")
        self._runner = Runner(self._private.path / "c", root, environment, confined=True, term_s=term_s)
        self._slots = slots or Slots()

    async def list_tools(self) -> Sequence[Tool]:
        """Return the definition of `execute_code`."""
        return (TOOL,)

    async def call_tool(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
        """Run the code (see `Source.call_tool`)."""
        try:
            content = arguments["code"].encode()
        except UnicodeEncodeError:
            raise InvalidArguments("/code", "it contains half of a surrogate pair") from None
        bundle = Bundle({_FILE: content}, frozenset(), {})
        async with self._slots.acquire() as refusal:
            with self._bundles.in_use([bundle]):
                return refusal or await self._run(bundle, context)

    async def _run(self, bundle: Bundle, context: CallContext) -> CallOutcome:
        try:
            folder = await asyncio.to_thread(self._write, bundle)
        except OSError as error:
            raise ToolError(f"the code cannot be prepared: {error.strerror or 'the disk fails'}") from None
        job = Job(TOOL, python(folder / _FILE, folder, []), self._root, {})
        return await self._runner.run(job, {}, context.toolbox, self._slots.nested())

    async def close(self) -> None:
        """End all running code and remove its files."""
        await self._runner.close()
        await asyncio.to_thread(self._bundles.close)
        await asyncio.to_thread(self._private.close)

    def _write(self, bundle: Bundle) -> Path:
        self._private.open()
        return self._bundles.place([bundle])[0]
