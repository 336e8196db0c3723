"""Messages about invalid arguments say what to write instead."""

from __future__ import annotations

from typing import Any

import pytest

from workspace_server.schemas.argument_messages import nearest, pointer, shorten_value
from workspace_server.schemas.validation import Validator

OBJECT = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
    "required": ["name"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        ({"type": "integer"}, "ten", 'expected integer, got string "ten"'),
        ({"type": "integer"}, "10", 'expected integer, got string "10"; write 10 without quotes'),
        ({"type": "integer"}, 1.5, "expected integer, got number 1.5"),
        ({"type": "number"}, True, "expected number, got boolean true"),
        ({"type": "boolean"}, "true", 'expected boolean, got string "true"; write true without quotes'),
        ({"type": "string"}, 5, 'expected string, got integer 5; write "5"'),
        ({"type": "string"}, None, "expected string, got null; leave it out if it is not needed"),
        ({"type": "string"}, {"a": 1}, "expected string, got object"),
        ({"type": ["string", "null"]}, 5, "expected string or null, got integer 5"),
        ({"type": "array"}, "a", 'expected array, got string "a"; write ["a"]'),
        (
            {"type": "object"},
            "{}",
            'expected object, got string "{}"; write the object itself, not a string of JSON',
        ),
        (
            {"enum": ["alpha", "beta"]},
            "Alpha",
            'expected one of "alpha", "beta", got string "Alpha"; did you mean "alpha"?',
        ),
        (
            {"enum": list(range(50))},
            99,
            f"expected one of {', '.join(map(str, range(20)))}, … (50 in all), got integer 99",
        ),
        ({"const": "v1"}, "v2", 'expected "v1", got string "v2"'),
        ({"minimum": 1}, 0, "expected at least 1, got integer 0"),
        ({"exclusiveMaximum": 1}, 1, "expected less than 1, got integer 1"),
        ({"multipleOf": 5}, 7, "expected a multiple of 5, got integer 7"),
        ({"minLength": 2}, "a", "expected at least 2 characters, got 1"),
        ({"maxItems": 1}, [1, 2], "expected at most 1 items, got 2"),
        ({"uniqueItems": True}, [1, 1], "items must differ; remove the repeated ones"),
        ({"pattern": "^a"}, "b", 'expected a string that matches the pattern ^a, got string "b"'),
        (False, 1, "not allowed here; leave it out"),
        ({"not": {}}, 1, "this value is excluded by the schema; write another one or leave it out"),
        ({"contains": {"type": "string"}}, [1], "too few or too many items of the kind the schema asks for"),
        ({"anyOf": [{"type": "string"}, {"type": "array"}]}, 1, "expected string or array, got integer 1"),
        (
            {"oneOf": [{"type": "string"}, {"minLength": 1}]},
            "a",
            "fits more than one of the allowed forms; write the members of one form only",
        ),
        (
            {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {},
            "fits none of the 2 allowed forms: /a required; or /b required",
        ),
    ],
)
def test_message_says_what_to_write(schema: object, value: object, message: str) -> None:
    found = Validator({"type": "object", "properties": {"v": schema}}).check({"v": value})
    assert [(problem.pointer, problem.message) for problem in found] == [("/v", message)]


@pytest.mark.parametrize(
    ("format_name", "example"), [("date", "2026-03-29"), ("email", "name@example.org"), ("uri", "https://")]
)
def test_format_is_shown_by_an_example(format_name: str, example: str) -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"v": {"format": format_name}},
    }
    (problem,) = Validator(schema).check({"v": "no"})
    assert f"such as {example}" in problem.message


@pytest.mark.parametrize(
    ("arguments", "pointer_and_message"),
    [
        ({"naem": "x"}, ("/naem", "unknown property; did you mean name?")),
        ({"NAME": "x"}, ("/NAME", "unknown property; did you mean name?")),
        ({"q": "x"}, ("/q", "unknown property; did you mean name?")),
        ({"q": []}, ("/q", "unknown property; leave it out")),
        ({"name": "x", "q": 1}, ("/q", "unknown property; leave it out")),
        ({"name": "x", "names": "y"}, ("/names", "unknown property; leave it out")),
    ],
)
def test_unknown_property_names_the_one_probably_meant(
    arguments: dict[str, Any], pointer_and_message: tuple[str, str]
) -> None:
    problem = Validator(OBJECT).check(arguments)[-1]
    assert (problem.pointer, problem.message) == pointer_and_message


def test_unknown_property_below_the_root_lists_the_known_ones() -> None:
    found = Validator({"type": "object", "properties": {"o": OBJECT}}).check({"o": {"name": "x", "q": 1}})
    assert [problem.message for problem in found] == ["unknown property; leave it out or use one of size"]


def test_errors_of_the_alternative_that_was_meant_are_shown() -> None:
    forms = [
        {"properties": {"kind": {"const": kind}, need: {"type": "string"}}, "required": ["kind", need]}
        for kind, need in (("a", "left"), ("b", "right"))
    ]
    found = Validator({"type": "object", "oneOf": forms}).check({"kind": "b"})
    assert [(problem.pointer, problem.message) for problem in found] == [("/right", "required (string)")]


@pytest.mark.parametrize(
    ("path", "text"),
    [([], ""), (["a", 0], "/a/0"), (["a/b", "c~d"], "/a~1b/c~0d"), (["x" * 100], "/" + "x" * 79 + "…")],
)
def test_pointer_is_escaped_and_cut(path: list[str | int], text: str) -> None:
    assert pointer(path) == text


@pytest.mark.parametrize(
    "value", ["x" * 500, '"' * 500, 10**500, pytest.param(10**50_000, id="huge"), "\x00" * 79, [1] * 500]
)
def test_shown_value_has_at_most_80_characters(value: object) -> None:
    assert len(shorten_value(value)) <= 80


@pytest.mark.parametrize(
    ("name", "found"),
    [("file_path", "filePath"), ("filepaht", "filePath"), ("FILE-PATH", "filePath"), ("zzz", None)],
)
def test_nearest_sees_through_case_and_separators(name: str, found: str | None) -> None:
    assert nearest(name, ["query", "filePath"]) == found
