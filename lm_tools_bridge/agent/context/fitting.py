"""Shortens a history to a number of tokens: old turns first, then old results of the current turn. Pure.

The current question and every pair of call and result stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from lm_tools_bridge.agent.context.token_estimate import message_tokens
from lm_tools_bridge.agent.context.turns import newest_turns
from lm_tools_bridge.agent.messages import AssistantMessage, Message, ToolMessage
from lm_tools_bridge.text.text_tokens import text_tokens

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
