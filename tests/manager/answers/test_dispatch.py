"""Unwrapping `lmToolsBridge.callTool`: the wrapped call, its workspace, refusals."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from lm_tools_bridge.protocol import names
from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.jsonrpc import bytes_of
from manager.answers.dispatch import Unwrapped, unwrap_call
from manager.routing.resolution import Claims
from support.clients.exchanges import call, legacy, stateless

AMBIENT = Claims(session="bound", query="/q", header="/h")


def unwrapped(arguments: object, **members: Any) -> Unwrapped:
    found = unwrap_call(legacy(call(names.CALL_TOOL, arguments), **members))
    assert isinstance(found, Unwrapped), found
    return found


def test_the_wrapped_call_replaces_the_wrapping_one() -> None:
    """What the client wrote stays as it wrote it."""
    body = (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lmToolsBridge.callTool",'
        b'"arguments":{"name":" x ","arguments":{ "big" : 12345678901234567890123 , "a":1.0 }},'
        b'"_meta":{"progressToken":7,"vendor/x":1},"task":{"ttl":1}}}'
    )
    found = unwrap_call(legacy(body))
    assert isinstance(found, Unwrapped)
    assert {key: bytes_of(value) for key, value in found.params.items()} == {
        "name": b'"x"',
        "arguments": b'{ "big" : 12345678901234567890123 , "a":1.0 }',
        "_meta": b'{"progressToken":7,"vendor/x":1}',
        "task": b'{"ttl":1}',
    }


def test_a_stateless_call_is_unwrapped_in_the_same_way() -> None:
    found = unwrap_call(stateless(names.TOOLS_CALL, {"name": names.CALL_TOOL, "arguments": {"name": "x"}}))
    assert isinstance(found, Unwrapped)
    assert set(found.params) == {"name", "arguments", "_meta"}


def test_missing_arguments_are_empty_arguments() -> None:
    assert bytes_of(unwrapped({"name": "x"}).params["arguments"]) == b"{}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "expected name (string)"),
        (None, "expected name (string)"),
        ("x", "expected name (string)"),
        ({"name": ""}, "expected name (string)"),
        ({"name": "  "}, "expected name (string)"),
        ({"name": 7}, "expected name (string)"),
        ({"name": None}, "expected name (string)"),
        ({"name": "x", "arguments": []}, "expected arguments (object)"),
        ({"name": "x", "arguments": "{}"}, "expected arguments (object)"),
        ({"name": "x", "arguments": None}, "expected arguments (object)"),
        ({"name": "x", "workspace": 7}, "expected workspace (string)"),
        ({"name": "x", "cwd": ["/x"]}, "expected cwd (string)"),
        *[
            ({"name": f" {name} "}, f"tool name is not allowed: {name}")
            for name in sorted(names.MANAGER_TOOL_NAMES)
        ],
    ],
)
def test_an_invalid_call_is_refused_with_the_expected_form(arguments: object, message: str) -> None:
    refusal = unwrap_call(legacy(call(names.CALL_TOOL, arguments)))
    assert isinstance(refusal, Refusal)
    assert (refusal.reason, refusal.message, refusal.delivered) == (Reason.INVALID_ARGUMENTS, message, "no")
    assert "{ name: string, arguments?: object, workspace?: string, cwd?: string }" in refusal.text


def test_without_workspace_and_cwd_the_requests_own_claims_hold() -> None:
    assert unwrapped({"name": "x"}, claims=AMBIENT).claims == AMBIENT


@pytest.mark.parametrize("blank", [None, "", "  "])
@pytest.mark.parametrize("member", ["workspace", "cwd"])
def test_a_blank_workspace_or_cwd_is_ignored(member: str, blank: object) -> None:
    assert unwrapped({"name": "x", member: blank}, claims=AMBIENT).claims == AMBIENT


def test_workspace_and_cwd_are_explicit_claims() -> None:
    claims = unwrapped({"name": "x", "workspace": "w", "cwd": "/c"}, claims=AMBIENT).claims
    assert claims == replace(AMBIENT, argument_workspace="w", argument_cwd="/c")
    assert [claim.text for claim in claims.explicit_claims()] == ["w", "/c"]


def test_at_a_workspaces_url_path_and_arguments_must_agree() -> None:
    """The path goes on claiming."""
    claims = unwrapped({"name": "x", "workspace": "w"}, claims=Claims(path="p")).claims
    assert (claims.path, claims.argument_workspace) == ("p", "w")
