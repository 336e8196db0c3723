"""Projects on another host over a real ssh server, whose every part is killed in turn."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import ClientSession

from support.clients.raw_clients import SessionClient
from support.processes.manager_home import ManagerProcess, until
from support.processes.two_hosts import NAME, TwoHosts, two_hosts
from support.servers.ssh_server import SshServer

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]
ROUNDS = 20
READ = {"filePath": "src/where.txt"}
APPEND = """
description = "Appends a word to a file, once for each call."
script = "append.py"

[parameters.word]
type = "string"
description = "What is appended"
required = true
"""
SCRIPT = """
import time
import lmtb_tool

time.sleep(0.1)
with open({file!r}, "a") as file:
    file.write(lmtb_tool.get_string("word") + "\\n")
lmtb_tool.return_string("appended")
"""


@dataclass
class Scene:
    hosts: TwoHosts
    server: SshServer
    manager: ManagerProcess
    http: ClientSession
    root: Path

    async def client(self) -> SessionClient:
        """A session bound to the project."""
        client = await SessionClient.connect(self.http, self.manager.address)
        assert (await client.handshake(f"ssh://build{self.root}")).payload["ok"]
        return client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    folder = tmp_path_factory.mktemp("ssh")
    server = SshServer(folder / "sshd")
    await server.start()
    try:
        async with two_hosts(folder / "hosts") as hosts, ClientSession() as http:
            server.install_client(folder / "hosts" / "bin")
            yield Scene(hosts, server, await hosts.near.start(), http, hosts.project())
    finally:
        await server.stop()


async def read(client: SessionClient) -> dict[str, object]:
    return dict((await client.call("lm_readFile", READ)).result)


async def read_again(client: SessionClient, within_s: float = 60) -> float:
    """Seconds until a call works again."""
    began = time.monotonic()
    while "of the far host" not in str(await read(client)):
        assert time.monotonic() - began < within_s
        await asyncio.sleep(0.05)
    return time.monotonic() - began


async def status(scene: Scene) -> dict[str, object]:
    done = await scene.hosts.near.lmtb("remote", "status", NAME, "--json")
    (line,) = json.loads(done.out)["lines"]
    return dict(line)


async def test_a_file_of_the_other_host_is_read(scene: Scene) -> None:
    assert "app of the far host" in str(await read(await scene.client()))
    assert (await status(scene))["state"] == "connected"


async def test_a_line_that_is_cut_is_told_and_made_again(scene: Scene) -> None:
    client = await scene.client()
    for session in scene.server.sessions():
        session.kill()
    await read_again(client)


@pytest.mark.parametrize(
    ("change", "kind"),
    [("key", "host_key_changed"), ("unknown", "host_key_unknown"), ("login", "login_needs_person")],
)
async def test_what_only_a_person_can_solve_is_said_without_details(
    scene: Scene, change: str, kind: str
) -> None:
    client = await scene.client()
    await scene.server.stop()
    if change == "unknown":
        scene.server.forget_host_key()
    await scene.server.start(
        host_key="other_host" if change == "key" else "host", authorized=change != "login"
    )
    try:
        async with asyncio.timeout(60):
            refused: dict[str, object] = {}
            while refused.get("details", {}).get("cause") != kind:  # type: ignore[attr-defined]
                refused = (await client.handshake(f"ssh://build{scene.root}")).refusal
        assert "127.0.0.1" not in str(refused)
        assert (await status(scene))["cause"] == kind
    finally:
        await scene.server.stop()
        scene.server.trust_host_key()
        await scene.server.start()
    async with asyncio.timeout(60):
        while (await client.handshake(f"ssh://build{scene.root}")).result.get("isError"):
            await asyncio.sleep(0.1)
    await read_again(client)


def victims(scene: Scene, part: str) -> Callable[[], set[int]]:
    near, far = scene.hosts.near, scene.hosts.far
    finders: dict[str, Callable[[], set[int]]] = {
        "ssh": lambda: set(near.processes("/usr/bin/ssh")),
        "sshd": lambda: {one.pid for one in scene.server.sessions()},
        "remote serve": lambda: {
            pid for pid, line in far.processes("remote serve").items() if "sh -c" not in line
        },
        "the manager there": lambda: set(far.processes("manager serve")),
        "the server there": far.servers,
        "the manager here": lambda: {scene.manager.pid},
    }
    return finders[part]


@pytest.mark.parametrize(
    "part", ["ssh", "sshd", "remote serve", "the manager there", "the server there", "the manager here"]
)
async def test_no_call_is_doubled_and_no_session_lost_when_a_part_is_killed(scene: Scene, part: str) -> None:
    """Twenty times: kill -9 while calls are in flight. Only calls that surely did not run are repeated."""
    written = scene.root / "written.txt"
    written.write_text("")
    tool = scene.root / ".lm-tools-bridge" / "tools" / "append"
    if not tool.exists():
        tool.mkdir(parents=True)
        (tool / "tool.toml").write_text(APPEND)
        (tool / "append.py").write_text(SCRIPT.format(file=str(written)))
        trusted = await scene.hosts.far.lmtb("trust", str(scene.root), "--yes")
        assert trusted.code == 0, trusted.out + trusted.err
    client = await scene.client()
    assert not (await client.call("append", {"word": "first"})).result.get("isError")
    find = victims(scene, part)
    recovered = []
    for number in range(ROUNDS):
        calls = [
            asyncio.create_task(client.call("append", {"word": f"w-{number}-{one}."})) for one in range(3)
        ]
        await asyncio.sleep(0.02 * (number % 8))
        for pid in find():
            os.kill(pid, signal.SIGKILL)
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert len(outcomes) == 3
        if part == "the manager here":
            await scene.manager.ended()
            scene.manager = await scene.hosts.near.start(http_port=scene.manager.port)
        recovered.append(await read_again(client))
    words = written.read_text().split()
    assert len(words) > 1, "no call ran beside the first"
    assert len(words) == len(set(words)), words
    print(
        f"{part}: {len(words)} of {3 * ROUNDS} calls ran, none twice; back after at most {max(recovered):.1f} s"
    )
    await until(lambda: len(victims(scene, "remote serve")()) <= 1, 30)
    await until(lambda: len(victims(scene, "the manager there")()) == 1, 30)
