"""`execute_tool` is unwrapped to the same bytes as a direct call."""

from __future__ import annotations

import msgspec
import pytest

from lm_tools_bridge.protocol import jsonrpc
from workspace_server.tool_search.execute_tool import (
    InvalidArgument,
    MissingName,
    Problem,
    Unwrapped,
    not_found,
    problem_result,
    unwrap,
)


def unwrapped(text: str) -> tuple[str, str] | Problem:
    outcome = unwrap(msgspec.Raw(text.encode()))
    if isinstance(outcome, Unwrapped):
        return outcome.name, jsonrpc.bytes_of(outcome.arguments).decode()
    return outcome


def where(text: str) -> str:
    outcome = unwrapped(text)
    assert isinstance(outcome, InvalidArgument)
    return outcome.pointer


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        ('"arguments": {"a" : 1.10, "b":1e2, "a\\u0062":12345678901234567890123}', '{"a" : 1.10, "b":1e2, "a\\u0062":12345678901234567890123}'),
        ('"parameters": {"a":1}', '{"a":1}'),
        ('"parameters": {"a":1}, "arguments": {"a":2}', '{"a":2}'),
        ('"arguments": "{\\"a\\":1}"', '{"a":1}'),
        ('"arguments": " {\\"a\\":1.10}\\n"', '{"a":1.10}'),
        ('"arguments": null, "parameters": {"a":1}', '{"a":1}'),
        ('"arguments": null', "{}"),
        ('"other": 1', "{}"),
    ],
)  # fmt: skip
def test_arguments_keep_their_bytes(given: str, arguments: str) -> None:
    assert unwrapped(f'{{"name":"x",{given}}}') == ("x", arguments)


@pytest.mark.parametrize(
    "given",
    ['"not json"', "[1]", "5", "true", '""', '"[1]"', '"null"', '"{\\"a\\":1} x"', '"{\\"a\\":}"', '"{\\"a\\":\\"\\\\ud800\\"}"',
     '"{\\"a\\":' + "[" * 100_000 + "]" * 100_000 + '}"'],
)  # fmt: skip
def test_arguments_that_are_no_object_are_refused(given: str) -> None:
    assert where(f'{{"name":"x","arguments":{given}}}') == "/arguments"
    assert where(f'{{"name":"x","parameters":{given}}}') == "/parameters"


@pytest.mark.parametrize(
    "given", ["{}", '{"name":""}', '{"name":" \\n"}', '{"name":null}', '{"arguments":[1]}']
)
def test_a_missing_name_is_asked_for(given: str) -> None:
    problem = unwrapped(given)
    assert isinstance(problem, MissingName)
    result = problem_result(problem)
    assert result.is_error
    assert result.text.startswith("Tool name is required")
    assert "Next step: " in result.text
    assert result.structured["error"]["reason"] == "invalid_arguments"


@pytest.mark.parametrize("name", ["5", "{}", "[]", "true"])
def test_a_name_that_is_no_text_is_refused(name: str) -> None:
    assert where(f'{{"name":{name}}}') == "/name"


def nested(inner: str, key: str = "arguments") -> str:
    return f'{{"name":"execute_tool","{key}":{inner}}}'


def test_one_execute_tool_inside_another_is_unwrapped() -> None:
    assert unwrapped(nested('{"name":"x","arguments":{"a":1.0}}')) == ("x", '{"a":1.0}')
    assert unwrapped(nested('{"name":"tool_search"}', "parameters")) == ("tool_search", "{}")
    assert isinstance(unwrapped(nested("{}")), MissingName)
    assert where(nested('{"name":"x","arguments":7}')) == "/arguments/arguments"
    assert where(nested('{"name":"x","parameters":7}', "parameters")) == "/parameters/parameters"


def test_a_third_one_is_refused() -> None:
    assert where(nested(nested('{"name":"x"}'))) == "/name"


def test_wrong_arguments_are_answered_like_those_of_any_tool() -> None:
    result = problem_result(InvalidArgument("/arguments", "type", "expected object"))
    assert result.text.startswith("Error: invalid arguments for execute_tool\n/arguments: expected object\n")
    assert "Input: { name: string, arguments?: object }" in result.text
    errors = result.structured["error"]["details"]["errors"]
    assert errors == [{"pointer": "/arguments", "keyword": "type", "message": "expected object"}]


def test_unknown_names_get_near_matches_and_a_next_step() -> None:
    result = not_found("calculater", ["calculator", "calc_tax"])
    assert result.is_error
    assert result.text == (
        "Tool not found: calculater. Use tool_search to discover available tools. Near matches: calculator, "
        "calc_tax. Next step: call execute_tool again with one of the near matches if that was meant, or search "
        "for what the tool should do."
    )
    assert result.structured["error"]["details"] == {"nearest": ["calculator", "calc_tax"]}
    bare = not_found("y" * 500, [])
    assert bare.text.startswith(
        f"Tool not found: {'y' * 127}…. Use tool_search to discover available tools. Next step: "
    )
    assert bare.structured["error"]["reason"] == "tool_not_found"
