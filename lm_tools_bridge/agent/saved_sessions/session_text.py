"""Writes a history as JSON lines and reads it back, also from a file that was cut off. Pure.

The first line describes the session; each further line is one message. Pictures in results are not saved.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lm_tools_bridge.agent.messages import (
    AssistantMessage,
    Call,
    Message,
    Result,
    SystemMessage,
    ToolMessage,
    UserMessage,
)

FORMAT: Final = 1
_TITLE: Final = 80


@dataclass(frozen=True, slots=True)
class Heading:
    """The description of a session: its folder, how it began, when it was saved (seconds since 1970)."""

    workspace: str
    title: str
    saved: float


def encoded(heading: Heading, messages: Sequence[Message], most: int) -> bytes:
    """The text of a session of at most `most` bytes; the oldest turns are left out where it is longer."""
    first = _line(
        {"format": FORMAT, "workspace": heading.workspace, "title": heading.title, "saved": heading.saved}
    )
    lines = [_line(value) for message in messages if (value := _value(message)) is not None]
    size = len(first) + sum(map(len, lines))
    start = 0
    while size > most and start < len(lines):
        size -= len(lines[start])
        start += 1
    return b"".join([first, *lines[start:]])


def heading_of(line: bytes) -> Heading | None:
    """The description in the first line of a session; None if it is none of ours."""
    value = _object(line)
    if value is None or value.get("format") != FORMAT:
        return None
    workspace, title, saved = value.get("workspace"), value.get("title"), value.get("saved")
    if not isinstance(workspace, str) or not isinstance(title, str) or not isinstance(saved, int | float):
        return None
    return Heading(workspace, title, saved)


def decoded(content: bytes) -> list[Message]:
    """The messages of a session up to the first line that is not whole."""
    messages: list[Message] = []
    for line in content.splitlines()[1:]:
        value = _object(line)
        message = _message(value) if value is not None else None
        if message is None:
            break
        messages.append(message)
    return messages


def broken_line(content: bytes) -> int | None:
    """The number of the first line that is no whole message, counted from 1; None if all are."""
    for number, line in enumerate(content.splitlines()[1:], start=2):
        value = _object(line)
        if value is None or _message(value) is None:
            return number
    return None


def title_of(messages: Sequence[Message]) -> str:
    """How a session began, in one line."""
    first = next((message.text for message in messages if isinstance(message, UserMessage)), "")
    return " ".join(first.split())[:_TITLE]


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _value(message: Message) -> dict[str, Any] | None:
    match message:
        case UserMessage(text):
            return {"role": "user", "text": text}
        case AssistantMessage(text, calls):
            return {"role": "assistant", "text": text, "calls": [_call_value(call) for call in calls]}
        case ToolMessage(result):
            return {
                "role": "result", "callId": result.call_id, "name": result.name, "text": result.text,
                "isError": result.is_error, "code": result.code,
            }  # fmt: skip
        case SystemMessage():  # made anew in each session
            return None


def _call_value(call: Call) -> dict[str, Any]:
    value = {"id": call.id, "name": call.name, "arguments": call.arguments, "problem": call.problem}
    return value if call.provider_data is None else {**value, "providerData": call.provider_data}


def _message(value: Mapping[str, Any]) -> Message | None:
    try:
        match value.get("role"):
            case "user":
                return UserMessage(str(value["text"]))
            case "assistant":
                return AssistantMessage(str(value["text"]), tuple(_call(call) for call in value["calls"]))
            case "result":
                text, code = str(value["text"]), value.get("code")
                is_error = bool(value.get("isError"))
                return ToolMessage(Result(str(value["callId"]), str(value["name"]), text, is_error, (), code))
    except (KeyError, TypeError, AttributeError):
        pass
    return None


def _call(value: Mapping[str, Any]) -> Call:
    arguments, problem = value.get("arguments"), value.get("problem")
    return Call(
        str(value["id"]),
        str(value["name"]),
        arguments if isinstance(arguments, dict) else None,
        problem if isinstance(problem, str) else None,
        value.get("providerData"),
    )
