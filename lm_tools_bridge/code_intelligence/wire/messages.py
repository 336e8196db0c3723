"""Reads and writes the JSON-RPC messages of LSP; parameters and results stay bytes until asked for. Pure."""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from lm_tools_bridge.code_intelligence.server import RequestFailed
from lm_tools_bridge.protocol import jsonrpc
from workspace_server.garbage_pause import garbage_pause
from workspace_server.results import clean_text

MAX_ERROR: Final = 1000
"""Longest error text of a server, in characters."""
LARGE: Final = 256 * 1024
"""Bytes of a message whose parsing makes thousands of objects, and takes a millisecond or longer."""
_ID: Final = re.compile(rb'"id"[ \t]*:[ \t]*([0-9]{1,18})[ \t]*[,}]')
_METHOD: Final = b'"method"'


class _Members(msgspec.Struct, gc=False):
    id: msgspec.Raw = msgspec.Raw(b"null")
    method: str | None = None
    params: msgspec.Raw = msgspec.Raw(b"null")
    result: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


_members: Final = msgspec.json.Decoder(_Members)


@dataclass(frozen=True, slots=True)
class Request:
    """A request of the server. `id` is JSON text."""

    id: bytes
    method: str
    params: msgspec.Raw


@dataclass(frozen=True, slots=True)
class Notification:
    """A notification of the server."""

    method: str
    params: msgspec.Raw


@dataclass(frozen=True, slots=True)
class Response:
    """An answer to a request of ours. `result` is what `value` reads, or why there is none."""

    id: bytes
    result: msgspec.Raw | RequestFailed


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Bytes that are no message. `id` is that of the request they seem to answer, if any."""

    id: bytes | None


def read_message(body: bytes) -> Request | Notification | Response | Unreadable:
    """The message in a frame."""
    try:
        members = _members.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return Unreadable(answered_id(body[:256]))
    identity = jsonrpc.bytes_of(members.id)
    if members.method is not None:
        if identity == b"null":
            return Notification(members.method, members.params)
        if not jsonrpc.is_valid_id(identity):
            return Unreadable(None)
        return Request(identity, members.method, members.params)
    if jsonrpc.bytes_of(members.error) not in (b"", b"null"):
        return Response(identity, _failure(members.error))
    if not jsonrpc.bytes_of(members.result):
        return Unreadable(identity)
    return Response(identity, members.result)


def value(raw: msgspec.Raw) -> Any:
    """The decoded parameters or result.

    Raises:
        RequestFailed: they are no valid JSON.
    """
    is_large = len(jsonrpc.bytes_of(raw)) > LARGE
    try:
        with garbage_pause() if is_large else nullcontext():
            return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise RequestFailed(jsonrpc.PARSE_ERROR, "its answer is not valid JSON") from None


def answered_id(start: bytes) -> bytes | None:
    """The id in the first bytes of an answer; None for another message, or if no id is there."""
    match = None if _METHOD in start else _ID.search(start)
    return None if match is None else match.group(1)


def message(method: str, params: Any, number: int | None = None) -> bytes:
    """A request, or a notification if it has no number. `params` that are None are left out."""
    members: dict[str, Any] = {"jsonrpc": "2.0"}
    if number is not None:
        members["id"] = number
    members["method"] = method
    if params is not None:
        members["params"] = params
    return jsonrpc.dumps(members)


def _failure(error: msgspec.Raw) -> RequestFailed:
    members = jsonrpc.members_of(error)
    try:
        code = msgspec.json.decode(members.get("code", b"0"), type=int)
    except (msgspec.DecodeError, RecursionError):
        code = 0
    text = jsonrpc.text_of(members.get("message", b"")) or "no reason given"
    return RequestFailed(code, clean_text(text[:MAX_ERROR]))
