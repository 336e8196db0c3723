"""Speaks Anthropic's Messages API."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal
from urllib.parse import quote

import msgspec

from lm_tools_bridge.agent.messages import (
    AssistantMessage,
    Call,
    CallPart,
    Finish,
    Message,
    ModelEvent,
    ModelRequest,
    Result,
    TextPart,
    ThinkingPart,
    Tool,
    Usage,
    UserMessage,
)
from lm_tools_bridge.agent.providers.dialects.dialect import (
    CUT,
    NO_DESCRIPTION,
    CallIds,
    Framing,
    ReplyError,
    ReplyReader,
    decoded,
    error_text,
    fitting,
    number,
    pictures_of,
    schema_of,
    system_text,
    with_joined_results,
)  # fmt: skip
from lm_tools_bridge.agent.providers.dialects.schema_changes import with_plain_root
from lm_tools_bridge.agent.tool_source import read_arguments

VERSION: Final = "2023-06-01"
REPLY_TOKENS: Final = 8192
"""The most tokens of a reply; the API requires a number."""
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
_PICTURES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_Reason = Literal["complete", "calls", "cut", "refused"]
_REASONS: Final[Mapping[str, _Reason]] = {
    "tool_use": "calls", "max_tokens": "cut", "model_context_window_exceeded": "cut", "refusal": "refused",
}  # fmt: skip


class AnthropicMessages:
    """The dialect."""

    framing: Framing = "sse"
    takes_open_calls = False

    def path(self, model: str, *, stream: bool) -> str:
        """See `Dialect`."""
        return "/v1/messages"

    def headers(self, key: str | None) -> dict[str, str]:
        """See `Dialect`."""
        return {"anthropic-version": VERSION, **({"x-api-key": key} if key else {})}

    def body(self, request: ModelRequest) -> dict[str, Any]:
        """See `Dialect`."""
        system = system_text(request.messages)
        body: dict[str, Any] = {"model": request.model, "max_tokens": REPLY_TOKENS}
        if system:
            body["system"] = system
        body["messages"] = list(_messages(request.messages))
        if request.tools:
            body["tools"] = [_tool(tool) for tool in request.tools]
        body["stream"] = request.stream
        return body

    def reader(self, ids: CallIds) -> ReplyReader:
        """See `Dialect`."""
        return _Reader(ids)

    def window_request(self, model: str) -> tuple[str, dict[str, Any] | None] | None:
        """See `Dialect`."""
        return f"/v1/models/{quote(model, safe='')}", None

    def window(self, document: Any, model: str) -> int | None:
        """See `Dialect`."""
        return number(document.get("max_input_tokens")) if isinstance(document, dict) else None


def _tool(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description or NO_DESCRIPTION,
        "input_schema": schema_of(with_plain_root(tool)),
    }


def _messages(messages: Iterable[Message]) -> Iterator[dict[str, Any]]:
    """The messages without the system's. All results of a reply are blocks of one message, as required."""
    for message in with_joined_results(messages):
        if isinstance(message, UserMessage):
            yield {"role": "user", "content": message.text}
        elif not isinstance(message, AssistantMessage):
            yield {"role": "user", "content": [_result(result) for result in message]}
        elif content := _content(message):
            yield {"role": "assistant", "content": content}


def _content(message: AssistantMessage) -> list[dict[str, Any]]:
    """The blocks of a reply. The API refuses a text of blanks only."""
    text = [{"type": "text", "text": message.text}] if message.text.strip() else []
    return text + [
        {"type": "tool_use", "id": fitting(call.id, _ID), "name": call.name, "input": call.arguments or {}}
        for call in message.calls
    ]


def _result(result: Result) -> dict[str, Any]:
    pictures = [
        {"type": "image", "source": {"type": "base64", "media_type": picture.kind, "data": picture.data}}
        for picture in pictures_of(result, _PICTURES)
    ]
    text = [{"type": "text", "text": result.text}] if result.text.strip() else []
    return {
        "type": "tool_result",
        "tool_use_id": fitting(result.call_id, _ID),
        "content": [*text, *pictures] if pictures else result.text,
        "is_error": result.is_error,
    }


class _Block(msgspec.Struct):
    type: str = ""
    id: str | None = None
    name: str = ""
    input: Any = None
    text: str = ""
    thinking: str = ""


class _Delta(msgspec.Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    partial_json: str = ""
    stop_reason: str | None = None


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens: int | None = None


class _Whole(msgspec.Struct):
    content: list[_Block] = []
    stop_reason: str | None = None
    usage: _Usage | None = None


class _Event(msgspec.Struct):
    type: str = ""
    message: _Whole | None = None
    content_block: _Block | None = None
    delta: _Delta | None = None
    usage: _Usage | None = None
    error: Any = None
    content: list[_Block] = []
    stop_reason: str | None = None


class _Reader:
    def __init__(self, ids: CallIds) -> None:
        self._ids = ids
        self._block: _Block | None = None
        self._pieces: list[str] = []
        self._has_calls = False
        self._stop_reason: str | None = None
        self._prompt_tokens: int | None = None
        self._reply_tokens: int | None = None

    def read(self, document: bytes) -> list[ModelEvent]:
        event = decoded(document, _Event)
        self._count(event.usage)
        match event.type:
            case "error":
                raise ReplyError(error_text(event.error))
            case "message_start" if event.message is not None:
                self._count(event.message.usage)
            case "message":  # a whole reply
                self._stop_reason = event.stop_reason
                return [part for block in event.content for part in self._whole_block(block)]
            case "content_block_start" if event.content_block is not None:
                self._block, self._pieces = event.content_block, []
                return _texts(event.content_block)
            case "content_block_delta" if event.delta is not None:
                self._pieces.append(event.delta.partial_json)
                return _texts(event.delta)
            case "content_block_stop":
                return self._end_block()
            case "message_delta" if event.delta is not None:
                self._stop_reason = event.delta.stop_reason or self._stop_reason
        return []

    def _count(self, usage: _Usage | None) -> None:
        if usage is None:
            return
        parts = (usage.input_tokens, usage.cache_creation_input_tokens, usage.cache_read_input_tokens)
        if any(part is not None for part in parts):
            self._prompt_tokens = sum(part or 0 for part in parts)
        self._reply_tokens = usage.output_tokens if usage.output_tokens is not None else self._reply_tokens

    def _whole_block(self, block: _Block) -> list[ModelEvent]:
        return _texts(block) + ([self._call(block, block.input)] if block.type == "tool_use" else [])

    def _end_block(self) -> list[ModelEvent]:
        block, text = self._block, "".join(self._pieces)
        self._block = None
        if block is None or block.type != "tool_use":
            return []
        return [self._call(block, text or block.input)]

    def _call(self, block: _Block, raw: Any) -> CallPart:
        self._has_calls = True
        arguments, problem = read_arguments(raw)
        return CallPart(Call(self._ids.give(block.id), block.name, arguments, problem))

    def end(self) -> list[ModelEvent]:
        if self._stop_reason is None:
            raise ReplyError(CUT)
        events: list[ModelEvent] = self._end_block()  # open if the reply reached its limit
        reason = _REASONS.get(self._stop_reason, "complete")
        if reason in {"calls", "complete"}:
            reason = "calls" if self._has_calls else "complete"
        return [*events, Usage(self._prompt_tokens, self._reply_tokens), Finish(reason)]


def _texts(part: _Block | _Delta) -> list[ModelEvent]:
    events: list[ModelEvent] = []
    if part.thinking:
        events.append(ThinkingPart(part.thinking))
    if part.text:
        events.append(TextPart(part.text))
    return events
