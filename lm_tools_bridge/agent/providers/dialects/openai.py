"""Speaks Chat Completions of OpenAI, and of the many servers that offer the same API."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
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
    arguments_text,
    decoded,
    error_text,
    fitting,
    function_of,
    number,
)  # fmt: skip
from lm_tools_bridge.agent.providers.dialects.schema_changes import with_plain_root
from lm_tools_bridge.agent.tool_source import read_arguments

PATH: Final = "/chat/completions"
AZURE_VERSION: Final = "2024-10-21"
DONE: Final = b"[DONE]"
_ANY_ID: Final = re.compile(r"[\w-]{1,64}", re.ASCII)
_MISTRAL_ID: Final = re.compile(r"[A-Za-z0-9]{9}")
_DATA: Final = "openai"
_Reason = Literal["complete", "calls", "cut", "refused"]
_REASONS: Final[Mapping[str, _Reason]] = {
    "length": "cut", "model_length": "cut", "content_filter": "refused",
    "tool_calls": "calls", "function_call": "calls",
}  # fmt: skip
_WINDOW_MEMBERS: Final = ("max_model_len", "context_length", "max_context_length", "context_window")


class OpenAiChat:
    """The dialect with its variants.

    Args:
        stream_usage: whether the server accepts `stream_options`; Mistral sends the usage unasked.
        short_ids: whether ids of calls must have nine letters and digits, as at Mistral.
    """

    framing: Framing = "sse"
    takes_open_calls = False

    def __init__(self, *, stream_usage: bool = True, short_ids: bool = False) -> None:
        self._stream_usage = stream_usage
        self._ids = _MISTRAL_ID if short_ids else _ANY_ID

    def path(self, model: str, *, stream: bool) -> str:
        """See `Dialect`."""
        return PATH

    def headers(self, key: str | None) -> dict[str, str]:
        """See `Dialect`."""
        return {"Authorization": f"Bearer {key}"} if key else {}

    def body(self, request: ModelRequest) -> dict[str, Any]:
        """See `Dialect`."""
        body: dict[str, Any] = {
            "model": request.model,
            "messages": [self._message(message) for message in request.messages],
        }
        if request.tools:
            body["tools"] = [function_of(with_plain_root(tool)) for tool in request.tools]
        body["stream"] = request.stream
        if request.stream and self._stream_usage:
            body["stream_options"] = {"include_usage": True}
        return body

    def reader(self, ids: CallIds) -> ReplyReader:
        """See `Dialect`."""
        return _Reader(ids)

    def window_request(self, model: str) -> tuple[str, dict[str, Any] | None] | None:
        """See `Dialect`. Local servers and OpenRouter tell it in the list of models."""
        return "/models", None

    def window(self, document: Any, model: str) -> int | None:
        """See `Dialect`."""
        entries = document.get("data") if isinstance(document, dict) else None
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and entry.get("id") == model:
                meta = entry.get("meta")
                places = {**(meta if isinstance(meta, dict) else {}), **entry}
                numbers = [number(places.get(name)) for name in (*_WINDOW_MEMBERS, "n_ctx")]
                return next((size for size in numbers if size), None)
        return None

    def _message(self, message: Message) -> dict[str, Any]:
        if isinstance(message, ToolMessage):
            result = message.result
            return {
                "role": "tool",
                "tool_call_id": fitting(result.call_id, self._ids),
                "content": result.text,
            }
        if isinstance(message, AssistantMessage):
            calls = [self._call(call) for call in message.calls]
            return {"role": "assistant", "content": message.text, **({"tool_calls": calls} if calls else {})}
        return {"role": "system" if isinstance(message, SystemMessage) else "user", "content": message.text}

    def _call(self, call: Call) -> dict[str, Any]:
        extra = call.provider_data.get(_DATA) if isinstance(call.provider_data, dict) else None
        return {
            "id": fitting(call.id, self._ids),
            "type": "function",
            "function": {"name": call.name, "arguments": arguments_text(call.arguments)},
            **({"extra_content": extra} if extra else {}),
        }


class AzureChat(OpenAiChat):
    """The same at Azure, where the path names the deployment, and the version is part of the query.

    Args:
        version: the version of Azure's API, None where the address is that of its version-less API.
        deployment: the deployment, if the address names it; otherwise it is the model.
    """

    def __init__(self, version: str | None = AZURE_VERSION, deployment: str | None = None) -> None:
        super().__init__()
        self._version = version
        self._deployment = deployment

    def path(self, model: str, *, stream: bool) -> str:
        """See `Dialect`."""
        if self._version is None:
            return PATH
        deployment = quote(self._deployment or model, safe="")
        return f"/openai/deployments/{deployment}{PATH}?api-version={quote(self._version, safe='')}"

    def headers(self, key: str | None) -> dict[str, str]:
        """See `Dialect`."""
        return {"api-key": key} if key else {}

    def window_request(self, model: str) -> tuple[str, dict[str, Any] | None] | None:
        """See `Dialect`. Azure does not tell it."""
        return None


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: Any = None


class _ToolCall(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None
    extra_content: Any = None


class _Delta(msgspec.Struct):
    content: Any = None
    reasoning_content: str | None = None
    reasoning: Any = None
    refusal: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: str | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None


@dataclass(slots=True)
class _OpenCall:
    """A call whose arguments still arrive: as pieces of text, or from some servers as a whole object."""

    index: int | None
    id: str | None
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    whole: Any = None
    extra: Any = None

    def add(self, delta: _ToolCall) -> None:
        self.id = self.id or delta.id
        self.extra = self.extra or delta.extra_content
        if (function := delta.function) is None:
            return
        self.name = self.name or function.name or ""
        if isinstance(function.arguments, str):
            self.pieces.append(function.arguments)
        elif function.arguments is not None:
            self.whole = function.arguments

    def continues(self, delta: _ToolCall) -> bool:
        """Whether the delta belongs to this call. Some servers give all calls the index 0, with other ids."""
        if delta.id and self.id and delta.id != self.id:
            return False
        return delta.index == self.index

    def call(self, ids: CallIds) -> Call:
        raw = self.whole if self.whole is not None else "".join(self.pieces)
        arguments, problem = read_arguments(raw)
        data = {_DATA: self.extra} if self.extra else None
        return Call(ids.give(self.id), self.name, arguments, problem, data)


class _Reader:
    def __init__(self, ids: CallIds) -> None:
        self._ids = ids
        self._calls: list[_OpenCall] = []
        self._reason: _Reason | None = None
        self._refused = False
        self._usage: _Usage | None = None

    def read(self, document: bytes) -> list[ModelEvent]:
        if document == DONE:
            self._reason = self._reason or "complete"
            return []
        chunk = decoded(document, _Chunk)
        if chunk.error:
            raise ReplyError(error_text(chunk.error))
        self._usage = chunk.usage or self._usage
        choice = chunk.choices[0] if chunk.choices else None
        if choice is None:
            return []
        if choice.finish_reason == "error":
            raise ReplyError("the server reported an error")
        if choice.finish_reason:
            self._reason = _REASONS.get(choice.finish_reason, "complete")
        delta = choice.delta or choice.message
        return [] if delta is None else list(self._delta(delta))

    def _delta(self, delta: _Delta) -> Iterator[ModelEvent]:
        thought = delta.reasoning_content or delta.reasoning
        if thought and isinstance(thought, str):
            yield ThinkingPart(thought)
        if delta.content:
            yield from _content(delta.content)
        if delta.refusal:
            self._refused = True
            yield TextPart(delta.refusal)
        for place, call in enumerate(delta.tool_calls or ()):
            self._open_call(call, place).add(call)

    def _open_call(self, delta: _ToolCall, place: int) -> _OpenCall:
        """The call that a delta belongs to. Without an index, a name starts a new one."""
        if delta.index is None and not (delta.function and delta.function.name) and self._calls:
            return self._calls[-1]
        if delta.index is not None:
            for call in reversed(self._calls):
                if call.continues(delta):
                    return call
        self._calls.append(_OpenCall(delta.index, delta.id))
        return self._calls[-1]

    def end(self) -> list[ModelEvent]:
        if self._reason is None:
            raise ReplyError(CUT)
        events: list[ModelEvent] = [CallPart(call.call(self._ids)) for call in self._calls]
        reason = self._reason
        if reason in {"complete", "calls"}:
            reason = "calls" if self._calls else "complete"
        if self._usage is not None:
            events.append(Usage(self._usage.prompt_tokens, self._usage.completion_tokens))
        events.append(Finish("refused" if self._refused else reason))
        return events


def _content(content: Any) -> Iterator[ModelEvent]:
    """Text, or the list of parts that models of Mistral send when they think."""
    if isinstance(content, str):
        yield TextPart(content)
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            yield TextPart(part["text"])
        elif isinstance(part, dict) and isinstance(thoughts := part.get("thinking"), list):
            yield from (
                ThinkingPart(thought["text"])
                for thought in thoughts
                if isinstance(thought, dict) and isinstance(thought.get("text"), str)
            )
