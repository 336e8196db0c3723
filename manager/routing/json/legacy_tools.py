"""Converts tools and their results for session clients, whose structured content must be an object.

These clients validate. One invalid definition makes them reject the whole list, including the tools of all
other servers. What is invalid in legacy revisions is changed; everything else stays byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc

_Members = Mapping[str, msgspec.Raw]

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


def convert_result(members: _Members) -> Mapping[str, Any]:
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
