"""`lmToolsBridge.callTool`: valid and invalid arguments, and the workspace that they choose."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.protocol import headers, names
from support.clients.raw_clients import Client
from support.projects.registered_setup import RegisteredSetup, registered_setup
from support.servers.scripted.scripted_workspace_server import ScriptedWorkspaceServer, result

ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])


@dataclass
class Pair:
    """Two workspaces: `setup.upstream` answers `from: one`, `two` answers `from: two`."""

    setup: RegisteredSetup
    two: ScriptedWorkspaceServer
    ids: tuple[str, str]

    async def client(self, era: str) -> Client:
        return await self.setup.legacy() if era == "legacy" else self.setup.modern(pure=False)


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    folder = tmp_path.resolve()
    (folder / "two").mkdir()
    async with registered_setup(folder) as setup:
        two = ScriptedWorkspaceServer(folder / "two", setup.manager.paths.control_socket)
        async with two.serving():
            one_id, two_id = [
                (await setup.modern(pure=False).handshake(cwd)).payload["workspace"]
                for cwd in (setup.upstream.root, two.root)
            ]
            setup.upstream.answers["echo"] = result({"content": [], "from": "one"})
            two.answers["echo"] = result({"content": [], "from": "two"})
            yield Pair(setup, two, (one_id, two_id))


@ERAS
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "expected name (string)"),
        ({"name": None}, "expected name (string)"),
        ({"name": 5}, "expected name (string)"),
        ({"name": "  "}, "expected name (string)"),
        ({"name": "echo", "arguments": []}, "expected arguments (object)"),
        ({"name": "echo", "arguments": None}, "expected arguments (object)"),
        ({"name": "echo", "arguments": '{"a":1}'}, "expected arguments (object)"),
        ({"name": "echo", "workspace": 5}, "expected workspace (string)"),
        ({"name": "echo", "cwd": ["/"]}, "expected cwd (string)"),
        *(
            ({"name": name}, f"tool name is not allowed: {name.strip()}")
            for name in (*sorted(names.MANAGER_TOOL_NAMES), " callTool ")
        ),
    ],
)
async def test_invalid_arguments_are_refused_without_forwarding(
    pair: Pair, era: str, arguments: Any, message: str
) -> None:
    """A tool result, so that the model can correct itself."""
    refusal = (await (await pair.client(era)).call(names.CALL_TOOL, arguments)).refusal
    assert (refusal["code"], refusal["reason"]) == (-32602, "invalid_arguments")
    assert refusal["message"] == message
    assert pair.setup.upstream.called() == []


@ERAS
@pytest.mark.parametrize("name", ["lmToolsBridge.callTool", "callTool", "lmToolsBridge.callBridgedTool"])
async def test_both_names_work_and_missing_arguments_are_empty(pair: Pair, era: str, name: str) -> None:
    """Blanks around the tool's name do not count."""
    client = await pair.client(era)
    answer = await client.call(name, {"name": "\techo ", "workspace": pair.ids[0]})
    assert answer.result["from"] == "one"
    (call,) = pair.setup.upstream.called("echo")
    assert call.params["arguments"] == {}
    assert call.params.keys() == {"name", "arguments", "_meta"}


@ERAS
@pytest.mark.parametrize("claim", ["workspace", "cwd", "both"])
async def test_an_argument_chooses_the_workspace_of_one_call(pair: Pair, era: str, claim: str) -> None:
    """Over the binding, which stays."""
    client = await pair.client(era)
    claims = {"workspace": pair.ids[1], "cwd": str(pair.two.root)}
    sent = {key: text for key, text in claims.items() if claim in (key, "both")}
    answer = await client.call(names.CALL_TOOL, {"name": "echo", **sent})
    assert answer.result["from"] == "two"
    assert answer.headers[headers.WORKSPACE_SOURCE] == "argument"
    assert answer.headers[headers.WORKSPACE_ID] == pair.ids[1]
    after = await client.call(names.CALL_TOOL, {"name": "echo"})
    if era == "legacy":
        assert after.result["from"] == "one"
        assert after.headers[headers.WORKSPACE_SOURCE] == "session"
    else:
        assert after.refusal["code"] == 47100
        assert after.headers[headers.WORKSPACE_SOURCE] == "none"


@ERAS
async def test_a_handle_and_a_cwd_that_disagree_are_refused(pair: Pair, era: str) -> None:
    client = await pair.client(era)
    sent = {"name": "echo", "workspace": pair.ids[0], "cwd": str(pair.two.root)}
    refusal = (await client.call(names.CALL_TOOL, sent)).refusal
    assert (refusal["code"], refusal["reason"]) == (47110, "conflicting_workspace")
    assert refusal["message"] == f"conflicting workspace: {pair.ids[0]} and {pair.ids[1]}"


@ERAS
@pytest.mark.parametrize(
    ("claims", "code", "word"),
    [
        ({"workspace": "nobody-00000000"}, 47101, "workspace_not_matched"),
        ({"cwd": "/usr"}, 47101, "workspace_not_matched"),
        ({"cwd": "relative"}, -32602, "invalid_cwd"),
        ({"cwd": "/gone/for/ever"}, -32602, "invalid_cwd"),
    ],
)
async def test_an_unmatched_claim_is_refused_even_in_a_bound_session(
    pair: Pair, era: str, claims: dict[str, str], code: int, word: str
) -> None:
    """What is said explicitly never falls back."""
    client = await pair.client(era)
    refusal = (await client.call(names.CALL_TOOL, {"name": "echo", **claims})).refusal
    assert (refusal["code"], refusal["reason"]) == (code, word)
    assert pair.setup.upstream.called("echo") == []


@pytest.mark.parametrize("wrapped", [False, True], ids=["direct", "wrapped"])
async def test_a_server_that_comes_back_elsewhere_is_found_without_a_handshake(
    pair: Pair, wrapped: bool
) -> None:
    """The binding follows the workspace, not the address."""
    client = await pair.setup.legacy(bound=False)
    root = pair.setup.upstream.root.parent / "moving"
    root.mkdir()
    name, arguments = (names.CALL_TOOL, {"name": "echo"}) if wrapped else ("echo", {})
    before = ScriptedWorkspaceServer(root, pair.setup.manager.paths.control_socket)
    async with before.serving():
        before.answers["echo"] = result({"content": [], "from": "before"})
        await client.handshake(root)
        assert (await client.call(name, arguments)).result["from"] == "before"
    after = ScriptedWorkspaceServer(root, pair.setup.manager.paths.control_socket)
    after.session_id, after.nonce, after.secret = before.session_id, before.nonce, before.secret
    async with after.serving():
        after.answers["echo"] = result({"content": [], "from": "after"})
        assert (await client.call(name, arguments)).result["from"] == "after"
    assert after.port != before.port


@pytest.mark.parametrize("wrapped", [False, True], ids=["direct", "wrapped"])
async def test_another_program_on_the_old_port_gets_no_call(pair: Pair, wrapped: bool) -> None:
    """A refusal, and not one byte of the call reaches the other server."""
    client = await pair.setup.legacy(bound=False)
    root = pair.setup.upstream.root.parent / "gone"
    root.mkdir()
    name, arguments = (names.CALL_TOOL, {"name": "echo"}) if wrapped else ("echo", {})
    gone = ScriptedWorkspaceServer(root, pair.setup.manager.paths.control_socket)
    async with gone.serving():
        await client.handshake(root)
        assert (await client.call(name, arguments)).result["content"]
    other_server = ScriptedWorkspaceServer(pair.two.root, pair.setup.manager.paths.control_socket)
    other_server.port = gone.port
    async with other_server.serving(registered=False):
        refusal = (await client.call(name, arguments)).refusal
        assert (refusal["code"], refusal["delivered"]) == (47102, "no")
        assert other_server.health_asked > 0
        assert other_server.received == []


async def test_absolute_paths_in_the_arguments_tell_the_project_if_nothing_else_does(pair: Pair) -> None:
    client, two = await pair.client("modern"), str(pair.two.root)
    given: tuple[dict[str, Any], ...] = (
        {"file": f"{two}/new.py"},
        {"file": f"{two}/new/folder/x.py"},
        {"a": two, "b": f"{two}/y.py", "c": "relative.py", "n": 1},
        {"paths": [f"{two}/x.py", "relative.py", 7]},
        {"uri": f"file://{two}/x.py"},
        {"path": two, "query": "//TODO", "route": "/users/"},
    )
    for paths in given:
        answer = await client.call(names.CALL_TOOL, {"name": "echo", "arguments": paths})
        assert answer.result["from"] == "two"
        assert answer.headers[headers.WORKSPACE_SOURCE] == "paths"


async def test_paths_in_several_projects_or_in_none_tell_nothing(pair: Pair) -> None:
    client, one, two = await pair.client("modern"), str(pair.setup.upstream.root), str(pair.two.root)
    for paths in (
        {"a": one, "b": two},
        {"a": "/", "b": "/users/x"},
        {"a": "x.py"},
        {},
        {f"{number}": f"{two}/{number}" for number in range(9)},
    ):
        refused = (await client.call(names.CALL_TOOL, {"name": "echo", "arguments": paths})).refusal
        assert refused["code"] == 47100


async def test_a_path_in_the_arguments_does_not_overrule_a_claim(pair: Pair) -> None:
    """Tools may be told to look at files of other projects."""
    client, one, two = await pair.client("modern"), str(pair.setup.upstream.root), str(pair.two.root)
    wrapped = {"name": "echo", "arguments": {"file": f"{two}/x.py"}, "cwd": one}
    assert (await client.call(names.CALL_TOOL, wrapped)).result["from"] == "one"
