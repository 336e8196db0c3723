"""Results we author, in wire form."""

from __future__ import annotations

import math
import time
from pathlib import PurePosixPath
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_tools_bridge.protocol import names
from workspace_server.results import clean_text, encode_result, error_result
from workspace_server.tool import Tool, ToolError, ToolResult

PLAIN = Tool("t", {"name": "t", "inputSchema": {"type": "object"}})
PROMISING = Tool("t", {**PLAIN.definition, "outputSchema": {"type": "object"}})


def test_result_has_only_the_members_it_needs() -> None:
    assert encode_result(ToolResult("hi")) == {
        "content": [{"type": "text", "text": "hi"}],
        "isError": False,
    }


def test_result_carries_blocks_structure_and_meta() -> None:
    image = {"type": "image", "data": "AA==", "mimeType": "image/png"}
    result = ToolResult("hi", {"a": 1}, is_error=True, blocks=(image,), meta={"k": (1, 2)})
    assert encode_result(result) == {
        "content": [{"type": "text", "text": "hi"}, image],
        "isError": True,
        "structuredContent": {"a": 1},
        "_meta": {"k": [1, 2]},
    }


@pytest.mark.parametrize(
    ("blocks", "count"), [((), 1), (({"type": "image", "data": "", "mimeType": "image/png"},), 1)]
)
def test_empty_text_never_leaves_content_empty(blocks: tuple[Any, ...], count: int) -> None:
    assert len(encode_result(ToolResult("", blocks=blocks))["content"]) == count


@pytest.mark.parametrize(
    ("dirty", "clean"),
    [
        ("a\x1b[31mred\x1b[0m", "ared"),
        ("\x9b31mred", "red"),
        ("\x1b]8;;https://x\x07link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq#0\x1b\\after", "after"),
        ("\x1b(Bplain\x1bM", "plain"),
        ("unfinished \x1b[", "unfinished "),
        ("bell\x07 nul\x00 del\x7f c1\x85", "bell nul del c1"),
        ("line\r\nnext\tcolumn\n", "line\nnext\tcolumn\n"),
        ("user\u202egnp.exe\u202c \u2066x\u2069 \u200e\u061c", "usergnp.exe x "),
        ("zero\u200bwidth\u200d\ufeff\u2060", "zerowidth"),
        ("tag\U000e0041\U000e007f", "tag"),
        ("half \ud83d pair", "half \ufffd pair"),
        ("schöne Grüße, 日本語 👍 e\u0301", "schöne Grüße, 日本語 👍 e\u0301"),
    ],
)
def test_text_is_free_of_what_cannot_be_seen(dirty: str, clean: str) -> None:
    assert clean_text(dirty) == clean
    block = {"type": "text", "text": dirty}
    texts = [entry["text"] for entry in encode_result(ToolResult(dirty, blocks=(block,)))["content"]]
    assert texts == [clean, clean]


@pytest.mark.parametrize("piece", ["\x9d", "\x9d\x90", "\x1b]", "\x1b[0", "\x1b[31", "\x1b "])
def test_hostile_text_is_cleaned_in_linear_time(piece: str) -> None:
    started = time.process_time()
    clean_text(piece * 200_000)
    assert time.process_time() - started < 5


def test_verbatim_text_keeps_all_that_can_be_sent() -> None:
    (block,) = encode_result(ToolResult("a\r\x1b[1m\u200b \ud800", verbatim=True))["content"]
    assert block["text"] == "a\r\x1b[1m\u200b \ufffd"


def test_structured_strings_keep_their_characters() -> None:
    encoded = encode_result(ToolResult("x", {"line": "\x1b[31m\u200b"}))
    assert encoded["structuredContent"] == {"line": "\x1b[31m\u200b"}


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        ("half \ud800", "half \ufffd"),
        ({"key \udfff": 1}, {"key \ufffd": 1}),
        (math.nan, None),
        (-math.inf, None),
        (10**30, 10**30),
        (True, True),
        ((1, [2]), [1, [2]]),
        (PurePosixPath("/a"), "/a"),
        ({1: 2}, {"1": 2}),
    ],
)
def test_values_without_json_form_are_replaced(value: object, wire: object) -> None:
    encoded = encode_result(ToolResult("x", {"v": value}))
    assert encoded["structuredContent"] == {"v": wire}
    msgspec.json.encode(encoded)


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize("value", [nested(500), {"n": 10**20_000}])
def test_extreme_values_still_encode(value: dict[str, Any]) -> None:
    msgspec.json.encode(encode_result(ToolResult("x", value)))


ANY_TEXT = st.text(st.characters(exclude_categories=()))
JSON_LIKE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT | st.binary(max_size=4),
    lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner),
    max_leaves=12,
)


@given(
    ANY_TEXT, st.dictionaries(ANY_TEXT, JSON_LIKE), st.lists(st.dictionaries(ANY_TEXT, JSON_LIKE), max_size=2)
)
def test_every_result_can_be_encoded(
    text: str, structured: dict[str, Any], blocks: list[dict[str, Any]]
) -> None:
    encoded = encode_result(ToolResult(text, structured, blocks=tuple(blocks), meta=structured))
    msgspec.json.decode(msgspec.json.encode(encoded))


@pytest.mark.parametrize("message", ["disk is full", "Error: disk is full"])
def test_failure_text_says_error_once(message: str) -> None:
    result = error_result(PLAIN, ToolError(message))
    assert result.text == "Error: disk is full"
    assert result.is_error
    assert result.structured == {
        "ok": False,
        "error": {"reason": "execution_failed", "message": "disk is full"},
    }


def test_failure_details_are_for_machines() -> None:
    result = error_result(PLAIN, ToolError("no such zone", {"candidates": ["UTC"]}))
    assert result.structured is not None
    assert result.structured["error"]["details"] == {"candidates": ["UTC"]}


def test_failure_of_a_tool_with_an_output_schema_is_described_in_meta() -> None:
    encoded = encode_result(error_result(PROMISING, ToolError("disk is full")))
    assert "structuredContent" not in encoded
    assert encoded["isError"] is True
    assert encoded["content"][0]["text"] == "Error: disk is full"
    assert encoded["_meta"][names.META_ERROR]["error"]["reason"] == "execution_failed"
