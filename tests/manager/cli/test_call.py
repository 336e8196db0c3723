"""Tests how an answer is printed; the verbs themselves are tested with a real manager."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from lm_tools_bridge.terminal.command_line import Failure
from manager.cli import call
from manager.cli.call import NotAForm, answer_all
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
    ("text", "is_refusal", "shown"),
    [
        (
            "t comes from files that the user has not trusted as they are now. Next step: ask the user to look"
            " at it and to run: lmtb trust /p.",
            True,
            "t comes from files that you have not trusted as they are now. Next step: look at it, then run:"
            " lmtb trust /p.\n",
        ),
        (
            "Next step: correct the arguments and call t again; its whole schema is the resource lm-tools://schema/t",
            True,
            "Next step: correct the arguments and call t again\n",
        ),
        ('Error: Error reading file "a": no such file', False, 'Error reading file "a": no such file\n'),
        ("Error: ask the user to pay", False, "Error: ask the user to pay\n"),
    ],
    ids=["trust", "schema", "twice an error", "the tool's own words"],
)
def test_a_failure_is_told_to_the_person_who_called(
    capfd: pytest.CaptureFixture[str], text: str, is_refusal: bool, shown: str
) -> None:
    result = {"isError": True, "content": [{"type": "text", "text": text}]}
    call._print_result(result, to_stderr=True, is_refusal=is_refusal)
    assert capfd.readouterr().err == shown


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
        call._result(McpAnswer({"jsonrpc": "2.0", "id": 1, "result": result}, None, None), "/shop")


def test_half_a_character_can_be_written(capfd: pytest.CaptureFixture[str]) -> None:
    result: dict[str, Any] = {"content": [{"type": "text", "text": "\ud800"}]}
    call._print_result(result, to_stderr=False)
    assert capfd.readouterr().out == "\\ud800\n"


SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["name", "count"],
    "properties": {
        "name": {"type": "string", "title": "Your name", "description": "as on the badge"},
        "count": {"type": "integer", "default": 3},
        "colour": {"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]},
        "size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l"}]},
        "ok": {"type": "boolean", "default": False},
        "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
    },
}


def form(schema: Any = SCHEMA, **members: Any) -> dict[str, Any]:
    params = {"message": "Who \x1b[31mare you?", "requestedSchema": schema, **members}
    return {"q": {"method": "elicitation/create", "params": params}}


class Typed:
    """A person at the terminal who types these lines."""

    def __init__(self, *lines: str | type[BaseException]) -> None:
        self.prompts: list[str] = []
        self._lines: Iterator[str | type[BaseException]] = iter(lines)

    def __call__(self, prompt: str) -> str:
        self.prompts.append(prompt)
        line = next(self._lines)
        if isinstance(line, str):
            return line
        raise line


def test_each_field_is_one_line_with_title_choice_and_default(capfd: pytest.CaptureFixture[str]) -> None:
    typed = Typed("Ada\n", "\n", "green\n", "Small\n", "y\n", "a, b\n")
    answers = answer_all(form(), "greet", typed)
    content = {"name": "Ada", "count": 3, "colour": "g", "size": "s", "ok": True, "tags": ["a", "b"]}
    assert answers == {"q": {"action": "accept", "content": content}}
    assert typed.prompts == [
        "Your name (as on the badge): ",
        "count default 3: ",
        "colour [Red/Green], optional: ",
        "size [Small/l], optional: ",
        "ok [y/n] default n: ",
        "tags [a/b], optional: ",
    ]
    shown = capfd.readouterr()
    assert "greet asks: Who \\x1b[31mare you?" in shown.err
    assert shown.out == ""


def test_optional_fields_can_be_left_empty() -> None:
    answers = answer_all(form(), "greet", Typed("Ada", "7", "", "", "", ""))
    assert answers["q"]["content"] == {"name": "Ada", "count": 7, "ok": False}


def test_an_invalid_line_is_asked_again(capfd: pytest.CaptureFixture[str]) -> None:
    typed = Typed("", "Ada", "many", "7", "blue", "r", "", "maybe", "n", "c", "a")
    assert answer_all(form(), "greet", typed)["q"]["content"]["tags"] == ["a"]
    said = capfd.readouterr().err
    for problem in ("a value is required", "a whole number", "one of Red, Green", "y or n", "one of a, b"):
        assert problem in said


@pytest.mark.parametrize(("end", "action"), [(EOFError, "decline"), (KeyboardInterrupt, "cancel")])
def test_the_end_of_input_declines_and_an_interrupt_cancels(end: type[BaseException], action: str) -> None:
    assert answer_all(form(), "greet", Typed("Ada", end)) == {"q": {"action": action}}


@pytest.mark.parametrize(
    "request_",
    [{"method": "sampling/createMessage", "params": {}}, {"method": "elicitation/create"}, 7,
     form(mode="url")["q"]],
)  # fmt: skip
def test_what_is_no_form_is_not_answered(request_: Any) -> None:
    with pytest.raises(NotAForm):
        answer_all({"q": request_}, "greet", Typed())


def test_a_schema_without_fields_is_accepted_at_once() -> None:
    for schema in (None, {}, {"properties": 7, "required": 7}, {"properties": {"x": 7}}):
        assert answer_all(form(schema), "greet", Typed()) == {"q": {"action": "accept", "content": {}}}


def test_no_form_is_shown_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    assert call.is_terminal() is False
