"""Lets models without tools call them in their text, and takes results as messages of the user."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from lm_tools_bridge.agent.messages import (
    AssistantMessage,
    Call,
    CallPart,
    Finish,
    Message,
    ModelEvent,
    ModelRequest,
    ModelWindow,
    Provider,
    Result,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
    WindowSource,
)
from lm_tools_bridge.agent.providers.dialects.dialect import CallIds
from lm_tools_bridge.agent.providers.tool_tags import ToolTags, calls_of, tools_block, with_calls

CONSTRAINT: Final = "Constraint: Please summarize this data clearly for the user."
_LOCAL: Final = "os_assistant_"


class UserResults:
    """A provider whose results are user messages.

    Args:
        inner: the provider that is asked.
        keeps_calls: whether the replies in the history keep their calls, although no result follows them.
            Where that is refused, a reply that was calls only says in words what it called.
    """

    def __init__(self, inner: Provider, *, keeps_calls: bool) -> None:
        self.name = inner.name
        self._inner = inner
        self._keeps_calls = keeps_calls

    async def reply(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """See `Provider`."""
        messages = list(_converted(request.messages, keeps_calls=self._keeps_calls))
        async with aclosing(asked(self._inner, replace(request, messages=messages))) as events:
            async for event in events:
                yield event

    async def context_window(self, model: str) -> ModelWindow | None:
        """See `WindowSource`."""
        return await window_of(self._inner, model)


def as_user_message(result: Result) -> UserMessage:
    """A result as a message of the user, with the bare name of its tool."""
    ending = "failed" if result.is_error else "executed"
    return UserMessage(
        f"Action: Tool [{bare_name(result.name)}] {ending}.\nResult: {result.text}\n{CONSTRAINT}"
    )


def bare_name(name: str) -> str:
    """The name of a tool without that of its source."""
    return name.removeprefix(_LOCAL).rpartition("__")[2] or name


async def asked(provider: Provider, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
    """The reply of an inner provider, as a generator whose closing ends the request."""
    events = provider.reply(request)
    try:
        async for event in events:
            yield event
    finally:
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()


async def window_of(provider: Provider, model: str) -> ModelWindow | None:
    """The context window of a model, if the provider tells it."""
    return await provider.context_window(model) if isinstance(provider, WindowSource) else None


def _converted(messages: Iterable[Message], *, keeps_calls: bool) -> Iterator[Message]:
    for message in messages:
        if isinstance(message, ToolMessage):
            yield as_user_message(message.result)
        elif isinstance(message, AssistantMessage) and message.calls and not keeps_calls:
            yield AssistantMessage(message.text or "\n".join(map(_in_words, message.calls)))
        else:
            yield message


def _in_words(call: Call) -> str:
    arguments = json.dumps(call.arguments or {}, ensure_ascii=False)
    return f"Action: Tool [{bare_name(call.name)}] with {arguments}"


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
