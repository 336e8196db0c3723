"""Unwraps calls of `execute_tool`: takes the inner call out of the arguments, byte for byte. Pure.

The inner call then runs as if the client had made it directly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc
from lm_tools_bridge.protocol.errors import Reason, Refusal
from workspace_server.tool import Tool, ToolResult
from workspace_server.tool_search.definitions import EXECUTE, EXECUTE_TOOL, SEARCH

MAX_SHOWN: Final = 128
"""How many characters of an unknown name are shown."""
_ARGUMENTS: Final = ("arguments", "parameters")
"""Names that models use for this argument; the first one given counts."""


@dataclass(frozen=True, slots=True)
class Unwrapped:
    """The inner call: the tool's name, and its arguments as JSON text of an object."""

    name: str
    arguments: msgspec.Raw


@dataclass(frozen=True, slots=True)
class InvalidArgument:
    """An invalid argument of `execute_tool`: its JSON pointer, and what is expected there."""

    pointer: str
    keyword: str
    message: str


@dataclass(frozen=True, slots=True)
class MissingName:
    """The call names no tool."""


Problem = InvalidArgument | MissingName


def unwrap(arguments: msgspec.Raw) -> Unwrapped | Problem:
    """The inner call in the arguments of `execute_tool`, which are given as JSON text.

    An inner `execute_tool` is unwrapped as well; a third one is refused.
    """
    outer = _unwrap(arguments, "")
    if not isinstance(outer, Unwrapped) or outer.name != EXECUTE:
        return outer
    inner = _unwrap(outer.arguments, f"/{_arguments_key(jsonrpc.members_of(arguments))}")
    if isinstance(inner, Unwrapped) and inner.name == EXECUTE:
        text = f"{EXECUTE} inside {EXECUTE} inside {EXECUTE}; name the tool itself"
        return InvalidArgument("/name", "not", text)
    return inner


def _unwrap(arguments: msgspec.Raw, pointer: str) -> Unwrapped | Problem:
    members = jsonrpc.members_of(arguments)
    name = members.get("name", msgspec.Raw(b"null"))
    text = jsonrpc.text_of(name)
    if text is None and jsonrpc.bytes_of(name) != b"null":
        return InvalidArgument(f"{pointer}/name", "type", "expected string, the name of a tool")
    if text is None or not text.strip():
        return MissingName()
    arguments_key = _arguments_key(members)
    inner = _object(members.get(arguments_key, msgspec.Raw(b"{}")))
    if inner is None:
        return InvalidArgument(
            f"{pointer}/{arguments_key}", "type", "expected object with the arguments of the tool"
        )
    return Unwrapped(text, inner)


def _arguments_key(members: Mapping[str, msgspec.Raw]) -> str:
    present = (key for key in _ARGUMENTS if key in members and jsonrpc.bytes_of(members[key]) != b"null")
    return next(present, "")


def _object(value: msgspec.Raw) -> msgspec.Raw | None:
    """The bytes of an object; a string that contains JSON text of an object counts too."""
    text = jsonrpc.text_of(value)
    if text is None:
        return value if jsonrpc.bytes_of(value)[:1] == b"{" else None
    try:
        written = text.encode()
        msgspec.json.decode(written, type=dict[str, msgspec.Raw])
        msgspec.json.decode(written)
    except (ValueError, RecursionError):
        return None
    return msgspec.Raw(written.strip())


def problem_result(problem: Problem, search: str = SEARCH) -> ToolResult:
    """The answer to a call that names no tool or has invalid arguments.

    Args:
        problem: what is wrong.
        search: the name of the search tool for this client.
    """
    if isinstance(problem, MissingName):
        refusal = Refusal(
            Reason.INVALID_ARGUMENTS,
            "Tool name is required",
            f"use {search} to discover available tools, then call {EXECUTE} with the name of one",
        )
        return _refused(refusal)
    # loaded when needed: most processes never need the schema library
    from workspace_server.schemas import validation

    invalid = validation.ArgumentProblem(problem.pointer, problem.keyword, problem.message)
    return validation.invalid_arguments_result(Tool(EXECUTE, EXECUTE_TOOL), [invalid])


def not_found(name: str, nearest: Sequence[str], search: str = SEARCH) -> ToolResult:
    """The answer to an unknown name; `nearest` are up to five similar callable names."""
    shortened = name if len(name) <= MAX_SHOWN else f"{name[: MAX_SHOWN - 1]}…"
    message = f"Tool not found: {shortened}. Use {search} to discover available tools."
    step = "search for what the tool should do"
    if nearest:
        message += f" Near matches: {', '.join(nearest)}"
        step = f"call {EXECUTE} again with one of the near matches if that was meant, or {step}"
    return _refused(
        Refusal(Reason.TOOL_NOT_FOUND, message.rstrip("."), step, details={"nearest": list(nearest)})
    )


def _refused(refusal: Refusal) -> ToolResult:
    wire = refusal.as_tool_result()
    return ToolResult(refusal.text, wire["structuredContent"], is_error=True)
