"""Measures the language tools beside Serena, an MCP server that starts a language server for each agent.

Both use the same `ty` on one generated project. An answer is right if it names exactly the files that use a
symbol. After each of 200 edits on disk both are asked at once; a wrong answer called complete counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import psutil
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from scripts.benchmarks.installing import NotInstallable, installed
from scripts.benchmarks.intelligence import AGENTS, COMPLETE_S, Agent
from scripts.benchmarks.language_cases import FEW, PYTHON
from scripts.benchmarks.peer import Peer
from scripts.benchmarks.plan import Missing, Plan
from scripts.benchmarks.processes import process_tree
from scripts.benchmarks.section import Section
from scripts.benchmarks.sharing import pss
from scripts.benchmarks.table import table

VERSION: Final = "2.1.0"
SERENA: Final = Peer("Serena", "pip", f"serena-agent=={VERSION}", lambda folder, port: [])
EDITS: Final = 200
SEED: Final = 7
Ask = Callable[[], Awaitable[frozenset[str]]]
"""Asks for the files that use `seldom`."""


def run(plan: Plan) -> Section:
    """Measure both, one after the other, and both at once after edits."""
    ty = shutil.which("ty")
    if ty is None:
        raise Missing("ty is not on the PATH. Next step: pip install ty, and put its folder on the PATH.")
    try:
        plan.say("code-servers: installing Serena")
        program = installed(SERENA) / "bin" / "serena"
    except NotInstallable as reason:
        raise Missing(f"Serena cannot be installed: {reason}") from None
    return asyncio.run(_measured(plan, Serena(program, Path(ty), plan.folder)))


class Project:
    """The project, and which of its files use `seldom`."""

    def __init__(self, folder: Path) -> None:
        self.root = PYTHON.write(folder)
        self.users = {f"user_{number:03}.py" for number in range(FEW)}
        self._chance = random.Random(SEED)
        self._made = PYTHON.files

    def edit(self) -> None:
        """Let a file use the symbol or not any more, make one that does, or delete one."""
        kind = self._chance.choice(("add", "add", "remove", "create", "delete"))
        if kind == "create":
            self._made += 1
            name = f"user_{self._made:03}.py"
        else:
            name = self._chance.choice(sorted(self.users) if kind != "add" and self.users else self._others())
        self.users.discard(name)
        if kind == "delete":
            (self.root / name).unlink()
            return
        used = ["everywhere"] if kind == "remove" else ["everywhere", "seldom"]
        lines = [f"from base import {', '.join(used)}", *(f"x_{one} = {one}()" for one in used)]
        (self.root / name).write_text("\n".join(lines) + "\n")
        if kind != "remove":
            self.users.add(name)

    def _others(self) -> list[str]:
        return sorted(path.name for path in self.root.glob("user_*.py") if path.name not in self.users)


class Serena:
    """Serena as each agent starts it: over standard input, for one project."""

    def __init__(self, program: Path, ty: Path, folder: Path) -> None:
        self._program = program
        self._home = folder / "serena-home"
        settings = self._home / ".serena"
        settings.mkdir(parents=True)
        [template] = program.parents[1].glob(
            "lib/python3*/site-packages/serena/resources/serena_config.template.yml"
        )
        named = f"ls_specific_settings:\n  python_ty:\n    ls_path: {ty}"
        text = template.read_text().replace("ls_specific_settings: {}", named)
        (settings / "serena_config.yml").write_text(text)

    def configure(self, root: Path) -> None:
        """Choose its `ty` for a project."""
        (root / ".serena").mkdir(exist_ok=True)
        (root / ".serena/project.yml").write_text("project_name: proj\nlanguages: [python_ty]\n")

    @asynccontextmanager
    async def agent(self, root: Path) -> AsyncIterator[Ask]:
        """One agent with its own Serena."""
        arguments = ["start-mcp-server", "--project", str(root), "--context", "ide"]
        arguments += ["--agent-interface", "tools", "--enable-web-dashboard", "false"]
        env = {"HOME": str(self._home), "PATH": os.environ["PATH"]}
        server = StdioServerParameters(command=str(self._program), args=arguments, env=env)
        with contextlib.closing(await asyncio.to_thread(Path(os.devnull).open, "w")) as nowhere:
            async with stdio_client(server, errlog=nowhere) as streams, ClientSession(*streams) as session:
                await session.initialize()
                yield lambda: self._ask(session)

    async def _ask(self, session: ClientSession) -> frozenset[str]:
        wanted = {"name_path": "seldom", "relative_path": "base.py", "max_answer_chars": 1_000_000}
        answer = await session.call_tool("find_referencing_symbols", wanted)
        found: Any = json.loads(answer.content[0].text)  # type: ignore[union-attr]
        # an import is a reference, too, in a file of its own kind
        return frozenset(name for name, kinds in found.items() if "Variable" in kinds)


async def _ours(agent: Agent) -> tuple[frozenset[str], bool]:
    """The files, and whether the answer is said to be complete."""
    found = await agent.ask("lm_references", symbol="seldom", limit=2 * PYTHON.files)
    files = frozenset(
        one["workspacePath"].rpartition("/")[2] for one in found.get("references", ()) if one["startLine"] > 1
    )
    return files, all(one["state"] == "fresh" for one in found.get("freshness", ({"state": ""},)))


async def _first(ask: Ask, wanted: frozenset[str], began: float) -> float:
    """Seconds from the start of the program until the answer is complete."""
    while await ask() != wanted:
        if time.perf_counter() - began > COMPLETE_S:
            raise RuntimeError("no complete answer")
        await asyncio.sleep(0.05)
    return time.perf_counter() - began


async def _measured(plan: Plan, serena: Serena) -> Section:
    made = Project(plan.folder / "proj")
    serena.configure(made.root)
    first: dict[str, float] = {}
    memory: dict[str, int] = {}
    wrong = {"ours": 0, "ours, said": 0, "serena": 0}
    async with AsyncExitStack() as stack:
        began = time.perf_counter()
        ours, others, manager = await stack.enter_async_context(
            Agent.connected(plan.folder, made.root, PYTHON)
        )

        async def files() -> frozenset[str]:
            return (await _ours(ours))[0]

        first["ours"] = await _first(files, frozenset(made.users), began)
        memory["ours, 1"] = _memory([manager])
        for other in await others():
            await _ours(other)
        memory[f"ours, {AGENTS}"] = _memory([manager])
        before = _children()
        began = time.perf_counter()
        ask = await stack.enter_async_context(serena.agent(made.root))
        first["serena"] = await _first(ask, frozenset(made.users), began)
        memory["serena, 1"] = _memory(_children() - before)
        plan.say(f"code-servers: {EDITS} edits")
        for _ in range(EDITS):
            made.edit()
            (said, is_fresh), theirs = await asyncio.gather(_ours(ours), ask())
            wrong["ours"] += is_fresh and said != made.users
            wrong["ours, said"] += not is_fresh
            wrong["serena"] += theirs != made.users
        plan.say(f"code-servers: {AGENTS} agents")
        for _ in range(AGENTS - 1):
            another = await stack.enter_async_context(serena.agent(made.root))
            await another()
        memory[f"serena, {AGENTS}"] = _memory(_children() - before)
    return _section(first, memory, wrong)


def _children() -> set[int]:
    return {one.pid for one in psutil.Process().children()}


def _memory(roots: Any) -> int:
    """The memory of these processes with all that they started."""
    return pss({pid for root in roots for pid in process_tree(root)})


def _section(first: dict[str, float], memory: dict[str, int], wrong: dict[str, int]) -> Section:
    mib = 2**20
    rows: list[tuple[object, ...]] = [
        ("first complete answer, from the start of the program, s", first["ours"], first["serena"]),
        *(
            (
                f"memory (PSS) of all processes, {count} agents, MiB",
                *(memory[f"{who}, {count}"] / mib for who in ("ours", "serena")),
            )
            for count in (1, AGENTS)
        ),
        (f"wrong answers after {EDITS} edits, called complete", wrong["ours"], wrong["serena"]),
        ("answers that said that they may not be complete", wrong["ours, said"], None),
    ]
    text = table((f"`references` of 5 to {EDITS} uses, by name", "ours", f"Serena {VERSION}"), rows)
    return Section("code-servers", text, {"s": first, "memory": memory, "wrong": wrong}, is_single=True)
