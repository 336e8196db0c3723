"""Reads what is at `ui://` addresses: the pages of apps and their data (MCP Apps, SEP-1865)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from lm_tools_bridge.protocol import apps_extension as apps
from lm_tools_bridge.protocol import jsonrpc
from workspace_server.calls import mcp_requests
from workspace_server.calls.dispatch import Calls
from workspace_server.calls.request import McpRequest
from workspace_server.catalog.app_addresses import AppAddress, AppAddresses
from workspace_server.catalog.view import View
from workspace_server.source import Source
from workspace_server.tool import CallOutcome


def find_address(view: View, uri: str) -> tuple[Source, AppAddress] | None:
    """The source that has this address, and the address as it wrote it; None if none is known to have it."""
    addresses = view.snapshot.addresses
    if not addresses or not uri.startswith(apps.SCHEME):
        return None
    place = addresses.find(uri)
    source = None if place is None else view.snapshot.source(place.source)
    if place is None or source is None or not _is_offered(view, source):
        return None
    return source, place


def _is_offered(view: View, source: Source) -> bool:
    """Whether a client may have anything of a source; of one that is off, the user enabled single tools."""
    return source.default == "enabled" or any(offered.source is source for offered in view.tools)


async def read_address(
    calls: Calls, request: McpRequest, view: View, source: Source, place: AppAddress
) -> CallOutcome:
    """What a source has at an address of its own, under the address that the client asked for."""
    uri = request.inbound.name or ""
    if place.written == uri:
        return await mcp_requests.forward(calls, request, view, source, request.inbound.params)
    params = {**request.inbound.params, "uri": jsonrpc.raw(place.written)}
    outcome = await mcp_requests.forward(calls, request, view, source, params)
    if not isinstance(outcome, msgspec.Raw):
        return outcome
    return _under_shown_addresses(outcome, source, {place.written: uri}, view.snapshot.addresses)


def _under_shown_addresses(
    result: msgspec.Raw, source: Source, asked: Mapping[str, str], addresses: AppAddresses
) -> msgspec.Raw:
    """The result with the addresses that clients know; all other bytes of its contents stay."""
    members = jsonrpc.members_of(result)
    try:
        contents = msgspec.json.decode(members["contents"], type=list[dict[str, msgspec.Raw]])
    except (KeyError, msgspec.DecodeError):
        return result  # an input request, or nothing that a client could read
    for entry in contents:
        written = jsonrpc.text_of(entry.get("uri", msgspec.Raw(b"null")))
        if written is not None:
            entry["uri"] = jsonrpc.raw(asked.get(written) or addresses.shown(source, written))
    return jsonrpc.raw({**members, "contents": contents})
