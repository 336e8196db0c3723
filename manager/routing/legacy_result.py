"""Converts modern responses (2026-07-28) for session clients: drops unknown members, maps error codes. Pure.

Tools and their results get object schemas and structured contents, as the older revisions demand. Everything
else stays byte for byte. Nearly all results can be forwarded without parsing, unchanged or trimmed; the
others are parsed (`forwarding/answer.py`) and converted. The workspace server converts in the other
direction, for legacy servers. `manager/sessions/round_trips.py` handles the input requests in a response.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import input_requests, jsonrpc, names
from lm_tools_bridge.protocol.inbound import HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION
from lm_tools_bridge.protocol.internal import result_trim
from lm_tools_bridge.protocol.internal.result_trim import ResultTrim
from manager.routing.json_members import Range, member_spans, ranges_to_cut, remove_ranges

_OUTPUT: Final = "outputSchema"
_INPUT: Final = "inputSchema"
_STRUCTURED: Final = "structuredContent"
_SAME_AS: Final = {b"true": msgspec.Raw(b"{}"), b"false": msgspec.Raw(b'{"not":{}}')}
"""Boolean schemas and the equivalent objects."""
_ABSENT: Final = msgspec.Raw()


def convert_definitions(tools: Sequence[msgspec.Raw]) -> list[msgspec.Raw]:
    """Convert each definition of a list (`convert_definition`)."""
    return [convert_definition(tool) for tool in tools]


def convert_definition(tool: msgspec.Raw) -> msgspec.Raw:
    """Convert one definition: drop an output schema that is not about objects, make parameter schemas
    objects.

    Returns:
        `tool` itself if nothing changes.
    """
    members = jsonrpc.members_of(tool)
    schema = jsonrpc.members_of(members.get(_INPUT, _ABSENT))
    parameters = jsonrpc.members_of(schema.get("properties", _ABSENT))
    changed: dict[str, Any] = {}
    if _OUTPUT in members and not _is_about_an_object(members[_OUTPUT]):
        changed[_OUTPUT] = None
    if not _are_objects(parameters):
        converted = {name: _SAME_AS.get(jsonrpc.bytes_of(one), one) for name, one in parameters.items()}
        changed[_INPUT] = {**schema, "properties": converted}
    if not changed:
        return tool
    return jsonrpc.raw({name: one for name, one in {**members, **changed}.items() if one is not None})


def convert_tool_result(members: _Members) -> Mapping[str, Any]:
    """Convert the members of a `tools/call` result: drop structured content that is not an object.

    If the result has no other content, the dropped content becomes text.

    Returns:
        `members` itself if nothing changes.
    """
    value = memoryview(members.get(_STRUCTURED, _ABSENT))
    if bytes(value[:1]) in (b"", b"{"):
        return members
    structured = bytes(value)
    kept: dict[str, Any] = {name: value for name, value in members.items() if name != _STRUCTURED}
    content = jsonrpc.bytes_of(members.get("content", _ABSENT))
    if structured != b"null" and content.translate(None, b" \t\r\n") in {b"", b"[]"}:
        kept["content"] = [{"type": "text", "text": structured.decode()}]
    return kept


def _is_about_an_object(schema: msgspec.Raw) -> bool:
    members = jsonrpc.members_of(schema)
    return jsonrpc.text_of(members.get("type", _ABSENT)) == "object" and _are_objects(
        jsonrpc.members_of(members.get("properties", _ABSENT))
    )


def _are_objects(schemas: _Members) -> bool:
    return all(jsonrpc.bytes_of(one)[:1] == b"{" for one in schemas.values())


_Members = Mapping[str, msgspec.Raw]

_MODERN_MEMBERS: Final = frozenset({"resultType", "ttlMs", "cacheScope"})
_LARGE: Final = 64 * 1024
"""Size in bytes from which copying a text costs more than finding the positions to cut."""
_CODES: Final[Mapping[int, int]] = {
    MISSING_CAPABILITY: jsonrpc.INVALID_PARAMS,
    HEADER_MISMATCH: jsonrpc.INTERNAL_ERROR,
    UNSUPPORTED_VERSION: jsonrpc.INTERNAL_ERROR,
}
"""Codes that legacy revisions lack. The last two concern headers and a version from the manager."""


def convert_result(members: Mapping[str, Any]) -> dict[str, Any]:
    """Remove the members that only modern results have: type, time to live, cache scope, server info."""
    kept = {name: value for name, value in members.items() if name not in _MODERN_MEMBERS}
    raw = kept.get("_meta", {})
    meta = jsonrpc.members_of(raw) if isinstance(raw, msgspec.Raw) else raw
    if names.META_SERVER in meta:
        kept["_meta"] = {name: value for name, value in meta.items() if name != names.META_SERVER}
        if not kept["_meta"]:
            del kept["_meta"]
    return kept


def convert_response(method: str, body: bytes, envelope: _Members, outcome: _Members | None = None) -> bytes:
    """Convert a whole response.

    Args:
        method: the method of the request.
        body: the response; returned as it is if nothing changes.
        envelope: the members of the response.
        outcome: the members of the result, if they were decoded already.
    """
    if "error" in envelope:
        changed: dict[str, Any] | None = _error(method, jsonrpc.members_of(envelope["error"]))
        return body if changed is None else jsonrpc.dumps({**envelope, "error": changed})
    members = jsonrpc.members_of(envelope["result"]) if outcome is None else outcome
    converted = _convert_tools(method, members)
    if converted is not members:
        return jsonrpc.dumps({**envelope, "result": convert_result(converted)})
    meta = jsonrpc.members_of(members["_meta"]) if "_meta" in members else {}
    if members.keys().isdisjoint(_MODERN_MEMBERS) and names.META_SERVER not in meta:
        return body
    is_copied = (
        len(body) < _LARGE
        and is_compact(len(body), envelope)
        and is_compact(memoryview(envelope["result"]).nbytes, members)
        and (not meta or is_compact(memoryview(members["_meta"]).nbytes, meta))
    )
    trimmed = None if is_copied else _cut(body, envelope, members, meta)
    return jsonrpc.dumps({**envelope, "result": convert_result(members)}) if trimmed is None else trimmed


def is_compact(size: int, members: Mapping[str, msgspec.Raw]) -> bool:
    """Whether an object of `size` bytes is compact JSON: no white space, no escapes, no duplicate names.

    Encoding the members of a compact object again gives the same bytes, and is faster than finding their
    positions.
    """
    compact_size = 0
    for name, raw in members.items():  # sum() of a generator takes twice as long on this hot path
        compact_size += len(name.encode()) + memoryview(raw).nbytes + 4
    return size == 1 + (compact_size or 1)


def _convert_tools(method: str, members: _Members) -> Mapping[str, Any]:
    """The members with tools and tool results converted; `members` itself if nothing changes."""
    if method == names.TOOLS_CALL:
        return convert_tool_result(members)
    if method != names.TOOLS_LIST or "tools" not in members:
        return members
    try:
        tools = msgspec.json.decode(members["tools"], type=list[msgspec.Raw])
    except msgspec.DecodeError:
        return members
    converted = convert_definitions(tools)
    changed = any(one is not other for one, other in zip(tools, converted, strict=True))
    return {**members, "tools": converted} if changed else members


def _cut(body: bytes, envelope: _Members, members: _Members, meta: _Members) -> bytes | None:
    """Cut the modern members out of the response; None if their positions cannot be found."""
    outer = member_spans(body, 0, envelope)
    inner = None if outer is None else member_spans(body, outer["result"].value, members)
    if inner is None:
        return None
    dropped = set(_MODERN_MEMBERS)
    ranges: list[Range] = []
    if names.META_SERVER in meta:
        if len(meta) == 1:
            dropped.add("_meta")
        else:
            where = member_spans(body, inner["_meta"].value, meta)
            if where is None:
                return None
            ranges = ranges_to_cut(where, {names.META_SERVER})
    return remove_ranges(body, [*ranges, *ranges_to_cut(inner, dropped)])


def _error(method: str, error: _Members) -> dict[str, Any] | None:
    """The error with the legacy code; None if nothing changes."""
    try:
        code = msgspec.json.decode(error.get("code", b"0"), type=int)
    except msgspec.DecodeError:
        return None
    data = jsonrpc.members_of(error.get("data", b"{}"))
    if code == jsonrpc.INVALID_PARAMS and method == names.RESOURCES_READ and "uri" in data:
        return {**error, "code": jsonrpc.RESOURCE_NOT_FOUND}
    if code not in _CODES:
        return None
    changed: dict[str, Any] = {**error, "code": _CODES[code]}
    if code == MISSING_CAPABILITY:
        changed["message"] = _with_capabilities(error, data)
    return changed


def _with_capabilities(error: _Members, data: _Members) -> str:
    """The message with the capabilities that the client did not declare."""
    message = jsonrpc.text_of(error.get("message", b'""')) or "a client capability is missing"
    required = jsonrpc.members_of(data.get("requiredCapabilities", b"{}"))
    missing = input_requests.format_capabilities(
        {name: jsonrpc.members_of(parts) for name, parts in required.items()}
    )
    return f"{message} (this client did not declare: {missing})" if missing else message


RESULT_BEGIN: Final = b'{"jsonrpc":"2.0","id":%b,"result":{'
"""Begin of a success response to the request with this id; its result object continues up to `RESULT_END`."""
RESULT_END: Final = b"}}"
"""End of the response: the braces of the result and of the response."""
_skip: Final = msgspec.json.Decoder(msgspec.Raw).decode


def is_forwardable(
    data: bytes, start: int, end: int, identity: bytes, trim: ResultTrim | None = None
) -> bool:
    """Whether `data[start:end]` is a success response to this request. If not, it has to be parsed.

    Args:
        identity: the id of the request as JSON text.
        trim: the trim that the workspace server sent; then the JSON is not validated again.
    """
    begin = RESULT_BEGIN % identity
    if not (data.startswith(begin, start, end) and data.endswith(RESULT_END, start, end)):
        return False
    if trim is None:
        try:
            _skip(data[start + len(begin) - 1 : end - 1])
        except (msgspec.DecodeError, RecursionError):
            return False
    return True


def for_session_client(
    data: bytes, start: int, end: int, identity: bytes, trim: ResultTrim | None = None
) -> bytes | None:
    """The response in `data[start:end]` for a session client: without `resultType` and server info.

    Returns:
        None if the response has to be parsed and converted.
    """
    begin = RESULT_BEGIN % identity
    if not (data.startswith(begin, start, end) and data.endswith(RESULT_END, start, end)):
        return None
    inside, behind = start + len(begin), end - len(RESULT_END)
    if trim is None:
        trim = result_trim.compute_trim(data, inside - 1, behind + 1)
        if trim is None:
            return None
    first, last = inside + trim.first, behind - trim.last
    return None if first > last else b"".join((begin, data[first:last], RESULT_END))
