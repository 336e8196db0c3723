"""Input requests of tools are answered at the terminal, field by field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from manager.cli.workspace import input_forms
from manager.cli.workspace.input_forms import NotAForm, answer_all

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
    assert input_forms.is_terminal() is False
