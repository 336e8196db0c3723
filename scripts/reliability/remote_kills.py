"""Kills each part of the way to another host under a stream of calls, and counts what the calls did there.

Usage: PYTHONPATH=tests python -m scripts.reliability.remote_kills [--times 20] [--part WORDS]

Each call appends a word of its own to a file there. No word may be there twice; a call that was answered must
have run, one that was told not delivered must not. Sessions must go on, and nothing may be left on either
host. Where a call was not delivered, the client repeats its handshake, which waits for no pause.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp

from scripts.benchmarks.results.table import table
from support.clients.raw_clients import SessionClient
from support.processes.hosts.ssh_hosts import ADDRESS, SshHosts, ssh_hosts
from support.processes.managers.manager_home import ManagerProcess, until

CLIENTS: Final = 3
BETWEEN_S: Final = (0.0, 0.4)
"""Seconds of calls before a kill."""
BACK_S: Final = 60.0
PAUSE_S: Final = 0.05
_MANIFEST: Final = """description = "Appends a word to a file."
script = "append.py"

[parameters.word]
type = "string"
description = "What is appended"
required = true
"""
_SCRIPT: Final = """import lmtb_tool

with open("written.txt", "a") as file:
    file.write(lmtb_tool.get_string("word") + "\\n")
lmtb_tool.return_string("appended")
"""


@dataclass
class Found:
    """What the calls of one part were told, by word, and how soon calls worked again after each kill."""

    answered: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    undelivered: set[str] = field(default_factory=set)
    back_s: list[float] = field(default_factory=list)
    written: list[str] = field(default_factory=list)

    @property
    def problems(self) -> list[str]:
        """What does not hold."""
        ran = set(self.written)
        return [
            f"{name}: {sorted(words)[:5]}"
            for name, words in (
                ("ran twice", {word for word in ran if self.written.count(word) > 1}),
                ("answered without running", self.answered - ran),
                ("told not delivered, but ran", self.undelivered & ran),
                ("never called, but ran", ran - self.answered - self.unknown - self.undelivered),
            )
            if words
        ]


class Scene:
    """Two hosts, the manager here, and a project there whose tool appends words."""

    def __init__(
        self, hosts: SshHosts, manager: ManagerProcess, http: aiohttp.ClientSession, root: Path
    ) -> None:
        self._hosts = hosts
        self._manager = manager
        self._http = http
        self._root = root
        self._calls = 0

    async def killed(self, part: str, times: int, chance: random.Random) -> Found:
        """Kill a part so many times while clients call.

        Raises:
            AssertionError: a session was lost, or calls did not work again.
        """
        found = Found()
        (self._root / "written.txt").write_text("")
        clients = [await self._client() for _ in range(CLIENTS)]
        stop = asyncio.Event()
        streams = [asyncio.create_task(self._stream(client, found, stop)) for client in clients]
        try:
            for _ in range(times):
                await asyncio.sleep(chance.uniform(*BETWEEN_S))
                await self._kill(part)
                found.back_s.append(await self._back(found, streams))
        finally:
            stop.set()
            await asyncio.gather(*streams)
        found.written = (self._root / "written.txt").read_text().split()
        await self._settled()
        return found

    async def _client(self) -> SessionClient:
        client = await SessionClient.connect(self._http, self._manager.address)
        answer = await client.handshake(f"{ADDRESS}{self._root}")
        assert answer.payload["ok"], answer.message
        return client

    async def _stream(self, client: SessionClient, found: Found, stop: asyncio.Event) -> None:
        """Call without end. Only what surely did not run could be repeated; here nothing is."""
        while not stop.is_set():
            self._calls += 1
            word = f"w{self._calls}"
            found.unknown.add(word)  # until more is known
            try:
                answer = await client.call("append", {"word": word})
            except aiohttp.ClientConnectorError:  # the manager here was killed before
                found.unknown.discard(word)
                found.undelivered.add(word)
                await asyncio.sleep(PAUSE_S)
                continue
            except (aiohttp.ClientError, OSError):  # it was killed meanwhile
                continue
            assert answer.status != 404, "the session is lost"
            fate = _fate(answer.message)
            if fate != "unknown":
                found.unknown.discard(word)
                (found.answered if fate == "answered" else found.undelivered).add(word)
            if fate == "undelivered":
                await asyncio.sleep(PAUSE_S)
                await self._again(client)

    async def _again(self, client: SessionClient) -> None:
        with contextlib.suppress(aiohttp.ClientError, OSError):
            await client.handshake(f"{ADDRESS}{self._root}")

    async def _kill(self, part: str) -> None:
        for pid in self._victims(part):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if part == "the manager here":
            await self._manager.ended()
            port = self._manager.port
            self._manager = await self._hosts.near.start(http_port=port)

    def _victims(self, part: str) -> set[int]:
        return set(PARTS[part](self._hosts, self._manager))

    async def _back(self, found: Found, streams: list[asyncio.Task[None]]) -> float:
        """Seconds until calls that begin now are answered again."""
        began, first = time.monotonic(), self._calls
        for _ in iter(lambda: any(int(word[1:]) > first for word in found.answered), True):
            assert time.monotonic() - began < BACK_S, "calls do not work again"
            for one in streams:
                if one.done():
                    one.result()
            await asyncio.sleep(0.01)
        return time.monotonic() - began

    async def _settled(self) -> None:
        """Wait until each part is there once, and no more."""
        far = self._hosts.far
        await until(lambda: len(_serving(far.processes("remote serve"))) == 1, BACK_S, far.processes)
        await until(lambda: len(far.processes("manager serve")) == 1, BACK_S, far.processes)
        await until(lambda: len(far.servers()) == 1, BACK_S, far.processes)
        near = self._hosts.near
        await until(lambda: len(near.processes("/usr/bin/ssh")) == 1, BACK_S, near.processes)


def _serving(found: Mapping[int, str]) -> set[int]:
    return {pid for pid, line in found.items() if "sh -c" not in line}


_Finder = Callable[[SshHosts, ManagerProcess], set[int]]
PARTS: Final[Mapping[str, _Finder]] = {
    "the manager here": lambda hosts, manager: {manager.pid},
    "the manager there": lambda hosts, _: set(hosts.far.processes("manager serve")),
    "the workspace server there": lambda hosts, _: hosts.far.servers(),
    "ssh": lambda hosts, _: set(hosts.near.processes("/usr/bin/ssh")),
    "the process of sshd": lambda hosts, _: {one.pid for one in hosts.server.sessions()},
    "lmtb remote serve": lambda hosts, _: _serving(hosts.far.processes("remote serve")),
}
"""How the processes of each part are found."""


def _fate(message: Mapping[str, Any]) -> str:
    """What an answer says of its call: answered, undelivered or unknown."""
    if "result" in message and not message["result"].get("isError"):
        return "answered"
    error = message["error"].get("data") if "error" in message else _refusal(message["result"])
    delivered = error.get("delivered") if isinstance(error, dict) else None
    assert delivered in ("no", "unknown"), message
    return "undelivered" if delivered == "no" else "unknown"


def _refusal(result: Mapping[str, Any]) -> object:
    return (result.get("structuredContent") or {}).get("error")


@contextlib.asynccontextmanager
async def scene(folder: Path) -> AsyncIterator[Scene]:
    """Both hosts. At the end nothing of them may be left."""
    async with ssh_hosts(folder) as hosts, aiohttp.ClientSession() as http:
        root = hosts.project()
        tool = root / ".lm-tools-bridge" / "tools" / "append"
        tool.mkdir(parents=True)
        (tool / "tool.toml").write_text(_MANIFEST)
        (tool / "append.py").write_text(_SCRIPT)
        manager = await hosts.near.start()
        await hosts.add_these_sources()
        trusted = await hosts.near.lmtb("trust", f"{ADDRESS}{root}", "--yes")
        assert trusted.code == 0, trusted.out + trusted.err
        yield Scene(hosts, manager, http, root)


async def run(folder: Path, times: int, words: str, seed: int) -> tuple[str, bool]:
    """Kill the chosen parts; the result as a table, and whether everything holds."""
    rows, holds = [], True
    async with scene(folder) as made:
        for part in PARTS:
            if words not in part:
                continue
            found = await made.killed(part, times, random.Random(seed))
            calls = sum(map(len, (found.answered, found.unknown, found.undelivered)))
            counts = (calls, len(found.answered), len(found.unknown), len(found.undelivered))
            rows.append((part, times, *counts, len(found.written), max(found.back_s)))
            print(f"{part}: {rows[-1][1:]} {found.problems or 'holds'}", flush=True)
            holds = holds and not found.problems
    heads = (
        "killed",
        "times",
        "calls",
        "answered",
        "told unknown",
        "told not delivered",
        "ran",
        "back after, s",
    )
    return table(heads, rows), holds


def main(arguments: list[str]) -> int:
    """Run the command; exit code 1 if something does not hold."""
    parser = argparse.ArgumentParser(prog="remote_kills", description="Kills each part of the way to a host.")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--part", default="", help="only parts with these words")
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="lmtb-kills-") as name:
        text, holds = asyncio.run(run(Path(name) / "hosts", wanted.times, wanted.part, wanted.seed))
    print(f"\n{text}")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
