"""What a conversation consists of, in no provider's dialect: messages, calls, tools, events of replies."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable


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


@dataclass(frozen=True, slots=True)
class TextPart:
    """A piece of the reply's text, as soon as it arrives."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingPart:
    """A piece of what the model thinks aloud; shown dim, never sent back."""

    text: str


@dataclass(frozen=True, slots=True)
class CallPart:
    """One whole tool call."""

    call: Call


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counted them; None where it says nothing."""

    prompt_tokens: int | None
    reply_tokens: int | None


@dataclass(frozen=True, slots=True)
class Finish:
    """The reply's end, always the last event. `cut` means that the reply reached a limit of length."""

    reason: Literal["complete", "calls", "cut", "refused"]


ModelEvent = TextPart | ThinkingPart | CallPart | Usage | Finish


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What the model is asked in one round. `context_tokens`: its window, where it can be chosen."""

    model: str
    messages: Sequence[Message]
    tools: Sequence[Tool] = ()
    stream: bool = True
    context_tokens: int | None = None


class ProviderFailure(Exception):
    """The provider gave no whole reply: `cause` in words for a person, `next_step` what to do."""

    def __init__(self, provider: str, cause: str, next_step: str) -> None:
        super().__init__(f"{provider}: {cause}; {next_step}")
        self.provider = provider
        self.cause = cause
        self.next_step = next_step


class Provider(Protocol):
    """A model server in one dialect."""

    name: str

    def reply(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Ask for one reply. Closing the iterator ends the request. Raises ProviderFailure."""
        ...


@dataclass(frozen=True, slots=True)
class ModelWindow:
    """The context window of a model in tokens.

    `largest` is the most that the model can have, None if unknown. `chosen` tells that each request chooses
    the window by `context_tokens`, as at Ollama; otherwise the window is `largest`.
    """

    largest: int | None
    chosen: bool = False


@runtime_checkable
class WindowSource(Protocol):
    """A provider that knows the context windows of its models."""

    async def context_window(self, model: str) -> ModelWindow | None:
        """The window of a model, None if the provider does not say. Never raises, and remembers."""
        ...
