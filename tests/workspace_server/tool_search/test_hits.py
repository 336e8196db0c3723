"""Hits of other servers are read and merged with our own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from workspace_server.tool_search.hits import Hit, merge, read_hits

SCHEMA = {"type": "object", "properties": {}}


def text(value: object) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value if isinstance(value, str) else json.dumps(value)}]}


def rename(name: str) -> str:
    return f"gh__{name}"


ONE = {
    "name": "send",
    "description": "Sends\u202e.",
    "score": 0.9,
    "inputSchema": SCHEMA,
    "keywords": ["m", 5],
}
READ = Hit("gh__send", "Sends.", 0.9, SCHEMA, ("m",))


@pytest.mark.parametrize(
    "result",
    [
        {"structuredContent": {"results": [ONE], "total": 1, "truncated": False}, "content": []},
        {"structuredContent": {"result": [ONE]}},
        text([ONE]),
        text({"results": [ONE]}),
        {"structuredContent": {"results": [{**ONE, "input_schema": SCHEMA, "inputSchema": SCHEMA}, {"name": 5}, 7, {"name": ""}]}},
    ],
)  # fmt: skip
def test_hits_are_read_from_either_form(result: dict[str, Any]) -> None:
    assert read_hits(result, rename) == [READ]


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"input_schema": SCHEMA}, Hit("gh__x", "", 0.25, SCHEMA)),
        ({"score": 7}, Hit("gh__x", "", 1.0, {"type": "object"})),
        ({"score": -1, "description": None}, Hit("gh__x", "", 0.0, {"type": "object"})),
        ({"score": float("nan"), "keywords": "a"}, Hit("gh__x", "", 0.25, {"type": "object"})),
        ({"score": True, "inputSchema": []}, Hit("gh__x", "", 0.25, {"type": "object"})),
        ({"score": 10**400}, Hit("gh__x", "", 1.0, {"type": "object"})),
    ],
)
def test_odd_members_are_put_right(given: dict[str, Any], read: Hit) -> None:
    assert read_hits({"structuredContent": {"results": [{"name": "x", **given}]}}, rename) == [read]


@pytest.mark.parametrize(
    "result",
    [{}, {"isError": True, **text([ONE])}, text("No tools found."), text("[" * 100_000), text("5"), {"content": ["x"]}, {"content": 1}],
)  # fmt: skip
def test_other_answers_are_no_hits(result: dict[str, Any]) -> None:
    assert read_hits(result, rename) == []


def test_a_remote_fills_no_more_than_one_answer() -> None:
    assert len(read_hits({"structuredContent": {"results": [ONE] * 500}}, rename)) == 100


def test_merged_hits_are_sorted_cut_and_named_once() -> None:
    own = [Hit("b", "ours", 0.9, {}), Hit("x", "", 0.5, {})]
    remote = [
        Hit("b", "theirs", 1.0, {}),
        Hit("c", "worse", 0.6, {}),
        Hit("c", "", 0.9, {}),
        Hit("A", "", 0.5, {}),
    ]
    found = merge(own, remote, 3)
    assert [(hit.name, hit.score) for hit in found.hits] == [("b", 0.9), ("c", 0.9), ("A", 0.5)]
    assert found.total == 4
