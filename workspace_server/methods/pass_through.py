"""Passes requests through to the only MCP server of a workspace, at the workspace's own addresses.

The server gets parameters and cursors unchanged, and clients get its results unchanged; only the gates apply
to its calls. `pass_through_server` decides whether a workspace is passed through. Listen streams are
served by `http/listen.py` as usual.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import structs

from lm_tools_bridge.protocol import headers, inbound, jsonrpc, names
from lm_tools_bridge.protocol.inbound import Rejection
from lm_tools_bridge.protocol.names import MODERN_REVISIONS, Era
from workspace_server import naming
from workspace_server.calls import mcp_requests
from workspace_server.calls.call import Way, call_of
from workspace_server.calls.dispatch import Calls
from workspace_server.calls.request import McpRequest, Outcome
from workspace_server.catalog.registry import OfferedTool
from workspace_server.catalog.view import Mode, View, mode_of
from workspace_server.config import policy
from workspace_server.source import HandshakeResult, Source
from workspace_server.tool import Tool

HANDSHAKE_S: Final = 5.0
"""How long `server/discover` waits for the server's handshake. Together with the first list and the start of
this process that is less than the manager's own limit."""
_STATUS: Final[Mapping[int, int]] = {
    jsonrpc.METHOD_NOT_FOUND: 404,
    inbound.HEADER_MISMATCH: 400,
    inbound.MISSING_CAPABILITY: 400,
    inbound.UNSUPPORTED_VERSION: 400,
}
"""HTTP status for error codes of the server; 200 for all others."""
_OLDER_TASKS: Final = "tasks"
"""A capability of MCP 2025-11-25. The later extension (SEP-2663) has methods of the same names."""


class PassThrough:
    """Answers requests with the responses of a workspace's only server."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._last: tuple[View, Source | None] = (View(), None)

    async def answer(self, request: McpRequest) -> Outcome | None:
        """The server's own answer; None if the workspace is not passed through, or not for this request.

        Raises:
            msgspec.DecodeError: the parameters cannot be decoded.
        """
        method = request.method
        if not _wants_pass_through(request):
            return None
        is_call = method == names.TOOLS_CALL
        view = (request.view if is_call else None) or await self._calls.toolset.current(request.list_wait_s)
        source = self._server_of(view)
        if source is None:
            return None
        if method == names.TOOLS_LIST and request.sees(view) is not view:
            return None  # the server's own list has tools that this client must not see
        if method == names.DISCOVER:
            return await self.discover(request, view, source)
        if method.startswith(f"{_OLDER_TASKS}/") and not await _speaks(source, Era.MODERN):
            return None
        if is_call:
            outcome = await self._call(request, view, source)
        else:
            forwarded_outcome = await mcp_requests.forward(
                self._calls, request, view, source, request.inbound.params
            )
            outcome = mcp_requests.answer(request, forwarded_outcome)
        return await _completed(outcome, source)

    def may_answer(self, request: McpRequest, view: View) -> bool:
        """Whether `answer` may answer a call under this view."""
        return self._server_of(view) is not None and _wants_pass_through(request)

    def _server_of(self, view: View) -> Source | None:
        if view is not self._last[0]:
            self._last = view, pass_through_server(view)
        return self._last[1]

    async def discover(self, request: McpRequest, view: View, source: Source) -> Outcome | None:
        """The server's `server/discover` result, with the revisions that this process supports.

        None if the server does not answer in time.
        """
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                handshake_result = await source.handshake_result()
        except TimeoutError:
            return None
        if handshake_result is None:
            return None
        about: Mapping[str, Any] = _discover_result(handshake_result)
        if handshake_result.era is Era.MODERN:
            outcome = await mcp_requests.forward(self._calls, request, view, source, request.inbound.params)
            about = jsonrpc.members_of(outcome) if isinstance(outcome, msgspec.Raw) else about
        return jsonrpc.raw({**about, "supportedVersions": list(MODERN_REVISIONS)})

    async def _call(self, request: McpRequest, view: View, source: Source) -> Outcome | None:
        call = call_of(request, view, Way.PASS_THROUGH)
        if isinstance(call, Rejection):
            return call
        view = call.view
        offered = _listed_tool(view, call.name) or _unlisted(view, source, call.name)
        return None if offered is None else await self._calls.run_tool(call, offered)


def _wants_pass_through(request: McpRequest) -> bool:
    if headers.PASS_THROUGH not in request.header or request.method in names.LEGACY_ONLY:
        return False
    if headers.SERVER in request.header:
        return False  # the workspace may get other servers; what this client sees stays the same
    return mode_of(request.header, request.query) is Mode.NORMAL


def _listed_tool(view: View, name: str) -> OfferedTool | None:
    """The listed tool that has this name at the server."""
    offered = view.get(name)
    if offered is not None and offered.tool.name == name:
        return offered
    return next((offered for offered in view.tools if offered.tool.name == name), None)


def _unlisted(view: View, source: Source, name: str) -> OfferedTool | None:
    """A tool that the server does not list and may still have; None if policy forbids the name."""
    configuration = view.configuration
    if name in view.hidden or naming.is_internal_tool(name, configuration.internal_prefix):
        return None
    if policy.hidden({name: source.default}, configuration.deltas):
        return None
    tool = Tool(name, {"name": name, "inputSchema": {"type": "object"}}, timeout_s=source.timeout_s)
    return OfferedTool(name, tool, source, tool.definition)


def _discover_result(handshake_result: HandshakeResult) -> dict[str, Any]:
    """A result of `server/discover`, made from the server's handshake."""
    capabilities = {name: own for name, own in handshake_result.capabilities.items() if name != _OLDER_TASKS}
    own = {} if handshake_result.instructions is None else {"instructions": handshake_result.instructions}
    meta = {names.META_SERVER: handshake_result.server_info}
    about = {"resultType": "complete", "capabilities": capabilities, **own, "_meta": meta}
    return {**about, "ttlMs": 0, "cacheScope": "private"}


async def _speaks(source: Source, era: Era) -> bool:
    handshake_result = await source.handshake_result()
    return handshake_result is not None and handshake_result.era is era


async def _completed(outcome: Outcome | None, source: Source) -> Outcome | None:
    """The outcome with the HTTP status and the `serverInfo` that MCP 2026-07-28 asks for."""
    if isinstance(outcome, Rejection):
        return structs.replace(outcome, status=_STATUS.get(outcome.code, outcome.status))
    if not isinstance(outcome, msgspec.Raw):
        return outcome
    handshake_result = await source.handshake_result()
    if handshake_result is None or handshake_result.era is Era.MODERN:
        return outcome
    return _signed(outcome, handshake_result.server_info)


def _signed(result: msgspec.Raw, server: Mapping[str, Any]) -> msgspec.Raw:
    """A result of an older revision with `serverInfo` added to its `_meta`."""
    text = jsonrpc.bytes_of(result)
    signature = jsonrpc.raw({names.META_SERVER: server})
    members = jsonrpc.members_of(text) if b'"_meta"' in text else {}
    if "_meta" not in members:
        return msgspec.Raw(text[:-1].rstrip() + b',"_meta":' + jsonrpc.bytes_of(signature) + b"}")
    own = jsonrpc.members_of(members["_meta"])
    return jsonrpc.raw({**members, "_meta": {names.META_SERVER: server, **own}})


_OURS: Final = frozenset({"builtin", "script", "skill", "language-server", "editor"})
"""Kinds of sources that every workspace has, even if they offer nothing."""
_UNREADABLE: Final = ("_MEMBERS_REMOVED", "TOOL_SCHEMA_INVALID", "_NAME_INVALID", "_URI_INVALID")
"""Ends of the codes of issues about entries for which a client would refuse the server's whole list."""


def pass_through_server(view: View) -> Source | None:
    """The only server of a view, if its tools keep their own names and no setting changes what it offers.

    Disabled servers do not count, nor do built-ins and script folders without tools. None if there is no such
    server, or the user has not trusted it yet.
    """
    servers = [
        source for source in view.snapshot.sources if source.kind not in _OURS and source.state != "disabled"
    ]
    if len(servers) != 1 or not naming.is_bare(servers[0]) or servers[0].state == "pending_trust":
        return None
    (source,) = servers
    alone = not view.snapshot.withheld and all(offered.source is source for offered in view.tools)
    return source if alone and _is_unmodified(view, source) else None


def _is_unmodified(view: View, source: Source) -> bool:
    """Whether clients can read its lists, and no setting hides a tool or changes how it is called."""
    if view.configuration.makes_tasks:
        return False  # tasks that this server makes need its own task methods
    if source.include or source.exclude or source.default != "enabled":
        return False
    if any(issue.code == "TOOL_NAME_RESERVED" or issue.code.endswith(_UNREADABLE) for issue in view.issues):
        return False
    if any(offered.defaults or offered.tool.visibility != "native" for offered in view.tools):
        return False
    decided = {name for name, decision in view.configuration.approvals.items() if decision != "allow"}
    own = [offered.name for offered in view.snapshot.tools if offered.source is source]
    if not own:  # the tools are not known yet, so any setting could concern one of them
        deltas, choices = view.configuration.deltas, view.configuration.visibility
        is_chosen = bool(choices.tools or choices.sources)
        return not (decided or is_chosen or deltas.disabled or deltas.unexposed or deltas.closed)
    return not any(name in decided or name in view.hidden for name in own)
