"""Answers the methods of the skills extension (SEP-2640): lists, single skills, directories.

Our own skills come from `sources/skills/`. Those of other servers keep their URIs, and those servers answer
for them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc
from lm_tools_bridge.protocol.extensions import skills as extension
from lm_tools_bridge.protocol.inbound import Rejection
from workspace_server.calls import mcp_requests
from workspace_server.calls.dispatch import Calls
from workspace_server.calls.request import McpRequest, Outcome
from workspace_server.catalog.view import View
from workspace_server.naming import sort_key
from workspace_server.source import Source
from workspace_server.tool import CallOutcome, RpcError

MAX_ASKED: Final = 8
"""How many servers are asked for a skill or directory that none of them lists."""
UNLIKELY_S: Final = 10.0
"""Time limit for a server that does not list the skill."""
_MAX_NAMED: Final = 10
_UNCACHED: Final = {"ttlMs": 0, "cacheScope": "private"}
_NOT_FOUND: Final = frozenset({jsonrpc.INVALID_PARAMS, jsonrpc.METHOD_NOT_FOUND, jsonrpc.RESOURCE_NOT_FOUND})
Page = Callable[[McpRequest, str, Any, str, Any], Outcome]
"""Makes one page: request, member of the result, entries, the key they are ordered by, and the order."""


def own_source(view: View) -> Source | None:
    """The source of the project's and the user's skills."""
    return next((source for source in view.snapshot.sources if source.kind == "skill"), None)


def instructions(view: View) -> str:
    """The sentence for a server's instructions that names our own skills; empty if there are none."""
    own = [skill.name for skill in view.snapshot.offerings.skills if skill.source.kind == "skill"]
    if not own:
        return ""
    more = f" and {len(own) - _MAX_NAMED} more, see resources/list" if len(own) > _MAX_NAMED else ""
    return (
        "Skills, instructions for certain kinds of work, are resources; read the one that fits before you"
        f" begin such work: {', '.join(own[:_MAX_NAMED])}{more}."
    )


class SkillMethods:
    """The methods, as a table.

    Args:
        calls: its toolset has the skills.
        page: see `Page`.
    """

    def __init__(self, calls: Calls, page: Page) -> None:
        self._calls = calls
        self._page = page
        self.table: Mapping[str, Callable[[McpRequest], Awaitable[Outcome]]] = {
            extension.LIST: self._list,
            extension.GET: self._get,
            extension.READ_DIRECTORY: self._read_directory,
        }

    async def _list(self, request: McpRequest) -> Outcome:
        view = await self._calls.toolset.current(request.list_wait_s, with_files=True)
        entries = [skill.definition for skill in view.snapshot.offerings.skills]
        return self._page(request, "skills", entries, "uri", sort_key)

    async def _get(self, request: McpRequest) -> Outcome:
        uri = request.value("uri")
        if not isinstance(uri, str):
            return request.invalid("params.uri must be the URI of a skill's SKILL.md")
        view = await self._calls.toolset.current(with_files=True)
        missing = RpcError(jsonrpc.INVALID_PARAMS, f"No skill is served at {uri}")
        return await self._ask(request, view, uri, missing)

    async def _read_directory(self, request: McpRequest) -> Outcome:
        uri = request.value("uri")
        if not isinstance(uri, str):
            return request.invalid("params.uri must be the URI of a directory")
        view = await self._calls.toolset.current(with_files=True)
        own = own_source(view)
        children = None if own is None else own.directory(uri)
        if children is not None:
            outcome = self._page(request, "resources", children, "uri", _plain_order)
            return _without_hints(outcome)
        missing = RpcError(jsonrpc.INVALID_PARAMS, f"{uri} is not a directory resource")
        if extension.is_own(uri):
            return mcp_requests.answer(request, missing)
        return await self._ask(request, view, uri, missing)

    async def _ask(self, request: McpRequest, view: View, uri: str, missing: RpcError) -> Outcome:
        """The answer of the source that has the URI, else of the first that knows it; else the error."""
        failures: list[CallOutcome] = []
        for source, time_limit_s in (await _candidates(view, uri)).items():
            params = request.inbound.params
            outcome = await mcp_requests.forward(
                self._calls, request, view, source, params, time_limit_s=time_limit_s
            )
            if isinstance(outcome, msgspec.Raw):
                return {**jsonrpc.members_of(outcome), **_UNCACHED} if source.kind == "skill" else outcome
            if source.kind == "skill" or not (isinstance(outcome, RpcError) and outcome.code in _NOT_FOUND):
                failures.append(outcome)
        return mcp_requests.answer(request, failures[0] if failures else missing)


async def _candidates(view: View, uri: str) -> dict[Source, float]:
    """The sources that may have a skill or a directory, each with a time limit in seconds."""
    own = own_source(view)
    if extension.is_own(uri):
        return {} if own is None else {own: UNLIKELY_S}
    offered = view.snapshot.offerings.skill(uri)
    if offered is not None:
        return {offered.source: float("inf")}
    deadlines: dict[Source, float] = {}
    for source in view.snapshot.offerings.sources:
        if source.kind != "skill" and source.state == "ready" and len(deadlines) < MAX_ASKED:
            handshake_result = await source.handshake_result()
            if handshake_result is not None and extension.is_declared(handshake_result.capabilities):
                deadlines[source] = UNLIKELY_S
    return deadlines


def _plain_order(uri: str) -> tuple[str]:
    return (uri,)


def _without_hints(outcome: Outcome) -> Outcome:
    """A page of a directory, whose result has no caching hints."""
    if isinstance(outcome, Rejection | msgspec.Raw):
        return outcome
    return {name: value for name, value in outcome.items() if name not in _UNCACHED}
