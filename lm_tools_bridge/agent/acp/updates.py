"""Makes the updates of a session that an editor shows: text, thoughts, notices, calls and results. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from acp import (
    start_tool_call,
    text_block,
    tool_content,
    update_agent_message_text,
    update_agent_thought_text,
    update_tool_call,
    update_user_message_text,
)
from acp.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    ContentToolCallContent,
    TextContentBlock,
    ToolCallLocation,
    ToolCallProgress,
    ToolCallStart,
    ToolCallStatus,
    ToolKind,
    UserMessageChunk,
)

from lm_tools_bridge.agent.interaction import Tone
from lm_tools_bridge.agent.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from lm_tools_bridge.text.printable import printable

Update: TypeAlias = (
    AgentMessageChunk | AgentThoughtChunk | UserMessageChunk | ToolCallStart | ToolCallProgress
)


class Looks(Protocol):
    """Knows how a call is shown."""

    def kind(self, name: str) -> ToolKind:
        """What a tool does."""
        ...

    def locations(self, arguments: Mapping[str, Any] | None) -> list[ToolCallLocation]:
        """The files of a call."""
        ...


def sound(text: str) -> str:
    """Text without lone surrogates, which other parsers of JSON refuse."""
    return text.encode("utf-8", "replace").decode()


def sound_value(value: Any) -> Any:
    """A JSON value without lone surrogates."""
    return json.loads(sound(json.dumps(value, ensure_ascii=False, default=str)))


def said(text: str) -> AgentMessageChunk:
    """A piece of the reply."""
    return update_agent_message_text(sound(text))


def thought(text: str) -> AgentThoughtChunk:
    """A piece of what the model thinks aloud."""
    return update_agent_thought_text(sound(text))


def noticed(text: str, tone: Tone) -> AgentMessageChunk:
    """A line of the agent itself, as a quotation that stands apart from the reply."""
    mark = "" if tone is Tone.INFO else f"**{tone.value}:** "
    lines = printable(text, lines=True).replace("\n", "\n> ")
    return update_agent_message_text(f"\n\n> {mark}{lines}\n\n")


def content(lines: str) -> list[ContentToolCallContent]:
    """Text as the content of a call."""
    return [tool_content(text_block(sound(lines)))]


def call_made(call_id: str, name: str, arguments: Mapping[str, Any] | None, looks: Looks) -> ToolCallStart:
    """A call that does not run yet."""
    return start_tool_call(
        sound(call_id), printable(name), kind=looks.kind(name), status="pending",
        locations=looks.locations(arguments), raw_input=sound_value(arguments),
    )  # fmt: skip


def call_runs(call_id: str) -> ToolCallProgress:
    """A call that runs."""
    return update_tool_call(sound(call_id), status="in_progress")


def call_ended(call_id: str, text: str, *, failed: bool) -> ToolCallProgress:
    """A call with its result."""
    status: ToolCallStatus = "failed" if failed else "completed"
    return update_tool_call(sound(call_id), status=status, content=content(text))


def joined(first: Update, second: Update) -> Update | None:
    """Two pieces of the same text as one; None if they are something else."""
    match first, second:
        case (
            AgentMessageChunk(content=TextContentBlock(text=one)),
            AgentMessageChunk(content=TextContentBlock(text=two)),
        ):
            return update_agent_message_text(one + two)
        case (
            AgentThoughtChunk(content=TextContentBlock(text=one)),
            AgentThoughtChunk(content=TextContentBlock(text=two)),
        ):
            return update_agent_thought_text(one + two)
        case _:
            return None


def history(messages: Sequence[Message], looks: Looks) -> Iterator[Update]:
    """The updates that show a saved history again."""
    for message in messages:
        yield from _updates_of(message, looks)


def _updates_of(message: Message, looks: Looks) -> Iterable[Update]:
    match message:
        case UserMessage(text):
            return [update_user_message_text(sound(text))]
        case AssistantMessage(text, calls):
            replied: list[Update] = [said(text)] if text else []
            return [*replied, *(call_made(call.id, call.name, call.arguments, looks) for call in calls)]
        case ToolMessage(result):
            return [call_ended(result.call_id, result.text, failed=result.is_error)]
        case SystemMessage():
            return []
