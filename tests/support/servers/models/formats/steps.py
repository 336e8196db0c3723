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
class ReplyCall:
    """One call of a reply: `arguments` as an object, or as the text that stands in the place of one."""

    name: str
    arguments: Json | str = field(default_factory=dict)
    id: str = ""


@dataclass(frozen=True)
class Reply:
    """All that a model can put into one reply.

    Attributes:
        text: in pieces, one an event.
        thinking: what it thinks aloud, in pieces.
        calls: its tool calls; `interleaved` sends their arguments in turn, a few characters at a time.
        reason: the format's own word for the end; by default the one for the end of a turn.
    """

    text: tuple[str, ...] = ()
    thinking: tuple[str, ...] = ()
    calls: tuple[ReplyCall, ...] = ()
    reason: str = ""
    prompt_tokens: int = 1
    reply_tokens: int = 1
    interleaved: bool = False


def say(*text: str) -> Reply:
    """A reply of text only."""
    return Reply(text)


def call(name: str, arguments: Json | str | None = None, **members: Any) -> Reply:
    """A reply with one call."""
    return Reply(calls=(ReplyCall(name, {} if arguments is None else arguments),), **members)


def reply_of(step: Step | Reply, number: int, prefix: str = "call") -> Reply:
    """The step as a reply whose calls have ids, `PREFIX_NUMBER` for one that has none."""
    if isinstance(step, Say):
        return Reply((step.text,))
    if isinstance(step, Call):
        return Reply(calls=(ReplyCall(step.tool, step.arguments, f"{prefix}_{number}"),))
    return step


def arguments_text(call: ReplyCall) -> str:
    """The arguments as JSON text, or the text in its place."""
    return call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)


def pieces(call: ReplyCall) -> Sequence[str]:
    """The text of the arguments in pieces, five characters or a hundredth of it; nothing for an empty one."""
    text = arguments_text(call)
    length = max(5, len(text) // 100)
    return [text[start : start + length] for start in range(0, len(text), length)]


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
