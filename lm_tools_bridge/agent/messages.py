"""What a conversation consists of, in no provider's dialect: messages, calls, results, tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that the model may call: its name at its source, and its JSON Schema unchanged.

    `annotations` are those of MCP (`readOnlyHint`, `destructiveHint` …), empty where the source gives none.
    """

    name: str
    description: str
    input_schema: Mapping[str, Any]
    annotations: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call of a reply.

    `arguments` is None if the model sent no JSON object; `problem` then tells the model why.
    `id` is unique in its conversation: the adapter makes one where the provider gave none or one twice.
    `provider_data` is what the provider wants back with the call unchanged, such as a signature of Gemini.
    """

    id: str
    name: str
    arguments: Mapping[str, Any] | None
    problem: str | None = None
    provider_data: Any = None


@dataclass(frozen=True, slots=True)
class Result:
    """What a call gave: the text for the model, and the content blocks of MCP as they came.

    `code` is the code of a refusal (`lm_tools_bridge/protocol/errors.py`) or of a JSON-RPC error, None
    otherwise.
    """

    call_id: str
    name: str
    text: str
    is_error: bool = False
    content: Sequence[Mapping[str, Any]] = ()
    code: int | None = None


@dataclass(frozen=True, slots=True)
class SystemMessage:
    """Instructions; always the first message of a request."""

    text: str


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What the person said, or a summary that takes the place of older messages."""

    text: str


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """One reply of the model: its text and its calls, in its order."""

    text: str
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolMessage:
    """The result of one call; follows the reply that holds the call, in the order of its calls."""

    result: Result


Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage
