"""A stateless client's roots tell with each call in which project it works."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import ClientSession

from lm_tools_bridge.protocol import headers, names
from support.clients.raw_clients import Answer, StatelessClient
from support.clients.rooted_clients import RootedStateless as Rooted
from support.processes.managers.manager_in_process import RunningManager, make_project, running_manager
from support.projects.registered_setup import raw_http

pytestmark = pytest.mark.asyncio(loop_scope="module")
SUM = {"expression": "2 + 3"}


@dataclass
class RootsSetup:
    manager: RunningManager
    client: Rooted
    folders: list[Path] = field(default_factory=list)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def setup(tmp_path_factory: Any) -> AsyncIterator[RootsSetup]:
    folder = tmp_path_factory.mktemp("roots")
    async with contextlib.AsyncExitStack() as stack:
        manager = await stack.enter_async_context(running_manager(folder / "manager"))
        http: ClientSession = await stack.enter_async_context(raw_http())
        yield RootsSetup(
            manager,
            Rooted(http, manager.address),
            [make_project(folder / name, **{"src/a.txt": "a"}) for name in ("one", "two")],
        )


DIRECT = {"name": "calculator", "arguments": SUM}
WRAPPED = {"name": names.CALL_TOOL, "arguments": {"name": "calculator", "arguments": SUM}}
BOTH_WAYS = pytest.mark.parametrize("params", [DIRECT, WRAPPED], ids=["by name", "callTool"])


@BOTH_WAYS
async def test_a_stateless_client_is_asked_for_its_roots_and_then_served(
    setup: RootsSetup, params: dict[str, Any]
) -> None:
    """In one round trip that the tool does not see."""
    asked = await setup.client.ask(names.TOOLS_CALL, params)
    assert asked.result["resultType"] == "input_required"
    assert list(asked.result["inputRequests"].values()) == [{"method": "roots/list"}]
    inside = (setup.folders[0] / "src").as_uri()
    answer = await setup.client.answered(asked, [inside], params)
    assert answer.result["content"][0]["text"] == "5"
    assert answer.headers["X-Workspace-Source"] == "roots"
    async with setup.client.http.get(f"{setup.manager.base}/mcp/status") as response:
        last = (await response.json())["clients"][-1]["requests"][-1]
    assert (last["source"], last["sent"]) == ("roots", {"roots": inside})


async def test_roots_in_several_workspaces_are_listed_as_candidates(setup: RootsSetup) -> None:
    """The candidates are named."""
    asked = await setup.client.ask(names.TOOLS_CALL, DIRECT)
    answer = await setup.client.answered(asked, [one.as_uri() for one in setup.folders], DIRECT)
    assert answer.refusal["code"] == 47100
    candidates = answer.refusal["details"]["candidates"]
    assert [one["root"] for one in candidates] == [str(one) for one in setup.folders]
    again = {"name": "calculator", "arguments": SUM, "workspace": candidates[1]["workspace"]}
    chosen = await setup.client.call(names.CALL_TOOL, again)
    assert chosen.result["content"][0]["text"] == "5"


@pytest.mark.parametrize("roots", [[], ["https://x.example/a"], ["file:///nowhere/at/all"], ["untitled:a"]])
async def test_roots_outside_any_workspace_are_ignored(setup: RootsSetup, roots: list[str]) -> None:
    """And the client is not asked twice about one call."""
    asked = await setup.client.ask(names.TOOLS_CALL, DIRECT)
    answer = await setup.client.answered(asked, roots, DIRECT)
    assert answer.refusal["code"] == 47100


async def test_a_client_without_roots_gets_the_next_step(setup: RootsSetup) -> None:
    plain = StatelessClient(setup.client.http, setup.client.url)
    assert (await plain.call("calculator", SUM)).refusal["code"] == 47100


async def test_lists_do_not_ask_for_roots(setup: RootsSetup) -> None:
    """MCP 2026-07-28: only `tools/call` can be answered with `input_required`."""
    listed = await setup.client.ask(names.TOOLS_LIST)
    assert {one["name"] for one in listed.result["tools"]} == {names.HANDSHAKE, names.CALL_TOOL}


async def served(setup: RootsSetup, client: Rooted, roots: list[str]) -> Answer:
    """The answer to a call whose roots were asked for, as they must be."""
    asked = await client.ask(names.TOOLS_CALL, DIRECT)
    assert asked.result["resultType"] == "input_required"
    return await client.answered(asked, roots, DIRECT)


async def test_roots_beat_the_folder_in_the_address_with_each_call(setup: RootsSetup) -> None:
    """The client changes them without notice: it entered a worktree."""
    client = Rooted(setup.client.http, f"{setup.manager.address}?cwd={setup.folders[0]}")
    for folder, source in (
        (setup.folders[0], "query"),
        (setup.folders[1], "roots"),
        (setup.folders[0], "query"),
    ):
        answer = await served(setup, client, [folder.as_uri()])
        assert answer.result["content"][0]["text"] == "5"
        assert answer.headers[headers.WORKSPACE_ID].startswith(f"{folder.name}-")
        assert answer.headers[headers.WORKSPACE_SOURCE] == source


async def test_roots_in_no_project_are_not_answered_from_the_address(
    setup: RootsSetup, tmp_path: Path
) -> None:
    client = Rooted(setup.client.http, f"{setup.manager.address}?cwd={setup.folders[0]}")
    refused = (await served(setup, client, [tmp_path.as_uri()])).refusal
    assert refused["code"] == 47110
    assert str(tmp_path) in refused["message"]
    assert str(setup.folders[0]) in refused["message"]


@pytest.mark.parametrize("roots", [[], ["https://x.example/a"], ["file:///"]])
async def test_roots_that_say_nothing_leave_it_to_the_address(setup: RootsSetup, roots: list[str]) -> None:
    client = Rooted(setup.client.http, f"{setup.manager.address}?cwd={setup.folders[0]}")
    answer = await served(setup, client, roots)
    assert answer.headers[headers.WORKSPACE_SOURCE] == "query"


@pytest.mark.parametrize("how", ["path", "pin", "cwd", "handle"])
async def test_a_named_workspace_is_not_asked_about(setup: RootsSetup, how: str) -> None:
    named, other = setup.folders[1], setup.folders[0]
    identity = (await setup.client.handshake(named)).payload["workspace"]
    urls = {
        "path": f"{setup.manager.base}/w/{identity}/mcp",
        "pin": f"{setup.manager.address}?cwd={named}&pin=true",
    }
    claims = {"cwd": {"cwd": str(named)}, "handle": {"workspace": identity}}.get(how)
    client = Rooted(setup.client.http, urls.get(how, f"{setup.manager.address}?cwd={other}"))
    wrapped = {"name": names.CALL_TOOL, "arguments": {**DIRECT, **(claims or {})}}
    answer = await client.ask(names.TOOLS_CALL, DIRECT if claims is None else wrapped)
    assert answer.headers[headers.WORKSPACE_ID] == identity
    assert answer.result["content"][0]["text"] == "5"


OTHER = {"name": "calculator", "arguments": {"expression": "2 + 4"}}


@pytest.mark.parametrize(
    ("params", "forged"),
    [(OTHER, {}), ({"name": "datetime", "arguments": {}}, {}), (DIRECT, {"requestState": "lmtbr.9999999999.AAAA"}),
     (DIRECT, {"requestState": "lmtbr." + "9" * 5000 + ".é"}), (DIRECT, {"requestState": "lmtbr.x"})],
    ids=["other arguments", "other tool", "forged", "endless", "nonsense"],
)  # fmt: skip
async def test_a_request_state_of_another_call_is_refused(
    setup: RootsSetup, params: dict[str, Any], forged: dict[str, Any]
) -> None:
    asked = await setup.client.ask(names.TOOLS_CALL, DIRECT)
    answer = await setup.client.answered(asked, [setup.folders[0].as_uri()], params, **forged)
    assert answer.error["code"] == -32602
    assert "call again" in answer.error["data"]["nextStep"]


async def test_agents_that_leave_their_folder_are_offered_a_way_to_name_it(setup: RootsSetup) -> None:
    """Here a stateless client of that kind, with file tools of its own; all others get the project's tools alone."""
    url = f"{setup.manager.address}?cwd={setup.folders[0]}"
    offered = {}
    for name in ("claude-code", "other"):
        meta = {names.META_CLIENT: {"name": name, "version": "1"}}
        listed = await Rooted(setup.client.http, url).ask(names.TOOLS_LIST, {"_meta": meta})
        offered[name] = [tool["name"] for tool in listed.result["tools"]]
    assert offered["claude-code"] == [names.CALL_TOOL]
    assert offered["other"]
    assert names.CALL_TOOL not in offered["other"]
