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
from dataclasses import dataclass
from pathlib import Path

import psutil

import manager

DOCUMENTS = Path(manager.__file__).parents[1] / "docs/clients"
DOCUMENTED_ADDRESS = "http://127.0.0.1:47100/mcp"
KEY = "no-key"
NOWHERE = "http://127.0.0.1:9"
"""Nothing listens there."""


@dataclass(frozen=True)
class Place:
    """Where an agent works: its home folder, its project, and the addresses of our manager and of its model."""

    home: Path
    project: Path
    manager: str
    model: str

    def write(self, name: str, text: str) -> None:
        """Write a file of the home folder."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def documented(self, document: str, language: str) -> str:
        """The configuration that our documentation tells users to write, with this manager's address."""
        text = (DOCUMENTS / document).read_text("utf-8").partition("## Configuration")[2]
        found = re.search(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
        assert found, f"{document} has no {language} block"
        assert DOCUMENTED_ADDRESS in found[1]
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
    """

    package: str
    client: str
    prefix: str
    program: str
    arguments: tuple[str, ...]
    configure: Callable[[Place], Mapping[str, str]]
    is_script: bool = False

    def tool(self, name: str) -> str:
        """The name under which it offers one of our tools."""
        return self.prefix + name.replace(".", "_")

    def ours(self, tools: frozenset[str]) -> set[str]:
        """Our tools among those that it offers, without what it puts before them."""
        return {name.removeprefix(self.prefix) for name in tools if name.startswith(self.prefix)}


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
    environ = {**_environ(place), **more}
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
        _end_group(process.pid)
        await process.wait()
        await _end_strays(place.home)
    return Run(code, log.read_text(errors="replace"), time.monotonic() - started)


def _environ(place: Place) -> dict[str, str]:
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
    }


def _end_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _strays(home: Path) -> Iterator[psutil.Process]:
    """What left the process group: its home folder tells whose it is."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("HOME") == str(home):
                yield process


async def _end_strays(home: Path) -> None:
    strays = list(_strays(home))
    for process in strays:
        with contextlib.suppress(psutil.Error):
            process.kill()
    await asyncio.to_thread(psutil.wait_procs, strays, timeout=5)
