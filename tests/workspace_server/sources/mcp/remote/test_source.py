"""What a remote source caches, reports and shares."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from aiohttp import web

from support.processes.timeouts import within
from support.servers.mcp_sources.remote_server import (
    ECHO,
    Received,
    ScriptedRemoteServer,
    fake_remote,
    hang,
    status,
)
from support.servers.mcp_sources.remote_source import MakeSource, call
from workspace_server.sources.mcp.lists.list_cache import ListCache


def test_the_sdk_is_loaded_with_the_first_connection() -> None:
    """Importing the source must not slow the start of a workspace server."""
    code = (
        "import sys, workspace_server.sources.mcp.remote.source;"
        "print([name for name in ('mcp', 'anyio', 'httpx2', 'pydantic') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path.cwd()
    )
    assert done.stdout.strip() == "[]"


async def test_the_cached_list_outlives_server_and_process(make_source: MakeSource, tmp_path: Path) -> None:
    """It is offered at once, marked as stale, and not used for another token or URL."""
    cache = ListCache(tmp_path)
    async with fake_remote() as remote:
        source = make_source(remote.url, token="a", cache=cache)
        await source.list_tools()
        await source.close()
    again = make_source(remote.url, token="a", cache=cache)
    assert [tool.name for tool in await again.list_tools()] == ["echo"]
    assert again.stale
    other = make_source(remote.url, token="b", cache=cache)
    assert await other.list_tools() == ()


async def test_keywords_of_the_entry_are_used_for_search(
    fake: ScriptedRemoteServer, make_source: MakeSource
) -> None:
    source = make_source(fake.url, keywords=("tickets", "away"))
    assert source.keywords == ("away", "remote", "tickets")
    assert (source.id, source.namespace, source.kind) == ("remote:away", "away", "remote")


async def test_two_entries_with_one_url_are_two_sources(
    fake: ScriptedRemoteServer, make_source: MakeSource
) -> None:
    sources = [make_source(fake.url), make_source(fake.url)]
    assert all([await source.list_tools() for source in sources])
    assert fake.sessions == 2


async def test_many_first_requests_share_one_connection(
    fake: ScriptedRemoteServer, make_source: MakeSource
) -> None:
    source = make_source(fake.url)
    await asyncio.gather(*(call(source) for _ in range(20)), *(source.list_tools() for _ in range(20)))
    assert fake.sessions == 1


async def test_a_hidden_tool_is_called_through_the_servers_execute_tool(
    fake: ScriptedRemoteServer, make_source: MakeSource
) -> None:
    """The caller's arguments are passed on unchanged."""
    fake.tools = [ECHO, {**ECHO, "name": "execute_tool"}, {**ECHO, "name": "tool_search"}]
    source = make_source(fake.url)
    await source.list_tools()
    await call(source, "deep", {"x": [1.0, "é"]})
    sent = [one.message["params"] for one in fake.received if one.method == "tools/call"]
    assert sent == [{"name": "execute_tool", "arguments": {"name": "deep", "arguments": {"x": [1.0, "é"]}}}]
    assert {one.request.headers["X-MCP-Show-All"] for one in fake.received if one.method != "DELETE"} == {
        "true"
    }


async def test_a_search_that_takes_too_long_is_left_out_with_a_warning(
    fake: ScriptedRemoteServer, make_source: MakeSource
) -> None:
    fake.tools = [{**ECHO, "name": "tool_search"}]
    source = make_source(fake.url)
    assert await source.nested_search("x", 3, 1) is None
    await source.list_tools()
    fake.answers["tools/call"] = [hang, fake.default]
    assert await source.nested_search("x", 3, 0.05) is None
    assert [issue.code for issue in source.issues()] == ["NESTED_SEARCH_TIMEOUT"]
    assert await source.nested_search("x", 3, within(2)) is not None
    assert source.issues() == []


async def test_a_header_mismatch_refreshes_the_list_and_repeats_the_call(
    fake: ScriptedRemoteServer, make_source: MakeSource
) -> None:
    """Error -32020 says that the headers do not fit the server's current definition."""

    async def mismatch(got: Received) -> web.StreamResponse:
        fake.tools = [{**ECHO, "description": "changed"}]
        return got.error(-32020, "Mcp-Param-Region header is missing", 400)

    source = make_source(fake.url)
    await source.list_tools()
    fake.answers["tools/call"] = [mismatch, fake.default]
    assert (await call(source))["content"]
    assert fake.count("tools/list") == 2
    assert [issue.code for issue in source.issues()] == ["TOOL_DEFINITION_CHANGED"]


async def test_status_shows_the_origin_only(make_source: MakeSource) -> None:
    """Path, query and headers of the URL may be secrets."""
    async with fake_remote("/hooks/s3cret") as remote:
        source = make_source(f"{remote.url}?key=s3cret", headers={"X-Key": "s3cret"})
        await source.list_tools()
        remote.answers["tools/call"] = [status(500)]
        refusal = await call(source)
        shown = f"{source.status()} {refusal} {source.issues()} {source.error}"
        assert source.status()["origin"] in remote.url
        assert "s3cret" not in shown


@pytest.mark.skipif(sys.platform == "win32", reason="uvloop is not there")
def test_a_remote_source_runs_on_uvloop() -> None:
    import uvloop

    from workspace_server.sources.mcp.remote.session_opener import RemoteDependencies
    from workspace_server.sources.mcp.remote.source import RemoteSource

    async def main() -> None:
        from support.servers.mcp_sources.remote_source import entry

        async with fake_remote() as remote:
            source = RemoteSource(entry(remote.url), RemoteDependencies("/project", "1.0"))
            assert len(await source.list_tools()) == 1
            remote.answers["tools/call"] = [status(503)]
            await call(source)
            await source.close()

    uvloop.run(main())


@pytest.mark.parametrize(
    ("written", "requested"),
    [
        ("/mcp/", "/mcp/"),
        ("/mcp", "/mcp"),
        ("", "/"),
        ("/", "/"),
        ("?root=/data/", "/?root=/data/"),
        ("/mcp?root=/data/&x=", "/mcp?root=/data/&x="),
        ("/mcp/?", "/mcp/?"),
        ("//mcp//", "//mcp//"),
        ("/%7Ea%2Fb%2f/", "/%7Ea%2Fb%2f/"),
        ("/MCP/Über", "/MCP/%C3%9Cber"),
        ("/a;b=1,c/$x?q=1+2%20[3]", "/a;b=1,c/$x?q=1+2%20[3]"),
        ("/a/./b/../c/", "/a/c/"),
        ("/mcp/#part", "/mcp/"),
    ],
)
async def test_the_address_that_is_configured_is_the_one_that_is_contacted(
    fake: ScriptedRemoteServer, make_source: MakeSource, written: str, requested: str
) -> None:
    """Only what no client sends is left out: a fragment, and segments that lead up."""
    source = make_source(fake.url.removesuffix("/mcp") + written)
    await source.list_tools()
    assert "content" in await call(source)
    await source.close()
    assert {got.request.raw_path for got in fake.received} == {requested}
