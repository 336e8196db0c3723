"""What every wire format of a scripted model has in common: the request it reads, the step it writes.

A format is a module with `read(body)`, which returns the offered tools and the results of earlier calls, and
`stream(step, number)`, the events that answer the `number`-th request. Tools are named as the agent offers them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Say:
    """The model ends its turn with a text."""

    text: str


@dataclass(frozen=True)
class Call:
    """The model calls a tool, by the name under which it was offered."""

    tool: str
    arguments: Json = field(default_factory=dict)


Step = Say | Call


@dataclass(frozen=True)
class ModelRequest:
    """One request of an agent to its model.

    Attributes:
        number: 1 for the first that offers tools.
        tools: every tool that the agent offers, its own included.
        results: the texts of all tool results so far, oldest first.
        body: all of it.
        at: the monotonic clock when it arrived.
    """

    number: int
    tools: frozenset[str]
    results: tuple[str, ...]
    body: Json
    at: float = field(default_factory=time.monotonic)

    @property
    def last_result(self) -> str:
        """The text of the newest tool result; empty before the first."""
        return self.results[-1] if self.results else ""


def sse(data: Json, event: str = "") -> bytes:
    """One event of a stream."""
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def text_of(content: object) -> str:
    """The text of a result: a string, content blocks, or whatever else as JSON."""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        blocks = [block if isinstance(block, dict) else {"text": str(block)} for block in content]
        return "\n".join(str(block["text"]) if "text" in block else json.dumps(block) for block in blocks)
    return json.dumps(content, ensure_ascii=False)
