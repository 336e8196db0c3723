"""Defines tools, prompts and resources as sources describe them, and the outcomes and errors of a call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from lm_tools_bridge.protocol.errors import Refusal

Visibility = Literal["native", "ondemand", "always"]
TaskUse = Literal["forbidden", "optional", "required"]
"""Whether a call may become a task; a required one has no other way (SEP-2663)."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool as its source defines it.

    `definition` is the tool object of `tools/list` (name, description, inputSchema, …) with every member
    the source gave, unknown ones included. `name` repeats its name for lookups.

    Attributes:
        keywords: words for `tool_search` only.
        unlisted: why lists leave it out for now, unless the user chose its visibility; empty if they do not.
            It can be called all the same.
        timeout_s: limit of one call in seconds; None for the server's default.
        requires_approval: whether a person approves every call unless the user allowed the tool.
        harmless: arguments with which a call changes nothing, so that nobody has to approve it; an argument
            that a call leaves out counts with its default. Empty: each call needs approval.
        rate_limited: whether calls are rate limited.
        fingerprint: identifies the content that runs; an approval holds for this content only.
        task: whether a call may become a task, for clients that support tasks.
        checks_arguments: whether the input schema says all that the source demands of arguments.
    """

    name: str
    definition: Mapping[str, Any]
    visibility: Visibility = "native"
    keywords: tuple[str, ...] = ()
    timeout_s: float | None = None
    requires_approval: bool = False
    harmless: Mapping[str, Any] = field(default_factory=dict)
    rate_limited: bool = False
    fingerprint: str = ""
    task: TaskUse = "forbidden"
    unlisted: str = ""
    checks_arguments: bool = True

    @property
    def description(self) -> str:
        """The description, or an empty string."""
        return str(self.definition.get("description") or "")

    @property
    def input_schema(self) -> Mapping[str, Any]:
        """The JSON Schema of the arguments."""
        schema: Mapping[str, Any] = self.definition["inputSchema"]
        return schema

    def is_harmless(self, arguments: Mapping[str, Any]) -> bool:
        """Whether a call with these arguments changes nothing, by `harmless`."""
        properties = self.input_schema.get("properties", {})
        return bool(self.harmless) and all(
            arguments.get(name, properties.get(name, {}).get("default")) == value
            for name, value in self.harmless.items()
        )


@dataclass(frozen=True, slots=True)
class Entry:
    """One prompt, resource, resource template or skill as its source defines it.

    Attributes:
        name: the key of requests for it: a prompt's name, a resource's or skill's `uri`, a template's
            `uriTemplate`.
        definition: its object in the list with every member the source gave, unknown ones included.
        original: the source's own name for it.
    """

    name: str
    definition: Mapping[str, Any]
    original: str


@dataclass(frozen=True, slots=True)
class SourceOfferings:
    """The prompts, resources, resource templates and skills of a source, each in the order of its list."""

    prompts: tuple[Entry, ...] = ()
    resources: tuple[Entry, ...] = ()
    templates: tuple[Entry, ...] = ()
    skills: tuple[Entry, ...] = ()


class ToolResult(msgspec.Struct, frozen=True):
    """A `CallToolResult` that this program writes itself.

    Attributes:
        text: the first text block.
        structured: the `structuredContent`, any JSON value.
        is_error: the `isError` member.
        blocks: content blocks after the text.
        meta: the `_meta` member.
        verbatim: whether the text keeps every character that can be sent, because the caller requested it.
    """

    text: str
    structured: Any = None
    is_error: bool = False
    blocks: tuple[Mapping[str, Any], ...] = ()
    meta: Mapping[str, Any] = msgspec.field(default_factory=dict)
    verbatim: bool = False


@dataclass(frozen=True, slots=True)
class RpcError:
    """The JSON-RPC error of another server, passed on unchanged. `data` is its JSON text."""

    code: int
    message: str
    data: msgspec.Raw | None = None


class ToolError(Exception):
    """A tool failed. The message is written for the model that called it.

    `structured` holds the details for programs (pointer, cause, candidates …).
    """

    def __init__(self, message: str, structured: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.structured = structured


class InvalidArguments(Exception):
    """Arguments that fit the schema but cannot be served (a path outside the workspace, a bad glob).

    `pointer` is the JSON pointer of the offending argument, e.g. `/filePath`.
    """

    def __init__(self, pointer: str, message: str) -> None:
        super().__init__(f"{pointer}: {message}")
        self.pointer = pointer
        self.message = message


CallOutcome = ToolResult | msgspec.Raw | RpcError | Refusal
"""The outcome of a call: our own result, another server's result as untouched JSON text, its JSON-RPC error,
or our refusal."""
