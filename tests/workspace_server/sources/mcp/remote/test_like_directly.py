"""A remote server answers through a source as it answers the SDK's client directly, in both eras."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import mcp
import msgspec
import pytest

from support.processes.timeouts import within
from support.servers.mcp_sources.remote_source import MakeSource, call
from support.servers.sdk_servers.third_party import Era, ThirdParty, direct, third_party
from support.servers.sdk_servers.third_party_content import FOREIGN_DEFINITIONS, PLAIN
from workspace_server.sources.mcp.remote.source import RemoteSource
from workspace_server.tool import RpcError

pytestmark = pytest.mark.processes


@dataclass(frozen=True)
class Endpoint:
    """A URL, and the era in which the SDK's client uses it."""

    url: str
    era: Era


CONTENT = [name for name in PLAIN if name not in ("hidden", "appeared")]
ENDPOINTS: dict[str, tuple[str, Era]] = {
    "streamable HTTP, legacy only": ("legacy/mcp", "legacy"),
    "streamable HTTP, modern only": ("modern/mcp", "modern"),
    "HTTP with SSE": ("sse", "legacy"),
}


@pytest.fixture(scope="module")
def process() -> Iterator[ThirdParty]:
    with third_party("http", "--page-size=10") as server:
        yield server


@pytest.fixture(params=ENDPOINTS)
def endpoint(request: pytest.FixtureRequest, process: ThirdParty) -> Endpoint:
    path, era = ENDPOINTS[request.param]
    return Endpoint(process.at(path), era)


@pytest.fixture
def source(endpoint: Endpoint, make_source: MakeSource) -> RemoteSource:
    return make_source(endpoint.url)


def complete(result: dict[str, Any]) -> dict[str, Any]:
    """The result as callers receive it: with `resultType`, which legacy servers do not send."""
    return {"resultType": "complete", **result}


async def test_definitions_and_every_content_kind(endpoint: Endpoint, source: RemoteSource) -> None:
    tools = {tool.name: tool for tool in await source.list_tools()}
    assert (source.state, source.error, source.stale) == ("ready", None, False)
    async with direct(endpoint.url, endpoint.era) as client:
        definitions = await client.definitions()
        assert [tool.definition for tool in tools.values()] == definitions
        assert FOREIGN_DEFINITIONS["decorated"].items() <= tools["decorated"].definition.items()
        for name in (*CONTENT, "text", "is_error", "progress"):
            arguments = {"region": "größe "} if name == "routed" and endpoint.era == "legacy" else {}
            assert await call(source, name, arguments) == complete(await client.call(name, arguments)), name
        with pytest.raises(mcp.MCPError) as refused:
            await client.call("rpc_error")
    error = await call(source, "rpc_error")
    assert isinstance(error, RpcError)
    assert isinstance(error.data, msgspec.Raw)
    assert (error.code, error.message, json.loads(bytes(error.data))) == (
        refused.value.code,
        refused.value.message,
        refused.value.data,
    )


async def test_arguments_are_mirrored_into_headers(endpoint: Endpoint, source: RemoteSource) -> None:
    """The modern server compares the header with the argument."""
    await source.list_tools()
    for region in ("eu-1", " größe\n", 'with "quotes"'):
        assert (await call(source, "routed", {"region": region}))["content"][0]["text"] == "routed"


async def test_meta_and_all_characters_are_passed_on(endpoint: Endpoint, source: RemoteSource) -> None:
    """Unknown `_meta` keys and every Unicode character arrive unchanged."""
    arguments = {"text": '\n\t\u2028"}\\☕😀', "big": 12345678901234567890, "list": [1.5, None, {}]}
    meta = {"traceparent": "00-1-2-03", "example.com/x": {"y": [1]}}
    seen = await call(source, "echo", arguments, params={"_meta": msgspec.Raw(json.dumps(meta).encode())})
    got = seen["structuredContent"]
    assert got["arguments"] == arguments
    assert meta.items() <= got["_meta"].items()
    assert got["headers"]["x-mcp-show-all"] == "true"
    assert "authorization" not in got["headers"]


async def test_progress_reaches_the_caller_under_its_own_token(
    endpoint: Endpoint, source: RemoteSource
) -> None:
    notifications: list[dict[str, Any]] = []

    async def notify(method: str, params: Any) -> None:
        notifications.append({key: json.loads(msgspec.json.encode(value)) for key, value in params.items()})

    params = {"_meta": msgspec.Raw(b'{"progressToken":"mine"}')}
    result = await call(source, "progress", {"steps": 3}, notify=notify, params=params)
    assert result["content"][0]["text"] == "3 steps"
    assert [(one["progressToken"], one["progress"], one["message"]) for one in notifications] == [
        ("mine", step, f"step {step}") for step in (1, 2, 3)
    ]


async def test_concurrent_calls_do_not_wait_for_each_other(endpoint: Endpoint, source: RemoteSource) -> None:
    """Each caller gets its own answer."""
    await source.list_tools()
    began = time.monotonic()
    labels = [f"call {number}" for number in range(20)]
    results = await asyncio.gather(
        *(call(source, "slow", {"seconds": 0.3, "label": label}) for label in labels)
    )
    assert [result["content"][0]["text"] for result in results] == labels
    assert time.monotonic() - began < within(0.9)


async def test_a_cancelled_call_is_cancelled_at_the_server(endpoint: Endpoint, source: RemoteSource) -> None:
    """A modern call is cancelled by closing its stream, a legacy one by a notification."""
    await source.list_tools()

    async def count(kind: str) -> int:
        ledger = await call(source, "ledger")
        return int(ledger["structuredContent"][kind].get("slow", 0))

    before = await count("cancelled")
    started = await count("started")
    task = asyncio.create_task(call(source, "slow", {"seconds": 30}))
    async with asyncio.timeout(within(2)):
        while await count("started") == started:
            pass
        task.cancel()
        while await count("cancelled") == before:
            pass
    assert (await call(source, "text", {"text": "still here"}))["content"][0]["text"] == "still here"


async def test_a_changed_list_is_read_again(endpoint: Endpoint, source: RemoteSource) -> None:
    """`list_changed` arrives on the GET stream, the SSE stream or a subscription."""
    changed = asyncio.Event()
    source.watch(changed.set)
    assert "appeared" not in {tool.name for tool in await source.list_tools()}
    await asyncio.sleep(
        0.1
    )  # the stream that tells of changes is opened after the handshake; nobody says when
    await call(source, "change_tools")
    async with asyncio.timeout(within(3)):
        while "appeared" not in {tool.name for tool in await source.list_tools()}:
            changed.clear()
            await changed.wait()
    await call(source, "change_tools")


async def test_roots_are_answered_without_a_clients_capability(
    endpoint: Endpoint, source: RemoteSource
) -> None:
    """A legacy server gets the workspace; the request of a modern server is passed on to the client."""
    result = await call(source, "roots")
    if endpoint.era == "modern":
        assert result["resultType"] == "input_required"
        assert result["requestState"] == "state of roots"
    else:
        assert result["structuredContent"]["roots"][0]["uri"] == "file:///project"


async def test_json_and_event_streams_carry_large_results(
    process: ThirdParty, make_source: MakeSource
) -> None:
    """A 3 MiB result arrives over either."""
    for path in ("json/mcp", "mcp"):
        result = await call(make_source(process.at(path)), "big", {"size": 3 << 20})
        assert len(result["content"][0]["text"]) == 3 << 20


async def test_a_server_with_hidden_tools_shows_and_runs_them(
    process: ThirdParty, make_source: MakeSource
) -> None:
    source = make_source(process.at("chained/mcp"))
    assert "hidden" in {tool.name for tool in await source.list_tools()}
    assert source.accepts_unlisted
    assert (await call(source, "filler_7"))["content"][0]["text"] == "filler_7"
    found = await source.nested_search("listed only", 3, within(2))
    assert found is not None
    assert [hit["name"] for hit in found["structuredContent"]["results"]] == ["hidden"]
    plain = make_source(process.at("mcp"))
    await plain.list_tools()
    assert not plain.accepts_unlisted
    assert await plain.nested_search("listed only", 3, within(2)) is None
