"""Tests of the metadata of requests to MCP routes."""

from __future__ import annotations

import pytest

from lm_tools_bridge.http_server.request_head import RequestHead
from lm_tools_bridge.protocol import headers
from manager.routing.request_metadata import RequestMetadata, read_metadata
from manager.routing.resolution import Claim, WorkspaceSource


def metadata(target: str = "/mcp", *fields: tuple[str, str], method: str = "POST") -> RequestMetadata:
    found = read_metadata(
        RequestHead(method, target, [(name.encode(), value.encode()) for name, value in fields])
    )
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("target", "workspace"),
    [
        ("/mcp", None),
        ("/mcp/", None),
        ("/mcp?cwd=/a", None),
        ("/w/a-1/mcp", "a-1"),
        ("/w/a%20b/mcp?x", "a b"),
    ],
)
def test_mcp_routes_are_recognised(target: str, workspace: str | None) -> None:
    assert (metadata(target).workspace, metadata(target).server) == (workspace, "")


def test_a_route_can_name_one_server_of_a_workspace() -> None:
    named = metadata("/w/a-1/s/my%20clock/mcp?x")
    assert (named.workspace, named.server, named.claims.path) == ("a-1", "my clock", "a-1")
    name = headers.SERVER.encode()
    head = RequestHead("POST", "/mcp", [(name, b"clock")])
    for from_manager in (False, True):
        found = read_metadata(head, from_manager=from_manager)
        assert found is not None
        assert (name in dict(found.passed)) is from_manager, "a manager on another host has read the route"


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/mcp/status",
        "/mcpx",
        "/MCP",
        "//mcp",
        "/w/mcp",
        "/w//mcp",
        "/w/a/b/mcp",
        "/w/a/mcp/",
        "/%6dcp",
        "/w/a/s/mcp",
        "/w/a/s//mcp",
        "/w/a/s/b/c/mcp",
        "/s/b/mcp",
    ],
)
def test_other_routes_are_not_mcp_routes(target: str) -> None:
    assert read_metadata(RequestHead("POST", target, ())) is None


@pytest.mark.parametrize(
    ("sent", "taken"),
    [
        ((), (True, False)),
        (("",), (True, False)),
        (("*/*",), (True, False)),
        (("application/json",), (True, False)),
        (("application/json", "Text/Event-Stream"), (True, True)),
        (("text/event-stream",), (False, True)),
        (("application/*, text/event-stream;q=0.5",), (True, True)),
        (("text/html",), (False, False)),
    ],
)
def test_accept_tells_which_responses_a_client_takes(sent: tuple[str, ...], taken: tuple[bool, bool]) -> None:
    found = metadata("/mcp", *(("Accept", one) for one in sent))
    assert (found.accepts_json, found.accepts_events) == taken


def test_claims_are_decoded_once() -> None:
    """`%2520` is no blank, and a plus stays a plus until workspace resolution has tried it."""
    query = metadata("/mcp?cwd=%2Fa%2520b+c&x=1").claims.query
    header = metadata("/mcp", ("x-workspace-cwd", "=?base64?L2E=?=")).claims.header
    assert (query, header) == ("/a%20b+c", "/a")


def test_only_listed_headers_are_forwarded() -> None:
    """Credentials and cookies are dropped; the protocol's headers of a session request are written anew."""
    found = metadata(
        "/mcp?tool_mode=all&cwd=/a",
        ("MCP-METHOD", "x"),
        ("mcp-param-q", "1"),
        ("Cookie", "c"),
        ("Traceparent", "t"),
    )
    assert [name for name, _ in found.passed] == [b"MCP-METHOD", b"mcp-param-q", b"Traceparent"]
    assert [name for name, _ in found.passed_legacy] == [b"mcp-param-q", b"Traceparent"]
    assert found.passed_query == "?tool_mode=all"


def test_header_names_are_case_insensitive() -> None:
    found = metadata(
        "/mcp", ("MCP-session-ID", "s"), ("mcp-protocol-version", "v"), ("X-Many", "1"), ("x-many", "2")
    )
    assert (found.fields[headers.SESSION], found.fields[headers.VERSION], found.fields["x-many"]) == (
        "s",
        "v",
        "1, 2",
    )


@pytest.mark.parametrize(
    ("query", "is_pinned"),
    [
        ("cwd=/a&pin=true", True),
        ("cwd=/a&pin=on", True),
        ("cwd=/a&pin=%20True", True),
        ("cwd=/a&pin=false", False),
        ("cwd=/a&pin=", False),
        ("cwd=/a", False),
        ("pin=true", False),
        ("cwd=&pin=true", False),
        ("cwd=$%7BPWD%7D&pin=true", False),
    ],
)
def test_only_a_folder_can_be_pinned(query: str, is_pinned: bool) -> None:
    found = read_metadata(RequestHead("POST", f"/mcp?{query}", []))
    assert found is not None
    assert found.claims.pinned is is_pinned


def test_the_folder_that_another_manager_names_is_pinned() -> None:
    """It has weighed what its client says: the client's roots are on its own machine."""
    head = RequestHead("POST", "/mcp", [(headers.WORKSPACE_CWD.encode(), b"/srv/app")])
    near, own = read_metadata(head, from_manager=True), read_metadata(head)
    assert near is not None
    assert own is not None
    assert near.claims.explicit_claims() == (Claim(WorkspaceSource.HEADER, "/srv/app"),)
    assert near.claims.names_workspace()
    assert not own.claims.names_workspace()
