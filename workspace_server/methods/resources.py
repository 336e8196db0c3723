"""The resources of a workspace: its tools (`tool_resources.py`), then those of its sources.

Who is asked for a URI is decided here; how, in `calls/mcp_requests.py`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final

from protocol import inbound, jsonrpc, names
from protocol.errors import Refusal
from workspace_server import naming
from workspace_server.calls import mcp_requests
from workspace_server.calls.dispatch import Calls
from workspace_server.calls.request import McpRequest, Outcome
from workspace_server.catalog.view import View
from workspace_server.methods import tool_resources
from workspace_server.source import Source
from workspace_server.tool import CallOutcome, RpcError

MAX_ASKED: Final = 8
"""Sources that are asked for a URI that none of them lists."""
UNLIKELY_S: Final = 10.0
"""How long one of them may take of which nothing says that it has it; the others wait meanwhile."""
SUBSCRIBE_S: Final = 10.0
"""How long sources may take to say whether they tell of a resource."""
_NOT_FOUND: Final = frozenset({jsonrpc.INVALID_PARAMS, jsonrpc.METHOD_NOT_FOUND, jsonrpc.RESOURCE_NOT_FOUND})
"""What servers answer to a URI they do not have; the last one is from the era of sessions."""


def entries(view: View) -> list[Mapping[str, Any]]:
    """The objects of `resources/list`, ordered by `order`."""
    return [*tool_resources.entries(view), *(one.definition for one in view.snapshot.offerings.resources)]


def templates(view: View) -> list[Mapping[str, Any]]:
    """The objects of `resources/templates/list`, ordered by `order`."""
    return [*tool_resources.TEMPLATES, *(one.definition for one in view.snapshot.offerings.templates)]


def order(uri: str) -> tuple[bool, str, str]:
    """What lists are sorted by: our own first."""
    return (not uri.startswith(names.OWN_SCHEME), *naming.sort_key(uri))


async def read(calls: Calls, asked: McpRequest, view: View) -> Outcome:
    """The answer to `resources/read`.

    A URI that no source lists goes to those with a template that fits, then to the others: results link to
    resources that are in no list. The first that has it answers.
    """
    uri = asked.inbound.name or ""
    if uri.startswith(names.OWN_SCHEME):
        return tool_resources.read(asked, view)
    owner = view.snapshot.offerings.owner(uri)
    if owner is not None:
        outcome = await mcp_requests.relay(calls, asked, view, owner, asked.inbound.params)
        if isinstance(outcome, RpcError) and outcome.code in _NOT_FOUND and outcome.data is None:
            return tool_resources.not_found(asked, uri)
        return mcp_requests.answer(asked, outcome)
    failures: list[CallOutcome] = []
    for source, longest_s in (await _candidates(view, uri)).items():
        outcome = await mcp_requests.relay(
            calls, asked, view, source, asked.inbound.params, longest_s=longest_s
        )
        if not _is_failure(outcome):
            return mcp_requests.answer(asked, outcome)
        failures.append(outcome)
    return _none_has_it(asked, uri, failures)


def _is_failure(outcome: CallOutcome) -> bool:
    """Whether another source may still have what this one did not give."""
    if isinstance(outcome, RpcError):
        return outcome.code != inbound.MISSING_CAPABILITY
    return isinstance(outcome, Refusal)


def _none_has_it(asked: McpRequest, uri: str, failures: list[CallOutcome]) -> Outcome:
    told = [one for one in failures if not isinstance(one, RpcError) or one.code not in _NOT_FOUND]
    if not told and "requestState" in asked.inbound.params:
        told = failures  # who asked its client something is the one that had it
    return mcp_requests.answer(asked, told[0]) if told else tool_resources.not_found(asked, uri)


async def _candidates(view: View, uri: str) -> dict[Source, float]:
    """The sources that may have a resource, the likeliest first, and how long each may take."""
    offerings = view.snapshot.offerings
    if (owner := offerings.owner(uri)) is not None:
        return {owner: math.inf}
    found = dict.fromkeys(offerings.likely(uri), math.inf)
    for source in offerings.sources:
        if source not in found and source.state == "ready":
            greeting = await source.greeting()
            if greeting is not None and "resources" in greeting.capabilities:
                found[source] = UNLIKELY_S
    return dict(islice(found.items(), MAX_ASKED))


async def subscribe(view: View, uri: str, listener: Callable[[str], None]) -> list[Callable[[], None]]:
    """Have `listener` called with the URI when its resource changes, by every source that may have it.

    Returns:
        What ends it, each to be called once; empty where no source tells of it, or none says so in time.
    """
    if uri.startswith(names.OWN_SCHEME):
        return []  # a changed tool is a changed list
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
