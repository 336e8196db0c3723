"""Measures the language tools beside MCP servers that start a language server for each agent.

All use the same `ty` on one generated project. An answer is right if it names
exactly the files that use a symbol. After each of 200 edits on disk all are asked at once; a wrong answer
called complete counts.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import psutil

from scripts.benchmarks.environment.processes import process_tree
from scripts.benchmarks.other_proxies.installing import NotInstallable, installed
from scripts.benchmarks.plan import Missing, Plan
from scripts.benchmarks.results.table import table
from scripts.benchmarks.scaling.sharing import pss
from scripts.benchmarks.section import Section
from scripts.benchmarks.tools.code_server_peers import OTHERS, Ask, CodeServer, brokers
from scripts.benchmarks.tools.intelligence import AGENTS, COMPLETE_S, Agent
from scripts.benchmarks.tools.language_cases import FEW, PYTHON

EDITS: Final = 200
SEED: Final = 7


def run(plan: Plan) -> Section:
    """Measure each, one after the other, and all at once after edits."""
    ty = shutil.which("ty")
    if ty is None:
        raise Missing("ty is not on the PATH. Next step: pip install ty, and put its folder on the PATH.")
    made = Project(plan.folder / "proj")
    others: list[CodeServer] = []
    for peer, make in OTHERS:
        try:
            plan.say(f"code-servers: installing {peer.name}")
            others.append(make(peer.name, installed(peer), Path(ty), plan.folder))
        except NotInstallable as reason:
            plan.say(f"code-servers: {peer.name} cannot be installed: {reason}")
    if not others:
        raise Missing("none of the other servers can be installed.")
    return asyncio.run(_measured(plan, made, others))


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


async def _measured(plan: Plan, made: Project, others: Sequence[CodeServer]) -> Section:
    first: dict[str, float] = {}
    memory: dict[tuple[str, int], int] = {}
    wrong = dict.fromkeys(["ours", *(one.name for one in others)], 0)
    unsure = 0
    async with AsyncExitStack() as stack:
        began = time.perf_counter()
        ours, more, manager = await stack.enter_async_context(Agent.connected(plan.folder, made.root, PYTHON))

        async def files() -> frozenset[str]:
            return (await _ours(ours))[0]

        first["ours"] = await _first(files, frozenset(made.users), began)
        memory["ours", 1] = _memory([manager])
        for another in await more():
            await _ours(another)
        memory["ours", AGENTS] = _memory([manager])
        asks: dict[str, Ask] = {}
        for one in others:
            before, began = _started(made.root), time.perf_counter()
            asks[one.name] = ask = await stack.enter_async_context(one.agent(made.root))
            first[one.name] = await _first(ask, frozenset(made.users), began)
            memory[one.name, 1] = _memory(_started(made.root) - before)
        plan.say(f"code-servers: {EDITS} edits")
        for _ in range(EDITS):
            made.edit()
            theirs = asyncio.gather(*(ask() for ask in asks.values()))
            (said, is_fresh), found_by = await asyncio.gather(_ours(ours), theirs)
            wrong["ours"] += is_fresh and said != made.users
            unsure += not is_fresh
            for name, found in zip(asks, found_by, strict=True):
                wrong[name] += found != made.users
        for one in others:
            plan.say(f"code-servers: {AGENTS} agents of {one.name}")
            before = _started(made.root)
            for _ in range(AGENTS - 1):
                another_ask = await stack.enter_async_context(one.agent(made.root))
                await another_ask()
            memory[one.name, AGENTS] = memory[one.name, 1] + _memory(_started(made.root) - before)
    return _section(first, memory, wrong, unsure)


def _started(root: Path) -> set[int]:
    return {one.pid for one in psutil.Process().children()} | brokers(root)


def _memory(roots: Any) -> int:
    """The memory of these processes with all that they started."""
    return pss({pid for root in roots for pid in process_tree(root)})


def _section(
    first: dict[str, float], memory: dict[tuple[str, int], int], wrong: dict[str, int], unsure: int
) -> Section:
    names = list(first)
    rows: list[tuple[object, ...]] = [
        ("first complete answer, from the start of the program, s", *first.values()),
        *(
            (
                f"memory (PSS), {count} agent{'s' * (count > 1)}, MiB",
                *(memory[name, count] / 2**20 for name in names),
            )
            for count in (1, AGENTS)
        ),
        (f"wrong answers after {EDITS} edits, called complete", *(wrong[name] for name in names)),
        ("answers that said that they may not be complete", unsure, *[None] * (len(names) - 1)),
    ]
    text = table((f"`references` of 5 to {EDITS} uses, by name", *names), rows)
    measured = {f"{name}, {count}": one for (name, count), one in memory.items()}
    data = {"s": first, "memory": measured, "wrong": wrong, "unsure": unsure}
    return Section("code-servers", text, data, is_single=True)
