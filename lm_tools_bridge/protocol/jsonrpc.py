"""Parses and builds JSON-RPC messages; parameters and results stay bytes.

`parse` decodes only the top level of a message. Everything below stays the bytes that came, so that a
forwarded message keeps its unknown members, large integers and member order. `inbound.py` tells the MCP era
of a message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

# Error codes of JSON-RPC 2.0 (section 5.1) and, for resources, of MCP.
PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
RESOURCE_NOT_FOUND: Final = -32002
"""MCP code of legacy revisions; MCP 2026-07-28 uses -32602."""

MAX_ID_BYTES: Final = 256
"""Longest accepted id in bytes of JSON text. Responses repeat ids byte for byte."""

_Members = dict[str, msgspec.Raw]
_members_decoder: Final = msgspec.json.Decoder(_Members)
_text_decoder: Final = msgspec.json.Decoder(str)
_encoder: Final = msgspec.json.Encoder()
_INTEGER: Final = re.compile(rb"-?\d+\Z")
_MEMBER: Final = re.compile(rb'[ \t\r\n]*("[^"\\]*")[ \t\r\n]*:[ \t\r\n]*')
_COMMA: Final = re.compile(rb"[ \t\r\n]*[,}]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class Request(msgspec.Struct, frozen=True, gc=False):
    """A request. `id` and `params` are JSON text (`params` empty if absent), `body` is the message."""

    id: bytes
    method: str
    params: bytes
    body: bytes


class Notification(msgspec.Struct, frozen=True):
    """A notification. `params` is JSON text, empty if absent."""

    method: str
    params: bytes


class Response(msgspec.Struct, frozen=True):
    """A response. `id` is JSON text, `body` the whole message."""

    id: bytes
    body: bytes


class Malformed(msgspec.Struct, frozen=True):
    """A body that is not one JSON-RPC message. `id` is JSON text, None if it cannot be read."""

    code: int
    message: str
    id: bytes | None = None


Message = Request | Notification | Response


class _CommonRequest(msgspec.Struct, gc=False):
    """The members of a request as nearly all clients write it."""

    jsonrpc: Literal["2.0"]
    id: msgspec.Raw
    method: str
    params: msgspec.Raw


_common_decoder: Final = msgspec.json.Decoder(_CommonRequest)
_COMMON_FRAME: Final = len('{"jsonrpc":"2.0","id":,"method":"","params":}')


def parse(body: bytes) -> Message | Malformed:
    """Parse the top level of exactly one message."""
    return _common_request(body) or _parse(body)


def _common_request(body: bytes) -> Request | None:
    """Parse a request that has these four members once each, without white space or escapes; else None.

    The lengths of the members then add up to the length of the body, so that it contains nothing else.
    """
    try:
        members = _common_decoder.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    identity, params = bytes(members.id), bytes(members.params)
    expected_size = _COMMON_FRAME + len(identity) + len(members.method) + len(params)
    if expected_size != len(body) or params[:1] != b"{" or not is_valid_id(identity):
        return None
    return Request(identity, members.method, params, body)


def _parse(body: bytes) -> Message | Malformed:
    first = body.lstrip(b" \t\r\n")[:1]
    if first not in (b"{", b""):
        return _not_an_object(body, first)
    try:
        members = _members_decoder.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return _not_json(error)
    if repeats_a_member(body, members):
        return Malformed(
            INVALID_REQUEST, "a top-level member appears twice, or its name is written with escapes"
        )
    return _shape(body, members)


def _not_json(error: Exception) -> Malformed:
    return Malformed(
        PARSE_ERROR, f"the body is not valid JSON: {error}; send one JSON-RPC message as UTF-8 JSON"
    )


def _not_an_object(body: bytes, first: bytes) -> Malformed:
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError) as error:
        return _not_json(error)
    if first == b"[":
        return Malformed(INVALID_REQUEST, "send one message per request; arrays of messages are not accepted")
    return Malformed(INVALID_REQUEST, "expected one JSON-RPC message (a JSON object)")


def repeats_a_member(body: bytes, members: Mapping[str, msgspec.Raw]) -> bool:
    """Whether a member appears twice: this decoder keeps the last one, another parser may keep the first.

    In a compact body the lengths of the members add up. In others the members are searched in order.
    """
    expected_size = 1 + sum(len(key) + len(bytes_of(raw)) + 4 for key, raw in members.items())
    if expected_size == len(body):
        return False
    position = body.index(b"{") + 1
    for key, raw in members.items():
        value = bytes_of(raw)
        match = _MEMBER.match(body, position)
        if (
            match is None
            or match.group(1) != b'"%s"' % key.encode()
            or not body.startswith(value, match.end())
        ):
            return True
        comma = _COMMA.match(body, match.end() + len(value))
        if comma is None:
            return True
        position = comma.end()
    return bool(members) and body[position - 1 : position] != b"}"


def with_params(body: bytes, old: bytes, new: bytes) -> bytes:
    """Replace the parameters of a message; all other bytes stay (white space, order, unknown members).

    Args:
        body: a body that `parse` accepted.
        old: its parameters as `parse` returned them, empty if it has none.
        new: the new parameters as JSON text.

    Raises:
        ValueError: `parse` did not accept the body.
    """
    begin = len(body) - len(old) - 1
    if old and body.endswith(old, 0, -1) and body.endswith(b'"params":', 0, begin):
        return body[:begin] + new + b"}"  # the last member of a body without white space at its end
    position = body.index(b"{") + 1
    if not old:
        return body[:position] + b'"params":' + new + b"," + body[position:]
    for key, raw in _members_decoder.decode(body).items():
        match = _MEMBER.match(body, position)
        comma = None if match is None else _COMMA.match(body, match.end() + len(bytes_of(raw)))
        if match is None or comma is None:
            break
        if key == "params":
            return body[: match.end()] + new + body[match.end() + len(old) :]
        position = comma.end()
    raise ValueError("the body is not a parsed message")


def bytes_of(raw: msgspec.Raw) -> bytes:
    """The JSON text of a raw member; empty for an empty `Raw`."""
    return bytes(raw)


def _shape(body: bytes, members: _Members) -> Message | Malformed:
    identity = bytes_of(members["id"]) if "id" in members else None
    readable = identity if identity is not None and is_valid_id(identity) else None
    if "jsonrpc" not in members or bytes_of(members["jsonrpc"]) != b'"2.0"':
        return Malformed(INVALID_REQUEST, 'expected "jsonrpc": "2.0"', readable)
    if "id" in members and readable is None:
        return Malformed(INVALID_REQUEST, "the id must be a string or an integer of at most 256 bytes")
    if "method" not in members:
        if readable is not None and ("result" in members) != ("error" in members):
            return Response(readable, body)
        return Malformed(INVALID_REQUEST, "expected a method, or an id with either result or error", readable)
    method = text_of(members["method"])
    if method is None:
        return Malformed(INVALID_REQUEST, "the method must be a string", readable)
    params = bytes_of(members["params"]) if "params" in members else b""
    if params and params[:1] != b"{":
        return Malformed(INVALID_REQUEST, "params must be an object", readable)
    return Notification(method, params) if readable is None else Request(readable, method, params, body)


def is_valid_id(raw: bytes) -> bool:
    """Whether the JSON text is a string or an integer of at most `MAX_ID_BYTES`.

    The string is decoded, because the decoder of the envelope does not validate UTF-8 in raw members.
    """
    if len(raw) > MAX_ID_BYTES:
        return False
    return text_of(raw) is not None if raw[:1] == b'"' else _INTEGER.match(raw) is not None


def id_key(raw: bytes) -> bytes:
    """The canonical JSON text of an id, for comparisons."""
    value: str | int = msgspec.json.decode(raw)
    return b"%d" % value if isinstance(value, int) else msgspec.json.encode(value)


def text_of(raw: msgspec.Raw | bytes) -> str | None:
    """The string in a raw member; None if it is not a string."""
    try:
        return _text_decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def members_of(raw: bytes | msgspec.Raw) -> dict[str, msgspec.Raw]:
    """The members of a JSON object, each as JSON text; empty if it is not an object."""
    try:
        return _members_decoder.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return {}


def dumps(value: Any) -> bytes:
    """Encode a value as compact JSON. `msgspec.Raw` values are copied byte for byte.

    Lone surrogates, which stand for bytes of a path that are not UTF-8 (PEP 383), become U+FFFD.
    """
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(_without_surrogates(value))


def raw(value: Any) -> msgspec.Raw:
    """Encode a value as a raw member."""
    return msgspec.Raw(dumps(value))


def request(identity: bytes, method: str, params: Mapping[str, Any]) -> bytes:
    """Build a request. `identity` is JSON text; raw parameters are copied byte for byte."""
    return dumps({"jsonrpc": "2.0", "id": msgspec.Raw(identity), "method": method, "params": params})


def notification(method: str, params: Mapping[str, Any] | None = None) -> bytes:
    """Build a notification."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = params
    return dumps(message)


def result(identity: bytes, value: Any) -> bytes:
    """Build a response with a result."""
    return dumps({"jsonrpc": "2.0", "id": msgspec.Raw(identity), "result": value})


def error(identity: bytes | None, code: int, message: str, data: Any = None) -> bytes:
    """Build a response with an error. Without `identity` the id is null."""
    content: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        content["data"] = data
    return dumps({"jsonrpc": "2.0", "id": msgspec.Raw(identity or b"null"), "error": content})


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, Mapping):
        return {_without_surrogates(key): _without_surrogates(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_without_surrogates(item) for item in value]
    return value
