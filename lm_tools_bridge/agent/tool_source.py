"""Defines where tools come from: a source lists them and runs their calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from lm_tools_bridge.agent.messages import Tool


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a tool gave: content blocks of MCP, and the code of the refusal or error, if it was one.

    Protocol errors, refusals, time-outs and lost connections are outcomes with `is_error`, whose text ends in
    the next step where there is one. `delivered` is False if the tool certainly did not run.
    """

    content: Sequence[Mapping[str, Any]]
    is_error: bool = False
    code: int | None = None
    structured: Any = None
    delivered: bool = True


def text_outcome(
    text: str, *, is_error: bool = False, code: int | None = None, delivered: bool = True
) -> Outcome:
    """An outcome of one block of text."""
    return Outcome(({"type": "text", "text": text},), is_error, code, delivered=delivered)


@dataclass(frozen=True, slots=True)
class SourceState:
    """How a source is: `ready`, `starting` or `unavailable`, and for a person why and what to do."""

    name: str
    state: str
    detail: str = ""


class ToolSource(Protocol):
    """A set of tools. Only one task at a time uses it, but `call` may be cancelled at any moment."""

    name: str

    async def list_tools(self) -> Sequence[Tool]:
        """The tools as they are now, quickly where nothing changed; empty where the source is unavailable."""
        ...

    async def call(
        self, name: str, arguments: Mapping[str, Any], on_progress: Callable[[str], None]
    ) -> Outcome:
        """Run one tool. Cancelling the task cancels the call at its server; nothing is left running."""
        ...

    def state(self) -> SourceState:
        """How the source is now, as last seen."""
        ...

    async def close(self) -> None:
        """End what the source runs or holds open."""
        ...


@runtime_checkable
class RefusesCalls(Protocol):
    """A source that knows of some calls before anybody is asked that it will not run them."""

    def refusal(self, name: str, arguments: Mapping[str, Any]) -> Outcome | None:
        """What such a call gives; None if it may run."""
        ...


def refusal_of(source: ToolSource, name: str, arguments: Mapping[str, Any]) -> Outcome | None:
    """What a call gives that its source will not run whatever a person says; None for all others."""
    return source.refusal(name, arguments) if isinstance(source, RefusesCalls) else None


@runtime_checkable
class TellsChanges(Protocol):
    """A source that tells when its tools may have changed, while it is connected."""

    def on_change(self, handler: Callable[[], None]) -> Callable[[], None]:
        """Call `handler` after each change; returns a function that ends this."""
        ...


def on_change_of(source: ToolSource, handler: Callable[[], None]) -> Callable[[], None]:
    """Call `handler` after each change that a source tells; returns a function that ends this."""
    return source.on_change(handler) if isinstance(source, TellsChanges) else lambda: None


@runtime_checkable
class LimitsCalls(Protocol):
    """A source that may limit the time of its calls itself, without the time in which a person is asked."""

    @property
    def limits_calls(self) -> bool:
        """Whether it does."""
        ...


def limits_calls(source: ToolSource) -> bool:
    """Whether a source limits the time of its calls itself."""
    return isinstance(source, LimitsCalls) and source.limits_calls
