"""Turns tool results into user messages, for models that do not take results in their provider's own form."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from lm_tools_bridge.agent.messages import AssistantMessage, Call, Message, Result, ToolMessage, UserMessage
from lm_tools_bridge.agent.model_events import ModelEvent, ModelRequest, ModelWindow, Provider, WindowSource

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
