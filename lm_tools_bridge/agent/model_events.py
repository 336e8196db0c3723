"""The events of a model's reply while it arrives, the same for every provider, and how one fails."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from lm_tools_bridge.agent.messages import Call, Message, Tool


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
