"""One message from or to somebody else's server. Pure.

Unlike `protocol/jsonrpc.py`, which reads what clients send us and is strict, this reads what a program wrote
that may also print banners: what is no message is told apart from what is a broken answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from protocol import jsonrpc, names
from protocol.versions import Era
from workspace_server.source import CallContext, RpcError

OUR_NAME: Final = "lm-tools-bridge"
_HOP: Final = "io.modelcontextprotocol/"
"""`_meta` keys with this prefix belong to one hop and are set anew for the next (T-185)."""
_NOTHING: Final = msgspec.Raw()
_COMPLETE: Final = b'{"resultType":"complete"'


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
class Reply:
    """An answer: a result as JSON text, or an error. `id` is the JSON text of the id it names."""

    id: bytes
    outcome: msgspec.Raw | RpcError


@dataclass(frozen=True, slots=True)
class Broken:
    """An answer to this id that is no valid JSON or no answer: `NaN`, half a character, a malformed error."""

    id: bytes


@dataclass(frozen=True, slots=True)
class Asked:
    """A request of the server to us; `params` is JSON text, empty when absent."""

    id: bytes
    method: str
    params: msgspec.Raw


@dataclass(frozen=True, slots=True)
class Told:
    """A notification."""

    method: str
    params: msgspec.Raw


def read(line: bytes) -> Reply | Broken | Asked | Told | None:
    """The message on one line; None for anything that is no JSON-RPC message in UTF-8 (T-93, T-95)."""
    try:
        message = _envelope.decode(line)
        if not line.isascii():
            line.decode()  # the decoder does not look into what it leaves raw
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return _broken(line)
    if jsonrpc.bytes_of(message.jsonrpc) != b'"2.0"':
        return None
    identity = jsonrpc.bytes_of(message.id)
    if not jsonrpc.bytes_of(message.method):
        return _reply(identity, message) if identity else None
    method = jsonrpc.text_of(message.method)
    if method is None:
        return None
    if not identity:
        return Told(method, message.params)
    return Asked(identity, method, message.params) if jsonrpc.is_valid_id(identity) else None


def _reply(identity: bytes, message: _Envelope) -> Reply | Broken | None:
    error, result = jsonrpc.bytes_of(message.error), jsonrpc.bytes_of(message.result)
    if not error and not result:
        return None
    if error in (b"", b"null") and result:  # some servers write both members always
        return Reply(identity, message.result)
    try:
        said = _error.decode(error)
    except (msgspec.DecodeError, RecursionError):
        return Broken(identity)
    data = said.data if jsonrpc.bytes_of(said.data) else None
    return Reply(identity, RpcError(said.code, said.message, data))


def _broken(line: bytes) -> Broken | None:
    """An answer that only a lenient reader understands: its caller should not wait for it in vain (T-159)."""
    if b'"result"' not in line and b'"error"' not in line:
        return None
    try:
        message = json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or "method" in message:
        return None
    identity = message.get("id")
    return Broken(b"%d" % identity) if type(identity) is int else None


def request(number: int, method: str, params: Mapping[str, Any]) -> bytes:
    """A request of ours; raw parameters are copied byte for byte."""
    return jsonrpc.request(b"%d" % number, method, params)


def call_params(
    name: str,
    context: CallContext,
    received: Mapping[str, msgspec.Raw],
    own: Mapping[str, Any],
    token: int | None,
) -> dict[str, Any]:
    """Parameters of `tools/call` for the next hop (T-185, T-160).

    Arguments and members we know nothing of are the caller's bytes.

    Args:
        name: the tool by its server's own name.
        context: the call as it came in.
        received: the `_meta` it came with.
        own: the `_meta` keys of this hop.
        token: our progress token, None where the caller gave none.
    """
    kept = {key: raw for key, raw in received.items() if not key.startswith(_HOP) and key != "progressToken"}
    meta: dict[str, Any] = {**kept, **own}
    if token is not None:
        meta["progressToken"] = token
    others = {k: raw for k, raw in context.params.items() if k not in ("name", "arguments", "_meta")}
    params = {"name": name, "arguments": context.arguments, **others}
    return {**params, "_meta": meta} if meta else params


def hop_meta(era: Era, revision: str, version: str, capabilities: Mapping[str, Any]) -> dict[str, Any]:
    """The `_meta` keys a request of ours carries; none in the legacy era (row M1)."""
    if era is Era.LEGACY:
        return {}
    client = {"name": OUR_NAME, "version": version}
    return {
        names.META_VERSION: revision,
        names.META_CAPABILITIES: capabilities,
        names.META_CLIENT: client,
    }


def completed(result: msgspec.Raw) -> msgspec.Raw | None:
    """A result with its `resultType`, which the legacy era does not have (T-160); None for no JSON object.

    Nothing else changes.
    """
    text = jsonrpc.bytes_of(result)
    if text[:1] != b"{":
        return None
    if b'"resultType"' in text and "resultType" in jsonrpc.members_of(text):
        return result
    rest = text[1:].lstrip(b" \t\r\n")
    return msgspec.Raw(_COMPLETE + (b"," if rest[:1] != b"}" else b"") + rest)
