"""Builds the addresses of the manager's endpoint, and what the agent tells of itself. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from lm_tools_bridge.protocol import headers

DEFAULT: Final = "http://127.0.0.1:47100/mcp"
CLIENT_NAME: Final = "lmtb-agent"
CAPABILITIES: Final[Mapping[str, Any]] = {"elicitation": {"form": {}, "url": {}}}
"""What the agent can do for servers: show forms, and open pages after a yes."""
_MODE: Final = "tool_mode"


def address_of(endpoint: str, *, discovery: bool) -> str:
    """The address to send to: in discovery mode the lists hold little more than `tool_search`."""
    parts = urlsplit(endpoint)
    query = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] != _MODE]
    if discovery:
        query.append((_MODE, "discovery"))
    return urlunsplit(parts._replace(query=urlencode(query)))


def is_loopback(endpoint: str) -> bool:
    """Whether the endpoint is on this machine, so that a manager may be started for it."""
    return urlsplit(endpoint).hostname in {"127.0.0.1", "localhost", "::1"}


def client_headers(cwd: str) -> dict[str, str]:
    """The headers that every request carries: accepted formats, and the folder the agent works in."""
    return {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        headers.WORKSPACE_CWD: headers.encode_value(cwd),
    }
