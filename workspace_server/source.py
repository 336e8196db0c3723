"""What a tool source is: the words every origin of tools is described in.

A *source* (the built-ins, a script folder, a stdio server, a remote server) offers tools and calls them.
This file holds the shapes only. Merging sources is `registry.py`; serving them is `methods.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import msgspec

Visibility = Literal["native", "ondemand", "always"]
SourceState = Literal["starting", "ready", "failed", "pending_trust", "disabled"]


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool as its source defines it.

    `definition` is the tool object of `tools/list` (name, description, inputSchema, …) with every member
    the source gave, unknown ones included; `name` repeats its name for lookups.
    """

    name: str
    definition: Mapping[str, Any]
    visibility: Visibility = "native"
    keywords: tuple[str, ...] = ()

    @property
    def description(self) -> str:
        """The description, or an empty string."""
        return str(self.definition.get("description") or "")

    @property
    def input_schema(self) -> Mapping[str, Any]:
        """The JSON Schema of the arguments."""
        schema: Mapping[str, Any] = self.definition["inputSchema"]
        return schema


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A `CallToolResult` that we author ourselves.

    `text` becomes one text block in front of `blocks`; `structured` becomes `structuredContent`. `verbatim`:
    the text is content somebody asked for and keeps every character that can be sent (T-129).
    """

    text: str
    structured: Mapping[str, Any] | None = None
    is_error: bool = False
    blocks: tuple[Mapping[str, Any], ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)
    verbatim: bool = False


class ToolError(Exception):
    """A tool could not do what was asked; the message is written for the model that called it.

    `structured` is what a machine should see of it (pointer, cause, candidates …).
    """

    def __init__(self, message: str, structured: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.structured = structured


class InvalidArguments(Exception):
    """Arguments that fit the schema but not the world (a path outside the workspace, a bad glob).

    `pointer` is the JSON pointer of the offending argument, e.g. `/filePath`. Answered as T-172.
    """

    def __init__(self, pointer: str, message: str) -> None:
        super().__init__(f"{pointer}: {message}")
        self.pointer = pointer
        self.message = message


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a call knows beside its arguments.

    `progress(done, total, message)` sends one progress notification to the caller, or does nothing when
    the caller gave no token.
    """

    progress: Callable[[float, float | None, str | None], Awaitable[None]]


CallOutcome = ToolResult | msgspec.Raw
"""What a call gives: a result we author, or the bytes of a third party's result, passed on untouched."""


class Source(Protocol):
    """One origin of tools. Implementations never raise from `list_tools`; they report through `state`."""

    @property
    def id(self) -> str:
        """Stable and unique within the workspace, e.g. `builtin`."""

    @property
    def kind(self) -> str:
        """`builtin`, `script`, `stdio`, `remote`, `language-server` or `editor`."""

    @property
    def namespace(self) -> str | None:
        """Prefix of the tool names, or None where tools keep their bare names."""

    @property
    def state(self) -> SourceState:
        """Whether the source answers."""

    @property
    def error(self) -> str | None:
        """Why it does not, in words for a person; None while all is well."""

    async def list_tools(self) -> Sequence[Tool]:
        """All tools of the source, from its cache where that saves time."""

    async def call_tool(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
        """Run the tool by its own (not namespaced) name.

        Cancelling the task cancels the work.

        Raises:
            ToolError: the tool failed in a way its caller should read.
            InvalidArguments: an argument cannot be served.
        """

    async def close(self) -> None:
        """Release everything the source started. Idempotent."""
