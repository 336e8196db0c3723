"""Makes the ids of calls unique in their conversation, and fit for what a provider accepts. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Final

from lm_tools_bridge.agent.messages import AssistantMessage, Message

_STRICTEST: Final = 9
"""Letters and digits of an id at the provider with the narrowest rule, Mistral; made ids have as many."""


class CallIds:
    """The ids of one conversation.

    Args:
        messages: the history, whose ids are taken.
    """

    def __init__(self, messages: Iterable[Message]) -> None:
        replies = [message for message in messages if isinstance(message, AssistantMessage)]
        self._taken = {call.id for reply in replies for call in reply.calls}
        self._made = 0

    def give(self, preferred_id: str | None) -> str:
        """The id of a new call: the provider's own, or one made if there is none or it came twice."""
        name = preferred_id or self._next()
        while name in self._taken:
            name = self._next()
        self._taken.add(name)
        return name

    def _next(self) -> str:
        self._made += 1
        return f"call{self._made:05}"


def fitting(name: str, pattern: re.Pattern[str]) -> str:
    """An id as a provider accepts it: unchanged if it matches, else always the same nine characters."""
    return (
        name
        if pattern.fullmatch(name)
        else hashlib.sha256(name.encode(errors="replace")).hexdigest()[:_STRICTEST]
    )
