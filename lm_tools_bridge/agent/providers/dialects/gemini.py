"""Speaks Google's Gemini API."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final
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
    SystemMessage,
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
    number,
    pictures_of,
    with_joined_results,
)  # fmt: skip
from lm_tools_bridge.agent.providers.dialects.gemini_schema import converted
from lm_tools_bridge.agent.tool_source import read_arguments

_DATA: Final = "gemini"
_NO_SIGNATURE: Final = "skip_thought_signature_validator"
"""What Google accepts in the place of the signature of a call that another model made."""
_UNSIGNED: Final = re.compile(r"gemini-[12]\b|gemma")
"""Models that need no signatures, and refuse pictures in results."""
_PICTURES: Final = frozenset({"image/png", "image/jpeg", "image/webp"})
_BROKEN: Final = frozenset({"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "OTHER", "MALFORMED_RESPONSE"})
_ENDS: Final = frozenset({"STOP", "FINISH_REASON_UNSPECIFIED"})


class GeminiContent:
    """The dialect."""

    framing: Framing = "sse"
    takes_open_calls = False

    def path(self, model: str, *, stream: bool) -> str:
        """See `Dialect`."""
        method = "streamGenerateContent?alt=sse" if stream else "generateContent"
        return f"{_model_path(model)}:{method}"

    def headers(self, key: str | None) -> dict[str, str]:
        """See `Dialect`."""
        return {"x-goog-api-key": key} if key else {}

    def body(self, request: ModelRequest) -> dict[str, Any]:
        """See `Dialect`."""
        body: dict[str, Any] = {}
        system = [
            {"text": message.text} for message in request.messages if isinstance(message, SystemMessage)
        ]
        if system:
            body["system_instruction"] = {"parts": system}
        signs = _UNSIGNED.match(request.model.removeprefix("models/")) is None
        body["contents"] = list(_contents(request.messages, signs=signs))
        if request.tools:
            body["tools"] = [{"functionDeclarations": [_declaration(tool) for tool in request.tools]}]
        return body

    def reader(self, ids: CallIds) -> ReplyReader:
        """See `Dialect`."""
        return _Reader(ids)

    def window_request(self, model: str) -> tuple[str, dict[str, Any] | None] | None:
        """See `Dialect`."""
        return _model_path(model), None

    def window(self, document: Any, model: str) -> int | None:
        """See `Dialect`."""
        return number(document.get("inputTokenLimit")) if isinstance(document, dict) else None


def _model_path(model: str) -> str:
    return f"/models/{quote(model.removeprefix('models/'), safe='')}"


def _declaration(tool: Tool) -> dict[str, Any]:
    schema = converted(tool.input_schema).schema
    declaration = {"name": tool.name, "description": tool.description or NO_DESCRIPTION}
    return declaration if schema is None else {**declaration, "parameters": schema}


def _contents(messages: Iterable[Message], *, signs: bool) -> Iterator[dict[str, Any]]:
    """The messages without the system's. All results of a reply are parts of one content."""
    own_ids: dict[str, str] = {}
    kinds = _PICTURES if signs else frozenset[str]()
    for message in with_joined_results(messages):
        if isinstance(message, UserMessage):
            yield {"role": "user", "parts": [{"text": message.text}]}
        elif not isinstance(message, AssistantMessage):
            yield {
                "role": "user",
                "parts": [_result(result, own_ids, kinds) for result in message],
            }
        elif parts := _reply_parts(message, signs=signs):
            own_ids.update(
                {
                    call.id: _fields_of_gemini(call)["id"]
                    for call in message.calls
                    if "id" in _fields_of_gemini(call)
                }
            )
            yield {"role": "model", "parts": parts}


def _reply_parts(message: AssistantMessage, *, signs: bool) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = [{"text": message.text}] if message.text else []
    calls = [_call(call) for call in message.calls]
    if signs and calls and not any("thoughtSignature" in part for part in calls):
        calls[0]["thoughtSignature"] = _NO_SIGNATURE
    return parts + calls


def _fields_of_gemini(call: Call) -> dict[str, Any]:
    """What Gemini wants back with a call of its own: the id and the signature, if it gave them."""
    data = call.provider_data.get(_DATA) if isinstance(call.provider_data, dict) else None
    return data if isinstance(data, dict) else {}


def _call(call: Call) -> dict[str, Any]:
    stored_fields = _fields_of_gemini(call)
    function = {"name": call.name, "args": call.arguments or {}}
    if "id" in stored_fields:
        function["id"] = stored_fields["id"]
    part: dict[str, Any] = {"functionCall": function}
    if "thoughtSignature" in stored_fields:
        part["thoughtSignature"] = stored_fields["thoughtSignature"]
    return part


def _result(result: Result, own_ids: Mapping[str, str], kinds: Collection[str]) -> dict[str, Any]:
    response = {"error" if result.is_error else "output": result.text}
    function: dict[str, Any] = {"name": result.name, "response": response}
    if result.call_id in own_ids:
        function["id"] = own_ids[result.call_id]
    if pictures := list(pictures_of(result, kinds)):
        function["parts"] = [
            {"inlineData": {"mimeType": picture.kind, "data": picture.data}} for picture in pictures
        ]
    return {"functionResponse": function}


class _FunctionCall(msgspec.Struct):
    name: str = ""
    args: Any = None
    id: str | None = None


class _Part(msgspec.Struct, rename="camel"):
    text: str | None = None
    thought: bool = False
    function_call: _FunctionCall | None = None
    thought_signature: str | None = None


class _Content(msgspec.Struct):
    parts: list[_Part] = []


class _Candidate(msgspec.Struct, rename="camel"):
    content: _Content | None = None
    finish_reason: str | None = None


class _Counts(msgspec.Struct, rename="camel"):
    prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None


class _Feedback(msgspec.Struct, rename="camel"):
    block_reason: str | None = None


class _Chunk(msgspec.Struct, rename="camel"):
    candidates: list[_Candidate] = []
    usage_metadata: _Counts | None = None
    prompt_feedback: _Feedback | None = None
    error: Any = None


class _Reader:
    def __init__(self, ids: CallIds) -> None:
        self._ids = ids
        self._has_calls = False
        self._reason: str | None = None
        self._counts: _Counts | None = None

    def read(self, document: bytes) -> list[ModelEvent]:
        chunk = decoded(document, _Chunk)
        if chunk.error:
            raise ReplyError(error_text(chunk.error))
        self._counts = chunk.usage_metadata or self._counts
        if chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason:
            self._reason = chunk.prompt_feedback.block_reason
        if not chunk.candidates:
            return []
        candidate = chunk.candidates[0]
        self._reason = candidate.finish_reason or self._reason
        parts = candidate.content.parts if candidate.content is not None else []
        return [event for part in parts for event in self._part(part)]

    def _part(self, part: _Part) -> Iterator[ModelEvent]:
        if part.text:
            yield ThinkingPart(part.text) if part.thought else TextPart(part.text)
        if (function := part.function_call) is not None:
            self._has_calls = True
            arguments, problem = read_arguments(function.args)
            fields = {"id": function.id, "thoughtSignature": part.thought_signature}
            data = {name: value for name, value in fields.items() if value is not None}
            call = Call(
                self._ids.give(function.id),
                function.name,
                arguments,
                problem,
                {_DATA: data} if data else None,
            )
            yield CallPart(call)

    def end(self) -> list[ModelEvent]:
        if self._reason is None:
            raise ReplyError(CUT)
        if self._reason in _BROKEN:
            raise ReplyError(f"the model gave no usable reply ({self._reason})")
        usage: list[ModelEvent] = []
        if (counts := self._counts) is not None:
            parts = [counts.candidates_token_count, counts.thoughts_token_count]
            reply = None if parts == [None, None] else sum(part or 0 for part in parts)
            usage.append(Usage(counts.prompt_token_count, reply))
        return [*usage, self._finish()]

    def _finish(self) -> Finish:
        if self._reason == "MAX_TOKENS":
            return Finish("cut")
        if self._reason not in _ENDS:
            return Finish("refused")  # SAFETY, RECITATION and the other filters
        return Finish("calls" if self._has_calls else "complete")
