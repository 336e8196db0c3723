"""Starts MCP servers of others over a language server, as agents start them: Serena, cclsp and agent-lsp."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import psutil
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from scripts.benchmarks.other_proxies.peer import Peer

SERENA: Final = Peer("Serena 2.1.0", "pip", "serena-agent==2.1.0", lambda folder, port: [])
CCLSP: Final = Peer("cclsp 0.7.0", "npm", "cclsp@0.7.0", lambda folder, port: [])
AGENT_LSP: Final = Peer("agent-lsp 0.23.5", "pip", "agent-lsp==0.23.5", lambda folder, port: [])
_PLACE: Final = re.compile(r"/(user_\d+\.py):(\d+):\d+")
_ROW: Final = re.compile(r"/(user_\d+\.py)\|\d+\|(\d+)")
Ask = Callable[[], Awaitable[frozenset[str]]]
"""Asks for the files that use `seldom`."""


class CodeServer(Protocol):
    """An MCP server that others wrote, over one language server an agent."""

    name: str

    def agent(self, root: Path) -> AbstractAsyncContextManager[Ask]:
        """One agent with a server of its own for this project."""


class Serena:
    """Serena as each agent starts it: over standard input, for one project."""

    def __init__(self, name: str, installed: Path, ty: Path, folder: Path) -> None:
        self.name = name
        self._program = program = installed / "bin" / "serena"
        self._home = folder / "serena-home"
        settings = self._home / ".serena"
        settings.mkdir(parents=True)
        [template] = program.parents[1].glob(
            "lib/python3*/site-packages/serena/resources/serena_config.template.yml"
        )
        named = f"ls_specific_settings:\n  python_ty:\n    ls_path: {ty}"
        text = template.read_text().replace("ls_specific_settings: {}", named)
        (settings / "serena_config.yml").write_text(text)

    @asynccontextmanager
    async def agent(self, root: Path) -> AsyncIterator[Ask]:
        """One agent with its own Serena, which uses its `ty`."""
        (root / ".serena").mkdir(exist_ok=True)
        (root / ".serena/project.yml").write_text("project_name: proj\nlanguages: [python_ty]\n")
        arguments = ["start-mcp-server", "--project", str(root), "--context", "ide"]
        arguments += ["--agent-interface", "tools", "--enable-web-dashboard", "false"]
        env = {"HOME": str(self._home), "PATH": os.environ["PATH"]}
        server = StdioServerParameters(command=str(self._program), args=arguments, env=env)
        async with _session(server) as session:
            yield lambda: self._ask(session)

    async def _ask(self, session: ClientSession) -> frozenset[str]:
        wanted = {"name_path": "seldom", "relative_path": "base.py", "max_answer_chars": 1_000_000}
        answer = await session.call_tool("find_referencing_symbols", wanted)
        found: Any = json.loads(answer.content[0].text)  # type: ignore[union-attr]  # it is text
        # an import is a reference, too, in a file of its own kind
        return frozenset(name for name, kinds in found.items() if "Variable" in kinds)


class Cclsp:
    """cclsp as each agent starts it: over standard input, in one project."""

    def __init__(self, name: str, installed: Path, ty: Path, folder: Path) -> None:
        self.name = name
        self._program = installed / "node_modules/cclsp/dist/index.js"
        self._configuration = folder / "cclsp.json"
        server = {"extensions": ["py"], "command": [str(ty), "server"], "rootDir": "."}
        self._configuration.write_text(json.dumps({"servers": [server]}))

    @asynccontextmanager
    async def agent(self, root: Path) -> AsyncIterator[Ask]:
        """One agent with its own cclsp."""
        env = {name: os.environ[name] for name in ("HOME", "PATH")}
        env["CCLSP_CONFIG_PATH"] = str(self._configuration)
        server = StdioServerParameters(command="node", args=[str(self._program)], env=env, cwd=root)
        async with _session(server) as session:
            yield lambda: self._ask(session)

    async def _ask(self, session: ClientSession) -> frozenset[str]:
        wanted = {"file_path": "base.py", "symbol_name": "seldom", "include_declaration": False}
        answer = await session.call_tool("find_references", wanted)
        found = _PLACE.findall(answer.content[0].text)  # type: ignore[union-attr]  # it is text
        return frozenset(name for name, line in found if int(line) > 1)  # the first lines are imports


class AgentLsp:
    """agent-lsp as each agent starts it: over standard input, in one project, with a home of its own."""

    def __init__(self, name: str, installed: Path, ty: Path, folder: Path) -> None:
        self.name = name
        [self._program] = installed.glob("lib/python3*/site-packages/agent_lsp/bin/agent-lsp")
        self._ty = ty
        self._home = folder / "agent-lsp-home"
        self._home.mkdir(parents=True)

    @asynccontextmanager
    async def agent(self, root: Path) -> AsyncIterator[Ask]:
        """One agent with its own agent-lsp, which uses its `ty`."""
        env = {"HOME": str(self._home), "PATH": os.environ["PATH"]}
        arguments = [f"python:{self._ty},server"]
        server = StdioServerParameters(command=str(self._program), args=arguments, env=env, cwd=root)
        try:
            async with _session(server) as session:
                await session.call_tool("start_lsp", {"root_dir": str(root), "language_id": "python"})
                yield lambda: self._ask(session, root)
        finally:
            await self._stop_broker(root, env)

    async def _stop_broker(self, root: Path, env: dict[str, str]) -> None:
        """End the process that it leaves behind for later agents in this project."""
        command = [str(self._program), "daemon-stop", f"--root-dir={root}", "--language=python"]
        await asyncio.to_thread(
            subprocess.run, command, env=env, capture_output=True, timeout=20, check=False
        )

    async def _ask(self, session: ClientSession, root: Path) -> frozenset[str]:
        wanted = {"file_path": str(root / "base.py"), "line": 5, "column": 5, "include_declaration": False}
        answer = await session.call_tool("find_references", wanted)
        found = _ROW.findall("\n".join(getattr(block, "text", "") for block in answer.content))
        return frozenset(name for name, line in found if int(line) > 1)  # the first lines are imports


@asynccontextmanager
async def _session(server: StdioServerParameters) -> AsyncIterator[ClientSession]:
    with contextlib.closing(await asyncio.to_thread(Path(os.devnull).open, "w")) as nowhere:
        async with stdio_client(server, errlog=nowhere) as streams, ClientSession(*streams) as session:
            await session.initialize()
            yield session


def brokers(root: Path) -> set[int]:
    """The processes that agent-lsp shares among the agents of a project; nobody's children."""
    found = set()
    for one in psutil.process_iter(["cmdline"]):
        words = one.info["cmdline"] or []
        if words[1:2] == ["daemon-broker"] and f"--root-dir={root}" in words:
            found.add(one.pid)
    return found


OTHERS: Final = ((SERENA, Serena), (CCLSP, Cclsp), (AGENT_LSP, AgentLsp))
"""Each with what makes it of its name, its folder, the path of `ty` and a folder for its files."""
