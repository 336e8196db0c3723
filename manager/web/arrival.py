"""What one HTTP request says beside its message: its workspace, the answers it takes, what is passed on.

Reads only; which claim is believed is decided in `routing/ladder.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import parse_qsl, urlencode

from aiohttp import web

from manager.answers.exchange import Exchange
from manager.routing.ladder import Claims
from manager.routing.sessions import Session
from manager.web.event_response import EVENTS
from manager.web.writer import JSON
from protocol import headers, jsonrpc, names
from protocol.inbound import Inbound
from protocol.jsonrpc import Request
from protocol.request_state import workspace_of
from protocol.versions import Era

MAX_FOLDER: Final = 16 * 1024
"""Bytes of a folder in a body: as much as fits into a head. What is longer names nothing."""
MAX_WORKSPACE: Final = 256


def exchange_of(
    request: web.Request, inbound: Inbound, message: Request, path: str | None, session: Session | None
) -> Exchange:
    """The exchange that a request opens; `path` is the workspace that its URL names."""
    query = _query(request)
    claims = replace(
        _claims(request, query, path, session),
        codex=_sandbox_cwd(inbound),
        state=_answered_workspace(inbound),
    )
    if session is not None:
        sent = claims.query or claims.header or claims.codex
        session.sent_cwd = None if sent is None else sent.encode("utf-8", "replace").decode()
    accepts_json, accepts_events = accepts(request)
    return Exchange(
        inbound,
        message,
        claims,
        accepts_json=accepts_json,
        accepts_events=accepts_events,
        passed_headers=_passed_headers(request, is_modern=inbound.era is Era.MODERN),
        passed_query=_passed_query(query),
        session=session,
    )


def _query(request: web.Request) -> dict[str, str]:
    # undecoded: aiohttp's own decoding would come before this one, and `%2520` mean a blank; a `+` stays one,
    # because clients put a folder into the URL as it is (the ladder also tries it as a form's blank)
    raw = request.rel_url.raw_query_string.replace("+", "%2B")
    return dict(parse_qsl(raw, keep_blank_values=True, errors="surrogateescape"))


def claims_of(request: web.Request, path: str | None, session: Session | None) -> Claims:
    """What a request says about its workspace outside its body."""
    return _claims(request, _query(request), path, session)


def _claims(
    request: web.Request, query: Mapping[str, str], path: str | None, session: Session | None
) -> Claims:
    header = request.headers.get(headers.WORKSPACE_CWD)
    return Claims(
        path=path,
        session=session.workspace if session is not None else None,
        query=query.get("cwd"),
        header=None if header is None else headers.decode_value(header),
        roots=session.roots if session is not None else None,
    )


def _sandbox_cwd(inbound: Inbound) -> str | None:
    """The folder Codex works in, which it tells with every tool call to servers that want to know (M-114)."""
    state = inbound.meta.get(names.CODEX_SANDBOX)
    folder = jsonrpc.members_of(state).get("sandboxCwd") if state is not None else None
    return None if folder is None or len(folder) > MAX_FOLDER else jsonrpc.text_of(folder)


def _answered_workspace(inbound: Inbound) -> str | None:
    """The workspace that asked the question which this request answers."""
    state = inbound.params.get("requestState")
    text = None if state is None else jsonrpc.text_of(state)
    workspace = None if text is None else workspace_of(text)
    return workspace if workspace is None or len(workspace) <= MAX_WORKSPACE else None


def _passed_headers(request: web.Request, *, is_modern: bool) -> tuple[tuple[bytes, bytes], ...]:
    """What crosses to the workspace server; a legacy request gets the protocol's headers anew."""
    own = frozenset() if is_modern else _REWRITTEN
    return tuple(
        (name, value)
        for name, value in request.raw_headers
        if headers.is_forwarded(lower := name.decode("latin-1").lower()) and lower not in own
    )


_REWRITTEN: Final = frozenset({"mcp-protocol-version", "mcp-method", "mcp-name"})


def _passed_query(query: Mapping[str, str]) -> str:
    passed = {key: query[key] for key in headers.TOOL_MODES.values() if key in query}
    return f"?{urlencode(passed, errors='surrogateescape')}" if passed else ""


def accepts(request: web.Request) -> tuple[bool, bool]:
    """Whether the client takes JSON, and whether it takes event streams (M-28)."""
    accept = ",".join(request.headers.getall("Accept", [])).lower()
    if not accept.strip() or "*/*" in accept:
        return True, EVENTS in accept
    return JSON in accept or "application/*" in accept, EVENTS in accept
