"""Listen streams announce changed lists and resources."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientResponse

from lm_tools_bridge.protocol import names
from support.clients.stateless_requests import body_of, events, headers_of
from support.processes.workspace_app import Serving, serving
from support.servers.mcp_sources.tool_source import ScriptedSource, handshake_result, offerings, tool
from workspace_server.catalog import toolset as toolset_module
from workspace_server.http import listen
from workspace_server.methods import resources


def source(namespace: str = "s", subscribe: bool = True, **offered: Any) -> ScriptedSource:
    made = ScriptedSource([tool("t")], identity=f"stdio:{namespace}", namespace=namespace)
    made.offered = offerings(**offered)
    made.greeted = handshake_result(resources={"subscribe": subscribe})
    return made


class Hanging(ScriptedSource):
    """A source that never says whether it tells of a resource; `asked` are those it was asked about."""

    def __init__(self, namespace: str) -> None:
        super().__init__([tool("t")], identity=f"stdio:{namespace}", namespace=namespace)
        self.offered = offerings(resources=[f"x://{namespace}"], templates=["x://{id}"])
        self.asked: list[str] = []

    async def subscribe(self, uri: str, listener: Any) -> Any:
        self.asked.append(uri)
        try:
            await asyncio.Event().wait()
        finally:
            self.asked.remove(uri)


@asynccontextmanager
async def listening(
    served: Serving, wanted: dict[str, Any], identity: str = "l"
) -> AsyncIterator[tuple[ClientResponse, dict[str, Any]]]:
    """A stream, and what it honours."""
    body = body_of(names.LISTEN, {"notifications": wanted}, identity)
    url = f"{served.base}/mcp"
    async with served.session.post(url, data=json.dumps(body), headers=headers_of(body)) as response:
        (acknowledged,) = await events(response, 1)
        assert acknowledged["method"] == names.ACKNOWLEDGED
        yield response, acknowledged["params"]["notifications"]
        response.close()


async def test_a_changed_resource_is_announced_on_its_subscribers_streams() -> None:
    made = source(resources=["x://1", "x://2"])
    async with (
        serving([made]) as served,
        listening(served, {"resourceSubscriptions": ["x://1"]}, "one") as (one, honoured),
        listening(served, {"resourceSubscriptions": ["x://2", "x://1"]}, "two") as (two, _),
    ):
        assert honoured == {"resourceSubscriptions": ["x://1"]}
        made.updated("x://2")
        (message,) = await events(two, 1)
        meta = {names.META_SUBSCRIPTION: "two"}
        assert message["method"] == "notifications/resources/updated"
        assert message["params"] == {"uri": "x://2", "_meta": meta}
        made.updated("x://1")
        for stream in (one, two):
            (message,) = await events(stream, 1)
            assert message["params"]["uri"] == "x://1"


async def test_a_constantly_changing_resource_is_announced_at_a_limited_rate() -> None:
    made = source(resources=["x://1", "x://2"])
    wanted = {"resourceSubscriptions": ["x://1", "x://2"]}
    async with serving([made]) as served, listening(served, wanted) as (stream, _):
        loop = asyncio.get_running_loop()
        began = loop.time()
        for _ in range(300):
            made.updated("x://1")
            await asyncio.sleep(0.001)
        made.updated("x://2")
        announced = []
        while "x://2" not in announced:
            (event,) = await events(stream, 1)
            announced.append(event["params"]["uri"])
        assert 0 < announced.count("x://1") <= (loop.time() - began) / listen.MIN_INTERVAL_S + 1


async def test_only_resources_that_sources_announce_are_accepted() -> None:
    """By the source that has it, or else by all that tell of any."""
    tells = source("a", resources=["x://1"], templates=["y://{id}"])
    silent = source("b", subscribe=False, resources=["x://2"])
    async with serving([silent, tells]) as served:
        await served.toolset.current()
        wanted = ["x://2", "x://1", "y://1", "z://unlisted", "lm-tools://names", "x://1"]
        kinds = {"resourceSubscriptions": wanted, "toolsListChanged": True, "promptsListChanged": False}
        async with listening(served, kinds) as (_, honoured):
            uris = ["x://1", "y://1", "z://unlisted"]
            assert honoured == {"toolsListChanged": True, "resourceSubscriptions": uris}
        assert silent.subscribers == {}


async def test_a_hanging_source_does_not_delay_other_subscriptions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resources, "SUBSCRIBE_S", 0.05)
    hangs, tells = Hanging("a"), source("b", resources=["x://b"])
    async with (
        serving([hangs, tells]) as served,
        listening(served, {"resourceSubscriptions": ["x://a", "x://b"]}) as (_, honoured),
    ):
        assert honoured == {"resourceSubscriptions": ["x://b"]}


async def test_a_client_that_leaves_before_the_acknowledgement_is_forgotten() -> None:
    hangs, tells = Hanging("a"), source("b", templates=["x://{id}"])
    async with serving([hangs, tells]) as served:
        await served.toolset.current()
        wanted = {"notifications": {"resourceSubscriptions": ["x://1"]}}
        asked = asyncio.ensure_future(served.caller.message(names.LISTEN, wanted))
        async with asyncio.timeout(10):
            while not (hangs.asked and tells.subscribers.get("x://1")):
                await asyncio.sleep(0.005)
            asked.cancel()
            while tells.subscribers["x://1"] or hangs.asked:
                await asyncio.sleep(0.005)


async def test_a_stream_that_ends_leaves_no_subscription() -> None:
    made = source(resources=["x://1"])
    async with serving([made]) as served:
        async with listening(served, {"resourceSubscriptions": ["x://1"]}):
            assert len(made.subscribers["x://1"]) == 1
        async with asyncio.timeout(5):
            while made.subscribers["x://1"]:
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("uris", ["x://1", [1], {"x": 1}, None])
async def test_a_list_of_something_else_than_uris_is_invalid(uris: Any) -> None:
    async with serving([source()]) as served:
        error = await served.caller.error(names.LISTEN, {"notifications": {"resourceSubscriptions": uris}})
        assert error["code"] == -32602


async def test_more_resources_than_one_stream_tells_of_are_not_honoured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listen, "MAX_RESOURCES", 2)
    uris = [f"x://{n}" for n in range(4)]
    async with (
        serving([source(resources=uris)]) as served,
        listening(served, {"resourceSubscriptions": uris}) as (_, honoured),
    ):
        assert honoured["resourceSubscriptions"] == uris[:2]


@pytest.mark.parametrize(
    ("change", "announced"),
    [
        ("prompts", [names.PROMPTS_CHANGED]),
        ("resources", [names.RESOURCES_CHANGED]),
        ("templates", [names.RESOURCES_CHANGED]),
        ("tools", [names.TOOLS_CHANGED, names.RESOURCES_CHANGED]),
        ("schema", [names.TOOLS_CHANGED]),
    ],
)
async def test_each_kind_of_list_is_announced_when_it_changed(
    change: str, announced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tool is a resource as well, by its name and description."""
    monkeypatch.setattr(toolset_module, "COALESCE_S", 0.01)
    made = source()
    kinds = {f"{kind}ListChanged": True for kind in ("tools", "prompts", "resources")}
    async with serving([made]) as served:
        await served.toolset.current()
        async with listening(served, kinds) as (stream, honoured):
            assert honoured == kinds
            if change == "tools":
                made.tools = (tool("u"),)
            elif change == "schema":
                made.tools = (tool("t", {"type": "object", "title": "T"}),)
            else:
                made.offered = offerings(**{change: ["x://1"]})
            served.toolset.touch()
            assert [event["method"] for event in await events(stream, len(announced))] == announced
            served.life.stop("test")
            (end,) = await events(stream, 1)
            assert "result" in end
