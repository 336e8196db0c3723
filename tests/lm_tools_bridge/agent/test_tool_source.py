"""Arguments of a model's calls: what counts as none, what is taken, and what the model is told."""

from __future__ import annotations

import json

import pytest

from lm_tools_bridge.agent.tool_source import read_arguments


@pytest.mark.parametrize(
    ("raw", "arguments"),
    [
        ('{"path": "a"}', {"path": "a"}),
        ({"path": "a"}, {"path": "a"}),
        ("", {}),
        (" \n", {}),
        (None, {}),
        ("null", {}),
        ('{"text": "}"}', {"text": "}"}),
    ],
)
def test_text_and_objects_are_taken_and_nothing_means_none(raw: object, arguments: object) -> None:
    assert read_arguments(raw) == (arguments, None)


@pytest.mark.parametrize(
    ("raw", "position"),
    [
        ('{"a": xrue}', 7),
        ("x", 1),
        ('{"é": x}', 7),
        ('{"a": 1', 8),
        ('{"a": NaN}', 7),
        ('{"a": "\ud83d"}', 8),
    ],
)
def test_broken_json_is_told_with_its_position(raw: str, position: int) -> None:
    assert read_arguments(raw) == (None, f"Error: arguments are not valid JSON at character {position}")


@pytest.mark.parametrize("raw", ["[1]", '"a"', "7", [1], True])
def test_anything_but_an_object_is_told(raw: object) -> None:
    assert read_arguments(raw) == (None, "Error: arguments must be an object")


def test_deep_nesting_is_told_and_harms_nothing() -> None:
    assert read_arguments('{"a":' * 100_000)[1] == "Error: arguments are nested too deeply"


@pytest.mark.parametrize("value", ["a\nb", "\t", "\u2028", '"', "end\\", "}", "😀", "x" * 2**20])
def test_every_character_survives(value: str) -> None:
    arguments, problem = read_arguments(json.dumps({"text": value}))
    assert problem is None
    assert arguments == {"text": value}
