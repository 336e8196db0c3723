"""Finds the turns of a history: a user message with everything up to the next one. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from lm_tools_bridge.agent.messages import Message, UserMessage


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
