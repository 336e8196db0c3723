"""Many sessions with equal request ids in two workspaces each get their own responses.

Every call has a response that only it can have: its own sum, or its workspace's own file.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.protocol import headers, names
from support.clients.raw_clients import SessionClient, StatelessClient
from support.processes.managers.manager_in_process import RunningManager, make_project, running_manager
from support.processes.timeouts import GUARD_S
from support.projects.registered_setup import raw_http

pytestmark = pytest.mark.processes

SESSIONS = 50
CALLS_EACH = 100
AT_ONCE = 4


@pytest.fixture
async def manager(tmp_path: Path) -> AsyncIterator[RunningManager]:
    """It asks no server for its health: a busy machine would make these unhealthy."""
    async with running_manager(tmp_path / "manager", health_interval_s=3600.0) as running:
        yield running


class Caller:
    """One session and the workspace it must be served by."""

    def __init__(self, number: int, client: SessionClient, project: Path, workspace: str, other: str) -> None:
        self.number = number
        self.client = client
        self.project = project
        self.workspace = workspace
        self.other = other
        self.mixed: list[str] = []

    async def run(self, rng: random.Random) -> None:
        """Use every id once, several at a time, in an order of its own."""
        ids = list(range(CALLS_EACH))
        rng.shuffle(ids)
        kinds = [rng.randrange(4) for _ in ids]

        async def work() -> None:
            while ids:
                identity, kind = ids.pop(), kinds.pop()
                await self.call(identity, kind)
                if kind == 0:
                    await asyncio.sleep(0)

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))

    async def call(self, identity: int, kind: int) -> None:
        """One call, directly or wrapped; one kind of four goes to the other workspace by its handle."""
        nonce = self.number * 1_000_000 + identity
        name, workspace = "calculator", self.workspace
        arguments: dict[str, Any] = {"expression": f"{nonce}+0"}
        expected: dict[str, Any] = {"value": nonce}
        if kind in {1, 3}:
            name, arguments = "lm_readFile", {"filePath": "nonce.txt", "startLine": 1 + identity % 7}
        if kind >= 2:
            workspace = self.other if kind == 3 else self.workspace
            wrapped = {"name": name, "arguments": arguments}
            arguments = {**wrapped, "workspace": workspace} if kind == 3 else wrapped
            name = names.CALL_TOOL
        body = self.client.body(names.TOOLS_CALL, {"name": name, "arguments": arguments}, identity)
        answer = await self.client.post(body)
        payload = answer.payload
        if kind in {1, 3}:
            payload = {"content": payload["content"].partition("\n")[0]}
            expected = {"content": f"{workspace} line {1 + identity % 7}"}
        if (answer.message["id"], answer.headers[headers.WORKSPACE_ID], payload) != (
            identity,
            workspace,
            expected,
        ):
            self.mixed.append(f"session {self.number} id {identity}: {answer} instead of {expected}")


@pytest.mark.timeout(5 * GUARD_S)
async def test_5000_calls_of_50_sessions_with_equal_ids_get_their_own_responses(
    manager: RunningManager, tmp_path: Path
) -> None:
    """The main promise: own session, own workspace, own id, own answer; the handles cross over at will."""
    rng = random.Random(20260728)
    projects = [make_project(tmp_path / name) for name in ("one", "two")]
    async with raw_http(5 * GUARD_S) as http:
        clients = [await SessionClient.connect(http, manager.address) for _ in range(SESSIONS)]
        mine = [projects[number % 2] for number in range(SESSIONS)]
        answers = await asyncio.gather(
            *(client.handshake(cwd) for client, cwd in zip(clients, mine, strict=True))
        )
        ids = [answer.payload["workspace"] for answer in answers]
        assert len(set(ids)) == 2
        for project, workspace in zip(projects, ids[:2], strict=True):
            (project / "nonce.txt").write_text("".join(f"{workspace} line {n}\n" for n in range(1, 8)))
        callers = [
            Caller(number, clients[number], mine[number], ids[number], ids[1 - number % 2])
            for number in range(SESSIONS)
        ]
        await asyncio.gather(*(caller.run(random.Random(rng.random())) for caller in callers))
    assert [line for caller in callers for line in caller.mixed] == []


async def test_stateless_calls_with_equal_ids_get_their_own_responses(
    manager: RunningManager, tmp_path: Path
) -> None:
    """Modern clients all send id 1; only the connection tells whose it is."""
    project = make_project(tmp_path / "one")
    async with raw_http(GUARD_S) as http:
        client = StatelessClient(http, f"{manager.address}?cwd={project}")

        async def ask(number: int) -> bool:
            answer = await client.call("calculator", {"expression": f"{number}*2"}, identity=1)
            return answer.payload == {"value": number * 2}

        assert all(await asyncio.gather(*(ask(number) for number in range(200))))


async def test_concurrent_handshakes_of_one_session_do_not_mix(tmp_path: Path) -> None:
    """50 rounds at once; each answer names its own folder, the last binding stays."""
    projects = [make_project(tmp_path / name).resolve() for name in ("one", "two")]
    async with (
        running_manager(tmp_path / "manager", announce_hold_s=0.0) as manager,
        raw_http(GUARD_S) as http,
    ):
        client = await SessionClient.connect(http, manager.address)
        known = {cwd: (await client.handshake(cwd)).payload["workspace"] for cwd in projects}
        answers = await asyncio.gather(*(client.handshake(projects[number % 2]) for number in range(100)))
        for number, answer in enumerate(answers):
            cwd = projects[number % 2]
            assert answer.payload["cwd"] == str(cwd)
            assert answer.payload["workspace"] == known[cwd]
            assert answer.headers[headers.WORKSPACE_ID] == known[cwd]
        bound = (await client.call("calculator", {"expression": "1"})).headers[headers.WORKSPACE_ID]
        assert bound in known.values()
