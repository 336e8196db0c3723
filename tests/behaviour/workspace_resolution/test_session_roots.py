"""A session client's roots tell in which project it works, whatever folder its address names."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import ClientSession

from lm_tools_bridge.protocol import headers, names
from support.clients.raw_clients import JSON
from support.clients.rooted_clients import Heard, RootedSession
from support.processes.managers.manager_in_process import RunningManager, make_project, running_manager
from support.projects.registered_setup import raw_http

pytestmark = pytest.mark.asyncio(loop_scope="module")
SUM = {"expression": "2 + 3"}
OWN = {names.HANDSHAKE, names.CALL_TOOL}


class Rooted(RootedSession):
    """With two requests that these tests need."""

    async def tools(self) -> Heard:
        return await self.listen(names.TOOLS_LIST)

    async def who(self) -> tuple[list[str], str]:
        """What the client was asked meanwhile, and the name of the project that answered."""
        called = await self.listen(
            names.TOOLS_CALL, {"name": "lm_readFile", "arguments": {"filePath": "who.txt"}}
        )
        [text] = [name for name in ("one", "two") if name in called.response["result"]["content"][0]["text"]]
        return called.asked, text

    async def sum(self) -> Heard:
        return await self.listen(names.TOOLS_CALL, {"name": "calculator", "arguments": SUM})


def tools_of(heard: Heard) -> set[str]:
    return {one["name"] for one in heard.response["result"]["tools"]}


@dataclass
class RootsSetup:
    manager: RunningManager
    http: ClientSession
    folders: list[Path] = field(default_factory=list)

    async def client(self, *uris: str, cls: type[Rooted] = Rooted) -> Rooted:
        client = await cls.connect(self.http, self.manager.address)
        client.has(*uris)
        return client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def setup(tmp_path_factory: Any) -> AsyncIterator[RootsSetup]:
    folder = tmp_path_factory.mktemp("session-roots")
    async with contextlib.AsyncExitStack() as stack:
        manager = await stack.enter_async_context(running_manager(folder / "manager"))
        http: ClientSession = await stack.enter_async_context(raw_http())
        folders = [
            make_project(folder / name, **{"src/a.txt": "a", "who.txt": name}) for name in ("one", "two")
        ]
        yield RootsSetup(manager, http, folders)


async def test_the_first_list_shows_the_tools_of_the_clients_root(setup: RootsSetup) -> None:
    """The client is asked once, on the list's own stream; no handshake is needed."""
    client = await setup.client((setup.folders[0] / "src").as_uri())
    listed = await client.tools()
    assert listed.asked == [names.ROOTS_LIST]
    assert tools_of(listed) > OWN | {"calculator"}
    assert listed.headers[headers.WORKSPACE_SOURCE] == "roots"
    called = await client.sum()
    assert (called.asked, called.response["result"]["content"][0]["text"]) == ([], "5")
    assert called.headers[headers.WORKSPACE_SOURCE] == "roots"


async def test_the_record_of_a_request_names_the_roots_it_asked_for(setup: RootsSetup) -> None:
    """So that a user can see why this workspace was chosen."""
    root = setup.folders[0].as_uri()
    await (await setup.client(root)).tools()
    async with setup.http.get(f"{setup.manager.base}/mcp/status") as response:
        status = await response.json()
    (shown,) = [one for one in status["clients"] if one["era"] == "legacy"]
    last = shown["requests"][-1]
    assert (last["method"], last["source"], last["sent"]) == (names.TOOLS_LIST, "roots", {"roots": root})


async def test_a_call_asks_for_roots_if_no_list_did(setup: RootsSetup) -> None:
    client = await setup.client(setup.folders[0].as_uri())
    wrapped = {"name": names.CALL_TOOL, "arguments": {"name": "calculator", "arguments": SUM}}
    called = await client.listen(names.TOOLS_CALL, wrapped)
    assert called.asked == [names.ROOTS_LIST]
    assert called.response["result"]["content"][0]["text"] == "5"


async def test_a_subscription_asks_for_roots_if_nothing_did(setup: RootsSetup) -> None:
    client = await setup.client(setup.folders[0].as_uri())
    subscribed = await client.listen(names.SUBSCRIBE, {"uri": "lm-tools://names"})
    assert subscribed.asked == [names.ROOTS_LIST]
    assert subscribed.response.get("error", {}).get("code") != 47100


async def test_concurrent_requests_ask_for_roots_once(setup: RootsSetup) -> None:
    client = await setup.client(setup.folders[0].as_uri())
    heard = await asyncio.gather(*(client.tools() for _ in range(5)))
    assert [method for one in heard for method in one.asked] == [names.ROOTS_LIST]
    assert all("calculator" in tools_of(one) for one in heard)


async def test_roots_in_several_workspaces_are_listed_as_candidates(setup: RootsSetup) -> None:
    client = await setup.client(*(one.as_uri() for one in setup.folders))
    refused = (await client.sum()).response["result"]["structuredContent"]["error"]
    assert refused["code"] == 47100
    assert [one["root"] for one in refused["details"]["candidates"]] == [str(one) for one in setup.folders]


NOTHING: Sequence[Mapping[str, Any]] = (
    {"error": {"code": -32601, "message": "no"}},
    {"result": {"roots": []}},
    {"result": {"roots": [{"uri": "vscode-remote://a/b"}, {"uri": "file:///nowhere/at/all"}, {}, 7]}},
    {"result": {"roots": "x"}},
    {"result": 7},
)


@pytest.mark.parametrize("answer", NOTHING, ids=range(len(NOTHING)))
async def test_roots_outside_any_workspace_are_not_asked_for_again(
    setup: RootsSetup, answer: Mapping[str, Any]
) -> None:
    client = await setup.client()
    client.answer = answer
    listed = await client.tools()
    assert (listed.asked, tools_of(listed)) == ([names.ROOTS_LIST], OWN)
    again = await client.sum()
    assert again.asked == []
    assert again.response["result"]["structuredContent"]["error"]["code"] == 47100


async def test_a_client_that_does_not_answer_delays_only_briefly(setup: RootsSetup, tmp_path: Path) -> None:
    """The request for roots is cancelled; a late response has no effect."""
    async with running_manager(tmp_path, roots_wait_s=0.05) as manager:
        await _say_nothing(await Rooted.connect(setup.http, manager.address))


async def _say_nothing(client: Rooted) -> None:
    listed = await client.tools()
    assert (listed.asked, listed.told, tools_of(listed)) == ([names.ROOTS_LIST], [names.CANCELLED], OWN)
    for _ in range(2):  # it may have been busy with its start
        assert (await client.tools()).asked == [names.ROOTS_LIST]
    assert (await client.tools()).asked == []
    await client.notify(names.ROOTS_CHANGED)
    assert (await client.tools()).asked == [names.ROOTS_LIST]


async def test_changed_roots_are_asked_for_again_and_change_the_lists(setup: RootsSetup) -> None:
    client = await setup.client(setup.folders[0].as_uri())
    await client.tools()
    before = await client.sum()
    async with client.stream() as stream:
        client.has(setup.folders[1].as_uri())
        assert (await client.notify(names.ROOTS_CHANGED)).status == 202
        async with asyncio.timeout(10):
            while names.TOOLS_CHANGED.encode() not in await stream.content.readline():
                pass
    listed = await client.tools()
    assert listed.asked == [names.ROOTS_LIST]
    after = await client.sum()
    assert after.headers[headers.WORKSPACE_ID] != before.headers[headers.WORKSPACE_ID]


async def test_a_handshake_beats_roots(setup: RootsSetup) -> None:
    """The client is not asked if the session or the request names a workspace."""
    client = await setup.client(setup.folders[0].as_uri())
    await client.handshake(setup.folders[1])
    called = await client.sum()
    assert (called.asked, called.headers[headers.WORKSPACE_SOURCE]) == ([], "session")


async def test_an_explicit_folder_beats_roots_that_are_not_asked_for(setup: RootsSetup) -> None:
    client = await setup.client(setup.folders[0].as_uri())
    wrapped = {"name": "calculator", "arguments": SUM, "cwd": str(setup.folders[1])}
    called = await client.listen(names.TOOLS_CALL, {"name": names.CALL_TOOL, "arguments": wrapped})
    assert (called.asked, called.headers[headers.WORKSPACE_SOURCE]) == ([], "argument")


def at_folder(client: Rooted, setup: RootsSetup, number: int, more: str = "") -> Rooted:
    """The client with the folder of a project in its address, as a variable of its shell would put it there."""
    client.url = f"{setup.manager.address}?cwd={setup.folders[number]}{more}"
    return client


async def test_roots_beat_the_folder_in_the_address(setup: RootsSetup) -> None:
    """The address names the folder of a shell; the agent works elsewhere. The first list is right, too."""
    client = at_folder(await setup.client(setup.folders[1].as_uri()), setup, 0)
    listed = await client.tools()
    assert listed.asked == [names.ROOTS_LIST]
    assert tools_of(listed).isdisjoint(OWN)
    for _ in range(3):
        assert await client.who() == ([], "two")
        called = await client.sum()
        assert called.headers[headers.WORKSPACE_SOURCE] == "roots"
        assert str(setup.folders[0]) in called.headers[headers.WORKSPACE_OVERRULED]


async def test_the_model_is_told_from_which_project_its_answer_is(setup: RootsSetup) -> None:
    """Where the address names another. What only computes is the same in all projects."""
    read = {"name": "lm_readFile", "arguments": {"filePath": "who.txt"}}
    for number, told in ((0, False), (1, True)):
        client = at_folder(await setup.client(setup.folders[number].as_uri()), setup, 0)
        called = await client.listen(names.TOOLS_CALL, read)
        note = called.response["result"]["content"][-1]["text"]
        assert (f"from the project {setup.folders[1]}: the client's roots decided" in note) == told


async def test_roots_that_agree_with_the_address_change_nothing(setup: RootsSetup) -> None:
    client = at_folder(await setup.client((setup.folders[0] / "src").as_uri()), setup, 0)
    assert (await client.tools()).asked == [names.ROOTS_LIST]
    called = await client.sum()
    assert called.headers[headers.WORKSPACE_ID].startswith("one-")
    assert called.headers[headers.WORKSPACE_SOURCE] == "query"
    assert headers.WORKSPACE_OVERRULED not in called.headers
    assert len(called.response["result"]["content"]) == 1


async def test_a_pinned_folder_beats_roots_that_are_not_asked_for(setup: RootsSetup) -> None:
    client = at_folder(await setup.client(setup.folders[1].as_uri()), setup, 0, "&pin=true")
    assert (await client.tools()).asked == []
    assert await client.who() == ([], "one")


async def test_roots_in_no_project_are_not_answered_from_the_address(
    setup: RootsSetup, tmp_path: Path
) -> None:
    """The list has the manager's own tools, with the reason as an issue; calls are refused, both folders named."""
    client = at_folder(await setup.client(tmp_path.as_uri()), setup, 0)
    listed = await client.tools()
    assert tools_of(listed) == OWN
    [issue] = listed.response["result"]["_meta"][names.META_ISSUES]
    refused = (await client.sum()).response["result"]["structuredContent"]["error"]
    assert refused["code"] == 47110
    for folder in (tmp_path, setup.folders[0]):
        assert str(folder) in issue["details"]
        assert str(folder) in refused["message"]


async def test_changed_roots_lead_away_from_the_address(setup: RootsSetup) -> None:
    client = at_folder(await setup.client(setup.folders[0].as_uri()), setup, 0)
    assert await client.who() == ([names.ROOTS_LIST], "one")
    assert await client.who() == ([], "one")
    client.has(setup.folders[1].as_uri())
    await client.notify(names.ROOTS_CHANGED)
    assert await client.who() == ([names.ROOTS_LIST], "two")


class ChangesSilently(Rooted):
    """It enters a worktree without a notification, as Claude Code does."""

    name = "claude-code"


async def test_roots_that_change_without_notice_are_asked_for_with_each_call(setup: RootsSetup) -> None:
    client = at_folder(await setup.client(setup.folders[0].as_uri(), cls=ChangesSilently), setup, 0)
    assert (await client.tools()).asked == [names.ROOTS_LIST]
    for number, name in ((0, "one"), (1, "two"), (0, "one")):
        client.has(setup.folders[number].as_uri())
        assert await client.who() == ([names.ROOTS_LIST], name)


class Rootless(Rooted):
    capabilities: Mapping[str, Any] = {}


def jsonly(client: Rooted) -> None:
    client.accept = JSON


@pytest.mark.parametrize(
    ("cls", "prepare"), [(Rootless, lambda _: None), (Rooted, jsonly)], ids=["not declared", "JSON only"]
)
async def test_a_client_that_cannot_be_asked_is_not_asked(
    setup: RootsSetup, cls: type[Rooted], prepare: Callable[[Rooted], None]
) -> None:
    client = await setup.client(setup.folders[0].as_uri(), cls=cls)
    prepare(client)
    listed = await client.tools()
    assert (listed.asked, tools_of(listed)) == ([], OWN)


async def test_after_a_cancelled_request_the_next_one_asks_for_roots(setup: RootsSetup) -> None:
    client = await setup.client()
    client.answer = None
    params = {"name": "calculator", "arguments": SUM}
    async with client.open(client.body(names.TOOLS_CALL, params, 77)) as response:
        while names.ROOTS_LIST.encode() not in await response.content.readline():
            pass
        await client.notify(names.CANCELLED, {"requestId": 77})
        await response.read()
    client.has(setup.folders[0].as_uri())
    called = await client.sum()
    assert (called.asked, called.response["result"]["content"][0]["text"]) == ([names.ROOTS_LIST], "5")


async def test_agents_that_leave_their_folder_are_offered_a_way_to_name_it(setup: RootsSetup) -> None:
    """Sub-agents in worktrees share the connection and the roots of their parent."""
    client = at_folder(await setup.client(setup.folders[0].as_uri(), cls=ChangesSilently), setup, 0)
    listed = (await client.tools()).response["result"]["tools"]
    assert [tool["name"] for tool in listed][-1] == names.CALL_TOOL
    read = {"name": "lm_readFile", "arguments": {"filePath": "who.txt"}, "cwd": str(setup.folders[1])}
    called = await client.listen(names.TOOLS_CALL, {"name": names.CALL_TOOL, "arguments": read})
    assert "two" in called.response["result"]["content"][0]["text"]


class Overtaken(Rooted):
    """Its notification that its roots changed arrives before its answer with the roots of before."""

    has_told = False

    async def reply(self, identity: Any) -> None:
        if not self.has_told:
            self.has_told = True
            await self.notify(names.ROOTS_CHANGED)
        await super().reply(identity)


async def test_roots_that_a_change_has_overtaken_are_not_kept(setup: RootsSetup) -> None:
    client = await setup.client(setup.folders[0].as_uri(), cls=Overtaken)
    await client.tools()
    client.has(setup.folders[1].as_uri())
    assert await client.who() == ([names.ROOTS_LIST], "two")
    assert await client.who() == ([], "two")
