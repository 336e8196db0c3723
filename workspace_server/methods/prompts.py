"""Answers `prompts/list` and `prompts/get` with the prompts of all sources, under their offered names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lm_tools_bridge.protocol import jsonrpc
from workspace_server.calls import mcp_requests, unknown_tool
from workspace_server.calls.dispatch import Calls
from workspace_server.calls.request import McpRequest, Outcome
from workspace_server.catalog.view import View


def entries(view: View) -> list[Mapping[str, Any]]:
    """The objects of `prompts/list`, ordered by name."""
    return [one.definition for one in view.snapshot.offerings.prompts]


async def get(calls: Calls, request: McpRequest, view: View) -> Outcome:
    """Answer `prompts/get` from the prompt's source, with the source's own name for it."""
    name = request.inbound.name or ""
    offered = view.snapshot.offerings.prompt(name)
    if offered is None:
        return unknown_tool.unknown_prompt(request, view, name)
    params = {**request.inbound.params, "name": jsonrpc.raw(offered.entry.original)}
    return mcp_requests.answer(
        request, await mcp_requests.forward(calls, request, view, offered.source, params)
    )
