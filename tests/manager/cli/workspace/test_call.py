"""Tests how an answer is printed; the verbs themselves are tested with a real manager."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from lm_tools_bridge.terminal.command_line import Failure
from manager.cli.workspace import call
from manager.client import McpAnswer


@pytest.mark.parametrize(
    ("block", "shown"),
    [
        ({"type": "text", "text": "hello"}, "hello"),
        (
            {"type": "image", "mimeType": "image/png", "data": "AAAA"},
            "[image image/png]; print it whole with --json",
        ),
        ({"type": "resource", "resource": {"uri": "x:y", "text": "inside"}}, "inside"),
        (
            {"type": "resource", "resource": {"uri": "x:y", "blob": "AA"}},
            "[resource x:y]; print it whole with --json",
        ),
        ({"type": "resource_link", "uri": "x:y"}, "[resource_link x:y]; print it whole with --json"),
        ({"type": "resource", "resource": None}, "[resource ]; print it whole with --json"),
        (7, "7"),
    ],
)
def test_content_is_shown_as_text_or_named(block: object, shown: str) -> None:
    assert call._block_text(block) == shown


@pytest.mark.parametrize(
    ("terminal", "written"), [(True, "a\\x1b]0;x\\x07\nb\n"), (False, "a\x1b]0;x\x07\nb\n")]
)
def test_text_of_a_tool_cannot_act_on_a_terminal(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, terminal: bool, written: str
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    call._print_result({"content": [{"type": "text", "text": "a\x1b]0;x\x07\nb"}]}, to_stderr=False)
    assert capfd.readouterr().out == written


@pytest.mark.parametrize(
    ("text", "message", "step"),
    [
        ("wrong\nNext step: do it", "wrong", "do it"),
        ("wrong", "wrong", "change the arguments as the message says"),
    ],
)
def test_the_next_step_of_an_error_is_told_apart_for_programs(text: str, message: str, step: str) -> None:
    failure = call._tool_failure({"isError": True, "content": [{"type": "text", "text": text}]})
    assert (failure.message, failure.next_step, failure.reason) == (message, step, "tool_failed")


@pytest.mark.parametrize(
    "result", [{}, {"content": []}, {"content": None}, {"content": [{"type": "text", "text": " \n"}]}]
)
def test_an_answer_without_content_is_said_to_be_one(
    capfd: pytest.CaptureFixture[str], result: dict[str, Any]
) -> None:
    call._print_result(result, to_stderr=False)
    assert capfd.readouterr().err == "The tool answered without content.\n"


@pytest.mark.parametrize("result", [None, [], "words"])
def test_a_result_that_is_no_object_is_a_failure(result: object) -> None:
    with pytest.raises(Failure, match="no result that is an object"):
        call._result(McpAnswer({"jsonrpc": "2.0", "id": 1, "result": result}, None, None))


def test_half_a_character_can_be_written(capfd: pytest.CaptureFixture[str]) -> None:
    result: dict[str, Any] = {"content": [{"type": "text", "text": "\ud800"}]}
    call._print_result(result, to_stderr=False)
    assert capfd.readouterr().out == "\\ud800\n"
