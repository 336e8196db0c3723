"""What an offer exposes of a workspace: methods, tools, and how requests are made anew."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.team.calls.exposure import (
    META_TEAM,
    METHODS,
    Scope,
    digest_of,
    exposed_answer,
    listed_tools,
    marked,
    next_cursor,
    own_request,
)

READ_ONLY = Scope("workspace", "read-only")
ALL = Scope("workspace", "all")
SERVER = Scope("server", "all", "docs__")


def tool(name: str, *, read_only: bool = False, **members: Any) -> dict[str, Any]:
    return {
        "name": name,
        "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": read_only},
        **members,
    }


def answer(**result: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode()


def exposed(scope: Scope, *tools: dict[str, Any]) -> list[str]:
    reduced = exposed_answer(names.TOOLS_LIST, answer(tools=tools), scope)
    assert reduced is not None
    return [one["name"] for one in json.loads(reduced)["result"]["tools"]]


def request(method: str, params: dict[str, Any]) -> jsonrpc.Request:
    parsed = jsonrpc.parse(
        json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).encode()
    )
    assert isinstance(parsed, jsonrpc.Request)
    return parsed


def sent(scope: Scope, method: str, params: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(own_request(request(method, params), scope, "bob", "1.0"))
    return message


def test_read_only_exposes_tools_that_say_so() -> None:
    assert exposed(READ_ONLY, tool("read", read_only=True), tool("write"), {"name": "says_nothing"}) == [
        "read"
    ]


def test_all_exposes_every_tool_but_those_that_call_others() -> None:
    every = [tool("read"), tool("execute_tool"), tool("tool_search", read_only=True), tool("execute_code")]
    assert exposed(ALL, *every) == ["read"]


def test_tools_by_which_a_server_calls_its_hidden_ones_are_not_exposed() -> None:
    every = [tool("docs__find"), tool("docs__execute_tool"), tool("docs__tool_search")]
    assert exposed(SERVER, *every) == ["find"]
    assert exposed(ALL, *every) == ["docs__find"]


@pytest.mark.parametrize(
    ("include", "exclude", "found"),
    [
        (("lm_read*",), (), ["lm_readFile"]),
        ((), ("*File",), ["lm_listFiles"]),
        (("lm_*",), ("lm_edit*",), ["lm_listFiles", "lm_readFile"]),
        (("LM_*",), (), []),
        (("lm_readFile", "lm_list*"), (), ["lm_listFiles", "lm_readFile"]),
    ],
)
def test_patterns_narrow_an_offer(
    include: tuple[str, ...], exclude: tuple[str, ...], found: list[str]
) -> None:
    every = [tool("lm_listFiles"), tool("lm_readFile"), tool("lm_editFile")]
    scope = Scope("workspace", "all", include=include, exclude=exclude)
    assert exposed(scope, *every) == found


def test_patterns_are_about_the_names_that_members_use() -> None:
    scope = Scope("server", "all", "docs__", include=("find*",))
    assert exposed(scope, tool("docs__find"), tool("docs__other"), tool("find")) == ["find"]


def test_patterns_let_nothing_through_that_the_policy_does_not() -> None:
    scope = Scope("workspace", "read-only", include=("*",))
    assert exposed(scope, tool("read", read_only=True), tool("write")) == ["read"]


def test_a_server_is_exposed_under_its_own_names() -> None:
    assert exposed(SERVER, tool("docs__find"), tool("other__find"), tool("docs_find")) == ["find"]
    assert sent(SERVER, names.TOOLS_CALL, {"name": "find"})["params"]["name"] == "docs__find"


def test_what_came_from_the_team_is_not_offered_on() -> None:
    mark = {META_TEAM: {"host": "x", "offer": "y"}}
    assert exposed(ALL, tool("own"), tool("theirs", _meta=mark)) == ["own"]


def test_tools_whose_parameters_travel_in_headers_are_not_offered() -> None:
    schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    assert exposed(ALL, tool("a", inputSchema=schema)) == []


def test_issues_of_lists_stay_at_home() -> None:
    reduced = exposed_answer(
        names.TOOLS_LIST, answer(tools=[], _meta={"lm-tools-bridge/issues": ["/home/x"]}), ALL
    )
    assert reduced is not None
    assert b"/home/x" not in reduced


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"result": 5}', b'{"result": []}'])
def test_an_answer_that_is_no_list_is_not_passed_on(body: bytes) -> None:
    assert exposed_answer(names.TOOLS_LIST, body, ALL) is None


def test_discovery_promises_no_streams_and_passes_no_instructions_on() -> None:
    capabilities = {"tools": {"listChanged": True}, "resources": {"subscribe": True}, "extensions": {"x": {}}}
    found = answer(supportedVersions=["2026-07-28"], capabilities=capabilities, instructions="Obey")
    reduced = exposed_answer(names.DISCOVER, found, ALL)
    assert reduced is not None
    assert json.loads(reduced)["result"] == {
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}},
    }


def test_only_tools_are_carried() -> None:
    """Resources and prompts could be those of the team, which this host would ask for with its own rights."""
    assert {names.DISCOVER, names.TOOLS_LIST, names.TOOLS_CALL} == METHODS


def test_a_caller_has_no_capabilities_and_cannot_choose_who_it_is() -> None:
    meta = {
        names.META_CAPABILITIES: {"elicitation": {}},
        names.META_CLIENT: {"name": "the owner", "version": "1"},
        names.META_LOG_LEVEL: "debug",
        names.CODEX_SANDBOX: {"sandboxCwd": "/"},
        "progressToken": 5,
    }
    params = sent(
        ALL, names.TOOLS_CALL, {"name": "x", "arguments": {"a": 1}, "requestState": "s", "_meta": meta}
    )["params"]
    assert params == {
        "name": "x",
        "arguments": {"a": 1},
        "_meta": {
            "progressToken": 5,
            names.META_VERSION: "2026-07-28",
            names.META_CAPABILITIES: {},
            names.META_CLIENT: {"name": "team:bob", "version": "1.0"},
        },
    }


def test_every_entry_that_arrives_says_where_it_came_from() -> None:
    listed = answer(tools=[tool("a", _meta={"x": 1}), tool("b")])
    tools = json.loads(marked(names.TOOLS_LIST, listed, "build-1", "docs"))["result"]["tools"]
    assert [one["_meta"][META_TEAM] for one in tools] == [{"host": "build-1", "offer": "docs"}] * 2
    assert tools[0]["_meta"]["x"] == 1
    assert marked(names.TOOLS_CALL, b"{}", "h", "o") == b"{}"


def test_annotations_say_what_may_be_repeated() -> None:
    found = listed_tools(
        answer(tools=[tool("r", read_only=True), tool("w"), tool("i", annotations={"idempotentHint": True})])
    )
    assert found is not None
    assert {name: one.may_repeat for name, one in found.items()} == {"r": True, "w": False, "i": True}


def test_the_digest_depends_on_names_and_parameters_alone() -> None:
    def of(*tools: dict[str, Any]) -> str:
        return digest_of(listed_tools(answer(tools=tools)) or {})

    assert of(tool("a"), tool("b")) == of(tool("b", description="other"), tool("a", read_only=True))
    assert of(tool("a")) != of(tool("b"))
    assert of(tool("a")) != of(tool("a", inputSchema={"type": "object", "required": ["x"]}))


def test_the_cursor_of_a_page_is_found() -> None:
    assert next_cursor(answer(tools=[], nextCursor="c")) == "c"
    assert next_cursor(answer(tools=[])) is None
