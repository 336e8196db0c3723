"""One agent at work: its project, the manager of its user, and the steps that its scripted model takes."""

from __future__ import annotations

import json
import os
import select
import shlex
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from manager.configuration.paths import Paths
from support.clients.agent_table import AGENTS
from support.clients.agents import Agent, InstalledAgents, Place, list_servers, run_agent
from support.processes.managers.manager_home import (
    CommandResult,
    ManagerHome,
    ManagerProcess,
    manager_home,
    until,
)
from support.processes.managers.manager_in_process import make_project
from support.processes.managers.stdio_families import configure, entry
from support.servers.mcp_sources.stdio_servers import program
from support.servers.models.formats.steps import Call, ModelRequest, Say, Step
from support.servers.models.scripted_model import Script, ScriptedModel, scripted_model
from support.servers.sdk_servers.third_party import stdio_command

NONCE, OTHER_NONCE = "of this project", "of this project as well"
RUN_S = 60.0
SLOW_S = 5.0
"""Longer than an agent that goes on without a list waits, and shorter than any of the others."""
LATE_S = 25.0
"""By when a server that starts slowly is there, and its tools are in the list of an agent that hears of them."""
AS_SHIPPED = {"match_wait_s": 5, "announce_hold_s": 0.4, "has_file_tools": "no"}
"""Settings that other tests make shorter. Our file tools, which these tests call, are listed to all agents."""
Deed = Callable[[], Awaitable[object]]


def script(*steps: Step, before: Mapping[int, Deed] | None = None) -> Script:
    """The model takes these steps, then ends; `before` is what happens before the answer of that number."""

    async def next_step(request: ModelRequest) -> Step:
        if deed := (before or {}).get(request.number):
            await deed()
        return steps[request.number - 1] if request.number <= len(steps) else Say("done")

    return next_step


def after_first(deed: Deed, steps: Script) -> Script:
    """The script, whose first step is taken after something else has happened."""

    async def next_step(request: ModelRequest) -> Step:
        if request.number == 1:
            await deed()
        return await steps(request)

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
        folder = self._agent_home
        async with scripted_model(steps) as model:
            entry = self.agent.listing_entry
            place = Place(folder, self.project, self.manager.address, model.url, self.shell, entry)
            run = await run_agent(self.agent, self.installed, place, "Do as you like.", RUN_S)
        assert not model.errors, model.errors
        assert not model.unknown, model.unknown
        assert run.code == 0, run.output
        assert model.requests, run.output
        return model

    async def as_its_user(self, *words: str) -> CommandResult:
        """Run a verb in the project, with the agent's home folder."""
        environ = (f"HOME={self._agent_home}", f"PWD={self.project}")
        return await self.home.lmtb(*words, cwd=self.project, prefix=("env", *environ))

    @property
    def shell(self) -> Mapping[str, str]:
        """The variables of its user's shell, which finds `lmtb`."""
        return {"PATH": f"{program_folder(self.home)}:{self.home.environ['PATH']}"}

    @property
    def _agent_home(self) -> Path:
        folder = self.home.folder / "agent"
        folder.mkdir(exist_ok=True)
        return folder

    async def lists_servers(self) -> str:
        """What it says about its servers, once `lmtb client add` has written its file."""
        trusted = self._agent_home / ".gemini/trustedFolders.json"
        trusted.parent.mkdir()
        trusted.write_text(json.dumps({str(self.project): "TRUST_FOLDER"}))
        name = next(name for name, one in AGENTS.items() if one is self.agent)
        added = await self.as_its_user("client", "add", name, "--no-servers", "--yes")
        assert added.code == 0, added
        place = Place(self._agent_home, self.project, self.manager.address, "", self.shell)
        run = await list_servers(self.agent, self.installed, place, RUN_S)
        assert run.code == 0, run.output
        return run.output

    def offered(self, request: ModelRequest) -> set[str]:
        """Our tools in a request to the model."""
        return self.agent.ours(request)

    def calls(self, tool: str, **arguments: object) -> Call:
        """The model calls one of our tools."""
        return self.agent.call(tool, arguments)

    def reads(self, file: str) -> Call:
        """The model reads a file of the project."""
        return self.calls("lm_readFile", filePath=file)

    def executes(self, tool: str, **arguments: object) -> Call:
        """The model calls a tool that is not listed."""
        return self.calls("execute_tool", name=tool, arguments=arguments)

    def add_server(self, delay_s: float) -> None:
        """Give the user a server that was never listed, and starts after so many seconds."""
        configure(self.home, _server(delay_s))

    async def trust_server(self, delay_s: float = 0.0) -> None:
        """Give the project a server that starts after so many seconds, and trust it."""
        await self._trust(_server(delay_s))

    async def trust_program(self, body: str) -> None:
        """Give the project a server of a few lines (`stdio_servers.program`), and trust it."""
        await self._trust(entry("demo", program(body)))

    async def _trust(self, servers: str) -> None:
        file = self.project / ".lm-tools-bridge" / "workspace.toml"
        file.parent.mkdir()
        file.write_text(servers)
        done = await self.home.lmtb("trust", "--yes", cwd=self.project)
        assert done.code == 0, done

    def calls_once_offered(self, call: Call, first: Step) -> Script:
        """The model takes a first step, and then reads files until the tool is in its list."""
        deadline, called = time.monotonic() + LATE_S, False

        async def next_step(request: ModelRequest) -> Step:
            nonlocal called
            if request.number == 1:
                return first
            if called:
                return Say("done")
            called = self.agent.offers(request, call)
            assert called or time.monotonic() < deadline, f"not offered in request {request.number}"
            return call if called else self.reads(("nonce.txt", "other.txt")[request.number % 2])

        return next_step

    async def server_runs(self) -> None:
        """Wait until the added server runs."""
        deadline = time.monotonic() + LATE_S
        while True:
            shown = await self.home.lmtb("servers", "--json", cwd=self.project)
            states = {one["id"]: one["state"] for one in json.loads(shown.out)["sources"]}
            if states["stdio:demo"] == "ready":
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
        # the leader of the process is a zombie while other threads of it may still hold its connections
        with open_pidfd(pid) as ended:
            os.kill(pid, signal.SIGKILL)
            await until(lambda: bool(select.select([ended], [], [], 0)[0]))

    async def _replace(self, number: signal.Signals) -> None:
        self.manager.send(number)
        await self.manager.ended()
        self.manager = await self.home.start(http_port=self.manager.port, **AS_SHIPPED)


def _server(delay_s: float) -> str:
    return entry("demo", stdio_command(f"--start-delay={delay_s}"))


def program_folder(home: ManagerHome) -> Path:
    """A folder with `lmtb`, which finds the manager by its user's home folder alone."""
    folder = home.folder / "bin"
    folder.mkdir(exist_ok=True)
    program = folder / "lmtb"
    command = shlex.join(["env", f"HOME={home.environ['HOME']}", sys.executable, "-I", "-m", "manager"])
    program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    program.chmod(0o755)
    return folder


def usual_folders(home: Path, **environ: str) -> Mapping[str, str]:
    """Variables that name the folders which a program of this user finds without them."""
    paths = Paths.of_user({"HOME": str(home), **environ})
    return {
        "LMTB_CONFIG_DIR": str(paths.config_dir),
        "LMTB_STATE_DIR": str(paths.state_dir),
        "LMTB_RUNTIME_DIR": str(paths.runtime_dir),
    }


@contextmanager
def open_pidfd(pid: int) -> Iterator[int]:
    """A descriptor that is readable once all of a process has ended."""
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@asynccontextmanager
async def workplace_of(agent: Agent, installed: InstalledAgents, folder: Path) -> AsyncIterator[Workplace]:
    """An agent with a project of its own and a manager as it is shipped; no process of them is left."""
    environ = usual_folders(folder / "user/home")
    async with manager_home(folder / "user", forks=True, environ=environ) as home:
        files = {"nonce.txt": NONCE, "other.txt": OTHER_NONCE}
        project = make_project(folder / "proj", **files)
        yield Workplace(agent, installed, home, await home.start(**AS_SHIPPED), project)
