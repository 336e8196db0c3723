"""Asks a workspace server for its `server/discover` result, for clients connected to that workspace's URL.

Such a client sees the workspace server's capabilities, instructions and identity, in its `initialize` or
`server/discover` result. At `/mcp` without a workspace, or if the server does not answer in time, the manager
gives its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol import tasks_extension as tasks
from manager.answers import result_format
from manager.answers.exchange import Exchange, Located, Unlocated
from manager.answers.listing.catalog import Catalog, Failure
from manager.answers.listing.list_adaptation import ListAdaptation
from manager.answers.upstream_request import address_headers
from manager.answers.workspace_lookup import look_up_workspace
from manager.routing.discovery.host_mark import host_mark
from manager.routing.workspace.remote_address import split_root
from manager.supervision.workspaces import Workspaces

WAIT_S: Final = 8.0
"""Seconds to wait for a workspace server that is starting; clients give up after 10 s."""
_CODEX: Final[Mapping[str, Any]] = {names.CODEX_SANDBOX: {}}
_NOTHING: Final = msgspec.Raw(b"{}")
_OURS: Final = jsonrpc.raw(names.WORKSPACE_SERVER)

DiscoverResult = Mapping[str, msgspec.Raw]
"""The members of a `server/discover` result."""


class ServerDiscover:
    """Requests `server/discover` from workspace servers. Nothing is cached."""

    def __init__(self, workspaces: Workspaces, catalog: Catalog, adaptation: ListAdaptation) -> None:
        self._workspaces = workspaces
        self._catalog = catalog
        self._adaptation = adaptation

    async def result(self, exchange: Exchange) -> DiscoverResult | None:
        """The result of the workspace server at this URL; None if the manager has to give its own."""
        located = await look_up_workspace(self._workspaces, exchange.claims)
        if not isinstance(located, Located):
            exchange.decided(Unlocated())
            return None
        exchange.decided(located)
        if not located.is_pure:
            return None
        try:
            async with asyncio.timeout(WAIT_S):
                adapted = await self._adaptation.discover_headers(exchange, located.workspace)
                on_behalf = [*address_headers(exchange), *adapted]
                result = await self._catalog.ask(located.workspace, names.DISCOVER, {}, on_behalf)
        except TimeoutError:
            return None
        if isinstance(result, Failure) or "capabilities" not in result:
            return None
        place = split_root(located.workspace.root)
        return result if place is None else _marked(result, host_mark(place))


def _marked(result: DiscoverResult, mark: str) -> DiscoverResult:
    """The result with instructions that begin with the mark of another host."""
    own = jsonrpc.text_of(result["instructions"]) if "instructions" in result else None
    return {**result, "instructions": jsonrpc.raw(f"{mark}\n\n{own}" if own else mark)}


def initialize_result(revision: str, discovered: DiscoverResult) -> dict[str, Any]:
    """Translate a `server/discover` result into the `initialize` result of a session of this revision."""
    meta = jsonrpc.members_of(discovered.get("_meta", _NOTHING))
    server = jsonrpc.members_of(meta.get(names.META_SERVER, _NOTHING)) or result_format.SERVER_INFO
    capabilities = legacy_capabilities(discovered["capabilities"])
    if server.get("name") == _OURS:
        own = jsonrpc.members_of(capabilities.get("experimental", _NOTHING))
        capabilities["experimental"] = {**own, **_CODEX}
    result = {"protocolVersion": revision, "capabilities": capabilities, "serverInfo": server}
    return {**result, "instructions": discovered["instructions"]} if "instructions" in discovered else result


def legacy_capabilities(capabilities: msgspec.Raw) -> dict[str, Any]:
    """The capabilities without the tasks extension (SEP-2663), which session clients do not have."""
    members: dict[str, Any] = dict(jsonrpc.members_of(capabilities))
    extensions = jsonrpc.members_of(members.get("extensions", _NOTHING))
    if tasks.EXTENSION in extensions:
        members["extensions"] = {name: raw for name, raw in extensions.items() if name != tasks.EXTENSION}
    return members
