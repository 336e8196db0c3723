"""Unwraps `lmToolsBridge.callTool` into the call of the tool that its arguments name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol.errors import Reason, Refusal
from manager.answers.exchange import Exchange
from manager.routing.workspace.resolution import Claims


@dataclass(frozen=True, slots=True)
class Unwrapped:
    """The wrapped call: parameters of the `tools/call`, and claims that include `workspace` and `cwd`."""

    params: dict[str, msgspec.Raw]
    claims: Claims


def unwrap(exchange: Exchange) -> Unwrapped | Refusal:
    """Read the wrapped call. All parameters but `name` and `arguments` are kept unchanged."""
    arguments = jsonrpc.members_of(exchange.params.get("arguments", b"{}"))
    name = (jsonrpc.text_of(arguments["name"]) or "").strip() if "name" in arguments else ""
    if not name:
        return _invalid("expected name (string)")
    if name in names.MANAGER_TOOL_NAMES:
        return _invalid(f"tool name is not allowed: {name}")
    inner = arguments.get("arguments", msgspec.Raw(b"{}"))
    if jsonrpc.bytes_of(inner)[:1] != b"{":
        return _invalid("expected arguments (object)")
    workspace, cwd = _text(arguments, "workspace"), _text(arguments, "cwd")
    if isinstance(workspace, Refusal):
        return workspace
    if isinstance(cwd, Refusal):
        return cwd
    claims = replace(exchange.claims, argument_workspace=workspace, argument_cwd=cwd)
    return Unwrapped({**exchange.params, "name": jsonrpc.raw(name), "arguments": inner}, claims)


def is_explicit(exchange: Exchange) -> bool:
    """Whether this is a wrapped call whose arguments name the workspace, or are invalid."""
    if not (exchange.is_tool_call and exchange.inbound.name in names.CALL_TOOL_NAMES):
        return False
    call = unwrap(exchange)
    return isinstance(call, Refusal) or call.claims.names_workspace()


def _text(arguments: Mapping[str, msgspec.Raw], member: str) -> str | Refusal | None:
    if member not in arguments or jsonrpc.bytes_of(arguments[member]) == b"null":
        return None
    text = jsonrpc.text_of(arguments[member])
    if text is None:
        return _invalid(f"expected {member} (string)")
    return text if text.strip() else None


def _invalid(message: str) -> Refusal:
    return Refusal(
        Reason.INVALID_ARGUMENTS,
        message,
        "write the call as { name: string, arguments?: object, workspace?: string, cwd?: string }",
        delivered="no",
    )
