"""Defines the meta-tools: what lists show, which clients were shown them, the call in `execute_tool`.

Clients with a tool of their own named `tool_search` are shown ours under another name; calls by either name
work for all. The meta-tools must not vanish under a model. A stateless request names its client program, but
no session: what one session of a program was shown stays listed for all of them, also after a restart of this
process. The inner call is taken out of the arguments of `execute_tool` byte for byte.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from lm_tools_bridge.machine import private_files
from lm_tools_bridge.protocol import jsonrpc
from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.internal.client_traits import ClientTraits
from workspace_server.tool import Tool, ToolResult

KEPT_S: Final = 7 * 24 * 3600.0
"""How long they stay after the last need: agents are left open for days."""
SAVE_S: Final = 3600.0
"""A need is saved again only after so long: a list must not cost a file each time."""
MAX_CLIENTS: Final = 64
"""Names of clients that are remembered; these are the callers' input."""
# With `MAX_CLIENTS` names of this length the file stays below `_MAX_BYTES`.
_MAX_NAME: Final = 100
_MAX_BYTES: Final = 64 * 1024


class KeptMetaTools:
    """The clients that were shown the meta-tools.

    Args:
        file: where they are remembered; None for this process only. Its folder is made when needed.
        wall: seconds since 1970.
    """

    def __init__(self, file: Path | None = None, wall: Callable[[], float] = time.time) -> None:
        self._file = file
        self._wall = wall
        self._needed_at: dict[str, float] | None = None

    async def keeps(self, client: str, *, is_needed: bool) -> bool:
        """Whether the client's list has the meta-tools; `is_needed` says that it needs them now."""
        if self._needed_at is None:
            loaded = await asyncio.to_thread(self._load)
            self._needed_at = loaded if self._needed_at is None else self._needed_at
        client, now = client[:_MAX_NAME], self._wall()
        needed_at = self._needed_at.get(client, 0.0)
        if not is_needed:
            return now - needed_at < KEPT_S
        if abs(now - needed_at) >= SAVE_S:
            self._needed_at.pop(client, None)
            self._needed_at[client] = now
            if len(self._needed_at) > MAX_CLIENTS:
                del self._needed_at[min(self._needed_at, key=self._needed_at.__getitem__)]
            await asyncio.to_thread(self._save, dict(self._needed_at))
        return True

    def _load(self) -> dict[str, float]:
        if self._file is None:
            return {}
        try:
            return msgspec.json.decode(
                private_files.read(self._file, _MAX_BYTES) or b"{}", type=dict[str, float]
            )
        except (OSError, private_files.UnsafePathError, msgspec.DecodeError, UnicodeDecodeError):
            return {}  # it only saves a model a surprise

    def _save(self, needed_at: dict[str, float]) -> None:
        if self._file is None:
            return
        with suppress(OSError, private_files.UnsafePathError):
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            private_files.write(self._file, msgspec.json.encode(needed_at), durable=False)


EXECUTE: Final = "execute_tool"
SEARCH: Final = "tool_search"
OTHER_SEARCH: Final = "search_project_tools"
"""The name of `tool_search` for clients whose own tool has that name."""
SEARCH_NAMES: Final = frozenset({SEARCH, OTHER_SEARCH})
META_NAMES: Final = SEARCH_NAMES | {EXECUTE}

# Five definitions are some thousand tokens, which a model reads with each search.
DEFAULT_RESULTS: Final = 5
MAX_RESULTS: Final = 100

TOOL_SEARCH: Final[dict[str, Any]] = {
    "name": SEARCH,
    "title": "Search tools",
    "description": (
        "Find tools of this server by what they do. Many that can be called are not listed: search before "
        "you conclude that something cannot be done. Each hit has the tool's name, description, score (1 is "
        "best) and inputSchema; call it with execute_tool, or directly by its name. A few telling words work "
        'best; typing errors are forgiven. Example: {"query": "send email"}'
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "description": "Empty: all tools.",
            },
            "max_results": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_RESULTS,
                "default": DEFAULT_RESULTS,
            },
        },
    },
    "annotations": {"readOnlyHint": True, "openWorldHint": False},
}

EXECUTE_TOOL: Final[dict[str, Any]] = {
    "name": EXECUTE,
    "title": "Call a tool",
    "description": (
        "Call any tool by its name, as tool_search reports it, whether it is listed or not. The answer is "
        "exactly what the tool itself would answer. Look at the tool's inputSchema first. "
        'Example: {"name": "memory__search_nodes", "arguments": {"query": "Ada"}}'
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "arguments": {
                "type": "object",
                "description": "As its inputSchema wants them.",
                "additionalProperties": True,
            },
        },
        "required": ["name"],
    },
}

_ALONE: Final = (
    "Call any tool by its exact name, whether it is listed or not, also one that came after the list was "
    "made. The answer is exactly what the tool itself would answer. To find a name, call this with the name "
    '`{search}` and the arguments `{{"query": "what the tool should do"}}`.'
)


def search_name(traits: ClientTraits) -> str:
    """The name under which a client is shown `tool_search`."""
    return OTHER_SEARCH if traits.own_tool_search else SEARCH


def meta_tools(traits: ClientTraits) -> Sequence[Mapping[str, Any]]:
    """Both meta-tools, for a client that does not have all tools in its list."""
    if not traits.own_tool_search:
        return EXECUTE_TOOL, TOOL_SEARCH
    described = EXECUTE_TOOL["description"].replace(SEARCH, OTHER_SEARCH)
    return {**EXECUTE_TOOL, "description": described}, {**TOOL_SEARCH, "name": OTHER_SEARCH}


def execute_alone(traits: ClientTraits) -> Mapping[str, Any]:
    """`execute_tool` for a client that has all tools there are now, and cannot learn of later ones."""
    return {**EXECUTE_TOOL, "description": _ALONE.format(search=search_name(traits))}


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
