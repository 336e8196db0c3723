"""Pure addresses of a workspace that is one server of somebody else, as it is: clients meet that server.

Requests go to it with their own parameters and cursors, and its results come back as they came; its calls
pass the gate, and nothing else of ours. When that is so is decided in `catalog/pass_through.py`; listen
streams are those of `http/listen.py` here, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from protocol import headers, inbound, jsonrpc, names
from protocol.inbound import Rejection
from protocol.versions import MODERN_REVISIONS, Era
from workspace_server import naming
from workspace_server.calls import mcp_requests
from workspace_server.calls.call import Call
from workspace_server.calls.dispatch import Calls
from workspace_server.calls.request import McpRequest, Outcome
from workspace_server.catalog.pass_through import pass_through_server
from workspace_server.catalog.registry import OfferedTool
from workspace_server.catalog.view import Mode, View, mode_of
from workspace_server.config import policy
from workspace_server.source import HandshakeResult, Source
from workspace_server.tool import Tool

GREETING_S: Final = 5.0
"""How long a client that wants to know what the server can do waits for its start. With the time that a first
list takes, and a start of our own, it is less than the manager waits."""
_STATUS: Final[Mapping[int, int]] = {
    jsonrpc.METHOD_NOT_FOUND: 404,
    inbound.HEADER_MISMATCH: 400,
    inbound.MISSING_CAPABILITY: 400,
    inbound.UNSUPPORTED_VERSION: 400,
}
"""HTTP status of a server's own errors; that of all others is 200."""
_OLDER_TASKS: Final = "tasks"
"""A capability of 2025-11-25 whose methods mean something else than those of the extension after it."""


class PassThrough:
    """Answers for the one server of a workspace, where there is only one."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._seen: tuple[View, Source | None] = (View(), None)

    async def answer(self, asked: McpRequest) -> Outcome | None:
        """The server's own answer; None where the workspace has to answer as what it gathered.

        Raises:
            msgspec.DecodeError: parameters cannot be read.
        """
        method = asked.request.method
        if not _means_one_server(asked):
            return None
        is_call = method == names.TOOLS_CALL
        view = (asked.view if is_call else None) or await self._calls.toolset.current()
        source = self._sole(view)
        if source is None:
            return None
        if method == names.DISCOVER:
            return await self._discover(asked, view, source)
        if method.startswith(f"{_OLDER_TASKS}/") and not await _is_of(source, Era.MODERN):
            return None
        if is_call:
            outcome = await self._call(asked, view, source)
        else:
            found = await mcp_requests.relay(self._calls, asked, view, source, asked.inbound.params)
            outcome = mcp_requests.answer(asked, found)
        return await _finished(outcome, source)

    def may_answer(self, asked: McpRequest, view: View) -> bool:
        """Whether `answer` is to be asked about a call under this view."""
        return self._sole(view) is not None and _means_one_server(asked)

    def _sole(self, view: View) -> Source | None:
        if view is not self._seen[0]:
            self._seen = view, pass_through_server(view)
        return self._seen[1]

    async def _discover(self, asked: McpRequest, view: View, source: Source) -> Outcome | None:
        """What the server says of itself, but for the revisions, which are those spoken here."""
        try:
            async with asyncio.timeout(GREETING_S):
                greeting = await source.greeting()
        except TimeoutError:
            return None
        if greeting is None:
            return None
        said: Mapping[str, Any] = _said(greeting)
        if greeting.era is Era.MODERN:
            found = await mcp_requests.relay(self._calls, asked, view, source, asked.inbound.params)
            said = jsonrpc.members_of(found) if isinstance(found, msgspec.Raw) else said
        return jsonrpc.raw({**said, "supportedVersions": list(MODERN_REVISIONS)})

    async def _call(self, asked: McpRequest, view: View, source: Source) -> Outcome | None:
        name = asked.inbound.name or ""
        arguments = asked.inbound.params.get("arguments", msgspec.Raw(b"{}"))
        if jsonrpc.bytes_of(arguments)[:1] != b"{":
            return asked.invalid("params.arguments must be an object")
        offered = _known(view, name) or _unlisted(view, source, name)
        if offered is None:
            return None
        return await self._calls.pass_on(Call(asked, view, name, arguments), offered)


def _means_one_server(asked: McpRequest) -> bool:
    if headers.PASS_THROUGH not in asked.header or asked.request.method in names.LEGACY_ONLY:
        return False
    return mode_of(asked.header, asked.query) is Mode.NORMAL


def _known(view: View, name: str) -> OfferedTool | None:
    """The tool that the server itself calls so."""
    offered = view.get(name)
    if offered is not None and offered.tool.name == name:
        return offered
    return next((one for one in view.tools if one.tool.name == name), None)


def _unlisted(view: View, source: Source, name: str) -> OfferedTool | None:
    """A name it does not list, which is for it to refuse or not; None for one that nobody may call here."""
    configuration = view.configuration
    if naming.is_internal_tool(name, configuration.internal_prefix):
        return None
    if policy.hidden({name: source.default}, configuration.deltas):
        return None
    tool = Tool(name, {"name": name, "inputSchema": {"type": "object"}}, timeout_s=source.timeout_s)
    return OfferedTool(name, tool, source, tool.definition)


def _said(greeting: HandshakeResult) -> dict[str, Any]:
    """What a server said when a session with it was opened, as a result of `server/discover`."""
    capabilities = {name: own for name, own in greeting.capabilities.items() if name != _OLDER_TASKS}
    own = {} if greeting.instructions is None else {"instructions": greeting.instructions}
    meta = {names.META_SERVER: greeting.server_info}
    said = {"resultType": "complete", "capabilities": capabilities, **own, "_meta": meta}
    return {**said, "ttlMs": 0, "cacheScope": "private"}


async def _is_of(source: Source, era: Era) -> bool:
    greeting = await source.greeting()
    return greeting is not None and greeting.era is era


async def _finished(outcome: Outcome | None, source: Source) -> Outcome | None:
    if isinstance(outcome, Rejection):
        return replace(outcome, status=_STATUS.get(outcome.code, outcome.status))
    if not isinstance(outcome, msgspec.Raw):
        return outcome
    greeting = await source.greeting()
    if greeting is None or greeting.era is Era.MODERN:
        return outcome
    return _signed(outcome, greeting.server_info)


def _signed(result: msgspec.Raw, server: Mapping[str, Any]) -> msgspec.Raw:
    """A result of the older era with what the newer one adds: who answered."""
    text = jsonrpc.bytes_of(result)
    signature = jsonrpc.raw({names.META_SERVER: server})
    members = jsonrpc.members_of(text) if b'"_meta"' in text else {}
    if "_meta" not in members:
        return msgspec.Raw(text[:-1].rstrip() + b',"_meta":' + jsonrpc.bytes_of(signature) + b"}")
    own = jsonrpc.members_of(members["_meta"])
    return jsonrpc.raw({**members, "_meta": {names.META_SERVER: server, **own}})
