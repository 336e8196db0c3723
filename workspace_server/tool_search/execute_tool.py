"""The tool `execute_tool`: takes the call inside its arguments out, byte for byte. Pure.

It decides nothing about the tool that is named; the call goes on as if it had come directly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from protocol import jsonrpc
from protocol.errors import Reason, Refusal
from workspace_server.tool import Tool, ToolResult
from workspace_server.tool_search.definitions import EXECUTE_TOOL

NAME: Final = "execute_tool"
MAX_SHOWN: Final = 128
"""Characters of an unknown name that are repeated."""
_ARGUMENTS: Final = ("arguments", "parameters")
"""What models call them; the first that is given counts."""


@dataclass(frozen=True, slots=True)
class Unwrapped:
    """The call inside: the tool's name, and the JSON text of its arguments, always an object."""

    name: str
    arguments: msgspec.Raw


@dataclass(frozen=True, slots=True)
class Misfit:
    """An argument of `execute_tool` that cannot be served: where (JSON pointer), what to write instead."""

    pointer: str
    keyword: str
    message: str


@dataclass(frozen=True, slots=True)
class NoName:
    """The call names no tool."""


Problem = Misfit | NoName


def unwrap(arguments: msgspec.Raw) -> Unwrapped | Problem:
    """The call inside the arguments of `execute_tool`, given as JSON text.

    One `execute_tool` inside another is unwrapped, too; a third is refused.
    """
    outer = _unwrap(arguments, "")
    if not isinstance(outer, Unwrapped) or outer.name != NAME:
        return outer
    inner = _unwrap(outer.arguments, f"/{_given(jsonrpc.members_of(arguments))}")
    if isinstance(inner, Unwrapped) and inner.name == NAME:
        return Misfit("/name", "not", f"{NAME} inside {NAME} inside {NAME}; name the tool itself")
    return inner


def _unwrap(arguments: msgspec.Raw, pointer: str) -> Unwrapped | Problem:
    members = jsonrpc.members_of(arguments)
    name = members.get("name", msgspec.Raw(b"null"))
    text = jsonrpc.text_of(name)
    if text is None and jsonrpc.bytes_of(name) != b"null":
        return Misfit(f"{pointer}/name", "type", "expected string, the name of a tool")
    if text is None or not text.strip():
        return NoName()
    given = _given(members)
    inner = _object(members.get(given, msgspec.Raw(b"{}")))
    if inner is None:
        return Misfit(f"{pointer}/{given}", "type", "expected object with the arguments of the tool")
    return Unwrapped(text, inner)


def _given(members: Mapping[str, msgspec.Raw]) -> str:
    present = (key for key in _ARGUMENTS if key in members and jsonrpc.bytes_of(members[key]) != b"null")
    return next(present, "")


def _object(value: msgspec.Raw) -> msgspec.Raw | None:
    """The bytes of an object, or those in a string that is the JSON text of one."""
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


def problem_result(problem: Problem) -> ToolResult:
    """The answer to a call that names no tool or has arguments of the wrong form."""
    if isinstance(problem, NoName):
        refusal = Refusal(
            Reason.INVALID_ARGUMENTS,
            "Tool name is required",
            f"use tool_search to discover available tools, then call {NAME} with the name of one",
        )
        return _refused(refusal)
    # loaded when needed: the validator takes a library that most processes never need
    from workspace_server.schemas import validation  # noqa: PLC0415

    told = validation.ArgumentProblem(problem.pointer, problem.keyword, problem.message)
    return validation.invalid_arguments_result(Tool(NAME, EXECUTE_TOOL), [told])


def not_found(name: str, nearest: Sequence[str]) -> ToolResult:
    """The answer to a name no callable tool has; `nearest` are at most five callable ones like it."""
    shown = name if len(name) <= MAX_SHOWN else f"{name[: MAX_SHOWN - 1]}…"
    message = f"Tool not found: {shown}. Use tool_search to discover available tools."
    step = "search for what the tool should do"
    if nearest:
        message += f" Near matches: {', '.join(nearest)}"
        step = f"call {NAME} again with one of the near matches if that was meant, or {step}"
    return _refused(
        Refusal(Reason.TOOL_NOT_FOUND, message.rstrip("."), step, details={"nearest": list(nearest)})
    )


def _refused(refusal: Refusal) -> ToolResult:
    wire = refusal.as_tool_result()
    return ToolResult(refusal.text, wire["structuredContent"], is_error=True)
