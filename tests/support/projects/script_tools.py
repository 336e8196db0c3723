"""Script tools on disk, and a source that runs them."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from workspace_server.call_context import CallContext
from workspace_server.processes import environment
from workspace_server.sources.scripts.slots import Slots
from workspace_server.sources.scripts.source import ScriptSource
from workspace_server.tool import CallOutcome, ToolResult
from workspace_server.trust.item import Verdict


def write_tool(
    tools: Path,
    name: str,
    script: str | bytes = "print(1)\n",
    toml: str = "",
    *,
    file: str = "script.py",
    description: str = "A tool.",
) -> Path:
    """A tool folder `name`; `toml` follows the required keys."""
    folder = tools / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tool.toml").write_text(f'description = "{description}"\nscript = "{file}"\n{toml}')
    (folder / file).write_bytes(script.encode() if isinstance(script, str) else script)
    return folder


class Judge:
    """Trusts exactly the digests somebody told it to."""

    def __init__(self) -> None:
        self.trusted: dict[str, str] = {}

    def __call__(self, digests: Mapping[str, str]) -> dict[str, Verdict]:
        return {key: self._verdict(key, digest) for key, digest in digests.items()}

    def _verdict(self, key: str, digest: str) -> Verdict:
        if key not in self.trusted:
            return "never"
        return "trusted" if self.trusted[key] == digest else "changed"


class Scripts:
    """A source over `root`/tools, and what tests ask of it."""

    def __init__(self, source: ScriptSource, root: Path) -> None:
        self.source = source
        self.root = root
        self.tools = root / "tools"

    def write(self, name: str, script: str | bytes = "print(1)\n", toml: str = "", **members: Any) -> Path:
        return write_tool(self.tools, name, script, toml, **members)

    async def call(self, name: str, context: CallContext | None = None, /, **arguments: Any) -> CallOutcome:
        return await self.source.call_tool(name, arguments, context or CallContext())

    async def result(self, name: str, /, **arguments: Any) -> ToolResult:
        outcome = await self.call(name, **arguments)
        assert isinstance(outcome, ToolResult), outcome
        return outcome

    async def text(self, name: str, /, **arguments: Any) -> str:
        return (await self.result(name, **arguments)).text


@asynccontextmanager
async def script_source(folder: Path, **options: Any) -> AsyncIterator[Scripts]:
    """A source whose scripts are trusted unless `trust` says otherwise; nothing of it is left afterwards."""
    root = folder / "project"
    (root / "tools").mkdir(parents=True, exist_ok=True)
    run_dir = folder / "run"
    run_dir.mkdir(mode=0o700)

    async def surroundings() -> Mapping[str, str]:
        return environment.inherited(os.environ, None, str(root))

    settings: dict[str, Any] = {
        "environment": surroundings,
        "run_dir": run_dir,
        "slots": Slots(),
        "term_s": 0.2,
        "trust": lambda digests: dict.fromkeys(digests, "trusted"),
    } | options
    source = ScriptSource("script", [root / "tools"], root, settings.pop("trust"), **settings)
    try:
        yield Scripts(source, root)
    finally:
        await source.close()
        assert list(run_dir.iterdir()) == []
