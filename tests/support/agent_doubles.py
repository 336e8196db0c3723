"""Parts of the terminal agent that a test scripts: a provider, a source of tools, a guard, and the person."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lm_tools_bridge.agent.interaction import Box, Decision, Question, Tone, Verdict
from lm_tools_bridge.agent.messages import (
    Call,
    CallPart,
    Finish,
    ModelEvent,
    ModelRequest,
    ModelWindow,
    ProviderFailure,
    TextPart,
    Tool,
    Usage,
)
from lm_tools_bridge.agent.tool_source import Outcome, SourceState

Step = ModelEvent | ProviderFailure | asyncio.Event
"""What a scripted reply does: an event, a failure, or a pause until the event is set."""


def saying(text: str, tokens: int | None = None) -> list[Step]:
    """A whole reply of text."""
    usage: list[Step] = [Usage(tokens, 1)] if tokens is not None else []
    return [TextPart(text), *usage, Finish("complete")]


def calling(*calls: Call, text: str = "") -> list[Step]:
    """A whole reply with calls."""
    said: list[Step] = [TextPart(text)] if text else []
    return [*said, *map(CallPart, calls), Finish("calls")]


def call(name: str = "read", call_id: str = "", **arguments: Any) -> Call:
    """A call with these arguments."""
    return Call(call_id, name, arguments)


class ScriptedProvider:
    """A model that gives these replies in turn, then says "done". Records the requests."""

    def __init__(
        self, *replies: Sequence[Step], window: ModelWindow | None = None, name: str = "ollama"
    ) -> None:
        self.name = name
        self.replies = list(replies)
        self.requests: list[ModelRequest] = []
        self.window = window
        self.closed = 0
        self.answer: Callable[[ModelRequest], Sequence[Step]] | None = None

    async def context_window(self, model: str) -> ModelWindow | None:
        return self.window

    async def reply(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.requests.append(request)
        steps = (
            self.answer(request) if self.answer else self.replies.pop(0) if self.replies else saying("done")
        )
        try:
            for step in steps:
                if isinstance(step, asyncio.Event):
                    await step.wait()
                elif isinstance(step, ProviderFailure):
                    raise step
                else:
                    yield step
        finally:
            self.closed += 1


Handler = Callable[[str, Mapping[str, Any]], Awaitable[Outcome]]


def text_outcome(text: str, **members: Any) -> Outcome:
    """An outcome of one text block."""
    return Outcome(({"type": "text", "text": text},), **members)


class ListedTools:
    """A source with these tools; each says `ran NAME`, unless a handler says something else. Records the calls."""

    def __init__(self, *names: str, name: str = "local", handler: Handler | None = None) -> None:
        self.name = name
        self.tools = [Tool(one, f"the tool {one}", {"type": "object"}) for one in names]
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        self.running = 0
        self.listed = 0
        self.closed = False
        self.now = SourceState(name, "ready")
        self._handler = handler

    async def list_tools(self) -> Sequence[Tool]:
        self.listed += 1
        return list(self.tools)

    async def call(
        self, name: str, arguments: Mapping[str, Any], on_progress: Callable[[str], None]
    ) -> Outcome:
        self.calls.append((name, arguments))
        self.running += 1
        try:
            return await self._handler(name, arguments) if self._handler else text_outcome(f"ran {name}")
        finally:
            self.running -= 1

    def state(self) -> SourceState:
        return self.now

    async def close(self) -> None:
        self.closed = True


class SearchableTools(ListedTools):
    """A source that can offer a search instead of its tools."""

    discovery = False

    async def set_discovery(self, on: bool) -> None:
        self.discovery = on

    async def list_tools(self) -> Sequence[Tool]:
        if not self.discovery:
            return await super().list_tools()
        return [Tool("tool_search", "", {"type": "object"}), Tool("execute_tool", "", {"type": "object"})]


@dataclass
class ScriptedGuard:
    """Allows all calls but those of the denied tools. Records what it was asked, and how calls ended."""

    denied: frozenset[str] = frozenset()
    edited: Mapping[str, Any] | None = None
    pause: asyncio.Event | None = None
    aborts: bool = False
    asked: list[Call] = field(default_factory=list)
    ended: list[tuple[str, Verdict, bool | None]] = field(default_factory=list)

    async def decide(self, call: Call, tool: Tool) -> Decision:
        self.asked.append(call)
        if self.pause is not None:
            await self.pause.wait()
        arguments = self.edited if self.edited is not None else call.arguments or {}
        verdict = Verdict.ABORTED if self.aborts else Verdict.ALLOWED
        return Decision(Verdict.DENIED if call.name in self.denied else verdict, arguments)

    def finished(self, call: Call, decision: Decision, *, seconds: float, failed: bool | None) -> None:
        self.ended.append((call.name, decision.verdict, failed))


@dataclass
class RecordingPerson:
    """Records everything shown, and gives these answers in turn, then none."""

    answers: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    boxes: list[tuple[Box, list[str]]] = field(default_factory=list)
    events: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    said: str = ""
    doing: str | None = None

    def reply_text(self, text: str) -> None:
        self.said += text

    def thinking(self, text: str) -> None: ...

    def reply_ended(self) -> None: ...

    def box(self, kind: Box, lines: Sequence[str]) -> None:
        self.boxes.append((kind, list(lines)))

    def notice(self, text: str, tone: Tone = Tone.INFO) -> None:
        self.notices.append(text)

    def activity(self, text: str | None) -> None:
        self.doing = text

    def event(self, kind: str, details: Mapping[str, Any]) -> None:
        self.events.append((kind, details))

    async def ask(self, question: Question) -> str | None:
        self.asked.append(question.prompt)
        return self.answers.pop(0) if self.answers else None
