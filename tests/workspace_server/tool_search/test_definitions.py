"""Meta-tools that a client was shown stay in its lists, also after a restart."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from lm_tools_bridge.protocol import jsonrpc
from workspace_server.tool_search.definitions import (
    KEPT_S,
    MAX_CLIENTS,
    SAVE_S,
    InvalidArgument,
    KeptMetaTools,
    MissingName,
    Problem,
    Unwrapped,
    not_found,
    problem_result,
    unwrap,
)


class Days:
    """A clock that a test turns."""

    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


async def test_a_client_keeps_what_it_needed_once() -> None:
    kept_tools = KeptMetaTools()
    assert not await kept_tools.keeps("claude-code", is_needed=False)
    assert await kept_tools.keeps("claude-code", is_needed=True)
    assert await kept_tools.keeps("claude-code", is_needed=False)
    assert not await kept_tools.keeps("opencode", is_needed=False)


async def test_it_is_remembered_by_the_next_process_for_some_days(tmp_path: Path) -> None:
    clock, file = Days(), tmp_path / "below" / "ws.json"
    await KeptMetaTools(file, clock).keeps("claude-code", is_needed=True)
    clock.now += KEPT_S - 1
    assert await KeptMetaTools(file, clock).keeps("claude-code", is_needed=False)
    clock.now += 2
    assert not await KeptMetaTools(file, clock).keeps("claude-code", is_needed=False)


async def test_a_need_is_saved_once_an_hour(tmp_path: Path) -> None:
    clock, file = Days(), tmp_path / "ws.json"
    kept_tools = KeptMetaTools(file, clock)
    await kept_tools.keeps("a", is_needed=True)
    written = file.stat().st_mtime_ns
    clock.now += SAVE_S - 1
    await kept_tools.keeps("a", is_needed=True)
    assert file.stat().st_mtime_ns == written
    clock.now += 2
    await kept_tools.keeps("a", is_needed=True)
    assert json.loads(file.read_bytes()) == {"a": clock.now}


async def test_names_of_clients_are_limited_in_number_and_length(tmp_path: Path) -> None:
    clock, file = Days(), tmp_path / "ws.json"
    kept_tools = KeptMetaTools(file, clock)
    for number in range(MAX_CLIENTS + 3):
        clock.now += 1
        await kept_tools.keeps(f"{number}-{'x' * 5_000}", is_needed=True)
    saved = json.loads(file.read_bytes())
    assert len(saved) == MAX_CLIENTS
    assert max(map(len, saved)) == 100
    assert not await kept_tools.keeps("0-" + "x" * 5_000, is_needed=False), "the oldest is forgotten"


@pytest.mark.parametrize("content", [b"", b"[]", b'{"a":"b"}', b"\xff", b'{"\xff":1}'])
async def test_a_damaged_file_counts_as_none(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "ws.json"
    file.write_bytes(content)
    file.chmod(0o600)
    kept_tools = KeptMetaTools(file)
    assert not await kept_tools.keeps("a", is_needed=False)
    assert await kept_tools.keeps("a", is_needed=True)


async def test_a_folder_that_cannot_be_made_costs_only_the_memory(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    kept_tools = KeptMetaTools(tmp_path / "taken" / "ws.json")
    assert await kept_tools.keeps("a", is_needed=True)
    assert await kept_tools.keeps("a", is_needed=False)


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
    ("members", "arguments"),
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
def test_arguments_keep_their_bytes(members: str, arguments: str) -> None:
    assert unwrapped(f'{{"name":"x",{members}}}') == ("x", arguments)


@pytest.mark.parametrize(
    "members",
    ['"not json"', "[1]", "5", "true", '""', '"[1]"', '"null"', '"{\\"a\\":1} x"', '"{\\"a\\":}"', '"{\\"a\\":\\"\\\\ud800\\"}"',
     '"{\\"a\\":' + "[" * 100_000 + "]" * 100_000 + '}"'],
)  # fmt: skip
def test_arguments_that_are_no_object_are_refused(members: str) -> None:
    assert where(f'{{"name":"x","arguments":{members}}}') == "/arguments"
    assert where(f'{{"name":"x","parameters":{members}}}') == "/parameters"


@pytest.mark.parametrize(
    "members", ["{}", '{"name":""}', '{"name":" \\n"}', '{"name":null}', '{"arguments":[1]}']
)
def test_a_missing_name_is_asked_for(members: str) -> None:
    problem = unwrapped(members)
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
