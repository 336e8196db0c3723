"""Measures `lm_references` beside bare language servers, on generated projects.

One symbol is used in every file, another in five. The number of uses is known, so an answer counts only when
it is complete. The bare server is asked over its pipes; we are asked through the manager, as agents do it: by
name, which takes a search before the question, and by position. A call of `calculator` by the same client
shows what the way to a tool and back takes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from aiohttp import ClientSession

from lm_tools_bridge.protocol import headers, names
from scripts.benchmarks.environment.processes import cpu_ns, descendants, process_tree
from scripts.benchmarks.plan import Missing, Plan
from scripts.benchmarks.results.table import table
from scripts.benchmarks.scaling.sharing import REVISION, initialize, pss, request, running_manager
from scripts.benchmarks.section import Section
from scripts.benchmarks.tools.language_cases import CASES, FEW, PYTHON, Case

CALLS: Final = 40
AGENTS: Final = 8
COMPLETE_S: Final = 60.0


def run(plan: Plan) -> Section:
    """Measure all servers that are installed, in turns with us."""
    if PYTHON.command(plan.folder) is None:
        raise Missing("ty is not on the PATH. Next step: pip install ty, and put its folder on the PATH.")
    return asyncio.run(_measured(plan))


async def _measured(plan: Plan) -> Section:
    spent: dict[str, list[float]] = {}
    memory: dict[str, float] = {}
    cases = [case for case in CASES if case.command(plan.folder) is not None]
    for number in range(plan.rounds):
        for case in cases:
            plan.say(f"intelligence: {case.server}, round {number + 1} of {plan.rounds}")
            await _round(plan.folder / f"{case.server}-{number}", case, spent, memory)
    wrong = {who: len(spent.pop(f"{who}, wrong", [])) for who in ("bare", "ours", "by name")}
    middle = {name: statistics.median(values) * 1000 for name, values in spent.items()}
    return _section(cases, middle, memory, wrong, 2 * CALLS * plan.rounds * len(cases))


async def _round(folder: Path, case: Case, spent: dict[str, list[float]], memory: dict[str, float]) -> None:
    root = case.write(folder / "proj")
    async with Bare.started(root, case) as bare, Agent.connected(folder, root, case) as connected:
        agent, others, manager = connected
        _note(spent, f"bare, first, {case.server}", await _first(bare.references, case))
        _note(spent, f"ours, first, {case.server}", await _first(agent.references, case))
        for symbol in ("everywhere", "seldom"):
            for _ in range(CALLS):
                what, wanted = f"{symbol}, {case.server}", case.files if symbol == "everywhere" else FEW
                pids = process_tree(manager)
                await _timed(spent, f"bare, {what}", partial(bare.references, symbol), wanted, [bare.pid])
                await _timed(spent, f"ours, {what}", partial(agent.references_at, symbol), wanted, pids)
                await _timed(spent, f"by name, {what}", partial(agent.references, symbol), wanted, pids)
                await _timed(spent, f"calculator, {case.server}", agent.calculator, FEW, pids)
        if case is not PYTHON:
            return
        memory["1"] = pss(_servers(manager))
        for other in await others():
            await other.references("seldom")
        memory[str(AGENTS)] = pss(_servers(manager))
        memory["bare"] = pss([bare.pid])


def _section(
    cases: Sequence[Case],
    middle: dict[str, float],
    memory: dict[str, float],
    wrong: dict[str, int],
    asked: int,
) -> Section:
    rows: list[tuple[object, ...]] = []
    for case in cases:
        name = case.server
        rows.append(
            (
                f"{name}: first complete answer",
                middle[f"bare, first, {name}"],
                None,
                middle[f"ours, first, {name}"],
            )
        )
        for uses, symbol in ((FEW, "seldom"), (case.files, "everywhere")):
            for what, suffix in (("later answer", ""), ("processors", ", processors")):
                each = (middle[f"{who}, {symbol}, {name}{suffix}"] for who in ("bare", "ours", "by name"))
                rows.append((f"{name}: {what}, {uses} uses", *each))
    rows.append(("a call of `calculator`", None, middle["calculator, ty"], None))
    rows.append(("processors", None, middle["calculator, ty, processors"], None))
    rows.append((f"answers of {asked} that were not complete", *wrong.values()))
    text = table(("`references`, ms", "bare server", "ours, by position", "ours, by name"), rows)
    mib = 2**20
    rows = [
        (f"{count} agents", memory["bare"] / mib * count, memory[str(count)] / mib) for count in (1, AGENTS)
    ]
    text += "\n\n" + table(("memory (PSS) of `ty`, MiB", "one server each", "ours"), rows)
    figures = {
        "references over bare ms": middle["ours, seldom, ty"] - 1.2 * middle["bare, seldom, ty"],
        "references 8 agents": memory[str(AGENTS)] / memory["1"],
    }
    figures["references incomplete"] = wrong["ours"] + wrong["by name"]
    return Section("intelligence", text, {"ms": middle, "memory": memory, "wrong": wrong}, figures)


def _servers(manager: int) -> list[int]:
    """The language servers below a manager."""
    return [one.pid for one in descendants(manager) if one.name() == "ty"]


def _note(spent: dict[str, list[float]], name: str, seconds: float) -> None:
    spent.setdefault(name, []).append(seconds)


async def _timed(
    spent: dict[str, list[float]], name: str, ask: Any, wanted: int, pids: Sequence[int]
) -> None:
    """Note the seconds of one answer, and those of the processors in these processes; or that it is wrong."""
    busy, began = cpu_ns(pids), time.perf_counter()
    found = await ask()
    took = time.perf_counter() - began
    if found == wanted:
        _note(spent, name, took)
        _note(spent, f"{name}, processors", (cpu_ns(pids) - busy) / 1e9)
    else:
        _note(spent, f"{name.partition(', ')[0]}, wrong", 1.0)


async def _first(ask: Any, case: Case) -> float:
    """Seconds until the answer is complete."""
    began = time.perf_counter()
    while await ask("everywhere") != case.files:
        if time.perf_counter() - began > COMPLETE_S:
            raise RuntimeError(f"no complete answer of {case.server}")
        await asyncio.sleep(0.05)
    return time.perf_counter() - began


class Bare:
    """A server over its pipes, as an editor speaks to it."""

    def __init__(self, process: asyncio.subprocess.Process, root: Path, case: Case) -> None:
        self._process = process
        self._root = root
        self._case = case
        self._number = 0
        self._is_ready = False

    @classmethod
    @contextlib.asynccontextmanager
    async def started(cls, root: Path, case: Case) -> AsyncIterator[Bare]:
        """A server for this project; the handshake belongs to its first answer."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *(case.command(root) or ()), stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL, cwd=root
        )
        try:
            yield cls(process, root, case)
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
        place = {
            "textDocument": {"uri": self._uri},
            "position": {"line": line, "character": self._case.column + 1},
        }
        found = await self._ask("textDocument/references", place | {"context": {"includeDeclaration": False}})
        own = self._uri
        return sum(one["uri"] != own and one["range"]["start"]["line"] > 0 for one in found or ())

    @property
    def _uri(self) -> str:
        return (self._root / self._case.base).as_uri()

    async def _shake_hands(self) -> None:
        folder = {"uri": self._root.as_uri(), "name": "proj"}
        asked = {"processId": os.getpid(), "rootUri": folder["uri"], "workspaceFolders": [folder]}
        await self._ask("initialize", asked | {"capabilities": {}})
        self._tell("initialized", {})
        text = (self._root / self._case.base).read_text()
        opened = {"uri": self._uri, "languageId": self._case.language, "version": 1, "text": text}
        self._tell("textDocument/didOpen", {"textDocument": opened})
        self._is_ready = True

    def _tell(self, method: str, params: Any, **members: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **members}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def _answer(self, number: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": number, "result": None}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    async def _ask(self, method: str, params: Any) -> Any:
        self._number += 1
        self._tell(method, params, id=self._number)
        while (message := await self._read()).get("id") != self._number or "method" in message:
            if "id" in message and "method" in message:  # e.g. for its configuration
                self._answer(message["id"])
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

    def __init__(
        self, http: ClientSession, address: str, own: dict[str, str], root: Path, case: Case
    ) -> None:
        self._root = root
        self._case = case
        self._number = 1
        self._http = http
        self._address = address
        self._own = own

    @classmethod
    @contextlib.asynccontextmanager
    async def connected(cls, folder: Path, root: Path, case: Case) -> AsyncIterator[tuple[Agent, Any, int]]:
        """A client, a function for `AGENTS` - 1 more, and the manager's process."""
        async with running_manager(folder) as (manager, address), ClientSession() as http:
            http.headers["Accept"] = "application/json, text/event-stream"

            async def others() -> list[Agent]:
                return [await cls._shaken(http, address, root, case) for _ in range(AGENTS - 1)]

            yield await cls._shaken(http, address, root, case), others, manager.pid

    @classmethod
    async def _shaken(cls, http: ClientSession, address: str, root: Path, case: Case) -> Agent:
        async with http.post(address, json=initialize(1)) as response:
            own = {headers.SESSION: response.headers[headers.SESSION], headers.VERSION: REVISION}
        agent = cls(http, address, own, root, case)
        await agent._call(names.HANDSHAKE, cwd=str(root))
        return agent

    async def references(self, symbol: str) -> int:
        """The number of uses by name, without those in imports; none until the tool is there."""
        return await self._references(symbol=symbol)

    async def references_at(self, symbol: str) -> int:
        """The same by position."""
        line = 1 if symbol == "everywhere" else 5
        path, character = str(self._root / self._case.base), self._case.column + 2
        return await self._references(filePath=path, line=line, character=character)

    async def calculator(self) -> int:
        """A small number."""
        return int((await self._call("calculator", expression="2 + 3"))["value"])

    async def ask(self, tool: str, **arguments: Any) -> Any:
        """The structured content of a tool's answer."""
        return await self._call(tool, **arguments)

    async def _references(self, **target: Any) -> int:
        with contextlib.suppress(KeyError):
            found = await self._call("lm_references", **target, limit=3 * self._case.files)
            others = [one for one in found["references"] if not one["absolutePath"].endswith(self._case.base)]
            return sum(one["startLine"] > 1 for one in others)
        return 0

    async def _call(self, tool: str, **arguments: Any) -> Any:
        self._number += 1
        asked = request(self._number, names.TOOLS_CALL, name=tool, arguments=arguments)
        async with self._http.post(self._address, json=asked, headers=self._own) as response:
            text = await response.text()
        lines = [line for line in text.splitlines() if line.startswith("data: ")]
        return json.loads(lines[-1].removeprefix("data: ") if lines else text)["result"]["structuredContent"]
