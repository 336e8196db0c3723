"""Answers `resources/*` and `skills/*`: the tools as resources, then the resources and skills of all sources.

Decides which sources are asked for a URI; `calls/mcp_requests.py` sends the request.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Final
from urllib.parse import quote, unquote

import msgspec

from lm_tools_bridge.protocol import inbound, jsonrpc, names
from lm_tools_bridge.protocol import skills_extension as extension
from lm_tools_bridge.protocol.errors import Refusal
from lm_tools_bridge.protocol.inbound import Rejection
from workspace_server import naming
from workspace_server.calls import mcp_requests, unknown_tool
from workspace_server.calls.dispatch import Calls
from workspace_server.calls.request import McpRequest, Outcome
from workspace_server.catalog.registry import OfferedTool
from workspace_server.catalog.view import View
from workspace_server.methods import app_resources
from workspace_server.naming import sort_key
from workspace_server.source import Source
from workspace_server.tool import CallOutcome, RpcError

# A model reads this at each start; `resources/list` has the rest.
_MAX_NAMED: Final = 10
_UNCACHED: Final = {"ttlMs": 0, "cacheScope": "private"}
Page = Callable[[McpRequest, str, Any, str, Any], Outcome]
"""Makes one page: request, member of the result, entries, the key they are ordered by, and the order."""


def skill_source(view: View) -> Source | None:
    """The source of the project's and the user's skills."""
    return next((source for source in view.snapshot.sources if source.kind == "skill"), None)


def skill_instructions(view: View) -> str:
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
        view = request.sees(await self._calls.toolset.current(request.list_wait_s, with_files=True))
        entries = [skill.definition for skill in view.snapshot.offerings.skills]
        return self._page(request, "skills", entries, "uri", sort_key)

    async def _get(self, request: McpRequest) -> Outcome:
        uri = request.value("uri")
        if not isinstance(uri, str):
            return request.invalid("params.uri must be the URI of a skill's SKILL.md")
        view = request.sees(await self._calls.toolset.current(with_files=True))
        missing = RpcError(jsonrpc.INVALID_PARAMS, f"No skill is served at {uri}")
        return await self._ask(request, view, uri, missing)

    async def _read_directory(self, request: McpRequest) -> Outcome:
        uri = request.value("uri")
        if not isinstance(uri, str):
            return request.invalid("params.uri must be the URI of a directory")
        view = request.sees(await self._calls.toolset.current(with_files=True))
        own = skill_source(view)
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
        for source, time_limit_s in (await _skill_candidates(view, uri)).items():
            params = request.inbound.params
            outcome = await mcp_requests.forward(
                self._calls, request, view, source, params, time_limit_s=time_limit_s
            )
            if isinstance(outcome, msgspec.Raw):
                return {**jsonrpc.members_of(outcome), **_UNCACHED} if source.kind == "skill" else outcome
            if source.kind == "skill" or not (isinstance(outcome, RpcError) and outcome.code in _NOT_FOUND):
                failures.append(outcome)
        return mcp_requests.answer(request, failures[0] if failures else missing)


async def _skill_candidates(view: View, uri: str) -> dict[Source, float]:
    """The sources that may have a skill or a directory, each with a time limit in seconds."""
    own = skill_source(view)
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


MIME: Final = "application/json"
# The limit of MCP for one answer (`completion/complete`).
MAX_COMPLETIONS: Final = 100
_AVOID: Final = ("do not use", "placeholder")

TEMPLATES: Final[tuple[dict[str, str], ...]] = (
    {
        "uriTemplate": names.TEMPLATE_SCHEMA,
        "name": "schema",
        "description": "The input schema of one tool.",
        "mimeType": MIME,
    },
    {
        "uriTemplate": names.TEMPLATE_TOOL,
        "name": "tool",
        "description": "Everything known about one tool.",
        "mimeType": MIME,
    },
)


def tool_entries(view: View) -> list[dict[str, Any]]:
    """The objects of `resources/list`: the names, then one per callable tool, ordered by URI."""
    text = "The names of all tools that can be called."
    entries = [{"uri": names.URI_NAMES, "name": "names", "description": text, "mimeType": MIME}]
    for offered in view.tools:
        entry = {"uri": _uri(names.URI_TOOL, offered.name), "name": offered.name, "mimeType": MIME}
        if description := offered.named_tool().description:
            entry["description"] = description
        entries.append(entry)
    return entries


def read_tool_entry(request: McpRequest, view: View) -> Outcome:
    """The result of `resources/read` of one of these, or -32602 with the URI in its data."""
    uri = request.inbound.name or ""
    if uri == names.URI_NAMES:
        return _contents(uri, {"tools": [offered.name for offered in view.tools]})
    for prefix, describe in ((names.URI_TOOL, _tool), (names.URI_SCHEMA, _schema)):
        if uri.startswith(prefix):
            name = unquote(uri.removeprefix(prefix))
            offered = view.get(name)
            return (
                unknown_tool.unknown_tool(request, view, name, uri)
                if offered is None
                else _contents(uri, describe(offered))
            )
    return not_found(request, uri)


def not_found(request: McpRequest, uri: str) -> Rejection:
    """The error for an unknown URI."""
    data = {"uri": uri, "details": {"uri": uri}}
    return Rejection(200, jsonrpc.INVALID_PARAMS, f"Resource not found: {uri}", request.id, data)


def complete(argument: str, value: str, view: View) -> Mapping[str, Any] | None:
    """The result of completing an argument of our templates: tool names that begin with the value.

    None where the templates have no such argument.
    """
    if argument != "name":
        return None
    matches: Sequence[str] = [offered.name for offered in view.tools if offered.name.startswith(value)]
    return {
        "completion": {
            "values": matches[:MAX_COMPLETIONS],
            "total": len(matches),
            "hasMore": len(matches) > MAX_COMPLETIONS,
        }
    }


def _contents(uri: str, value: Any) -> dict[str, Any]:
    return {"contents": [{"uri": uri, "mimeType": MIME, "text": jsonrpc.dumps(value).decode()}]}


def _uri(prefix: str, name: str) -> str:
    return prefix + quote(name, safe="")


def _schema(offered: OfferedTool) -> dict[str, Any]:
    return {"name": offered.name, "inputSchema": offered.definition["inputSchema"]}


def _tool(offered: OfferedTool) -> dict[str, Any]:
    definition = offered.definition
    optional = {key: definition[key] for key in ("outputSchema", "annotations") if key in definition}
    return {
        "name": offered.name,
        "description": offered.named_tool().description,
        "tags": list(offered.tool.keywords),
        "inputSchema": definition["inputSchema"],
        **optional,
        "source": offered.source.id,
        "visibility": offered.tool.visibility,
        "toolUri": _uri(names.URI_TOOL, offered.name),
        "schemaUri": _uri(names.URI_SCHEMA, offered.name),
        "usageHint": _hint(offered),
    }


def _hint(offered: OfferedTool) -> dict[str, Any]:
    text = f"{offered.name}\n{offered.named_tool().description}".lower()
    avoid = any(phrase in text for phrase in _AVOID)
    reason = (
        "The tool's name or description says that it is not meant to be used."
        if avoid
        else "Call the tool by its name with an object that fits inputSchema."
    )
    required = bool(offered.definition["inputSchema"].get("required"))
    return {"mode": "do-not-use" if avoid else "direct", "reason": reason, "requiresObjectInput": required}


MAX_ASKED: Final = 8
"""How many sources are asked for a URI that no source lists."""
UNLIKELY_S: Final = 10.0
"""Time limit for a source without a matching template; the next source is asked afterwards."""
SUBSCRIBE_S: Final = 10.0
"""Time limit for sources to accept a subscription."""
_NOT_FOUND: Final = frozenset({jsonrpc.INVALID_PARAMS, jsonrpc.METHOD_NOT_FOUND, jsonrpc.RESOURCE_NOT_FOUND})
"""Error codes for an unknown URI; the last one is from revisions up to 2025-11-25."""


def entries(view: View) -> list[Mapping[str, Any]]:
    """The objects of `resources/list`, ordered by `order`."""
    return [
        *(tool_entries(view) if view.server_names is None else ()),
        *(resource.definition for resource in view.snapshot.offerings.resources),
    ]


def templates(view: View) -> list[Mapping[str, Any]]:
    """The objects of `resources/templates/list`, ordered by `order`."""
    return [
        *(TEMPLATES if view.server_names is None else ()),
        *(template.definition for template in view.snapshot.offerings.templates),
    ]


def order(uri: str) -> tuple[bool, str, str]:
    """The sort key of the lists: our own entries first."""
    return (not uri.startswith(names.OWN_SCHEME), *naming.sort_key(uri))


async def read_resource(calls: Calls, request: McpRequest, view: View) -> Outcome:
    """Answer `resources/read`.

    A URI that no source lists is requested from sources with a matching template, then from the others,
    because results can link to unlisted resources. The first source that has it answers.
    """
    uri = request.inbound.name or ""
    if uri.startswith(names.OWN_SCHEME):
        return read_tool_entry(request, view)
    if extension.is_own(uri):
        return await _read_skill(calls, request, view)
    place = app_resources.find_place_for(request, view, calls.opened_apps)
    if isinstance(place, Rejection):
        return place
    if place is not None:
        outcome = await app_resources.read_place(calls, request, view, place)
        return _answer_of_owner(request, uri, outcome)
    owner = view.snapshot.offerings.owner(uri)
    if owner is not None:
        outcome = await mcp_requests.forward(calls, request, view, owner, request.inbound.params)
        return _answer_of_owner(request, uri, outcome)
    failures: list[CallOutcome] = []
    for source, time_limit_s in (await _candidates(view, uri)).items():
        outcome = await mcp_requests.forward(
            calls, request, view, source, request.inbound.params, time_limit_s=time_limit_s
        )
        if not _is_failure(outcome):
            return mcp_requests.answer(request, outcome)
        failures.append(outcome)
    return _none_has_it(request, uri, failures)


def _answer_of_owner(request: McpRequest, uri: str, outcome: CallOutcome) -> Outcome:
    if isinstance(outcome, RpcError) and outcome.code in _NOT_FOUND and outcome.data is None:
        return not_found(request, uri)
    return mcp_requests.answer(request, outcome)


async def _read_skill(calls: Calls, request: McpRequest, view: View) -> Outcome:
    """The result of reading a file of a skill of the project or the user."""
    own = skill_source(view)
    if own is None:
        return not_found(request, request.inbound.name or "")
    outcome = await mcp_requests.forward(calls, request, view, own, request.inbound.params)
    if isinstance(outcome, msgspec.Raw):
        return jsonrpc.members_of(outcome)
    return mcp_requests.answer(request, outcome)


def _is_failure(outcome: CallOutcome) -> bool:
    """Whether the next source should be asked."""
    if isinstance(outcome, RpcError):
        return outcome.code != inbound.MISSING_CAPABILITY
    return isinstance(outcome, Refusal)


def _none_has_it(request: McpRequest, uri: str, failures: list[CallOutcome]) -> Outcome:
    meant = [
        failure for failure in failures if not isinstance(failure, RpcError) or failure.code not in _NOT_FOUND
    ]
    if not meant and "requestState" in request.inbound.params:
        meant = failures  # the source that sent input requests is the one that has it
    return mcp_requests.answer(request, meant[0]) if meant else not_found(request, uri)


async def _candidates(view: View, uri: str) -> dict[Source, float]:
    """The sources that may have a resource, likeliest first, with a time limit in seconds for each."""
    offerings = view.snapshot.offerings
    if extension.is_own(uri):
        own = skill_source(view)
        return {} if own is None else {own: UNLIKELY_S}
    if (owner := offerings.owner(uri)) is not None:
        return {owner: math.inf}
    sources = dict.fromkeys(offerings.likely(uri), math.inf)
    for source in offerings.sources:
        if source not in sources and source.state == "ready":
            handshake_result = await source.handshake_result()
            if handshake_result is not None and "resources" in handshake_result.capabilities:
                sources[source] = UNLIKELY_S
    return dict(islice(sources.items(), MAX_ASKED))


async def subscribe(view: View, uri: str, listener: Callable[[str], None]) -> list[Callable[[], None]]:
    """Subscribe to a resource at every source that may have it; `listener` gets the URI when it changes.

    Returns:
        Functions that unsubscribe, each to be called once; empty if no source accepted in time.
    """
    if uri.startswith(names.OWN_SCHEME):
        return []  # changes of tools are announced as list changes
    ends: list[Callable[[], None]] = []
    place = app_resources.find_place(view, uri)
    written = uri if place is None else place.written

    async def ask(source: Source) -> None:
        if (end := await source.subscribe(written, lambda _: listener(uri))) is not None:
            ends.append(end)

    try:
        async with asyncio.timeout(SUBSCRIBE_S):
            sources = await _candidates(view, uri) if place is None else (place.source,)
            await asyncio.gather(*map(ask, sources))
    except TimeoutError:
        pass
    except BaseException:
        for end in ends:
            end()
        raise
    return ends
