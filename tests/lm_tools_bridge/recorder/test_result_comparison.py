"""Results are compared by structure: exactly the changes are found, and nothing of the envelope."""

from __future__ import annotations

from typing import Any

import pytest

from lm_tools_bridge.recorder.result_comparison import Difference, differences


def text(value: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}]}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (text("a"), {"resultType": "complete", **text("a"), "_meta": {"x": 1}, "isError": False}),
        (text('{"a": 1, "b": [2]}'), text('{"b":[2],"a":1}')),
        ({"structuredContent": {"n": 1}}, {"structuredContent": {"n": 1.0}}),
        ({"a": None}, {}),
    ],
)
def test_what_means_the_same_is_the_same(before: Any, after: Any) -> None:
    assert differences(before, after) == []


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (text("a"), text("b"), ("/content/0/text", "changed", "a", "b")),
        ({"s": {"x": 1}}, {"s": {}}, ("/s/x", "removed", 1, None)),
        ({"s": []}, {"s": [1]}, ("/s/0", "added", None, 1)),
        ({"s": {"x": 1}}, {"s": {"x": True}}, ("/s/x", "changed", 1, True)),
        ({"s": {"x": "1"}}, {"s": {"x": 1}}, ("/s/x", "changed", "1", 1)),
        ({}, {"isError": True}, ("/isError", "added", None, True)),
        (text('{"deep": {"n": 1}}'), text('{"deep": {"n": 2}}'), ("/content/0/text/deep/n", "changed", 1, 2)),
        ({"s": {"a/b~c": 1}}, {"s": {"a/b~c": 2}}, ("/s/a~1b~0c", "changed", 1, 2)),
        (
            {"error": {"message": "no"}},
            {"error": {"message": "never"}},
            ("/error/message", "changed", "no", "never"),
        ),
    ],
)
def test_each_change_is_named_by_its_place(before: Any, after: Any, found: tuple[Any, ...]) -> None:
    assert differences(before, after) == [Difference(*found)]


def test_ignored_places_are_not_compared() -> None:
    before = {"s": {"at": 1, "rows": [{"id": 1, "n": 1}, {"id": 2, "n": 2}]}}
    after = {"s": {"at": 2, "rows": [{"id": 7, "n": 1}, {"id": 8, "n": 3}]}}
    assert [one.pointer for one in differences(before, after, ["/s/at", "/s/rows/*/id"])] == ["/s/rows/1/n"]


def test_a_difference_of_long_texts_shows_changed_lines_only() -> None:
    before = "\n".join(f"line {number}" for number in range(100))
    (found,) = differences(text(before), text(before.replace("line 50", "LINE 50")))
    assert found.lines() == ["~ /content/0/text:", "    -line 50", "    +LINE 50"]


def test_differences_are_short_enough_for_a_terminal() -> None:
    (found,) = differences({"a": "x" * 1000}, {"a": "y" * 1000})
    assert all(len(line) < 300 for line in found.lines())
    (many,) = differences(text("\n".join("a" * 50)), text("\n".join("b" * 50)))
    assert len(many.lines()) <= 14
