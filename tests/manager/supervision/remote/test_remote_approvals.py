"""Calls on another host that wait for a person, with real managers on both; only ssh is played."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio
from aiohttp import ClientSession

from protocol import names
from support.clients.askable_client import AskableClient
from support.clients.raw_clients import StatelessClient
from support.processes.hosts.two_hosts import NAME, TwoHosts, two_hosts
from support.processes.managers.manager_home import ManagerHome, ManagerProcess
from support.projects.gateway import eventually
from support.projects.script_tools import write_tool

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.processes]
SCRIPT = "import pathlib; pathlib.Path('ran.txt').open('a').write('x'); print('done')\n"
TOML = 'requires_approval = true\n[parameters.what]\ntype = "string"\n'


@dataclass
class Scene:
    """Both hosts, the near manager, and one project on the far host with a tool that asks."""

    hosts: TwoHosts
    manager: ManagerProcess
    http: ClientSession
    root: Path

    @property
    def place(self) -> str:
        return f"{self.hosts.address}{self.root}"

    @property
    def url(self) -> str:
        return f"{self.manager.address}?cwd={quote(self.place)}"

    def calls(self, what: str = "a") -> asyncio.Task[Any]:
        """A call of a client that cannot show forms."""
        return asyncio.create_task(StatelessClient(self.http, self.url).call("risky", {"what": what}))

    def runs(self) -> int:
        file = self.root / "ran.txt"
        return len(file.read_text()) if file.exists() else 0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    async with two_hosts(tmp_path_factory.mktemp("hosts")) as hosts, ClientSession() as http:
        root = hosts.project()
        write_tool(hosts.far.paths.config_dir / "tools", "risky", SCRIPT, TOML)
        made = Scene(hosts, await hosts.near.start(), http, root)
        await StatelessClient(http, made.url).ask(names.TOOLS_LIST)
        yield made


async def asked(home: ManagerHome, target: str, payload: dict[str, Any] | None = None) -> dict[str, Any]:
    if payload is None:
        return await asyncio.to_thread(home.control.get, target)
    return await asyncio.to_thread(home.control.post, target, payload)


async def waiting(home: ManagerHome, count: int = 1) -> list[dict[str, Any]]:
    async def found() -> list[dict[str, Any]] | None:
        rows = (await asked(home, "/approvals"))["approvals"]
        return [*rows, {}] if len(rows) == count else None

    return list((await eventually(found))[:-1])


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """A process that does nothing for a while."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


async def test_a_call_there_is_listed_here_and_runs_once_approved_here(scene: Scene) -> None:
    before, call = scene.runs(), scene.calls("<b>x</b>")
    (row,) = await waiting(scene.hosts.near)
    (there,) = await waiting(scene.hosts.far)
    assert (row["tool"], row["host"], row["root"]) == ("risky", NAME, scene.place)
    assert row["id"] == f"{NAME}:{there['id']}"
    assert row["question"] == "Run risky?\nwhat: <b>x</b>"
    assert scene.runs() == before
    shown = await scene.hosts.near.lmtb("approvals")
    assert f"{NAME}:{there['id'][:8]}" in shown.out
    said = await scene.hosts.near.lmtb("approvals", "approve", row["id"][:14], "--yes")
    assert (said.code, said.out.strip()) == (0, f"risky on {NAME} was approved, once.")
    assert (await call).result["content"][0]["text"] == "done"
    assert scene.runs() == before + 1
    await waiting(scene.hosts.near, 0)
    late = await asked(scene.hosts.far, "/approvals/answer", {"id": there["id"], "approve": False})
    assert (late["counts"], "approved on another host" in late["message"]) == (False, True)


async def test_the_first_of_answers_on_both_hosts_counts_once(scene: Scene) -> None:
    before, call = scene.runs(), scene.calls()
    (row,) = await waiting(scene.hosts.near)
    (there,) = await waiting(scene.hosts.far)
    answers = await asyncio.gather(
        asked(scene.hosts.near, "/approvals/answer", {"id": row["id"], "approve": True}),
        asked(scene.hosts.far, "/approvals/answer", {"id": there["id"], "approve": False}),
        asked(scene.hosts.near, "/approvals/answer", {"id": row["id"], "approve": False}),
    )
    (first,) = [one for one in answers if one["counts"]]
    done = await call
    assert bool(done.result.get("isError")) is (first["outcome"] == "denied")
    assert scene.runs() == before + (first["outcome"] == "approved")
    await waiting(scene.hosts.near, 0)


async def test_an_answer_there_withdraws_the_form_of_a_client_here(scene: Scene) -> None:
    before = scene.runs()
    client = await AskableClient.connect(scene.http, scene.manager.address)
    await client.handshake(scene.place)
    call = asyncio.create_task(client.call("risky", {"what": "a"}))
    (there,) = await waiting(scene.hosts.far)
    said = await asked(scene.hosts.far, "/approvals/answer", {"id": there["id"], "approve": True})
    assert said["counts"] is True
    done = await asyncio.wait_for(call, 20)
    assert done.result["content"][0]["text"] == "done"
    methods = [one.get("method") for one in done.messages]
    assert methods.index("elicitation/create") < methods.index("notifications/cancelled")
    assert scene.runs() == before + 1


async def test_a_host_that_does_not_answer_delays_nobody_and_is_told(scene: Scene) -> None:
    call = scene.calls()
    (row,) = await waiting(scene.hosts.near)
    (far,) = scene.hosts.far.processes("manager serve")
    with stopped(far):
        began = asyncio.get_running_loop().time()
        assert [one["id"] for one in (await asked(scene.hosts.near, "/approvals"))["approvals"]] == [
            row["id"]
        ]
        async with scene.http.get(f"{scene.manager.address.removesuffix('/mcp')}/?format=html") as page:
            shown = await page.text()
        assert "risky waits for your approval" in shown
        assert asyncio.get_running_loop().time() - began < 3
        said = await asked(scene.hosts.near, "/approvals/answer", {"id": row["id"], "approve": True})
        assert (said["counts"], said["outcome"]) == (False, "unknown")
        assert f"ssh://{NAME} did not answer in time" in said["message"]
    await asked(scene.hosts.near, "/approvals/answer", {"id": row["id"], "approve": True})
    assert (await asyncio.wait_for(call, 30)).result["content"][0]["text"] == "done"
    await waiting(scene.hosts.near, 0)
