"""Arguments are validated offline and within limits."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_tools_bridge.protocol import names
from support.examples import examples
from workspace_server.schemas.validation import (
    ArgumentProblem,
    Validator,
    invalid_arguments_result,
    validator_for,
)
from workspace_server.tool import Tool

FIND_FILES = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "maxResults": {"type": "integer"},
        "includeIgnoredFiles": {"type": "boolean"},
    },
    "required": ["query"],
    "additionalProperties": False,
}
DRAFT_07 = "http://json-schema.org/draft-07/schema#"
BUDGET = 0.1  # seconds of processor time


def tool(schema: dict[str, Any], **more: Any) -> Tool:
    return Tool("lm_findFiles", {"name": "lm_findFiles", "inputSchema": schema, **more})


def schema_problem(schema: dict[str, Any]) -> str | None:
    """Why this schema cannot be served."""
    try:
        validator_for(schema)
    except ValueError as problem:
        return str(problem)
    return None


def with_property(schema: object) -> dict[str, Any]:
    return {"type": "object", "properties": {"v": schema}}


def nested(levels: int, inner: Any) -> Any:
    for _ in range(levels):
        inner = {"c": inner}
    return inner


def test_invalid_arguments_get_the_documented_text_and_object() -> None:
    problems = Validator(FIND_FILES).check({"maxResults": "ten", "glob": "*"})
    result = invalid_arguments_result(tool(FIND_FILES), problems)
    lines = result.text.split("\n")
    assert lines[:5] == [
        "Error: invalid arguments for lm_findFiles",
        "/query: required (string)",
        '/maxResults: expected integer, got string "ten"',
        "/glob: unknown property; did you mean query?",
        "Input: { query: string, maxResults?: integer, includeIgnoredFiles?: boolean }",
    ]
    assert len(lines) == 6
    assert lines[5].startswith("Next step: ")
    assert "lm-tools://schema/lm_findFiles" in lines[5]
    assert result.is_error
    assert result.structured == {
        "ok": False,
        "error": {
            "code": -32602,
            "reason": "invalid_arguments",
            "message": "invalid arguments for lm_findFiles",
            "nextStep": lines[5].removeprefix("Next step: "),
            "details": {
                "errors": [
                    {"pointer": "/query", "keyword": "required", "message": "required (string)"},
                    {
                        "pointer": "/maxResults",
                        "keyword": "type",
                        "message": 'expected integer, got string "ten"',
                    },
                    {
                        "pointer": "/glob",
                        "keyword": "additionalProperties",
                        "message": "unknown property; did you mean query?",
                    },
                ]
            },
        },
        "name": "lm_findFiles",
        "inputSchema": FIND_FILES,
    }


def test_with_an_output_schema_the_error_object_is_in_meta() -> None:
    result = invalid_arguments_result(
        tool(FIND_FILES, outputSchema={"type": "object"}), [ArgumentProblem("/query", "required", "required")]
    )
    assert result.structured is None
    assert result.meta[names.META_ERROR]["error"]["reason"] == "invalid_arguments"
    assert "/query: required" in result.text


@pytest.mark.parametrize(
    ("schema", "line"),
    [({"type": "object"}, None), ({"type": "object", "additionalProperties": False}, "Input: {}")],
)
def test_tool_without_properties_says_so_only_if_it_takes_none(
    schema: dict[str, Any], line: str | None
) -> None:
    lines = invalid_arguments_result(tool(schema), [ArgumentProblem("", "type", "wrong")]).text.split("\n")
    assert lines[1] == "arguments: wrong"
    assert [found for found in lines if found.startswith("Input")] == ([line] if line else [])


@pytest.mark.parametrize(
    ("schema", "value", "fits"),
    [
        ({"type": "number"}, True, False),
        ({"type": "integer"}, True, False),
        ({"type": "integer"}, 3.0, True),
        ({"type": "integer"}, 10**30, True),
        ({"type": "array", "prefixItems": [{"type": "string"}]}, [1], False),
        ({"type": "array", "items": {"$ref": "#/properties/v"}}, [[[]]], True),
    ],
)
def test_values_are_validated_as_json_schema_2020_12_defines(
    schema: object, value: object, fits: bool
) -> None:
    assert (Validator(with_property(schema)).check({"v": value}) == []) is fits


@pytest.mark.parametrize(
    ("dialect", "fits"),
    [
        (DRAFT_07, True),
        ("https://json-schema.org/draft-07/schema", True),
        ("http://json-schema.org/draft-04/schema#", True),
        ("http://json-schema.org/draft-06/schema", True),
        ("https://json-schema.org/draft/2019-09/schema", True),
        ("https://json-schema.org/draft/2020-12/schema", False),
        ("http://json-schema.org/draft/2020-12/schema#", False),
        (None, False),
        ("https://example.org/my-own", True),
    ],
)
def test_arguments_are_checked_by_the_dialect_that_is_declared(dialect: str | None, fits: bool) -> None:
    """`prefixItems` means nothing before 2020-12, and nobody knows what it means elsewhere."""
    declared = {} if dialect is None else {"$schema": dialect}
    schema = {**declared, **with_property({"prefixItems": [{"type": "string"}]})}
    assert (Validator(schema).check({"v": [1]}) == []) is fits


@pytest.mark.parametrize(
    ("dialect", "about", "value"),
    [
        ("http://json-schema.org/draft-04/schema#", {"minimum": 0, "exclusiveMinimum": True}, 0),
        ("http://json-schema.org/draft-06/schema#", {"items": [{"type": "string"}]}, [1]),
        ("https://json-schema.org/draft/2019-09/schema", {"items": [{"type": "string"}]}, [1]),
    ],
)
def test_older_dialects_have_their_own_keywords(dialect: str, about: dict[str, Any], value: Any) -> None:
    validator = Validator({"$schema": dialect, **with_property(about)})
    assert (validator.unchecked, len(validator.check({"v": value}))) == (None, 1)


@pytest.mark.parametrize("pattern", [r"^[\w-.]+$", "^[^]+$", "a{,5}", r"\-\Z", "[\\d-x]"])
def test_a_pattern_that_only_ecmascript_reads_is_accepted_unchecked(pattern: str) -> None:
    for schema in (
        with_property({"pattern": pattern}),
        {"$schema": DRAFT_07, **with_property({"pattern": pattern})},
    ):
        validator = Validator(schema)
        assert validator.unchecked is None or "pattern" in validator.unchecked
        assert validator.check({"v": "anything"}) == [] or validator.unchecked is None


def test_missing_arguments_are_an_empty_object() -> None:
    validator = Validator(FIND_FILES)
    assert (
        validator.check(None)
        == validator.check({})
        == [ArgumentProblem("/query", "required", "required (string)")]
    )


def test_at_most_ten_problems_are_returned() -> None:
    found = Validator({"type": "object", "additionalProperties": {"type": "string"}}).check(
        {str(number): number for number in range(50)}
    )
    assert len(found) == 10


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "writeOnly": True},
        {"type": "integer", "format": "password"},
        {"enum": ["hunter3"], "writeOnly": True},
        {"type": "string", "pattern": "^x", "format": "password"},
        {"anyOf": [{"type": "integer", "writeOnly": True}, {"const": "x"}]},
        {"$ref": "#/$defs/secret"},
    ],
)
def test_secret_values_are_never_echoed(schema: dict[str, Any]) -> None:
    secret = {"type": "integer", "writeOnly": True}
    found = Validator({**with_property(schema), "$defs": {"secret": secret}}).check({"v": "hunter2"})
    assert found
    assert "hunter2" not in repr(found)


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({}, "no type object"),
        ({"type": "string"}, "no type object"),
        (with_property({"$ref": "http://127.0.0.1:1/x"}), "leads off the document"),
        (with_property({"$ref": "file:///etc/passwd"}), "leads off the document"),
        ({"type": "object", "$defs": {"unused": {"$ref": "other.json"}}}, "leads off the document"),
        (with_property({"$ref": "#/nowhere"}), "not a valid schema"),
        (with_property({"pattern": "("}), "the pattern at /properties/v/pattern is not a regular expression"),
        (with_property({"type": "objct"}), "not a valid schema at /properties/v/type"),
        ({"type": "object", "title": "\ud800"}, "not JSON"),
        (with_property({"type": "string", "x-mcp-header": "A b"}), "x-mcp-header of v"),
        (with_property({"type": "array", "x-mcp-header": "A"}), "x-mcp-header of v"),
        (
            {
                "type": "object",
                "properties": {k: {"type": "string", "x-mcp-header": k} for k in ("a", "A")},
            },
            "used twice",
        ),
    ],
)
def test_an_unusable_schema_is_refused_with_the_reason(schema: dict[str, Any], problem: str) -> None:
    found = schema_problem(schema)
    assert found is not None
    assert problem in found


@pytest.mark.parametrize(("levels", "checked"), [(32, True), (33, False)])
def test_a_schema_is_checked_up_to_32_levels(levels: int, checked: bool) -> None:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"c": schema}}
    validator = Validator(schema)
    assert (validator.unchecked is None) is checked
    assert (validator.check({"c": 1}) == []) is not checked


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "$ref": "#"},
        with_property({"$ref": "#/$defs/a"}) | {"$defs": {"a": {"$anchor": "x"}}},
        {"type": "object", "$id": "https://h/s", "$ref": "item", "$defs": {"i": {"$id": "item"}}},
        with_property({"type": "string", "x-mcp-header": "Trace-Id"}),
        with_property({"enum": [{"$ref": "http://data/not-a-reference"}]}),
    ],
)
def test_a_usable_schema_is_accepted(schema: dict[str, Any]) -> None:
    assert schema_problem(schema) is None
    assert validator_for(schema).unchecked is None


def doubling_references() -> dict[str, Any]:
    definitions: dict[str, Any] = {
        f"a{level}": {"allOf": [{"$ref": f"#/$defs/a{level + 1}"}] * 2} for level in range(30)
    }
    return {"type": "object", "$ref": "#/$defs/a0", "$defs": {**definitions, "a30": {"required": ["x"]}}}


@pytest.mark.parametrize(
    "schema",
    [
        doubling_references(),
        with_property({"pattern": "^(((a{1,100}){1,100}){1,100})$"}),
        {"type": "object", "properties": {str(n): {"pattern": "a"} for n in range(257)}},
        {"type": "object", "properties": {str(n): {} for n in range(5_001)}},
    ],
)
def test_a_schema_too_expensive_to_check_is_accepted_unchecked(schema: dict[str, Any]) -> None:
    assert schema_problem(schema) is None
    validator = validator_for(schema)
    assert validator.unchecked
    assert validator.check({"v": "b"}) == []


RECURSION = {"type": "object", "properties": {"c": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}}


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        (with_property({"pattern": "^(a+)+$"}), {"v": "a" * 30 + "!"}),
        (with_property({"pattern": r"^(a|a)*\1$"}), {"v": "a" * 30 + "!"}),
        (doubling_references(), {}),
        (RECURSION, nested(60, {})),
        (RECURSION, nested(12, 1)),
        (with_property({"items": {"type": "string"}}), {"v": [1] * 200_000}),
        (with_property({"type": "integer"}), {"v": "x" * 2_000_000}),
        (with_property({}), nested(5_000, {})),
    ],
)
def test_check_ends_within_its_budget(schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    validator = Validator(schema)
    spent = []
    for _ in range(3):  # the quickest run is the one no garbage collection interrupts
        begun = time.process_time()
        assert len(validator.check(arguments)) <= 10
        spent.append(time.process_time() - begun)
    assert min(spent) < BUDGET


def test_a_pattern_over_its_step_limit_hides_no_other_problem() -> None:
    schema = {
        "type": "object",
        "properties": {"q": {"pattern": r"^(a|a)*\1$"}, "n": {"type": "integer"}},
    }
    validator = Validator(schema)
    assert validator.check({"q": "a" * 30 + "!"}) == []
    assert [problem.pointer for problem in validator.check({"q": "a" * 30 + "!", "n": "x"})] == ["/n"]


@pytest.mark.parametrize(
    ("arguments", "pointer"),
    [
        ({"v": ["ok", "\ud800"]}, "/v/1"),
        ({"\udfff": 1}, ""),
        ({"v": object()}, ""),
        ({1: 2}, ""),
        (nested(150, {}), ""),
    ],
)
def test_arguments_that_are_not_json_are_a_problem_not_an_exception(
    arguments: dict[str, Any], pointer: str
) -> None:
    found = Validator(with_property({"type": "array", "items": {"type": "string", "minLength": 1}})).check(
        arguments
    )
    assert [problem.pointer for problem in found] == [pointer]


def test_validator_is_compiled_once_per_schema() -> None:
    assert validator_for(dict(FIND_FILES)) is validator_for(dict(reversed(FIND_FILES.items())))


def test_validator_of_an_unservable_schema_is_refused_with_the_reason() -> None:
    with pytest.raises(ValueError, match="no type object"):
        validator_for({"type": "array"})


ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=8)
# fmt: off
WORDS = st.sampled_from([
    "type", "properties", "items", "allOf", "anyOf", "oneOf", "not", "enum", "const", "pattern", "$ref",
    "$defs", "required", "if", "then", "minimum", "additionalProperties", "maxLength", "propertyNames", "$id",
    "$anchor", "$schema", "writeOnly", "format", "dependentRequired", "unevaluatedProperties",
    "x-mcp-header", "a", "b",
])
# fmt: on
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=True)
    | ANY_TEXT
    | st.sampled_from(
        ["string", "object", "integer", "array", "#", "#/$defs/a", "#/properties/a", "(", "^a", DRAFT_07]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | ANY_TEXT, inner, max_size=4),
    max_leaves=15,
)
SUBSCHEMAS = st.recursive(
    st.sampled_from(
        [{"type": "string"}, {"type": "integer", "minimum": 2}, {"$ref": "#"}, {"enum": ["a", 1]}, True]
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["string", "object", "integer", "array", ["null", "number"]]),
            "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            "required": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
            "anyOf": st.lists(inner, min_size=1, max_size=3),
            "oneOf": st.lists(inner, min_size=1, max_size=3),
            "not": inner,
            "items": inner,
            "additionalProperties": inner,
            "unevaluatedProperties": st.just(False),
            "propertyNames": st.just({"maxLength": 1}),
            "dependentSchemas": st.dictionaries(st.sampled_from("abc"), inner, max_size=1),
        },
    ),
    max_leaves=8,
)
ARGUMENTS = st.dictionaries(st.sampled_from("abcd") | ANY_TEXT, VALUES, max_size=4)


@examples(300)
@given(VALUES, ARGUMENTS)
def test_no_schema_and_no_arguments_raise(schema: object, arguments: dict[str, Any]) -> None:
    candidate = {**schema, "type": "object"} if isinstance(schema, dict) else schema
    if isinstance(candidate, dict) and schema_problem(candidate) is None:
        validator_for(candidate).check(arguments)


@examples(400)
@given(SUBSCHEMAS, ARGUMENTS)
def test_every_problem_of_a_valid_schema_has_a_complete_message(
    schema: object, arguments: dict[str, Any]
) -> None:
    whole = {**schema, "type": "object"} if isinstance(schema, dict) else with_property(schema)
    if schema_problem(whole) is None:
        found = validator_for(whole).check(arguments)
        assert len(found) <= 10
        assert all(problem.message and "\n" not in problem.message for problem in found)
        assert all(problem.pointer == "" or problem.pointer.startswith("/") for problem in found)
        invalid_arguments_result(tool(whole), found)
