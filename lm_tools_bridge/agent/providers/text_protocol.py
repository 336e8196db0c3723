"""Lets models without tools call them in their text: a prompt explains how, `<tool>` blocks become calls."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import replace

from lm_tools_bridge.agent.messages import (
    AssistantMessage,
    Call,
    Message,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from lm_tools_bridge.agent.model_events import (
    CallPart,
    Finish,
    ModelEvent,
    ModelRequest,
    ModelWindow,
    Provider,
    TextPart,
)
from lm_tools_bridge.agent.providers.dialects.call_ids import CallIds
from lm_tools_bridge.agent.providers.result_messages import as_user_message, asked, window_of
from lm_tools_bridge.agent.providers.tool_tags import ToolTags, calls_of
from lm_tools_bridge.agent.providers.tools_prompt import tools_block, with_calls


class TextProtocol:
    """A provider whose model calls tools in its text. Only replies are searched for calls, outside of code.

    Args:
        inner: the provider that is asked; it gets no tools.
    """

    def __init__(self, inner: Provider) -> None:
        self.name = inner.name
        self._inner = inner

    async def reply(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """See `Provider`. Text is passed on as it arrives, without the blocks; calls follow at the end."""
        tags, ids = ToolTags(), CallIds(request.messages)
        inner = replace(request, messages=list(converted(request)), tools=())
        async with aclosing(asked(self._inner, inner)) as events:
            async for event in events:
                if isinstance(event, TextPart):
                    if text := tags.feed(event.text):
                        yield TextPart(text)
                elif isinstance(event, Finish):
                    for part in _end(tags, event, ids):
                        yield part
                else:
                    yield event

    async def context_window(self, model: str) -> ModelWindow | None:
        """See `WindowSource`."""
        return await window_of(self._inner, model)


def _end(tags: ToolTags, finish: Finish, ids: CallIds) -> Iterator[ModelEvent]:
    if text := tags.end():
        yield TextPart(text)
    calls = calls_of(tags.blocks, cut=finish.reason == "cut")
    for call in calls:
        yield CallPart(Call(ids.give(None), call.name, call.arguments, call.problem))
    yield Finish("calls") if calls and finish.reason == "complete" else finish


def converted(request: ModelRequest) -> Iterator[Message]:
    """The messages as text: tools in the system prompt, calls in replies, results as user messages."""
    block = tools_block(request.tools)
    system = [message.text for message in request.messages if isinstance(message, SystemMessage)]
    if prompt := "\n\n".join([*system, *([block] if block else [])]):
        yield SystemMessage(prompt)
    for message in request.messages:
        if isinstance(message, ToolMessage):
            yield as_user_message(message.result)
        elif isinstance(message, AssistantMessage):
            yield AssistantMessage(with_calls(message.text, message.calls))
        elif isinstance(message, UserMessage):
            yield message
