"""Defines tools, prompts and resources as sources describe them, and the outcomes and errors of a call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from protocol.errors import Refusal

Visibility = Literal["native", "ondemand", "always"]
TaskUse = Literal["forbidden", "optional", "required"]
"""Whether a call may become a task; a required one has no other way (SEP-2663)."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool as its source defines it.

    `definition` is the tool object of `tools/list` (name, description, inputSchema, …) with every member
    the source gave, unknown ones included; `name` repeats its name for lookups.

    Attributes:
        keywords: words for `tool_search` only.
        timeout_s: the longest one call may take; None for the server's default.
        asks: whether a person is asked before every call unless the user allowed it.
        rated: whether calls are rate limited.
        fingerprint: what exactly runs, so that an approval is for this content only.
        task: whether a call may go on as a task, for clients that know tasks.
    """

    name: str
    definition: Mapping[str, Any]
    visibility: Visibility = "native"
    keywords: tuple[str, ...] = ()
    timeout_s: float | None = None
    asks: bool = False
    rated: bool = False
    fingerprint: str = ""
    task: TaskUse = "forbidden"

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
class Entry:
    """One prompt, resource or resource template as its source defines it.

    Attributes:
        name: what it is asked for by: a prompt's name, a resource's `uri`, a template's `uriTemplate`.
        definition: its object in the list with every member the source gave, unknown ones included.
        original: what the source itself calls it.
    """

    name: str
    definition: Mapping[str, Any]
    original: str


@dataclass(frozen=True, slots=True)
class Extras:
    """What a source offers beside tools, each in the order of its list."""

    prompts: tuple[Entry, ...] = ()
    resources: tuple[Entry, ...] = ()
    templates: tuple[Entry, ...] = ()


class ToolResult(msgspec.Struct, frozen=True):
    """A `CallToolResult` that we author ourselves.

     `text` becomes one text block in front of `blocks`; `structured` becomes `structuredContent`, any JSON
     value. `verbatim`: the text is content somebody asked for and keeps every character that can be sent
    .
    """

    text: str
    structured: Any = None
    is_error: bool = False
    blocks: tuple[Mapping[str, Any], ...] = ()
    meta: Mapping[str, Any] = msgspec.field(default_factory=dict)
    verbatim: bool = False


@dataclass(frozen=True, slots=True)
class RpcError:
    """A third party's JSON-RPC error, which its caller gets unchanged. `data` is its JSON text."""

    code: int
    message: str
    data: msgspec.Raw | None = None


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

    `pointer` is the JSON pointer of the offending argument, e.g. `/filePath`.
    """

    def __init__(self, pointer: str, message: str) -> None:
        super().__init__(f"{pointer}: {message}")
        self.pointer = pointer
        self.message = message


CallOutcome = ToolResult | msgspec.Raw | RpcError | Refusal
"""What a call gives: a result we author, the bytes of a third party's `CallToolResult`, passed on untouched,
its JSON-RPC error, or our refusal."""
