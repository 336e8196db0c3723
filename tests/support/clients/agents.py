"""Runs agent programs that others wrote, headless, on a fresh home folder, with a scripted model and our manager.

`agent_table.py` says how each is configured. None of them has an account; everything but loopback is behind a proxy
that is not there, so nothing they attempt reaches a network.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import time
from asyncio.subprocess import DEVNULL
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

import manager
from lm_tools_bridge.machine.process_ending import read_variables
from support.servers.models.formats.steps import Call, Json, ModelRequest

DOCUMENTS = Path(manager.__file__).parents[1] / "docs/clients"
DOCUMENTED_ADDRESS = "http://127.0.0.1:47100/mcp"
KEY = "no-key"
NOWHERE = "http://127.0.0.1:9"
"""Nothing listens there."""


@dataclass(frozen=True)
class Place:
    """Where an agent works.

    Attributes:
        home: its home folder.
        project: the folder in which it is started.
        manager: the address of our manager.
        model: the address of its model.
        shell: variables of its user's shell, on top of those that every agent gets.
        entry: the entry for our manager, in place of the documented one.
        others: more folders in which it is to be trusted to work.
    """

    home: Path
    project: Path
    manager: str
    model: str
    shell: Mapping[str, str] = field(default_factory=dict)
    entry: str | None = None
    others: tuple[Path, ...] = ()

    def write(self, name: str, text: str) -> None:
        """Write a file of the home folder."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def documented(self, document: str, language: str) -> str:
        """The configuration that our documentation tells users to write, with this manager's address."""
        if self.entry is not None:
            return self.entry
        text = (DOCUMENTS / document).read_text("utf-8").partition("## Configuration")[2]
        found = re.search(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
        assert found, f"{document} has no {language} block"
        assert DOCUMENTED_ADDRESS in found[1] or "lmtb" in found[1]
        return found[1].replace(DOCUMENTED_ADDRESS, self.manager)


@dataclass(frozen=True)
class Agent:
    """One agent program.

    Attributes:
        package: name and version as npm has them.
        client: the name that it gives itself as an MCP client.
        prefix: what it puts before the names of our tools.
        program: its entry point, relative to the folder of modules.
        arguments: what makes it work on one prompt and end; the prompt comes last.
        configure: writes its configuration, and returns variables of its environment.
        is_script: whether Node runs its entry point.
        calls_through: its own tool that calls a tool which is not listed; empty if all are listed.
        listing_entry: an entry with which it lists a project's tools, if it does not with the documented one.
        reported: the version that it says it has as an MCP client; empty if that is the package's.
    """

    package: str
    client: str
    prefix: str
    program: str
    arguments: tuple[str, ...]
    configure: Callable[[Place], Mapping[str, str]]
    is_script: bool = False
    calls_through: str = ""
    reported: str = ""
    listing_entry: str | None = None

    @property
    def introduction(self) -> str:
        """The name and the version that it gives itself as an MCP client."""
        return f"{self.client} {self.reported or self.package.split()[1]}"

    def call(self, tool: str, arguments: Json) -> Call:
        """The step of a model that calls one of our tools."""
        name = self.prefix + tool.replace(".", "_")
        if self.calls_through:
            return Call(self.calls_through, {"name": name, "arguments": arguments})
        return Call(name, arguments)

    def ours(self, request: ModelRequest) -> set[str]:
        """Our tools among those that it offers, without what it puts before them."""
        names = request.tools
        if self.calls_through:  # it names them in a message
            names = frozenset(re.findall(rf"{re.escape(self.prefix)}\w+", str(request.body["messages"])))
        return {name.removeprefix(self.prefix) for name in names if name.startswith(self.prefix)}

    def offers(self, request: ModelRequest, call: Call) -> bool:
        """Whether it offers the tool of this call."""
        name = str(call.arguments["name"]) if call.tool == self.calls_through else call.tool
        return name.removeprefix(self.prefix) in self.ours(request)


@dataclass(frozen=True)
class InstalledAgents:
    """Where the agents are."""

    folder: Path

    def command(self, agent: Agent) -> Sequence[str]:
        """What starts it."""
        program = str(self.folder / "npm/node_modules" / agent.program)
        return (*(("node",) if agent.is_script else ()), program)


@dataclass(frozen=True)
class Run:
    """What came of a run; `output` is both of its streams."""

    code: int
    output: str
    seconds: float


async def run_agent(
    agent: Agent, installed: InstalledAgents, place: Place, prompt: str, within_s: float
) -> Run:
    """Have it work on a prompt. Nothing of it is left afterwards.

    Raises:
        TimeoutError: it did not end in time; with its output.
    """
    command = [*installed.command(agent), *agent.arguments, prompt]
    return await _run(command, place, agent.configure(place), within_s)


async def list_servers(agent: Agent, installed: InstalledAgents, place: Place, within_s: float) -> Run:
    """Have it list its MCP servers, with the configuration that is there. Raises like `run_agent`."""
    return await _run([*installed.command(agent), "mcp", "list"], place, {}, within_s)


async def _run(command: Sequence[str], place: Place, more: Mapping[str, str], within_s: float) -> Run:
    environ = {**environ_of(place), **more}
    log = place.home / "output.log"
    started = time.monotonic()
    with log.open("wb") as stream:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=DEVNULL, stdout=stream, stderr=stream,
            cwd=place.project, env=environ, start_new_session=True,
        )  # fmt: skip
    try:
        code = await asyncio.wait_for(process.wait(), within_s)
    except TimeoutError:
        raise TimeoutError(f"still running after {within_s:g} s: {log.read_text(errors='replace')}") from None
    finally:
        end_group(process.pid)
        await process.wait()
        await end_strays(place.home)
    return Run(code, log.read_text(errors="replace"), time.monotonic() - started)


def environ_of(place: Place) -> dict[str, str]:
    nowhere = {
        name: NOWHERE
        for word in ("HTTP", "HTTPS", "ALL")
        for name in (f"{word}_PROXY", f"{word.lower()}_proxy")
    }
    return {
        **nowhere,
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
        "PATH": os.environ["PATH"],
        "HOME": str(place.home),
        "PWD": str(place.project),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        **place.shell,
    }


def end_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _strays(home: Path) -> Iterator[psutil.Process]:
    """What left the process group: its home folder tells whose it is."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if read_variables(process.pid).get("HOME") == str(home):
                yield process


async def end_strays(home: Path) -> None:
    strays = list(_strays(home))
    for process in strays:
        with contextlib.suppress(psutil.Error):
            process.kill()
    await asyncio.to_thread(psutil.wait_procs, strays, timeout=5)
