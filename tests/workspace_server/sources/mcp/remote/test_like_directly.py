"""What a remote server answers through us is what it answers to the SDK's client directly, in either era."""

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
from support.servers.remote_source import MakeSource, call
from support.servers.third_party import Era, ThirdParty, direct, third_party
from support.servers.third_party_content import FOREIGN_DEFINITIONS, PLAIN
from workspace_server.sources.mcp.remote.source import RemoteSource
from workspace_server.tool import RpcError


@dataclass(frozen=True)
class Way:
    """A URL, and how the SDK's client reaches it in the era we do."""

    url: str
    era: Era


CONTENT = [name for name in PLAIN if name not in ("hidden", "appeared")]
WAYS: dict[str, tuple[str, Era]] = {
    "streamable HTTP, legacy only": ("legacy/mcp", "legacy"),
    "streamable HTTP, modern only": ("modern/mcp", "modern"),
    "HTTP with SSE": ("sse", "legacy"),
}


@pytest.fixture(scope="module")
def process() -> Iterator[ThirdParty]:
    with third_party("http", "--page-size=10") as server:
        yield server


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, process: ThirdParty) -> Way:
    path, era = WAYS[request.param]
    return Way(process.at(path), era)


@pytest.fixture
def source(way: Way, make_source: MakeSource) -> RemoteSource:
    return make_source(way.url)


def complete(result: dict[str, Any]) -> dict[str, Any]:
    """A result as our callers get it: with `resultType`, which the legacy era does not have."""
    return {"resultType": "complete", **result}


async def test_definitions_and_every_content_kind(way: Way, source: RemoteSource) -> None:
    tools = {tool.name: tool for tool in await source.list_tools()}
    assert (source.state, source.error, source.stale) == ("ready", None, False)
    async with direct(way.url, way.era) as client:
        definitions = await client.definitions()
        assert [tool.definition for tool in tools.values()] == definitions
        assert FOREIGN_DEFINITIONS["decorated"].items() <= tools["decorated"].definition.items()
        for name in (*CONTENT, "text", "is_error", "progress"):
            arguments = {"region": "größe "} if name == "routed" and way.era == "legacy" else {}
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


async def test_arguments_are_mirrored_into_headers(way: Way, source: RemoteSource) -> None:
    """the modern server compares the header with the argument."""
    await source.list_tools()
    for region in ("eu-1", " größe\n", 'with "quotes"'):
        assert (await call(source, "routed", {"region": region}))["content"][0]["text"] == "routed"


async def test_what_a_call_carries(way: Way, source: RemoteSource) -> None:
    """Unknown `_meta` passes; so does every character."""
    arguments = {"text": '\n\t\u2028"}\\☕😀', "big": 12345678901234567890, "list": [1.5, None, {}]}
    meta = {"traceparent": "00-1-2-03", "example.com/x": {"y": [1]}}
    seen = await call(source, "echo", arguments, params={"_meta": msgspec.Raw(json.dumps(meta).encode())})
    got = seen["structuredContent"]
    assert got["arguments"] == arguments
    assert meta.items() <= got["_meta"].items()
    assert got["headers"]["x-mcp-show-all"] == "true"
    assert "authorization" not in got["headers"]


async def test_progress_reaches_the_caller_under_its_own_token(way: Way, source: RemoteSource) -> None:
    heard: list[dict[str, Any]] = []

    async def notify(method: str, params: Any) -> None:
        heard.append({key: json.loads(msgspec.json.encode(value)) for key, value in params.items()})

    params = {"_meta": msgspec.Raw(b'{"progressToken":"mine"}')}
    result = await call(source, "progress", {"steps": 3}, notify=notify, params=params)
    assert result["content"][0]["text"] == "3 steps"
    assert [(one["progressToken"], one["progress"], one["message"]) for one in heard] == [
        ("mine", step, f"step {step}") for step in (1, 2, 3)
    ]


async def test_calls_at_once_do_not_wait_for_each_other(way: Way, source: RemoteSource) -> None:
    """Each caller its own answer."""
    await source.list_tools()
    began = time.monotonic()
    labels = [f"call {number}" for number in range(20)]
    results = await asyncio.gather(
        *(call(source, "slow", {"seconds": 0.3, "label": label}) for label in labels)
    )
    assert [result["content"][0]["text"] for result in results] == labels
    assert time.monotonic() - began < within(0.9)


async def test_a_cancelled_call_is_cancelled_there(way: Way, source: RemoteSource) -> None:
    """The modern era by closing the stream, the legacy one by a notification."""
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


async def test_a_changed_list_is_read_again(way: Way, source: RemoteSource) -> None:
    """`list_changed` over the GET stream, the SSE stream, or a subscription."""
    told = asyncio.Event()
    source.watch(told.set)
    assert "appeared" not in {tool.name for tool in await source.list_tools()}
    await asyncio.sleep(
        0.1
    )  # the stream that tells of changes is opened after the handshake; nobody says when
    await call(source, "change_tools")
    async with asyncio.timeout(within(3)):
        while "appeared" not in {tool.name for tool in await source.list_tools()}:
            told.clear()
            await told.wait()
    await call(source, "change_tools")


async def test_what_the_server_asks_of_a_client_that_offers_nothing(way: Way, source: RemoteSource) -> None:
    """Roots are answered by us, in the old era; a modern question is passed on."""
    result = await call(source, "roots")
    if way.era == "modern":
        assert result["resultType"] == "input_required"
        assert result["requestState"] == "state of roots"
    else:
        assert result["structuredContent"]["roots"][0]["uri"] == "file:///project"


async def test_json_instead_of_streams(process: ThirdParty, make_source: MakeSource) -> None:
    """And large answers either way."""
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
