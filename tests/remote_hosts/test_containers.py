"""Projects in a real container: by podman, by docker's command line, and by scripts that play kubectl and wsl.exe."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import ClientSession

from support.clients.raw_clients import SessionClient
from support.processes.hosts.container_host import ADDRESSES, ContainerHost, NoContainers, container_host
from support.processes.managers.manager_home import ManagerProcess, until
from support.projects.gateway import eventually

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]
READ = {"filePath": "where.txt"}
EVERY_KIND = pytest.mark.parametrize("kind", ADDRESSES)


@dataclass
class Scene:
    box: ContainerHost
    manager: ManagerProcess
    http: ClientSession
    root: Path

    async def client(self, kind: str) -> SessionClient:
        """A session, not bound to anything."""
        if kind not in self.box.kinds:
            pytest.skip(f"the program {kind} is not installed")
        return await SessionClient.connect(self.http, self.manager.address)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    try:
        async with container_host(tmp_path_factory.mktemp("box")) as box, ClientSession() as http:
            manager = await box.near.start()
            for kind in box.kinds:
                await box.add(kind)
            yield Scene(box, manager, http, box.project())
    except NoContainers as why:
        pytest.skip(str(why))


async def read(client: SessionClient) -> str:
    return str((await client.call("lm_readFile", READ)).message)


@EVERY_KIND
async def test_a_project_in_a_container_is_served(scene: Scene, kind: str) -> None:
    client = await scene.client(kind)
    payload = (await client.handshake(f"{ADDRESSES[kind]}{scene.root}")).payload
    assert payload["host"] == ADDRESSES[kind]
    assert "app of the container" in await read(client)
    assert "remote serve" in str(scene.box.far.processes("remote serve"))


@EVERY_KIND
async def test_a_line_into_a_container_is_made_again(scene: Scene, kind: str) -> None:
    client = await scene.client(kind)
    assert (await client.handshake(f"{ADDRESSES[kind]}{scene.root}")).payload["ok"]
    for pid in scene.box.far.processes("remote serve"):
        os.kill(pid, signal.SIGKILL)

    async def is_back() -> bool:
        await client.handshake(f"{ADDRESSES[kind]}{scene.root}")
        return "app of the container" in await read(client)

    await eventually(is_back, 60)


@EVERY_KIND
async def test_a_program_that_is_missing_in_a_container_is_told(scene: Scene, kind: str) -> None:
    client = await scene.client(kind)
    near = scene.box.near
    done = await near.lmtb(
        "remote", "add", f"by-{kind}", f"{ADDRESSES[kind]}/", "--command", "/opt/none/lmtb"
    )
    assert done.code == 0, done.err
    try:
        refused = (await client.handshake(f"{ADDRESSES[kind]}{scene.root}")).refusal
        assert refused["details"]["cause"] == "not_installed"
        assert f"lmtb remote install by-{kind}" in refused["nextStep"]
        assert "/opt/none" not in str(refused)
    finally:
        await scene.box.add(kind)


@EVERY_KIND
async def test_a_container_that_is_gone_is_told_and_used_when_it_is_back(scene: Scene, kind: str) -> None:
    client = await scene.client(kind)
    assert (await client.handshake(f"{ADDRESSES[kind]}{scene.root}")).payload["ok"]
    await scene.box.remove()
    await until(lambda: not scene.box.far.processes("remote serve"))
    refused = (await client.handshake(f"{ADDRESSES[kind]}{scene.root}")).refusal
    assert refused["details"]["cause"] in {"unreachable", "line_cut"}
    await scene.box.run()

    async def is_back() -> bool:
        await client.handshake(f"{ADDRESSES[kind]}{scene.root}")
        return "app of the container" in await read(client)

    await eventually(is_back, 60)
