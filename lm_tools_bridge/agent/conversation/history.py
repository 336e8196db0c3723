"""The history of a conversation: a result for each call, its tokens, and how it is cut to fit. Pure.

What is cut to fit are old turns first, then old results of the current turn. The current question and every
pair of call and result stay. Each model has its own vocabulary, so the first count of a provider is worth
more than a tokenizer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from lm_tools_bridge.agent.messages import (
    AssistantMessage,
    Call,
    Message,
    Result,
    Tool,
    ToolMessage,
    UserMessage,
)
from lm_tools_bridge.text.text_tokens import text_tokens

_A_MESSAGE: Final = 5
"""Tokens of the marks around a message."""
_A_CALL: Final = 12  # tokens of the marks and the id around a call
_A_TOOL: Final = 14  # tokens of the JSON around a tool's name, description and schema
_AN_IMAGE: Final = 1000  # tokens; providers count some hundred to 1,600 by the size of an image
_LEAST_SAMPLE: Final = 200
"""Counts of smaller requests say more about the marks around messages than about the texts."""
_BOUNDS: Final = (0.4, 3.0)


def message_tokens(message: Message) -> float:
    """The tokens of a message with its calls or result."""
    if isinstance(message, ToolMessage):
        images = sum(bool(block.get("type") == "image") for block in message.result.content)
        return _A_MESSAGE + text_tokens(message.result.text) + images * _AN_IMAGE
    tokens = _A_MESSAGE + text_tokens(message.text)
    if isinstance(message, AssistantMessage):
        for call in message.calls:
            arguments = msgspec.json.encode(call.arguments or {}).decode()
            tokens += _A_CALL + text_tokens(call.name) + text_tokens(arguments)
    return tokens


def messages_tokens(messages: Iterable[Message]) -> float:
    """The tokens of messages together."""
    return sum(message_tokens(message) for message in messages)


def tools_tokens(tools: Iterable[Tool]) -> float:
    """The tokens of tools' definitions."""
    return sum(
        _A_TOOL
        + text_tokens(tool.name)
        + text_tokens(tool.description)
        + text_tokens(msgspec.json.encode(tool.input_schema).decode())
        for tool in tools
    )


@dataclass(frozen=True, slots=True)
class Correction:
    """How a provider's counts of prompts relate to the estimates."""

    factor: float = 1.0
    samples: int = 0

    @property
    def margin(self) -> float:
        """By how much an estimate may be too low."""
        return 1.05 if self.samples else 1.2

    def learned(self, estimate: float, counted: int) -> Correction:
        """The correction after a provider counted a prompt whose uncorrected estimate was this."""
        if estimate < _LEAST_SAMPLE or counted <= 0:
            return self
        ratio = min(max(counted / estimate, _BOUNDS[0]), _BOUNDS[1])
        return Correction((self.factor + ratio) / 2 if self.samples else ratio, self.samples + 1)


def turn_starts(messages: Sequence[Message]) -> list[int]:
    """The places of the user messages, oldest first. What is between two of them belongs together."""
    return [at for at, message in enumerate(messages) if isinstance(message, UserMessage)]


def newest_turns(messages: Sequence[Message], sizes: Sequence[float], most: float) -> int:
    """Where the newest whole turns begin that are together no larger than `most`; at least the last turn.

    Args:
        messages: the history.
        sizes: the tokens of each message.
        most: tokens.
    """
    starts = turn_starts(messages)
    if not starts:
        return 0
    fitting = [start for start in starts if sum(sizes[start:]) <= most]
    return fitting[0] if fitting else starts[-1]


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


_ROOM: Final = 0.75
"""The part of the space that is used after turns were left out, so that the next rounds leave out no more."""
_NOTE: Final = 30
"""Tokens of the note in the place of what was left out."""
_SMALL: Final = 200
"""Tokens of results that are not worth to be left out."""


def first_kept(messages: Sequence[Message], first: int, space: float) -> int:
    """Where the part of the history begins that the model gets.

    Args:
        messages: the history.
        first: where it began last time.
        space: tokens that the history may take.
    """
    sizes = [message_tokens(message) for message in messages]
    if sum(sizes[first:]) <= space:
        return first
    return max(first, newest_turns(messages, sizes, space * _ROOM))


def with_short_results(messages: Sequence[Message], space: float) -> list[Message]:
    """The messages with as many results shortened as needed, oldest first, those of the last reply last."""
    fitted = list(messages)
    over = sum(map(message_tokens, fitted)) - space
    last_reply = max(
        (at for at, message in enumerate(fitted) if isinstance(message, AssistantMessage)), default=0
    )
    older = [at for at, message in enumerate(fitted[:last_reply]) if isinstance(message, ToolMessage)]
    newest = [at for at, message in enumerate(fitted) if isinstance(message, ToolMessage) and at > last_reply]
    for at in older:
        if over <= 0:
            break
        over -= _shorten(fitted, at, 0)
    sizes = {at: message_tokens(fitted[at]) for at in newest}
    for at in newest:
        if over <= 0:
            break
        other_sizes = sum(sizes[index] for index in newest if index > at)
        over -= _shorten(fitted, at, max(sizes[at] - over * sizes[at] / (sizes[at] + other_sizes), _SMALL))
    return fitted


def _shorten(messages: list[Message], at: int, most: float) -> float:
    """Cut the result at a place to `most` tokens; returns how many tokens that saves."""
    message = messages[at]
    before = message_tokens(message)
    if not isinstance(message, ToolMessage) or before <= max(most, _SMALL):
        return 0.0
    text = message.result.text
    length = max(int(len(text) * (most - _NOTE) / max(text_tokens(text), 1)), 0)
    short = f"{text[:length]}\n[left out to fit the context: {len(text) - length} characters]".lstrip()
    messages[at] = ToolMessage(replace(message.result, text=short, content=()))
    return before - message_tokens(messages[at])
