"""One agent at work: its project, the manager of its user, and the steps that its scripted model takes."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from support.clients.agents import Agent, InstalledAgents, Place, run_agent
from support.processes.manager_home import ManagerHome, ManagerProcess, manager_home, until
from support.processes.manager_in_process import make_project
from support.processes.stdio_families import configure, entry
from support.servers.model_formats.steps import Call, ModelRequest, Say, Step
from support.servers.scripted_model import Script, ScriptedModel, scripted_model
from support.servers.third_party import stdio_command

NONCE, OTHER_NONCE = "of this project", "of this project as well"
RUN_S = 60.0
SLOW_S = 5.0
"""Longer than an agent that goes on without a list waits, and shorter than any of the others."""
LATE_S = 20.0
"""By when a server that starts slowly is there."""
LONGEST_WAIT = 5
"""After so many requests to the model a tool that was announced is in the list."""
AS_SHIPPED = {"match_wait_s": 5, "announce_hold_s": 0.4}
"""Settings that other tests make shorter."""
Deed = Callable[[], Awaitable[object]]


def script(*steps: Step, before: Mapping[int, Deed] | None = None) -> Script:
    """The model takes these steps, then ends; `before` is what happens before the answer of that number."""

    async def next_step(request: ModelRequest) -> Step:
        if deed := (before or {}).get(request.number):
            await deed()
        return steps[request.number - 1] if request.number <= len(steps) else Say("done")

    return next_step


@dataclass
class Workplace:
    """One agent, its project, and the manager of its user."""

    agent: Agent
    installed: InstalledAgents
    home: ManagerHome
    manager: ManagerProcess
    project: Path

    async def work(self, steps: Script) -> ScriptedModel:
        """Run the agent to its end; its model, with what it was asked."""
        folder = self.home.folder / "agent"
        folder.mkdir()
        async with scripted_model(steps) as model:
            place = Place(folder, self.project, self.manager.address, model.url)
            run = await run_agent(self.agent, self.installed, place, "Do as you like.", RUN_S)
        assert not model.errors, model.errors
        assert not model.unknown, model.unknown
        assert run.code == 0, run.output
        assert model.requests, run.output
        return model

    def offered(self, request: ModelRequest) -> set[str]:
        """Our tools in a request to the model."""
        return self.agent.ours(request.tools)

    def calls(self, tool: str, **arguments: object) -> Call:
        """The model calls one of our tools."""
        return Call(self.agent.tool(tool), arguments)

    def reads(self, file: str) -> Call:
        """The model reads a file of the project."""
        return self.calls("lm_readFile", filePath=file)

    def executes(self, tool: str, **arguments: object) -> Call:
        """The model calls a tool that is not listed."""
        return self.calls("execute_tool", name=tool, arguments=arguments)

    def add_slow_server(self) -> None:
        """Give the user a server that starts slowly and was never listed."""
        configure(self.home, _slow_server())

    async def trust_slow_server(self) -> None:
        """Give the project a server that starts slowly, and trust it."""
        file = self.project / ".lm-tools-bridge" / "workspace.toml"
        file.parent.mkdir()
        file.write_text(_slow_server())
        done = await self.home.lmtb("trust", "--yes", cwd=self.project)
        assert done.code == 0, done

    def calls_once_offered(self, tool: str, **arguments: object) -> Script:
        """The model goes on when the slow server runs, and reads files until the tool is in its list."""

        async def next_step(request: ModelRequest) -> Step:
            if request.number == 1:
                await self._slow_server_runs()
            if called:
                return Say("done")
            if tool not in self.offered(request) and request.number <= LONGEST_WAIT:
                return self.reads("nonce.txt")
            called.append(request.number)
            return self.calls(tool, **arguments)

        called: list[int] = []
        return next_step

    async def _slow_server_runs(self) -> None:
        deadline = time.monotonic() + LATE_S
        while True:
            shown = await self.home.lmtb("servers", "--json", cwd=self.project)
            states = {one["id"]: one["state"] for one in json.loads(shown.out)["sources"]}
            if states["stdio:slow"] == "ready":
                return
            assert time.monotonic() < deadline, shown

    async def crash(self) -> None:
        """Kill the manager, and start another one at its address."""
        await self._replace(signal.SIGKILL)

    async def restart(self) -> None:
        """Stop the manager in order, and start another one at its address."""
        await self._replace(signal.SIGTERM)

    async def kill_server(self) -> None:
        """Kill the project's workspace server, and wait until nothing of it is left."""
        (pid,) = (await self.home.server_pids()).values()
        os.kill(pid, signal.SIGKILL)
        await until(lambda: _has_ended(pid))

    async def _replace(self, number: signal.Signals) -> None:
        self.manager.send(number)
        await self.manager.ended()
        self.manager = await self.home.start(http_port=self.manager.port, **AS_SHIPPED)


def _slow_server() -> str:
    return entry("slow", stdio_command(f"--start-delay={SLOW_S}"))


def _has_ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@asynccontextmanager
async def workplace_of(agent: Agent, installed: InstalledAgents, folder: Path) -> AsyncIterator[Workplace]:
    """An agent with a project of its own and a manager as it is shipped; no process of them is left."""
    async with manager_home(folder / "user", forks=True) as home:
        files = {"nonce.txt": NONCE, "other.txt": OTHER_NONCE}
        project = make_project(folder / "proj", **files)
        yield Workplace(agent, installed, home, await home.start(**AS_SHIPPED), project)
