"""What a person decides here about a project on another host, with real managers on both; only ssh is played."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tomllib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio
from aiohttp import ClientSession, CookieJar

from lm_tools_bridge.protocol import names
from support.clients.askable_client import AskableClient
from support.clients.page_client import opened, posted
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
    async with (
        two_hosts(tmp_path_factory.mktemp("hosts")) as hosts,
        ClientSession(cookie_jar=CookieJar(unsafe=True)) as http,
    ):
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


async def test_calls_are_heard_again_after_the_manager_there_was_replaced(scene: Scene) -> None:
    done = await scene.hosts.far.lmtb("restart")
    assert done.code == 0, done.err
    call = scene.calls()
    (row,) = await waiting(scene.hosts.near)
    assert (await asked(scene.hosts.near, "/approvals/answer", {"id": row["id"], "approve": False}))["counts"]
    assert (await call).refusal["reason"] == "approval_denied"


async def test_a_host_that_does_not_answer_delays_nobody_and_is_told(scene: Scene) -> None:
    call = scene.calls()
    (row,) = await waiting(scene.hosts.near)
    with stopped((await asked(scene.hosts.far, "/status"))["pid"]):
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


# -- settings of tools, and buttons ---------------------------------------------------------------------------


def settings(home: ManagerHome) -> dict[str, Any]:
    file = home.paths.config_dir / "workspace.toml"
    return tomllib.loads(file.read_text()) if file.exists() else {}


@dataclass
class Buttons:
    """The near manager's page in a browser that may act."""

    scene: Scene
    base: str
    proof: str

    async def press(self, action: str, **members: str) -> dict[str, Any]:
        message = {"action": action, **members}
        code, answer = await posted(
            self.scene.http, f"{self.base}/page/action", message, {"X-Page-Proof": self.proof}
        )
        assert code == 200
        return answer

    async def project(self) -> str:
        near = await self.scene.hosts.near.status()
        (identity,) = [one["id"] for one in near["workspaceDetails"] if one["root"] == self.scene.place]
        async with self.scene.http.get(f"{self.base}/page/project?id={identity}") as response:
            return await response.text()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def buttons(scene: Scene) -> Buttons:
    base = scene.manager.address.removesuffix("/mcp")
    manager: Any = SimpleNamespace(paths=scene.hosts.near.paths, base=base)
    return Buttons(scene, base, await opened(manager, scene.http))


async def test_tools_there_are_changed_at_the_terminal_here(scene: Scene) -> None:
    cwd = f"{NAME}:{scene.root}"
    for words in (
        ("deny", "risky"),
        ("visibility", "lm_readFile", "always"),
        ("visibility", "script_user", "ondemand", "--source"),
    ):
        done = await scene.hosts.near.lmtb("tools", *words, "--cwd", cwd)
        assert done.code == 0, done.err
        assert f"Written to {scene.hosts.far.paths.config_dir}/workspace.toml on ssh://{NAME}." in done.out
    there = settings(scene.hosts.far)
    assert there["approvals"] == {"risky": "deny"}
    assert there["visibility"] == {
        str(scene.root): {"tools": {"lm_readFile": "always"}, "sources": {"script_user": "ondemand"}}
    }
    assert settings(scene.hosts.near) == {}
    refused = (await StatelessClient(scene.http, scene.url).call("risky", {"what": "a"})).refusal
    assert refused["reason"] == "approval_denied"
    unknown = await scene.hosts.near.lmtb("tools", "allow", "riski", "--cwd", cwd)
    assert (unknown.code, "did you mean risky?" in unknown.err) == (1, True)


async def test_the_page_here_shows_and_changes_tools_there(scene: Scene, buttons: Buttons) -> None:
    root = scene.place
    shown = await buttons.project()
    assert "<strong>risky</strong>" in shown
    assert "own host" in shown
    done = await buttons.press("set-tool", root=root, tool="risky", change="ask")
    assert done["ok"], done
    assert done["text"].endswith(f"workspace.toml on ssh://{NAME}.")
    for source in ({"tool": "lm_readFile"}, {"source": "script_user"}):
        done = await buttons.press("set-visibility", root=root, visibility="default", **source)
        assert done["ok"], done
    there = settings(scene.hosts.far)
    assert (there["approvals"], there.get("visibility")) == ({"risky": "ask"}, None)
    gone = await buttons.press("set-tool", root=root, tool="riski", change="ask")
    assert (gone["ok"], gone["text"]) == (False, "No source offers riski any more: reload the page.")
    assert (await buttons.press("start-server", root=root))["ok"]
    assert (await buttons.press("retry-source", root=root, source="script_user"))["ok"]
    signed = await buttons.press("sign-in", root=root, source="remote:mail")
    assert f"lmtb servers login mail --cwd {scene.root}" in signed["text"]


async def test_a_call_there_is_always_allowed_on_the_page_here(scene: Scene, buttons: Buttons) -> None:
    call = scene.calls()
    (row,) = await waiting(scene.hosts.near)
    said = await buttons.press("answer-approval", id=row["id"], answer="always")
    assert said == {
        "ok": True,
        "text": f"risky on {NAME} was approved, once. risky runs without asking from now on, in every project on {NAME}.",
    }
    assert (await call).result["content"][0]["text"] == "done"
    assert settings(scene.hosts.far)["approvals"] == {"risky": "allow"}
    assert settings(scene.hosts.near) == {}


async def test_a_call_there_is_stopped_on_the_page_here(scene: Scene, buttons: Buttons) -> None:
    write_tool(scene.hosts.far.paths.config_dir / "tools", "slow", "import time; time.sleep(60)\n", "")
    client = StatelessClient(scene.http, scene.url)

    async def is_listed() -> bool:
        return "slow" in {one["name"] for one in (await client.ask(names.TOOLS_LIST)).result["tools"]}

    await eventually(is_listed)
    call = asyncio.create_task(client.call("slow"))

    async def running() -> str | None:
        calls = (await asked(scene.hosts.near, "/calls", {"cwd": scene.place}))["running"]
        return next((str(one["number"]) for one in calls if one["tool"] == "slow"), None)

    number = await eventually(running)
    said = await buttons.press("stop-call", root=scene.place, number=str(number), tool="slow")
    assert said == {"ok": True, "text": "slow was stopped."}
    assert (await asyncio.wait_for(call, 20)).refusal["code"] == 47123


async def test_reading_the_page_here_starts_no_server_there(scene: Scene, buttons: Buttons) -> None:
    for pid in scene.hosts.far.servers():
        os.kill(pid, signal.SIGKILL)

    async def is_told() -> bool:
        return f"ssh://{NAME} says: no server runs" in await buttons.project()

    await eventually(is_told, 30)
    assert ">Start</button>" in await buttons.project()
    assert not scene.hosts.far.servers()
    assert (await buttons.press("start-server", root=scene.place))["ok"]
    assert len(scene.hosts.far.servers()) == 1
