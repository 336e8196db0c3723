"""Tools and their results as the era of sessions allows them: what is structured is an object there.

Clients of that era check what they get. One definition that they do not know costs them the whole list, with
the tools of all other servers in it. What does not fit is changed; all else stays as the bytes that came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from protocol import jsonrpc

_Members = Mapping[str, msgspec.Raw]

_OUTPUT: Final = "outputSchema"
_INPUT: Final = "inputSchema"
_STRUCTURED: Final = "structuredContent"
_SAME_AS: Final = {b"true": msgspec.Raw(b"{}"), b"false": msgspec.Raw(b'{"not":{}}')}
"""Schemas that are no objects, and objects that mean the same."""
_ABSENT: Final = msgspec.Raw()


def convert_definitions(tools: Sequence[msgspec.Raw]) -> list[msgspec.Raw]:
    """The definitions of a list, each as `convert_definition` has it."""
    return [convert_definition(tool) for tool in tools]


def convert_definition(tool: msgspec.Raw) -> msgspec.Raw:
    """One definition: no output schema that is not about an object, and schemas of parameters are objects.

    Returns:
        The same where nothing is to be changed.
    """
    members = jsonrpc.members_of(tool)
    schema = jsonrpc.members_of(members.get(_INPUT, _ABSENT))
    parameters = jsonrpc.members_of(schema.get("properties", _ABSENT))
    changed: dict[str, Any] = {}
    if _OUTPUT in members and not _is_about_an_object(members[_OUTPUT]):
        changed[_OUTPUT] = None
    if not _are_objects(parameters):
        spelt = {name: _SAME_AS.get(jsonrpc.bytes_of(one), one) for name, one in parameters.items()}
        changed[_INPUT] = {**schema, "properties": spelt}
    if not changed:
        return tool
    return jsonrpc.raw({name: one for name, one in {**members, **changed}.items() if one is not None})


def convert_result(members: _Members) -> Mapping[str, Any]:
    """The members of a result of `tools/call`: nothing structured but objects.

    What is left out is said as text, where the result has no other content.

    Returns:
        The same where nothing is to be changed.
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
