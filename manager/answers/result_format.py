"""Formats results and refusals for the protocol revision of the request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol import skills_extension as skills
from lm_tools_bridge.protocol.errors import ALWAYS_ERRORS, Reason, Refusal
from manager import __version__
from manager.answers.exchange import Exchange, Plain
from manager.routing.json import legacy_result

SERVER_INFO: Final = {
    "name": "lm-tools-bridge-manager",
    "title": "LM Tools Bridge",
    "version": __version__,
}
INSTRUCTIONS: Final = (
    "The project is not known yet. First call lmToolsBridge.requestWorkspaceMCPServer with cwd = the absolute"
    " path of your project: its answer names the tools of the project and of the MCP servers behind it. Call"
    " them by name, or through lmToolsBridge.callTool with name, arguments and the workspace handle from that"
    " answer."
)
CACHEABLE: Final = frozenset(
    {names.DISCOVER, names.TOOLS_LIST, names.PROMPTS_LIST, names.RESOURCES_LIST, names.TEMPLATES_LIST,
     names.RESOURCES_READ, skills.LIST, skills.GET}
)  # fmt: skip


def result(exchange: Exchange, value: Mapping[str, Any]) -> bytes:
    """The response body for a result of the manager, which may include those of a workspace server.

    Stateless results have a type and the server's identity; session results must not have them.
    """
    if not exchange.is_modern:
        return jsonrpc.result(exchange.message.id, legacy_result.convert_result(value))
    meta = {names.META_SERVER: SERVER_INFO, **_meta_of(value)}
    complete: dict[str, Any] = {"resultType": "complete", **value, "_meta": meta}
    if exchange.message.method in CACHEABLE:
        complete |= {"ttlMs": 0, "cacheScope": "private"}
    return jsonrpc.result(exchange.message.id, complete)


def _meta_of(value: Mapping[str, Any]) -> Mapping[str, Any]:
    meta = value.get("_meta", {})
    return jsonrpc.members_of(meta) if isinstance(meta, msgspec.Raw) else meta


def refusal(exchange: Exchange, refused: Refusal) -> bytes:
    """The response body for a refusal: a tool result where a model can read it, else a JSON-RPC error."""
    if exchange.is_tool_call and refused.reason not in ALWAYS_ERRORS:
        return result(exchange, refused.as_tool_result())
    return refused.as_error(exchange.message.id)


def refuse(exchange: Exchange, refused: Refusal) -> Plain:
    """The reply for a refusal."""
    if refused.reason is Reason.TOO_MANY_SESSIONS:
        if refused.retry_after_ms is not None:
            exchange.headers["Retry-After"] = str(max(1, refused.retry_after_ms // 1000))
        return Plain(refused.as_error(exchange.message.id), 503)
    return Plain(refusal(exchange, refused))


def method_not_found(exchange: Exchange) -> Plain:
    """The reply to an unknown method: HTTP 404 for a stateless request, 200 in a session."""
    body = jsonrpc.error(
        exchange.message.id, jsonrpc.METHOD_NOT_FOUND, f"method not found: {exchange.message.method[:100]}"
    )
    return Plain(body, 404 if exchange.is_modern else 200)
