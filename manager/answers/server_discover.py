"""What a workspace says of itself at its pure addresses, to clients of either era that greet it.

There a client meets the workspace's server, not the manager, so capabilities, instructions and identity are
that server's own. At the fixed door, and wherever it does not say in time, the manager speaks for itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from manager.answers import result_format
from manager.answers.catalog import Catalog, Failure
from manager.answers.exchange import Exchange, Located, Unlocated
from manager.answers.upstream_request import address_headers
from manager.answers.workspace_lookup import look_up_workspace
from manager.supervision.workspaces import Workspaces
from protocol import jsonrpc, names, tasks

WAIT_S: Final = 8.0
"""How long a greeting waits for a workspace that is just being started; clients give up after 10 s."""
_CODEX: Final[Mapping[str, Any]] = {names.CODEX_SANDBOX: {}}
_NOTHING: Final = msgspec.Raw(b"{}")
_OURS: Final = jsonrpc.raw(names.WORKSPACE_SERVER)

Said = Mapping[str, msgspec.Raw]
"""The members of a result of `server/discover`."""


class ServerDiscover:
    """Asks workspaces for what they say of themselves. Remembers nothing: it may be another tomorrow."""

    def __init__(self, workspaces: Workspaces, catalog: Catalog) -> None:
        self._workspaces = workspaces
        self._catalog = catalog

    async def said(self, exchange: Exchange) -> Said | None:
        """What the workspace at this address says; None where the manager has to speak. Never an error."""
        located = await look_up_workspace(self._workspaces, exchange.claims)
        if not isinstance(located, Located):
            exchange.decided(Unlocated())
            return None
        exchange.decided(located)
        if not located.is_pure:
            return None
        try:
            async with asyncio.timeout(WAIT_S):
                on_behalf = address_headers(exchange)
                said = await self._catalog.ask(located.workspace, names.DISCOVER, {}, on_behalf)
        except TimeoutError:
            return None
        return said if not isinstance(said, Failure) and "capabilities" in said else None


def initialize_result(revision: str, said: Said) -> dict[str, Any]:
    """The result of `initialize` in a session of this revision, at an address that means a workspace."""
    meta = jsonrpc.members_of(said.get("_meta", _NOTHING))
    server = jsonrpc.members_of(meta.get(names.META_SERVER, _NOTHING)) or result_format.SERVER_INFO
    capabilities = legacy_capabilities(said["capabilities"])
    if server.get("name") == _OURS:
        own = jsonrpc.members_of(capabilities.get("experimental", _NOTHING))
        capabilities["experimental"] = {**own, **_CODEX}
    result = {"protocolVersion": revision, "capabilities": capabilities, "serverInfo": server}
    return {**result, "instructions": said["instructions"]} if "instructions" in said else result


def legacy_capabilities(capabilities: msgspec.Raw) -> dict[str, Any]:
    """Capabilities of the stateless era for a client with a session, which never gets tasks of that era."""
    members: dict[str, Any] = dict(jsonrpc.members_of(capabilities))
    extensions = jsonrpc.members_of(members.get("extensions", _NOTHING))
    if tasks.EXTENSION in extensions:
        members["extensions"] = {name: raw for name, raw in extensions.items() if name != tasks.EXTENSION}
    return members
