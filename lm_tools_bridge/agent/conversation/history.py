"""The history of a conversation: after every failure, each call has exactly one result. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from lm_tools_bridge.agent.messages import AssistantMessage, Call, Message, Result, ToolMessage, UserMessage

CANCELLED: Final = "cancelled by user"
NO_REPLY: Final = "[no reply]"


class History:
    """The messages of a conversation, without the system prompt."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._turn = 0

    def begin(self, text: str) -> None:
        """Start a turn with what the person said."""
        self._turn = len(self.messages)
        self.messages.append(UserMessage(text))

    def replied(self, text: str, calls: Sequence[Call]) -> tuple[Call, ...]:
        """Add a reply; returns its calls, with new ids for those without one of their own."""
        unique = _with_unique_ids(calls, {call.id for call in _calls(self.messages)})
        self.messages.append(AssistantMessage(text if text or calls else NO_REPLY, unique))
        return unique

    def result(self, result: Result) -> None:
        """Add the result of the next call of the last reply."""
        self.messages.append(ToolMessage(result))

    def close(self, text: str) -> None:
        """Give every open call this text as its result."""
        for call in open_calls(self.messages):
            self.messages.append(ToolMessage(Result(call.id, call.name, text, is_error=True)))

    def end(self, note: str) -> bool:
        """End a turn that did not end with a reply. False if the model gave nothing: the turn is undone.

        Args:
            note: why it ended; the model reads it, and the next question does not follow a result, which
                some providers refuse.
        """
        if len(self.messages) == self._turn + 1:
            del self.messages[self._turn :]
            return False
        if not isinstance(self.messages[-1], AssistantMessage):
            self.messages.append(AssistantMessage(f"[turn ended: {note}]"))
        return True

    def replace(self, messages: Iterable[Message]) -> None:
        """Take other messages as the history, such as those of a saved session, and repair them."""
        self.messages = repaired(messages)

    def summarise(self, older: int, summary: Sequence[Message]) -> None:
        """Put a summary in the place of the first `older` messages."""
        self.messages[:older] = summary
        self._turn = max(self._turn - older + len(summary), 0)


def open_calls(messages: Sequence[Message]) -> list[Call]:
    """The calls of the last reply that have no result, in order."""
    answered_ids: set[str] = set()
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            answered_ids.add(message.result.call_id)
        elif isinstance(message, AssistantMessage):
            return [call for call in message.calls if call.id not in answered_ids]
        else:
            break
    return []


def repaired(messages: Iterable[Message]) -> list[Message]:
    """The messages as a provider takes them: first a question, one result for each call, no others."""
    repaired_messages: list[Message] = []
    calls: Sequence[Call] = ()
    results: dict[str, ToolMessage] = {}
    for message in messages:
        if isinstance(message, ToolMessage):
            results.setdefault(message.result.call_id, message)
            continue
        repaired_messages.extend(_results_of(calls, results))
        calls, results = (), {}
        if repaired_messages or isinstance(message, UserMessage):
            repaired_messages.append(message)
            calls = message.calls if isinstance(message, AssistantMessage) else ()
    repaired_messages.extend(_results_of(calls, results))
    if repaired_messages and not isinstance(repaired_messages[-1], AssistantMessage):
        repaired_messages.append(AssistantMessage("[turn ended: the session ended]"))
    return repaired_messages


def _results_of(calls: Iterable[Call], results: Mapping[str, ToolMessage]) -> list[ToolMessage]:
    """The result of each call, in order; one that says so for a call that has none."""
    missing = "not run: the session ended"
    return [
        results.get(call.id) or ToolMessage(Result(call.id, call.name, missing, is_error=True))
        for call in calls
    ]


def _calls(messages: Iterable[Message]) -> list[Call]:
    return [call for message in messages if isinstance(message, AssistantMessage) for call in message.calls]


def _with_unique_ids(calls: Sequence[Call], used: set[str]) -> tuple[Call, ...]:
    unique = []
    for call in calls:
        name, number = call.id, len(used)
        while not name or name in used:
            number += 1
            name = f"call_{number}"
        used.add(name)
        unique.append(call if name == call.id else replace(call, id=name))
    return tuple(unique)
