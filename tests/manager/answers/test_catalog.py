"""The `initialize` result of a session at a workspace's URL."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from lm_tools_bridge.protocol import jsonrpc, names
from manager.answers import replies
from manager.answers.catalog import initialize_result

CODEX: dict[str, Any] = {"codex/sandbox-state-meta": {}}


def told(**members: Any) -> dict[str, Any]:
    """The result of `initialize` for a workspace that says this, decoded."""
    said = {name: jsonrpc.raw(value) for name, value in members.items()}
    return dict(json.loads(jsonrpc.dumps(initialize_result("2025-06-18", said))))


def test_a_pass_through_server_describes_itself() -> None:
    """Its members are the bytes that came."""
    capabilities, server = msgspec.Raw(b'{"tools":{ },"x/y":1e2}'), msgspec.Raw(b'{"name": "theirs"}')
    meta = jsonrpc.raw({names.META_SERVER: server})
    said = {"capabilities": capabilities, "_meta": meta, "instructions": msgspec.Raw(b'"Be \\u006bind."')}
    assert jsonrpc.dumps(initialize_result("2025-06-18", said)) == (
        b'{"protocolVersion":"2025-06-18","capabilities":{"tools":{ },"x/y":1e2},'
        b'"serverInfo":{"name":"theirs"},"instructions":"Be \\u006bind."}'
    )


def test_missing_instructions_are_not_replaced() -> None:
    assert "instructions" not in told(
        capabilities={}, _meta={names.META_SERVER: {"name": "x", "version": "1"}}
    )


def test_our_workspace_server_declares_the_codex_sandbox_capability() -> None:
    meta = {names.META_SERVER: {"name": names.WORKSPACE_SERVER, "version": "1"}}
    found = told(capabilities={"tools": {}, "experimental": {"x": {}}}, _meta=meta)
    assert found["capabilities"] == {"tools": {}, "experimental": {"x": {}, **CODEX}}


def test_only_the_tasks_extension_is_removed_for_sessions() -> None:
    extensions = {"io.modelcontextprotocol/tasks": {}, "io.modelcontextprotocol/ui": {"a": 1}}
    found = told(capabilities={"extensions": extensions}, _meta={})
    assert found["capabilities"] == {"extensions": {"io.modelcontextprotocol/ui": {"a": 1}}}


@pytest.mark.parametrize("meta", [{}, {names.META_SERVER: "theirs"}, {names.META_SERVER: {}}, []])
def test_a_server_without_an_identity_gets_the_managers(meta: Any) -> None:
    assert told(capabilities=[], _meta=meta)["serverInfo"] == replies.SERVER_INFO
