"""The prompts of a workspace: those of its sources, under names of ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from protocol import jsonrpc
from workspace_server.calls import mcp_requests, unknown_tool
from workspace_server.calls.dispatch import Calls
from workspace_server.calls.request import McpRequest, Outcome
from workspace_server.catalog.view import View


def entries(view: View) -> list[Mapping[str, Any]]:
    """The objects of `prompts/list`, ordered by name."""
    return [one.definition for one in view.snapshot.offerings.prompts]


async def get(calls: Calls, asked: McpRequest, view: View) -> Outcome:
    """The answer to `prompts/get`: its source's, which knows the prompt by its own name."""
    name = asked.inbound.name or ""
    offered = view.snapshot.offerings.prompt(name)
    if offered is None:
        return unknown_tool.unknown_prompt(asked, view, name)
    params = {**asked.inbound.params, "name": jsonrpc.raw(offered.entry.original)}
    return mcp_requests.answer(asked, await mcp_requests.relay(calls, asked, view, offered.source, params))
