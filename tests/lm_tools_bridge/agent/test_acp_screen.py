"""Prompts, kinds of tools, updates and questions of an editor, without a process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from acp import (
    RequestError,
    embedded_text_resource,
    image_block,
    resource_block,
    resource_link_block,
    text_block,
)
from acp.schema import (
    AllowedOutcome,
    DeniedOutcome,
    PermissionOption,
    RequestPermissionResponse,
    ToolCallLocation,
    ToolCallUpdate,
    ToolKind,
)

from lm_tools_bridge.agent import acp_screen as editor_screen
from lm_tools_bridge.agent.acp_agent import NotText, prompt_text
from lm_tools_bridge.agent.acp_screen import EditorScreen, Outbox, kind_of, locations_of
from lm_tools_bridge.agent.interaction import NO, YES, Box, Question, Tone
from lm_tools_bridge.agent.manager_client.elicitation import Elicitation
from lm_tools_bridge.agent.messages import Tool


def test_a_prompt_names_linked_files_and_quotes_embedded_ones() -> None:
    link = resource_link_block("x", "https://example.org/x")
    embedded = resource_block(embedded_text_resource("file:///src/a.py", "x = 1"))
    assert prompt_text([text_block("see "), link]) == "see https://example.org/x"
    assert prompt_text([embedded]) == "\n/src/a.py\n````\nx = 1\n````\n"
    with pytest.raises(NotText, match="picture"):
        prompt_text([text_block("see "), image_block("AA==", "image/png")])


@pytest.mark.parametrize(
    ("name", "reads", "kind"),
    [
        ("lm_readFile", True, "read"),
        ("lm_findTextInFiles", True, "search"),
        ("runQuery", True, "read"),
        ("calculator", False, "other"),
        ("os_assistant_run_shell_command", False, "execute"),
        ("deleteBranch", False, "delete"),
        ("write_file", False, "edit"),
    ],
)
def test_kinds_follow_the_name_unless_the_tool_only_reads(name: str, reads: bool, kind: str) -> None:
    assert kind_of(name, Tool(name, "", {}, {"readOnlyHint": reads})) == kind


def test_the_file_of_a_call_is_below_the_workspace() -> None:
    assert [one.path for one in locations_of({"filePath": "a/b.py"}, Path("/w"))] == ["/w/a/b.py"]
    assert locations_of({"filePath": "a\x1b"}, Path("/w")) == []
    assert locations_of(None, Path("/w")) == []


def test_lone_surrogates_do_not_reach_the_editor() -> None:
    assert editor_screen.sound_value({"a\ud800": ["\udfff"]}) == {"a?": ["?"]}


class Looks:
    def kind(self, name: str) -> ToolKind:
        return "other"

    def locations(self, arguments: Mapping[str, Any] | None) -> list[ToolCallLocation]:
        return []


class Person:
    """Answers a question with this outcome or failure."""

    def __init__(self, outcome: AllowedOutcome | DeniedOutcome | Exception) -> None:
        self.outcome = outcome
        self.sent: list[Any] = []
        self.cancelled = 0
        self.outbox = Outbox(self.send)
        self.outbox.open()
        self.screen = EditorScreen(self.outbox, self.permission, self.cancel, Looks())

    async def send(self, update: Any) -> None:
        self.sent.append(update)

    def cancel(self) -> None:
        self.cancelled += 1

    async def permission(
        self, call: ToolCallUpdate, options: list[PermissionOption]
    ) -> RequestPermissionResponse:
        self.sent.append(call)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return RequestPermissionResponse(outcome=self.outcome)


FORM: dict[str, Any] = {
    "message": "How should it be deployed?",
    "requestedSchema": {
        "type": "object",
        "properties": {
            "place": {"type": "string", "enum": ["test", "live"], "enumNames": ["Test", "Live"]},
            "sure": {"type": "boolean", "title": "Really"},
        },
        "required": ["place", "sure"],
    },
}


class Nobody:
    async def approve(self, *_: object) -> bool:
        return False


class Chooses(Person):
    """Chooses these options, one after the other."""

    def __init__(self, *answers: str) -> None:
        super().__init__(DeniedOutcome(outcome="cancelled"))
        self.answers = list(answers)
        self.options: list[list[str]] = []

    async def permission(
        self, call: ToolCallUpdate, options: list[PermissionOption]
    ) -> RequestPermissionResponse:
        self.sent.append(call)
        self.options.append([one.name for one in options])
        chosen = AllowedOutcome(outcome="selected", option_id=self.answers.pop(0))
        return RequestPermissionResponse(outcome=chosen)


def text_of(update: Any) -> str:
    return str(update.content[0].content.text)


async def test_a_form_of_few_values_is_answered_by_buttons() -> None:
    person = Chooses("live", "y")
    answer = await Elicitation(person.screen, Nobody()).answer(FORM, None)
    assert answer == {"action": "accept", "content": {"place": "live", "sure": True}}
    assert person.options == [["Test", "Live", "Decline"], ["Yes", "No", "Decline"]]
    asked = [text_of(one) for one in person.sent if isinstance(one, ToolCallUpdate)]
    assert "How should it be deployed?" in asked[0]
    assert asked[1] == "Really [y/n]"


async def test_a_form_can_be_declined_by_a_button() -> None:
    person = Chooses("/decline")
    assert await Elicitation(person.screen, Nobody()).answer(FORM, None) == {"action": "decline"}


async def test_a_form_for_free_text_is_declined_in_an_editor_and_told() -> None:
    person = Chooses()
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    answer = await Elicitation(person.screen, Nobody()).answer(
        {"message": "?", "requestedSchema": schema}, None
    )
    assert answer == {"action": "decline"}
    await person.outbox.flush()
    assert "an editor has no line to answer it in" in str(person.sent)


async def test_pieces_become_one_while_the_editor_does_not_read() -> None:
    person = Person(DeniedOutcome(outcome="cancelled"))
    person.screen.reply_text("a")
    person.screen.reply_text("b")
    person.screen.thinking("c")
    await person.outbox.flush()
    assert [one.content.text for one in person.sent] == ["ab", "c"]


async def test_nothing_is_sent_before_the_editor_knows_the_session() -> None:
    sent: list[Any] = []

    async def send(update: Any) -> None:
        sent.append(update)

    outbox = Outbox(send)
    outbox.put(editor_screen.noticed("early", Tone.WARNING))
    await asyncio.sleep(0)
    assert sent == []
    outbox.open()
    await outbox.flush()
    assert [one.content.text for one in sent] == ["\n\n> **warning:** early\n\n"]


async def test_a_question_comes_after_what_was_shown_before_it() -> None:
    person = Person(AllowedOutcome(outcome="selected", option_id="y"))
    person.screen.reply_text("I want to")
    person.screen.event("call", {"id": "1", "name": "write", "arguments": {}})
    person.screen.box(Box.GUARD, ["Action:  write"])
    assert await person.screen.ask(Question("?", choices=(YES, NO))) == "y"
    [_, made, asked] = person.sent
    assert made.tool_call_id == asked.tool_call_id == "1"
    assert asked.content[0].content.text == "Action:  write"


@pytest.mark.parametrize(
    "outcome",
    [
        AllowedOutcome(outcome="selected", option_id="something else"),
        RequestError(-32601, "no such method"),
        ConnectionError("gone"),
    ],
)
async def test_whatever_is_no_answer_is_no_approval(outcome: Any) -> None:
    person = Person(outcome)
    assert await person.screen.ask(Question("?", choices=(YES, NO))) is None
    assert person.cancelled == 0


async def test_a_question_that_was_cancelled_cancels_the_turn() -> None:
    person = Person(DeniedOutcome(outcome="cancelled"))
    assert await person.screen.ask(Question("?", choices=(YES, NO))) is None
    assert person.cancelled == 1


@pytest.mark.parametrize("hidden", [True, False])
async def test_what_has_to_be_typed_is_declined_with_a_notice(hidden: bool) -> None:
    person = Person(AllowedOutcome(outcome="selected", option_id="y"))
    assert await person.screen.ask(Question("city: ", hidden=hidden)) is None
    await person.outbox.flush()
    assert 'the question "city" was declined' in person.sent[0].content.text
