"""Runs the command `scripts/demo-remote`: an agent works in a project on another host, step by step.

Each sentence is printed after its fact was checked.
Exit codes: 0 success; 1 a fact does not hold; 2 sshd is missing.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Final
from urllib.parse import quote

from aiohttp import ClientSession

from manager import __version__
from scripts.benchmarks.startup.first_use import installer
from scripts.remote_hosts.sample_project import ANSWER, QUESTION, SHIPPED, make_project, turns
from support.clients.raw_clients import SessionClient
from support.processes.hosts.ssh_hosts import ADDRESS, NAME, SshHosts, ssh_hosts
from support.processes.installations.versions_of_wheels import needed_wheels
from support.processes.installations.wheel import build_wheel
from support.processes.managers.manager_home import CommandResult, until
from support.servers.models.model_thread import model_in_thread
from support.servers.network.network_namespace import network_namespace
from support.servers.network.ssh_server import SSHD

LIMIT_S: Final = 300.0
_ENDED_S: Final = 30.0
_TRIES: Final = 300
_PAUSE_S: Final = 0.1


class DemoError(Exception):
    """A fact does not hold."""


class Tour:
    """The steps, on two hosts that have just been made."""

    def __init__(self, hosts: SshHosts, folder: Path) -> None:
        self._hosts = hosts
        self._folder = folder
        self._last = time.perf_counter()

    def tell(self, text: str) -> None:
        """Print a sentence, with the time since the last one."""
        now = time.perf_counter()
        print(f"{(now - self._last) * 1000:7.0f} ms  {text}", flush=True)
        self._last = time.perf_counter()

    async def run(self, *, installs: bool) -> None:
        """Show everything.

        Raises:
            DemoError: a fact does not hold.
        """
        hosts = self._hosts
        root = make_project(hosts.far_home / "warehouse")
        self.tell(f"The other host has a project, {root}.")
        manager = await hosts.near.start()
        self.tell("A manager runs on this host.")
        async with ClientSession() as http:
            client = await SessionClient.connect(http, manager.address)
            refusal = (await client.handshake(f"{ADDRESS}{root}")).refusal
            _check(refusal["reason"] == "host_not_added", str(refusal))
            self.tell(f"A client asks for {ADDRESS}{root}, and is refused: the host is not added.")
            await self._add(installs=installs)
            await self._connect()
            await self._trust(client, root)
            await asyncio.to_thread(self._agent, f"{manager.address}?cwd={quote(f'{ADDRESS}{root}')}", root)
            await self._cut(client)
        await self._remove()

    async def _add(self, *, installs: bool) -> None:
        hosts = self._hosts
        if not installs:
            await hosts.add_these_sources()
            self.tell(
                f"lmtb remote add {NAME} {ADDRESS}/ --command …: the program of these sources serves there."
            )
            return
        await hosts.add()
        self.tell(f"lmtb remote add {NAME} {ADDRESS}/ allows connections to it.")
        line = await hosts.status()
        _check(line["cause"] == "not_installed", str(line))
        self.tell(f"lmtb remote status {NAME}: {line['cause']}.")
        wheels = self._folder / "wheels"
        await asyncio.to_thread(lambda: needed_wheels(build_wheel(wheels), wheels))
        self.tell(f"{len(list(wheels.glob('*.whl')))} wheels are here: the program, and what it needs.")
        _succeeded(await hosts.remote("install", NAME, "--wheels", str(wheels), "--yes"))
        self.tell(
            f"lmtb remote install {NAME} --wheels …: carried over, compared by digest, installed by uv there."
        )

    async def _connect(self) -> None:
        line = await self._hosts.status()
        _check((line["state"], line["version"]) == ("connected", __version__), str(line))
        there = await asyncio.to_thread(self._hosts.far.control.get, "/status")
        _check(there["address"] is None, str(there))
        self.tell(
            f"lmtb remote status {NAME}: connected to version {line['version']}. "
            "A manager runs there, without a port."
        )

    async def _trust(self, client: SessionClient, root: Path) -> None:
        await client.handshake(f"{ADDRESS}{root}")
        refused = (await client.call("ship", {"item": "lamp"})).result
        _check(bool(refused.get("isError")), str(refused))
        self.tell("The project's tool ship has no effect yet: nobody on that host trusts it.")
        _succeeded(await self._hosts.near.lmtb("trust", f"{ADDRESS}{root}", "--yes"))
        self.tell(f"lmtb trust {ADDRESS}{root} --yes allows it, on that host.")

    def _agent(self, endpoint: str, root: Path) -> None:
        near = self._hosts.near
        with model_in_thread(*turns()) as model:
            near.paths.config_file.write_text(
                f'[agent]\nendpoint = "{endpoint}"\ndefault_provider = "ollama"\nlocal_tools = false\n'
                '[agent.model]\nollama = "scripted"\n'
                f'[agent.providers.ollama]\napi_base = "{model.base("ollama")}"\n'
            )
            self.tell(f'lmtb agent -p "{QUESTION}" begins here; its model is scripted.')
            words = ("agent", "-p", QUESTION, "--allow", "ship")
            done = asyncio.run(near.lmtb(*words))
        _check((done.code, done.out.strip()) == (0, ANSWER), done.out + done.err)
        last = model.requests[-1].results
        _check("11 lamps" in str(last) and "shipped lamp" in str(last), str(last))
        shipped = (root / SHIPPED).read_text()
        _check(shipped == "lamp\n", shipped)
        self.tell("It read stock.txt of the other host with lm_readFile, and ran ship there.")
        self.tell(
            f"On the other host, {SHIPPED} now has: {shipped.strip()}. The agent replied: {done.out.strip()}"
        )

    async def _cut(self, client: SessionClient) -> None:
        for session in self._hosts.server.sessions():
            session.kill()
        self.tell("The line is cut: sshd's process was killed.")
        for _ in range(_TRIES):
            answer = (await client.call("lm_readFile", {"filePath": "stock.txt"})).message
            if "11 lamps" in str(answer):
                break
            await asyncio.sleep(_PAUSE_S)
        _check("11 lamps" in str(answer), str(answer))
        self.tell("The same session reads the file again: the line was made anew by itself.")

    async def _remove(self) -> None:
        hosts = self._hosts
        words = (
            ("remove", NAME, "--uninstall")
            if (hosts.far_home / ".local/bin/lmtb").exists()
            else ("remove", NAME)
        )
        _succeeded(await hosts.remote(*words))
        await until(lambda: not hosts.far.processes("remote serve"), _ENDED_S)
        self.tell(f"lmtb remote {' '.join(words)}: the line has ended.")


def _check(holds: bool, found: str) -> None:
    if not holds:
        raise DemoError(found)


def _succeeded(done: CommandResult) -> None:
    _check(done.code == 0, done.out + done.err)


async def show(folder: Path, *, installs: bool) -> None:
    """Make both hosts, show everything, and remove both again.

    Raises:
        DemoError: a fact does not hold.
    """
    programs = [await asyncio.to_thread(installer, "uv")] if installs else []
    with network_namespace() as network:
        async with (
            ssh_hosts(folder / "hosts", programs=programs, network=network) as hosts,
            asyncio.timeout(LIMIT_S),
        ):
            tour = Tour(hosts, folder)
            where = "a port of this machine" if network is None else f"its own network, at {network.address}"
            tour.tell(f"Another host is made: a home folder and an sshd, on {where}.")
            await tour.run(installs=installs)
        _check(not hosts.near.processes() and not hosts.far.processes(), "processes are left")
        tour.tell("Managers, servers and sshd have stopped: no process is left on either host.")


def main(arguments: list[str]) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="scripts/demo-remote", description="An agent works on another host."
    )
    parser.add_argument("--install", action="store_true", help="really install the program there")
    wanted = parser.parse_args(arguments)
    if not Path(SSHD).exists():
        print(f"{SSHD} is not installed. Next step: install OpenSSH's server.", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGINT))  # so that everything ends
    with tempfile.TemporaryDirectory(prefix="lmtb-remote-") as name:
        try:
            asyncio.run(show(Path(name), installs=wanted.install))
        except (DemoError, TimeoutError, AssertionError) as fault:
            print(f"this does not hold: {fault or type(fault).__name__}", file=sys.stderr)
            return 1
    print("The folders are removed.")
    return 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main(sys.argv[1:]))
    sys.exit(130)
