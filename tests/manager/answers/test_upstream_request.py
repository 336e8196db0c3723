"""Requests to the workspace server: stateless ones unchanged, session ones with `_meta` spliced in."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from lm_tools_bridge.protocol import headers, names
from lm_tools_bridge.protocol.inbound import Inbound, classify
from lm_tools_bridge.protocol.jsonrpc import raw
from lm_tools_bridge.protocol.names import Era
from manager.answers.upstream_request import (
    cancelled_notification,
    manager_request,
    mode_headers,
    upstream_request,
)
from manager.forwarding.forward import Outgoing
from support.clients.exchanges import call, legacy, session_of, stateless

VERSION, CAPABILITIES, CLIENT = names.META_VERSION, names.META_CAPABILITIES, names.META_CLIENT
TRIPLE = {VERSION: "2026-07-28", CAPABILITIES: {}, CLIENT: {"name": "codex", "version": "0.1"}}


def accepted(sent: Outgoing) -> Inbound:
    """What leaves must be a modern request in order, judged as the workspace server judges it."""
    inbound = classify(CIMultiDict((key.decode(), value.decode()) for key, value in sent.headers), sent.body)
    assert isinstance(inbound, Inbound), inbound
    assert inbound.era is Era.MODERN
    return inbound


def headers_of(sent: Outgoing) -> dict[str, str]:
    assert len({key.lower() for key, _ in sent.headers}) == len(sent.headers), "a header is sent twice"
    return {key.decode(): value.decode() for key, value in sent.headers}


# Modern clients ----------------------------------------------------------------------------------------------


def test_a_stateless_body_is_unchanged() -> None:
    exchange = stateless("tools/call", {"name": "é", "arguments": {"a": 1}})
    sent = upstream_request(exchange)
    assert sent.body == exchange.message.body
    assert accepted(sent).name == "é"
    assert headers_of(sent)["Accept"] == "application/json, text/event-stream"
    assert headers.UNMIRRORED not in headers_of(sent)


def test_an_unwrapped_call_gets_the_wrapped_calls_name_header() -> None:
    exchange = stateless("tools/call", {"name": names.CALL_TOOL, "arguments": {"name": "x"}})
    sent = upstream_request(exchange, {**exchange.params, "name": raw("réal"), "arguments": raw({"b": 2})})
    assert accepted(sent).name == "réal"
    params = json.loads(sent.body)["params"]
    assert (params["arguments"], params["_meta"][VERSION]) == ({"b": 2}, "2026-07-28")
    assert headers_of(sent)[headers.NAME] == headers.encode_value("réal")
    assert headers_of(sent)[headers.UNMIRRORED] == "1", "no client repeats arguments of a call inside another"


# Legacy clients ----------------------------------------------------------------------------------------------


CALLER = hashlib.sha256(b"s-1").hexdigest()[:32]


def test_a_session_call_becomes_a_stateless_one() -> None:
    """What follows from the session: its calls belong together, and its id is not told."""
    sent = upstream_request(legacy(call("lm_findFiles", {"query": "*"})))
    assert accepted(sent).name == "lm_findFiles"
    assert json.loads(sent.body)["params"]["_meta"] == TRIPLE
    assert headers_of(sent) == {
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "lm_findFiles",
        headers.CALLER: CALLER,
        headers.UNMIRRORED: "1",
    }


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
            b'{"params":{"_meta":@},"jsonrpc":"2.0","id":1,"method":"tools/list"}',
        ),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}',
            b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":@}}',
        ),
        (
            b' { "id" : "x" , "params" : {\n "cursor":"c" , "n":1.50} , "x":1e400, "jsonrpc":"2.0","method":"tools/list"}\n',
            b' { "id" : "x" , "params" : {"_meta":@,"cursor":"c" , "n":1.50} , "x":1e400, "jsonrpc":"2.0","method":"tools/list"}\n',
        ),
    ],
    ids=["no parameters", "empty parameters", "odd spelling"],
)
def test_only_meta_is_added_to_the_body(body: bytes, expected: bytes) -> None:
    """All other bytes are unchanged."""
    meta = json.dumps(TRIPLE, separators=(",", ":")).encode()
    assert upstream_request(legacy(body)).body == expected.replace(b"@", meta)


def test_the_clients_own_meta_is_kept() -> None:
    meta = {"progressToken": "p", "traceparent": "00-1-1-01", "vendor/x": {"deep": [1]}}
    sent = upstream_request(legacy(call("x", {}, _meta=meta)))
    assert json.loads(sent.body)["params"]["_meta"] == {**meta, **TRIPLE}


def test_a_session_client_cannot_set_stateless_meta() -> None:
    """Its own claim about capabilities is replaced by what its session declared."""
    meta = {CAPABILITIES: {"sampling": {}}, CLIENT: {"name": "liar", "version": "9"}}
    sent = upstream_request(legacy(call("x", {}, _meta=meta)))
    assert json.loads(sent.body)["params"]["_meta"] == TRIPLE


FULL = b'{"elicitation":{"form":{}},"sampling":{},"x/y":{"n":1.10}}'


@pytest.mark.parametrize(
    ("revision", "accepts_events", "expected"),
    [
        ("2025-11-25", True, FULL),
        ("2025-06-18", True, FULL),
        ("2025-03-26", True, b'{"sampling":{},"x/y":{"n":1.10}}'),
        ("2025-11-25", False, b"{}"),
    ],
)
def test_session_capabilities_are_sent_if_the_client_takes_events(
    revision: str, accepts_events: bool, expected: bytes
) -> None:
    """Questions go out on the request's event stream; before 2025-06-18 nobody knew elicitation."""
    session = session_of(capabilities=FULL)
    session.revision = revision
    sent = upstream_request(legacy(call("x", {}), session=session, accepts_events=accepts_events))
    assert b'"%s":%s' % (CAPABILITIES.encode(), expected) in sent.body


@pytest.mark.parametrize(
    ("method", "said", "accepts_events", "expected"),
    [
        (names.TOOLS_CALL, "debug", True, "debug"),
        (names.TOOLS_CALL, None, True, "info"),
        (names.RESOURCES_READ, "error", True, "error"),
        (names.PROMPTS_GET, None, True, "info"),
        (names.TOOLS_CALL, "debug", False, None),
        (names.TOOLS_LIST, "debug", True, None),
    ],
)
def test_a_log_level_is_sent_if_the_client_takes_events(
    method: str, said: str | None, accepts_events: bool, expected: str | None
) -> None:
    """Servers with sessions send log messages until a level is set, stateless ones only on request."""
    session = session_of(log_level=said)
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"name": "x", "uri": "x"}}
    sent = upstream_request(legacy(body, session=session, accepts_events=accepts_events))
    assert json.loads(sent.body)["params"]["_meta"].get(names.META_LOG_LEVEL) == expected


def test_giving_up_a_state_is_a_cancel_notification() -> None:
    sent = cancelled_notification(raw("sealed-é"))
    inbound = classify(CIMultiDict((key.decode(), value.decode()) for key, value in sent.headers), sent.body)
    assert isinstance(inbound, Inbound)
    assert (inbound.era, inbound.params["requestState"]) == (Era.MODERN, raw("sealed-é"))


def test_a_client_without_a_name_sends_no_client_info() -> None:
    sent = upstream_request(legacy(call("x", {}), session=session_of(client_name=None)))
    assert CLIENT not in json.loads(sent.body)["params"]["_meta"]


def test_an_unwrapped_session_call_has_the_wrapped_name_and_arguments() -> None:
    exchange = legacy(call(names.CALL_TOOL, {"name": "x"}, _meta={"progressToken": 1}))
    sent = upstream_request(exchange, {**exchange.params, "name": raw("x"), "arguments": raw({"b": 2})})
    assert accepted(sent).name == "x"
    params = json.loads(sent.body)["params"]
    assert (params["name"], params["arguments"]) == ("x", {"b": 2})
    assert params["_meta"] == {"progressToken": 1, **TRIPLE}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text("ab é", max_size=3), inner, max_size=2)
    ),
    max_leaves=5,
)


@given(
    st.dictionaries(st.sampled_from(["arguments", "cursor", "x", "é"]), JSON),
    st.none() | st.dictionaries(st.sampled_from(["progressToken", "a/b"]), JSON),
    st.integers() | st.text("ab", max_size=4),
    st.sampled_from([None, 1]),
    st.booleans(),
)
def test_every_member_of_a_session_call_arrives(
    params: dict[str, Any], meta: dict[str, Any] | None, identity: Any, indent: int | None, ascii_only: bool
) -> None:
    sent_params = {**params, "name": "t"} | ({} if meta is None else {"_meta": meta})
    message = {"jsonrpc": "2.0", "id": identity, "method": "tools/call", "params": sent_params, "extra": [1]}
    sent = upstream_request(legacy(json.dumps(message, indent=indent, ensure_ascii=ascii_only).encode()))
    accepted(sent)
    assert json.loads(sent.body) == {
        **message,
        "params": {**params, "name": "t", "_meta": {**(meta or {}), **TRIPLE}},
    }


# Both --------------------------------------------------------------------------------------------------------


def test_forwarded_headers_and_the_tool_mode_are_sent() -> None:
    passed = ((b"Mcp-Param-Path", b"/x"), (b"traceparent", b"00"))
    sent = upstream_request(legacy(call("x", {}), passed_headers=passed, passed_query="?tool_mode=discovery"))
    assert sent.target == b"/mcp?tool_mode=discovery"
    assert set(passed) <= set(sent.headers)


DISCOVERY = (("X-MCP-Tool-Mode", "discovery"),)
SHOW_ALL = (("X-MCP-Show-All", "true"),)


@pytest.mark.parametrize(
    ("mode", "sent_headers", "query", "modes", "target"),
    [
        (DISCOVERY, {}, "", {"X-MCP-Tool-Mode": "discovery"}, "/mcp"),
        (DISCOVERY, {"x-mcp-tool-mode": "normal"}, "", {"x-mcp-tool-mode": "normal"}, "/mcp"),
        (DISCOVERY, {}, "?tool_mode=", {}, "/mcp?tool_mode="),
        (
            DISCOVERY,
            {},
            "?show_all=true",
            {"X-MCP-Tool-Mode": "discovery"},
            "/mcp?show_all=true",
        ),
        (
            DISCOVERY + SHOW_ALL,
            {"X-Mcp-Show-All": "no"},
            "",
            {"X-MCP-Tool-Mode": "discovery", "X-Mcp-Show-All": "no"},
            "/mcp",
        ),
    ],
    ids=["silent", "header wins", "empty query wins", "the other one", "one of two"],
)
def test_a_sessions_mode_applies_unless_the_request_sets_one(
    mode: Any, sent_headers: dict[str, str], query: str, modes: dict[str, str], target: str
) -> None:
    passed = tuple((name.encode(), value.encode()) for name, value in sent_headers.items())
    session = session_of(mode=mode)
    sent = upstream_request(legacy(call("x", {}), session=session, passed_headers=passed, passed_query=query))
    found = {name: value for name, value in headers_of(sent).items() if name.lower().startswith("x-mcp-")}
    assert (found, sent.target.decode()) == (modes, target)


@pytest.mark.parametrize(
    ("sent_headers", "query", "mode"),
    [
        ({}, "", {}),
        ({"x-mcp-TOOL-mode": " Discovery "}, "", {"X-MCP-Tool-Mode": "Discovery"}),
        (
            {},
            "?tool_mode=discovery&show_all=true",
            {"X-MCP-Tool-Mode": "discovery", "X-MCP-Show-All": "true"},
        ),
        ({"X-MCP-Tool-Mode": ""}, "?tool_mode=discovery", {"X-MCP-Tool-Mode": ""}),
        ({}, "?tool_mode=a%0D%0AX-Evil:%201", {"X-MCP-Tool-Mode": "aX-Evil: 1"}),
        ({}, "?tool_mode=%e6%bc%a2", {"X-MCP-Tool-Mode": ""}),
        (
            {"X-MCP-Tool-Mode": "x" * 9999},
            "?show_all=" + "y" * 9999,
            {"X-MCP-Tool-Mode": "x" * 32, "X-MCP-Show-All": "y" * 32},
        ),
    ],
)
def test_a_requests_mode_is_shortened_and_valid_in_a_header(
    sent_headers: dict[str, str], query: str, mode: dict[str, str]
) -> None:
    passed = tuple((name.encode(), value.encode()) for name, value in sent_headers.items())
    assert mode_headers(legacy(call("x", {}), passed_headers=passed, passed_query=query)) == mode


@pytest.mark.parametrize(("identity", "same"), [("s-1", True), ("s-2", False)])
def test_the_caller_header_is_equal_only_within_a_session(identity: str, same: bool) -> None:
    other = session_of()
    other.id = identity
    sent = headers_of(upstream_request(legacy(call("y", {}), session=other)))
    assert (sent[headers.CALLER] == CALLER) is same
    assert identity not in sent.values()


def test_a_client_cannot_set_the_caller_header() -> None:
    """Nor can a stateless one: nobody answers for its calls belonging together."""
    assert not headers.is_forwarded(headers.CALLER.lower())
    assert headers.CALLER not in headers_of(upstream_request(stateless("tools/list")))


@pytest.mark.parametrize(
    ("method", "timed"), [("tools/call", True), ("tools/list", True), (names.LISTEN, False)]
)
def test_only_a_listen_stream_has_no_deadline(method: str, timed: bool) -> None:
    assert upstream_request(stateless(method, {"name": "x"} if method == "tools/call" else {})).timed is timed


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/list", {"cursor": "c"}, None),
        ("resources/read", {"uri": "lm-tools://schema/é"}, "lm-tools://schema/é"),
    ],
)
def test_the_managers_own_requests_are_valid_and_have_an_id(
    method: str, params: dict[str, Any], name: str | None
) -> None:
    sent = manager_request(method, params, "manager-1")
    assert accepted(sent).name == name
    message = json.loads(sent.body)
    assert message["id"] == "manager-1"
    assert {**message["params"], "_meta": None} == {**params, "_meta": None}
    assert message["params"]["_meta"][CLIENT]["name"] == "lm-tools-bridge-manager"
