"""A folder leads to its workspace, in any spelling.

The tests send `server/discover`, whose response names the workspace in a header and which starts nothing.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest
import pytest_asyncio
from aiohttp import ClientSession
from yarl import URL

from lm_tools_bridge.protocol import headers, names
from manager.routing.matching import workspace_id
from support.clients.raw_clients import SessionClient, StatelessClient
from support.processes.managers.manager_in_process import RunningManager, make_project, running_manager
from support.projects.registered_setup import raw_http
from support.servers.scripted.scripted_workspace_server import ScriptedWorkspaceServer

in_one_loop = pytest.mark.asyncio(loop_scope="module")
NOWHERE = None


class Tree:
    """A manager, and a folder full of projects of which it knows one."""

    def __init__(self, manager: RunningManager, http: ClientSession, top: Path) -> None:
        self.manager = manager
        self.top = top
        self._http = http

    async def ask(self, *, query: str | None = None, header: str | None = None) -> tuple[str | None, str]:
        """Folder of the workspace that is meant, below the top, and who decided it."""
        text = self.manager.address + ("" if query is None else f"?cwd={quote(query, safe='')}")
        client = StatelessClient(self._http, "")
        client.extra = {} if header is None else {headers.WORKSPACE_CWD: headers.encode_value(header)}
        body = client.body(names.DISCOVER, {}, 1)
        async with self._http.post(URL(text, encoded=True), data=body, headers=client.header(body)) as got:
            assert got.status == 200, await got.text()
            found = got.headers.get(headers.WORKSPACE_ID)
            source = got.headers[headers.WORKSPACE_SOURCE]
        folders = {workspace_id(str(self.top / one)): one for one in PROJECTS}
        return (None if found is None else folders[found]), source


MARKS = {
    "mono": ".git",
    "mono/pkg/a": ".git",
    "mono/pkg/b": ".vscode",
    "mono/pkg/c": ".lm-tools-bridge",
    "größe ☕": ".git",
    "two words": ".git",
    "only-code": ".vscode",
}
PROJECTS = [*MARKS, "mono/pkg/tree"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tree(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tree]:
    folder = tmp_path_factory.mktemp("tree").resolve()
    top = folder / "ws"
    for name, mark in MARKS.items():
        (top / name / mark).mkdir(parents=True)
    for plain in ("monolith", "mono-2", "mono/pkg/a/src/deep", "mono/pkg/plain", "two words/in"):
        (top / plain).mkdir(parents=True, exist_ok=True)
    (top / "mono/pkg/tree").mkdir()
    (top / "mono/pkg/tree/.git").write_text("gitdir: ../../.git/worktrees/tree")
    (top / "mono/file.txt").write_text("x")
    (top / "link").symlink_to("mono/pkg/a/src")
    (top / "mono/out").symlink_to(top / "monolith")
    async with running_manager(folder / "manager") as manager, raw_http() as http:
        made = Tree(manager, http, top)
        assert await made.ask(query=str(top / "mono")) == ("mono", "query")
        yield made


CASES: dict[str, tuple[str, str | None]] = {
    "the root itself": ("{top}/mono", "mono"),
    "a folder in it": ("{top}/mono/pkg/plain", "mono"),
    "the inner one": ("{top}/mono/pkg/a", "mono/pkg/a"),
    "deep in the inner one": ("{top}/mono/pkg/a/src/deep", "mono/pkg/a"),
    "a nearer mark beats a known parent": ("{top}/mono/pkg/c", "mono/pkg/c"),
    "an editor's folder does not": ("{top}/mono/pkg/b", "mono"),
    "but it does alone": ("{top}/only-code", "only-code"),
    "a work tree": ("{top}/mono/pkg/tree", "mono/pkg/tree"),
    "dots": ("{top}/mono/pkg/a/src/../../..", "mono"),
    "dots out of it": ("{top}/mono/..", NOWHERE),
    "a slash at the end": ("{top}/mono/", "mono"),
    "two slashes": ("{top}//mono//pkg///a", "mono/pkg/a"),
    "a prefix that is no parent": ("{top}/monolith", NOWHERE),
    "another prefix that is no parent": ("{top}/mono-2", NOWHERE),
    "capitals": ("{top}/MONO", NOWHERE),
    "a link into it": ("{top}/link", "mono/pkg/a"),
    "through a link": ("{top}/link/deep", "mono/pkg/a"),
    "a link out of it": ("{top}/mono/out", NOWHERE),
    "not ASCII": ("{top}/größe ☕", "größe ☕"),
    "a blank in it": ("{top}/two words/in", "two words"),
    "blanks around": ("  {top}/mono ", "mono"),
    "a URI": ("file://{top}/mono", "mono"),
    "a URI with a host": ("file://localhost{top}/two%20words", "two words"),
    "a URI of another host": ("file://elsewhere{top}/mono", NOWHERE),
    "relative": ("mono", NOWHERE),
    "missing": ("{top}/mono/missing", NOWHERE),
    "a file": ("{top}/mono/file.txt", NOWHERE),
    "too long": ("{top}/mono/" + "x/" * 2100, NOWHERE),
    "a NUL": ("{top}/mono\0", NOWHERE),
}


@in_one_loop
@pytest.mark.parametrize("case", CASES)
async def test_a_folder_leads_to_its_workspace_by_query_and_by_header(tree: Tree, case: str) -> None:
    written, expected = CASES[case]
    if case == "capitals" and (tree.top / "MONO").exists():
        expected = "mono"  # this file system takes them for the same
    written = written.format(top=tree.top)
    source = "none" if expected is NOWHERE else "query"
    assert await tree.ask(query=written) == (expected, source)
    assert await tree.ask(header=written) == (expected, source.replace("query", "header"))


@in_one_loop
@pytest.mark.parametrize(
    "text",
    ["", " ", "${PWD}", "$PWD", "%CD%", "{env:PWD}", "${workspaceFolder}", "${workspaceFolder}/x", "$(pwd)"],
)
async def test_an_unexpanded_placeholder_is_ignored(tree: Tree, text: str) -> None:
    """The header speaks then; a query that matches nothing lets it speak, too."""
    mono = str(tree.top / "mono")
    assert await tree.ask(query=text) == (NOWHERE, "none")
    assert await tree.ask(query=text, header=mono) == ("mono", "header")
    assert await tree.ask(query=mono, header=text) == ("mono", "query")


@in_one_loop
async def test_query_and_header_must_agree_unless_one_names_no_folder(tree: Tree) -> None:
    mono, words = str(tree.top / "mono"), str(tree.top / "two words")
    assert await tree.ask(query=mono, header=f"{mono}/") == ("mono", "query")
    for other in (words, str(tree.top / "monolith"), "/"):
        assert await tree.ask(query=mono, header=other) == (NOWHERE, "none"), other
        assert await tree.ask(query=other, header=mono) == (NOWHERE, "none"), other
    for miss in (str(tree.top / "missing"), "relative"):
        assert await tree.ask(query=miss, header=mono) == ("mono", "header"), miss
        assert await tree.ask(query=miss, header=miss) == (NOWHERE, "none"), miss


# -- with servers that are registered ----------------------------------------------------------------------


async def test_the_inner_workspace_is_found_whatever_heartbeats_arrive(
    manager: RunningManager, tmp_path: Path
) -> None:
    """60 times the same, with two servers on one folder likewise."""
    outer = make_project(tmp_path.resolve() / "outer")
    inner = make_project(outer / "pkg/inner", **{"src/x.py": ""})
    servers = [ScriptedWorkspaceServer(root, manager.paths.control_socket) for root in (inner, outer, inner)]
    async with servers[0].serving(), servers[1].serving(), servers[2].serving(registered=False):
        await servers[2].heartbeat()
        matched = set()
        for number in range(60):
            await servers[number % 3].heartbeat()
            answer = await servers[0].control("POST", "/resolve", {"cwd": str(inner / "src")})
            matched.add(answer["match"]["sessionId"])
        assert matched == {servers[0].session_id}
        assert await servers[2].state() == "standby"
        await servers[0].control("POST", "/bye", {"sessionId": servers[0].session_id})
        answer = await servers[1].control("POST", "/resolve", {"cwd": str(inner / "src")})
        assert answer["match"]["sessionId"] == servers[2].session_id


@pytest.mark.processes
async def test_a_server_for_the_root_folder_serves_what_no_nearer_one_does(
    manager: RunningManager, http: ClientSession, tmp_path: Path
) -> None:
    everything = ScriptedWorkspaceServer(Path("/"), manager.paths.control_socket)
    project = make_project(tmp_path / "proj")
    async with everything.serving():
        client = await SessionClient.connect(http, manager.address)
        payload = (await client.handshake("/etc")).payload
        assert payload["target"]["sessionId"] == everything.session_id
        assert payload["target"]["workspaceFolders"] == ["/"]
        discovered = await StatelessClient(http, f"{manager.address}?cwd={project}").ask(names.DISCOVER)
        assert discovered.headers[headers.WORKSPACE_ID] == workspace_id(str(project.resolve()))


async def test_a_server_registered_through_a_link_is_found_by_the_real_folder(
    manager: RunningManager, http: ClientSession, tmp_path: Path
) -> None:
    """And by the link; one workspace, with the id of the real path."""
    real = make_project(tmp_path.resolve() / "real")
    (tmp_path / "link").symlink_to(real)
    upstream = ScriptedWorkspaceServer(tmp_path / "link", manager.paths.control_socket)
    async with upstream.serving():
        client = await SessionClient.connect(http, manager.address)
        for place in (real, tmp_path / "link"):
            payload = (await client.handshake(place)).payload
            assert payload["target"]["sessionId"] == upstream.session_id
            assert (payload["workspace"], payload["cwd"]) == (workspace_id(str(real)), str(real))


@pytest.mark.processes
async def test_a_folder_deleted_and_recreated_is_the_same_workspace(
    manager: RunningManager, http: ClientSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """47107, its server is stopped; the same path again has the same id."""
    monkeypatch.setattr("manager.supervision.workspaces.ROOT_CHECK_S", 0.0)
    project = make_project(tmp_path.resolve() / "proj")
    client = await SessionClient.connect(http, manager.address)
    workspace = (await client.handshake(project)).payload["workspace"]
    async with http.get(manager.base + "/mcp/status") as response:
        (detail,) = (await response.json())["instanceDetails"]
    shutil.rmtree(project)
    refusal = (await client.call("calculator", {"expression": "6*7"})).refusal
    assert (refusal["code"], refusal["reason"]) == (47107, "workspace_gone")
    assert str(project) in refusal["message"]
    assert refusal["delivered"] == "no"
    with pytest.raises(ProcessLookupError):
        os.kill(detail["pid"], 0)
    make_project(project)
    assert (await client.call("calculator", {"expression": "6*7"})).payload == {"value": 42}
    assert (await client.handshake(project)).payload["workspace"] == workspace
