"""Answers `resources/*`: the tools as resources (`tool_resources.py`), then the resources of all sources.

Decides which sources are asked for a URI; `calls/mcp_requests.py` sends the request.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import inbound, jsonrpc, names
from lm_tools_bridge.protocol.errors import Refusal
from lm_tools_bridge.protocol.extensions import skills as extension
from workspace_server import naming
from workspace_server.calls import mcp_requests
from workspace_server.calls.dispatch import Calls
from workspace_server.calls.request import McpRequest, Outcome
from workspace_server.catalog.view import View
from workspace_server.methods import tool_resources
from workspace_server.methods.skills import own_source
from workspace_server.source import Source
from workspace_server.tool import CallOutcome, RpcError

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
        *tool_resources.entries(view),
        *(resource.definition for resource in view.snapshot.offerings.resources),
    ]


def templates(view: View) -> list[Mapping[str, Any]]:
    """The objects of `resources/templates/list`, ordered by `order`."""
    return [
        *tool_resources.TEMPLATES,
        *(template.definition for template in view.snapshot.offerings.templates),
    ]


def order(uri: str) -> tuple[bool, str, str]:
    """The sort key of the lists: our own entries first."""
    return (not uri.startswith(names.OWN_SCHEME), *naming.sort_key(uri))


async def read(calls: Calls, request: McpRequest, view: View) -> Outcome:
    """Answer `resources/read`.

    A URI that no source lists is requested from sources with a matching template, then from the others,
    because results can link to unlisted resources. The first source that has it answers.
    """
    uri = request.inbound.name or ""
    if uri.startswith(names.OWN_SCHEME):
        return tool_resources.read(request, view)
    if extension.is_own(uri):
        return await _read_skill(calls, request, view)
    owner = view.snapshot.offerings.owner(uri)
    if owner is not None:
        outcome = await mcp_requests.forward(calls, request, view, owner, request.inbound.params)
        if isinstance(outcome, RpcError) and outcome.code in _NOT_FOUND and outcome.data is None:
            return tool_resources.not_found(request, uri)
        return mcp_requests.answer(request, outcome)
    failures: list[CallOutcome] = []
    for source, time_limit_s in (await _candidates(view, uri)).items():
        outcome = await mcp_requests.forward(
            calls, request, view, source, request.inbound.params, time_limit_s=time_limit_s
        )
        if not _is_failure(outcome):
            return mcp_requests.answer(request, outcome)
        failures.append(outcome)
    return _none_has_it(request, uri, failures)


async def _read_skill(calls: Calls, request: McpRequest, view: View) -> Outcome:
    """The result of reading a file of a skill of the project or the user."""
    own = own_source(view)
    if own is None:
        return tool_resources.not_found(request, request.inbound.name or "")
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
    return mcp_requests.answer(request, meant[0]) if meant else tool_resources.not_found(request, uri)


async def _candidates(view: View, uri: str) -> dict[Source, float]:
    """The sources that may have a resource, likeliest first, with a time limit in seconds for each."""
    offerings = view.snapshot.offerings
    if extension.is_own(uri):
        own = own_source(view)
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

    async def ask(source: Source) -> None:
        if (end := await source.subscribe(uri, listener)) is not None:
            ends.append(end)

    try:
        async with asyncio.timeout(SUBSCRIBE_S):
            await asyncio.gather(*(ask(source) for source in await _candidates(view, uri)))
    except TimeoutError:
        pass
    except BaseException:
        for end in ends:
            end()
        raise
    return ends
