"""Commands are recognised, tools are chosen, and arguments are made of what a person types."""

from __future__ import annotations

from typing import Any

import pytest

from lm_tools_bridge.agent.slash_commands.command_table import (
    COMMANDS,
    Entered,
    Unknown,
    completions,
    help_lines,
    recognised,
)
from lm_tools_bridge.agent.slash_commands.manual_mode import NoArguments, arguments_of
from lm_tools_bridge.agent.slash_commands.tool_menu import chosen, menu


@pytest.mark.parametrize(
    ("text", "name", "argument"),
    [
        ("/help", "help", ""),
        ("help", "help", ""),
        ("/?", "help", ""),
        ("/quit", "quit", ""),
        ("exit", "quit", ""),
        ("/exit", "quit", ""),
        (" /TOOLS  read_file off ", "tools", "read_file off"),
        ("/mode", "mode", ""),
    ],
)
def test_a_command_is_recognised_by_each_of_its_words(text: str, name: str, argument: str) -> None:
    found = recognised(text)
    assert isinstance(found, Entered)
    assert (found.command.name, found.argument) == (name, argument)


def test_an_unknown_command_is_told_with_the_nearest_one() -> None:
    assert recognised("/hepl me") == Unknown(
        "there is no command /hepl; did you mean /help?; /help lists them"
    )


@pytest.mark.parametrize("text", ["hello", "help me with this", "/etc/hosts is empty, why?", "exit codes?"])
def test_a_question_is_not_taken_for_a_command(text: str) -> None:
    assert recognised(text) is None


def test_help_names_every_command() -> None:
    text = "\n".join(help_lines())
    assert all(f"/{command.name}" in text for command in COMMANDS)
    assert all(len(line) <= 80 for line in help_lines())


def test_words_of_commands_are_completed() -> None:
    assert [word for word, _ in completions("/to", [], [])] == ["/tools", "/toggle"]
    assert completions("/list re", ["read_file", "write_file"], []) == [("read_file", "")]
    assert completions("/toggle ", [], ["manager"]) == [("manager", "")]
    assert completions("/tools read_file ", ["read_file"], []) == []


NAMES = ["filesystem__read_file", "short", "exactly_17_chars_", "clock__now"]


def test_the_menu_has_three_columns_and_cuts_long_names() -> None:
    assert menu(NAMES) == [
        "1. filesystem__rea..  2. short              3. exactly_17_chars_",
        "4. clock__now",
    ]
    assert all(len(line) <= 80 for line in menu(["name" * 9] * 1000))


@pytest.mark.parametrize(
    ("text", "name"),
    [("1", NAMES[0]), ("4", NAMES[3]), ("0", None), ("5", None), ("short", "short"), ("read_file", NAMES[0]),
     ("now", "clock__now"), ("nothing", None), ("9" * 5000, None)],
)  # fmt: skip
def test_a_tool_is_chosen_by_number_or_name(text: str, name: str | None) -> None:
    assert chosen(text, NAMES) == name


def schema(required: list[str] | None = None, **types: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in types.items()},
    }
    return made if required is None else {**made, "required": required}


@pytest.mark.parametrize(
    ("typed", "known", "arguments"),
    [
        ("", schema(path="string"), {}),
        ("  ", schema(), {}),
        ('{"a": [1, "x\\n"]}', schema(), {"a": [1, "x\n"]}),
        ("42", schema(["count"], path="string", count="integer"), {"count": 42}),
        ("1.5", schema(size="number"), {"size": 1.5}),
        ("yes", schema(deep="boolean"), {"deep": True}),
        ("a.txt", schema(other="string", path="string"), {"path": "a.txt"}),
        ("80", schema(host="string", port="integer"), {"port": 80}),
        ("ls -l", schema(command="string", timeout_s="number"), {"command": "ls -l"}),
        ("hello world", schema(), {"value": "hello world"}),
        ("hello", {}, {"value": "hello"}),
        ('"42"', schema(text="string"), {"text": "42"}),
        ("a", schema(names="array"), {"names": ["a"]}),
        ("[1, 2]", schema(names="array"), {"names": [1, 2]}),
        ("7", schema(id=["null", "integer"]), {"id": 7}),
        ("null", schema(id=["null", "integer"]), {"id": None}),
    ],
)
def test_arguments_are_made_of_what_was_typed(
    typed: str, known: dict[str, Any], arguments: dict[str, Any]
) -> None:
    assert arguments_of(typed, known) == arguments


@pytest.mark.parametrize(
    ("typed", "known"),
    [("{broken", schema()), ("many", schema(count="integer")), ("maybe", schema(deep="boolean")),
     ("x", schema(options="object")), ("[1", schema(names="array"))],
)  # fmt: skip
def test_what_does_not_fit_is_refused(typed: str, known: dict[str, Any]) -> None:
    with pytest.raises(NoArguments):
        arguments_of(typed, known)
