"""Projects on another host, with real managers on both; only ssh is played."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest
import pytest_asyncio
from aiohttp import ClientSession

from lm_tools_bridge.protocol import names
from support.clients.raw_clients import SessionClient, StatelessClient
from support.processes.hosts.two_hosts import NAME, TwoHosts, two_hosts
from support.processes.managers.manager_home import ManagerHome, ManagerProcess, until

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.processes]
READ = {"filePath": "src/where.txt"}


@dataclass
class Scene:
    """Both hosts, the near manager, and one project on the far host."""

    hosts: TwoHosts
    manager: ManagerProcess
    http: ClientSession
    root: Path

    def url(self, cwd: str) -> str:
        """The near manager's address for a folder."""
        return f"{self.manager.address}?cwd={quote(cwd)}"

    def client(self, cwd: str) -> StatelessClient:
        """A stateless client for a folder."""
        return StatelessClient(self.http, self.url(cwd))

    def pids(self, word: str) -> set[int]:
        """The processes whose command lines contain a word, on both hosts."""
        return {*self.hosts.near.processes(word), *self.hosts.far.processes(word)}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Scene]:
    async with (
        two_hosts(tmp_path_factory.mktemp("hosts"), kind="pipes") as hosts,
        ClientSession() as http,
    ):
        root = hosts.project()
        yield Scene(hosts, await hosts.near.start(), http, root)


async def text_of(client: StatelessClient | SessionClient) -> str:
    result = (await client.call("lm_readFile", READ)).result
    assert not result.get("isError"), result
    return str(result["content"][0]["text"])


@pytest.mark.always
@pytest.mark.parametrize("form", ["ssh://build{}", "build:{}", "ssh://build{}/src"])
async def test_a_client_reads_files_of_the_other_host(scene: Scene, form: str) -> None:
    assert "app of the far host" in await text_of(scene.client(form.format(scene.root)))


async def test_all_spellings_are_one_workspace(scene: Scene) -> None:
    ids = set()
    for cwd in (f"ssh://build{scene.root}", f"build:{scene.root}/src", f"ssh:/build{scene.root}"):
        answer = await scene.client(cwd).ask(names.TOOLS_LIST)
        assert "lm_readFile" in {tool["name"] for tool in answer.result["tools"]}
        ids.add(answer.headers["X-Workspace-Id"])
    assert len(ids) == 1


async def test_a_header_names_the_other_host_too(scene: Scene) -> None:
    client = StatelessClient(scene.http, scene.manager.address)
    client.extra = {"X-Workspace-Cwd": f"ssh://build{scene.root}"}
    assert "app of the far host" in await text_of(client)


async def test_instructions_say_whose_paths_they_are(scene: Scene) -> None:
    found = await scene.client(f"ssh://build{scene.root}").ask(names.DISCOVER)
    assert found.result["instructions"].startswith("This workspace is on another host, ssh://build:")
    session = await SessionClient.connect(scene.http, scene.url(f"ssh://build{scene.root}"))
    assert "app of the far host" in await text_of(session)


@pytest.mark.always
async def test_a_handshake_binds_a_session_and_marks_the_host(scene: Scene) -> None:
    client = await SessionClient.connect(scene.http, scene.manager.address)
    payload = (await client.handshake(f"build:{scene.root}/src")).payload
    assert payload["host"] == "ssh://build"
    assert payload["target"]["workspaceFolders"] == [f"ssh://build{scene.root}"]
    assert "lmtb trust ssh://build" in payload["guidance"]["nextSteps"][0]
    assert "lm_readFile" in {tool["name"] for tool in payload["discovery"]["bridgedTools"]}
    assert "app of the far host" in await text_of(client)
    handle = {"name": "lm_readFile", "arguments": READ, "workspace": payload["workspace"]}
    called = await StatelessClient(scene.http, scene.manager.address).call(names.CALL_TOOL, handle)
    assert "app of the far host" in called.result["content"][0]["text"]


@pytest.mark.always
async def test_a_host_that_was_not_added_is_not_connected_to(scene: Scene) -> None:
    before = scene.pids("other")
    client = await SessionClient.connect(scene.http, scene.manager.address)
    refused = (await client.handshake("ssh://other/work")).refusal
    assert refused["reason"] == "host_not_added"
    assert "lmtb remote add other ssh://other/" in refused["nextStep"]
    assert scene.pids("other") == before


@pytest.mark.parametrize("cwd", ["ssh://-oProxyCommand=x/work", "docker://--privileged/x"])
async def test_an_address_that_could_be_an_option_is_refused(scene: Scene, cwd: str) -> None:
    client = await SessionClient.connect(scene.http, scene.manager.address)
    assert (await client.handshake(cwd)).refusal["reason"] == "invalid_cwd"


async def test_a_folder_that_is_not_there_is_refused_by_name(scene: Scene) -> None:
    client = await SessionClient.connect(scene.http, scene.manager.address)
    refused = (await client.handshake("ssh://build/nowhere/at/all")).refusal
    assert (refused["reason"], refused["details"]["cwd"]) == ("invalid_cwd", "ssh://build/nowhere/at/all")


async def test_the_manager_there_has_no_port(scene: Scene) -> None:
    await text_of(scene.client(f"ssh://build{scene.root}"))
    status = await asyncio.to_thread(scene.hosts.far.control.get, "/status")
    assert status["address"] is None
    socket = scene.hosts.far.paths.control_socket.with_name("tunnel.sock")
    assert socket.stat().st_mode & 0o777 == 0o600


async def test_status_shows_the_line_and_its_latency(scene: Scene) -> None:
    await text_of(scene.client(f"ssh://build{scene.root}"))
    done = await scene.hosts.near.lmtb("remote", "status", NAME, "--json")
    (line,) = json.loads(done.out)["lines"]
    assert (done.code, line["state"], line["name"]) == (0, "connected", NAME)
    await until(lambda: line["latencyMs"] is None or line["latencyMs"] > 0)
    shown = await scene.hosts.near.status()
    assert [one["name"] for one in shown["lines"]] == [NAME]
    assert f"ssh://build{scene.root}" in {one["root"] for one in shown["workspaceDetails"]}


async def test_a_call_has_one_trace_in_the_records_of_both_managers(scene: Scene) -> None:
    client = scene.client(f"ssh://build{scene.root}")
    for _ in range(6):  # the last ones by cached routes
        await client.call("calculator", {"expression": "6*7"})

    async def traces(home: ManagerHome) -> list[str]:
        done = await home.lmtb("calls", "--tool", "calculator", "-n", "6", "--json")
        return [one["trace"] for one in json.loads(done.out)["calls"]]

    near: list[str] = []
    async with asyncio.timeout(30):
        while len(near) < 6 or near != await traces(scene.hosts.far):
            near = await traces(scene.hosts.near)
    assert len(set(near)) == 6


async def test_questions_about_the_server_go_to_its_own_manager(scene: Scene) -> None:
    done = await scene.hosts.near.lmtb("tools", "--cwd", f"ssh://build{scene.root}", "--json")
    assert done.code == 0, done.err
    assert "lm_readFile" in done.out


PARTS = {
    "the tool that reaches the host": "remote serve",
    "the manager there": "manager serve --background",
    "the server there": "workspace_server",
}


@pytest.mark.parametrize("part", PARTS)
async def test_a_session_outlives_the_death_of(scene: Scene, part: str) -> None:
    client = await SessionClient.connect(scene.http, scene.manager.address)
    assert (await client.handshake(f"ssh://build{scene.root}")).payload["ok"]
    for _ in range(3):
        victims = set(scene.hosts.far.processes(PARTS[part]))
        assert victims
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        await until(lambda gone=victims: not gone & set(scene.hosts.far.processes(PARTS[part])))
        async with asyncio.timeout(30):
            result: dict[str, object] = {"isError": True}
            while result.get("isError"):
                result = (await client.call("lm_readFile", READ)).result
        assert "app of the far host" in str(result)
    serving = scene.hosts.far.processes("remote serve")
    await until(
        lambda: (
            len([line for line in scene.hosts.far.processes("remote serve").values() if "sh -c" not in line])
            == 1
        )
    )
    assert serving


async def test_the_next_manager_knows_the_project(scene: Scene) -> None:
    client = await SessionClient.connect(scene.http, scene.manager.address)
    await client.handshake(f"ssh://build{scene.root}")
    port = scene.manager.port
    await scene.manager.killed()
    await until(lambda: not scene.hosts.far.processes("remote serve"))
    scene.manager = await scene.hosts.near.start(http_port=port)
    assert "app of the far host" in await text_of(client)


async def test_a_removed_host_is_left(scene: Scene) -> None:
    session = await SessionClient.connect(scene.http, scene.manager.address)
    await session.handshake(f"ssh://build{scene.root}")
    same = scene.client(f"ssh://build{scene.root}")
    await text_of(same)
    assert (await scene.hosts.near.lmtb("remote", "remove", NAME)).code == 0
    await until(lambda: not scene.hosts.far.processes("remote serve"))
    for client in (same, session, scene.client(f"ssh://build{scene.root}/src/")):
        refused = await client.call("lm_readFile", READ)
        assert refused.refusal["reason"] == "host_not_added"
    assert not scene.hosts.far.processes("remote serve")
    await scene.hosts.add()
    assert "app of the far host" in await text_of(same)
    assert "app of the far host" in await text_of(session)
