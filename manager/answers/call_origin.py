"""Says what the observer of calls is told of a call's beginning: who called what, from where, when."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

import msgspec

from lm_tools_bridge.protocol import headers, jsonrpc, names
from manager.answers import trace_context
from manager.answers.exchange import Exchange
from manager.call_observer import CallLabel, CallOrigin

OBSERVED_METHODS: Final = frozenset(
    {names.TOOLS_CALL, names.PROMPTS_GET, names.RESOURCES_READ, names.COMPLETE}
)
"""The methods whose requests are calls, of which an observer is told."""
_NAMED: Final = frozenset({names.TOOLS_CALL, names.PROMPTS_GET})
"""Those with a name that is told. The address of a resource may say as much as its content."""


def origin_of(exchange: Exchange, params: Mapping[str, msgspec.Raw] | None = None) -> CallOrigin | None:
    """The origin of a client's call; None if nobody observes it.

    Args:
        params: the parameters of the call in `callTool`, if that was unwrapped.
    """
    client, method = exchange.observed_client, exchange.message.method
    if client is None or method not in OBSERVED_METHODS:
        return None
    given = exchange.params if params is None else params
    name = None
    if method in _NAMED:
        name = exchange.inbound.name if params is None else jsonrpc.text_of(params.get("name", b"null"))
    label = CallLabel(
        client.info,
        client.era,
        client.revision,
        exchange.headers.get(headers.WORKSPACE_ID, ""),
        method,
        name or "",
        "",
        exchange.headers.get(headers.WORKSPACE_SOURCE, ""),
    )
    session = exchange.session
    sent = len(jsonrpc.bytes_of(given["arguments"])) if "arguments" in given else 0
    return CallOrigin(
        label,
        None if session is None else session.id,
        exchange.begun or time.monotonic(),
        sent,
        "" if exchange.made_trace else trace_context.given(exchange),
        exchange.made_trace,
        exchange.asked_s,
    )
