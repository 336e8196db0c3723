"""Builds `Exchange` objects from a message and headers, without HTTP."""

from __future__ import annotations

import json
from typing import Any

from multidict import CIMultiDict

from lm_tools_bridge.protocol import headers, names
from lm_tools_bridge.protocol.inbound import Inbound, classify
from lm_tools_bridge.protocol.jsonrpc import Request
from manager.answers.exchange import Exchange
from manager.routing.resolution import Claims
from manager.routing.state.session_table import Session
from support.clients import stateless_requests as modern


def session_of(**members: Any) -> Session:
    """A legacy session of a named client."""
    given = {"client_name": "codex", "client_version": "0.1", "capabilities": b"{}", "seen": 0.0, **members}
    return Session("s-1", "2025-11-25", **given)


def legacy(body: bytes | dict[str, Any], **members: Any) -> Exchange:
    """A request of the handshake-and-session era; members are those of the exchange."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return _exchange(classify({}, content), {"session": session_of(), **members})


def stateless(method: str, params: dict[str, Any] | None = None, **members: Any) -> Exchange:
    """A request of revision 2026-07-28, with the headers that cross to the workspace server."""
    body = modern.body_of(method, params)
    sent = modern.headers_of(body, secret=None)
    inbound = classify(CIMultiDict(sent), json.dumps(body).encode())
    crossing = tuple(
        (name.encode(), value.encode()) for name, value in sent.items() if headers.is_forwarded(name.lower())
    )
    return _exchange(inbound, {"passed_headers": crossing, **members})


def call(name: object, arguments: object, **members: Any) -> dict[str, Any]:
    """The message of a tool call."""
    params = {"name": name, "arguments": arguments, **members}
    return {"jsonrpc": "2.0", "id": 1, "method": names.TOOLS_CALL, "params": params}


def _exchange(inbound: object, members: dict[str, Any]) -> Exchange:
    assert isinstance(inbound, Inbound), inbound
    assert isinstance(inbound.message, Request)
    return Exchange(inbound, inbound.message, members.pop("claims", Claims()), **members)
