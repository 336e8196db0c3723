"""Metadata of a request at an MCP route: workspace claims, accepted content types, forwarded headers.

`routing/resolution.py` decides between the claims. Requests with the same head share one object
(`admission.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import parse_qsl, unquote, urlencode

from msgspec.structs import replace

from lm_tools_bridge.http_server.request_head import RequestHead
from lm_tools_bridge.protocol import headers
from manager.routing.cwd import placeholder_in
from manager.routing.resolution import Claims

EVENTS: Final = "text/event-stream"
JSON: Final = "application/json"
METHODS: Final = ("DELETE", "GET", "POST")
"""The HTTP methods of every MCP route."""

_KNOWN: Final = (
    headers.SESSION,
    headers.VERSION,
    headers.METHOD,
    headers.NAME,
    headers.LAST_EVENT_ID,
    headers.WORKSPACE_CWD,
)
_SPELLING: Final = {name.lower(): name for name in _KNOWN}
_PATH: Final = re.compile(r"/mcp/?|/w/([^/]+)(?:/s/([^/]+))?/mcp")
_YES: Final = ("true", "1", "yes", "on")
_REWRITTEN: Final = frozenset({"mcp-protocol-version", "mcp-method", "mcp-name"})


def _fields(sent: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The header fields by name: those in `lm_tools_bridge.protocol.headers` in that spelling, all others in
    lower case.

    Repeated fields are joined like HTTP lists.
    """
    found: dict[str, str] = {}
    for name, value in sent:
        lower, text = name.decode("latin-1").lower(), value.decode("utf-8", "surrogateescape")
        key = _SPELLING.get(lower, lower)
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


class RequestMetadata:
    """One head at an MCP route.

    Attributes:
        method: of HTTP.
        workspace: the id of the workspace that its path names.
        server: the name of the only MCP server of it that its path names; empty for the whole workspace.
        fields: its header fields by the names of `lm_tools_bridge.protocol.headers`, others by their names
            in lower case. The id of a session may be empty here: heads that differ
            only in it share this object.
        accepts_json, accepts_events: which forms of answer the client takes.
        claims: what it says of its workspace, without a session and without its body.
        passed: the header fields that cross to the workspace server.
        passed_legacy: those of them for a legacy request, which gets the protocol's own anew.
        passed_query: the query string for the workspace server (tool mode), with its question mark, or empty.
    """

    __slots__ = (
        "accepts_events",
        "accepts_json",
        "claims",
        "fields",
        "method",
        "passed",
        "passed_legacy",
        "passed_query",
        "server",
        "workspace",
    )

    def __init__(
        self, facts: RequestHead, workspace: str | None, server: str = "", *, from_manager: bool = False
    ) -> None:
        sent = list(facts.headers)
        query = _query(facts.target)
        self.method = facts.method
        self.workspace = workspace
        self.server = server
        self.fields = _fields(sent)
        self.accepts_json, self.accepts_events = _accepts(self.fields.get("accept"))
        self.claims = _claims(workspace, query, self.fields.get(headers.WORKSPACE_CWD))
        if from_manager and self.claims.header is not None:  # it has weighed what its client says
            self.claims = replace(self.claims, pinned=True)
        self.passed = tuple(_passed(sent, frozenset(), from_manager=from_manager))
        self.passed_legacy = tuple(_passed(sent, _REWRITTEN, from_manager=from_manager))
        self.passed_query = _passed_query(query)


def read_metadata(facts: RequestHead, *, from_manager: bool = False) -> RequestMetadata | None:
    """What a head says, where it is one for an MCP route, whatever its method.

    Args:
        from_manager: whether a manager on another host sent it, some of whose internal headers cross.
    """
    found = _PATH.fullmatch(facts.target.partition("?")[0])
    if found is None:
        return None
    workspace = None if found[1] is None else unquote(found[1])
    return RequestMetadata(facts, workspace, unquote(found[2] or ""), from_manager=from_manager)


def _query(target: str) -> dict[str, str]:
    # a `+` is kept: clients put a folder into the URL unencoded (resolution tries a blank as well)
    raw = target.partition("?")[2].replace("+", "%2B")
    return dict(parse_qsl(raw, keep_blank_values=True, errors="surrogateescape"))


def _claims(workspace: str | None, query: Mapping[str, str], header: str | None) -> Claims:
    return Claims(
        path=workspace,
        query=query.get("cwd"),
        header=None if header is None else headers.decode_value(header),
        pinned=_is_pinned(query),
    )


def _is_pinned(query: Mapping[str, str]) -> bool:
    """Whether the folder in the address is pinned. A blank and an unexpanded variable are no folder."""
    folder = query.get("cwd", "")
    is_folder = bool(folder.strip()) and placeholder_in(folder) is None
    return is_folder and query.get("pin", "").strip().lower() in _YES


def _passed(
    sent: Iterable[tuple[bytes, bytes]], own: frozenset[str], *, from_manager: bool
) -> Iterable[tuple[bytes, bytes]]:
    for name, value in sent:
        lower = name.decode("latin-1").lower()
        crosses = headers.is_forwarded(lower) or (from_manager and lower in headers.BETWEEN_MANAGERS)
        if crosses and lower not in own:
            yield name, value


def _passed_query(query: Mapping[str, str]) -> str:
    passed = {key: query[key] for key in headers.TOOL_MODES.values() if key in query}
    return f"?{urlencode(passed, errors='surrogateescape')}" if passed else ""


def _accepts(said: str | None) -> tuple[bool, bool]:
    accept = (said or "").lower()
    if not accept.strip() or "*/*" in accept:
        return True, EVENTS in accept
    return JSON in accept or "application/*" in accept, EVENTS in accept
