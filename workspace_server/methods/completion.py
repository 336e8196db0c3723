"""Answers `prompts/list`, `prompts/get`, and `completion/complete` for prompts and resource templates.

Tool names are completed here; everything else is forwarded to its source.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc, names
from workspace_server.calls import mcp_requests, unknown_tool
from workspace_server.calls.dispatch import Calls
from workspace_server.calls.request import McpRequest, Outcome
from workspace_server.catalog.view import View
from workspace_server.methods import resources
from workspace_server.source import Source
from workspace_server.tool import RpcError

_OWN: Final = frozenset({names.TEMPLATE_TOOL, names.TEMPLATE_SCHEMA})
_NOTHING: Final[Mapping[str, Any]] = {"completion": {"values": [], "total": 0, "hasMore": False}}


async def complete(calls: Calls, request: McpRequest, view: View) -> Outcome:
    """Answer one request; an empty list of values if the source has no completions."""
    ref, argument = request.value("ref"), request.value("argument")
    if not (isinstance(ref, dict) and isinstance(argument, dict)):
        return request.invalid("params.ref and params.argument must be objects")
    name, value = argument.get("name"), argument.get("value")
    if not (isinstance(name, str) and isinstance(value, str)):
        return request.invalid("params.argument.name and params.argument.value must be strings")
    if ref.get("uri") in _OWN:
        own = resources.complete(name, value, view)
        return request.invalid(f"params.argument.name: there is no {name}") if own is None else own
    owner = _owner(ref, view)
    if owner is None:
        return request.invalid("params.ref names nothing that can be completed")
    source, own_ref = owner
    params: dict[str, msgspec.Raw] = {**request.inbound.params, "ref": jsonrpc.raw(own_ref)}
    outcome = await mcp_requests.forward(calls, request, view, source, params)
    if isinstance(outcome, RpcError) and outcome.code == jsonrpc.METHOD_NOT_FOUND:
        return _NOTHING
    return mcp_requests.answer(request, outcome)


def _owner(ref: Mapping[str, Any], view: View) -> tuple[Source, Mapping[str, Any]] | None:
    """The source that a reference belongs to, and the reference with the source's own names."""
    offerings = view.snapshot.offerings
    name, uri = ref.get("name"), ref.get("uri")
    if ref.get("type") == "ref/prompt" and isinstance(name, str):
        prompt = offerings.prompt(name)
        return None if prompt is None else (prompt.source, {**ref, "name": prompt.entry.original})
    if ref.get("type") == "ref/resource" and isinstance(uri, str):
        template = offerings.template(uri)
        if template is not None and template.entry.original != uri:
            return template.source, {**ref, "uri": template.entry.original}
        source = offerings.owner(uri) if template is None else template.source
        return None if source is None else (source, ref)
    return None


def entries(view: View) -> list[Mapping[str, Any]]:
    """The objects of `prompts/list`, ordered by name."""
    return [prompt.definition for prompt in view.snapshot.offerings.prompts]


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
