"""Estimates how many tokens messages and tools cost, corrected by what providers count. Pure.

Each model has its own vocabulary, so the first count of a provider is worth more than a tokenizer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from lm_tools_bridge.agent.messages import AssistantMessage, Message, Tool, ToolMessage
from lm_tools_bridge.text.text_tokens import text_tokens

_A_MESSAGE: Final = 5
"""Tokens of the marks around a message."""
_A_CALL: Final = 12
_A_TOOL: Final = 14
_AN_IMAGE: Final = 1000
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
