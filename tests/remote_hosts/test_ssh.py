"""Projects on another host over a real ssh server: the line, its cuts, and what only a person can solve."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import ClientSession

from support.clients.raw_clients import SessionClient
from support.processes.hosts.two_hosts import NAME, TwoHosts, two_hosts
from support.processes.managers.manager_home import ManagerProcess
from support.servers.network.ssh_server import SshServer

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]
READ = {"filePath": "src/where.txt"}


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
            while refused.get("details", {}).get("cause") != kind:
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
