"""Parses and builds JSON-RPC messages from and to another MCP server. Pure.

`lm_tools_bridge/protocol/jsonrpc.py` is strict about what clients send. This parser reads the output of
programs that may also print banners, so it tells output that is no message from a broken response.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc, names, trace_context
from lm_tools_bridge.protocol import skills_extension as skills
from lm_tools_bridge.protocol.names import Era
from workspace_server.call_context import Client
from workspace_server.sources.mcp.member_rules import GONE
from workspace_server.sources.mcp.rpc import result_repair
from workspace_server.tool import RpcError

OUR_NAME: Final = "lm-tools-bridge"
_HOP: Final = "io.modelcontextprotocol/"
"""`_meta` keys with this prefix belong to one hop and are set again for the next."""
_NOTHING: Final = msgspec.Raw()
ANSWERS: Final = ("inputResponses", "requestState")
CACHEABLE: Final = frozenset(
    {names.DISCOVER, names.TOOLS_LIST, names.PROMPTS_LIST, names.RESOURCES_LIST, names.TEMPLATES_LIST,
     names.RESOURCES_READ, skills.LIST, skills.GET}
)  # fmt: skip
"""Methods whose results carry caching hints (2026-07-28)."""
_NO_PARAMS: Final[Mapping[str, Any]] = {}
_COMPLETE: Final = {"resultType": b'"complete"'}
_UNCACHED: Final = {"ttlMs": b"0", "cacheScope": b'"private"'}
_VALID: Final[Mapping[str, Callable[[msgspec.Raw], bool]]] = {
    "resultType": lambda value: jsonrpc.text_of(value) is not None,
    "ttlMs": lambda value: jsonrpc.bytes_of(value).isdigit(),
    "cacheScope": lambda value: jsonrpc.text_of(value) in ("private", "public"),
}


_WRITTEN_ID: Final = re.compile(rb'"?(\d{1,18})(?:\.0{1,18})?"?')


class _Envelope(msgspec.Struct):
    jsonrpc: msgspec.Raw = _NOTHING
    id: msgspec.Raw = _NOTHING
    method: msgspec.Raw = _NOTHING
    params: msgspec.Raw = _NOTHING
    result: msgspec.Raw = _NOTHING
    error: msgspec.Raw = _NOTHING


class _Error(msgspec.Struct):
    code: int
    message: str
    data: msgspec.Raw = _NOTHING


_envelope: Final = msgspec.json.Decoder(_Envelope)
_error: Final = msgspec.json.Decoder(_Error)


@dataclass(frozen=True, slots=True)
class Response:
    """An answer: a result as JSON text, or an error. `id` is the JSON text of the id it names."""

    id: bytes
    outcome: msgspec.Raw | RpcError


@dataclass(frozen=True, slots=True)
class InvalidResponse:
    """An answer to these ids that is no valid JSON or no answer: `NaN`, a malformed error, an id twice."""

    ids: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Request:
    """A request of the server to us; `params` is JSON text, empty when absent."""

    id: bytes
    method: str
    params: msgspec.Raw


@dataclass(frozen=True, slots=True)
class Notification:
    """A notification."""

    method: str
    params: msgspec.Raw


def read(line: bytes) -> Response | InvalidResponse | Request | Notification | None:
    """The message on one line; None for anything that is no JSON-RPC message in UTF-8."""
    try:
        message = _envelope.decode(line)
        if not line.isascii():
            line.decode()  # the decoder does not look into what it leaves raw
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        if line.startswith(codecs.BOM_UTF8):
            return read(line.removeprefix(codecs.BOM_UTF8))
        return _invalid_response(line)
    if jsonrpc.bytes_of(message.jsonrpc) != b'"2.0"':
        return None
    request_id = jsonrpc.bytes_of(message.id)
    if not jsonrpc.bytes_of(message.method):
        # parsers disagree which of two ids counts
        if jsonrpc.repeats_a_member(line, jsonrpc.members_of(line)):
            return _invalid_response(line)
        return _response(own_id(request_id), message) if request_id else None
    method = jsonrpc.text_of(message.method)
    if method is None:
        return None
    if not request_id:
        return Notification(method, message.params)
    return Request(request_id, method, message.params) if jsonrpc.is_valid_id(request_id) else None


def own_id(request_id: bytes) -> bytes:
    """An id of ours as we wrote it. Some servers return text or a fraction, which SDKs accept."""
    if request_id.isdigit():
        return request_id
    written = _WRITTEN_ID.fullmatch(request_id)
    return request_id if written is None else written[1]


def _response(request_id: bytes, message: _Envelope) -> Response | InvalidResponse | None:
    error, result = jsonrpc.bytes_of(message.error), jsonrpc.bytes_of(message.result)
    if not error and not result:
        return None
    if error in (b"", b"null") and result:  # some servers write both members always
        return Response(request_id, message.result)
    try:
        error_object = _error.decode(error)
    except (msgspec.DecodeError, RecursionError):
        return InvalidResponse((request_id,))
    data = error_object.data if jsonrpc.bytes_of(error_object.data) else None
    return Response(request_id, RpcError(error_object.code, error_object.message, data))


def _invalid_response(line: bytes) -> InvalidResponse | None:
    """An unreadable answer, if it names ids: their callers should not wait for it in vain."""
    ids = ids_in(line)
    return InvalidResponse(ids) if ids else None


def request(number: int, method: str, params: Mapping[str, Any]) -> bytes:
    """A request of ours; raw parameters are copied byte for byte."""
    return jsonrpc.request(b"%d" % number, method, params)


def forwarded_params(
    params: Mapping[str, Any], client: Client, own: Mapping[str, Any], number: int, era: Era
) -> dict[str, Any]:
    """Parameters of a client's request for the next hop.

    What we know nothing of is the client's bytes. State and answers are those of the context; only the modern
    era has them, and a wish for log messages on each request.

    Args:
        params: the members beside those.
        client: whose request it is.
        own: the `_meta` keys of this hop.
        number: the id of the request here, and its progress token where the client gave one.
        era: what the server speaks.
    """
    is_modern = era is Era.MODERN
    wished = names.META_LOG_LEVEL if is_modern else None
    members = {
        key: raw
        for key, raw in client.meta.items()
        if key == wished or not (key.startswith(_HOP) or key == "progressToken")
    }
    meta: dict[str, Any] = {**members, **own}
    if client.context.trace:
        meta.setdefault(trace_context.NAME, client.context.trace)
    if client.token is not None:
        meta["progressToken"] = number
    sent = {key: value for key, value in params.items() if key != "_meta" and key not in ANSWERS}
    if is_modern:
        client_params = client.context.params
        sent |= {key: client_params[key] for key in ANSWERS if key in client_params}
    return {**sent, "_meta": meta} if meta else sent


def hop_meta(era: Era, revision: str, version: str, capabilities: Mapping[str, Any]) -> dict[str, Any]:
    """The `_meta` keys a request of ours carries; none in the legacy era."""
    if era is Era.LEGACY:
        return {}
    client = {"name": OUR_NAME, "version": version}
    return {
        names.META_VERSION: revision,
        names.META_CAPABILITIES: capabilities,
        names.META_CLIENT: client,
    }


def to_modern_error(error: RpcError, method: str, era: Era) -> RpcError:
    """A server's error as the modern era has it: a resource that is not there has another code."""
    if era is Era.LEGACY and method == names.RESOURCES_READ and error.code == jsonrpc.RESOURCE_NOT_FOUND:
        return RpcError(jsonrpc.INVALID_PARAMS, error.message, error.data)
    return error


def to_modern_result(
    result: msgspec.Raw, method: str, params: Mapping[str, Any] = _NO_PARAMS
) -> msgspec.Raw | None:
    """A result with the members that MCP 2026-07-28 demands of it; None for no JSON object.

    Servers of that revision may lack them, too, or have them with values that clients refuse. Valid members
    and all others stay as they are.

    Args:
        result: the result as it came.
        method: of the request.
        params: its parameters.
    """
    text = jsonrpc.bytes_of(result)
    if text[:1] != b"{":
        return None
    defaults = _COMPLETE | _UNCACHED if method in CACHEABLE else _COMPLETE
    has: Mapping[str, msgspec.Raw] = {}
    if any(name.encode() in text for name in defaults):
        has = jsonrpc.members_of(text)
        if "resultType" in has and jsonrpc.text_of(has["resultType"]) not in (None, "complete"):
            return result  # an input request or a task
    missing = {
        name: value for name, value in defaults.items() if name not in has or not _VALID[name](has[name])
    }
    changes: dict[str, Any] = {}
    if result_repair.may_violate_type(method, text):
        has = jsonrpc.members_of(text)
        uri = params.get("uri", "")
        uri_text = uri if isinstance(uri, str) else jsonrpc.text_of(uri) or ""
        changes = result_repair.repaired_members(method, has, uri_text)
    if changes or not has.keys().isdisjoint(missing):
        return _with_members(has, missing | changes)
    if not missing:
        return result
    rest = text[1:].lstrip(b" \t\r\n")
    front = b",".join(b'"%s":%s' % (name.encode(), value) for name, value in missing.items())
    return msgspec.Raw(b"{" + front + (b"," if rest[:1] != b"}" else b"") + rest)


def _with_members(members: Mapping[str, msgspec.Raw], changes: Mapping[str, Any]) -> msgspec.Raw:
    """The object with these members changed; those given as bytes are JSON text."""
    merged = {**members, **changes}
    return jsonrpc.raw(
        {
            name: msgspec.Raw(value) if isinstance(value, bytes) else value
            for name, value in merged.items()
            if value is not GONE
        }
    )


# An unreadable answer is no JSON (a control character in a string, bytes behind its end, nesting deeper than
# a parser goes), or names an id twice. Only its two ends are searched, because an id in the middle of a large
# result is none of the message's own.

# An id stands at the begin or the end of a message: a line that is too long is searched there only.
_END: Final = 64 * 1024
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[{}\[\]]', re.DOTALL)
_ID_VALUE: Final = re.compile(rb'\s*:\s*("?)(\d{1,18})\1(?=[\s,}])')
_LAST_ID: Final = re.compile(rb'[,{]\s*"id"\s*:\s*("?)(\d{1,18})\1\s*}[\s\0]*\Z')
_STEP: Final = {b"{": 1, b"[": 1, b"}": -1, b"]": -1}


def ids_in(line: bytes) -> tuple[bytes, ...]:
    """The ids that a text names, if it looks like a JSON-RPC response; all of them if there are several."""
    head, tail = line[:_END], line[-_END:]
    if head.lstrip()[:1] != b"{" or not _is_response(head, tail):
        return ()
    names, ids = _top_level(head)
    if b'"method"' in names:
        return ()
    last = _LAST_ID.search(tail, max(0, len(tail) - 200))
    if last is not None:
        ids.append(last[2])
    return tuple(dict.fromkeys(ids))


def _is_response(head: bytes, tail: bytes) -> bool:
    ends = head + tail
    return b'"jsonrpc"' in ends and (b'"result"' in ends or b'"error"' in ends)


def _top_level(text: bytes) -> tuple[set[bytes], list[bytes]]:
    """The strings at the top level of the first object in a text, and the values of its members `id`."""
    names: set[bytes] = set()
    ids: list[bytes] = []
    depth = 0
    for token in _TOKEN.finditer(text):
        if token[0] in _STEP:
            depth += _STEP[token[0]]
            if depth == 0:
                break
        elif depth == 1:
            names.add(token[0])
            match = _ID_VALUE.match(text, token.end()) if token[0] == b'"id"' else None
            if match is not None:
                ids.append(match[2])
    return names, ids
