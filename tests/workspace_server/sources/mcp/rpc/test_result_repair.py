"""Results that violate their type are repaired; those that fit stay byte for byte."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from mcp_types.methods import validate_server_result

from lm_tools_bridge.protocol import jsonrpc
from workspace_server.sources.mcp.rpc import messages

CALL, PROMPT, READ, COMPLETE = "tools/call", "prompts/get", "resources/read", "completion/complete"


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def repaired(method: str, result: Any, **params: Any) -> Any:
    """The result as clients get it; the official models of both eras read it."""
    completed = messages.to_modern_result(msgspec.Raw(json.dumps(result).encode()), method, params)
    assert completed is not None
    found = json.loads(jsonrpc.bytes_of(completed))
    for revision in ("2025-11-25", "2026-07-28"):
        validate_server_result(method, revision, found)
    for member in ("resultType", "ttlMs", "cacheScope"):
        found.pop(member, None)
    return found


@pytest.mark.parametrize(
    ("content", "blocks"),
    [
        (None, []),
        ({}, []),
        ([], []),
        ("words", [text("words")]),
        (7, [text("7")]),
        (text("alone"), [text("alone")]),
        ({"rows": [1]}, [text('{"rows":[1]}')]),
        (["a", None, 1.5, ["b"]], [text("a"), text("1.5"), text('["b"]')]),
        ([{"text": "without type"}], [text("without type")]),
        ([{"type": None, "text": "null"}, {"type": 3}], [text('{"type":null,"text":"null"}'), text('{"type":3}')]),
        ([{"type": "text", "text": 5}], [text("5")]),
        ([{"type": "text", "text": {"a": 1}}], [text('{"a":1}')]),
        ([{"type": "text"}], [text('{"type":"text"}')]),
        ([{"type": "image", "data": "aGk="}], [text('{"type":"image","data":"aGk="}')]),
        ([{"type": "audio", "data": 1, "mimeType": "a/b"}], [text('{"type":"audio","data":1,"mimeType":"a/b"}')]),
        ([{"type": "resource", "resource": None}], [text('{"type":"resource","resource":null}')]),
        (
            [{"type": "resource", "resource": {"uri": "a:b", "text": [1], "mimeType": None}}],
            [{"type": "resource", "resource": {"uri": "a:b", "text": "[1]"}}],
        ),
        (
            [{"type": "resource_link", "uri": "a:b", "size": "9"}],
            [{"type": "resource_link", "uri": "a:b", "name": "a:b"}],
        ),
        (
            [{**text("x"), "annotations": {"priority": 7, "audience": ["user"]}, "_meta": []}],
            [{**text("x"), "annotations": {"audience": ["user"]}}],
        ),
        ([{**text("x"), "annotations": None, "later": 1}], [{**text("x"), "later": 1}]),
    ],
)  # fmt: skip
def test_content_of_any_type_becomes_content_that_clients_read(content: Any, blocks: Any) -> None:
    assert repaired(CALL, {"content": content, "x": 1}) == {"content": blocks, "x": 1}


@pytest.mark.parametrize(
    ("failed", "said"),
    [(None, None), ("true", True), ("false", None), ("", None), ("boom", True), (1, True), (0, None), ({}, None)],
)  # fmt: skip
def test_what_a_server_says_of_failure_is_kept(failed: Any, said: bool | None) -> None:
    expected = {"content": [text("x")]} | ({} if said is None else {"isError": said})
    assert repaired(CALL, {"content": [text("x")], "isError": failed}) == expected


@pytest.mark.parametrize("content", [{}, {"content": None}, {"content": {}}, {"content": []}])
@pytest.mark.parametrize("structured", [{"a": 1}, {}])
def test_structured_content_is_not_copied_into_missing_content(content: Any, structured: Any) -> None:
    """What a client does not show to its model is completed later, and only for clients that were measured."""
    result = {**content, "structuredContent": structured, "_meta": None}
    assert repaired(CALL, result) == {"content": [], "structuredContent": structured}


@pytest.mark.parametrize(
    ("messages_of_server", "expected"),
    [
        (None, []),
        ("words", [("user", text("words"))]),
        ({"role": "assistant", "content": text("a")}, [("assistant", text("a"))]),
        ([{"role": "system", "content": "s"}, text("b")], [("user", text("s")), ("user", text("b"))]),
        ([{"role": "assistant", "content": [text("a"), "b"]}], [("assistant", text("a")), ("assistant", text("b"))]),
    ],
)  # fmt: skip
def test_messages_of_prompts_are_repaired(messages_of_server: Any, expected: Any) -> None:
    found = repaired(PROMPT, {"messages": messages_of_server, "description": 5})
    assert [(one["role"], one["content"]) for one in found["messages"]] == expected
    assert "description" not in found


@pytest.mark.parametrize(
    ("contents", "expected"),
    [
        (None, []),
        ("words", [{"uri": "a:b", "text": "words"}]),
        ({"text": "alone"}, [{"uri": "a:b", "text": "alone"}]),
        ([{"uri": "c:d", "text": {"k": [1]}}], [{"uri": "c:d", "text": '{"k":[1]}'}]),
        ([{"uri": None, "blob": "aGk=", "text": None}], [{"uri": "a:b", "blob": "aGk="}]),
        ([{"uri": "c:d", "mimeType": 5}], [{"uri": "c:d", "text": ""}]),
        ([None, 3], [{"uri": "a:b", "text": "null"}, {"uri": "a:b", "text": "3"}]),
    ],
)
def test_contents_of_resources_are_repaired(contents: Any, expected: Any) -> None:
    assert repaired(READ, {"contents": contents}, uri="a:b") == {"contents": expected}


def test_completions_and_empty_lists_are_repaired() -> None:
    assert repaired(COMPLETE, {"completion": None}) == {"completion": {"values": []}}
    found = repaired(COMPLETE, {"completion": {"values": ["a", 1], "total": "2", "hasMore": True}})
    assert found == {"completion": {"values": ["a"], "hasMore": True}}
    assert repaired("tools/list", {"tools": None}) == {"tools": []}
    assert repaired("resources/templates/list", {"resourceTemplates": None}) == {"resourceTemplates": []}


@pytest.mark.parametrize(
    "result",
    [
        b'{"content":[{"type":"text","text":"\\ud83d"}],"structuredContent":{"n":1.0,"big":123456789012345678901}}',
        b'{"content":[{"type":"hologram","n":1.50}]}',
        b'{"content":[{"type":"resource_link","uri":"a:b","name":"n","icons":[{"src":"c:d"}],"size":1.0}]}',
        b'{"content":[{"type":"text","text":"","annotations":{"lastModified":"2026-01-01T00:00:00Z"}}],"x":1e2}',
    ],
)
def test_what_fits_stays_byte_for_byte(result: bytes) -> None:
    completed = messages.to_modern_result(msgspec.Raw(result), CALL)
    assert completed is not None
    assert jsonrpc.bytes_of(completed) == b'{"resultType":"complete",' + result[1:]
