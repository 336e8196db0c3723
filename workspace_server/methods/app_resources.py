"""Reads what is at `ui://` addresses: the pages of apps and their data (MCP Apps, SEP-1865)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from lm_tools_bridge.protocol import apps_extension as apps
from lm_tools_bridge.protocol import jsonrpc
from lm_tools_bridge.protocol.inbound import Rejection
from workspace_server.calls import mcp_requests
from workspace_server.calls.app_calls import OpenedApps
from workspace_server.calls.dispatch import Calls
from workspace_server.calls.request import McpRequest
from workspace_server.catalog.app_addresses import AppAddresses, server_name
from workspace_server.catalog.view import View
from workspace_server.source import Source
from workspace_server.tool import CallOutcome


class Place(NamedTuple):
    """A source, and an address as that source wrote it."""

    source: Source
    written: str


def find_place(view: View, uri: str) -> Place | None:
    """Where an address of a list or of a tool leads; None for any other."""
    addresses = view.snapshot.addresses
    address = addresses.find(uri) if addresses and uri.startswith(apps.SCHEME) else None
    source = None if address is None else view.snapshot.source(address.source)
    if address is None or source is None or not _is_offered(view, source):
        return None
    return Place(source, address.written)


def find_place_for(request: McpRequest, view: View, opened: OpenedApps) -> Place | Rejection | None:
    """Where the address of a request leads, or the error if that is open; None if no app is known to have it.

    Pages have one address each. Any other may be data that an app reads by the address that its own server
    knows.
    """
    uri = request.inbound.name or ""
    place = find_place(view, uri)
    if view.apps is None or not uri.startswith(apps.SCHEME):
        return place
    if place is not None and (place.written != uri or uri in view.apps.pages):
        return place
    neighbours = view.snapshot.addresses.neighbours(uri)
    if len(neighbours) < 2:
        return place
    last = view.snapshot.source(opened.last(request, neighbours) or "")
    return place or _ambiguous(request, uri, neighbours) if last is None else Place(last, uri)


async def read_place(calls: Calls, request: McpRequest, view: View, place: Place) -> CallOutcome:
    """What is at a place, under the address that the client asked for."""
    uri, params = request.inbound.name or "", request.inbound.params
    if place.written != uri:
        params = {**params, "uri": jsonrpc.raw(place.written)}
    outcome = await mcp_requests.forward(calls, request, view, place.source, params)
    if not isinstance(outcome, msgspec.Raw):
        return outcome
    if view.apps is not None and uri in view.apps.pages:
        calls.opened_apps.note(request, place.source.id)
    if place.written == uri:
        return outcome
    return _under_shown_addresses(outcome, place.source, {place.written: uri}, view.snapshot.addresses)


def _is_offered(view: View, source: Source) -> bool:
    """Whether a client may have anything of a source; of one that is off, the user enabled single tools."""
    return source.default == "enabled" or any(offered.source is source for offered in view.tools)


def _ambiguous(request: McpRequest, uri: str, sources: Sequence[str]) -> Rejection:
    servers = " and ".join(map(server_name, sources))
    message = f"Apps of {servers} have addresses like {uri}, and it is not known which app reads it"
    return request.invalid(f"{message}. Next step: open the app again.")


def _under_shown_addresses(
    result: msgspec.Raw, source: Source, requested: Mapping[str, str], addresses: AppAddresses
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
            entry["uri"] = jsonrpc.raw(requested.get(written) or addresses.client_address(source, written))
    return jsonrpc.raw({**members, "contents": contents})
