"""Speaks Ollama's native API, because only there a request chooses the size of the context window."""

from __future__ import annotations

from typing import Any

import msgspec

from lm_tools_bridge.agent.messages import (
    AssistantMessage,
    Call,
    CallPart,
    Finish,
    Message,
    ModelEvent,
    ModelRequest,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolMessage,
    Usage,
)
from lm_tools_bridge.agent.providers.dialects.dialect import (
    CUT,
    CallIds,
    Framing,
    ReplyError,
    ReplyReader,
    decoded,
    error_text,
    function_of,
    number,
)  # fmt: skip
from lm_tools_bridge.agent.tool_source import read_arguments


class OllamaChat:
    """The dialect."""

    framing: Framing = "lines"
    takes_open_calls = True

    def path(self, model: str, *, stream: bool) -> str:
        """See `Dialect`."""
        return "/api/chat"

    def headers(self, key: str | None) -> dict[str, str]:
        """See `Dialect`. A local server needs no key; one behind a proxy may."""
        return {"Authorization": f"Bearer {key}"} if key else {}

    def body(self, request: ModelRequest) -> dict[str, Any]:
        """See `Dialect`."""
        body: dict[str, Any] = {
            "model": request.model,
            "messages": [_message(message) for message in request.messages],
        }
        if request.tools:
            body["tools"] = [function_of(tool) for tool in request.tools]
        body["stream"] = request.stream
        if request.context_tokens is not None:
            body["options"] = {"num_ctx": request.context_tokens}
        return body

    def reader(self, ids: CallIds) -> ReplyReader:
        """See `Dialect`."""
        return _Reader(ids)

    def window_request(self, model: str) -> tuple[str, dict[str, Any] | None] | None:
        """See `Dialect`."""
        return "/api/show", {"model": model}

    def window(self, document: Any, model: str) -> int | None:
        """See `Dialect`. The member's name begins with the architecture of the model."""
        info = document.get("model_info") if isinstance(document, dict) else None
        for name, value in info.items() if isinstance(info, dict) else ():
            if name.endswith(".context_length") and (length := number(value)):
                return length
        return None


def _message(message: Message) -> dict[str, Any]:
    if isinstance(message, ToolMessage):
        return {"role": "tool", "tool_name": message.result.name, "content": message.result.text}
    if isinstance(message, AssistantMessage):
        calls = [_call(call) for call in message.calls]
        return {"role": "assistant", "content": message.text, **({"tool_calls": calls} if calls else {})}
    return {"role": "system" if isinstance(message, SystemMessage) else "user", "content": message.text}


def _call(call: Call) -> dict[str, Any]:
    return {"function": {"name": call.name, "arguments": call.arguments or {}}}


class _Function(msgspec.Struct):
    name: str = ""
    arguments: Any = None


class _ToolCall(msgspec.Struct):
    function: _Function
    id: str | None = None


class _Message(msgspec.Struct):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Chunk(msgspec.Struct):
    message: _Message | None = None
    done: bool = False
    done_reason: str | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None
    error: Any = None


class _Reader:
    def __init__(self, ids: CallIds) -> None:
        self._ids = ids
        self._has_calls = False
        self._last: _Chunk | None = None

    def read(self, document: bytes) -> list[ModelEvent]:
        chunk = decoded(document, _Chunk)
        if chunk.error:
            raise ReplyError(error_text(chunk.error))
        if chunk.done:
            self._last = chunk
        events: list[ModelEvent] = []
        if (message := chunk.message) is not None:
            if message.thinking:
                events.append(ThinkingPart(message.thinking))
            if message.content:
                events.append(TextPart(message.content))
            events += [CallPart(self._call(call)) for call in message.tool_calls or ()]
        return events

    def _call(self, call: _ToolCall) -> Call:
        self._has_calls = True
        arguments, problem = read_arguments(call.function.arguments)
        return Call(self._ids.give(call.id), call.function.name, arguments, problem)

    def end(self) -> list[ModelEvent]:
        if self._last is None:
            raise ReplyError(CUT)
        usage = Usage(self._last.prompt_eval_count, self._last.eval_count)
        if self._last.done_reason == "length":
            return [usage, Finish("cut")]
        return [usage, Finish("calls" if self._has_calls else "complete")]
