"""Which claim decides when several name a workspace."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from lm_tools_bridge.protocol import headers, names
from support.clients.raw_clients import Answer, SessionClient, StatelessClient
from support.processes.managers.manager_in_process import RunningManager, make_project
from support.servers.scripted.scripted_workspace_server import ScriptedWorkspaceServer

WORK = {"name": "work", "inputSchema": {"type": "object"}}


@dataclass
class Two:
    """Two projects with their servers; `A` and `B` are their handles, `a` and `b` folders in them."""

    manager: RunningManager
    http: ClientSession
    servers: dict[str, ScriptedWorkspaceServer]
    ids: dict[str, str]

    def text(self, word: str | None) -> str:
        """What stands for a letter: a handle for a capital one, a folder for a small one, else itself."""
        if word in self.ids:
            return self.ids[word]
        server = self.servers.get((word or "").upper())
        return str(word) if server is None else f"{server.root}/src"

    def url(self, *, path: str | None = None, query: str | None = None, is_pinned: bool = False) -> str:
        """A URL of the MCP endpoint."""
        base = self.manager.base + (f"/w/{self.text(path)}/mcp" if path else "/mcp")
        return base + (f"?cwd={self.text(query)}" if query else "") + ("&pin=true" if is_pinned else "")

    def served(self) -> str:
        """Letters of the servers that were called since the last time."""
        letters = "".join(letter * len(one.called()) for letter, one in self.servers.items())
        for one in self.servers.values():
            one.received.clear()
        return letters

    async def legacy(self, bound: str | None, url: str) -> SessionClient:
        """A session at a URL, bound to a project."""
        client = await SessionClient.connect(self.http, self.manager.address)
        if bound is not None:
            assert (await client.handshake(self.text(bound.lower()))).payload["workspace"] == self.ids[bound]
        client.url = url
        self.served()
        return client


@pytest.fixture
async def two(manager: RunningManager, http: ClientSession, tmp_path: Path) -> AsyncIterator[Two]:
    async with contextlib.AsyncExitStack() as stack:
        servers, ids = {}, {}
        for letter in "AB":
            root = make_project(tmp_path.resolve() / f"project-{letter}", **{"src/x.py": ""})
            servers[letter] = ScriptedWorkspaceServer(root, manager.paths.control_socket)
            servers[letter].tools = [WORK]
            await stack.enter_async_context(servers[letter].serving())
            answer = await StatelessClient(http, manager.address).handshake(root)
            ids[letter] = answer.payload["workspace"]
        yield Two(manager, http, servers, ids)


@dataclass(frozen=True)
class Case:
    """The claims of a request, the server that must be called and the deciding claim; or an `error` code.

    `path`, `workspace` and `bound` are handles (capitals), `cwd`, `query` and `header` folders (small).
    """

    served: str = ""
    source: str = "none"
    path: str | None = None
    workspace: str | None = None
    cwd: str | None = None
    bound: str | None = None
    query: str | None = None
    header: str | None = None
    is_pinned: bool = False
    error: int | None = None


LADDER = {
    "nothing": Case(error=47100),
    "path": Case("A", "path", path="A"),
    "argument: handle": Case("A", "argument", workspace="A"),
    "argument: folder": Case("A", "argument", cwd="a"),
    "session": Case("A", "session", bound="A"),
    "query": Case("A", "query", query="a"),
    "header": Case("A", "header", header="a"),
    "path over query and header": Case("A", "path", path="A", query="b", header="b"),
    "path over session": Case("A", "path", path="A", bound="B"),
    "argument over session": Case("A", "argument", workspace="A", bound="B"),
    "folder over session": Case("A", "argument", cwd="a", bound="B"),
    "argument over query": Case("A", "argument", workspace="A", query="b", header="b"),
    "folder over query": Case("A", "argument", cwd="a", query="b"),
    "session over query and header": Case("A", "session", bound="A", query="b", header="b"),
    "query agrees with header": Case("A", "query", query="a", header="a"),
    "query against header": Case(query="a", header="b", error=47110),
    "pinned over header": Case("A", "query", query="a", header="b", is_pinned=True),
    "pinned against session": Case("A", "query", query="a", bound="B", is_pinned=True),
    "folder against pinned": Case(query="a", cwd="b", is_pinned=True, error=47110),
    "argument agrees with path": Case("A", "path", path="A", workspace="A", cwd="a"),
    "handle agrees with folder": Case("A", "argument", workspace="A", cwd="a", bound="B"),
    "handle against path": Case(path="A", workspace="B", error=47110),
    "folder against path": Case(path="A", cwd="b", error=47110),
    "handle against folder": Case(workspace="A", cwd="b", error=47110),
    "handle against folder, bound": Case(workspace="A", cwd="b", bound="A", error=47110),
    "unknown handle": Case(workspace="nobody-12345678", error=47101),
    "unknown handle, bound": Case(workspace="nobody-12345678", bound="A", error=47101),
    "unknown folder, bound": Case(cwd="/", bound="A", error=47101),
    "impossible folder, bound": Case(cwd="relative", bound="A", error=-32602),
    "a miss in the query, header": Case("B", "header", query="relative", header="b"),
}


async def call(two: Two, case: Case, *, modern: bool) -> tuple[Answer, SessionClient | None]:
    """The call of a case; an argument makes it one through `callTool`."""
    url = two.url(path=case.path, query=case.query, is_pinned=case.is_pinned)
    client: Any = StatelessClient(two.http, url) if modern else await two.legacy(case.bound, url)
    two.served()
    if case.header is not None:
        client.extra = {headers.WORKSPACE_CWD: two.text(case.header)}
    if case.workspace is None and case.cwd is None:
        answer: Answer = await client.call("work")
    else:
        said = {"workspace": case.workspace, "cwd": case.cwd}
        given = {name: two.text(word) for name, word in said.items() if word is not None}
        answer = await client.call(names.CALL_TOOL, {"name": "work", **given})
    return answer, None if modern else client


@pytest.mark.parametrize(
    ("name", "modern"),
    [(name, False) for name in LADDER] + [(name, True) for name, case in LADDER.items() if not case.bound],
)
async def test_claims_decide_in_order(two: Two, name: str, modern: bool) -> None:
    """1 path, 2 argument, 3 session, 4 query and header; conflicts are told."""
    case = LADDER[name]
    answer, client = await call(two, case, modern=modern)
    assert two.served() == case.served
    if case.error is None:
        assert answer.result["content"]
        assert answer.headers[headers.WORKSPACE_ID] == two.ids[case.served]
        assert answer.headers[headers.WORKSPACE_SOURCE] == case.source
    else:
        assert answer.refusal["code"] == case.error
        assert headers.WORKSPACE_ID not in answer.headers
        if case.error == 47110:
            places = (two.ids, {letter: two.text(letter.lower()) for letter in two.ids})
            message = answer.refusal["message"]
            assert any(all(place in message for place in both.values()) for both in places), message
    if client is not None and case.bound is not None:
        client.url, client.extra = two.manager.address, {}
        assert (await client.call("work")).headers[headers.WORKSPACE_ID] == two.ids[case.bound]
        assert two.served() == case.bound


@pytest.mark.parametrize("modern", [False, True])
@pytest.mark.parametrize(
    ("path", "query", "cwd", "expected"),
    [("A", None, "a", "A"), ("A", None, "b", 47110), (None, "a", "b", "B"), (None, "a", "a", "A")],
)
async def test_a_handshake_at_a_workspaces_url(
    two: Two, modern: bool, path: str | None, query: str | None, cwd: str, expected: str | int
) -> None:
    """Served if both name the same workspace; the argument beats a query."""
    url = two.url(path=path, query=query)
    client: Any = StatelessClient(two.http, url) if modern else await two.legacy("A", url)
    answer = await client.handshake(two.text(cwd))
    if isinstance(expected, int):
        assert answer.refusal["code"] == expected
        assert all(handle in answer.refusal["message"] for handle in two.ids.values())
    else:
        assert answer.payload["workspace"] == two.ids[expected]


@pytest.mark.parametrize("endpoint", [{"path": "A"}, {"query": "a"}])
async def test_a_workspaces_url_shows_only_the_workspaces_entries(two: Two, endpoint: dict[str, str]) -> None:
    """For session and stateless clients, whatever the session is bound to."""
    clients: list[Any] = [StatelessClient(two.http, two.url(**endpoint))]
    clients.append(await two.legacy("B" if "path" in endpoint else None, two.url(**endpoint)))
    for client in clients:
        listed = (await client.ask(names.TOOLS_LIST)).result["tools"]
        assert [tool["name"] for tool in listed] == ["work"]


@pytest.mark.parametrize("folder", ["{}/src", "file://{}/src"])
async def test_codexs_folder_decides_if_nothing_else_does(two: Two, folder: str) -> None:
    """The sandbox folder; the session's binding beats it."""
    told = {"codex/sandbox-state-meta": {"sandboxCwd": folder.format(two.servers["B"].root)}}
    unbound = await two.legacy(None, two.url())
    answer = await unbound.call("work", meta=told)
    assert (two.served(), answer.headers[headers.WORKSPACE_SOURCE]) == ("B", "codex")
    bound = await two.legacy("A", two.url())
    answer = await bound.call("work", meta=told)
    assert (two.served(), answer.headers[headers.WORKSPACE_SOURCE]) == ("A", "session")


async def test_clients_and_the_deciding_claim_are_recorded(two: Two) -> None:
    """For session and stateless clients, handshakes included; arguments are not recorded."""
    session = await two.legacy("A", two.url())
    session.extra = {headers.WORKSPACE_CWD: "/nowhere"}
    await session.call("work", {"secret": "s3cret"})
    await StatelessClient(two.http, two.url(query="b")).call("work")
    async with two.http.get(two.manager.base + "/mcp/status") as response:
        status = await response.json()
    assert "s3cret" not in str(status)
    shown = {one["era"]: one for one in status["clients"]}
    assert (shown["legacy"]["name"], shown["legacy"]["protocolVersion"]) == ("test", "2025-11-25")
    handshake, call = shown["legacy"]["requests"]
    assert (handshake["source"], handshake["workspace"]) == ("argument", two.ids["A"])
    assert (call["method"], call["source"], call["workspace"]) == ("tools/call", "session", two.ids["A"])
    assert call["sent"] == {"X-Workspace-Cwd": "/nowhere"}
    call = shown["modern"]["requests"][-1]
    assert (call["source"], call["workspace"]) == ("query", two.ids["B"])
    assert call["sent"]["?cwd"].endswith("/src")


async def test_a_claim_too_long_for_a_folder_is_not_recorded(two: Two) -> None:
    """Folders in a body are limited like headers."""
    unbound = await two.legacy(None, two.url())
    told = {"codex/sandbox-state-meta": {"sandboxCwd": "/" + "x" * 100_000}}
    assert (await unbound.call("work", meta=told)).refusal["code"] == 47100
    async with two.http.get(two.manager.base + "/mcp/status") as response:
        assert "xxxx" not in await response.text()
