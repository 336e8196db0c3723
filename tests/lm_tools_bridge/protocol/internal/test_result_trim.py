"""Tests of the result trim: the bytes of a result that session clients do not get."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lm_tools_bridge.protocol import names
from lm_tools_bridge.protocol.internal import result_trim
from lm_tools_bridge.protocol.internal.result_trim import ResultTrim

META = {names.META_SERVER: {"name": "s"}}
NAMED = len(result_trim.META) + len(json.dumps(META, separators=(",", ":")))


def of(result: Any) -> ResultTrim | None:
    text = result if isinstance(result, bytes) else json.dumps(result, separators=(",", ":")).encode()
    found = result_trim.compute_trim(b"before" + text + b"behind", 6, 6 + len(text))
    assert found == result_trim.compute_trim(text, 0, len(text))
    return found


@pytest.mark.parametrize(
    ("result", "found"),
    [
        ({"resultType": "complete", "content": [], "_meta": META}, (len(result_trim.TYPE), NAMED)),
        ({"content": [], "_meta": META}, (0, NAMED)),
        ({"resultType": "complete", "content": []}, (len(result_trim.TYPE), 0)),
        ({"content": [], "structuredContent": {"_meta": 1}}, (0, 0)),
        ({}, (0, 0)),
    ],
)
def test_the_trim_counts_stateless_members_at_both_ends(result: Any, found: ResultTrim) -> None:
    assert of(result) == found


@pytest.mark.parametrize(
    "result",
    [
        {"content": [], "resultType": "complete"},
        {"resultType": "input_required", "inputRequests": {}},
        {"resultType": "complete", "_meta": META},
        {"content": [], "_meta": {**META, "more": 1}},
        {"_meta": META, "content": []},
        {"content": [], "ttlMs": 1},
        {"content": [], "cacheScope": "private"},
        {"content": [], "structuredContent": [1]},
        {"content": [], "structuredContent": None},
        b'{"content":[],"resultType":"complete","resultType":"task"}',
        b'{"content":[',
        b"[]",
        b'"{}"',
        b"{",
        b"",
    ],
    ids=str,
)
def test_a_result_with_other_differences_has_no_trim(result: Any) -> None:
    assert of(result) is None


def test_the_header_consists_of_both_numbers() -> None:
    assert ResultTrim.from_header(ResultTrim(25, 71).value.encode()) == (25, 71)
    for said in (None, b"", b"25", b"25 71 ", b" 25 71", b"25,71", b"-1 71", b"25 71 3", b"25 99999", b"a b"):
        assert ResultTrim.from_header(said) is None
