"""Tests of the checks before a body is parsed, compared with a parser's findings."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.routing.json.scan import MAX_DEPTH, MAX_NODES, check_json


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b"\xef\xbb\xbf{}", "byte order mark"),
        ("{}".encode("utf-16"), "byte order mark"),
        (b'"\xff"', "UTF-8"),
        (b'"\xed\xa0\x80"', "UTF-8"),
        (b'"\xc0\x80"', "UTF-8"),
        (b'"\\ud800"', "surrogate"),
        (b'"\\uDC00\\uD800"', "surrogate"),
        (b'"\\ud800\\ud800\\udc00"', "surrogate"),
        (b'"\\\\\\ud800"', "surrogate"),
        (nested(MAX_DEPTH + 1), "levels"),
        (b"[" * 1_000_000, "values"),
        (b'{"a":' * 100_000, "levels"),
        (b"[" + b"1," * MAX_NODES + b"1]", "values"),
        (b"[" + b'"",' * MAX_NODES + b'""]', "values"),
        (b"[" + b'"' * 5_000_000 + b"," * MAX_NODES, "values"),
    ],
)
def test_harmful_text_is_refused(body: bytes, word: str) -> None:
    problem = check_json(body)
    assert problem is not None
    assert word in problem
    assert "; send " in problem, "says what to do next"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        '"jörg \U0001f600"'.encode(),
        b'"\\ud83d\\ude00"',
        b'"\\\\ud800"',
        nested(MAX_DEPTH),
        json.dumps("[{" * 1_000).encode(),
        json.dumps('"[{\\' * 1_000).encode(),
        json.dumps({"code": ",[{}]" * 100_000}).encode(),
        b"[" + b"1," * (MAX_NODES - 10) + b"1]",
        b"9" * 5_000,
    ],
)
def test_harmless_text_passes(body: bytes) -> None:
    assert check_json(body) is None


def depth_of(value: Any) -> int:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if children is None else 1 + max(map(depth_of, children), default=0)


@given(
    st.text(alphabet='"\\[]{},é', max_size=200),
    st.lists(st.sampled_from("[{"), min_size=MAX_DEPTH - 3, max_size=MAX_DEPTH + 3),
)
def test_depth_is_exact_with_any_content_of_strings(leaf: str, wrapping: list[str]) -> None:
    value: Any = leaf
    for kind in wrapping:
        value = [leaf, value] if kind == "[" else {leaf: value}
    refused = check_json(json.dumps(value, ensure_ascii=False).encode()) is not None
    assert refused == (depth_of(value) > MAX_DEPTH)


@given(st.text(alphabet=st.characters(exclude_categories=()), max_size=20))
def test_lone_surrogates_are_found_exactly(text: str) -> None:
    escaped = json.dumps(text)
    is_whole = all(not 0xD800 <= ord(character) <= 0xDFFF for character in json.loads(escaped))
    assert (check_json(escaped.encode()) is None) == is_whole
