"""Measures `lm_references` beside the bare language server, `ty`, on a generated Python project.

One symbol is used in every file, another in five. The number of uses is known, so an answer counts only when
it is complete. The bare server is asked over its pipes; we are asked through the manager, as agents do it: by
name, which takes a search before the question, and by position.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from aiohttp import ClientSession

from protocol import headers, names
from scripts.benchmarks.plan import Missing, Plan
from scripts.benchmarks.processes import cpu_ns, descendants, process_tree
from scripts.benchmarks.section import Section
from scripts.benchmarks.sharing import REVISION, initialize, pss, request, running_manager
from scripts.benchmarks.table import table

FILES: Final = 300
FEW: Final = 5
CALLS: Final = 40
AGENTS: Final = 8
COMPLETE_S: Final = 60.0


def run(plan: Plan) -> Section:
    """Measure both, in turns."""
    if shutil.which("ty") is None:
        raise Missing("ty is not on the PATH. Next step: pip install ty, and put its folder on the PATH.")
    return asyncio.run(_measured(plan))


def project(folder: Path) -> Path:
    """Write the project: `everywhere` is used once in each of `FILES` files, `seldom` in `FEW` of them."""
    (folder / ".git").mkdir(parents=True)
    (folder / "base.py").write_text(
        "def everywhere() -> int:\n    return 1\n\n\ndef seldom() -> int:\n    return 2\n"
    )
    for number in range(FILES):
        used = ["everywhere", *(["seldom"] if number < FEW else [])]
        lines = [f"from base import {', '.join(used)}", *(f"x_{one} = {one}()" for one in used)]
        (folder / f"user_{number:03}.py").write_text("\n".join(lines) + "\n")
    return folder


async def _measured(plan: Plan) -> Section:
    spent: dict[str, list[float]] = {}
    memory: dict[str, float] = {}
    for number in range(plan.rounds):
        plan.say(f"intelligence: round {number + 1} of {plan.rounds}")
        folder = plan.folder / f"intelligence-{number}"
        root = project(folder / "proj")
        async with Bare.started(root) as bare:
            _note(spent, "bare, first", await _first(bare.references, "everywhere"))
            async with Agent.connected(folder, root) as (agent, others, manager):
                _note(spent, "ours, first", await _first(agent.references, "everywhere"))
                for symbol in ("everywhere", "seldom"):
                    for _ in range(CALLS):
                        await _timed(spent, f"bare, {symbol}", bare.references, [bare.pid])
                        await _timed(spent, f"ours, {symbol}", agent.references_at, process_tree(manager))
                        await _timed(spent, f"by name, {symbol}", agent.references, process_tree(manager))
                memory["1"] = pss(_servers(manager))
                for other in await others():
                    await other.references("seldom")
                memory[str(AGENTS)] = pss(_servers(manager))
                memory["bare"] = pss([bare.pid])
    wrong = {who: len(spent.pop(f"{who}, wrong", [])) for who in ("bare", "ours", "by name")}
    middle = {name: statistics.median(values) * 1000 for name, values in spent.items()}
    return _section(middle, memory, wrong, 2 * CALLS * plan.rounds)


def _section(
    middle: dict[str, float], memory: dict[str, float], wrong: dict[str, int], asked: int
) -> Section:
    rows: list[tuple[object, ...]] = [
        ("first complete answer, from its start", middle["bare, first"], None, middle["ours, first"]),
        *(
            (
                f"later answer with {uses} uses",
                *(middle[f"{who}, {symbol}"] for who in ("bare", "ours", "by name")),
            )
            for uses, symbol in ((FEW, "seldom"), (FILES, "everywhere"))
        ),
    ]
    rows += [
        (
            f"processors, with {uses} uses",
            *(middle[f"{who}, {symbol}, processors"] for who in ("bare", "ours", "by name")),
        )
        for uses, symbol in ((FEW, "seldom"), (FILES, "everywhere"))
    ]
    rows.append((f"answers of {asked} that were not complete", *wrong.values()))
    text = table(("`references`, ms", "bare server", "ours, by position", "ours, by name"), rows)
    mib = 2**20
    rows = [
        (f"{count} agents", memory["bare"] / mib * count, memory[str(count)] / mib) for count in (1, AGENTS)
    ]
    text += "\n\n" + table(("memory (PSS) of language servers, MiB", "one server each", "ours"), rows)
    figures = {
        "references over bare ms": middle["ours, seldom"] - 1.2 * middle["bare, seldom"],
        "references 8 agents": memory[str(AGENTS)] / memory["1"],
    }
    figures["references incomplete"] = wrong["ours"] + wrong["by name"]
    return Section("intelligence", text, {"ms": middle, "memory": memory, "wrong": wrong}, figures)


def _servers(manager: int) -> list[int]:
    """The language servers below a manager."""
    return [one.pid for one in descendants(manager) if one.name() == "ty"]


def _note(spent: dict[str, list[float]], name: str, seconds: float) -> None:
    spent.setdefault(name, []).append(seconds)


async def _timed(spent: dict[str, list[float]], name: str, ask: Any, pids: Sequence[int]) -> None:
    """Note the seconds of one answer, and those of the processors in these processes; or that it is wrong."""
    who, _, symbol = name.partition(", ")
    busy, began = cpu_ns(pids), time.perf_counter()
    found = await ask(symbol)
    took = time.perf_counter() - began
    if found == (FILES if symbol == "everywhere" else FEW):
        _note(spent, name, took)
        _note(spent, f"{name}, processors", (cpu_ns(pids) - busy) / 1e9)
    else:
        _note(spent, f"{who}, wrong", 1.0)


async def _first(ask: Any, symbol: str) -> float:
    """Seconds until the answer is complete."""
    began = time.perf_counter()
    while await ask(symbol) != FILES:
        if time.perf_counter() - began > COMPLETE_S:
            raise RuntimeError("no complete answer")
        await asyncio.sleep(0.05)
    return time.perf_counter() - began


class Bare:
    """`ty server` over its pipes, as an editor speaks to it."""

    def __init__(self, process: asyncio.subprocess.Process, root: Path) -> None:
        self._process = process
        self._root = root
        self._number = 0
        self._is_ready = False

    @classmethod
    @asynccontextmanager
    async def started(cls, root: Path) -> AsyncIterator[Bare]:
        """A server for this project; the handshake belongs to its first answer."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            "ty", "server", stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL, cwd=root
        )
        try:
            yield cls(process, root)
        finally:
            process.kill()
            await process.wait()

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    async def references(self, symbol: str) -> int:
        """The number of uses, without those in imports."""
        if not self._is_ready:
            await self._shake_hands()
        line = 0 if symbol == "everywhere" else 4
        place = {"textDocument": {"uri": self._uri}, "position": {"line": line, "character": 5}}
        found = await self._ask("textDocument/references", place | {"context": {"includeDeclaration": False}})
        return sum(one["range"]["start"]["line"] > 0 for one in found or ())

    @property
    def _uri(self) -> str:
        return (self._root / "base.py").as_uri()

    async def _shake_hands(self) -> None:
        folder = {"uri": self._root.as_uri(), "name": "proj"}
        asked = {"processId": os.getpid(), "rootUri": folder["uri"], "workspaceFolders": [folder]}
        await self._ask("initialize", asked | {"capabilities": {}})
        self._tell("initialized", {})
        text = (self._root / "base.py").read_text()
        opened = {"uri": self._uri, "languageId": "python", "version": 1, "text": text}
        self._tell("textDocument/didOpen", {"textDocument": opened})
        self._is_ready = True

    def _tell(self, method: str, params: Any, **members: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **members}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    async def _ask(self, method: str, params: Any) -> Any:
        self._number += 1
        self._tell(method, params, id=self._number)
        while (message := await self._read()).get("id") != self._number or "method" in message:
            pass
        if "error" in message:
            raise RuntimeError(str(message["error"]))
        return message["result"]

    async def _read(self) -> Any:
        reader = self._process.stdout
        assert reader is not None
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        return json.loads(await reader.readexactly(length))


class Agent:
    """A client of the manager, with a session."""

    def __init__(self, http: ClientSession, address: str, own: dict[str, str], root: Path) -> None:
        self._root = root
        self._number = 1
        self._http = http
        self._address = address
        self._own = own

    @classmethod
    @asynccontextmanager
    async def connected(cls, folder: Path, root: Path) -> AsyncIterator[tuple[Agent, Any, int]]:
        """A client, a function for `AGENTS` - 1 more, and the manager's process."""
        async with running_manager(folder) as (manager, address), ClientSession() as http:
            http.headers["Accept"] = "application/json, text/event-stream"

            async def others() -> list[Agent]:
                return [await cls._shaken(http, address, root) for _ in range(AGENTS - 1)]

            yield await cls._shaken(http, address, root), others, manager.pid

    @classmethod
    async def _shaken(cls, http: ClientSession, address: str, root: Path) -> Agent:
        async with http.post(address, json=initialize(1)) as response:
            own = {headers.SESSION: response.headers[headers.SESSION], headers.VERSION: REVISION}
        agent = cls(http, address, own, root)
        await agent._call(names.HANDSHAKE, cwd=str(root))
        return agent

    async def references(self, symbol: str) -> int:
        """The number of uses by name, without those in imports; none until the tool is there."""
        return await self._references(symbol=symbol)

    async def references_at(self, symbol: str) -> int:
        """The same by position."""
        line = 1 if symbol == "everywhere" else 5
        return await self._references(filePath=str(self._root / "base.py"), line=line, character=6)

    async def _references(self, **target: Any) -> int:
        with contextlib.suppress(KeyError):
            found = await self._call("lm_references", **target, limit=2 * FILES)
            return sum(one["startLine"] > 1 for one in found["references"])
        return 0

    async def _call(self, tool: str, **arguments: Any) -> Any:
        self._number += 1
        asked = request(self._number, names.TOOLS_CALL, name=tool, arguments=arguments)
        async with self._http.post(self._address, json=asked, headers=self._own) as response:
            text = await response.text()
        lines = [line for line in text.splitlines() if line.startswith("data: ")]
        message = json.loads(lines[-1].removeprefix("data: ") if lines else text)
        return message["result"]["structuredContent"]
