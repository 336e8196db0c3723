"""From what a script left behind to its result."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lm_tools_bridge.protocol.errors import Reason, Refusal
from workspace_server.results import encode_result
from workspace_server.sources.scripts.outcome import (
    MAX_RESULT,
    META_EXIT_CODE,
    META_TRUNCATED,
    Ended,
    outcome,
)
from workspace_server.tool import Tool, ToolResult

TOOL = Tool("t", {"name": "t", "inputSchema": {"type": "object"}})
SHAPED = Tool("t", {**TOOL.definition, "outputSchema": {"type": "object"}})


def result(ended: Ended, tool: Tool = TOOL) -> ToolResult:
    found = outcome(tool, ended)
    assert isinstance(found, ToolResult)
    return found


def left(value: Any, **members: Any) -> Ended:
    return Ended(members.pop("code", 0), result=json.dumps(value).encode(), **members)


def test_an_exception_wins_over_a_value_and_a_value_over_output() -> None:
    raised = left({"raised": "ValueError: x (script.py, line 3)"}, code=1, stdout=b"out")
    assert result(raised).text == "Error: ValueError: x (script.py, line 3)"
    failed = left({"text": "value"}, code=3, stdout=b"out")
    assert (result(failed).is_error, result(failed).text) == (True, "Error: exit code 3")
    assert result(left({"text": "value"}, stdout=b"out")).text == "value"
    assert result(Ended(0, b"out\n")).text == "out"


@pytest.mark.parametrize(
    ("stdout", "text"), [(b"", ""), (b"a\n", "a"), (b"a\n\n", "a\n"), (b"a\r\n", "a"), (b"\xff", "\ufffd")]
)
def test_output_loses_its_last_newline_only(stdout: bytes, text: str) -> None:
    assert result(Ended(0, stdout)).text == text


def test_an_object_is_text_and_structured_content() -> None:
    found = result(left({"object": {"ä": [1, 2.5]}}))
    assert (found.text, found.structured) == ('{"ä": [1, 2.5]}', {"ä": [1, 2.5]})


def test_a_returned_error_is_an_error_result() -> None:
    assert result(left({"error": "Division by zero"})).text == "Error: Division by zero"
    assert result(left({"error": "Error: twice"})).text == "Error: twice"
    assert result(left({"error": "x"})).is_error


def test_failure_carries_exit_code_and_the_end_of_standard_error() -> None:
    found = result(Ended(3, b"out", stderr=("one", "two")))
    assert found.text == "Error: exit code 3\none\ntwo"
    assert found.meta[META_EXIT_CODE] == 3
    long = result(Ended(3, stderr=("x" * 2_000, "end")))
    assert len(long.text) == len("Error: exit code 3\n") + 2_000
    assert long.text.endswith("end")


@pytest.mark.parametrize(("code", "name"), [(-9, "SIGKILL"), (-11, "SIGSEGV"), (-999, "signal 999")])
def test_a_signal_is_named(code: int, name: str) -> None:
    found = result(Ended(code))
    assert (found.text, found.meta[META_EXIT_CODE]) == (f"Error: ended by {name}", name)


def test_standard_error_of_a_success_is_not_in_the_result() -> None:
    assert result(Ended(0, b"out", stderr=("warning",))).text == "out"


def test_cut_output_says_how_much_is_missing() -> None:
    found = result(Ended(0, "aé".encode()[:-1], dropped=7))
    assert found.text == "a\n[truncated: 7 bytes dropped]"
    assert found.meta[META_TRUNCATED] is True


@pytest.mark.parametrize("content", [b"{", b"[1]", b'"x"', b'{"object": NaN}', b"\xff", b"[" * 100_000])
def test_an_invalid_result_file_is_an_error_that_names_the_tool(content: bytes) -> None:
    found = result(Ended(0, b"out", result=content))
    assert found.is_error
    assert "t wrote a result file" in found.text


def test_invalid_and_control_characters_are_removed() -> None:
    found = encode_result(result(Ended(0, result=b'{"object": {"a": "\\ud800"}}')))
    assert found["structuredContent"] == {"a": "\ufffd"}
    assert encode_result(result(Ended(0, b"\x1b[31mred\x1b[0m\0\xff\n")))["content"][0]["text"] == "red\ufffd"


def test_a_result_over_the_limit_is_refused() -> None:
    found = outcome(TOOL, Ended(0, result=b" " * (MAX_RESULT + 1)))
    assert isinstance(found, Refusal)
    assert found.reason is Reason.RESPONSE_TOO_LARGE


@pytest.mark.parametrize(
    "ended", [Ended(0, b'{"a": 1}\n'), left({"text": '{"a": 1}'}), left({"object": {"a": 1}})]
)
def test_structured_content_is_read_from_any_kind_of_result(ended: Ended) -> None:
    assert result(ended, SHAPED).structured == {"a": 1}


@pytest.mark.parametrize("ended", [Ended(0, b"plain"), left({"text": "NaN"}), Ended(0, b'{"a"', dropped=3)])
def test_output_that_is_not_json_fails_the_output_schema(ended: Ended) -> None:
    found = result(ended, SHAPED)
    assert found.is_error
    assert found.structured is None
